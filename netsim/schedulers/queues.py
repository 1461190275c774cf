"""Queues: first in first out, smallest or shortest first, remaining time, and time slices."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import as_choice, as_flag, convert, known_names
from netsim.cluster.context import RunContext
from netsim.engine.view import ClusterView
from netsim.schedulers.in_order import After, InOrder, Keys, Order
from netsim.ties import EQUAL, ROUNDING


@known_names
@dataclass(frozen=True)
class FIFO(InOrder):
    """A queue in order of arrival; jobs keep their GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    preempts: ClassVar[bool] = False

    backfill: bool = False

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """Equal keys, so that jobs are in order of arrival."""
        return Keys()


@known_names
@dataclass(frozen=True)
class SJF(InOrder):
    """A queue by GPUs, fewest first, or by remaining time or service; jobs keep their GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    by : {"gpus", "service", "time"}
        What makes a job small: its GPUs, its remaining time, or the product of both.

    Raises
    ------
    UnknownNameError
        If there is no such `by`.
    """

    preempts: ClassVar[bool] = False

    backfill: bool = False
    by: str = "gpus"

    def __post_init__(self) -> None:
        convert(self, backfill=as_flag,
                by=partial(as_choice, choices=("gpus", "service", "time")))

    @property
    def clairvoyant(self) -> bool:
        """Whether it uses the iterations that jobs will make."""
        return self.by != "gpus"

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The GPUs of jobs, their estimated remaining times, or the products."""
        gpus = 1 if self.by == "time" else view.ranks(jobs)
        left_s = 1.0 if self.by == "gpus" else view.remaining_s(jobs)
        return Keys(value=left_s * gpus)


@known_names
@dataclass(frozen=True)
class SRTF(InOrder):
    """Shortest remaining time first, by estimates; SRPT of Schrage (1968) for jobs of many GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    clairvoyant: ClassVar[bool] = True

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The remaining times."""
        return Keys(value=view.remaining_s(jobs))


@known_names
@dataclass(frozen=True)
class SRSF(InOrder):
    """Shortest remaining service first: remaining time times GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    clairvoyant: ClassVar[bool] = True

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The remaining service."""
        return Keys(value=view.remaining_s(jobs) * view.ranks(jobs))


@known_names
@dataclass(frozen=True)
class GandivaRR(InOrder):
    """Jobs take turns in a ring, as in Gandiva (OSDI 2018).

    A job that has run for its slice goes to the end of the ring if another job waits. Only time in
    which the job makes progress counts towards a slice, not the time to restore its state. If a job
    with many GPUs displaces a job within its slice, the displaced job later continues with the rest
    of its slice.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    quantum_s : quantity
        Length of a slice. It should be much longer than an iteration, because each slice loses the
        iteration that it interrupts, unless `preemption` says that the run keeps fractions.

    Raises
    ------
    InputError
        If the quantum is not positive.
    """

    quantum_s: Quantity = 60.0

    def __post_init__(self) -> None:
        convert(self, backfill=as_flag, quantum_s=partial(parse_seconds, strict=True))

    def order_of(self, context: RunContext) -> Order:
        """Make the order of a run."""
        return _RoundRobin(float(self.quantum_s), len(context.jobs))


class _RoundRobin(Order):
    """The ring in one run: places in it, and the progress of jobs before their present slices."""

    def __init__(self, quantum_s: float, jobs: int) -> None:
        self._quantum_s = quantum_s
        self._place = np.full(jobs, np.nan)
        self._before_s = np.zeros(jobs)
        self._next = 0

    def add_job(self, job: int, context: RunContext) -> None:
        """See `Order.add_job`."""
        self._place = np.insert(self._place, job, np.nan)
        self._before_s = np.insert(self._before_s, job, 0.0)

    def _to_end(self, view: ClusterView, job: int) -> None:
        """Move a job to the end of the ring, with a new slice."""
        self._place[job], self._next = self._next, self._next + 1
        self._before_s[job] = view.run_s(job)

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The places in the ring; see `Order.keys`."""
        return Keys(value=self._place[jobs])

    def see(self, view: ClusterView, fresh: Sequence[int]) -> Collection[int]:
        """Add jobs, and move those with finished slices to the end; see `Order.see`."""
        for job in sorted(job for job in fresh if np.isnan(self._place[job])):
            self._to_end(view, job)
        if not (view.pending or view.saving):
            return ()
        there = np.concatenate((view.holding, np.array([*view.saving, *fresh], np.int64)))
        used = view.run_s(there) - self._before_s[there]
        over = there[used * (1 + EQUAL) + view.now * ROUNDING >= self._quantum_s]
        for job in over[np.argsort(self._place[over])].tolist():
            self._to_end(view, job)
        return [job for job in over.tolist() if job in view.pending]

    def wake_at(self, view: ClusterView, after: After) -> float:
        """The next end of a slice; see `Order.wake_at`."""
        jobs, ready = after.holding()
        if not len(jobs):
            return math.inf
        used = view.run_s(jobs) - self._before_s[jobs]
        ends = np.maximum(ready, view.now) + self._quantum_s - used
        return float(ends.min())
