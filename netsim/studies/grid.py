"""The runs of a sweep: every combination of what is varied, for every seed, each with its key."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.checks import check_options
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.errors import InputError, SpecError
from netsim.experiment_file.experiment import POLICIES, Experiment
from netsim.experiment_file.identity import spec_hash
from netsim.experiment_file.load import Draft
from netsim.experiment_file.tables import SweepTable
from netsim.experiment_file.values import seeds_of
from netsim.network.files import as_network
from netsim.placements.registry import PLACEMENTS
from netsim.plain import plain_numbers
from netsim.plugins import Registry, labelled, parse_named, parse_policy
from netsim.reading import read_bytes
from netsim.results.result import Result
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS, make_edge_scheduler
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.compatibility import NOTHING_TO_SHARE, as_rings, check_jobs, policies_of
from netsim.simulation.on_edge import as_edge_workload
from netsim.simulation.simulate import simulate
from netsim.studies.code_version import code_version
from netsim.studies.compare import label_of
from netsim.studies.run import run_experiment
from netsim.studies.sending import digest_of, is_sent_whole, main_classes, put_in_main
from netsim.traces.formats import as_workload
from netsim.units import parse_seconds

__all__ = ["Cell", "cells_of_calls", "cells_of_draft", "identity_of"]

_POLICIES = ("allocator", *POLICIES)

#: Keys that cannot be varied, and what to do instead.
_FIXED = {"seed": "give seeds (--seeds)", "workload.seed": "give seeds (--seeds)",
          "cluster.seed": "give seeds (--seeds)", "edge_cloud.seed": "give seeds (--seeds)",
          "name": "it names the results", "description": "it changes nothing",
          "compare": "vary allocator", "sweep": "it says what to vary"}


@dataclass(frozen=True)
class OfSpec:
    """A run that an experiment describes; can be sent to another process or machine.

    Attributes
    ----------
    spec : mapping
        The resolved experiment.
    code : str
        What stands for the code that it is to be run by.
    classes : mapping of str to object
        What it names of ``__main__``.
    """

    spec: Mapping[str, Any]
    code: str
    classes: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Result:
        """Run it.

        Raises
        ------
        InputError
            If the code here is another.
        """
        put_in_main(self.classes)
        experiment = Experiment(**self.spec)
        _check_code(self.code, _names_in(self.spec))
        return run_experiment(experiment)


@dataclass(frozen=True)
class OfCall:
    """A run that a call of `netsim.simulate` describes; likewise.

    Attributes
    ----------
    settings : mapping
    code : str
    files : mapping of str to str
        The settings that name a file, and what was in it.
    classes : mapping of str to object
    """

    settings: Mapping[str, Any]
    code: str
    files: Mapping[str, str]
    classes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> None:
        """There is no experiment file that says the same."""
        return

    def run(self) -> Result:
        """Run it.

        Raises
        ------
        InputError
            If the code here is another, or a file has changed.
        """
        put_in_main(self.classes)
        _check_code(self.code, _policies_of(self.settings)[1])
        for name, digest in self.files.items():
            if _digest(Path(self.settings[name])) != digest:
                raise InputError(f"{self.settings[name]} has changed since the sweep began")
        return simulate(**self.settings)


def _check_code(code: str, names: Iterable[str]) -> None:
    if (here := code_version(*names)) != code:
        raise InputError(f"this process has other code than the sweep was prepared by: "
                         f"{here}, not {code}")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes
    ----------
    varied : mapping of str to str, float or bool
        The columns of what is varied, and their values in this run.
    seed : int
    key : str
        16 hexadecimal digits of all that the run depends on, netsim's code included.
    task : OfSpec or OfCall
        What to run.
    """

    varied: Mapping[str, Any]
    seed: int
    key: str
    task: OfSpec | OfCall


# --- of an experiment file -----------------------------------------------------------------


def cells_of_draft(draft: Draft, grid: SweepTable) -> list[Cell]:
    """Return the runs of an experiment with what is varied put in place, the seeds innermost.

    Raises
    ------
    SpecError
        If a key cannot be varied, or an experiment of the grid is wrong; names the values.
    """
    for key in grid.vary:
        _check_key(key)
    cells: list[Cell] = []
    for values in itertools.product(*grid.vary.values()):
        variant = draft.copy()
        # A table before what is in it: another allocator comes with its own options.
        for key, value in sorted(zip(grid.vary, values, strict=True),
                                 key=lambda item: (_column(item[0]).count("."), item[0])):
            variant.put(key, value, f"{key}={_shown(value)}")
        cells += _seeded(variant, grid, values)
    _check_apart(cells)
    return cells


def _check_key(key: str) -> None:
    for fixed, instead in _FIXED.items():
        if key == fixed or key.startswith(f"{fixed}."):
            raise SpecError([f"sweep.vary: {key!r} cannot be varied: {instead}"])


def _seeded(variant: Draft, grid: SweepTable, values: Sequence[Any]) -> Iterator[Cell]:
    """Yield a cell per seed; the experiment is built once, for seeds change nothing else."""
    seeds = seeds_of(grid.seeds, variant.keys.get("seed", 0))
    variant.put("seed", seeds[0], f"seed={seeds[0]}")
    first = variant.build()
    if not first.allocates and any(key.partition(".")[0] == "allocator" for key in grid.vary):
        raise SpecError([f"sweep.vary: allocator: {NOTHING_TO_SHARE}"])
    resolved = first.single().resolved()
    varied = {_column(key): _label(key, value, variant.path)
              for key, value in zip(grid.vary, values, strict=True)}
    code, classes = code_version(*_names_in(resolved)), main_classes(resolved)
    identity = {"code": code, "classes": identity_of(classes)}
    for seed in seeds:
        spec = resolved | {"seed": seed}
        spec |= {table: spec[table] | {"seed": seed} for table in first.seeded}
        yield Cell(varied, seed, spec_hash(spec | identity, digits=16),
                   OfSpec(spec, code, classes))


