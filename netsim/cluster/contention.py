"""How long iterations of ring-all-reduce jobs take that share NICs: SJF-BCO, Eq. 6-9.

A job is *multi* if it uses two or more servers. Over the jobs that run, n_s is the number of multi
jobs on server s, and p = max n_s over a job's servers (0 if it is not multi). With
k = max(k_min, xi1 p) and f = k + alpha (k - 1), it exchanges at B = nic / f, or within its server;
an iteration of w workers with m bytes of gradients takes

    tau = 2 m (w-1)/w / B + m (w-1)/w / reduce + xi2 servers + compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.checks import LARGEST, is_number
from netsim.cluster.cluster import Cluster
from netsim.errors import InputError
from netsim.plain import plain_numbers
from netsim.units import parse_rate, parse_seconds
from netsim.workload import JobSpec

__all__ = ["Contention", "Iterations", "RunningJobs", "check_rates"]

#: Of what an iteration takes: rounding must not cost one in a slot.
_ROUNDING = 1e-9


@plain_numbers
@dataclass(frozen=True)
class Contention:
    """Rings that contend for NICs, as the model of SJF-BCO says.

    Parameters
    ----------
    alpha : float
        What contention costs beside sharing; at least 0.
    xi1 : float
        How often the jobs on a server send at once; in (0, 1].
    xi2 : float
        Overhead per iteration and server, in seconds; also given as ``"1ms"``, as other
        quantities are.
    k_min : float
        The least contention of a job that uses several servers; at least 0.
    reduce : float
        Bytes per second that a GPU adds up; no time if inf.
    slot : float
        Length of a slot, in seconds.
    time : {"slotted", "continuous"}
        Whether a job makes whole iterations in each slot and ends with one, or goes on without.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    #: Whether jobs run as coflows on the links of a network, under an allocator.
    uses_links: ClassVar[bool] = False
    #: What a run by the model must have; see `netsim.engine.view.Scheduler`.
    needs: ClassVar[frozenset[str]] = frozenset({"rings", "fast servers", "no link events"})

    alpha: float = 0.0
    xi1: float = 1.0
    xi2: float = 0.0
    k_min: float = 1.0
    reduce: float = math.inf
    slot: float = 1.0
    time: str = "slotted"

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and 0 <= self.alpha <= LARGEST):
            raise InputError(f"alpha must be a number of at least 0, not {self.alpha!r}")
        if not (is_number(self.xi1) and 0 < self.xi1 <= 1):
            raise InputError(f"xi1 must be in (0, 1], not {self.xi1!r}")
        if not (is_number(self.k_min) and 0 <= self.k_min <= LARGEST):
            raise InputError(f"k_min must be a number of at least 0, not {self.k_min!r}")
        if self.time not in ("continuous", "slotted"):
            raise InputError(f"time must be 'slotted' or 'continuous', not {self.time!r}")
        k = max(self.k_min, self.xi1)
        if k + self.alpha * (k - 1) <= 0:
            raise InputError(f"k_min = {self.k_min:g} and xi1 = {self.xi1:g} leave a job alone "
                             f"k = {k:g}, which alpha = {self.alpha:g} makes k + alpha (k - 1) "
                             "<= 0; raise k_min")
        object.__setattr__(self, "xi2", parse_seconds(self.xi2, "xi2"))
        object.__setattr__(self, "slot", parse_seconds(self.slot, "slot", strict=True))
        if self.reduce != math.inf:
            object.__setattr__(self, "reduce", parse_rate(self.reduce, "reduce", strict=True))

    def of(self, cluster: Cluster, jobs: Sequence[JobSpec]) -> Iterations:
        """Return how long iterations of some jobs take on a cluster."""
        return Iterations(self, cluster, jobs)


def check_rates(cluster: Cluster) -> None:
    """Refuse a cluster on which a ring would be slower on one server than on two.

    Raises
    ------
    InputError
        With both rates.
    """
    if cluster.intra < cluster.nic:
        raise InputError(f"intra must be at least nic, for a ring is no slower on one server: "
                         f"{cluster.intra:g} and {cluster.nic:g} bytes/s")


