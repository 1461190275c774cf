"""Readable version of schedulers that preempt: orders of jobs and their decisions.

Each policy is an order of the jobs that wait, restore or run; `JobOrder.decide` makes decisions
from it. See `tests.twins.preemption`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from netsim.errors import InputError
from netsim.ties import EQUAL, below, equal
from tests.twins.preemption import ClusterJob, Number, Run, Starts, has_come

_FOREVER = math.inf


def _merged(amounts: dict[ClusterJob, Number], scale: Number | None = None
            ) -> dict[ClusterJob, Number]:
    """Replace amounts that differ by rounding, 1e-9 of `scale` or of themselves, by the least."""
    merged: dict[ClusterJob, Number] = {}
    last = least = None
    for job in sorted(amounts, key=lambda job: amounts[job]):
        amount = amounts[job]
        if last is None or not (equal(amount, last) if scale is None
                                else amount - last <= EQUAL * scale):
            least = amount
        merged[job], last = least, amount
    return merged


@dataclass
class JobOrder:
    """A scheduler that has an order of all jobs that wait, restore or run."""

    name: ClassVar[str]
    preempts: ClassVar[bool] = True
    backfill: bool = True  #: whether jobs may start that come after one that does not fit

    def order(self, run: Run) -> list[ClusterJob]:
        """Put all jobs that wait, restore or run in order, the first one first."""
        raise NotImplementedError

    def wake_at(self, run: Run) -> Number:
        """The instant at which to ask again; called when a decision has been carried out."""
        return _FOREVER

    def decide(self, run: Run) -> tuple[list[ClusterJob], Starts]:
        """Choose the jobs to preempt, and those to start with their GPUs."""
        stay, come = self._walk(run)
        preempt = [job for job in run.are("holding") if job not in stay]
        saved = [*run.are("saving"), *(job for job in preempt if run.saves(job))]
        usable = run.live() - _gpus(stay)
        free = usable - _gpus(saved)
        start: Starts = []
        for job in come:
            gpus = run.place(job, free)
            if gpus is not None:
                start.append((job, gpus))
            else:  # it waits, and GPUs that are being saved are kept for it
                gpus = run.place(job, usable) or []
            free, usable = free.difference(gpus), usable.difference(gpus)
        same = [job for job, gpus in start if job in preempt and set(gpus) == _gpus([job])]
        return ([job for job in preempt if job not in same],
                [(job, gpus) for job, gpus in start if job not in same])

    def _walk(self, run: Run) -> tuple[list[ClusterJob], list[ClusterJob]]:
        """Walk the order; return the jobs that keep their GPUs, and those that get some."""
        def possible(stay: list[ClusterJob], come: list[ClusterJob]) -> bool:
            usable = run.live() - _gpus(stay)
            for job in come:
                gpus = run.place(job, usable)
                if gpus is None:
                    return False
                usable = usable.difference(gpus)
            return True

        order = self.order(run)
        must = [job for job in order if job.state == "holding"
                and (not self.preempts or has_come(run.now, job.segments[-1].got))]
        stay: list[ClusterJob] = []
        come: list[ClusterJob] = []
        blocked = False
        for job in [*must, *(job for job in order if job not in must)]:
            holds = job.state == "holding"
            if holds and possible([*stay, job], come):
                stay.append(job)
            elif (not blocked and not (holds and run.saves(job))
                  and possible(stay, [*come, job])):
                come.append(job)
            elif not holds and not self.backfill:
                blocked = True
        return stay, come


def _gpus(jobs: Iterable[ClusterJob]) -> set[int]:
    """The GPUs that jobs hold, or held last."""
    return {gpu for job in jobs for gpu in job.segments[-1].gpus}


def _there(run: Run) -> list[ClusterJob]:
    """All jobs that wait, restore or run, in order of (arrival, id)."""
    return run.are("waiting", "holding")


def _left(run: Run) -> bool:
    """Whether any job waits or saves, so that a wake-up can change something."""
    return bool(run.are("waiting", "saving"))


@dataclass
class FifoOrder(JobOrder):
    """First come, first served."""

    name = "fifo"
    preempts = False
    backfill: bool = False

    def order(self, run: Run) -> list[ClusterJob]:
        return _there(run)


@dataclass
class SjfOrder(JobOrder):
    """Fewest GPUs first, shortest first, or least remaining service first."""

    name = "sjf"
    preempts = False
    backfill: bool = False
    by: str = "gpus"

    def order(self, run: Run) -> list[ClusterJob]:
        if self.by != "gpus":
            return {"time": SrtfOrder, "service": SrsfOrder}[self.by]().order(run)
        return sorted(_there(run), key=lambda job: job.gpus)


@dataclass
class SrtfOrder(JobOrder):
    """Shortest remaining time first."""

    name = "srtf"

    def order(self, run: Run) -> list[ClusterJob]:
        remaining = _merged({job: job.remaining_s(run.now) for job in _there(run)},
                            max(job.work_s for job in run.jobs))
        return sorted(_there(run), key=lambda job: remaining[job])


@dataclass
class SrsfOrder(JobOrder):
    """Shortest remaining service first: remaining time times GPUs."""

    name = "srsf"

    def order(self, run: Run) -> list[ClusterJob]:
        remaining = _merged({job: job.remaining_s(run.now) * job.gpus for job in _there(run)},
                            max(job.work_s * job.gpus for job in run.jobs))
        return sorted(_there(run), key=lambda job: remaining[job])


@dataclass
class ServiceOrder(JobOrder):
    """Base of orders by attained service."""

    #: Counts the time for which a job holds GPUs, or with ``"run"`` only that for which it runs.
    service: str = "held"

    def attained(self, run: Run, job: ClusterJob) -> Number:
        """The service of a job so far, in GPU-seconds."""
        return job.gpus * (job.held_s(run.now) if self.service == "held" else job.run_s(run.now))


@dataclass
class LasOrder(ServiceOrder):
    """Least attained service first; at equal service, a job that has GPUs goes on."""

    name = "las"
    quantum_s: Number = 60

    def order(self, run: Run) -> list[ClusterJob]:
        """Sort jobs by attained service."""
        attained = _merged({job: self.attained(run, job) for job in _there(run)})
        return sorted(_there(run), key=lambda job: (attained[job], job.state != "holding"))

    def wake_at(self, run: Run) -> Number:
        """The end of the quantum."""
        return run.now + self.quantum_s if _left(run) else _FOREVER


@dataclass
class TiresiasOrder(ServiceOrder):
    """Queues by attained service, each first in, first out: Tiresias' discretised 2D-LAS."""

    name = "tiresias"
    #: GPU-seconds from which a job is in the next queue, ascending.
    thresholds: Sequence[Number] = (3250, 7200)
    #: A job that has waited for this many times the seconds of its service is promoted.
    promote_knob: Number | None = None
    fifo_by: str = "start"  #: or ``"arrival"``: which job comes first in a queue

    def __post_init__(self) -> None:
        if self.promote_knob is not None and self.promote_knob <= 0:
            raise InputError(f"promote_knob must be positive, not {self.promote_knob}")

    def served(self, run: Run, job: ClusterJob) -> Number:
        """The GPU-seconds of a job since its last promotion."""
        return self.attained(run, job) - job.promoted_at

    def queue(self, run: Run, job: ClusterJob) -> int:
        """Count the thresholds that a job has reached since its last promotion."""
        served = self.served(run, job)
        return sum(not below(served, threshold) for threshold in self.thresholds)

    def patience_s(self, run: Run, job: ClusterJob) -> Number:
        """How long a job waits until it is promoted; infinite if it is not."""
        if self.promote_knob is None or self.queue(run, job) == 0:
            return _FOREVER
        return self.promote_knob * (self.served(run, job) / job.gpus)

    def crossing(self, run: Run, job: ClusterJob) -> Number:
        """The instant at which a job that holds GPUs reaches its next threshold."""
        queue = self.queue(run, job)
        if queue == len(self.thresholds):
            return _FOREVER
        since = run.now if self.service == "held" else max(run.now, job.segments[-1].run)
        return since + (self.thresholds[queue] - self.served(run, job)) / job.gpus

    def promote(self, run: Run) -> None:
        """Promote the jobs that have waited for long enough."""
        for job in run.are("waiting"):
            if job.segments and not below(run.now - job.segments[-1].free,
                                          self.patience_s(run, job)):
                job.promoted_at = self.attained(run, job)
                job.promotions += 1

    def rank(self, run: Run, job: ClusterJob) -> Number:
        """The first sort key of a job within its queue."""
        return 0

    def order(self, run: Run) -> list[ClusterJob]:
        """Sort jobs by queue; first started, first served."""
        self.promote(run)
        rank = _merged({job: self.rank(run, job) for job in _there(run)})
        return sorted(_there(run), key=lambda job: (
            self.queue(run, job), rank[job], job.start if self.fifo_by == "start" else 0))

    def wake_at(self, run: Run) -> Number:
        """The next crossing or promotion."""
        if not _left(run):
            return _FOREVER
        return min([_FOREVER, *(self.crossing(run, job) for job in run.are("holding")),
                    *(job.segments[-1].free + self.patience_s(run, job)
                      for job in run.are("waiting") if job.segments)])


