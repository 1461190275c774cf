"""The grid of a sweep or a comparison: combinations of the varied settings, and their labels."""

from __future__ import annotations

import inspect
import json
import os
import tomllib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.files import read_text
from netsim.base.plugins import labelled, parse_named, parse_policy
from netsim.base.values import check_options, plain, refuse_set
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.errors import InputError, NetsimError, NetsimWarning, UnknownNameError
from netsim.experiment_file.experiment import POLICIES, spec_hash, table_at
from netsim.experiment_file.load import Draft
from netsim.experiment_file.ranges import Points, Range, combinations
from netsim.experiment_file.tables import SweepTable
from netsim.experiment_file.values import seeds_of
from netsim.fabric.allocator import Allocator
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.compatibility import policies_of, without_preemption
from netsim.simulation.run_spec import RunSpec, problems_of_arguments, refuse_arguments
from netsim.simulation.simulation import simulate
from netsim.simulation.targets import built, check
from netsim.studies.code_version import (
    code_version,
    digest_of_files,
    own_modules,
    version_of_run,
)
from netsim.studies.tasks import (
    CallTask,
    ExperimentTask,
    SentTask,
    digest_of,
    digest_of_file,
    main_classes,
    policies_of_call,
)
from netsim.text import bare_names

# --- labels --------------------------------------------------------------------------------

#: Arguments of `netsim.make_allocator`.
Policy = str | Mapping[str, Any] | Allocator | type[Allocator]


def label_of(policy: Policy) -> str:
    """Label an allocator or preset by its name and the options that differ from its defaults."""
    allocator = make_allocator(policy)
    options = ALLOCATORS.to_dict(allocator)
    name = options.pop("name")
    given = policy.get("name") if isinstance(policy, Mapping) else policy
    if isinstance(given, str) and given in ALLOCATORS.presets:
        name, usual = given, ALLOCATORS.options(given)
    else:
        parameters = inspect.signature(type(allocator)).parameters
        usual = {option: parameter.default for option, parameter in parameters.items()}
    changed = [f"{option}={value}" for option, value in options.items()
               if option in usual and repr(value) != repr(usual[option])]
    # An allocator that is not a dataclass does not know its options.
    table = parse_named(policy) if isinstance(policy, str) else policy
    if isinstance(table, Mapping):
        changed += [f"{option}={value}" for option, value in table.items()
                    if option != "name" and option not in options]
    return f"{name} ({', '.join(changed)})" if changed else str(name)


def policy_label(kind: str, given: Any) -> str:
    """Label an allocator by `label_of`, or another policy by its name and given options.

    `kind` is as in ``"allocator"``. A scheduler may be an instance or a class.
    """
    if kind == "allocator":
        return label_of(given)
    if kind == "scheduler" and not isinstance(given, str | Mapping):
        return str(SCHEDULERS.to_dict(given)["name"])
    name, options = parse_policy(given, kind)
    return labelled({"name": name} | options)


def label_in(given: Any, labels: Collection[str], what: str = "baseline") -> str:
    """Find the label of a policy, which is given by its label or by name and options.

    The label may lack the module of its class, which figures leave out. A policy may have any form
    that `policy_label` accepts. A string that is a label is always taken as the label. `what` names
    the policy in errors.
    """
    if isinstance(given, str) and given in labels:
        return given
    for kind in ("allocator", "scheduler"):
        with suppress(NetsimError):
            policy = parse_named(given) if isinstance(given, str) else given
            if (label := policy_label(kind, policy)) in labels:
                return label
    for label, name in bare_names(labels).items():
        if name == given:
            return label
    raise UnknownNameError(what, given, labels)


def is_label_in(given: Any, labels: Collection[str]) -> bool:
    """Whether `label_in` finds a policy."""
    try:
        label_in(given, labels)
    except UnknownNameError:
        return False
    return True


