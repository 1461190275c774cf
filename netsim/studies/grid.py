"""The runs of a sweep: every combination of what is varied, for every seed, each with its key."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.checks import check_options
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.errors import InputError, SpecError
from netsim.experiment_file.experiment import POLICIES
from netsim.experiment_file.identity import spec_hash
from netsim.experiment_file.load import Draft
from netsim.experiment_file.tables import SweepTable
from netsim.experiment_file.values import seeds_of
from netsim.network.files import as_network
from netsim.plain import plain_numbers
from netsim.plugins import parse_named
from netsim.schedulers.edge_registry import make_edge_scheduler
from netsim.simulation.compatibility import NOTHING_TO_SHARE, as_rings, check_jobs, policies_of
from netsim.simulation.on_edge import as_edge_workload
from netsim.simulation.simulate import simulate
from netsim.studies.code_version import code_version
from netsim.studies.labels import as_cell, policy_label
from netsim.studies.sending import digest_of, main_classes
from netsim.studies.tasks import (
    CallTask,
    ExperimentTask,
    digest_of_file,
    names_in,
    policies_of_call,
)
from netsim.traces.formats import as_workload
from netsim.units import parse_seconds

__all__ = ["SweepRun", "check_shares", "combinations", "identity_of", "runs_of_calls",
           "runs_of_experiment"]

_POLICIES = ("allocator", *POLICIES)

#: Keys that cannot be varied, and what to do instead.
_FIXED = {"seed": "give seeds (--seeds)", "workload.seed": "give seeds (--seeds)",
          "cluster.seed": "give seeds (--seeds)", "edge_cloud.seed": "give seeds (--seeds)",
          "name": "it names the results", "description": "it changes nothing",
          "compare": "vary allocator", "sweep": "it says what to vary"}


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes
    ----------
    varied : mapping of str to str, float or bool
        The columns of what is varied, and their values in this run.
    seed : int
    key : str
        16 hexadecimal digits of all that the run depends on, netsim's code included.
    task : ExperimentTask or CallTask
        What to run.
    """

    varied: Mapping[str, Any]
    seed: int
    key: str
    task: ExperimentTask | CallTask


