"""Compile what allocators need before runs need it, once for all processes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import loky

from netsim.allocators import ALLOCATORS, check_installed
from netsim.base.files import cache_folder
from netsim.base.plugins import parse_named
from netsim.base.values import as_choice, known_names
from netsim.errors import InputError, MissingExtraError, NetsimWarning
from netsim.simulation.progress import show_runs
from netsim.studies.executors import Failure, one_by_one, pooled
from netsim.studies.tasks import CallTask, ExperimentTask

#: A network and a workload so small that a run of them takes hardly more than compiling.
_SMALL = {"network": "parrot-fig2", "workload": "parrot-fig2"}


@known_names
def warm_up(allocators: Iterable[str] | None = None, *, workers: int | None = None,
            progress: bool | Callable[[int, int, int], None] = True) -> list[str]:
    """Compile what allocators need, so that the first runs of this version begin at once.

    What only some runs need, such as faults or clusters, is compiled by these. Without names,
    allocators that need an extra that is not installed are passed over.

    Parameters
    ----------
    allocators : iterable of str, optional
        Names of allocators; by default all of netsim.
    workers : int, optional
        Number of processes; by default as many as there are cores.
    progress : bool or callable
        As for `netsim.sweep`.

    Returns
    -------
    list of str
        The allocators for which something was to be compiled.

    Raises
    ------
    UnknownNameError
        If a name is not that of an allocator.
    MissingExtraError
        If an allocator that is named needs an extra that is not installed.
    InputError
        If a run fails.

    Warns
    -----
    NetsimWarning
        If allocators are passed over; it says which extra installs what they need.

    Examples
    --------
    >>> import netsim
    >>> netsim.warm_up(["maxmin"], progress=False)  # doctest: +SKIP
    ['maxmin']
    """
    names = _installed_ones() if allocators is None else list(allocators)
    for name in names:
        check_installed(as_choice(name, "allocator", ALLOCATORS.names, "allocators"))
    done = compile_for(names, loky.cpu_count() if workers is None else workers, progress)
    for name, failure in done.items():
        if failure is not None:
            raise InputError(f"allocator {name!r} cannot be compiled: {failure.error}")
    return list(done)


def _installed_ones() -> list[str]:
    """List the allocators whose extras are installed, and warn of the others."""
    names: list[str] = []
    passed_over: dict[str, list[str]] = {}
    for name in ALLOCATORS:
        try:
            check_installed(name)
            names.append(name)
        except MissingExtraError as error:
            passed_over.setdefault(str(error), []).append(name)
    for why, without in passed_over.items():
        warnings.warn(NetsimWarning(f"passed over {', '.join(without)}: {why}"), stacklevel=4)
    return names


def compile_for(allocators: Iterable[str], workers: int,
                progress: bool | Callable[[int, int, int], None] = False
                ) -> dict[str, Failure | None]:
    """Compile for those allocators that are not compiled yet, each in one process.

    The result has, by name of these, the failure or None.
    """
    names = [name for name in dict.fromkeys(allocators) if not _mark_of(name).exists()]
    tasks = [CallTask({**_SMALL, "allocator": name}) for name in names]
    # A single allocator is compiled in this process.
    outcomes = (one_by_one(tasks) if min(len(tasks), workers) < 2
                else pooled(tasks, min(len(tasks), workers)))
    failures: dict[str, Failure | None] = dict.fromkeys(names)
    with show_runs(progress, len(tasks), 0) as report:
        for place, outcome in outcomes:
            if isinstance(outcome, Failure):
                failures[names[place]] = outcome
            else:
                with suppress(OSError):  # without the mark, each process compiles
                    _mark_of(names[place]).touch()
            report(isinstance(outcome, Failure))
    return failures


def allocator_of(task: CallTask | ExperimentTask) -> str | None:
    """The name of the allocator of netsim that a run uses; None for others."""
    given: Any = (task.settings if isinstance(task, CallTask) else task.spec).get("allocator")
    if isinstance(given, str):
        given = parse_named(given)
    name = given.get("name") if isinstance(given, dict) else None
    return name if isinstance(name, str) and name in ALLOCATORS.names else None


def _mark_of(name: str) -> Path:
    """The file that marks an allocator as compiled by these versions of Python and numba."""
    import numba

    versions = f"{sys.implementation.cache_tag}-numba-{numba.__version__}"
    return cache_folder() / f"{name}-{versions}.warm"
