"""The evaluation of A_online, its Section V, always beside all chunks in the cloud.

With the paper's ranges a chunk trains for 59 hours on average and is in the cloud after 10 to 15:
the way there hardly counts, and nothing waits there. So everything is shown a second time with a
tenth of the computation. Of the figures of the paper only the sense is known: "-" where not even
that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.usage import edge_utilisation
from netsim.experiments.reproductions.claims import Claim, Runs, above_one, below_one, positive
from netsim.experiments.reproductions.reproduction import Reproduction, panels
from netsim.experiments.result import Result
from netsim.experiments.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_SETTINGS = {"edge-jobs-300": "the paper's ranges",
             "edge-jobs-300-short": "a tenth of the computation"}
_PERIODIC = "batch (mode=periodic)"
_NAMES = {"a-online": "A_online", "a-online-e": "A_online-E", "srtf": "SRTF",
          "tiresias-l": "Tiresias-L", "batch": "BatchSche, doubling",
          _PERIODIC: "BatchSche, periodic", "cloud-only": "cloud only"}
_SCHEDULERS = [name.replace(" (", ":").removesuffix(")") for name in _NAMES]
_EDGE = ("a-online", "a-online-e", "srtf", "tiresias-l")

_SECTION_5: dict[str, Any] = {
    "edge_cloud": {"name": "edge-servers-100"}, "workload": {"name": "edge-jobs-300"},
    "record": ["jobs"]}

#: 25 jobs in it arrive as densely as 300 in 1,800 h.
_SPAN = "150h"

_HOUR = 3600.0
#: Of the figure over time: how many, and the hours of each.
_BINS, _BIN_H = 96, 25


def _in(setting: str, scheduler: str, **where: Any) -> dict[str, Any]:
    return {"workload.name": setting, "scheduler": scheduler, **where}


def _ratio(one: dict[str, Any], other: dict[str, Any], runs: Runs, metric: str = "jct_total_s"
           ) -> pd.Series:
    return runs.ratio(one, other, metric)


def _named(sweep: Sweep, **columns: Any) -> Sweep:
    """Return a sweep with schedulers as they are called in figures, and with more columns."""
    table = sweep.table.assign(**columns)
    # A legend has room for short names only.
    short = {name: called.replace("BatchSche", "Batch") for name, called in _NAMES.items()}
    return replace(sweep, table=table.assign(scheduler=table["scheduler"].map(short)))


def _by_setting(sweep: Sweep) -> dict[str, Sweep]:
    """Return the runs of each setting, by its title."""
    return {title: sweep.where(**{"workload.name": name}) for name, title in _SETTINGS.items()}


def _lines(key: str, metric: str, part: Sweep, ax: Axes) -> None:
    from netsim.analysis.sweep_plots import sweep_lines

    sweep_lines(part.means([metric]).drop(columns="workload.name"), key, metric, ax=ax)


def _bars(metric: str, part: Sweep, ax: Axes) -> None:
    from netsim.analysis.sweep_plots import mean_bars

    mean_bars(part.means([metric]).drop(columns="workload.name"), metric, ax)


# --- the JCT rate --------------------------------------------------------------------------


def _rate_claims(**most: Any) -> Iterator[Claim]:
    said = ", ".join(f"{value} {name}" for name, value in most.items())
    for setting, title in _SETTINGS.items():
        own = _in(setting, "a-online", **most)
        for name, called in _NAMES.items():
            if name != "a-online":
                yield Claim(f"A_online's total JCT over that of {called}, {said}, {title}",
                            "-" if name == "cloud-only" else "< 1",
                            partial(_ratio, own, _in(setting, name, **most)), below_one)
        yield Claim(f"The total JCT of the cloud alone over that of SRTF, {said}, {title}", "-",
                    partial(_ratio, _in(setting, "cloud-only", **most),
                            _in(setting, "srtf", **most)), below_one)


def _servers_claims() -> Iterator[Claim]:
    for setting, title in _SETTINGS.items():
        for servers in (60, 140):
            for name in ("srtf", "cloud-only"):
                yield Claim(f"A_online's total JCT over that of {_NAMES[name]}, {servers} servers, "
                            f"{title}", "-" if name == "cloud-only" else "< 1",
                            partial(_ratio, _in(setting, "a-online", servers=servers),
                                    _in(setting, name, servers=servers)), below_one)
        for name in ("a-online", "srtf"):
            yield Claim(f"{_NAMES[name]}'s total JCT with 140 servers over that with 60, {title}",
                        "< 1", partial(_ratio, _in(setting, name, servers=140),
                                       _in(setting, name, servers=60)), below_one)


def _draw_rates(key: str, sweep: Sweep) -> Axes:
    rows = sweep.table
    same = ["workload.name", key, "seed"]
    srtf = rows[rows["scheduler"] == "srtf"].set_index(same)["jct_total_s"]
    own = pd.MultiIndex.from_frame(rows[same])
    rate = rows["jct_total_s"].to_numpy() / srtf.reindex(own).to_numpy()
    every = _named(sweep, jct_rate=rate)
    others = replace(every, table=every.table[every.table["scheduler"] != _NAMES["srtf"]])
    return panels(_by_setting(others), partial(_lines, key, "jct_rate"), 2.6)


# --- preemptions ---------------------------------------------------------------------------


def _preemption_claims() -> Iterator[Claim]:
    for setting, title in _SETTINGS.items():
        for one, other in (("srtf", "a-online"), ("tiresias-l", "a-online"),
                           ("a-online-e", "a-online"), ("srtf", "a-online-e")):
            yield Claim(f"{_NAMES[one]}'s preemptions of workers per job, less those of "
                        f"{_NAMES[other]}, {title}", "-",
                        partial(_preempted_more, setting, one, other), positive)


def _preempted_more(setting: str, one: str, other: str, runs: Runs) -> pd.Series:
    return _preemptions(setting, one, runs) - _preemptions(setting, other, runs)


def _preemptions(setting: str, name: str, runs: Runs) -> pd.Series:
    where = _in(setting, name)
    of_gangs = runs.of("preempted_workers", **where)
    chunks = runs.of("preemptions", **where)
    return of_gangs.fillna(chunks) / runs.of("jobs", **where)


def _draw_preemptions(sweep: Sweep) -> Axes:
    rows = sweep.table
    workers = rows["preempted_workers"].fillna(rows["preemptions"])  # of gangs, or of chunks
    every = _named(sweep, preemptions_per_job=workers / rows["jobs"])
    return panels(_by_setting(every), partial(_bars, "preemptions_per_job"))


# --- utilisation ---------------------------------------------------------------------------


def _utilisation_claims() -> Iterator[Claim]:
    for setting, title in _SETTINGS.items():
        for name in ("srtf", "tiresias-l"):
            yield Claim(f"The edge's utilisation under A_online over that under {_NAMES[name]}, "
                        f"{title}", "-", partial(_utilised, setting, name), above_one)
        yield Claim(f"A_online sends less than half of the chunks to the cloud, {title}", "-",
                    partial(_share_in_cloud, setting), _below(0.5), percent=True)


def _utilised(setting: str, other: str, runs: Runs) -> pd.Series:
    return _ratio(_in(setting, "a-online"), _in(setting, other), runs, "utilisation")


def _share_in_cloud(setting: str, runs: Runs) -> pd.Series:
    own = _in(setting, "a-online")
    return runs.of("cloud_chunks", **own) / runs.of("chunks", **own)


def _over_time(result: Result) -> NDArray[np.float64]:
    """Return the share of workers at the edge that train, in each bin; 0 when all has ended."""
    share = edge_utilisation(result, _BIN_H * _HOUR)["utilisation"].to_numpy()[:_BINS]
    return np.pad(share, (0, _BINS - len(share)))


def _draw_utilisation(sweep: Sweep) -> Axes:
    from netsim.analysis.style import add_legend, dress, looks, name_axes

    def draw(part: Sweep, ax: Axes) -> None:
        curves: dict[str, list[NDArray[np.float64]]] = {}
        for row, result in part.results():
            curves.setdefault(_NAMES[row["scheduler"]], []).append(_over_time(result))
        for label, look in looks(curves).items():
            ax.plot((np.arange(_BINS) + 0.5) * _BIN_H, np.mean(curves[label], axis=0), label=label,
                    **look.line() | {"marker": ""})
        ax.set_ylim(0, 1)
        dress(ax, "both")
        name_axes(ax, "time (h)", "share of workers that train")
        add_legend(ax)

    return panels(_by_setting(sweep), draw)


# --- the competitive ratio -----------------------------------------------------------------


def _ratio_claims(key: str, values: Sequence[Any]) -> Iterator[Claim]:
    called = key.rpartition(".")[2]
    for setting, title in _SETTINGS.items():
        for value in (values[0], values[-1]):
            own, cloud = (_in(setting, name, **{key: value}) for name in ("a-online", "cloud-only"))
            where = f"{called} {value}, {title}"
            yield Claim("A_online's total JCT over the LP bound, the paper's ratio, is below 3, "
                        f"{where}", "-", partial(_metric, "ratio_paper", own), _below(3))
            if key != "epsilon" or value == 0:  # or it is no bound
                yield Claim("The same over the LP bound with half the processing is below 2, "
                            f"{where}", "-", partial(_metric, "ratio", own), _below(2))
            yield Claim(f"A_online's ratio over that of the cloud alone, {where}", "-",
                        partial(_ratio, own, cloud, metric="ratio_paper"), below_one)


def _below(most: float) -> Callable[[float], bool]:
    return lambda measured: measured < most


def _metric(metric: str, where: Mapping[str, Any], runs: Runs) -> pd.Series:
    return runs.of(metric, **where)


def _draw_ratios(key: str, sweep: Sweep) -> Axes:
    return panels(_by_setting(_named(sweep)), partial(_lines, key, "ratio_paper"))


# --- all of them ---------------------------------------------------------------------------


def _figure(name: str, title: str, claims: Iterator[Claim], draw: Callable[[Sweep], Axes],
            vary: dict[str, Sequence[Any]], **keys: Any) -> Reproduction:
    return Reproduction(f"a-online-{name}", f"A_online, Section V: {title}",
                        {**_SECTION_5, **keys},
                        {"workload.name": list(_SETTINGS), **vary}, tuple(claims), draw)


def _ratio_figure(name: str, key: str, values: Sequence[Any], *, jobs: int = 25,
                  servers: int = 25) -> Reproduction:
    said = {"jobs": "jobs", "servers": "servers", "epsilon": "epsilon"}[name]
    return _figure(f"ratio-{name}", f"competitive ratio against {said}",
                   _ratio_claims(key, values), partial(_draw_ratios, key),
                   {key: values, "scheduler": ["a-online", "cloud-only"]}, lp_bound="1h",
                   edge_cloud={"name": "edge-servers-100", "servers": servers},
                   workload={"name": "edge-jobs-300", "jobs": jobs, "span": _SPAN})


FIGURES = (
    _figure("jobs", "JCT rate against the number of jobs", _rate_claims(jobs=300),
            partial(_draw_rates, "workload.jobs"),
            {"workload.jobs": [100, 200, 300], "scheduler": _SCHEDULERS}),
    _figure("servers", "JCT rate against the number of servers", _servers_claims(),
            partial(_draw_rates, "edge_cloud.servers"),
            {"edge_cloud.servers": [60, 100, 140], "scheduler": _SCHEDULERS}),
    _figure("preemptions", "preemptions of workers per job", _preemption_claims(),
            _draw_preemptions, {"scheduler": [*_EDGE, "cloud-only"]}),
    _figure("utilisation", "utilisation of the edge over time", _utilisation_claims(),
            _draw_utilisation, {"scheduler": [*_EDGE, "cloud-only"]},
            record=["jobs", "training", "workers"]),
    _ratio_figure("jobs", "workload.jobs", [5, 15, 25]),
    _ratio_figure("servers", "edge_cloud.servers", [5, 25, 45]),
    _ratio_figure("epsilon", "epsilon", [0, 0.1, 0.3, 0.5]),
)
