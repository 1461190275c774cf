"""Ready-made workloads and other workload files, and public traces to download.

A workload file is TOML that names a format and its options. Public traces are not part of netsim;
copies of those downloaded are kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netsim.base.files import atomic_write, read_bytes, ready_made_folder
from netsim.base.json_tree import parse_object
from netsim.base.reading import (
    Problem,
    TraceProblemsError,
    read_text,
    read_toml,
    ready_made_in,
    require_file,
)
from netsim.base.values import as_path
from netsim.errors import FetchError, MissingExtraError, OutputError, TraceError, UnknownNameError

if TYPE_CHECKING:
    from typing_extensions import Buffer


# --- ready-made workloads ------------------------------------------------------------------

_SUFFIXES = (".toml", ".json")

_EXPERIMENT = ("network", "cluster", "edge_cloud", "allocator")

#: Prefix of the formats of edge-cloud jobs, which `netsim.edge` reads.
_EDGE = "edge-"


def ready_made() -> dict[str, str]:
    """List the ready-made workloads: names to one-line descriptions, sorted by name.

    They are the workload files (``*.toml`` with a ``description``) and explicit instances
    (``*.json`` with a ``note``) in the folder ``workloads``. Experiments in this folder are not
    listed, nor are jobs of edge-clouds, for which see `netsim.edge.files`.
    """
    found = ready_made_in("workloads",
                          lambda table: not (_experiment_keys(table) or _is_edge(table)))
    for path in ready_made_folder("workloads").glob("*.json"):
        found[path.stem] = str(parse_object(read_text(path), path).get("note", ""))
    return dict(sorted(found.items()))


def locate(source: str | Path) -> Path:
    """Find the file of a workload that is given by name (if ready-made) or by path."""
    name = os.fspath(as_path(source, "source"))
    if isinstance(source, str) and name and Path(name).name == name:
        for suffix in _SUFFIXES:
            path = ready_made_folder("workloads") / (name + suffix)
            if os.path.isfile(path):
                return path
        if not (Path(name).suffix or os.path.exists(name)):
            raise UnknownNameError("workload", name, ready_made())
    return require_file(name)


def load_workload_file(path: Path) -> dict[str, Any]:
    """Read a workload file into a dict; refuse experiments, and jobs of edge-clouds."""
    table = read_toml(path)
    keys = _experiment_keys(table)
    if keys:
        message = f"an experiment (it has a [{keys[0]}] table), not a workload; run it instead"
        raise TraceProblemsError([Problem(None, message)], path)
    if _is_edge(table):
        raise TraceError("describes jobs of an edge-cloud; read it with netsim.read_edge_jobs",
                         path)
    return table


def _is_edge(table: dict[str, Any]) -> bool:
    return str(table.get("format", "")).startswith(_EDGE)


def _experiment_keys(table: dict[str, Any]) -> list[str]:
    return [key for key in _EXPERIMENT if key in table]


# --- public traces -------------------------------------------------------------------------

#: Limits of a download, many times what any of the traces needs.
_MOST_BYTES, _LONGEST_S = 100_000_000, 600.0

#: Timeout for the next bytes, and the number of bytes after which the limits are checked.
_WAIT_S, _CHUNK = 10.0, 64


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """A published file, or a set of files, that `fetch` can download."""

    summary: str
    url: str  #: of the file; for a set, of its folder
    licence: str  #: as its publisher states it, or ``"not stated"``
    #: Of the version that netsim is tested with; for a set, of what ``sha256sum`` prints for its
    #: files, in their order.
    sha256: str
    files: tuple[str, ...] = ()  #: of a set; paths relative to `url`

    @property
    def file(self) -> str:
        """The file's name; for a set, the number of its files."""
        return f"{len(self.files)} files" if self.files else self.url.rpartition("/")[2]


