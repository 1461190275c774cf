"""Sweeps: runs of one experiment over varied settings and seeds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netsim.base.values import as_whole, known_names, plain, refuse_set
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.errors import DaskError, InputError, SpecError, UnknownNameError
from netsim.experiment_file.experiment import NAMED, Experiment
from netsim.experiment_file.load import Draft, common_keys, prepare
from netsim.experiment_file.ranges import Points, Range, check_points
from netsim.experiment_file.values import seeds_of
from netsim.network import Topology
from netsim.simulation.progress import show_runs
from netsim.simulation.run import interrupt_with_status
from netsim.studies.code_version import code_version
from netsim.studies.executors import (
    Failure,
    Outcomes,
    Task,
    check_executor,
    on_dask,
    on_executor,
    on_slurm,
    one_by_one,
    pooled,
)
from netsim.studies.grid import (
    Policy,
    SweepRun,
    by_label,
    identity_of,
    label_in,
    policies_by_label,
    policy_label,
    refuse_twins,
    runs_of_calls,
    runs_of_experiment,
)
from netsim.studies.run_store import RunStore, Scratch
from netsim.studies.sweep_result import Sweep, save_failures
from netsim.studies.warm_up import allocator_of, compile_for
from netsim.workload import JobSpec, Workload

#: Keywords whose value may be a table without a name.
_OPTIONS = ("stragglers", "preemption")

#: Types of a single value, though some are iterable.
_WHOLE = (str, Workload, EdgeWorkload, Topology, Cluster, EdgeCloud)

#: Value of a column in the rows of a grid that does not vary it.
_NOT_VARIED = "-"

#: Keywords of `netsim.simulate` that are lists by nature: they are not varied.
_LISTS = ("record", "events")


@known_names
def sweep(network: Any, workload: Any, *,
          allocator: Policy | Sequence[Policy] | Mapping[str, Policy] = "maxmin",
          seed: int | Iterable[int] = 0, points: int | Points | None = None, workers: int = 1,
          folder: str | Path | None = None, resume: bool = True, executor: Any = None,
          dask: str | None = None, slurm: Mapping[str, Any] | None = None,
          progress: bool | Callable[[int, int, int], None] = True, **settings: Any) -> Sweep:
    """Simulate all combinations of arguments that are given as lists, for every seed.

    Parameters
    ----------
    network, workload : as for `netsim.simulate`, or a mapping of label to these
        A workload given by name or path is drawn for each seed, and is the same for all policies.
        For a workload given as an object, the seed changes the placement only.
    allocator : as for `netsim.simulate`, or a list or mapping of these
    seed : int or iterable of int
    points : int or Points, optional
        The number of points to draw, and the method, if arguments or options of a single policy are
        given as a `netsim.Range`. Each combination of the other arguments is simulated at each
        point.
    workers : int
        Number of processes. Policies that a script or a notebook defines are sent to the processes.
    folder : path-like, optional
        Folder in which finished runs are stored, so that a later call can use them. If not given,
        results are kept until the `Sweep` is deleted.
    resume : bool
        Whether to use runs stored in the folder. If False, they are removed.
    executor : Executor, optional
        An executor of `concurrent.futures` that computes the runs instead of local processes, such
        as that of a Dask client, or one of submitit, which computes them in `workers` jobs. It is
        not shut down, and must have the same versions of Python and netsim.
    dask : str, optional
        Address of a Dask scheduler, as a shorthand for its executor. While the scheduler has no
        workers, the sweep issues warnings and waits.
    slurm : mapping, optional
        Options of submitit, such as ``{"timeout_min": 60, "slurm_partition": "short"}``, as a
        shorthand for its executor of Slurm jobs. All machines must see the folder.
    progress : bool or callable
        Whether to show progress on a terminal or in a notebook; or a function to call with the
        numbers of runs done, failed, and in total.
    **settings
        Other keyword arguments of `netsim.simulate`. Lists are varied, except those of `record`
        and `events`, whose values are lists; to vary these, give a mapping of label to list. A
        mapping of hosts to factors is a single value of `stragglers`.

    Returns
    -------
    Sweep
        Runs that fail are listed in `Sweep.failures`, and do not stop the others.

    Raises
    ------
    InputError
        If an argument is invalid, or the folder belongs to another sweep.
    OutputError
        If the folder cannot be written.
    DaskError, concurrent.futures.BrokenExecutor
        If the connection to the Dask scheduler is lost, or the executor breaks. The same call
        continues the sweep.

    Examples
    --------
    >>> import netsim
    >>> found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"],
    ...                      observe_interval=[0, "1s"])
    >>> found.table[["allocator", "observe_interval", "jct_total_s"]].round(3)
      allocator observe_interval  jct_total_s
    0    parrot                0       40.889
    1    parrot               1s       41.889
    2      lccf                0       44.000
    3      lccf               1s       44.000
    """
    given = {"network": network, "workload": workload, "allocator": allocator} | settings
    vary, fixed = {}, {}
    for name, value in _with_options_apart(given):
        values = _varied(name, value)
        if values is None:
            fixed[name] = value
        else:
            vary[name] = values
    seeds = seeds_of(seed if isinstance(seed, Iterable) else [seed])
    drawn = None if points is None else Points.of(points)
    check_points(vary, drawn)
    runs = runs_of_calls(fixed, vary, seeds, drawn)
    return run_sweep(runs, tuple(vary), identity_of(fixed), folder=folder, workers=workers,
                     resume=resume, executor=executor, dask=dask, slurm=slurm, progress=progress,
                     units=_units(vary))


def _units(vary: Mapping[str, Any]) -> dict[str, str]:
    """The units of values drawn from ranges with units, by argument."""
    return {name: values.unit for name, values in vary.items()
            if isinstance(values, Range) and values.unit}


def _with_options_apart(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments by name, and ranges of a policy's options as ``allocator.theta_max``.

    A range must not stand beside other values of the same argument.
    """
    for name, value in given.items():
        if isinstance(value, Mapping) and _is_table(name, value):
            ranges = {option: each for option, each in value.items() if isinstance(each, Range)}
            yield name, {option: each for option, each in value.items()
                         if option not in ranges} if ranges else value
            yield from ((f"{name}.{option}", each) for option, each in ranges.items())
            continue
        for each in value.values() if isinstance(value, Mapping) else (
                value if isinstance(value, list | tuple) else ()):
            options = each.values() if isinstance(each, Mapping) else [each]
            if drawn := [option for option in options if isinstance(option, Range)]:
                raise InputError(f"{name}: the range {drawn[0]} is in one of several values; vary "
                                 "it alone, or in the options of one policy, in a sweep of its own")
        yield name, value


