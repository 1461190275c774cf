"""Four jobs that train language models and their neighbours: when does a coflow scheduler help?

This study is not in any paper, so the column of the paper's values is ``"-"``. Times are from start
to finish, without waiting for GPUs unless stated. A slowdown is relative to the same job alone on
whole servers. The slowdown of several jobs is a ratio of geometric means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.intervals import geometric_interval
from netsim.base.units import format_bytes, parse_bytes
from netsim.plots.means import interval_note, long_form
from netsim.plots.style import (
    INK,
    add_legend,
    add_note_to,
    dress,
    log_values,
    looks,
    name_axes,
    write_beside,
)
from netsim.reproductions.claims import Claim, Runs, above_one, below_one
from netsim.reproductions.reproduction import Reproduction, panels
from netsim.results.result import Result
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- ratios --------------------------------------------------------------------------------

#: Share of a row's height that its series have together.
_SHARE = 0.8


def ratio_dots(found: Iterable[tuple[str, str, pd.Series]], ax: Axes, name: str,
               among: Iterable[str] = ()) -> None:
    """Draw a dot with its 95 % confidence interval and its value for each ratio.

    `found` has the row, the series, which has a colour, and the ratios of all seeds, whose
    geometric mean is drawn. `name` is the label of the axis, and `among` are all series of the
    figure, if other axes have more of them.
    """
    means = pd.DataFrame([(row, series, len(ratios), *geometric_interval(ratios))
                          for row, series, ratios in found],
                         columns=["row", "series", "runs", "ratio", "ratio_low", "ratio_high"])
    order = {row: place for place, row in enumerate(dict.fromkeys(means["row"]))}
    style = looks(means["series"], among)
    apart = _SHARE / len(style)
    for index, (label, look) in enumerate(style.items()):
        own = means[means["series"] == label]
        middle = own["ratio"].to_numpy(float)
        places = own["row"].map(order).to_numpy(float) + apart * (index - (len(style) - 1) / 2)
        ends = own[["ratio_low", "ratio_high"]].to_numpy(float).T
        ax.errorbar(middle, places, xerr=[middle - ends[0], ends[1] - middle], color=look.colour,
                    linestyle="", marker=look.marker, markersize=4, elinewidth=0.9, capsize=2,
                    capthick=0.9, label=label)
        for place, value in zip(places, middle, strict=True):
            write_beside(ax, place, f"{value:.2f}")
    ax.axvline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_xscale("log")
    log_values(ax.xaxis)
    dress(ax, "x")
    ax.set_yticks(list(order.values()), list(order))
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    name_axes(ax, name)
    if len(style) > 1:
        add_legend(ax)
    add_note_to(ax, interval_note(long_form(means, "ratio", runs=means["runs"]), "ratio"))


def same_ratios(axes: Sequence[Axes]) -> None:
    """Give axes of `ratio_dots` that are compared the range that all of them need."""
    lows, highs = zip(*(ax.get_xlim() for ax in axes), strict=True)
    for ax in axes:
        ax.set_xlim(min(lows), max(highs))
        log_values(ax.xaxis)


# --- the study -----------------------------------------------------------------------------

#: The models that are trained, each cut to four layers on 64 GPUs: its parallelism and iterations.
MODELS: dict[str, dict[str, int]] = {
    "llama-7b": {"tp": 4, "dp": 16, "zero": 1, "global_batch": 64, "iterations": 2},
    "gpt3-13b": {"tp": 8, "dp": 8, "global_batch": 64, "iterations": 5},
    "llama-65b": {"tp": 8, "pp": 2, "dp": 4, "zero": 1, "global_batch": 32, "iterations": 5},
    "mixtral-8x7b": {"tp": 8, "ep": 8, "dp": 8, "global_batch": 32, "iterations": 4}}

_LAYERS = 4

PLACEMENTS = {"first-fit": "first fit", "mapped": "Heavy-Edge",
              "least-busy-servers": "least busy servers"}

ALLOCATORS = {"maxmin": "max-min", "parrot": "Parrot", "sebf": "SEBF", "aalo": "Aalo"}

#: Rings that neighbours run, of 8 to 16 GPUs; and their entry in the list of workloads.
_RINGS = {"format": "ring-jobs", "mix": {"8": 1, "12": 1, "16": 1}, "iterations": [6, 12],
          "compute": ["50ms", "100ms"], "length": "400MB", "poisson_jobs": 10,
          "poisson_mean": "40ms"}

_RING = f"workload.{len(MODELS)}"

_KEYS: dict[str, Any] = {
    "cluster": {}, "scheduler": "fifo", "execution": "fabric", "record": ["jobs"],
    "network": {"kind": "gpu-cluster", "servers": 48, "gpus": 8, "nic": "100Gbps", "leaf": 4,
                "spine": 1, "oversubscription": 4},
    "workload": [*({"llm": {"name": name, "layers": _LAYERS}, "micro_batch": 2,
                    "sequence_parallel": True, **setup} for name, setup in MODELS.items()),
                 _RINGS]}

#: Arrivals of the entries: close together, or so far apart that every job is alone.
_TOGETHER, _APART = (
    {f"workload.{k}.arrival": [f"{after + gap * k:g}s"] for k in range(len(MODELS))}
    | {f"{_RING}.arrival": [rings], f"{_RING}.poisson_mean": [mean]}
    for after, gap, rings, mean in ((0.1, 0.1, "0s", "40ms"), (0, 1000, "5000s", "1000s")))

#: Sizes that decide which job goes first under Parrot: of neighbours, and of gradient buckets.
_LENGTHS = ("100MB", "400MB", "1600MB")

_BUCKET, _SMALL = 40_000_000, 5_000_000  # elements; by default, and smaller

_ORDERS = {"parrot": "Parrot", "sebf": "SEBF"}

_WHERE = "mapped"

_KINDS = ("training", "neighbours")

#: Effects of placements on training under max-min: without other jobs, and with waiting.
_OF_PLACEMENT = {"training_placed_s": "What training takes at least where {} puts it, over alone",
                 "training_jct_s": "The slowdown of training, waiting included, {}, max-min"}


# --- runs ----------------------------------------------------------------------------------
def _grid(placements: Sequence[str], allocators: Sequence[str], *, apart: bool = False,
          length: str = _LENGTHS[1], bucket: int = _BUCKET) -> dict[str, Sequence[Any]]:
    """Make a grid of all placements with all allocators, in one setting of the rest."""
    sizes = {f"workload.{k}.bucket_size": [bucket] for k in range(len(MODELS))}
    return {**(_APART if apart else _TOGETHER), f"{_RING}.length": [length], **sizes,
            "placement": list(placements), "allocator": list(allocators)}


def _grids(placements: Sequence[str], allocators: Sequence[str]) -> list[dict[str, Sequence[Any]]]:
    """List the grids: all policies; each job alone; other neighbours, and other buckets."""
    orders = ["maxmin", *_ORDERS]
    return [_grid(placements, allocators), _grid(["first-fit"], ["maxmin"], apart=True),
            *(_grid([_WHERE], orders, length=length) for length in (_LENGTHS[0], _LENGTHS[-1])),
            _grid([_WHERE], orders, bucket=_SMALL)]


def times_of(result: Result) -> dict[str, float]:
    """Compute how long jobs ran, in seconds: each model, and geometric means of each kind.

    ``training_placed_s`` is the geometric mean of the lower bounds of the training jobs: the time
    that they would take on their GPUs without other jobs. ``training_jct_s`` is the geometric mean
    of their JCTs, which include waiting.
    """
    jobs = result.jobs.set_index("job").sort_index()
    ran = jobs["finish_s"] - jobs["start_s"]
    own = slice(0, len(MODELS))
    each = dict(zip((f"{name}_s" for name in MODELS), ran.iloc[own], strict=True))
    return {**each, "training_s": _mean(ran.iloc[own]), "training_jct_s": _mean(
                jobs["jct_s"].iloc[own]),
            "training_placed_s": _mean(jobs["lower_bound_s"].iloc[own]),
            "neighbours_s": _mean(ran.iloc[len(MODELS):])}


def _mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


# --- claims --------------------------------------------------------------------------------
def _at(placement: str, allocator: str, *, apart: bool = False, length: str = _LENGTHS[1],
        bucket: int = _BUCKET) -> dict[str, Any]:
    """The columns and values that select a run of each seed."""
    return {"placement": placement, "allocator": allocator,
            f"{_RING}.poisson_mean": (_APART if apart else _TOGETHER)[f"{_RING}.poisson_mean"][0],
            f"{_RING}.length": length, "workload.0.bucket_size": bucket}


_ALONE = _at("first-fit", "maxmin", apart=True)


def _over(metric: str, one: Mapping[str, Any], other: Mapping[str, Any], runs: Runs,
          than: str | None = None) -> pd.Series:
    """Divide a metric of one run by that of another, or by its metric `than` if given."""
    return runs.of(metric, **one) / runs.of(than or metric, **other)


def _slowdown(kind: str, placement: str, allocator: str, runs: Runs) -> pd.Series:
    return _over(f"{kind}_s", _at(placement, allocator), _ALONE, runs)


def _over_maxmin(metric: str, allocator: str, placement: str, runs: Runs, **setting: Any
                 ) -> pd.Series:
    return _over(metric, _at(placement, allocator, **setting),
                 _at(placement, "maxmin", **setting), runs)


def _claims(placements: Sequence[str], allocators: Sequence[str]) -> Iterator[Claim]:
    for placement in placements:
        where = PLACEMENTS[placement]
        for kind, allocator in product(_KINDS, allocators):
            yield Claim(f"The slowdown of {kind}, {where}, {ALLOCATORS[allocator]}", "-",
                        partial(_slowdown, kind, placement, allocator), above_one)
        for metric, called in _OF_PLACEMENT.items():
            yield Claim(called.format(where), "-",
                        partial(_over, metric, _at(placement, "maxmin"), _ALONE, than="training_s"),
                        above_one)
        for allocator, kind in product(allocators[1:], (*_KINDS, *MODELS)):
            yield Claim(f"{ALLOCATORS[allocator]}'s time of {kind} over that of max-min, {where}",
                        "-", partial(_over_maxmin, f"{kind}_s", allocator, placement), below_one)
    for setting, allocator, kind in product(_settings(), _ORDERS, (*_KINDS, *MODELS)):
        yield Claim(f"{ALLOCATORS[allocator]}'s time of {kind} over that of max-min, "
                    f"{PLACEMENTS[_WHERE]}, neighbours of {setting}", "-",
                    partial(_over_maxmin, f"{kind}_s", allocator, _WHERE, **_settings()[setting]),
                    below_one)


def _settings() -> dict[str, dict[str, Any]]:
    """The sizes of neighbours, and of buckets of training, by name."""
    names = [format_bytes(parse_bytes(length)) for length in _LENGTHS]
    return {name: {"length": length} for name, length in zip(names, _LENGTHS, strict=True)} | {
        f"{names[1]}, small buckets": {"bucket": _SMALL}}


# --- the figure ----------------------------------------------------------------------------
def _draw(placements: Sequence[str], allocators: Sequence[str], sweep: Sweep) -> Axes:
    """Draw slowdowns by placement, and times over those of max-min by neighbours' all-reduces."""
    runs = Runs(sweep.table)
    slow = {f"{kind}, by placement": (
        [(PLACEMENTS[placement], ALLOCATORS[allocator], _slowdown(kind, placement, allocator, runs))
         for placement, allocator in product(placements, allocators)], "time / time alone")
        for kind in _KINDS}
    order = {f"{kind}, by the neighbours' all-reduce": (
        [(setting.replace(", ", ",\n"), ALLOCATORS[allocator],
          _over_maxmin(f"{kind}_s", allocator, _WHERE, runs, **where))
         for (setting, where), allocator in product(_settings().items(), _ORDERS)],
        "time / that under max-min, Heavy-Edge")
        for kind in _KINDS}

    def draw(part: tuple[list[tuple[str, str, pd.Series]], str], ax: Axes) -> None:
        ratio_dots(part[0], ax, part[1], ALLOCATORS.values())

    first = panels(slow | order, draw)
    axes = first.figure.canvas.figure.axes
    for compared in (axes[:len(slow)], axes[len(slow):]):
        same_ratios(compared)
    return first


def study(placements: Sequence[str] = tuple(PLACEMENTS),
          allocators: Sequence[str] = tuple(ALLOCATORS)) -> Reproduction:
    """Make the study of some of `PLACEMENTS` and `ALLOCATORS`.

    ``"maxmin"`` must be first, and ``"mapped"``, ``"parrot"`` and ``"sebf"`` must be included,
    because runs with other neighbours use them.
    """
    return Reproduction("llm-neighbours",
                        "Four jobs of language models and their neighbours on a 4:1 rail fabric",
                        _KEYS, _grids(placements, allocators),
                        tuple(_claims(placements, allocators)),
                        partial(_draw, placements, allocators), derive=times_of)


FIGURES = (study(),)
