"""Reference simulation of jobs that are chains of coflows, slow but obviously correct.

It steps from one observed instant to the next, flow by flow, in plain floats, and uses no code of
the fabric. An event is observed at the first multiple of the observe interval that is not before
it, or at once without an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.reference.kernels import Problem

__all__ = ["ChainJob", "Policy", "finish_times"]

#: Lateness, as a fraction of the observe interval, with which an event is still observed.
_LATE = 1e-6

#: Fraction of a flow's size that counts as zero.
_DUST = 1e-9

#: A policy: returns the rate of each unfinished flow, given the sending jobs and their flows.
Policy = Callable[["list[ChainJob]", Problem], Iterable[float]]

Path = Sequence[int] | NDArray[np.int64]


class ChainJob:
    """A job whose coflows follow each other.

    Parameters
    ----------
    arrival : float
        Arrival in seconds.
    coflows : iterable of sequence of (path, nbytes)
        Flows of each coflow, as the links that they cross and their bytes.
    compute : sequence of float
        Seconds of computation before each coflow.

    Attributes
    ----------
    completed : int
        Number of completed coflows (Z_m).
    finish : float
        Finish time of the last completed coflow, in seconds.
    left, ends : list of float or None
        Remaining bytes and predicted end of each flow of the active coflow; None without one.
    """

    def __init__(self, arrival: float, coflows: Iterable[Sequence[tuple[Path, float]]],
                 compute: Sequence[float]) -> None:
        self.coflows = [[(path, nbytes) for path, nbytes in flows if nbytes > 0 and len(path)]
                        for flows in coflows]
        self.compute = compute
        self.unseen_empty: list[float] = []  # ends of empty coflows, not observed yet
        self.completed, self.attained, self.finish = 0, 0.0, arrival
        self.left: list[float] | None = None
        self.ends: list[float] | None = None
        self._wait(arrival)

    @property
    def done(self) -> bool:
        """Whether all coflows have completed."""
        return self.completed == len(self.coflows)

    @property
    def flows(self) -> list[tuple[Path, float]]:
        """Path and size of each flow of the current coflow."""
        return self.coflows[self.completed]

    @property
    def sent(self) -> int:
        """Bytes that the job has sent, over all its coflows, rounded to an integer (S_m)."""
        assert self.left is not None
        return round(self.attained + sum(size for _, size in self.flows) - sum(self.left))

    def _wait(self, since: float) -> None:
        """Compute until the next coflow is valid; empty coflows complete at once."""
        self.valid = since
        while not self.done:
            self.valid += self.compute[self.completed]
            if self.flows:
                return
            self.finish = self.valid
            self.unseen_empty.append(self.valid)
            self.completed += 1

    def start(self) -> None:
        """Activate the current coflow."""
        self.left = [nbytes for _, nbytes in self.flows]
        self.ends = [math.inf] * len(self.left)

    def send(self, rates: Sequence[float], start: float, now: float, late: float) -> int:
        """Send from `start` to `now`; return the number of flows that ended."""
        assert self.left is not None
        assert self.ends is not None
        ended = 0
        for f, (_, size) in enumerate(self.flows):
            if self.left[f] > 0:
                self.left[f] -= rates[f] * (now - start)
                if self.ends[f] <= now + late or self.left[f] <= _DUST * size:
                    self.left[f] = 0.0
                    self.ends[f] = min(self.ends[f], now)
                    ended += 1
        return ended

    def complete(self, now: float) -> None:
        """Complete the coflow at its true end; its successor begins when that end is observed."""
        assert self.ends is not None
        self.attained += sum(size for _, size in self.flows)
        self.finish = max(self.ends)
        self.completed += 1
        self.left = self.ends = None
        self._wait(now)

    def next_end(self, of_flows: bool) -> float:
        """Return the predicted end of the next flow, or of the coflow."""
        assert self.left is not None
        assert self.ends is not None
        ends = [end for end, left in zip(self.ends, self.left, strict=True) if left > 0]
        return min(ends) if of_flows else max(ends)

    def predict(self, now: float, rates: Sequence[float]) -> None:
        """Predict the end of each flow at its new rate."""
        assert self.left is not None
        assert self.ends is not None
        self.ends = [end if left == 0 else now + left / rate if rate > 0 else math.inf
                     for left, rate, end in zip(self.left, rates, self.ends, strict=True)]


def finish_times(jobs: Sequence[ChainJob], capacity: NDArray[np.float64], policy: Policy,
                 observe_interval: float = 0.0, wakes_on_flows: bool = False) -> list[float]:
    """Simulate jobs; return the finish time of each, in seconds.

    Parameters
    ----------
    jobs : sequence of ChainJob
    capacity : ndarray of float, shape (links,)
        Capacity of each link, in bytes per second.
    policy : callable
        ``policy(active, problem)`` returns the rate of each unfinished flow. It is called
        whenever a coflow becomes valid or completes.
    observe_interval : float
        Observe interval in seconds.
    wakes_on_flows : bool
        Whether the policy is also called when a flow ends.
    """
    now, active, rates = 0.0, list[ChainJob](), dict[ChainJob, list[float]]()
    while not all(job.done for job in jobs):
        coming = [job.valid for job in jobs if not job.done and job.left is None]
        coming += [at for job in jobs for at in job.unseen_empty]
        coming += [job.next_end(wakes_on_flows) for job in active]
        start, now = now, max(now, _observed(min(coming), observe_interval))
        happened = False
        for job in active:
            ended = job.send(rates[job], start, now, _LATE * observe_interval)
            happened |= wakes_on_flows and ended > 0
            if not any(job.left or ()):
                job.complete(now)
                happened = True
        for job in jobs:
            happened |= _admit(job, now, observe_interval)
        active = [job for job in jobs if job.left is not None]
        if happened and active:
            given = iter(policy(active, _problem_of(active, capacity)))
            for job in active:
                rates[job] = [float(next(given)) if left > 0 else 0.0 for left in job.left or ()]
                job.predict(now, rates[job])
    return [job.finish for job in jobs]


def _observed(at: float, interval: float) -> float:
    """Return the instant at which an event is observed."""
    return math.ceil(at / interval - _LATE) * interval if interval else at


def _admit(job: ChainJob, now: float, interval: float) -> bool:
    """Observe coflows that have become valid by now; return whether there were any."""
    unseen = [at for at in job.unseen_empty if _observed(at, interval) > now]
    happened = len(unseen) < len(job.unseen_empty)
    job.unseen_empty = unseen
    if not job.done and job.left is None and _observed(job.valid, interval) <= now:
        job.start()
        happened = True
    return happened


def _problem_of(active: list[ChainJob], capacity: NDArray[np.float64]) -> Problem:
    """Return the unfinished flows as a `Problem`, in which coflow c is that of ``active[c]``."""
    flows = [(c, left, path) for c, job in enumerate(active)
             for left, (path, _) in zip(job.left or (), job.flows, strict=True) if left > 0]
    return Problem(np.array([left for _, left, _ in flows]), np.array([c for c, _, _ in flows]),
                   np.cumsum([0, *(len(path) for _, _, path in flows)]),
                   np.concatenate([path for _, _, path in flows]), capacity)