def _is_table(name: str, value: Mapping[Any, Any]) -> bool:
    """Whether a mapping is one value, a table of options, rather than values by label."""
    return (name in NAMED and "name" in value) or (name in _OPTIONS and not any(
        isinstance(each, Mapping) for each in value.values()))


def _varied(name: str, value: Any) -> Mapping[Any, Any] | Range | None:
    """The values of a varied argument by label, or their range; None if it has only one value."""
    if isinstance(value, Range):
        return value
    if isinstance(value, _WHOLE) or not isinstance(value, Iterable):
        return None
    if _is_table(name, value) if isinstance(value, Mapping) else name in _LISTS:
        return None
    refuse_set(value, name)
    values = value if isinstance(value, Mapping) else plain(list(value))
    if name == "workload" and all(isinstance(each, JobSpec | EdgeJob) for each in values) and (
            not isinstance(value, Mapping)):
        return None
    return by_label(name, values, partial(_label, name))


def _label(name: str, value: Any) -> Any:
    """Make the label of a value that was given without one."""
    if name != "allocator" and isinstance(value, _WHOLE):
        return value if isinstance(value, str) else value.name
    if name == "allocator" or (name in NAMED and isinstance(value, Mapping)):
        return policy_label(name, value)
    return value if isinstance(value, str | int | float | bool) else str(value)


