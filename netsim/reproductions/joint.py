"""Joint study of schedulers, placements and allocators: which layer matters, and when?

This study is not in any paper, so the column of the paper's values is ``"-"``. Schedulers and
placements are those of SJF-BCO, A-SRPT and their baselines; allocators are those of coflow papers.
A condition is a load, whether there are GPUs for all jobs at once, and a network. Claims state
that a layer explains most of the variance, or that its choice matters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.plugins import labelled, parse_named
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    add_note,
    dress,
    name_axes,
    new_figure,
)
from netsim.reproductions.claims import Claim, Runs, below_one
from netsim.reproductions.factorial import (
    MATTERS,
    Conditions,
    Factorial,
    claims_of_shares,
    claims_of_spreads,
    name_of_layer,
)
from netsim.reproductions.reproduction import Reproduction
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- pictures ------------------------------------------------------------------------------

#: Width of a figure of several panels beside each other, in inches.
WIDTH_IN = 7.2

#: Smallest share of the variance that is labelled with its number.
_LEGIBLE = 0.05

_RATIOS = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50)

#: Largest ratio above which the label 1.2 has no room beside 1.
_WIDE = 15


def draw_layers(layers: Mapping[str, Mapping[str, str]], found: Mapping[str, Conditions],
                runs: Runs) -> Axes:
    """Draw the shares of variance that layers explain, and the cost of their worst choices.

    `found` has the factorials by condition, for each metric by its name. Costs are drawn for the
    first metric; the axes of its variance are returned.
    """
    rows = -(-(len(found) + 1) // 2)
    figure = new_figure(3.2 * rows, WIDTH_IN)
    axes = figure.subplots(rows, 2, sharey=True).flat
    for ax, (label, conditions) in zip(axes, found.items(), strict=False):
        draw_shares(ax, conditions, runs)
        ax.set_title(label, fontsize=8, loc="left", color=INK)
    conditions = next(iter(found.values()))
    draw_spreads(axes[-1], conditions, runs)
    axes[-1].set_title(next(iter(found)), fontsize=8, loc="left", color=INK)
    first: Axes = axes[0]
    name_rows(first, conditions)
    return first


def name_rows(ax: Axes, conditions: Conditions) -> None:
    """Write the names of conditions beside the rows of axes, and a legend of layers above all."""
    ax.set_yticks(range(len(conditions)), [_in_two_lines(name) for name in conditions])
    ax.invert_yaxis()
    handles = ax.get_legend_handles_labels()[0]
    ax.figure.legend(handles=handles, loc="outside upper right", ncols=len(handles),
                     frameon=False, fontsize=7.5, labelcolor=INK)


def _in_two_lines(condition: str) -> str:
    """Break the name of a condition after its load."""
    return condition.replace(", ", ",\n", 1)


def _layers_of(conditions: Conditions) -> list[str]:
    """List the layers of all conditions, those of the first one first."""
    return list(dict.fromkeys(layer for found in conditions.values() for layer in found.layers))


def _colours(layers: Sequence[str]) -> dict[str, str]:
    """Choose a colour for each layer, and grey for interactions."""
    return dict(zip(layers, COLOURS, strict=False)) | {"together": GREY}


def draw_shares(ax: Axes, conditions: Conditions, runs: Runs) -> None:
    """Draw a stacked bar of shares for each condition, and the standard deviation beside it.

    Conditions may have different layers; a bar lacks those of other conditions.
    """
    means = [found.variance(runs).mean() for found in conditions.values()]
    left = np.zeros(len(means))
    for part, tone in _colours(_layers_of(conditions)).items():
        shares = np.array([mean.get(part, 0.0) for mean in means])
        ax.barh(range(len(means)), shares, 0.72, left, color=tone, edgecolor="white",
                linewidth=0.6,
                label="interactions" if part == "together" else name_of_layer(part))
        for row, (start, share) in enumerate(zip(left, shares, strict=True)):
            if share >= _LEGIBLE:
                ax.text(start + share / 2, row, f"{100 * share:.0f}", ha="center", va="center",
                        fontsize=6.5, color="white" if part == "scheduler" else INK)
        left += shares
    for row, mean in enumerate(means):
        ax.text(1.02, row, f"×{np.exp(mean['deviation']):.2f}", va="center", fontsize=6.5,
                color=INK)
    dress(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.13)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    name_axes(ax, "share of the variance")


def draw_spreads(ax: Axes, conditions: Conditions, runs: Runs) -> None:
    """Draw worst over best choice of each layer, with the others at their best and by default."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullLocator

    most, layers = 1.0, _layers_of(conditions)
    for number, layer in enumerate(layers):
        tone = _colours(layers)[layer]
        here = [row for row, found in enumerate(conditions.values()) if layer in found.layers]
        rows = np.array(here) + 0.22 * (number - (len(layers) - 1) / 2)
        for best, face in ((False, "white"), (True, tone)):
            ratios = [float(np.exp(np.log(found.spread(layer, best, runs)).mean()))
                      for found in conditions.values() if layer in found.layers]
            ax.plot(ratios, rows, "os^D"[number % 4], color=tone, markersize=4.5,
                    markeredgewidth=0.9, markerfacecolor=face)
            most = max(most, *ratios)
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ticks = [tick for tick in _RATIOS if tick <= 1.1 * most and (tick != 1.2 or most < _WIDE)]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.axvline(1, color=INK, linewidth=0.8, zorder=1)
    dress(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    name_axes(ax, "worst of a layer / its best")
    add_legend(ax, [Line2D([], [], color=INK, marker="o", markersize=4.5, linestyle="",
                           markerfacecolor=face, label=f"the other layers {label}")
                    for label, face in (("at their best", INK), ("by default", "white"))])


def draw_systems(layers: Mapping[str, Mapping[str, str]], found: Mapping[str, Conditions],
                 runs: Runs) -> Axes:
    """Draw a heat map of systems and allocators, relative to the best, for each condition.

    These are the two layers; arguments are as for `draw_layers`. The first metric is drawn, and the
    axes of the first condition are returned.
    """
    from matplotlib.colors import LogNorm

    conditions = next(iter(found.values()))
    maps = {name: _over_best(each, runs) for name, each in conditions.items()}
    norm = LogNorm(1, max(float(each.max()) for each in maps.values()) * 1.001)
    columns = -(-len(maps) // 2)
    axes = new_figure(4.2, WIDTH_IN).subplots(2, columns, sharex=True, sharey=True)
    systems, allocators = (list(names.values()) for names in layers.values())
    for ax, (name, ratios) in zip(axes.flat, maps.items(), strict=True):
        ax.imshow(ratios, aspect="auto", cmap="Blues", norm=norm)
        for (row, column), ratio in np.ndenumerate(ratios):
            ax.text(column, row, f"{ratio:.2f}", ha="center", va="center", fontsize=6.5,
                    color="white" if norm(ratio) > 0.55 else INK)
        ax.set_title(_in_two_lines(name), fontsize=7, color=INK)
        ax.set_xticks(range(len(allocators)), allocators, rotation=30, ha="right",
                      rotation_mode="anchor")
        ax.set_yticks(range(len(systems)), systems)
        ax.tick_params(labelsize=7, labelcolor=INK, length=0)
        ax.spines[:].set_visible(False)
    first: Axes = axes.flat[0]
    add_note(first.figure.canvas.figure, f"{next(iter(found))} / the least of its panel")
    return first


def _over_best(found: Factorial, runs: Runs) -> np.ndarray:
    """Compute geometric means over seeds, divided by the smallest."""
    _, logs = found.logs(runs)
    means = logs.mean(axis=0)
    return np.exp(means - means.min())


# --- the grid ------------------------------------------------------------------------------

#: The choices of each layer, as given in an experiment, with their names.
Layers = Mapping[str, Mapping[str, str]]

_ALLOCATORS = {"maxmin": "max-min", "aalo": "Aalo", "sebf": "Varys", "parrot": "Parrot"}

#: Every scheduler with every placement and allocator. The default comes first in each layer.
LAYERS: Layers = {
    "scheduler": {"fifo": "FIFO", "sjf": "SJF", "spjf:predictor=perfect": "SPJF",
                  "wcs-workload:predictor=perfect": "WCS-Workload"},
    "placement": {"first-fit": "first fit", "least-busy-servers": "least busy servers",
                  "mapped:servers=most": "most free first", "random": "random"},
    "allocator": _ALLOCATORS,
}

#: Schedulers that choose GPUs themselves, and baselines of A-SRPT with their own placement.
SYSTEMS: Layers = {
    "scheduler": {"sjf-bco": "SJF-BCO", "ff": "FF", "ls": "LS", "a-srpt-perfect": "A-SRPT",
                  "spjf:predictor=perfect:servers=most": "SPJF",
                  "wcs-workload:predictor=perfect:servers=most": "WCS-Workload"},
    "allocator": _ALLOCATORS,
}

#: Numbers of jobs by GPUs, in the proportions of SJF-BCO's evaluation: jobs that need 200 or 74
#: GPUs in total, on a cluster of 80.
_CROWDS = {"queue": {"1": 24, "2": 4, "4": 8, "8": 9, "16": 2, "32": 1},
           "room for all": {"1": 10, "2": 2, "4": 3, "8": 4, "16": 1}}

_LOADS = {"computation-heavy": "2MB", "communication-heavy": "50MB"}

_NETWORKS = {"non-blocking": "big-switch-20-10g", "4:1": "leaf-spine-20-4to1-10g"}

#: Columns and values of each condition, by its name.
CONDITIONS: dict[str, dict[str, Any]] = {
    f"{load}, {crowd}, {network}": {
        "workload.length": length, "workload.mix": json.dumps(mix), "network.name": name}
    for (load, length), (crowd, mix), (network, name) in product(
        _LOADS.items(), _CROWDS.items(), _NETWORKS.items())}

_VARY: dict[str, Sequence[Any]] = {
    "workload.length": list(_LOADS.values()), "workload.mix": list(_CROWDS.values()),
    "network.name": list(_NETWORKS.values())}

_KEYS: dict[str, Any] = {
    "cluster": {"gpus": 4, "intra": "300GB/s"}, "network": {"name": "big-switch-20-10g"},
    "workload": {"format": "ring-jobs", "iterations": [5, 30]},
    "execution": {"name": "fabric", "slot": "50ms"}, "record": ["jobs"]}

_METRICS = {"jct_mean_s": "mean JCT", "makespan_s": "makespan"}


def _factorials(layers: Layers, metric: str = "jct_mean_s") -> dict[str, Factorial]:
    """Make the factorial design of each condition."""
    axes = {layer: [labelled(parse_named(name)) for name in names]
            for layer, names in layers.items()}
    return {condition: Factorial(axes, where, metric) for condition, where in CONDITIONS.items()}


def _split(layers: Layers) -> dict[str, dict[str, Factorial]]:
    """Make the factorials whose variance is decomposed, by the name of the metric."""
    found = {label: _factorials(layers, metric) for metric, label in _METRICS.items()}
    if "random" in layers.get("placement", ()):
        others = {name: called for name, called in layers["placement"].items()
                  if name != "random"}
        found["mean JCT without random placement"] = _factorials({**layers, "placement": others})
    return found


# --- claims --------------------------------------------------------------------------------
def _layers_claims(layers: Layers) -> Iterator[Claim]:
    yield from claims_of_shares(_split(layers))
    yield from claims_of_spreads(_factorials(layers))
    for condition, found in _factorials(layers).items():
        for choice, called in enumerate(layers["placement"].values()):
            yield Claim("The worst allocator's mean JCT over the best's is above 1.1, placement "
                        f"{called}, {condition}", "-",
                        partial(found.spread_at, "allocator", "placement", choice), MATTERS)
    for (condition, found), (layer, names) in product(_factorials(layers).items(), layers.items()):
        default, *others = names.values()
        for choice, called in enumerate(others, 1):
            yield Claim(f"The mean JCT with {called} over that with {default}, {condition}", "-",
                        partial(found.over_default, layer, choice), below_one)


def _systems_claims(layers: Layers) -> Iterator[Claim]:
    yield from claims_of_shares(_split(layers))
    yield from claims_of_spreads(_factorials(layers))
    for condition, found in _factorials(layers).items():
        for choice, called in enumerate(layers["scheduler"].values()):
            yield Claim(f"{called}'s mean JCT over the best other's, {condition}", "-",
                        partial(found.over_others, "scheduler", choice), below_one)


# --- both studies --------------------------------------------------------------------------
def _study(name: str, title: str, layers: Layers, claims: Callable[[Layers], Iterator[Claim]],
           draw: Callable[..., Axes]) -> Reproduction:
    vary = {**_VARY, **{layer: list(names) for layer, names in layers.items()}}
    return Reproduction(name, f"Joint study: {title}", _KEYS, vary, tuple(claims(layers)),
                        partial(_drawn, layers, draw))


def _drawn(layers: Layers, draw: Callable[..., Axes], sweep: Sweep) -> Axes:
    return draw(layers, _split(layers), Runs(sweep.table))


def layers_study(layers: Layers = LAYERS) -> Reproduction:
    """Make the study that combines every scheduler with every placement and allocator."""
    return _study("joint-study", "scheduler, placement or allocator, which layer matters when",
                  layers, _layers_claims, draw_layers)


def systems_study(layers: Layers = SYSTEMS) -> Reproduction:
    """Make the study of systems that both schedule and place, under every allocator."""
    return _study("joint-systems", "SJF-BCO, A-SRPT and baselines of both, under four allocators",
                  layers, _systems_claims, draw_systems)


FIGURES = (layers_study(), systems_study())