def by_label(name: str, values: Any, label: Callable[[Any], Any]) -> dict[Any, Any]:
    """Label the values of a varied setting: by the keys of a mapping, or else by `label`."""
    pairs = (list(values.items()) if isinstance(values, Mapping) else
             [(label(value), value) for value in values])
    if not pairs:
        raise InputError(f"{name}: there are no values to vary it over")
    found = dict(pairs)
    if len(found) < len(pairs):
        labels = [each for each, _ in pairs]
        twice = next(each for each in labels if labels.count(each) > 1)
        raise InputError(f"{name}: two of the values have one label, {twice!r}; leave one out, or "
                         "give a mapping with a label for each")
    return found


def policies_by_label(policies: Any, kind: str) -> dict[str, Any]:
    """Label the allocators or schedulers of a comparison; see `by_label`."""
    refuse_set(policies, f"{kind}s")
    if isinstance(policies, str) or not isinstance(policies, Sequence | Mapping):
        raise InputError(f"{kind}s must be a list or a mapping, not {policies!r}")
    found = by_label(kind, policies, partial(policy_label, kind))
    return {str(label): policy for label, policy in found.items()}


def as_cell(value: Any) -> Any:
    """Convert a value to a cell of a table: plain values unchanged, others to JSON."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, default=str)


# --- runs ----------------------------------------------------------------------------------

_POLICIES = ("allocator", *POLICIES)

#: Keys that cannot be varied, and what to do instead.
_FIXED = {"seed": "give seeds (--seeds)", "workload.seed": "give seeds (--seeds)",
          "cluster.seed": "give seeds (--seeds)", "edge_cloud.seed": "give seeds (--seeds)",
          "name": "it names the results", "description": "it changes nothing",
          "compare": "vary allocator", "sweep": "it says what to vary"}


class _Origin(NamedTuple):
    """Properties that runs of one combination share, independent of the seed."""

    #: Values that the keys of the runs hash, besides the seed and the experiment.
    identity: Mapping[str, Any]
    send: Callable[[ExperimentTask | CallTask], SentTask]


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep or a comparison."""

    varied: Mapping[str, Any]  #: by column of the result tables
    seed: int
    task: ExperimentTask | CallTask
    origin: Callable[[], _Origin] = field(repr=False)  #: called when the key is first needed

    @cached_property
    def key(self) -> str:
        """Hash of all that the run depends on, including netsim's code; 16 hexadecimal digits.

        Computed on first access, as runs of a comparison do not need it.
        """
        return spec_hash({**(self.task.spec or {}), "seed": self.seed,
                          **self.origin().identity}, digits=16)

    @property
    def sent(self) -> SentTask:
        """The task in a form that can be sent to another process."""
        return self.origin().send(self.task)


def refuse_twins(runs: Sequence[SweepRun]) -> None:
    """Check that no two runs are identical, and that tables can tell them apart."""
    keys: dict[str, SweepRun] = {}
    rows: dict[str, SweepRun] = {}
    for run in runs:
        twin = keys.setdefault(run.key, run)
        if twin is not run:
            raise InputError(f"two runs of the sweep are the same: {_said(twin)} and {_said(run)}")
        if rows.setdefault(_said(run), run) is not run:
            raise InputError(f"two runs of the sweep would both be called {_said(run)}; give "
                             "labels by a mapping, or make the allocator a dataclass")


def _said(run: SweepRun) -> str:
    """Describe a run by its varied values."""
    said = {**run.varied, "seed": run.seed}
    return ", ".join(f"{name} {value}" for name, value in said.items())


# --- of an experiment file -----------------------------------------------------------------
def runs_of_experiment(draft: Draft, grid: SweepTable,
                       only: Callable[[Mapping[str, Any]], bool] | None = None
                       ) -> list[SweepRun]:
    """List the runs of an experiment with varied settings; seeds vary fastest.

    `only` says whether to list a combination, given its values by column of the tables.
    """
    for key in grid.vary:
        _check_key(draft, key)
    free = _free_in_file(draft, grid)
    return [run for chosen in combinations(grid.vary, grid.points)
            if only is None or only(_labels(chosen, draft.path))
            for run in _of_variant(draft, grid, chosen, free)]