@known_names
def sweep_experiment(experiment: Experiment | str | Path | Draft,
                     vary: Mapping[str, Any] | Sequence[Mapping[str, Any]]
                     | None = None, *, seeds: int | Sequence[int] | None = None,
                     points: int | Points | None = None, workers: int = 1,
                     folder: str | Path | None = None, resume: bool = True, executor: Any = None,
                     dask: str | None = None, slurm: Mapping[str, Any] | None = None,
                     progress: bool | Callable[[int, int, int], None] = True,
                     only: Callable[[Mapping[str, Any]], bool] | None = None,
                     reuse: Sequence[str | Path] = ()) -> Sweep:
    """Run an experiment for all combinations of some settings, and for every seed.

    Parameters
    ----------
    experiment : Experiment, str or path
        An experiment, or the name or file of one; see `load_experiment`.
    vary : mapping of str to sequence, or sequence of such mappings, optional
        Values of keys of the file: ``{"network.capacity": ["10Gbps", "40Gbps"], "allocator":
        ["parrot", "aalo-lbsf"]}``. By default, ``[sweep.vary]`` of the file. With several mappings,
        the grids of all of them are run; this helps if not all settings can be combined. In rows of
        a grid that does not vary a key, the key's column is ``"-"``. From values given as a
        `netsim.Range`, `points` are drawn.
    seeds : int or sequence of int, optional
        The seeds, or their number; they then count up from the seed of the experiment. By default,
        the seeds of the file. For a seed, all combinations get the same workload. If the workload
        has its own seed, it is the same for all seeds.
    points : int or Points, optional
        The number of points drawn from ranges, and the method; by default as the file says.
    workers, folder, resume, executor, dask, slurm, progress
        As for `sweep`.
    only : callable, optional
        Whether to run a combination, given the values of what its grid varies. Others that a folder
        already has stay in its tables.
    reuse : sequence of path-like
        Folders of other sweeps. Finished runs that this sweep needs are copied from there.

    Returns
    -------
    Sweep

    Raises
    ------
    SpecError
        If there is nothing to vary, or a combination, which the message names, is invalid.
    InputError, OutputError, DaskError, concurrent.futures.BrokenExecutor
        As `sweep` does.

    Examples
    --------
    >>> from netsim.studies.sweep import sweep_experiment
    >>> found = sweep_experiment("demo", {"allocator": ["parrot", "lccf"]}, seeds=2)
    >>> found.means(["over_lower_bound"])[["allocator", "runs", "over_lower_bound"]].round(2)
      allocator  runs  over_lower_bound
    0    parrot     2              2.95
    1      lccf     2              4.35
    """
    several = [vary] if vary is None or isinstance(vary, Mapping) else vary
    grids = [prepare(experiment, each, seeds, points) for each in several]
    if not grids:
        raise SpecError(["sweep: there is nothing to vary: the list of grids is empty"])
    draft = grids[0][0]
    runs = _with_all_columns([run for each in grids for run in runs_of_experiment(*each, only)])
    if not runs:
        raise SpecError(["sweep: there is nothing to run: only() refuses all combinations"])
    return run_sweep(runs, tuple(runs[0].varied), common_keys(draft), folder=folder,
                     workers=workers, resume=resume, executor=executor, dask=dask, slurm=slurm,
                     progress=progress, baseline=_baseline(draft, runs),
                     units={key: unit for _, grid in grids for key, unit in
                            _units(grid.vary).items()}, is_part=only is not None, reuse=reuse)


def _with_all_columns(runs: Sequence[SweepRun]) -> list[SweepRun]:
    """Give the runs of several grids the columns of all grids."""
    columns = dict.fromkeys(name for run in runs for name in run.varied)
    return [replace(run, varied={name: run.varied.get(name, _NOT_VARIED) for name in columns})
            for run in runs]


def _baseline(draft: Draft, runs: Sequence[SweepRun]) -> str | None:
    """The label of ``compare.baseline`` among the policies of a sweep.

    None if there is no baseline, if policies of its kind are not varied, or if it is only among
    those that the file compares.
    """
    compared = draft.keys.get("compare", {})
    if (given := compared.get("baseline")) is None:
        return None
    kinds = ("allocator", "scheduler")
    # A file that lists neither kind does not say of which one the baseline is.
    listed = [kind for kind in kinds if compared.get(f"{kind}s")] or kinds
    varied = [kind for kind in listed if kind in runs[0].varied]
    if not varied:
        return None
    labels = dict.fromkeys(run.varied[kind] for kind in varied for run in runs)
    own = policies_by_label(compared[f"{listed[0]}s"], listed[0]) if len(listed) == 1 else {}
    try:
        found = label_in(given, {**labels, **own})
    except UnknownNameError as error:
        raise draft.error([f"compare.baseline: {error}"]) from None
    return found if found in labels else None


# --- the runs ------------------------------------------------------------------------------


