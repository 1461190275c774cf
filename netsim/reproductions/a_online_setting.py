"""Settings, schedulers and axes that the figures of A_online's evaluation share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.reproductions.claims import Claim, Runs
from netsim.reproductions.reproduction import Reproduction
from netsim.results.result import Result
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BATCHES", "EDGE", "NAMES", "SCHEDULERS", "SETTINGS", "bars", "by_setting", "figure",
           "lines", "metric_of", "named", "over_srtf", "ratio_of", "under"]

SETTINGS = {"edge-jobs-300": "the paper's ranges",
            "edge-jobs-300-short": "a tenth of the computation"}

#: The two interpretations of BatchSche.
BATCHES = ("batch", "batch (mode=periodic)")
NAMES = {"a-online": "A_online", "a-online-e": "A_online-E", "srtf": "SRTF",
         "tiresias-l": "Tiresias-L", BATCHES[0]: "BatchSche, doubling",
         BATCHES[1]: "BatchSche, periodic", "cloud-only": "cloud only"}
SCHEDULERS = [name.replace(" (", ":").removesuffix(")") for name in NAMES]
#: Names of schedulers in figures, whose legends have room for short ones only.
_SHORT = {name: called.replace("BatchSche", "Batch") for name, called in NAMES.items()}
EDGE = ("a-online", "a-online-e", "srtf", "tiresias-l")

_SECTION_5: dict[str, Any] = {
    "edge_cloud": {"name": "edge-servers-100"}, "workload": {"name": "edge-jobs-300"},
    "record": ["jobs"]}


def under(setting: str, scheduler: str, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the columns and values that select the runs of a setting under a scheduler."""
    return {"workload.name": setting, "scheduler": scheduler, **(where or {})}


def ratio_of(one: Mapping[str, Any], other: Mapping[str, Any], runs: Runs,
             metric: str = "jct_total_s") -> pd.Series:
    """Return a metric of one run over that of another, for each seed."""
    return runs.ratio(dict(one), dict(other), metric)


def metric_of(metric: str, where: Mapping[str, Any], runs: Runs) -> pd.Series:
    """Return a metric of a run, for each seed."""
    return runs.of(metric, **where)


def named(sweep: Sweep, **columns: Any) -> Sweep:
    """Return a sweep with the names of schedulers that figures show, and with further columns."""
    table = sweep.table.assign(**columns)
    return replace(sweep, table=table.assign(scheduler=table["scheduler"].map(_SHORT)))


def over_srtf(sweep: Sweep, metric: str, column: str) -> Sweep:
    """Divide a metric by that under SRTF; return the runs under all other schedulers."""
    rows = sweep.table
    same = [*(name for name in sweep.columns if name != "scheduler"), "seed"]
    srtf = rows[rows["scheduler"] == "srtf"].set_index(same)[metric]
    rate = rows[metric].to_numpy() / srtf.reindex(pd.MultiIndex.from_frame(rows[same])).to_numpy()
    every = named(sweep, **{column: rate})
    return replace(every, table=every.table[every.table["scheduler"] != NAMES["srtf"]])


def by_setting(sweep: Sweep) -> dict[str, Sweep]:
    """Split a sweep by setting, with titles as keys."""
    return {title: sweep.where(**{"workload.name": name}) for name, title in SETTINGS.items()}


def lines(key: str, metric: str, sweep: Sweep) -> Axes:
    """Draw the mean of a metric against a varied key, in a panel for each setting."""
    from netsim.plots.facets import line_facets

    return line_facets(_titled(sweep.means([metric])), metric, x=key,
                       col="workload.name", among={"scheduler": _SHORT.values()})


def bars(metric: str, means: pd.DataFrame, row: str | None = None) -> Axes:
    """Draw a metric of a means table as bars, in a panel for each setting, and value of a row."""
    from netsim.plots.facets import bar_facets

    return bar_facets(_titled(means), metric, col="workload.name", row=row,
                      among={"scheduler": _SHORT.values()})


def _titled(means: pd.DataFrame) -> pd.DataFrame:
    """Name settings as figures do."""
    return means.assign(**{"workload.name": means["workload.name"].map(SETTINGS)})


def figure(name: str, title: str, claims: Iterator[Claim], draw: Callable[[Sweep], Axes],
           vary: Mapping[str, Sequence[Any]],
           derive: Callable[[Result], Mapping[str, float]] | None = None, **keys: Any
           ) -> Reproduction:
    """Return a figure of Section V for all settings; see `Reproduction`."""
    return Reproduction(f"a-online-{name}", f"A_online, Section V: {title}",
                        {**_SECTION_5, **keys}, {"workload.name": list(SETTINGS), **vary},
                        tuple(claims), draw, derive=derive)
