"""Iteration times of ring-all-reduce jobs that share NICs: SJF-BCO, Eq. 6-9.

A job is *multi* if it uses two or more servers. Let n_s be the number of running multi jobs on
server s, and p the largest n_s over a job's servers (0 if the job is not multi). With
k = max(k_min, xi1 p) and a degradation f(alpha, k), which is k + alpha (k - 1) unless another is
given, the job exchanges at B = nic / f, or at the rate within servers if it is not multi. An
iteration of w workers with m bytes of gradients takes

    tau = 2 m (w-1)/w / B + m (w-1)/w / reduce + xi2 servers + compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from netsim.base.units import parse_seconds
from netsim.base.values import as_choice, as_number, as_share, convert, known_names, plain
from netsim.cluster.cluster import Cluster
from netsim.cluster.ring import as_speed
from netsim.errors import InputError
from netsim.models.degradation import Degradation, Slowdown
from netsim.workload import JobSpec

#: Relative tolerance of times: rounding must not cost an iteration in a slot.
_ROUNDING = 1e-9


@known_names
@dataclass(frozen=True)
class Contention:
    """The contention model of SJF-BCO for rings that share NICs.

    Parameters
    ----------
    alpha : float
        Cost of contention beyond equal sharing, an option of the degradation f; at least 0.
    xi1 : float
        Share of the jobs on a server that send at the same time; in (0, 1].
    xi2 : quantity
        Overhead in each iteration for each server that the job uses: seconds, or a quantity such
        as ``"1ms"``.
    k_min : float
        Lower limit on the contention k of a job that uses several servers; at least 0.
    reduce : rate
        Bytes of gradients per second that a GPU can add up; inf if adding takes no time.
    slot : quantity
        Length of a slot, in seconds.
    time : {"slotted", "continuous"}
        Whether jobs make a whole number of iterations in each slot and end with a slot, or time
        is continuous.
    degradation : str, mapping or callable
        f, by which contention divides bandwidth: ``"linear"``, k + alpha (k - 1); another name from
        `netsim.models.degradation.DEGRADATIONS`, or ``"module:function"``, with options as in
        ``{"name": ..., option: ...}``; or a function of k. If it has an option ``alpha``, this is
        passed on. It must be 1 at k = 1, and increase with k.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    #: Whether jobs run as coflows on the links of a network, under an allocator.
    uses_links: ClassVar[bool] = False
    #: What a run by the model must have; see `netsim.engine.view.Scheduler`.
    needs: ClassVar[frozenset[str]] = frozenset(
        {"rings", "fast servers", "no link events", "ideal links"})

    alpha: float = 0.0
    xi1: float = 1.0
    xi2: float = 0.0
    k_min: float = 1.0
    reduce: float = math.inf
    slot: float = 1.0
    time: str = "slotted"
    degradation: Degradation = "linear"

    def __post_init__(self) -> None:
        convert(self, alpha=partial(as_number, least=0), xi1=as_share,
                xi2=parse_seconds, k_min=partial(as_number, least=0), reduce=as_speed,
                slot=partial(parse_seconds, strict=True), degradation=plain,
                time=partial(as_choice, choices=("slotted", "continuous")))
        self.slowdown  # noqa: B018  # which checks its options

    @cached_property
    def slowdown(self) -> Slowdown:
        """f, by the number of contending jobs."""
        return Slowdown(self.alpha, self.xi1, self.k_min, self.degradation)

    def of(self, cluster: Cluster, jobs: Sequence[JobSpec]) -> Iterations:
        """Tabulate the iteration times of some jobs on a cluster."""
        return Iterations(self, cluster, jobs)


def check_rates(cluster: Cluster) -> None:
    """Check that a ring is not slower on one server than on two."""
    if cluster.intra < cluster.nic:
        raise InputError(f"intra must be at least nic, as a ring must not be slower on one server: "
                         f"{cluster.intra:g} and {cluster.nic:g} bytes/s", "intra")


