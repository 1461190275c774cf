"""The evaluation of A-SRPT: its testbed, and simulations of a larger cluster.

The paper claims that A-SRPT is better than every baseline. Each baseline runs with both rules for
the order of servers, and A-SRPT is compared with the best of them for each seed. As the traces are
not available, jobs recur as those of Alibaba PAI do. Total completion times are in the same order
as mean flow times, as both differ only by the sum of arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.reproductions.claims import Claim, Runs, words
from netsim.reproductions.ratio_plots import ratio_dots, same_ratios
from netsim.reproductions.reproduction import Reproduction, panels
from netsim.reproductions.rules import below_one
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_BASELINES = {"spjf": "SPJF", "spwf": "SPWF", "wcs-duration": "WCS-Duration",
              "wcs-workload": "WCS-Workload", "wcs-subtime": "WCS-SubTime"}
_RULES = {"index": "servers by number", "most": "most free first"}
_OWN = {"a-srpt": "A-SRPT", "a-srpt (tau=100)": "A-SRPT, tau = 100",
        "a-srpt-perfect": "A-SRPT-Perfect"}
_METRICS = {"jct_mean_s": "mean flow time", "makespan_s": "makespan"}

#: Schedulers as they are given in an experiment.
_EACH_BASELINE = tuple(f"{name}:servers={rule}" for rule, name in product(_RULES, _BASELINES))
_ALL = ("a-srpt", "a-srpt:tau=100", "a-srpt-perfect", *_EACH_BASELINE)

_LIMITS = (500, 1000, 2000, 4000, 8000)
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.72, 0.8)
_NICS = ("1Gbps", "10Gbps", "25Gbps", "50Gbps")
_PREDICTORS = {"random-forest": "random forest", "mean": "mean of group",
               "median": "median of group", "mean:scope=user": "mean of user",
               "median:scope=user": "median of user", "perfect": "perfect"}

_TRAIN = 0.8

_COMMON: dict[str, Any] = {"execution": "asrpt", "record": ["jobs"]}

#: 14 GPUs; 75 jobs to run, after a history of 300. See the page on A-SRPT for the loads.
_TESTBED: dict[str, Any] = {
    **_COMMON, "cluster": {"servers": 7, "gpus": 2, "nic": "10Gbps", "intra": "300GB/s"},
    "workload": {"format": "recurrent", "jobs": 500, "max_gpus": 14, "limit": 375,
                 "gpus_per_server": 2, "mean_interarrival": "4min", "train": _TRAIN}}

#: 128 GPUs; 400 jobs to run, after a history of 1,600.
_CLUSTER: dict[str, Any] = {
    **_COMMON, "cluster": {"servers": 16, "gpus": 8, "nic": "10Gbps", "intra": "300GB/s"},
    "workload": {"format": "recurrent", "jobs": 2000, "mean_interarrival": "45s",
                 "train": _TRAIN}}


# --- claims --------------------------------------------------------------------------------


def _baselines(rule: str) -> list[str]:
    """Return the baselines with a rule, by their names in tables."""
    return [f"{name} (servers={rule})" for name in _BASELINES]


def _over_best(own: str, rule: str, place: Mapping[str, Any], metric: str, runs: Runs
               ) -> pd.Series:
    """Return a metric of A-SRPT over that of the best baseline, for each seed."""
    others = pd.DataFrame({name: runs.of(metric, scheduler=name, **place)
                           for name in _baselines(rule)})
    return runs.of(metric, scheduler=own, **place) / others.min(axis=1, skipna=False)


def _claims_of(own: str, places: Mapping[str, Mapping[str, Any]], metric: str = "jct_mean_s"
               ) -> Iterator[Claim]:
    """Yield the claims that A-SRPT is better than every baseline, for each rule and place."""
    for (rule, label), (where, place) in product(_RULES.items(), places.items()):
        yield Claim(f"{_OWN[own]}'s {_METRICS[metric]} over the best baseline's, {label}"
                    + (f", {where}" if where else ""), "< 1",
                    partial(_over_best, own, rule, place, metric), below_one)


def _testbed_claims() -> Iterator[Claim]:
    for (rule, label), (name, called) in product(_RULES.items(), _BASELINES.items()):
        other = {"scheduler": f"{name} (servers={rule})"}
        yield Claim(f"A-SRPT's mean flow time over that of {called}, {label}", "< 1",
                    partial(_ratio, {"scheduler": "a-srpt"}, other, "jct_mean_s"), below_one)
    for own, metric in product(("a-srpt", "a-srpt-perfect"), _METRICS):
        yield from _claims_of(own, {"": {}}, metric)
    yield Claim("A-SRPT-Perfect's mean flow time over that of A-SRPT", "< 1",
                partial(_ratio, {"scheduler": "a-srpt-perfect"}, {"scheduler": "a-srpt"},
                        "jct_mean_s"), below_one)


def _ratio(one: dict[str, Any], other: dict[str, Any], metric: str, runs: Runs) -> pd.Series:
    return runs.ratio(one, other, metric)


def _claims_against(key: str, values: Mapping[Any, str]) -> Iterator[Claim]:
    """Yield the claims of a sweep over a key, given its values and their names."""
    places = {label: {key: value} for value, label in values.items()}
    for own in _OWN:
        yield from _claims_of(own, places)


def _single_claims() -> Iterator[Claim]:
    places = {f"{words(nic)}, {share:.0%} on one GPU": {"nic": nic, "single_gpu_share": share}
              for nic, share in product(_NICS[:2] + _NICS[3:], _SHARES)}
    for own in ("a-srpt", "a-srpt (tau=100)"):
        yield from _claims_of(own, places)


def _predictors_claims() -> Iterator[Claim]:
    for tau in (0, 100):
        for name, label in _PREDICTORS.items():
            if name != "random-forest":
                yield Claim(f"The mean flow time with a random forest over that with {label}, tau "
                            f"= {tau}", "-" if name == "perfect" else "< 1",
                            partial(_ratio, {"predictor": "random-forest", "tau": tau},
                                    {"predictor": name, "tau": tau}, "jct_mean_s"), below_one)


# --- figures -------------------------------------------------------------------------------


def _means(table: pd.DataFrame, by: Sequence[str], metric: str,
           pairs: Mapping[str, tuple[str, Sequence[str]]], column: str = "scheduler"
           ) -> pd.DataFrame:
    """Return a metric of one scheduler over the best of others, as a means table.

    Parameters
    ----------
    table : DataFrame
        A row per run.
    by : sequence of str
        The other varied keys.
    metric : str
    pairs : mapping of str to (str, sequence of str)
        For each label, the scheduler and the others, the best of which is chosen for each seed.
    column : str
        Column that names them.
    """
    from netsim.analysis.intervals import means_of

    wide = table.pivot(index=[*by, "seed"], columns=column, values=metric)
    parts = [(wide[one] / wide[list(others)].min(axis=1, skipna=False)).rename("ratio")
             .reset_index().assign(scheduler=called) for called, (one, others) in pairs.items()]
    return means_of(pd.concat(parts), ["scheduler", *by], ["ratio"])


#: Lines of figures: A-SRPT with either tau over the best baseline with either rule.
_LINES = {f"tau = {tau}, {label}": (own, _baselines(rule))
          for (tau, own), (rule, label) in product(
              {0: "a-srpt", 100: "a-srpt (tau=100)"}.items(), _RULES.items())}


def _draw_against(x: str, called: str, sweep: Sweep) -> Axes:
    parts = {label: _means(sweep.table, [x], metric, _LINES)
             for metric, label in _METRICS.items()}
    means = pd.concat(parts, names=["time"]).reset_index("time")
    return _panels(means, x, called, {"time": parts}, "A-SRPT / best baseline")


def _draw_single(sweep: Sweep) -> Axes:
    x = "workload.single_gpu_share"
    means = _means(sweep.table, [x, "cluster.nic"], "jct_mean_s", _LINES)
    return _panels(means, x, "share of jobs on one GPU", {"cluster.nic": _NICS},
                   "mean flow time:\nA-SRPT / best baseline", "categories")


def _panels(means: pd.DataFrame, x: str, called: str, col: dict[str, Iterable[Any]], name: str,
            scale: str | None = None) -> Axes:
    """Draw ratios to the best baseline against a key, a panel for each value of a column."""
    from netsim.plots.facets import line_facets
    from netsim.plots.style import INK, name_axes

    first = line_facets(means, "ratio", scale=scale, x=x, col=next(iter(col)), among=col)
    for ax in first.figure.canvas.figure.axes:
        ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
        name_axes(ax, called)
    name_axes(first, y=name)
    return first


def _draw_testbed(sweep: Sweep) -> Axes:
    rows = {f"over {called}": ("a-srpt", [name]) for name, called in _BASELINES.items()}
    rows |= {"over the best": ("a-srpt", list(_BASELINES)),
             "Perfect over the best": ("a-srpt-perfect", list(_BASELINES))}

    def draw(metric: str, ax: Axes) -> None:
        parts = []
        for rule, label in _RULES.items():
            pairs = {row: (own, [f"{name} (servers={rule})" for name in names])
                     for row, (own, names) in rows.items()}
            parts.append(_means(sweep.table, [], metric, pairs).assign(servers=label))
        ratio_dots(pd.concat(parts), "scheduler", "servers", ax, f"A-SRPT's {_METRICS[metric]} "
                   "/ the baseline's")

    first = panels({label: metric for metric, label in _METRICS.items()}, draw, height_in=2.6)
    same_ratios(first.figure.canvas.figure.axes)
    return first


def _draw_predictors(sweep: Sweep) -> Axes:
    from netsim.plots.style import new_axes

    pairs = {f"over {label}": ("random-forest", [name]) for name, label in _PREDICTORS.items()
             if name != "random-forest"}
    means = _means(sweep.table, ["scheduler.tau"], "jct_mean_s", pairs, "scheduler.predictor")
    ax = new_axes(height_in=2.4)
    taus = means["scheduler.tau"].map("tau = {:g}".format)
    ratio_dots(means.assign(tau=taus), "scheduler", "tau", ax,
               "mean flow time: random forest / other")
    return ax


# --- all of them ---------------------------------------------------------------------------


def _figure(name: str, title: str, claims: Iterator[Claim], draw: Callable[[Sweep], Axes],
            vary: dict[str, Sequence[Any]], keys: Mapping[str, Any]) -> Reproduction:
    return Reproduction(f"a-srpt-{name}", f"A-SRPT: {title}", keys, vary, tuple(claims), draw)


FIGURES = (
    _figure("testbed", "75 jobs on 14 GPUs, against every baseline", _testbed_claims(),
            _draw_testbed, {"scheduler": ["a-srpt", "a-srpt-perfect", *_EACH_BASELINE]},
            _TESTBED),
    _figure("jobs", "against the number of jobs",
            _claims_against("limit", {limit: f"{round(limit * (1 - _TRAIN)):,} jobs"
                                      for limit in _LIMITS}),
            partial(_draw_against, "workload.limit", "jobs, of which the last fifth runs"),
            {"workload.limit": _LIMITS, "scheduler": _ALL},
            {**_CLUSTER, "workload": {**_CLUSTER["workload"], "jobs": max(_LIMITS)}}),
    _figure("single", "against the share of jobs on one GPU, at 1, 10 and 50 Gbps",
            _single_claims(), _draw_single,
            {"cluster.nic": _NICS[:2] + _NICS[3:], "workload.single_gpu_share": _SHARES,
             "scheduler": [name for name in _ALL if name != "a-srpt-perfect"]}, _CLUSTER),
    _figure("nic", "against the speed of NICs",
            _claims_against("nic", {nic: words(nic) for nic in _NICS}),
            partial(_draw_against, "cluster.nic", "NIC (Gbps)"),
            {"cluster.nic": _NICS, "scheduler": _ALL}, _CLUSTER),
    _figure("predictors", "by predictor of iterations", _predictors_claims(),
            _draw_predictors,
            {"scheduler.predictor": list(_PREDICTORS), "scheduler.tau": [0, 100]},
            {**_CLUSTER, "scheduler": {"name": "a-srpt"}}),
)
