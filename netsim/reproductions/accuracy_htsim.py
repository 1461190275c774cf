"""Incasts and permutations on 8,192 hosts, compared with htsim's packet-level simulations.

The network is a leaf-spine of 128 leaves with 64 hosts each, without or with oversubscription;
every link has a latency of 1 us. Two parameters are fitted, to incasts under RCCC: the time before
the first byte of a message, and the part of the rate that payload gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from netsim.base.reading import Line, lines_of
from netsim.errors import TraceError
from netsim.network import Topology, leaf_spine
from netsim.network.wired import wired
from netsim.plots.style import (
    INK,
    add_legend,
    dress,
    log_seconds,
    looks,
    mark_cut_axis,
    name_axes,
    new_figure,
)
from netsim.reproductions.accuracy import (
    Accuracy,
    at_odd_positions,
    errors_by,
    find_file,
    fit_times,
    fitted,
    four_figures,
    refitted_claim,
)
from netsim.reproductions.claims import PLAIN, Claim, Runs, below
from netsim.simulation.simulation import simulate
from netsim.traces.simulators import read_htsim
from netsim.workload import Flows, JobSpec, Stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "accuracy-htsim"
_LEAVES, _HOSTS_PER_LEAF = 128, 64
_HOSTS = _LEAVES * _HOSTS_PER_LEAF

#: Latency of a link, and of the four links between hosts of different leaves.
_LINK_S = 1e-6
_PATH_S = 4 * _LINK_S

_INCAST = re.compile(r"incast (\d+) Gbps (?:_(\d+)_to_1 )?(\d+) MB (\d+) connections (\d+) "
                     r"startdelta algorithm (\w+)")
_PERMUTATION = re.compile(r"8K permutation, 8K leaf-spine, (\d+)Gbps, 128 paths, (1|16)MB "
                          r"messages, (\w+)")
_CONTROLS = ("RCCC", "NSCC")
_TOGETHER, _STAGGERED = "together", "within 16 us"


# --- what htsim prints ----------------------------------------------------------------------
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


# --- runs, errors and the figure ------------------------------------------------------------
def network_of(gbps: int, oversubscription: int) -> Topology:
    """Make the network of a run, with the fitted parameters.

    `oversubscription` is the ratio of the capacity of a leaf's host links to that of its uplinks.
    """
    found = fitted(_NAME)["incast"]
    made = leaf_spine(_LEAVES, _HOSTS_PER_LEAF // oversubscription, _HOSTS_PER_LEAF,
                      f"{gbps}Gbps", oversubscription=oversubscription, routing="spray")
    return wired(made, _LINK_S, found["efficiency"], overhead=found["overhead_s"])


def _incasts(folder: Path) -> pd.DataFrame:
    """Read the table of incasts; each size of S MB is S 2^20 bytes, as its flows say."""
    path, rows = find_file(folder, "experiment2_out.txt"), []
    for run in read_htsim_results(path):
        found = _INCAST.fullmatch(run.title)
        if found is None:
            raise TraceError(f"{run.title!r} is no incast", path)
        gbps, ratio, size, senders, apart, control = found.groups("1")
        rows.append({"control": control.upper(), "gbps": int(gbps), "oversubscription": int(ratio),
                     "MB": int(size), "senders": int(senders),
                     "starts": _STAGGERED if int(apart) else _TOGETHER, "measured_s": run.last_s})
    return pd.DataFrame(rows)


def _fit_points(incasts: pd.DataFrame) -> pd.Series:
    """Mask the points to which parameters are fitted."""
    own = incasts.index[(incasts["control"] == "RCCC") & (incasts["starts"] == _TOGETHER)]
    return pd.Series(incasts.index.isin(own[at_odd_positions(len(own))]), incasts.index)


def _fit(folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Fit overhead o and efficiency e: T = 4 us + o + (n S/B)/e for n senders of S bytes."""
    incasts = _incasts(folder)
    own = incasts[_fit_points(incasts)]
    alone = own["senders"] * own["MB"] * 2**20 / (own["gbps"] * 1e9 / 8)
    before, per_second = fit_times(np.stack([np.ones(len(own)), alone], 1), own["measured_s"])
    return {"incast": {"overhead_s": four_figures(before - _PATH_S),
                       "efficiency": four_figures(1 / per_second)}}