def _shards(count: int) -> tuple[str, ...]:
    """List the paths of m3's scenarios, with the names that they have there."""
    return tuple(f"shard{k}_nflows100_nhosts3_lr10Gbps/{name}" for k in range(count)
                 for name in ("fat.npy", "fid_topo-pl-3_s0.npy", "fsd.npy", "fsize.npy",
                              "fct_flowsim.npy", "fct_i_topo-pl-3_s0.npy", "fct_topo-pl-3_s0.npy",
                              "param_topo-pl-3_s0.txt"))


#: The results of the permutations of htsim.
_PERMUTATIONS = tuple(f"results/{rate}g_{control}{ratio}.txt" for rate in (200, 400)
                      for control in ("nscc", "rccc") for ratio in ("", "_4_to_1", "_8_to_1"))

#: The public traces by the name of the format that reads them, and the tables that netsim is
#: compared with by the name of the simulator or profiler.
PUBLIC_TRACES: Mapping[str, PublicTrace] = {
    "coflow-benchmark": PublicTrace(
        "an hour of a MapReduce cluster at Facebook: 526 coflows on 150 ports",
        "https://raw.githubusercontent.com/coflow/coflow-benchmark/master/FB2010-1Hr-150-0.txt",
        "not stated", "cdd0d94d26c6ab10ce3634cf6a0f836859578e914de6b6faa980a245237dbc6e"),
    "tiresias": PublicTrace(
        "60 training jobs of a GPU cluster at Microsoft: the trace of the Parrot paper",
        "https://raw.githubusercontent.com/SymbioticLab/Tiresias/master/simulator/60_job.csv",
        "Apache-2.0", "17575949a6e570960db42bc5576739de9c334ed4c664859841c4f01ede38bd1b"),
    "m3": PublicTrace(
        "50 scenarios of flows on a path, with their times in ns-3 and under max-min",
        "https://raw.githubusercontent.com/netiken/m3/"
        "894cd492c38a2f8ae713381493c1ffea030db80d/data",
        "not stated", "8931cfb2606942d353c67685e7b07a6dab17a2b7e5c53875189f99aec1a7cdac",
        _shards(50)),
    "htsim": PublicTrace(
        "incasts and permutations on 8,192 hosts, and the times that htsim printed",
        "https://raw.githubusercontent.com/spcl/HTSIM/"
        "8a33f33ee20669387041429816a07af7614f1230/htsim/sim/datacenter",
        "BSD-2-Clause", "3f8f9eb36ed66037f318158e70facb3201763cb9b2889d299e8b7171ce489702",
        (*_PERMUTATIONS, "results/experiment2_out.txt",
         *(f"connection_matrices/perm_8192n_8192c_{size}MB.cm" for size in (1, 16)))),
    "vidur": PublicTrace(
        "all-reduce and send/receive on a DGX H100, measured",
        "https://raw.githubusercontent.com/microsoft/vidur/"
        "7d47513363ec447a741ac5e47241580b47724fbf/data/profiling/network",
        "MIT", "c330fedb4a1b3c6841d905c6291736acd03e24d3af5df5c775885031e8d63502",
        ("h100_dgx/all_reduce.csv", "h100_dgx/send_recv.csv")),
}