def _free_in_file(draft: Draft, grid: SweepTable) -> list[Any]:
    """The cells of varied schedulers for which a file's options of preemption have no effect."""
    varied = {as_cell(value): value for key, values in grid.vary.items()
              if _column(key) == "scheduler" and not isinstance(values, Range)
              for value in values}
    if (not {"edge_cloud", "preemption"} <= draft.keys.keys()
            or any(key.partition(".")[0] == "preemption" for key in grid.vary)):
        return []
    try:
        return _free_of_preemption(varied)
    except InputError:  # the run with the invalid value reports it
        return []


def _free_of_preemption(schedulers: Mapping[Any, Any]) -> list[Any]:
    """The labels of schedulers for which options of preemption have no effect; warn of them."""
    free = [label for label, is_free in zip(
        schedulers, without_preemption(schedulers.values()), strict=True) if is_free]
    if free:
        runs = "runs" if len(free) == 1 else "run"
        warnings.warn(NetsimWarning(f"options of preemption are for schedulers of whole jobs; "
                                    f"{', '.join(map(str, free))} {runs} without them"),
                      stacklevel=1)
    return free


def _check_key(draft: Draft, key: str) -> None:
    for fixed, instead in _FIXED.items():
        if key == fixed or key.startswith(f"{fixed}."):
            raise draft.error([f"sweep.vary: {key!r} cannot be varied: {instead}"])


def _of_variant(draft: Draft, grid: SweepTable, values: Mapping[str, Any], free: Sequence[Any]
                ) -> Iterator[SweepRun]:
    """Yield a run per seed; the experiment is built once, as only the seed differs.

    Schedulers in `free` run without options of preemption.
    """
    variant = draft.copy()
    if any(_column(key) == "scheduler" and as_cell(value) in free
           for key, value in values.items()):
        del variant.keys["preemption"]
    # Tables before their options: another allocator comes with its own options.
    for key in sorted(values, key=lambda key: (_column(key).count("."), key)):
        variant.put(key, values[key], f"{key}={as_cell(values[key])}")
    seeds = seeds_of(grid.seeds, variant.keys.get("seed", 0))
    variant.put("seed", seeds[0], f"seed={seeds[0]}")
    first = variant.build(single=True)
    if not first.allocates:
        varied = dict.fromkeys(key.partition(".")[0] for key in values)
        if problems := problems_of_arguments("cluster by a model", varied):
            raise variant.error(f"sweep.vary: {name}: {why}" for name, why in problems)
    if first.edge_cloud is not None:  # checked here for its warnings: processes of a sweep are mute
        check(first.run_spec())
    resolved = first.resolved()
    labels = _labels(values, variant.path)
    origin = cache(partial(_origin, {}, resolved, own_modules([resolved, first.jobs]), {}))
    for seed in seeds:
        spec = deepcopy(resolved) | {"seed": seed}
        for path in first.seeded:
            table_at(spec, path)["seed"] = seed
        yield SweepRun(labels, seed, ExperimentTask(spec), origin)


def _origin(identity: Mapping[str, Any], settings: Mapping[str, Any], modules: Sequence[str],
            files: Mapping[str, str]) -> _Origin:
    """Make an `_Origin`, with the version of the code that the settings use."""
    classes = main_classes(settings)
    # A class of a script or a notebook may build on any policy of netsim.
    code = code_version(*modules) if classes else version_of_run(settings, *modules)
    return _Origin({**identity, "code": code, "classes": identity_of(classes)},
                   partial(SentTask, code=code_version(*modules), sources=digest_of_files(*modules),
                           modules=modules, classes=classes, files=files))


def _column(key: str) -> str:
    """The column of a key; that of ``"allocator.name"`` is ``"allocator"``."""
    policy, _, rest = key.partition(".")
    return policy if rest == "name" and policy in _POLICIES else key