def _names_in(spec: Mapping[str, Any]) -> list[str]:
    """List the names of the policies of a resolved experiment, and where its data come from."""
    pattern = spec.get("workload", {}).get("pattern")
    others = (spec.get("workload", {}).get("format"), spec.get("network", {}).get("kind"),
              None if pattern is None else parse_policy(pattern, "pattern")[0])
    return [*(spec[name]["name"] for name in _POLICIES if name in spec), *filter(None, others)]


def _column(key: str) -> str:
    """Return the column of a key: the name of a policy is the policy."""
    policy, _, rest = key.partition(".")
    return policy if rest == "name" and policy in _POLICIES else key


def _label(key: str, value: Any, path: Path | None) -> Any:
    if path is not None and key.endswith(".file") and isinstance(value, str):
        return os.path.relpath(value, path.parent)  # as the experiment file says it
    if _column(key) not in _POLICIES:
        return _shown(value)
    given = parse_named(value) if isinstance(value, str) else value
    return label_of(given) if _column(key) == "allocator" else labelled(given)


def _shown(value: Any) -> Any:
    """Return a value as a cell of a table."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, default=str)


# --- of a call -----------------------------------------------------------------------------


@plain_numbers
def cells_of_calls(fixed: Mapping[str, Any], vary: Mapping[str, Mapping[Any, Any]],
                   seeds: Sequence[int]) -> list[Cell]:
    """Return the runs of `netsim.simulate` with some keywords varied, the seeds innermost.

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
    cells: list[Cell] = []
    for choice in itertools.product(*(values.items() for values in vary.values())):
        varied = {name: label for name, (label, _) in zip(vary, choice, strict=True)}
        settings = dict(fixed) | {name: value for name, (_, value)
                                  in zip(vary, choice, strict=True)}
        _check_call(settings, seeds[0])
        if "allocator" in vary and isinstance(settings["network"], Cluster) and policies_of(
                execution=settings.get("execution"))[2] != "fabric":
            raise InputError(NOTHING_TO_SHARE)
        policies, names = _policies_of(settings)
        identity = identity_of(settings | policies)
        code, classes = code_version(*names), main_classes(settings)
        files = {name: _digest(Path(settings[name])) for name in ("network", "workload")
                 if isinstance(settings[name], str | Path) and Path(settings[name]).is_file()}
        for seed in seeds:
            key = spec_hash({"call": identity, "seed": seed, "code": code}, digits=16)
            task = OfCall(settings | {"seed": seed}, code, files, classes)
            cells.append(Cell(varied, seed, key, task))
    _check_apart(cells)
    return cells


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


def _policies_of(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what stands for the policies of a call in its key, and where their classes are."""
    made: dict[str, tuple[Any, Registry]] = {
        "allocator": (make_allocator(settings["allocator"]), ALLOCATORS)}
    if isinstance(settings["network"], Cluster):
        given: dict[str, Any] = {name: settings.get(name) for name in POLICIES}
        scheduler, placement, execution, model = policies_of(**given)
        made |= {"scheduler": (scheduler, SCHEDULERS), "placement": (placement, PLACEMENTS)}
    elif isinstance(settings["network"], EdgeCloud):
        scheduler = make_edge_scheduler(settings.get("scheduler") or "a-online")
        made["scheduler"] = (scheduler, EDGE_SCHEDULERS)
    identity: dict[str, Any] = {}
    for name, (policy, registry) in made.items():
        identity[name] = registry.to_dict(policy)
        if not dataclasses.is_dataclass(policy):
            identity[name]["given"] = settings.get(name)  # nobody knows its options
        if is_sent_whole(type(policy)):
            identity[name]["class"] = type(policy)
    if isinstance(settings["network"], Cluster):
        identity["execution"] = {"name": execution} | dataclasses.asdict(model)
    classes = [type(policy) for policy, _ in made.values()]
    return identity, [f"{kind.__module__}:{kind.__qualname__}" for kind in classes]


def identity_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands for some keywords of `netsim.simulate` in a key.

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
    """Return what stands for a value in a key: itself if it is plain, or else a digest.

    Equal objects may have digests that differ; then a run is done again.
    """
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Path):
        return _digest(value) if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(name): _identity(each, what) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_identity(each, what) for each in value]
    return digest_of(value, what)


# --- what both share -----------------------------------------------------------------------


def _check_apart(cells: Sequence[Cell]) -> None:
    """Refuse a grid of which two runs are the same, or cannot be told apart in the table."""
    keys: dict[str, Cell] = {}
    rows: dict[str, Cell] = {}
    for cell in cells:
        twin = keys.setdefault(cell.key, cell)
        if twin is not cell:
            raise InputError(f"two runs of the sweep are the same: {_said(twin)} and {_said(cell)}")
        if rows.setdefault(_said(cell), cell) is not cell:
            raise InputError(f"two runs of the sweep would both be called {_said(cell)}; give "
                             "labels by a mapping, or make the allocator a dataclass")


def _said(cell: Cell) -> str:
    said = {**cell.varied, "seed": cell.seed}
    return ", ".join(f"{name} {value}" for name, value in said.items())


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()[:16]
