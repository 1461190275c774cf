"""Flows on a path, under max-min with latency, compared with ns-3 and with a max-min simulator.

m3 (Li et al., SIGCOMM 2024) publishes scenarios of three hosts: two links of 10 Gbps in a line,
from host 0 to host 2, between which host 1 has a faster link.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.reading import lines_of, read_bytes
from netsim.errors import TraceError
from netsim.network import Packet, Topology, from_networkx
from netsim.network.wired import wired
from netsim.plots.style import INK, add_legend, dress, looks, mark_cut_axis, name_axes, new_axes
from netsim.reproductions.accuracy import Accuracy
from netsim.reproductions.claims import PLAIN, RATIO, Claim, Runs, below, near
from netsim.simulation.simulation import simulate
from netsim.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Congestion controls by the beginnings of their names in the scenarios.
_CONTROLS = {"dctcp": "DCTCP", "timely": "TIMELY", "dcqcn": "DCQCN", "hp": "HPCC"}

#: Classes of payload, by the most bytes of each; a packet has 1,000.
_SIZES = {1e3: "one packet", 1e4: "1 to 10 kB", 5e4: "10 to 50 kB", np.inf: "above 50 kB"}


# --- the scenarios -------------------------------------------------------------------------
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


# --- runs, errors and the figure ------------------------------------------------------------
def path_of_three() -> Topology:
    """Make the network of the scenarios.

    Two links of 10 Gbps lead from host 0 over a switch to host 2; that of host 1, on the switch, is
    fast enough to limit nothing. Each has a latency of 1 us, and packets 1,000 + 48 bytes.
    """
    graph = nx.Graph()
    for host, rate in enumerate(("10Gbps", "100Gbps", "10Gbps")):
        graph.add_edge(f"host-{host}", "switch", capacity=rate, latency="1us")
    hosts = [f"host-{host}" for host in range(3)]
    return wired(from_networkx(graph, hosts=hosts), packet=Packet(1000, 48))


def simulate_scenario(network: Topology, scenario: M3Scenario) -> tuple[np.ndarray, np.ndarray]:
    """Simulate when each observed flow is sent, and when it arrives, in seconds from its start."""
    jobs = Workload.from_arrays(scenario.src, scenario.dst, scenario.nbytes, scenario.start_s)
    done = simulate(network, jobs, allocator="maxmin", record=("jobs", "coflows"))
    flows = done.coflows.set_index("job").loc[scenario.observed]
    start = flows["valid_s"].to_numpy()
    return flows["sent_s"].to_numpy() - start, flows["finish_s"].to_numpy() - start


def _compare(folder: Path) -> pd.DataFrame:
    network, parts = path_of_three(), []
    for number, scenario in enumerate(read_m3(folder)):
        sent, arrived = simulate_scenario(network, scenario)
        parts.append(pd.DataFrame({
            "scenario": number, "flow": scenario.observed, "control": _named(scenario.control),
            "bytes": scenario.nbytes[scenario.observed], "alone_s": scenario.alone_s,
            "maxmin_s": scenario.maxmin_s, "sent_s": sent, "measured_s": scenario.packets_s,
            "simulated_s": arrived}))
    return pd.concat(parts, ignore_index=True)


def _named(control: str) -> str:
    return next((name for start, name in _CONTROLS.items() if control.startswith(start)), control)


def _summarise(points: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    points = points.assign(size=_size_class(points["bytes"]))
    off = float((points["sent_s"] / points["maxmin_s"] - 1).abs().max())
    tables = {"max-min": pd.DataFrame({"scenarios": [points["scenario"].nunique()],
                                       "flows": [len(points)], "largest difference": [off]}),
              "controls": _slowdowns(points, "control"), "sizes": _slowdowns(points, "size")}
    by_both = [_slowdowns(own, "size").assign(control=control)
               for control, own in points.groupby("control")]
    both = pd.concat(by_both).pivot(index="control", columns="size", values="netsim / ns-3")
    order = [*_SIZES.values(), "all"]
    tables["both"] = both.reindex(columns=[each for each in order if each in both]).reset_index()
    return tables


def _size_class(nbytes: pd.Series) -> np.ndarray:
    return np.array([*_SIZES.values()])[np.searchsorted([*_SIZES], nbytes)]


def _slowdowns(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """Summarise slowdowns, times over those in an empty network, by class and over all."""
    names = [*_SIZES.values()] if by == "size" else [*_CONTROLS.values()]
    groups = {name: own for name in names if len(own := points[points[by] == name])}
    return pd.DataFrame([_slowdown(own, **{by: name}) for name, own in
                         {**groups, "all": points}.items()])


def _slowdown(own: pd.DataFrame, **names: str) -> dict[str, str | float]:
    """Compute mean and 99th percentile of slowdowns, and the ratio of means of each scenario."""
    slow = own[["measured_s", "simulated_s"]].div(own["alone_s"], axis=0)
    means = slow.groupby(own["scenario"]).mean()
    ratio = np.exp(np.log(means["simulated_s"] / means["measured_s"]).mean())
    tails = slow.quantile(0.99)
    return {**names, "flows": len(own), "mean slowdown, ns-3": slow["measured_s"].mean(),
            "mean slowdown, netsim": slow["simulated_s"].mean(),
            "99 %, ns-3": tails["measured_s"], "99 %, netsim": tails["simulated_s"],
            "netsim / ns-3": float(ratio)}


def _difference(runs: Runs) -> pd.Series:
    return runs.of("largest difference", table="max-min")


def _ratio(runs: Runs) -> pd.Series:
    return runs.of("netsim / ns-3", table="controls", control="all")


_CLAIMS = (
    Claim("Largest relative difference of a flow's time from m3's max-min simulator", "0",
          _difference, below(1e-8), scale=PLAIN),
    Claim("Mean slowdown over that in ns-3, geometric mean over scenarios", "0.91", _ratio,
          near(0.91, 0.015), scale=RATIO))


def _draw(points: pd.DataFrame) -> Axes:
    points = points.assign(size=_size_class(points["bytes"]))
    ax = new_axes(2.4)
    names = [name for name in _CONTROLS.values() if (points["control"] == name).any()]
    for name, look in looks(names).items():
        rows = _slowdowns(points[points["control"] == name], "size").iloc[:-1]
        places = [[*_SIZES.values()].index(size) for size in rows["size"]]
        ax.plot(places, rows["netsim / ns-3"], label=name, **look.line())
    ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_xticks(range(len(_SIZES)), [*_SIZES.values()])
    dress(ax, "y")
    name_axes(ax, "payload of a flow", "mean slowdown in netsim\n/ that in ns-3")
    mark_cut_axis(ax)
    add_legend(ax)
    return ax


FIGURES = (Accuracy("accuracy-m3", "50 scenarios of m3 on a path: netsim against ns-3", "m3",
                    _compare, _summarise, _CLAIMS, _draw),)
