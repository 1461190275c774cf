"""What there is to choose from, with a line on each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from netsim import network, traces
from netsim.allocators import ALLOCATORS, PRESETS, make_allocator
from netsim.edge.files import (
    EDGE_FORMATS,
    EDGE_KINDS,
    ready_made_edge_clouds,
    ready_made_edge_jobs,
)
from netsim.engine.registry import EXECUTIONS
from netsim.errors import UnknownNameError
from netsim.experiment_file.load import ready_made_experiments
from netsim.jobs.patterns import PATTERNS
from netsim.models.catalogue import describe_models
from netsim.placements.registry import PLACEMENTS
from netsim.plugins import find
from netsim.predictors import PREDICTORS
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS
from netsim.schedulers.registry import SCHEDULERS

__all__ = ["CATALOGUES", "catalogue"]


def catalogue(kind: str) -> dict[str, str]:
    """Return what there is of a kind: name to one line.

    Parameters
    ----------
    kind : str
        A name of `CATALOGUES`.
        ``"topologies"`` are kinds of networks and ready-made ones, ``"workloads"`` ready-made
        workloads and experiments, ``"models"`` neural networks to train.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    """
    if kind not in CATALOGUES:
        raise UnknownNameError("catalogue", kind, CATALOGUES)
    return CATALOGUES[kind]()


def _allocators() -> dict[str, str]:
    lines = {name: _first_line(type(make_allocator(name))) for name in ALLOCATORS}
    return lines | {name: f"preset: {_in_words(**table)}" for name, table in PRESETS.items()}


def _listed(what: str, registry: Mapping[str, str]) -> dict[str, str]:
    return {name: _first_line(find(what, name, registry)) for name in registry}


def _in_words(name: str, **options: object) -> str:
    return ", ".join([name, *(f"{option} = {value}" for option, value in options.items())])


def _patterns() -> dict[str, str]:
    return {name: _first_line(pattern) for name, pattern in PATTERNS.items()}


def _formats() -> dict[str, str]:
    edge = {name: f"of edge-clouds: {_first_line(make)}" for name, make in EDGE_FORMATS.items()}
    return {name: form.summary for name, form in traces.FORMATS.items()} | edge


def _topologies() -> dict[str, str]:
    kinds = {name: f"kind: {_first_line(make)}" for name, make in network.TOPOLOGIES.items()}
    edge = {name: f"kind of edge-cloud: {_first_line(make)}" for name, make in EDGE_KINDS.items()}
    clouds = {name: f"edge-cloud: {line}" for name, line in ready_made_edge_clouds().items()}
    return kinds | edge | network.ready_made() | clouds


def _workloads() -> dict[str, str]:
    experiments = {name: f"experiment: {line}" for name, line in ready_made_experiments().items()}
    edge = {name: f"of edge-clouds: {line}" for name, line in ready_made_edge_jobs().items()}
    return traces.ready_made() | edge | experiments


#: Kind -> what lists it.
CATALOGUES: dict[str, Callable[[], dict[str, str]]] = {
    "allocators": _allocators,
    "schedulers": lambda: _listed("scheduler", SCHEDULERS) | {
        name: f"of edge-clouds: {line}"
        for name, line in _listed("scheduler", EDGE_SCHEDULERS).items()},
    "placements": lambda: _listed("placement", PLACEMENTS),
    "executions": lambda: dict(EXECUTIONS),
    "predictors": lambda: _listed("predictor", PREDICTORS),
    "patterns": _patterns, "formats": _formats, "topologies": _topologies,
    "workloads": _workloads, "models": describe_models,
}


def _first_line(thing: Callable[..., object]) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