def combinations(axes: Mapping[str, Sequence[tuple[Any, Any]]]
                 ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Go through every combination of the values of some axes, the last axis innermost.

    Parameters
    ----------
    axes : mapping of str to sequence of tuple
        What is varied: the label and the value of each. A comparison has one axis, of policies.

    Yields
    ------
    labels, values : dict
        By the name of the axis.

    Examples
    --------
    >>> for labels, values in combinations({"allocator": [("a", "parrot"), ("b", "lccf")]}):
    ...     print(labels, values)
    {'allocator': 'a'} {'allocator': 'parrot'}
    {'allocator': 'b'} {'allocator': 'lccf'}
    """
    for choice in itertools.product(*axes.values()):
        yield ({name: label for name, (label, _) in zip(axes, choice, strict=True)},
               {name: value for name, (_, value) in zip(axes, choice, strict=True)})


def _runs(axes: Mapping[str, Sequence[tuple[Any, Any]]],
          seeded: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[SweepRun]]
          ) -> list[SweepRun]:
    """Collect the runs of every combination, the seeds innermost; no two may be the same."""
    runs = [run for labels, values in combinations(axes) for run in seeded(labels, values)]
    keys: dict[str, SweepRun] = {}
    rows: dict[str, SweepRun] = {}
    for run in runs:
        twin = keys.setdefault(run.key, run)
        if twin is not run:
            raise InputError(f"two runs of the sweep are the same: {_said(twin)} and {_said(run)}")
        if rows.setdefault(_said(run), run) is not run:
            raise InputError(f"two runs of the sweep would both be called {_said(run)}; give "
                             "labels by a mapping, or make the allocator a dataclass")
    return runs


def _said(run: SweepRun) -> str:
    said = {**run.varied, "seed": run.seed}
    return ", ".join(f"{name} {value}" for name, value in said.items())


# --- of an experiment file -----------------------------------------------------------------


def runs_of_experiment(draft: Draft, grid: SweepTable) -> list[SweepRun]:
    """List the runs of an experiment with what is varied put in place, the seeds innermost.

    Raises
    ------
    SpecError
        If a key cannot be varied, or an experiment of the grid is wrong; names the values.
    """
    for key in grid.vary:
        _check_key(key)

    def seeded(_: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[SweepRun]:
        variant = draft.copy()
        # A table before what is in it: another allocator comes with its own options.
        for key in sorted(values, key=lambda key: (_column(key).count("."), key)):
            variant.put(key, values[key], f"{key}={as_cell(values[key])}")
        return _of_variant(variant, grid, values)

    # Their labels are made when the values have been checked, in their places in the experiment.
    return _runs({key: [(None, value) for value in values]
                  for key, values in grid.vary.items()}, seeded)


def _check_key(key: str) -> None:
    for fixed, instead in _FIXED.items():
        if key == fixed or key.startswith(f"{fixed}."):
            raise SpecError([f"sweep.vary: {key!r} cannot be varied: {instead}"])


def _of_variant(variant: Draft, grid: SweepTable, values: Mapping[str, Any]) -> Iterator[SweepRun]:
    """Yield a run per seed; the experiment is built once, for seeds change nothing else."""
    seeds = seeds_of(grid.seeds, variant.keys.get("seed", 0))
    variant.put("seed", seeds[0], f"seed={seeds[0]}")
    first = variant.build()
    if not first.allocates and any(key.partition(".")[0] == "allocator" for key in values):
        raise SpecError([f"sweep.vary: allocator: {NOTHING_TO_SHARE}"])
    resolved = first.single().resolved()
    labels = {_column(key): _label(key, value, variant.path) for key, value in values.items()}
    code, classes = code_version(*names_in(resolved)), main_classes(resolved)
    identity = {"code": code, "classes": identity_of(classes)}
    for seed in seeds:
        spec = resolved | {"seed": seed}
        spec |= {table: spec[table] | {"seed": seed} for table in first.seeded}
        yield SweepRun(labels, seed, spec_hash(spec | identity, digits=16),
                       ExperimentTask(spec, code, classes))


def _column(key: str) -> str:
    """Return the column of a key: the name of a policy is the policy."""
    policy, _, rest = key.partition(".")
    return policy if rest == "name" and policy in _POLICIES else key


def _label(key: str, value: Any, path: Path | None) -> Any:
    if path is not None and key.endswith(".file") and isinstance(value, str):
        return os.path.relpath(value, path.parent)  # as the experiment file says it
    if _column(key) not in _POLICIES:
        return as_cell(value)
    return policy_label(_column(key), parse_named(value) if isinstance(value, str) else value)


# --- of a call -----------------------------------------------------------------------------


@plain_numbers
def runs_of_calls(fixed: Mapping[str, Any], vary: Mapping[str, Mapping[Any, Any]],
                  seeds: Sequence[int]) -> list[SweepRun]:
    """List the runs of `netsim.simulate` with some keywords varied, the seeds innermost.

    Parameters
    ----------
    fixed : mapping
        Keywords that have one value.
    vary : mapping of str to mapping
        For each other keyword its values, by label.
    seeds : sequence of int

    Raises
    ------
    InputError
        If two runs would be the same.
    """
    def seeded(labels: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[SweepRun]:
        settings = {**fixed, **values}
        _check_call(settings, seeds[0])
        check_shares(settings["network"], vary, settings.get("execution"))
        policies, names = policies_of_call(settings)
        identity = identity_of(settings | policies)
        code, classes = code_version(*names), main_classes(settings)
        files = {name: digest_of_file(Path(settings[name])) for name in ("network", "workload")
                 if isinstance(settings[name], str | Path) and Path(settings[name]).is_file()}
        for seed in seeds:
            key = spec_hash({"call": identity, "seed": seed, "code": code}, digits=16)
            task = CallTask(settings | {"seed": seed}, code, files, classes)
            yield SweepRun(labels, seed, key, task)

    return _runs({name: list(values.items()) for name, values in vary.items()}, seeded)


def check_shares(network: Any, varied: Collection[str], execution: Any) -> None:
    """Refuse to vary allocators on a cluster whose jobs do not use the network.

    Raises
    ------
    InputError
        If that is so.
    """
    if "allocator" in varied and isinstance(network, Cluster) and (
            policies_of(execution=execution)[2] != "fabric"):
        raise InputError(NOTHING_TO_SHARE)


def _check_call(settings: Mapping[str, Any], seed: int) -> None:
    """Find out before any run what is wrong with a call."""
    check_options(simulate, settings, "a sweep")
    if isinstance(settings["network"], EdgeCloud):
        as_edge_workload(settings["workload"]).check_on(settings["network"])
        if settings.get("scheduler") is not None:
            make_edge_scheduler(settings["scheduler"])
        return
    workload = as_workload(settings["workload"], seed)
    if isinstance(settings["network"], Cluster):
        check_jobs(workload, settings["network"])
        given: dict[str, Any] = {name: settings.get(name) for name in POLICIES}
        scheduler, _, execution, _ = policies_of(**given)
        as_rings(workload, settings["network"], scheduler, execution)
    else:
        as_network(settings["network"])
    for name in ("observe_interval", "until"):
        if settings.get(name) is not None:
            parse_seconds(settings[name], name)


def identity_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Describe some keywords of `netsim.simulate` for a key, in plain values.

    Raises
    ------
    InputError
        If one cannot be sent to another process.
    """
    identity = {name: _identity(value, name) for name, value in settings.items()}
    for name in {"network", "workload"} & settings.keys():
        if isinstance(settings[name], str):  # perhaps a file's, of which the contents count
            identity[name] = [settings[name], _identity(Path(settings[name]), name)]
    return identity


def _identity(value: object, what: str) -> Any:
    """Describe a value for a key: the value if it is plain, or else a digest.

    Equal objects may have digests that differ; then a run is done again.
    """
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Path):
        return digest_of_file(value) if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(name): _identity(each, what) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_identity(each, what) for each in value]
    return digest_of(value, what)