def run_sweep(runs: Sequence[SweepRun], columns: Sequence[str], identity: Mapping[str, Any], *,
              folder: str | Path | None, workers: int, resume: bool, executor: Any,
              dask: str | None, slurm: Mapping[str, Any] | None,
              progress: bool | Callable[[int, int, int], None],
              baseline: str | None = None, units: Mapping[str, str] = MappingProxyType({}),
              is_part: bool = False, reuse: Sequence[str | Path] = ()) -> Sweep:
    """Compute the runs of a sweep that are not stored yet, and load the whole sweep.

    `identity` are the settings that all runs have in common; see `RunStore.begun`. If `is_part`,
    other runs that the folder lists stay in its tables. The other arguments are those of `sweep`,
    `sweep_experiment` and `Sweep`.
    """
    workers = as_whole(workers, "workers", 1)
    if dask is not None and slurm is not None:
        raise InputError("give either dask or slurm, not both")
    if executor is not None:
        check_executor(executor)
        if dask is not None or slurm is not None:
            raise InputError("give either executor, or dask or slurm, which make one")
    if slurm is not None and folder is None:
        raise InputError("slurm: give a folder that all machines see, for the files that jobs "
                         "need")
    refuse_twins(runs)
    scratch = Scratch() if folder is None else None
    store = RunStore(scratch.path if scratch is not None else Path(folder or ""))
    index = {"experiment": json.loads(json.dumps(identity, sort_keys=True, default=str)),
             "code": code_version(), "columns": list(columns),
             "runs": [{"key": run.key, "seed": run.seed, **run.varied} for run in runs]}
    if is_part and resume:
        index["runs"] += store.other_runs({run.key for run in runs}, columns)
    if baseline is not None:
        index["baseline"] = baseline
    if units:
        index["units"] = dict(units)
    with store.begun(index, resume):
        store.take_over([run.key for run in runs], reuse if resume else ())
        kept = ("; none is kept, as there is no folder" if scratch is not None else
                f" and are kept in {store.folder}; the same command goes on")
        outcomes = partial(_outcomes, workers=workers, executor=executor, dask=dask, slurm=slurm,
                           folder=store.folder / "slurm")
        failures = _do_missing(runs, store, outcomes, progress, kept)
        save_failures(store, failures)
        found = Sweep.load(store.folder, scratch)
        found.save_tables()
    return found


def _do_missing(runs: Sequence[SweepRun], store: RunStore,
                outcomes: Callable[[Sequence[SweepRun]], Outcomes],
                progress: bool | Callable[[int, int, int], None], kept: str
                ) -> list[tuple[SweepRun, Failure]]:
    """Compute the runs that are not stored yet; return those that fail, in order.

    An interruption, or the loss of the executor, reports how many runs had finished, and `kept`.
    """
    missing = [run for run in runs if store.summary(run.key) is None]
    failures: dict[str, tuple[SweepRun, Failure]] = {}
    ended = len(runs) - len(missing)

    def so_far() -> str:
        return f"{ended:,} of {len(runs):,} runs had ended{kept}" if ended else "no run had ended"

    with (interrupt_with_status(so_far), _saying(so_far),
          show_runs(progress, len(runs), ended) as report,
          closing(outcomes(missing)) as computed):
        for place, outcome in computed:
            run = missing[place]
            if isinstance(outcome, Failure):
                failures[run.key] = (run, outcome)
            else:
                store.put(run.key, outcome)
                ended += 1
            report(isinstance(outcome, Failure))
    return [failures[run.key] for run in missing if run.key in failures]


@contextmanager
def _saying(what: Callable[[], str]) -> Iterator[None]:
    """Add the progress of the sweep to the error for a lost Dask cluster or a broken executor."""
    try:
        yield
    except (DaskError, BrokenExecutor) as error:
        raise type(error)(f"{error}; {what()}") from error


def _outcomes(runs: Sequence[SweepRun], workers: int, executor: Any, dask: str | None,
              slurm: Mapping[str, Any] | None, folder: Path) -> Outcomes:
    """Compute runs where the arguments of `sweep` say."""
    if not runs:
        return
    tasks: list[Task] = [run.sent for run in runs]
    most = min(workers, len(tasks))
    allocators = filter(None, (allocator_of(run.task) for run in runs))
    if executor is not None:
        if isinstance(executor, ProcessPoolExecutor):  # which would compile in each process
            compile_for(allocators, os.cpu_count() or 1)
        yield from on_executor(tasks, executor, most)
    elif dask is not None:
        yield from on_dask(tasks, dask)
    elif slurm is not None:
        yield from on_slurm(tasks, most, slurm, folder)
    elif workers == 1:
        yield from one_by_one(tasks)
    else:
        compile_for(allocators, workers)
        yield from pooled(tasks, most)
