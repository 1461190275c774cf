"""Readable version of preemption on a cluster, one instant and one job at a time.

It simulates by formula: an iteration of a job takes the same time on all GPUs. Tests compare the
engine with it. Numbers may be fractions: all arithmetic is then exact, except for tolerances within
which values or instants count as equal. The schedulers are in `tests.twins.job_orders`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from netsim.errors import AllocationError, StalledError
from netsim.ties import EQUAL

#: An int, a float or a fraction; floats and fractions are not mixed.
Number = Any

_FOREVER = math.inf

#: A job that is preempted this many times in a row with nothing kept ends the run.
_IN_VAIN = 1000


def has_come(instant: Number, now: Number) -> bool:
    """Whether an instant has come; those within 1e-12, relative, are one."""
    return bool(instant <= now or math.isclose(instant, now, rel_tol=1e-12))


@dataclass(eq=False)
class Segment:
    """A stretch of time during which a job holds the same GPUs."""

    gpus: list[int]
    got: Number  #: instant at which it gets the GPUs
    run: Number  #: instant from which it progresses
    #: Iterations that survive whatever happens: those at `got`, from `stop` on those at `stop`.
    kept: Number
    kept_before: Number  #: those at `got`
    stop: Number = _FOREVER  #: instant until which it progresses
    free: Number = _FOREVER  #: instant at which it gives the GPUs back
    reason: str | None = None  #: ``"finish"``, ``"preempt"`` or ``"fault"``


@dataclass(eq=False)
class ClusterJob:
    """A job, and what has happened to it."""

    id: int
    arrival: Number
    gpus: int
    iterations: int
    iteration_s: Number
    state_bytes: Number | None = None  #: None for those of the run
    #: ``"coming"``, ``"waiting"``, ``"holding"`` (restores or runs), ``"saving"`` or ``"done"``.
    state: str = "coming"
    segments: list[Segment] = field(default_factory=list)
    preemptions: int = 0
    restarts: int = 0
    promotions: int = 0
    promoted_at: Number = 0  #: GPU-seconds attained at its last promotion
    sliced_at: Number = 0  #: seconds that it had run when its present slice began

    @property
    def start(self) -> Number:
        """Instant at which it got GPUs for the first time; infinite if it has not."""
        return self.segments[0].got if self.segments else _FOREVER

    @property
    def finish(self) -> Number:
        """Instant at which it ended, or gave up its GPUs last."""
        return self.segments[-1].free

    @property
    def kept(self) -> Number:
        """Iterations that survive whatever happens."""
        return self.segments[-1].kept if self.segments else 0

    @property
    def work_s(self) -> Number:
        """Seconds of all its iterations."""
        return self.iterations * self.iteration_s

    @property
    def end(self) -> Number:
        """Instant at which it ends if it keeps the GPUs that it holds."""
        return self.segments[-1].run + (self.iterations - self.kept) * self.iteration_s

    def progress(self, now: Number) -> Number:
        """The number of iterations done, with the fraction of the current one."""
        if self.state != "holding" or has_come(now, self.segments[-1].run):
            return self.kept
        return self.kept + (now - self.segments[-1].run) / self.iteration_s

    def remaining_s(self, now: Number) -> Number:
        """The seconds of iterations that are left."""
        return (self.iterations - self.progress(now)) * self.iteration_s

    def held_s(self, now: Number) -> Number:
        """The seconds for which it has held GPUs."""
        return sum(min(now, each.free) - each.got for each in self.segments)

    def run_s(self, now: Number) -> Number:
        """The seconds for which it has run, those of lost progress included."""
        return sum(max(min(now, each.stop) - each.run, 0) for each in self.segments)

    @property
    def held_gpu_s(self) -> Number:
        """GPU-seconds held, once it is done: the sum of the following three."""
        return self.gpus * self.held_s(_FOREVER)

    @property
    def useful_gpu_s(self) -> Number:
        """GPU-seconds of progress that was kept in the end."""
        return self.gpus * self.kept * self.iteration_s

    @property
    def lost_gpu_s(self) -> Number:
        """GPU-seconds of progress that was not kept."""
        return self.gpus * self.run_s(_FOREVER) - self.useful_gpu_s

    @property
    def overhead_gpu_s(self) -> Number:
        """GPU-seconds of moves, restores and checkpoints."""
        return self.gpus * sum((each.run - each.got) + (each.free - each.stop)
                               for each in self.segments)


def _whole(progress: Number) -> int:
    """Round iterations down, where 1e-9 below a whole number is that number."""
    nearest = round(progress)
    return nearest if abs(progress - nearest) <= EQUAL else math.floor(progress)


#: Jobs to start, with their GPUs.
Starts = list[tuple[ClusterJob, list[int]]]


@dataclass(frozen=True)
class Costs:
    """What a preemption keeps and costs: the options of a run."""

    keep: str = "iterations"  #: or ``"fraction"``: keep the part of an iteration, too
    checkpoint_s: Number = 0  #: held longer if there is something to save
    restore_s: Number = 0  #: held before it runs, if it has kept iterations
    state_bytes: Number = 0  #: moved before that if a server is not among the job's last ones
    move_bytes_per_s: Number = _FOREVER
    #: Or ``"checkpoint"``: a job that loses a server keeps only what it got GPUs with.
    on_fault: str = "iterations"


@dataclass(frozen=True)
class ServerFault:
    """The loss (``"fail"``) or the repair (``"repair"``) of a server."""

    at: Number
    server: int
    kind: str


def _first_fit(servers: Sequence[range], count: int, usable: set[int]) -> list[int] | None:
    """Choose the first GPUs."""
    return sorted(usable)[:count] if count <= len(usable) else None


def _consolidated(servers: Sequence[range], count: int, usable: set[int]) -> list[int] | None:
    """Choose GPUs of no more servers than it would take if all were free, the best fit last."""
    sizes = sorted(map(len, servers), reverse=True)
    fewest = next((k for k in range(1, len(sizes) + 1) if sum(sizes[:k]) >= count), 0)
    left = [sorted(usable.intersection(server)) for server in servers]
    chosen: list[int] = []
    for _ in range(fewest):
        needed = count - len(chosen)
        enough = [gpus for gpus in left if len(gpus) >= needed]
        if enough:
            return sorted(chosen + min(enough, key=len)[:needed])
        most = max(left, key=len)
        left.remove(most)
        chosen += most
    return None


_PLACEMENTS = {"first-fit": _first_fit, "consolidated": _consolidated}


class _Scheduler(Protocol):
    """Decides which jobs to preempt and to start, and then when to be woken."""

    name: str

    def decide(self, run: Run) -> tuple[list[ClusterJob], Starts]: ...

    def wake_at(self, run: Run) -> Number: ...


@dataclass
class Run:
    """The state of a run at an instant."""

    servers: list[range]  #: the GPUs of each server
    jobs: list[ClusterJob]  #: in order of (arrival, id)
    costs: Costs
    placement: str
    faults: list[ServerFault]  #: those still to come
    lost: set[int] = field(default_factory=set)  #: servers
    now: Number = 0
    wake_at: Number = _FOREVER  #: when the scheduler will be woken

    def are(self, *states: str) -> list[ClusterJob]:
        """The jobs in one of some states, in order of (arrival, id)."""
        return [job for job in self.jobs if job.state in states]

    def live(self) -> set[int]:
        """The GPUs of servers that are not lost."""
        return {gpu for server, gpus in enumerate(self.servers) if server not in self.lost
                for gpu in gpus}

    def place(self, job: ClusterJob, usable: set[int]) -> list[int] | None:
        """Choose GPUs of a job by the placement of the run; None if no usable ones suit it."""
        return _PLACEMENTS[self.placement](self.servers, job.gpus, usable)

    def servers_of(self, gpus: Iterable[int]) -> set[int]:
        """The servers of some GPUs."""
        return {number for gpu in gpus for number, server in enumerate(self.servers)
                if gpu in server}

    def kept_if_stopped(self, job: ClusterJob, keep: str) -> Number:
        """The iterations that survive if a job stops now."""
        progress = job.progress(self.now)
        return progress if keep == "fraction" else max(_whole(progress), job.kept)

    def saves(self, job: ClusterJob) -> bool:
        """Whether a checkpoint is written for a job if it is preempted now."""
        return bool(self.costs.checkpoint_s > 0
                    and self.kept_if_stopped(job, self.costs.keep) > job.kept)

    def next_instant(self) -> Number:
        """The next instant at which something happens by itself."""
        return min([self.wake_at, *(fault.at for fault in self.faults),
                    *(job.arrival for job in self.are("coming")),
                    *(job.end for job in self.are("holding")),
                    *(job.segments[-1].free for job in self.are("saving"))])

    def gather(self) -> None:
        """Do all that happens by itself at this instant."""
        for job in self.are("holding"):
            if has_come(job.end, self.now):
                self._stop(job, "finish", job.iterations, "done")
        for job in self.are("saving"):
            if has_come(job.segments[-1].free, self.now):
                job.state = "waiting"
        while self.faults and has_come(self.faults[0].at, self.now):
            self._fault(self.faults.pop(0))
        for job in self.are("coming"):
            if has_come(job.arrival, self.now):
                job.state = "waiting"
        if has_come(self.wake_at, self.now):
            self.wake_at = _FOREVER

    def _stop(self, job: ClusterJob, reason: str, kept: Number, state: str,
              hold_s: Number = 0) -> None:
        """End the progress of a job, which holds its GPUs for a while longer."""
        segment, job.state = job.segments[-1], state
        segment.reason, segment.kept = reason, kept
        segment.stop, segment.free = self.now, self.now + hold_s
        segment.run = min(segment.run, self.now)

    def _fault(self, fault: ServerFault) -> None:
        """Lose or repair a server."""
        if fault.kind == "repair":
            self.lost.discard(fault.server)
            return
        self.lost.add(fault.server)
        for job in self.are("holding", "saving"):
            segment = job.segments[-1]
            if fault.server not in self.servers_of(segment.gpus):
                continue
            kept = (segment.kept_before if self.costs.on_fault == "checkpoint"
                    else self.kept_if_stopped(job, "iterations"))
            if job.state == "holding":
                self._stop(job, "fault", kept, "waiting")
            else:
                segment.kept, segment.free, segment.reason = kept, self.now, "fault"
                job.state = "waiting"
            job.restarts += 1

    def preempt(self, job: ClusterJob) -> None:
        """Take the GPUs of a job away, after a checkpoint if there is something to save."""
        kept, saves = self.kept_if_stopped(job, self.costs.keep), self.saves(job)
        self._stop(job, "preempt", kept, "saving" if saves else "waiting",
                   self.costs.checkpoint_s if saves else 0)
        job.preemptions += 1
        last = job.segments[-_IN_VAIN:]
        if len(last) == _IN_VAIN and all(each.reason == "preempt" and each.kept <= each.kept_before
                                         for each in last):
            raise StalledError(
                f"stalled at t = {float(self.now):g} s: job {job.id} has been preempted {_IN_VAIN} "
                "times in a row and kept nothing; slices or queues are shorter than restore_s and "
                "an iteration")

    def start(self, job: ClusterJob, gpus: Sequence[int]) -> None:
        """Give GPUs to a job, which restores first if it has kept something."""
        run = self.now
        if job.kept > 0:
            run += self.costs.restore_s
            nbytes = self.costs.state_bytes if job.state_bytes is None else job.state_bytes
            if nbytes and not self.servers_of(gpus) <= self.servers_of(job.segments[-1].gpus):
                run += nbytes / self.costs.move_bytes_per_s
        job.segments.append(Segment(sorted(gpus), self.now, run, job.kept, job.kept))
        job.state = "holding"

    def decide(self, scheduler: _Scheduler) -> None:
        """Ask the scheduler, check its decision and carry it out."""
        def require(legal: bool, job: ClusterJob, problem: str) -> None:
            if not legal:
                raise AllocationError(f"scheduler {scheduler.name!r} at t = {float(self.now):g} s: "
                                      f"job {job.id} {problem}")

        preempt, start = scheduler.decide(self)
        for job in preempt:
            require(job.state == "holding", job, "is preempted, but neither restores nor runs")
            require(not has_come(self.now, job.segments[-1].got), job,
                    "is preempted, but has been started at this very instant")
            self.preempt(job)
        for job, gpus in start:
            held = {gpu for other in self.are("holding", "saving")
                    for gpu in other.segments[-1].gpus}
            require(job.state == "waiting", job, f"is started, but does not wait: {job.state}")
            require(len(set(gpus)) == len(gpus) == job.gpus, job,
                    f"is started on GPUs {gpus}, but needs {job.gpus}, all different")
            require(set(gpus) <= self.live() - held, job, f"is started on GPUs {gpus}: not free")
            require(job not in preempt or set(gpus) != set(job.segments[-1].gpus), job,
                    "is moved to the GPUs that it had; a move needs others")
            self.start(job, gpus)
        self.wake_at = scheduler.wake_at(self)
        if self.wake_at < self.now or (
                has_come(self.wake_at, self.now) and not preempt and not start):
            raise AllocationError(
                f"scheduler {scheduler.name!r} asks to be woken at {float(self.wake_at):g} s, but "
                f"it is {float(self.now):g} s")


def run_jobs(servers: Sequence[int], jobs: Iterable[ClusterJob], scheduler: _Scheduler, *,
             costs: Costs | None = None, placement: str = "first-fit",
             faults: Iterable[ServerFault] = ()) -> list[ClusterJob]:
    """Run jobs on a cluster until all are done; return them in order of (arrival, id).

    `servers` has the number of GPUs of each server; GPUs are numbered consecutively, server by
    server. The jobs given are changed. A decision that is not legal is an `AllocationError`. It is
    a `StalledError` if jobs wait and nothing will happen any more, or if a job is preempted 1,000
    times in a row with nothing kept.
    """
    ends = [sum(servers[:number + 1]) for number in range(len(servers))]
    run = Run([range(end - count, end) for count, end in zip(servers, ends, strict=True)],
              sorted(jobs, key=lambda job: (job.arrival, job.id)), costs or Costs(), placement,
              sorted(faults, key=lambda fault: fault.at))
    while run.are("coming", "waiting", "holding", "saving"):
        run.now = run.next_instant()
        if run.now == _FOREVER:
            waiting = ", ".join(str(job.id) for job in run.are("waiting"))
            raise StalledError(f"stalled: jobs {waiting} wait, and nothing will happen any more")
        run.gather()
        if run.are("waiting", "holding", "saving"):
            run.decide(scheduler)
    return run.jobs


@dataclass(frozen=True)
class GivenDecision:
    """A decision written down: jobs by id; `wake_at` is the instant of the next one by default."""

    at: Number
    preempt: Sequence[int] = ()
    start: Sequence[tuple[int, list[int]]] = ()
    wake_at: Number | None = None


@dataclass
class Script:
    """A scheduler that decides as written down; at other instants it changes nothing."""

    name: ClassVar[str] = "script"
    decisions: list[GivenDecision]  #: those still to come
    _wake_at: Number | None = None

    def decide(self, run: Run) -> tuple[list[ClusterJob], Starts]:
        """Return the decision written down for this instant."""
        self._wake_at = None
        if not self.decisions or not has_come(self.decisions[0].at, run.now):
            return [], []
        given, self.decisions = self.decisions[0], self.decisions[1:]
        self._wake_at = given.wake_at
        by_id = {job.id: job for job in run.jobs}
        return [by_id[job] for job in given.preempt], [(by_id[job], gpus)
                                                       for job, gpus in given.start]

    def wake_at(self, run: Run) -> Number:
        """The instant that the decision says, or that of the next one."""
        if self._wake_at is not None:
            return self._wake_at
        return self.decisions[0].at if self.decisions else _FOREVER
