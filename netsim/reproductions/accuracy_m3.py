"""Flows on a path, under max-min with latency, compared with ns-3 and with a max-min simulator.

m3 (Li et al., SIGCOMM 2024) publishes scenarios of three hosts: two links of 10 Gbps in a line,
from host 0 to host 2, between which host 1 has a faster link.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pandas as pd

from netsim.network import Packet, Topology, from_networkx
from netsim.network.wired import wired
from netsim.reproductions.accuracy import Accuracy
from netsim.reproductions.accuracy_files import M3Scenario, read_m3
from netsim.reproductions.claims import PLAIN, RATIO, Claim, Runs, below, near
from netsim.simulation.simulation import simulate
from netsim.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Congestion controls by the beginnings of their names in the scenarios.
_CONTROLS = {"dctcp": "DCTCP", "timely": "TIMELY", "dcqcn": "DCQCN", "hp": "HPCC"}

#: Classes of payload, by the most bytes of each; a packet has 1,000.
_SIZES = {1e3: "one packet", 1e4: "1 to 10 kB", 5e4: "10 to 50 kB", np.inf: "above 50 kB"}


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
    from netsim.plots.style import (
        INK,
        add_legend,
        dress,
        looks,
        mark_cut_axis,
        name_axes,
        new_axes,
    )

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