def _simulate_incasts(network: Topology, cases: pd.DataFrame) -> np.ndarray:
    """Simulate the time of each incast to host 0, from hosts of other leaves.

    They are jobs of one run, each of which begins when those before have ended.
    """
    apart = 2 * float((cases["senders"] * cases["MB"]).max()) * 2**20 / network.capacity[0]
    jobs = [JobSpec(k, k * apart, stages=[_incast(*case)], hosts=range(_HOSTS))
            for k, case in enumerate(zip(cases["senders"], cases["MB"], strict=True))]
    done = simulate(network, jobs, allocator="maxmin", record=("jobs",))
    return done.jobs.sort_values("job")["jct_s"].to_numpy()


def _incast(senders: int, size: int) -> Stage:
    src = np.linspace(_HOSTS_PER_LEAF, _HOSTS - 1, senders).astype(np.int64)
    nbytes = np.full(senders, size * 2.0**20)
    return Stage("incast", Flows(src, np.zeros(senders, np.int64), nbytes))


def _compare_incasts(folder: Path) -> pd.DataFrame:
    incasts = _incasts(folder)
    incasts["fitted"] = _fit_points(incasts)
    times = []
    for gbps, ratio in _networks(incasts):
        own = incasts[(incasts["gbps"] == gbps) & (incasts["oversubscription"] == ratio)]
        cases = own[["MB", "senders"]].drop_duplicates()
        times.append(cases.assign(gbps=gbps, oversubscription=ratio, simulated_s=_simulate_incasts(
            network_of(gbps, ratio), cases)))
    return incasts.merge(pd.concat(times), how="left").assign(traffic="incast")


def _networks(table: pd.DataFrame) -> list[tuple[int, int]]:
    """The different rates and oversubscriptions of runs."""
    return sorted(set(zip(table["gbps"].tolist(), table["oversubscription"].tolist(),
                          strict=True)))


def _permutations(folder: Path) -> Iterator[dict[str, object]]:
    for gbps in (200, 400):
        for control in _CONTROLS:
            for ratio, ending in ((1, ""), (4, "_4_to_1"), (8, "_8_to_1")):
                name = f"{gbps}g_{control.lower()}{ending}.txt"
                path = find_file(folder, f"results/{name}", name)
                for run in read_htsim_results(path):
                    if found := _PERMUTATION.fullmatch(run.title):
                        yield {"control": found[3], "gbps": int(found[1]),
                               "oversubscription": ratio, "MB": int(found[2]),
                               "measured_s": run.last_s, "resent": run.resent}


def _compare_permutations(folder: Path) -> pd.DataFrame:
    table, times = pd.DataFrame(_permutations(folder)), {}
    flows = {size: read_htsim(find_file(folder, f"perm_8192n_8192c_{size}MB.cm"))
             for size in sorted(set(table["MB"]))}
    for gbps, ratio in _networks(table):
        network = network_of(gbps, ratio)
        for size, jobs in flows.items():
            done = simulate(network, jobs, allocator="maxmin", record=("jobs",))
            times[gbps, ratio, size] = float(done.jobs["jct_s"].max())
    cases = zip(table["gbps"], table["oversubscription"], table["MB"], strict=True)
    return table.assign(simulated_s=[times[case] for case in cases], traffic="permutation",
                        fitted=False)


def _compare(folder: Path) -> pd.DataFrame:
    parts = [_compare_incasts(folder), _compare_permutations(folder)]
    return pd.concat(parts).sort_values(["traffic", "control", "starts"], ignore_index=True,
                                        ascending=[True, False, True])


