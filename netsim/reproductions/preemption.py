"""Preemption, placement or the network: which is worth how much, and when?

This study is not in any paper, so the column of the paper's values is ``"-"``. SRTF and Tiresias
preempt. Each has a twin that does not: SJF by time has the order of SRTF, and FIFO with backfill
that of Tiresias with a single queue. The gain of a scheduler over its twin is the worth of
preemption. A-SRPT has its own placement, and SJF-BCO only plans rings that all arrive at time 0.
Neither is therefore combined with each placement, and SJF-BCO runs on such jobs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.analysis.intervals import geometric_interval
from netsim.base.plugins import labelled, parse_named
from netsim.plots.style import COLOURS, INK, add_note, dress, name_axes, new_figure
from netsim.reproductions.claims import Claim, Runs, below_one, words
from netsim.reproductions.factorial import (
    Conditions,
    Factorial,
    claims_of_shares,
    claims_of_spreads,
)
from netsim.reproductions.joint import WIDTH_IN, draw_shares, draw_spreads, name_rows
from netsim.reproductions.reproduction import Reproduction
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- pictures ------------------------------------------------------------------------------

_TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)


class Worth(NamedTuple):
    """The worth of preemption in one place: a scheduler over its twin, which does not preempt."""

    setting: str
    own: str
    twin: str
    placement: str
    restore: str  #: the time that restoring takes
    measure: Callable[[Runs], pd.Series]  #: the ratio of mean JCTs for each seed


def draw_study(conditions: Conditions, worths: Sequence[Worth], runs: Runs) -> Axes:
    """Draw the shares of layers, the cost of their worst choices, and the worth of preemption.

    `worths` are ordered by setting; there is a panel for each setting. The axes of the shares are
    returned.
    """
    figure = new_figure(5.6, WIDTH_IN)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(3, 2.6))[:, 0]
    first, second = upper.subplots(1, 2, sharey=True)
    draw_shares(first, conditions, runs)
    draw_spreads(second, conditions, runs)
    name_rows(first, conditions)
    settings = {name: list(each) for name, each in groupby(worths, lambda each: each.setting)}
    panels = lower.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for ax, (setting, each) in zip(panels, settings.items(), strict=True):
        _draw_worth(ax, each, runs)
        ax.set_title(setting, fontsize=8, loc="left", color=INK)
    panels[0].set_ylabel("mean JCT / that\nwithout preemption", fontsize=7.5, color=INK)
    lower.legend(handles=panels[0].get_legend_handles_labels()[0], loc="outside upper center",
                 ncols=2, frameon=False, fontsize=7.5, labelcolor=INK)
    add_note(figure, "whiskers: from the least to the largest ratio of all seeds")
    return first


def _draw_worth(ax: Axes, worths: Iterable[Worth], runs: Runs) -> None:
    """Draw a line for each scheduler and placement, with the range of seeds, against the cost."""
    from matplotlib.ticker import NullLocator

    lines: dict[tuple[str, str, str], list[Worth]] = {}
    for each in worths:
        lines.setdefault((each.own, each.twin, each.placement), []).append(each)
    owns, placements = (list(dict.fromkeys(line[at] for line in lines)) for at in (0, 2))
    for number, ((own, twin, placement), line) in enumerate(lines.items()):
        tone, dashed = COLOURS[owns.index(own)], placements.index(placement)
        found = np.array([_mean_and_range(each.measure(runs)) for each in line])
        x = np.arange(len(line)) + 0.07 * (number - (len(lines) - 1) / 2)
        ax.plot(x, found[:, 0], color=tone, marker="os"[dashed % 2], markersize=4,
                markerfacecolor="white" if dashed else tone, linestyle="-:"[dashed % 2],
                label=f"{own} over {twin}, {placement}")
        ax.vlines(x, found[:, 1], found[:, 2], color=tone, linewidth=0.8)
    ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_yscale("log")
    ax.yaxis.set_minor_locator(NullLocator())
    least, most = ax.get_ylim()
    ticks = [tick for tick in _TICKS if least <= tick <= most]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks(range(len(line)), [words(each.restore) for each in line])
    dress(ax, "y")
    name_axes(ax, "restore time")


def _mean_and_range(ratios: pd.Series) -> tuple[float, float, float]:
    """The geometric mean of ratios over seeds, the least and the largest."""
    return geometric_interval(ratios)[0], ratios.min(), ratios.max()


# --- the studies ---------------------------------------------------------------------------

PLACEMENTS = {"first-fit": "first fit", "consolidated": "consolidated",
              "mapped:servers=most": "Heavy-Edge"}

ALLOCATORS = {"maxmin": "max-min", "parrot": "Parrot"}

_NICS = ("10Gbps", "100Gbps")

#: Scales of times between arrivals, with the NICs that each is combined with: on a fast network,
#: jobs of the same trace leave GPUs idle, and three times as many fill them again.
_PACES = {1.0: _NICS, 0.3: _NICS[1:]}

_CROWDED = {1.0: "", 0.3: ", crowded"}

#: Times to restore a job after a preemption; the factorial has the first.
_RESTORES = ("10s", "0s", "60s")

_WITHOUT = {"fifo": "FIFO", "fifo:backfill=true": "FIFO with backfill",
            "sjf:by=time:backfill=true": "SJF"}

#: One-stage models: data-parallel rings.
_RINGS = ("vgg19", "resnet152", "inception-v3", "bert-large", "xlnet-large")


class Jobs(NamedTuple):
    """A cluster and its jobs."""

    cluster: Mapping[str, Any]
    workload: Mapping[str, Any]
    tiresias: str  #: Tiresias with thresholds for these jobs
    batch: int  #: number of jobs that all arrive at time 0, for SJF-BCO
    trace: Mapping[str, Any] | None = None  #: keys of the workload if a trace is given

    @property
    def preemptive(self) -> dict[str, str]:
        """The schedulers that preempt, with their names."""
        return {"srtf": "SRTF", self.tiresias: "Tiresias"}

    @property
    def twins(self) -> dict[str, str]:
        """The scheduler without preemption beside each that preempts."""
        return dict(zip(self.preemptive, reversed(list(_WITHOUT)[1:]), strict=True))


#: 128 GPUs. A batch has 300 jobs at time 0, which SJF-BCO plans in seconds.
RECURRENT = Jobs(
    {"servers": 16, "gpus": 8, "nic": _NICS[0], "intra": "300GB/s"},
    {"format": "recurrent", "jobs": 1000, "mean_interarrival": "100s", "max_gpus": 64, "train": 0,
     "most_iterations": 8}, "tiresias", 300)

#: 16 GPUs; jobs of 8 have two servers. Drawn jobs resemble those of the trace in number and size.
TIRESIAS = Jobs(
    {"servers": 4, "gpus": 4, "nic": _NICS[0], "intra": "300GB/s"},
    {"format": "recurrent", "jobs": 60, "mean_interarrival": "30s", "max_gpus": 8, "train": 0,
     "median_duration": "130s", "tail": 0.2, "single_gpu_share": 0.5, "gpus_per_server": 4,
     "most_iterations": 16},
    "tiresias:thresholds=[160, 640]", 60,
    {"format": "tiresias-cluster", "train": 0, "gpus_per_server": 4, "most_iterations": 16})


# --- runs ----------------------------------------------------------------------------------
def _grids(jobs: Jobs, placements: Sequence[str], allocators: Sequence[str]
           ) -> list[dict[str, Sequence[Any]]]:
    """List the grids: one for each pace, and one with all jobs at time 0."""
    wide = [*_WITHOUT, *jobs.preemptive]
    grids: list[dict[str, Sequence[Any]]] = []
    for pace, nics in _PACES.items():
        where: dict[str, Sequence[Any]] = {"workload.arrival_scale": [pace], "cluster.nic": nics}
        after: dict[str, Sequence[Any]] = {
            "allocator": allocators, "preemption.restore_s": _RESTORES[:1]}
        grids += [{**where, "scheduler": wide, "placement": placements, **after},
                  {**where, "scheduler": ["a-srpt-perfect"], **after},
                  {**where, "cluster.nic": _queued(pace, nics), "scheduler": [*jobs.preemptive],
                   "placement": placements[:2], **after, "preemption.restore_s": _RESTORES[1:]}]
    batch: dict[str, Sequence[Any]] = {
        "workload.arrival_scale": [0.0], "workload.limit": [jobs.batch],
        "workload.models": [list(_RINGS)], "cluster.nic": _NICS}
    return [*grids, {**batch, "scheduler": wide, "placement": ["consolidated"], **after},
            {**batch, "scheduler": ["a-srpt-perfect", "sjf-bco"], **after}]


def _queued(pace: float, nics: Sequence[str]) -> Sequence[str]:
    """Select the NICs with which jobs queue; without queues, hardly any job is preempted."""
    return [nic for nic in nics if (pace, nic) != (1.0, _NICS[1])]


def _called(name: str) -> str:
    """The name of a policy in tables, given that in an experiment."""
    return labelled(parse_named(name))


def _settings() -> dict[str, dict[str, Any]]:
    """The columns of each setting, by its name."""
    return {f"{words(nic)}{_CROWDED[pace]}": {"workload.arrival_scale": pace, "cluster.nic": nic}
            for pace, nics in _PACES.items() for nic in nics}


def _factorials(jobs: Jobs, placements: Sequence[str], allocators: Sequence[str]) -> Conditions:
    """Make the factorials of each setting; the first one has the network as a layer."""
    layers = {"scheduler": [*_WITHOUT, *jobs.preemptive], "placement": placements,
              "allocator": allocators}
    named = {layer: [_called(name) for name in names] for layer, names in layers.items()}
    cost = {"preemption.restore_s": _RESTORES[0]}
    return {"10 and 100 Gbps": Factorial({**named, "cluster.nic": _NICS},
                                         {"workload.arrival_scale": 1.0, **cost}),
            **{setting: Factorial(named, {**where, **cost})
               for setting, where in _settings().items()}}


# --- claims --------------------------------------------------------------------------------
def _run(scheduler: str, placement: str | None, setting: Mapping[str, Any],
         restore: str = _RESTORES[0], allocator: str = "maxmin") -> dict[str, Any]:
    """The columns that select a run of each seed; without placement, the scheduler has its own."""
    return {"scheduler": _called(scheduler),
            "placement": "-" if placement is None else _called(placement), **setting,
            "preemption.restore_s": restore, "allocator": allocator}


def _over(one: Mapping[str, Any], other: Mapping[str, Any], runs: Runs) -> pd.Series:
    return runs.ratio(dict(one), dict(other), "jct_mean_s")


def _worths(jobs: Jobs, placements: Sequence[str], allocator: str = "maxmin") -> Iterator[Worth]:
    """Yield the worth of preemption where jobs queue: a scheduler over its twin."""
    for (setting, where), (own, twin), placement, restore in product(
            _settings().items(), jobs.twins.items(), placements[:2], sorted(_RESTORES)):
        if (where["workload.arrival_scale"], where["cluster.nic"]) == (1.0, _NICS[1]):
            continue
        yield Worth(setting, jobs.preemptive[own], _WITHOUT[twin], PLACEMENTS[placement], restore,
                    partial(_over, _run(own, placement, where, restore, allocator),
                            _run(twin, placement, where, allocator=allocator)))


def _claims(jobs: Jobs, placements: Sequence[str], allocators: Sequence[str]) -> Iterator[Claim]:
    conditions = _factorials(jobs, placements, allocators)
    yield from claims_of_shares({"mean JCT": conditions})
    yield from claims_of_spreads(conditions)
    for allocator in allocators:
        for each in _worths(jobs, placements, allocator):
            yield Claim(f"{each.own}'s mean JCT over that of {each.twin}, {each.placement}, "
                        f"restore {words(each.restore)}, {ALLOCATORS[allocator]}, {each.setting}",
                        "-", each.measure, below_one)
    for condition, found in conditions.items():
        for choice, name in enumerate(allocators[1:], 1):
            yield Claim(f"The mean JCT with {ALLOCATORS[name]} over that with max-min, "
                        f"{condition}", "-",
                        partial(found.over_default, "allocator", choice), below_one)
    yield Claim("The mean JCT at 100 Gbps over that at 10 Gbps", "-",
                partial(conditions["10 and 100 Gbps"].over_default, "cluster.nic", 1), below_one)
    yield from _claims_of_wholes(jobs, placements)
    yield from _claims_of_batches(jobs, allocators)


def _claims_of_wholes(jobs: Jobs, placements: Sequence[str]) -> Iterator[Claim]:
    """Yield claims that a scheduler with its placement is better than SRTF, consolidated."""
    wholes: list[tuple[str, str | None, str]] = [
        (name, placement, f"{called}'s mean JCT, {PLACEMENTS[placement]},")
        for (name, called), placement in product(
            {**_WITHOUT, **jobs.preemptive}.items(), placements)
        if (name, placement) != ("srtf", "consolidated")]
    wholes.append(("a-srpt-perfect", None, "A-SRPT's mean JCT"))
    for setting, where in _settings().items():
        best = _run("srtf", "consolidated", where)
        for name, placement, called in wholes:
            yield Claim(f"{called} over SRTF's, consolidated, {setting}", "-",
                        partial(_over, _run(name, placement, where), best), below_one)


def _claims_of_batches(jobs: Jobs, allocators: Sequence[str]) -> Iterator[Claim]:
    """Yield claims that a scheduler is better than all others if all jobs arrive at 0."""
    names = {**_WITHOUT, **jobs.preemptive, "a-srpt-perfect": "A-SRPT", "sjf-bco": "SJF-BCO"}
    layers = {"scheduler": [_called(name) for name in names], "allocator": allocators}
    for nic in _NICS:
        found = Factorial(layers, {"workload.arrival_scale": 0.0, "cluster.nic": nic})
        for choice, called in enumerate(names.values()):
            yield Claim(f"{called}'s mean JCT over the best other's, rings at time 0, "
                        f"{words(nic)}", "-",
                        partial(found.over_others, "scheduler", choice), below_one)


# --- both studies --------------------------------------------------------------------------
def study(name: str, title: str, jobs: Jobs, placements: Sequence[str] = tuple(PLACEMENTS),
          allocators: Sequence[str] = tuple(ALLOCATORS)) -> Reproduction:
    """Make the study of a cluster and its jobs, for some of `PLACEMENTS` and `ALLOCATORS`.

    The default comes first in each; ``"consolidated"`` must be included.
    """
    keys = {"cluster": jobs.cluster, "workload": jobs.workload, "record": ["jobs"],
            "execution": {"name": "fabric", "time": "continuous"},
            "preemption": {"keep": "fraction"}}

    def draw(sweep: Sweep) -> Axes:
        return draw_study(_factorials(jobs, placements, allocators),
                          list(_worths(jobs, placements)), Runs(sweep.table))

    return Reproduction(name, f"Preemption, placement or network, {title}", keys,
                        _grids(jobs, placements, allocators),
                        tuple(_claims(jobs, placements, allocators)), draw, jobs.trace)


FIGURES = (study("preemption-recurrent", "1,000 jobs that recur", RECURRENT),
           study("preemption-tiresias", "the 60 jobs of the Tiresias trace", TIRESIAS))
