"""The loop over the clock of a run, shared by networks, clusters and edge-clouds."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
import simpy
from numpy.typing import ArrayLike, NDArray

from netsim._version import __version__
from netsim.checks import check_whole
from netsim.errors import StalledError
from netsim.results.result import Result
from netsim.simulation.events import end_at
from netsim.simulation.interrupt import interrupt_with_status, so_far
from netsim.simulation.progress import show_progress
from netsim.units import Quantity, parse_seconds
from netsim.workload import column

__all__ = ["Clocked", "Simulation", "Target", "jobs_table", "run_info"]

#: Steps, or coflows, between two reports of progress.
_REPORT_EVERY = 4096

Floats = NDArray[np.float64]


class Target(Protocol):
    """Protocol of what a `Simulation` runs: jobs on a network, a cluster or an edge-cloud.

    Attributes
    ----------
    counts : {"coflows", "jobs"}
        Unit of progress.
    total, done : int
        Number of these in total, and so far.
    ended : bool
        Whether all jobs have finished.
    seed, workload_seed : int
    """

    counts: str
    seed: int

    @property
    def total(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def ended(self) -> bool: ...

    @property
    def workload_seed(self) -> int: ...

    def begin(self, limit: float) -> None:
        """Prepare a run until time `limit` in seconds, which is inf if there is no limit."""

    def next_at(self) -> float:
        """Return the time of the next event, in seconds."""

    def step(self) -> None:
        """Process the next event.

        Raises
        ------
        EmptySchedule
            If no event is left.
        """

    def stalled(self) -> StalledError:
        """Make the error for jobs that are pending although no event is left."""

    def stop(self) -> None:
        """Update all state to the current time, as the run stops before its jobs have finished."""

    def so_far(self) -> str:
        """Describe the progress of the run for a message."""

    def identity(self) -> Mapping[str, Any]:
        """Return names of the workload, the network and the policies, for `Result.run`."""

    def cost(self) -> Mapping[str, Any]:
        """Return counts of decisions, overdue coflows and so on, for `Result.run`."""

    def tables(self) -> Mapping[str, Any]:
        """Return the tables of the result by name; None for those that were not recorded."""


class Simulation:
    """A run of jobs, from its beginning to a result.

    Parameters
    ----------
    target : Target

    Attributes
    ----------
    stopped_at_s : float or None
        Time at which `until` stopped the run; None if all jobs finished.

    Raises
    ------
    InputError
        If the seed is no whole number of at least 0.
    """

    def __init__(self, target: Target) -> None:
        check_whole(target.seed, "seed")
        self.target = target
        self.steps = 0
        self.stopped_at_s: float | None = None
        self._wall_s = 0.0

    def run(self, until: Quantity | None = None,
            progress: bool | Callable[[int, int], None] = False) -> None:
        """Run until all jobs have finished, or until a given time.

        Parameters
        ----------
        until : quantity, optional
            Time at which to stop.
        progress : bool or callable
            As for `netsim.simulate`.

        Raises
        ------
        InputError
            If `until` is not a positive time.
        StalledError
            If jobs are pending, but no event is left.
        Interrupted
            On Ctrl-C; the message says how far the run was.
        """
        limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
        target, started = self.target, time.perf_counter()
        target.begin(limit)
        with (interrupt_with_status(target.so_far),
              show_progress(progress, target.total, target.counts) as report):
            self._go(limit, report)
        self._wall_s += time.perf_counter() - started

    def _go(self, limit: float, report: Callable[[int, int], None]) -> None:
        target, told = self.target, 0
        while not target.ended and target.next_at() <= limit:
            try:
                target.step()
            except simpy.core.EmptySchedule:
                raise target.stalled() from None
            self.steps += 1
            if self.steps % _REPORT_EVERY == 0 or target.done > told + _REPORT_EVERY:
                told = target.done
                report(told, target.total)
        if not target.ended:
            target.stop()
            self.stopped_at_s = limit
        report(target.done, target.total)

    def result(self) -> Result:
        """Make the result from the tables of the target."""
        target = self.target
        tables = target.tables()
        run = run_info(target.identity(), target.cost(), seed=target.seed,
                       workload_seed=target.workload_seed, stopped_at_s=self.stopped_at_s,
                       steps=self.steps, wall_s=self._wall_s)
        always = dict.fromkeys(("coflows", "flows", "links", "decisions"))
        return Result(**{**always, **tables}, run=run)


class Clocked:
    """Base class of targets that use a SimPy environment.

    Attributes
    ----------
    env : simpy.Environment
    arrival_s : ndarray of float, shape (jobs,)
    """

    env: simpy.Environment
    arrival_s: Floats

    def begin(self, limit: float) -> None:
        """See `Target.begin`."""
        if limit < math.inf:
            end_at(self.env, limit)
        # The loop asks for these at each step: they are the environment's own.
        self.next_at, self.step = self.env.peek, self.env.step  # type: ignore[method-assign]

    def next_at(self) -> float:
        """See `Target.next_at`."""
        return self.env.peek()

    def step(self) -> None:
        """See `Target.step`."""
        self.env.step()

    def so_far(self) -> str:
        """See `Target.so_far`."""
        return so_far(self.env.now, self.arrival_s, self.finish_s())

    def finish_s(self) -> Floats:
        """Return the time at which each job finished, in seconds; NaN if it has not."""
        raise NotImplementedError


def run_info(identity: Mapping[str, Any], cost: Mapping[str, Any], *, seed: int,
             workload_seed: int, stopped_at_s: float | None, steps: int, wall_s: float
             ) -> dict[str, Any]:
    """Make `Result.run`; see `Target.identity` and `Target.cost`."""
    return {**identity, "seed": int(seed), "workload_seed": workload_seed, "version": __version__,
            "platform": platform.platform(), "python": platform.python_version(),
            "stopped_at_s": stopped_at_s, "simpy_events": steps, "wall_s": wall_s, "overdue": 0,
            **cost}


def jobs_table(jobs: Sequence[Any], *, arrival_s: Floats, start_s: Floats, finish_s: Floats,
               iterations: Sequence[int], ranks: Sequence[int], coflows: ArrayLike,
               nbytes: ArrayLike, lower_bound_s: Floats, **more: Any) -> pd.DataFrame:
    """Make the table of jobs; see `netsim.Result`.

    Parameters
    ----------
    jobs : sequence of JobSpec or EdgeJob
    arrival_s, start_s, finish_s, lower_bound_s : ndarray of float, shape (jobs,)
        In seconds; NaN if it has not happened.
    iterations, ranks, coflows : array_like of int, shape (jobs,)
    nbytes : array_like of float, shape (jobs,)
    **more
        Further columns, by name.
    """
    return pd.DataFrame({
        "job": np.array(column(jobs, "id"), np.int64), "name": column(jobs, "name"),
        "arrival_s": arrival_s, "start_s": start_s, "finish_s": finish_s,
        "jct_s": finish_s - arrival_s, "iterations": np.array(iterations, np.int64),
        "ranks": np.array(ranks, np.int64), "coflows": coflows, "bytes": nbytes,
        "lower_bound_s": lower_bound_s, **more})
