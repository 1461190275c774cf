"""Read the times that others measured or simulated packet by packet, to compare netsim with.

Each reader takes the files of the publisher; `netsim data list` says where to get them.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.reading import Line, lines_of, read_bytes
from netsim.errors import TraceError


class M3Scenario(NamedTuple):
    """Flows on a path of three hosts, and the times that they took in two simulators."""

    control: str  #: congestion control in ns-3, such as ``"dctcp"``
    start_s: Floats  #: the earliest is 0
    src: Ints  #: hosts 0 to 2
    dst: Ints
    nbytes: Floats  #: payload
    observed: Ints  #: indices of the flows that the next three arrays are about
    maxmin_s: Floats  #: under max-min sharing, without latency
    alone_s: Floats  #: in an empty network, with latency
    packets_s: Floats  #: in ns-3


#: Arrays of a scenario: name in an archive, file in a folder, and the columns of each.
_ARRAYS = {"start_ns": ("fat", 0), "hosts": ("fsd", 2), "bytes": ("fsize", 0),
           "observed": ("fid_topo-pl-3_s0", 0), "flowsim_ns": ("fct_flowsim", 0),
           "ideal_ns": ("fct_i_topo-pl-3_s0", 0), "ns3_ns": ("fct_topo-pl-3_s0", 0)}
_SHARD = re.compile(r"shard(\d+)_\w+")


def read_m3(path: str | Path) -> list[M3Scenario]:
    """Read the scenarios of m3, in order of their numbers.

    `path` is the folder ``data`` of m3, with a folder ``shard<number>_...`` per scenario; or an
    archive (``.npz``) of their arrays, named ``<number>/start_ns`` and so on; or a folder with one
    such archive.
    """
    path = Path(path)
    archives = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    shards = {int(found[1]): folder for folder in sorted(path.glob("shard*"))
              if (found := _SHARD.fullmatch(folder.name))}
    if shards:
        return [_of_shard(shards[number]) for number in sorted(shards)]
    if len(archives) != 1:
        raise TraceError("has neither folders shard<number>_... nor one archive (.npz)", path)
    return _of_archive(archives[0])


def _of_shard(folder: Path) -> M3Scenario:
    param = folder / "param_topo-pl-3_s0.txt"
    lines = list(lines_of(param))
    if len(lines) < 2:
        raise TraceError("has no second line, whose fifth word is the congestion control", param)
    arrays = {name: _array(read_bytes(folder / f"{file}.npy"), folder / file)
              for name, (file, _) in _ARRAYS.items()}
    return _scenario(folder, lines[1].word(4, "the congestion control"), arrays)


def _of_archive(path: Path) -> list[M3Scenario]:
    """Read the scenarios of an archive; without pickles, which could run code."""
    parts: dict[int, dict[str, NDArray[np.generic]]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            for member in archive.namelist():
                found = re.fullmatch(r"(\d{1,9})/(\w+)\.npy", member)
                if found is None:
                    raise TraceError(f"{member!r} is not <number>/<name>.npy", path)
                parts.setdefault(int(found[1]), {})[found[2]] = _array(
                    archive.read(member), path / member)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise TraceError(f"is no archive that can be read: {error}", path) from error
    return [_scenario(path / str(number), str(parts[number].pop("control", "unknown")),
                      parts[number]) for number in sorted(parts)]


def _array(data: bytes, path: Path) -> NDArray[np.generic]:
    try:
        found: NDArray[np.generic] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise TraceError(f"is no array that can be read: {error}", path) from error
    return found


def _scenario(path: Path, control: str, arrays: dict[str, NDArray[np.generic]]) -> M3Scenario:
    """Check the arrays of a scenario, and convert nanoseconds to seconds."""
    for name, (file, columns) in _ARRAYS.items():
        if name not in arrays:
            raise TraceError(f"{name} ({file}) is missing", path)
        each = arrays[name]
        shape = (len(each), columns) if columns and each.ndim else each.shape[:1]
        if each.shape != shape or not each.size or each.dtype.kind not in "iuf":
            wanted = f"(flows, {columns})" if columns else "(flows,)"
            raise TraceError(f"{name} ({file}) must be numbers of shape {wanted}, not "
                             f"{each.dtype} of shape {each.shape}", path)
        if not np.isfinite(values := each.astype(np.float64)).all() or (values < 0).any():
            raise TraceError(f"{name} ({file}) must be finite and not negative", path)
    flows, observed = len(arrays["bytes"]), arrays["observed"].astype(np.int64)
    for name, count in (("start_ns", flows), ("hosts", flows), *(
            (each, len(observed)) for each in ("flowsim_ns", "ideal_ns", "ns3_ns"))):
        if len(arrays[name]) != count:
            raise TraceError(f"{name} has {len(arrays[name])} flows, not {count}", path)
    src, dst = arrays["hosts"].astype(np.int64).T
    if max(src.max(), dst.max()) > 2 or (src == dst).any():
        raise TraceError("hosts must be two different ones from 0 to 2", path)
    if observed.max() >= flows:
        raise TraceError(f"observed has flow {observed.max()}; there are {flows}", path)
    start, maxmin, alone, packets = (arrays[name].astype(np.float64) for name in (
        "start_ns", "flowsim_ns", "ideal_ns", "ns3_ns"))
    return M3Scenario(control, (start - start.min()) * 1e-9, src, dst,
                      arrays["bytes"].astype(np.float64), observed, maxmin * 1e-9, alone * 1e-9,
                      packets * 1e-9)


class HtsimRun(NamedTuple):
    """A run of htsim, as printed by its scripts."""

    title: str
    last_s: float  #: the largest completion time of a flow
    resent: float  #: retransmissions per new packet


_TITLE = "Experiment:"
_TAIL = re.compile(r"\[(?:PASS|FAIL)\] Tail FCT ([0-9]+(?:\.[0-9]*)?) us .*")
_SUMMARY = re.compile(r"Summary: New: ([0-9]{1,18}) Rtx: ([0-9]{1,18}) .*")


def read_htsim_results(path: str | Path) -> list[HtsimRun]:
    """Read the output of htsim's scripts; each run must have its time and its summary."""
    blocks: list[list[Line]] = []
    for line in lines_of(path):
        if line.words[0] == _TITLE:
            blocks.append([])
        if blocks:
            blocks[-1].append(line)
    if not blocks:
        raise TraceError(f"has no line '{_TITLE} ...', which begins a run", path)
    return [_run(block) for block in blocks]


def _run(block: list[Line]) -> HtsimRun:
    title = block[0]
    found = {}
    for what in (_TAIL, _SUMMARY):
        found[what] = next(filter(None, (what.fullmatch(" ".join(line.words)) for line in block)),
                           None)
    tail, summary = found[_TAIL], found[_SUMMARY]
    if tail is None:
        title.refuse("the run has no line '[PASS] Tail FCT ... us ...'")
    if summary is None or not int(summary[1]):
        title.refuse("the run has no line 'Summary: New: ... Rtx: ...' with packets")
    return HtsimRun(" ".join(title.words[1:]), float(tail[1]) * 1e-6,
                    int(summary[2]) / int(summary[1]))


def find_file(folder: str | Path, *names: str) -> Path:
    """Find the first file with one of the given names, in a folder or below it."""
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
        if found := sorted(Path(folder).rglob(name)):
            return found[0]
    raise TraceError(f"has no file {' or '.join(names)}", folder)