@dataclass
class GittinsOrder(TiresiasOrder):
    """Tiresias with the Gittins index within a queue: its discretised 2D-Gittins."""

    name = "tiresias-g"
    history: Sequence[Number] = ()  #: GPU-seconds of past jobs
    #: GPU-seconds that the index looks ahead; to the end of the queue if None.
    delta: Number | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.history:
            raise InputError("tiresias-g needs a history: the GPU-seconds of at least one job")

    def rank(self, run: Run, job: ClusterJob) -> Number:
        """The negative of the index."""
        served, queue = self.served(run, job), self.queue(run, job)
        delta = self.delta
        if delta is None:
            delta = [*self.thresholds, _FOREVER][queue] - served
        longer = [each - served for each in self.history if below(served, each)]
        ended = sum(not below(served + delta, served + more) for more in longer)
        return -ended / sum(min(more, delta) for more in longer) if longer else 0


@dataclass
class RingOrder(JobOrder):
    """A ring of jobs that take turns: round robin in time slices."""

    name = "gandiva-rr"
    quantum_s: Number = 60
    ring: list[ClusterJob] = field(default_factory=list)

    def used_s(self, run: Run, job: ClusterJob) -> Number:
        """The seconds that a job has run in its present slice."""
        return job.run_s(run.now) - job.sliced_at

    def order(self, run: Run) -> list[ClusterJob]:
        """Turn the ring: jobs whose slices are over go to its end."""
        there = run.are("waiting", "holding", "saving")
        self.ring = [job for job in self.ring if job in there]
        self.ring += [job for job in there if job not in self.ring]
        if any(job.state != "holding" for job in self.ring):
            over = [job for job in self.ring if not below(self.used_s(run, job), self.quantum_s)]
            self.ring = [job for job in self.ring if job not in over] + over
            for job in over:
                job.sliced_at = job.run_s(run.now)
        return [job for job in self.ring if job.state != "saving"]

    def wake_at(self, run: Run) -> Number:
        """The next end of a slice."""
        if not _left(run):
            return _FOREVER
        return min([_FOREVER, *(
            max(run.now, job.segments[-1].run) + self.quantum_s - self.used_s(run, job)
            for job in run.are("holding"))])


#: The policies by name; their parameters are their options.
ORDERS: dict[str, Callable[..., JobOrder]] = {
    policy.name: policy for policy in (FifoOrder, SjfOrder, SrtfOrder, SrsfOrder, LasOrder,
                                       TiresiasOrder, GittinsOrder, RingOrder)}
