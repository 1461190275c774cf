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

from netsim.plugins import labelled, parse_named
from netsim.reproductions.claims import Claim, Runs
from netsim.reproductions.factorial import Factorial
from netsim.reproductions.joint_figures import draw_layers, draw_systems
from netsim.reproductions.layer_claims import MATTERS, claims_of_shares, claims_of_spreads
from netsim.reproductions.reproduction import Reproduction
from netsim.reproductions.rules import below_one
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