def fetch(name: str, folder: str | Path | None = None, *, source: str | None = None,
          traces: Mapping[str, PublicTrace] = PUBLIC_TRACES) -> Path:
    """Download a public trace or set of tables, unless an unchanged copy exists already.

    Parameters
    ----------
    name : str
        One of `PUBLIC_TRACES`.
    folder : path-like, optional
        Folder for the file or the set's files; the user's cache if not given, in which a set has a
        folder of its own.
    source : str, optional
        A mirror: the URL of a folder that has a file of the same name, or the set's files.
    traces : mapping of str to PublicTrace
        The traces to choose from.

    Returns
    -------
    Path
        Absolute path of the file, or of the folder with a set's files.

    Raises
    ------
    UnknownNameError
        If there is no such trace.
    FetchError
        If the trace cannot be downloaded, or its digest differs.
    OutputError
        If the file cannot be written, or a copy cannot be read; or if another file of its name is
        in the given folder, which is left as it is. No partial file is left.
    MissingExtraError
        If pooch is needed but not installed.
    """
    if name not in traces:
        raise UnknownNameError("public trace", name, traces)
    trace = traces[name]
    files, url = trace.files, trace.url
    if not files:
        url, _, file = trace.url.rpartition("/")
        files = (file,)
    own = name if trace.files else ""  # the folder of a set in the cache
    target = Path(os.path.abspath(_cache() / own if folder is None else folder))
    found = target if trace.files else target / files[0]
    if _digest_of(trace, [_digest_of_file(target / file) for file in files]) == trace.sha256:
        return found
    url = (url if source is None else source).rstrip("/")
    # All files are downloaded before any is written, because the digest covers all of them.
    data = {target / file: _download(f"{url}/{file}") for file in files}
    _check_digest(trace, url, list(data.values()))
    if folder is not None:
        _refuse_others(data)
    for path, content in data.items():
        with atomic_write(path, folders=True) as temporary:
            temporary.write_bytes(content)
    return found


def _refuse_others(data: Mapping[Path, bytes]) -> None:
    """Refuse to replace files of a user's folder that are not what was downloaded."""
    for path, content in data.items():
        if _digest_of_file(path) not in (None, _digest(content)):
            raise OutputError(f"{path}: is another file than the public one, and is left as it "
                              "is; move it away, or give another folder")


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise MissingExtraError("pooch", "data") from None
    module: ModuleType = pooch
    return module


def _cache() -> Path:
    return Path(_pooch().os_cache("netsim"))


def _digest_of_file(path: Path) -> str | None:
    """Compute the digest of a file; None if it does not exist."""
    try:
        return _digest(read_bytes(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(trace: PublicTrace, digests: Sequence[str | None]) -> str | None:
    """Compute the digest of a trace, as in `PublicTrace.sha256`, from those of its files."""
    if not trace.files:
        return digests[0]
    lines = (f"{digest}  {file}\n" for file, digest in zip(trace.files, digests, strict=True))
    return _digest("".join(lines).encode())


def _check_digest(trace: PublicTrace, url: str, data: Sequence[bytes]) -> None:
    """Check the digest of what was received for all files of a trace."""
    found = _digest_of(trace, [_digest(content) for content in data])
    if found == trace.sha256:
        return
    if trace.files:
        said = (f"{url}: are not the expected files: the sha256 of the digests of the "
                f"{len(data):,} files received")
    else:
        said = (f"{url}/{trace.file}: is not the expected file: the sha256 of the "
                f"{len(data[0]):,} bytes received")
    raise FetchError(f"{said} is {found}, not {trace.sha256}")


class _Received(io.BytesIO):
    """A buffer for a download that enforces its limits of size and time."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def write(self, data: Buffer, /) -> int:
        """Append the next bytes; raise `OSError` if this exceeds the limit of bytes or of time."""
        count = super().write(data)
        if self.tell() > _MOST_BYTES:
            raise OSError(f"received more than {_MOST_BYTES:,} bytes, which no public trace has")
        if time.monotonic() - self._began > _LONGEST_S:
            raise OSError(f"it took more than {_LONGEST_S:g} s, for {self.tell():,} bytes")
        return count


def _download(url: str) -> bytes:
    """Download a URL into memory, so that only checked bytes reach the disk."""
    received = _Received()
    try:
        _pooch().HTTPDownloader(chunk_size=_CHUNK, timeout=_WAIT_S)(url, received, None)
    except OSError as error:  # the exceptions of requests are subclasses of it
        raise FetchError(f"{url}: cannot be downloaded: {_reason(error)}") from error
    return received.getvalue()


def _reason(error: BaseException) -> str:
    """Describe a failed download for people: by the HTTP status, or by the root cause."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server says {response.status_code} {response.reason}"
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(getattr(error, "strerror", None) or error)