def _labels(values: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """Varied values as tables show them, by column."""
    return {_column(key): _label(key, value, path) for key, value in values.items()}


def _label(key: str, value: Any, path: Path | None) -> Any:
    if path is not None and key.endswith(".file") and isinstance(value, str):
        return os.path.relpath(value, path.parent)  # as in the experiment file
    if _column(key) not in _POLICIES:
        return as_cell(value)
    return policy_label(_column(key), parse_named(value) if isinstance(value, str) else value)


# --- of a call -----------------------------------------------------------------------------
def runs_of_calls(fixed: Mapping[str, Any], vary: Mapping[str, Mapping[Any, Any] | Range],
                  seeds: Sequence[int], points: Points | None = None) -> list[SweepRun]:
    """List the runs of `netsim.simulate` with varied arguments; seeds vary fastest.

    `vary` has the values of each varied argument by label, or a range from which `points` are
    drawn.
    """
    # Numbers of NumPy's would change the keys of runs.
    fixed, vary, seeds = plain(dict(fixed)), plain(dict(vary)), plain(list(seeds))
    runs, free = [], _free_in_call(fixed, vary)
    listed = {name: values if isinstance(values, Range) else list(values.items())
              for name, values in vary.items()}
    for chosen in combinations(listed, points):
        pairs = {name: (each, each) if isinstance(vary[name], Range) else each
                 for name, each in chosen.items()}
        labels = {name: label for name, (label, _) in pairs.items()}
        settings = _with_options(fixed, {name: value for name, (_, value) in pairs.items()})
        if labels.get("scheduler") in free:
            del settings["preemption"]
        built = _checked(settings, vary, seeds[0])
        modules = own_modules([{**settings, **built}, *_described(settings)])
        origin = cache(partial(_origin_of_call, settings, modules))
        runs += [SweepRun(labels, seed, CallTask(settings | {"seed": seed}), origin)
                 for seed in seeds]
    return runs


def _with_options(fixed: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Add the values of one combination to arguments; ``allocator.theta_max`` to its table."""
    settings = dict(fixed)
    for name, value in chosen.items():
        table, dot, option = name.partition(".")
        settings[table] = {**settings[table], option: value} if dot else value
    return settings


def _free_in_call(fixed: Mapping[str, Any], vary: Mapping[str, Mapping[Any, Any] | Range]
                  ) -> list[Any]:
    """The labels of schedulers for which the given options of preemption have no effect."""
    schedulers = vary.get("scheduler", {})
    if isinstance(schedulers, Range):
        return []  # a range is refused as a scheduler
    if fixed.get("preemption") is None or not isinstance(fixed.get("network"), EdgeCloud):
        return []
    return _free_of_preemption(schedulers)


def _checked(settings: Mapping[str, Any], varied: Collection[str], seed: int) -> dict[str, Any]:
    """Build the network and the workload of a call, and check its arguments.

    Allocators must not be varied for jobs that do not share links.
    """
    check_options(simulate, settings, "netsim.simulate")
    spec = RunSpec(**settings, seed=seed)
    place, jobs = built(spec)
    check(replace(spec, network=place, workload=jobs))
    if isinstance(place, Cluster) and (
            not policies_of(execution=spec.execution, jobs=jobs.jobs).model.uses_links):
        refuse_arguments("cluster by a model", varied)
    return {"network": place, "workload": jobs}


def _origin_of_call(settings: Mapping[str, Any], modules: Sequence[str]) -> _Origin:
    policies, made = policies_of_call(settings)
    files = {str(path): digest_of_file(path) for path in _files(settings)}
    return _origin({"call": identity_of({**settings, **policies})}, settings,
                   sorted({*modules, *own_modules(made)}), files)


def _files(settings: Mapping[str, Any]) -> list[Path]:
    """List the files among the network and the workload of a call."""
    given = (settings["network"], settings["workload"])
    paths = [Path(each) for each in given if isinstance(each, str | Path)]
    return [path for path in paths if path.is_file()]


def _described(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parse the TOML files of a call, which may name code."""
    return [tomllib.loads(read_text(path)) for path in _files(settings)
            if path.suffix.lower() == ".toml"]


def identity_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Describe keyword arguments of `netsim.simulate` by plain values, to make a run's key."""
    identity = {name: _identity(value, name) for name, value in settings.items()}
    for name in {"network", "workload"} & settings.keys():
        if isinstance(settings[name], str):  # perhaps a file, whose contents count
            identity[name] = [settings[name], _identity(Path(settings[name]), name)]
    return identity


def _identity(value: object, what: str) -> Any:
    """Keep a plain value, and replace any other object by a digest.

    Equal objects may have different digests; then a run is repeated.
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