def _summarise(points: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    incasts = points[points["traffic"] == "incast"]
    permutations = points[points["traffic"] == "permutation"]
    together = incasts[incasts["starts"] == _TOGETHER]
    return {"incasts": errors_by(incasts, ["control", "starts"]),
            "senders": errors_by(together, ["control", "senders"]),
            "sizes": errors_by(together, ["control", "MB"]),
            "permutations": errors_by(permutations, ["control", "oversubscription"]),
            "runs": _each_permutation(permutations)}


def _each_permutation(permutations: pd.DataFrame) -> pd.DataFrame:
    """Make a row per network and size, with the times, errors and losses of both controls."""
    by_ratio = permutations.pivot(index=["gbps", "MB", "oversubscription"], columns="control",
                                  values=["measured_s", "simulated_s", "resent"])
    simulated = by_ratio["simulated_s"][_CONTROLS[0]]
    each = pd.DataFrame({"netsim (us)": simulated * 1e6})
    for control in _CONTROLS:
        measured = by_ratio["measured_s"][control]
        each[f"{control} (us)"] = measured * 1e6
        each[f"error, {control}"] = simulated / measured - 1
        each[f"resent, {control}"] = by_ratio["resent"][control]
    return each.reset_index()


def _of(metric: str, runs: Runs) -> pd.Series:
    return runs.of(metric, table="incasts", control="RCCC", starts=_TOGETHER)


_CLAIMS = (
    Claim("Mean error of incasts under RCCC that begin together", "2 %",
          lambda runs: _of("mean error", runs), below(0.02), percent=True, scale=PLAIN),
    Claim("Worst error of incasts under RCCC that begin together", "5 %",
          lambda runs: _of("worst error", runs), below(0.05), percent=True, scale=PLAIN),
    refitted_claim())


def _draw(points: pd.DataFrame) -> Axes:
    upper, lower = new_figure(4.8).subplots(2)
    together = points[(points["traffic"] == "incast") & (points["starts"] == _TOGETHER)]
    _draw_incasts(upper, together)
    _draw_permutations(lower, points[points["traffic"] == "permutation"])
    return upper


def _draw_incasts(ax: Axes, incasts: pd.DataFrame) -> None:
    """Draw ratios of times against the times, those under RCCC on top as there are fewer."""
    style = {name: look.line() | {"linestyle": ""} for name, look in looks(_CONTROLS).items()}
    for place, control in enumerate(_CONTROLS):
        own = incasts[incasts["control"] == control]
        ax.plot(own["measured_s"], own["simulated_s"] / own["measured_s"], label=control,
                zorder=3 - 0.1 * place, **style[control] | {"markersize": 2.6})
    ax.set_xscale("log")
    log_seconds(ax.xaxis)
    _finish(ax, "incasts: time of the last flow in htsim")


def _draw_permutations(ax: Axes, permutations: pd.DataFrame) -> None:
    """Draw ratios of times by oversubscription, a series per control and size of messages."""
    ratios = sorted(set(permutations["oversubscription"]))
    series = list(product((1, 16), _CONTROLS))
    for k, (size, control) in enumerate(series):
        own = permutations[(permutations["MB"] == size) & (permutations["control"] == control)]
        look = looks(_CONTROLS)[control]._replace(hollow=size == 1)
        places = own["oversubscription"].map(ratios.index) + 0.14 * (k - (len(series) - 1) / 2)
        ax.plot(places, own["simulated_s"] / own["measured_s"], label=f"{control}, {size} MB",
                **look.line() | {"linestyle": ""})
    ax.set_xticks(range(len(ratios)), [f"{ratio}:1" for ratio in ratios])
    _finish(ax, "permutations: oversubscription of leaves")


def _finish(ax: Axes, name: str) -> None:
    ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
    dress(ax, "both")
    name_axes(ax, name, "time in netsim\n/ that in htsim")
    mark_cut_axis(ax)
    add_legend(ax)


FIGURES = (Accuracy(_NAME, "htsim on 8,192 hosts: incasts and permutations", "htsim", _compare,
                    _summarise, _CLAIMS, _draw, _fit),)
