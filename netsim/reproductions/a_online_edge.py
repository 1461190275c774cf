"""The evaluation of A_online: preemptions, utilisation, makespan and communication.

Preemptions are counted in three ways. By workers, each worker that a gang gives up counts. By
decisions, a suspended gang or a displaced chunk counts once, as these are the units of schedulers.
By jobs, only jobs count of which no chunk trains any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import means_of
from netsim.analysis.usage import edge_utilisation, suspended_jobs
from netsim.reproductions.a_online_setting import (
    BATCHES,
    EDGE,
    NAMES,
    SCHEDULERS,
    SETTINGS,
    bars,
    by_setting,
    figure,
    named,
    over_srtf,
    ratio_of,
    under,
)
from netsim.reproductions.claims import PLAIN, SHARE, Claim, Runs
from netsim.reproductions.reproduction import panels
from netsim.reproductions.rules import above_one, at_least, below, below_one, near, positive
from netsim.results.result import Result
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_HOUR = 3600.0
#: Intervals of the figure over time: their number, and the hours of each.
_BINS, _BIN_H = 96, 25

#: Slot of the paper, over which utilisation is averaged.
_SLOT = "1h"

#: Utilisation from which all workers train, up to rounding.
_FULL = 1 - 1e-6

_WORKERS, _DECISIONS, _SUSPENDED = "workers", "decisions", "suspended"
_COUNTED = {_WORKERS: "preemptions of workers", _DECISIONS: "preemptions, a gang's counted once,",
            _SUSPENDED: "suspensions of whole jobs"}


# --- preemptions ---------------------------------------------------------------------------


def _preemption_claims() -> Iterator[Claim]:
    for setting, title in SETTINGS.items():
        for way, label in _COUNTED.items():
            yield _more(way, label, "a-online", "srtf", "> 0", setting, title)
        yield _more(_WORKERS, _COUNTED[_WORKERS], "a-online-e", "a-online", "> 0", setting, title)
        yield _more(_SUSPENDED, _COUNTED[_SUSPENDED], "a-online-e", "a-online", "> 0", setting,
                    title)
        yield _more(_WORKERS, _COUNTED[_WORKERS], "a-online", "tiresias-l", "-", setting, title)
        yield _more(_WORKERS, _COUNTED[_WORKERS], "a-online-e", "srtf", "-", setting, title)
        yield Claim(f"A_online's preemptions are few, below a tenth of its chunks: their share, "
                    f"{title}", "relatively small", partial(_per_chunk, setting), below(0.1),
                    percent=True, scale=PLAIN)


def _more(way: str, label: str, one: str, other: str, paper: str, setting: str, title: str
          ) -> Claim:
    return Claim(f"{NAMES[one]}'s {label} per job, less those of {NAMES[other]}, {title}", paper,
                 partial(_preempted_more, way, setting, one, other), positive, scale=PLAIN)


def _preempted_more(way: str, setting: str, one: str, other: str, runs: Runs) -> pd.Series:
    return _preemptions(way, setting, one, runs) - _preemptions(way, setting, other, runs)


def _preemptions(way: str, setting: str, name: str, runs: Runs) -> pd.Series:
    where = under(setting, name)
    counts = runs.of("suspended_jobs" if way == _SUSPENDED else "preemptions", **where)
    if way == _WORKERS:  # schedulers of chunks have no column of workers
        counts = runs.of("preempted_workers", **where).fillna(counts)
    return counts / runs.of("jobs", **where)


def _per_chunk(setting: str, runs: Runs) -> pd.Series:
    where = under(setting, "a-online")
    return runs.of("preemptions", **where) / runs.of("chunks", **where)


def _suspended(result: Result) -> Mapping[str, float]:
    return {"suspended_jobs": suspended_jobs(result)}


def _draw_preemptions(sweep: Sweep) -> Axes:
    rows = sweep.table
    # Schedulers of chunks have no column of workers.
    workers = rows["preempted_workers"].fillna(rows["preemptions"])
    counted = {"of workers": workers, "a gang's counted once": rows["preemptions"]}
    every = pd.concat([named(sweep, preemptions_per_job=count / rows["jobs"], counted=way).table
                       for way, count in counted.items()])
    means = means_of(every, ["scheduler", "workload.name", "counted"], ["preemptions_per_job"])
    return bars("preemptions_per_job", means, row="counted")


# --- utilisation and makespan --------------------------------------------------------------


def _utilisation_claims() -> Iterator[Claim]:
    for setting, title in SETTINGS.items():
        for name in ("a-online", "a-online-e"):
            yield Claim(f"{NAMES[name]} keeps all workers busy in some slot: its highest "
                        f"utilisation, {title}", "100 %", partial(_peak, setting, name),
                        at_least(_FULL), percent=True, scale=SHARE)
        for name in ("srtf", "tiresias-l"):
            yield Claim(f"{NAMES[name]} never keeps all workers busy: its highest utilisation, "
                        f"{title}", "< 100 %", partial(_peak, setting, name), below(_FULL),
                        percent=True, scale=SHARE)
        for name, paper in (("srtf", 0.76), ("tiresias-l", 0.74)):
            yield Claim(f"A_online's makespan over that of {NAMES[name]}, within 0.05 of the "
                        f"paper's, {title}", f"about {paper}",
                        partial(ratio_of, under(setting, "a-online"), under(setting, name),
                                metric="makespan_s"), near(paper, 0.05), sense=below_one)
        for name in ("srtf", "tiresias-l"):
            yield Claim(f"The edge's utilisation under A_online over that under {NAMES[name]}, "
                        f"{title}", "-",
                        partial(ratio_of, under(setting, "a-online"), under(setting, name),
                                metric="utilisation"), above_one)
        yield Claim(f"A_online sends less than half of the chunks to the cloud, {title}", "-",
                    partial(_share_in_cloud, setting), below(0.5), percent=True, scale=SHARE)


def _peak(setting: str, name: str, runs: Runs) -> pd.Series:
    return runs.of("utilisation_peak", **under(setting, name))


def _share_in_cloud(setting: str, runs: Runs) -> pd.Series:
    own = under(setting, "a-online")
    return runs.of("cloud_chunks", **own) / runs.of("chunks", **own)


def _highest(result: Result) -> Mapping[str, float]:
    return {"utilisation_peak": float(edge_utilisation(result, _SLOT)["utilisation"].max())}


def _over_time(result: Result) -> NDArray[np.float64]:
    """Return the share of edge workers that train in each interval; 0 after the last job."""
    share = edge_utilisation(result, _BIN_H * _HOUR)["utilisation"].to_numpy()[:_BINS]
    return np.pad(share, (0, _BINS - len(share)))


def _draw_utilisation(sweep: Sweep) -> Axes:
    from matplotlib.ticker import StrMethodFormatter

    from netsim.plots.style import add_legend, dress, looks, name_axes, uncover

    def draw(part: Sweep, ax: Axes) -> None:
        curves: dict[str, list[NDArray[np.float64]]] = {}
        for row, result in part.results():
            curves.setdefault(NAMES[row["scheduler"]], []).append(_over_time(result))
        for label, look in looks(curves, NAMES.values()).items():
            ax.plot((np.arange(_BINS) + 0.5) * _BIN_H, np.mean(curves[label], axis=0), label=label,
                    **look.line() | {"marker": ""})
        ax.set(xlim=(0, _BINS * _BIN_H), ylim=(0, 1))
        uncover(ax)
        dress(ax, "both")
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        name_axes(ax, "time (h)", "share of workers that train")
        add_legend(ax)

    return panels(by_setting(sweep), draw)


# --- communication -------------------------------------------------------------------------


def _communication_claims() -> Iterator[Claim]:
    for setting, title in SETTINGS.items():
        for name in ("srtf", "tiresias-l", *BATCHES, "a-online-e", "cloud-only"):
            yield Claim(f"A_online's communication time over that of {NAMES[name]}, {title}",
                        "-" if name in ("a-online-e", "cloud-only") else "< 1",
                        partial(ratio_of, under(setting, "a-online"), under(setting, name),
                                metric="communication_s"), below_one)


def _draw_communication(sweep: Sweep) -> Axes:
    others = over_srtf(sweep, "communication_s", "communication_rate")
    return bars("communication_rate", others.means(["communication_rate"]))


FIGURES = (
    figure("preemptions", "preemptions per job", _preemption_claims(), _draw_preemptions,
           {"scheduler": [*EDGE, "cloud-only"]}, _suspended,
           record=["jobs", "chunks", "training"]),
    figure("utilisation", "utilisation of the edge over time, and makespan", _utilisation_claims(),
           _draw_utilisation, {"scheduler": [*EDGE, "cloud-only"]}, _highest,
           record=["jobs", "training", "workers"]),
    figure("communication", "communication time over that of SRTF", _communication_claims(),
           _draw_communication, {"scheduler": SCHEDULERS}),
)