class Iterations:
    """Iteration times of rings, by their servers and the contention there."""

    def __init__(self, model: Contention, cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self.model = model
        ranks = np.array([job.ranks for job in jobs], dtype=np.float64)
        share = np.array([job.nbytes for job in jobs]) * (ranks - 1) / ranks
        self._exchanged = 2 * share
        self._own = share / model.reduce + np.array([job.compute_s for job in jobs])
        most = int(cluster.gpus.max())
        self._bandwidth = [cluster.intra, *(
            cluster.nic / model.slowdown(np.arange(1, most + 1))).tolist()]  # by contention p
        together = self._exchanged / cluster.intra + self._own + model.xi2
        # `least` and `most` bound the seconds of an iteration over all placements. The shortest is
        # on one server or, if f < 1, on two without contention. The longest is on one server or
        # with every GPU on a different server, whose other GPUs are used by other multi jobs.
        apart, crowded = (self._exchanged / self._bandwidth[p] + self._own for p in (1, most))
        several = (ranks > 1) & (cluster.servers > 1)
        self.least = np.where(several, np.minimum(together, apart + 2 * model.xi2), together)
        self.most = np.where(ranks == 1, together,
                             np.maximum(together, crowded + model.xi2 * ranks))

    def seconds(self, job: int, servers: int, p: int) -> float:
        """The iteration time tau of a job on a number of servers, in seconds.

        `p` is the largest number of multi jobs on one of its servers, the job itself included; 0 if
        the job has one server only.
        """
        return float(self._exchanged[job] / self._bandwidth[p] + self._own[job]
                     + self.model.xi2 * servers)

    def per_slot(self, seconds: float) -> int:
        """The number of whole iterations of some length that fit into a slot."""
        return math.floor(self.model.slot / seconds + _ROUNDING) if seconds > 0 else 2 ** 62


class RunningJobs:
    """The jobs running under the contention model; time advances from one job's end to the next."""

    def __init__(self, iterations: Iterations, cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self._iterations = iterations
        self._slotted = iterations.model.time == "slotted"
        self._jobs = jobs
        self._servers: dict[int, list[int]] = {}
        self._left: dict[int, float] = {}
        self._pace: dict[int, float] = {}
        self._more_s: dict[int, float] = {}
        self._multi_on = [0] * cluster.servers
        self._stale = False
        self._at: float = 0 if self._slotted else 0.0  # in slots, or in seconds

    def set_jobs(self, iterations: Iterations, jobs: Sequence[JobSpec]) -> None:
        """Set the jobs of the run, including those not started yet, and their iteration times."""
        self._iterations, self._jobs = iterations, jobs

    def __len__(self) -> int:
        """The number of running jobs."""
        return len(self._left)

    def __contains__(self, job: int) -> bool:
        return job in self._left

    @property
    def now(self) -> float:
        return self._instant(self._at)

    def _instant(self, at: float) -> float:
        """Convert a number of slots, or of seconds, to seconds."""
        return at * self._iterations.model.slot if self._slotted else at

    def start(self, job: int, servers: Iterable[int], kept: float = 0.0, more_s: float = 0.0
              ) -> None:
        """Start a job now, on distinct servers, with `kept` iterations already made.

        Each iteration takes `more_s` seconds more than by the model.
        """
        where = list(servers)
        self._servers[job], self._more_s[job] = where, more_s
        self._left[job] = self._jobs[job].iterations - kept
        self._count(where, 1)
        if len(where) == 1:
            self._set_pace(job)

    def made(self, job: int, now: float) -> float:
        """The iterations that a job will have made at `now`, not after the next end."""
        self._see_contention()
        if job not in self._left:
            return float(self._jobs[job].iterations)
        pace, passed = self._pace[job], max(now - self.now, 0.0)
        if self._slotted:
            passed = math.floor(passed / self._iterations.model.slot * (1 + _ROUNDING)) * pace
        else:
            passed = passed / pace if pace else 0.0
        return float(self._jobs[job].iterations - max(self._left[job] - passed, 0.0))

    def stop(self, job: int, kept: float) -> float:
        """Stop a job that keeps `kept` iterations; return the seconds of those it loses.

        In slotted time, in which jobs make whole iterations, nothing is lost.
        """
        self._see_contention()
        left, pace = self._left[job], self._pace[job]
        self._drop(job)
        lost = self._jobs[job].iterations - kept - left
        return 0.0 if self._slotted else max(lost, 0.0) * pace

    def _count(self, servers: list[int], sign: int) -> None:
        """Count a multi job on its servers (sign 1), or remove it (sign -1)."""
        if len(servers) > 1:
            for server in servers:
                self._multi_on[server] += sign
            self._stale = True

    def _set_pace(self, job: int) -> None:
        """Set the pace of a job: iterations per slot, or seconds per iteration."""
        seconds = self.seconds(job)
        self._pace[job] = self._iterations.per_slot(seconds) if self._slotted else seconds

    def seconds(self, job: int) -> float:
        """The seconds of an iteration of a running job under the current contention."""
        where = self._servers[job]
        p = max(self._multi_on[server] for server in where) if len(where) > 1 else 0
        return self._iterations.seconds(job, len(where), p) + self._more_s[job]

    def next_exit(self) -> float:
        """The instant at which the next job ends, unless another one starts before.

        Raises InputError in slotted time if no job makes a whole iteration in a slot.
        """
        self._see_contention()
        return self._instant(self._at + self._until_exit())

    def to_next_exit(self) -> list[int]:
        """Advance to the instant at which the next jobs end, see `next_exit`; return them."""
        self._see_contention()
        self._pass(self._until_exit())
        return self._leave()

    def next_start(self, now: float) -> float:
        """The next instant at which a job may start; in slotted time the end of the slot."""
        slot = self._iterations.model.slot
        return math.ceil(now / slot * (1 - _ROUNDING)) * slot if self._slotted else now

    def advance(self, to: float) -> list[int]:
        """Advance to an instant that is not after the next exit; return the jobs that end then.

        In slotted time, the instant must be one that `next_start` has returned.
        """
        self._see_contention()
        to = round(to / self._iterations.model.slot) if self._slotted else to
        self._pass(max(to - self._at, 0))
        self._at = max(to, self._at)
        return self._leave()

    def _see_contention(self) -> None:
        """Update the pace of multi jobs if contention has changed."""
        if self._stale:
            for job, where in self._servers.items():
                if len(where) > 1:
                    self._set_pace(job)
            self._stale = False

    def _until_exit(self) -> float:
        """The slots, or the seconds, until the next exit."""
        pace, left = self._pace, self._left
        if not self._slotted:
            return min(left[job] * pace[job] for job in left)
        slots = min((-(-left[job] // pace[job]) for job in left if pace[job]), default=0)
        if not slots:
            job = min(left)
            raise InputError(
                f"no running job makes a whole iteration in a slot of "
                f"{self._iterations.model.slot:g} s; one of job {self._jobs[job].id} takes "
                f"{self.seconds(job):g} s: make slots longer, or time = \"continuous\"", "slot")
        return int(slots)

    def _pass(self, time: float) -> None:
        """Advance by slots or seconds; jobs that would end later only by rounding end now."""
        for job, pace in self._pace.items():
            if self._slotted:
                self._left[job] -= pace * time
                continue
            left = self._left[job] * pace
            self._left[job] = 0.0 if left <= time * (1 + _ROUNDING) else (left - time) / pace
        self._at += time

    def _leave(self) -> list[int]:
        """Remove the jobs that have made all their iterations, and return them."""
        done = sorted(job for job, left in self._left.items() if left <= 0)
        for job in done:
            self._drop(job)
        return done

    def _drop(self, job: int) -> None:
        """Remove a job."""
        self._count(self._servers.pop(job), -1)
        del self._left[job], self._pace[job], self._more_s[job]