class Iterations:
    """What iterations of some jobs take, by where they run and who else does.

    Parameters
    ----------
    model : Contention
    cluster : Cluster
    jobs : sequence of JobSpec
        Rings: ``ranks`` GPUs, ``nbytes`` of gradients, ``compute_s`` per iteration.

    Attributes
    ----------
    model : Contention
    least, most : ndarray of float, shape (jobs,)
        Bounds on the seconds of an iteration, wherever a job runs: on one server; or on two where
        it contends with nobody, and on one for each GPU where all GPUs of a server contend.
    """

    def __init__(self, model: Contention, cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self.model = model
        ranks = np.array([job.ranks for job in jobs], dtype=np.float64)
        share = np.array([job.nbytes for job in jobs]) * (ranks - 1) / ranks
        self._exchanged = 2 * share
        self._own = share / model.reduce + np.array([job.compute_s for job in jobs])
        self._intra, self._nic = cluster.intra, cluster.nic
        together = self._exchanged / cluster.intra + self._own + model.xi2
        # Where f < 1, several servers may be faster than one.
        apart, crowded = (self._exchanged / self._bandwidth(p) + self._own
                          for p in (1, float(cluster.gpus.max())))
        several = (ranks > 1) & (cluster.servers > 1)
        self.least = np.where(several, np.minimum(together, apart + 2 * model.xi2), together)
        self.most = np.where(ranks == 1, together,
                             np.maximum(together, crowded + model.xi2 * ranks))

    def _bandwidth(self, p: float) -> float:
        model = self.model
        if p == 0:
            return self._intra
        k = max(model.k_min, model.xi1 * p)
        return self._nic / (k + model.alpha * (k - 1))

    def seconds(self, job: int, servers: int, p: int) -> float:
        """Return tau: the seconds of an iteration of a job on so many servers.

        Parameters
        ----------
        job : int
            Its place among the jobs.
        servers : int
        p : int
            The most multi jobs on one of its servers, itself included; 0 if it is not multi.
        """
        return float(self._exchanged[job] / self._bandwidth(p) + self._own[job]
                     + self.model.xi2 * servers)

    def per_slot(self, seconds: float) -> int:
        """Return how many iterations of so many seconds fit into a slot."""
        return math.floor(self.model.slot / seconds + _ROUNDING) if seconds > 0 else 2 ** 62


class RunningJobs:
    """Placed jobs as they run under the contention model, from exit to exit.

    Parameters
    ----------
    iterations : Iterations
    cluster : Cluster
    jobs : sequence of JobSpec

    Attributes
    ----------
    now : float
        Seconds; in slotted time the whole slots that they are.
    """

    def __init__(self, iterations: Iterations, cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self._iterations = iterations
        self._slotted = iterations.model.time == "slotted"
        self._jobs = jobs
        self._servers: dict[int, list[int]] = {}
        self._left: dict[int, float] = {}
        self._pace: dict[int, float] = {}
        self._more_s: dict[int, float] = {}
        self._resumes: dict[int, float] = {}
        self._multi_on = [0] * cluster.servers
        self._stale = False
        self._slot = 0
        self._s = 0.0

    def __len__(self) -> int:
        """Return how many jobs run."""
        return len(self._left)

    def __contains__(self, job: int) -> bool:
        return job in self._left

    @property
    def now(self) -> float:
        return self._slot * self._iterations.model.slot if self._slotted else self._s

    def start(self, job: int, servers: Iterable[int], more_s: float = 0.0) -> None:
        """Let a job run from now on.

        Parameters
        ----------
        job : int
            If it was stopped, it goes on with the iteration that it was in.
        servers : iterable of int
            Each named once.
        more_s : float
            Seconds that its iterations take there besides.
        """
        where = list(servers)
        self._servers[job], self._more_s[job] = where, more_s
        self._left[job] = self._resumes.pop(job, self._jobs[job].iterations)
        self._count(where, 1)
        if len(where) == 1:
            self._set_pace(job)

    def stop(self, job: int) -> float:
        """Let a job leave before its end; return the seconds, at its pace, that are lost of it.

        That is what it has done of an iteration; in slotted time, which passes in whole
        iterations, nothing.
        """
        self._see_contention()
        left, pace = self._left[job], self._pace[job]
        whole = math.ceil(left - _ROUNDING * max(left, 1.0))
        self._resumes[job] = whole
        self._drop(job)
        return 0.0 if self._slotted else max(whole - left, 0.0) * pace

    def _count(self, servers: list[int], sign: int) -> None:
        if len(servers) > 1:
            for server in servers:
                self._multi_on[server] += sign
            self._stale = True

    def _set_pace(self, job: int) -> None:
        """Note how many iterations a job makes in a slot, or what one takes in seconds."""
        seconds = self.seconds(job)
        self._pace[job] = self._iterations.per_slot(seconds) if self._slotted else seconds

    def seconds(self, job: int) -> float:
        """Return what an iteration of a running job takes now."""
        where = self._servers[job]
        p = max(self._multi_on[server] for server in where) if len(where) > 1 else 0
        return self._iterations.seconds(job, len(where), p) + self._more_s[job]

    def next_exit(self) -> float:
        """Return when the next job will have made all its iterations, if none starts before.

        Raises
        ------
        InputError
            In slotted time, if no job makes a whole iteration in a slot.
        """
        self._see_contention()
        if self._slotted:
            return (self._slot + self._slots_left()) * self._iterations.model.slot
        return self._s + self._seconds_left()

    def to_next_exit(self) -> list[int]:
        """Go on to when the next job has made all its iterations; return who has then.

        Raises
        ------
        InputError
            As `next_exit` does.
        """
        self._see_contention()
        if self._slotted:
            self._pass_slots(self._slots_left())
        else:
            self._pass_seconds(self._seconds_left())
        return self._leave()

    def next_start(self, now: float) -> float:
        """Return when a job may start: at once, or in slotted time at the end of the slot."""
        slot = self._iterations.model.slot
        return math.ceil(now / slot * (1 - _ROUNDING)) * slot if self._slotted else now

    def advance(self, to: float) -> list[int]:
        """Go on to an instant that is not behind the next exit; return who exits then.

        In slotted time, to one that `next_start` has returned.
        """
        self._see_contention()
        if self._slotted:
            slot = round(to / self._iterations.model.slot)
            self._pass_slots(max(slot - self._slot, 0))
        else:
            self._pass_seconds(max(to - self._s, 0.0))
            self._s = max(to, self._s)
        return self._leave()

    def _see_contention(self) -> None:
        if self._stale:
            for job, where in self._servers.items():
                if len(where) > 1:
                    self._set_pace(job)
            self._stale = False

    def _slots_left(self) -> int:
        pace, left = self._pace, self._left
        slots = min((-(-left[job] // pace[job]) for job in left if pace[job]), default=0)
        if not slots:
            job = min(left)
            raise InputError(
                f"no running job makes a whole iteration in a slot of "
                f"{self._iterations.model.slot:g} s; one of job {self._jobs[job].id} takes "
                f"{self.seconds(job):g} s: make slots longer, or time = \"continuous\"")
        return int(slots)

    def _pass_slots(self, slots: int) -> None:
        for job in self._left:
            self._left[job] -= self._pace[job] * slots
        self._slot += slots

    def _seconds_left(self) -> float:
        return min(self._left[job] * self._pace[job] for job in self._left)

    def _pass_seconds(self, dt: float) -> None:
        # Who would end a rounding later ends now, with the others that do.
        for job, pace in self._pace.items():
            left = self._left[job] * pace
            self._left[job] = 0.0 if left <= dt * (1 + _ROUNDING) else (left - dt) / pace
        self._s += dt

    def _leave(self) -> list[int]:
        """Let those go that have made all their iterations; return them."""
        done = sorted(job for job, left in self._left.items() if left <= 0)
        for job in done:
            self._drop(job)
        return done

    def _drop(self, job: int) -> None:
        self._count(self._servers.pop(job), -1)
        del self._left[job], self._pace[job], self._more_s[job]
