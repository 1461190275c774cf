"""Random clusters with jobs, as plain data, for checks of schedulers and placements; audits.

An audit checks that what jobs held, made and paid adds up. It uses only the record of a run, so it
also finds faults of the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.context import RunContext
from netsim.engine.ledger import Segment
from netsim.engine.preemption import Preemption
from netsim.models import ModelStage, ParallelModel
from netsim.models.mapping import can_hold
from netsim.simulation.events import FaultEvent
from netsim.testing.trial import Pick
from netsim.workload import History, JobSpec

_QUARTER = 0.25

#: Whole iterations are kept, and nothing is paid.
_USUAL = Preemption()

#: Earlier jobs, for schedulers that predict.
_HISTORY = History(np.array([0, 0, 1, 2]), np.array([0, 0, 0, 0]), np.array([2.0, 4.0, 8.0, 3.0]))


@dataclass(frozen=True)
class Submitted:
    """A job with its iteration time, the same on all GPUs, which schedulers do not know."""

    ranks: int
    arrival_s: float = 0.0
    iteration_s: float = 1.0
    iterations: int = 1
    estimate_s: float = 1.0
    group: int = 0
    slices: int = 0  #: of each replica of the job's model; 0 for a ring all-reduce without a model
    weight: float = 1.0

    @property
    def takes_s(self) -> float:
        """Running time without interruptions, in seconds."""
        return self.iterations * self.iteration_s

    def spec(self, number: int) -> JobSpec:
        """The job as it is submitted."""
        sent: dict[str, Any] = {"pattern": "ring-all-reduce", "ranks": self.ranks, "nbytes": 1e6,
                                "compute_s": 0.01}
        if self.slices:
            stage = ModelStage(self.ranks // self.slices, 0.01, 0.01, slices=self.slices)
            sent = {"model": ParallelModel([stage], name=f"{self.slices} slices")}
        return JobSpec(number, self.arrival_s, self.iterations, estimate_s=self.estimate_s,
                       group=self.group, user=0, weight=self.weight, **sent)

    def __str__(self) -> str:
        what = (f"of replicas of {self.slices} slices, " if self.slices else "")
        return (f"{self.ranks} GPUs, {what}arrival_s={self.arrival_s:g}, iterations="
                f"{self.iterations}, estimate_s={self.estimate_s:g}, group={self.group}"
                + (f", weight={self.weight:g}" if self.weight != 1 else ""))


@dataclass(frozen=True)
class Loss:
    """The loss of a server with the jobs on it, and its repair, in seconds."""

    server: int
    at: float
    until: float

    @property
    def events(self) -> tuple[FaultEvent, FaultEvent]:
        """The events of a run."""
        return (FaultEvent(self.at, host=self.server, kind="fail", restart=True),
                FaultEvent(self.until, host=self.server, kind="repair"))

    def __str__(self) -> str:
        return f"server {self.server} is lost from {self.at:g} s to {self.until:g} s"


@dataclass(frozen=True)
class ClusterCase:
    """Jobs that arrive at a cluster, with the costs of preemption and the losses of servers."""

    gpus: tuple[int, ...]  #: of each server
    jobs: tuple[Submitted, ...]  #: in order of arrival
    preemption: Preemption = _USUAL
    losses: tuple[Loss, ...] = ()  #: of different servers

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(gpus=self.gpus)

    @cached_property
    def specs(self) -> tuple[JobSpec, ...]:
        """The jobs as they are submitted."""
        return tuple(job.spec(number) for number, job in enumerate(self.jobs))

    @property
    def events(self) -> list[FaultEvent]:
        """The fault events of a run."""
        return [event for loss in self.losses for event in loss.events]

    def context(self, seed: int) -> RunContext:
        """The context of a run, which schedulers may see."""
        return RunContext(self.cluster, self.specs, Contention(time="continuous"), _HISTORY, seed)

    def with_job(self, place: int, **changes: Any) -> ClusterCase:
        """Copy the case with other values of the job at one place."""
        jobs = list(self.jobs)
        jobs[place] = replace(jobs[place], **changes)
        return replace(self, jobs=tuple(jobs))

    def __str__(self) -> str:
        lines = [f"Cluster(gpus={list(self.gpus)})"]
        if changed := _changed(self.preemption):
            lines.append("preemption: " + ", ".join(
                f"{name}={getattr(self.preemption, name)!r}" for name in changed))
        lines += map(str, self.losses)
        for number, job in enumerate(self.jobs):
            lines.append(f"job {number}: {job}; it takes {job.takes_s:g} s")
        return "\n".join(lines)


def _changed(preemption: Preemption) -> list[str]:
    """List the options that do not have their default."""
    return [each.name for each in fields(preemption)
            if getattr(preemption, each.name) != getattr(_USUAL, each.name)]


def _fits(job: Submitted, gpus: Sequence[int]) -> bool:
    """Whether a job fits on idle servers with these GPUs."""
    model = job.spec(0).model
    return job.ranks <= sum(gpus) and (model is None or can_hold(model, gpus))


def draw_jobs(pick: Pick, size: int, slices: bool = False) -> ClusterCase:
    """Draw jobs on a cluster, arriving together or over time; some may need all GPUs.

    `size` is the largest number of servers and of GPUs per server, and half of the largest number
    of jobs. With `slices`, some jobs train models whose replicas consist of slices.
    """
    gpus = tuple(pick.several(1, size, lambda: pick(1, size)))
    if pick(0, 1):
        gpus = gpus[:1] * len(gpus)
    together, total = pick(0, 3) == 0, sum(gpus)

    def draw_job() -> Submitted:
        # The range is the same for all clusters: a job keeps its ranks as its cluster shrinks.
        wanted = pick(1, 2 * size + 1)
        ranks = min(wanted, total) if wanted <= 2 * size else total
        job = Submitted(ranks, 0.0 if together else _QUARTER * pick(0, 12),
                        _QUARTER * pick(1, 4), pick(1, 9), float(pick(1, 4)), pick(0, 3))
        job = replace(job, weight=1.0 + job.group)  # weights differ as groups do
        if many := pick(0, 2) if slices else 0:
            cut = replace(job, slices=many, ranks=many * max(ranks // many, 1))
            return cut if _fits(cut, gpus) else job
        return job

    jobs = pick.several(1, 2 * size, draw_job)
    return ClusterCase(gpus, tuple(sorted(jobs, key=lambda each: each.arrival_s)))


def draw_run(pick: Pick, size: int) -> ClusterCase:
    """Draw jobs on a cluster, options of preemption, and losses of up to two servers.

    All times are multiples of a quarter of a second, so that events often coincide.
    """
    case = draw_jobs(pick, size)
    options = Preemption(
        ("iterations", "fraction")[pick(0, 1)],
        on_fault=("iterations", "checkpoint")[pick(0, 1)], checkpoint_s=_QUARTER * pick(0, 3),
        restore_s=_QUARTER * pick(0, 3), state_bytes=_QUARTER * pick(0, 2) * case.cluster.nic)

    def draw_loss() -> Loss:
        at = _QUARTER * pick(1, 12)
        return Loss(pick(0, len(case.gpus) - 1), at, at + _QUARTER * pick(1, 8))

    different = {loss.server: loss for loss in pick.several(0, 2, draw_loss)}
    return replace(case, preemption=options, losses=tuple(different.values()))


@dataclass(frozen=True)
class Taken:
    """A cluster some of whose GPUs are taken, and jobs to place one after another."""

    case: ClusterCase
    taken: tuple[int, ...]  #: GPUs that other jobs hold
    load: tuple[float, ...]  #: seconds of work promised to each GPU

    def __str__(self) -> str:
        return (f"{self.case}\nGPUs {list(self.taken)} are taken, and all have been promised "
                f"{[round(each, 9) for each in self.load]} s")


def draw_taken(pick: Pick, size: int, slices: bool) -> Taken:
    """Draw a cluster some of whose GPUs are taken; see `draw_jobs`."""
    case = draw_jobs(pick, size, slices)
    total = sum(case.gpus)
    taken = tuple(gpu for gpu in range(total) if pick(0, 3) == 3) if pick(0, 1) else ()
    return Taken(case, taken, tuple(float(pick(0, 4)) for _ in range(total)))


# --- audits --------------------------------------------------------------------------------

#: Relative and absolute tolerance for rounding; different instants of an example are further apart.
_ROUNDING = 1e-9


class Asked(NamedTuple):
    """A decision of a scheduler, and its forbidden side effects."""

    now: float
    starts: tuple[tuple[int, tuple[int, ...]], ...] = ()  #: jobs with their GPUs
    preempted: tuple[int, ...] = ()
    wake_at: float = math.inf
    changed: tuple[str, ...] = ()  #: parts of the view that the scheduler changed
    #: Waiting jobs whose current keys differ from those by which they are ordered.
    out_of_line: tuple[int, ...] = ()


@dataclass(frozen=True)
class Record:
    """The record of a run to its end."""

    case: ClusterCase
    log: list[Asked]  #: all decisions, in order
    segments: list[Segment]
    #: By job: ``first_start``, ``end``, ``preemptions`` and ``restarts``, and ``held_gpu_s``,
    #: ``useful_gpu_s``, ``lost_gpu_s`` and ``overhead_gpu_s``.
    jobs: dict[str, NDArray[Any]]

    @cached_property
    def of_job(self) -> list[list[Segment]]:
        """Segments of each job, in order of time."""
        return [sorted((each for each in self.segments if each.job == job),
                       key=lambda each: each.got) for job in range(len(self.case.jobs))]

    def waiting(self, now: float) -> list[int]:
        """List the jobs that wait after all events of an instant."""
        return [number for number, job in enumerate(self.case.jobs)
                if job.arrival_s <= now < self.jobs["end"][number]
                and not any(each.got <= now < each.free for each in self.of_job[number])]

    def idle(self, now: float) -> int:
        """Count the GPUs that are free after all events of an instant."""
        case = self.case
        lost = [loss.server for loss in case.losses if loss.at <= now < loss.until]
        return case.cluster.total - sum(case.gpus[server] for server in lost) - sum(
            len(each.gpus) for each in self.segments if each.got <= now < each.free)

    def saves(self, now: float) -> bool:
        """Whether any job saves its progress after all events of an instant."""
        return any(each.stop <= now < each.free for each in self.segments)


def audit(record: Record) -> Iterator[str]:
    """Yield a description of each inconsistency in the record of a run."""
    yield from _gpus_held_twice(record)
    for number, job in enumerate(record.case.jobs):
        yield from (f"job {number} {fault}" for fault in (
            *_faults_of_segments(record, number, job), *_faults_of_accounts(record, number, job)))
    yield from _wrong_acts(record)
    yield from _wrong_instants(record)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _gpus_held_twice(record: Record) -> Iterator[str]:
    case, first = record.case, record.case.cluster.first
    for gpu in range(case.cluster.total):
        held = sorted((each.got, each.free, each.job) for each in record.segments
                      if gpu in each.gpus)
        for (_, free, job), (got, _, other) in pairwise(held):
            if got < free and not _same(got, free):
                yield f"job {other} gets GPU {gpu} at {got:g} s, which job {job} holds"
        for loss in case.losses:
            if first[loss.server] <= gpu < first[loss.server + 1]:
                for got, free, job in held:
                    if got < loss.until and free > loss.at and not _same(free, loss.at):
                        yield f"job {job} holds GPU {gpu} after its server was lost"


def _faults_of_segments(record: Record, number: int, job: Submitted) -> Iterator[str]:
    """Follow a job from segment to segment."""
    kept, since, before = 0.0, job.arrival_s, None
    for each in record.of_job[number]:
        if len(set(each.gpus.tolist())) != job.ranks:
            yield f"holds GPUs {each.gpus.tolist()}"
        if not since <= each.got <= each.run <= each.stop <= each.free or each.got == each.free:
            yield (f"waits from {since:g} s, holds GPUs from {each.got:g} to {each.free:g} s, and "
                   f"runs from {each.run:g} to {each.stop:g} s")
        due = _due_before(record, each, before) if kept > 0 else 0.0
        ran = each.stop > each.run or each.reason == "finish"
        paid = each.run - each.got
        if not _same(paid, due) and (ran or paid > due):
            yield f"pays {paid:g} s at {each.got:g} s, not {due:g} s, to go on"
        yield from _faults_of_end(record, job, each, kept)
        kept, since, before = each.kept, each.free, each
    if before is None or before.reason != "finish":
        yield "does not end"


def _due_before(record: Record, segment: Segment, before: Segment | None) -> float:
    """The seconds that moving and restoring a job take."""
    assert before is not None
    case, options = record.case, record.case.preemption
    server_of = case.cluster.server_of
    moves = np.setdiff1d(server_of[segment.gpus], server_of[before.gpus]).size > 0
    return options.restore_s + moves * options.state_bytes / case.cluster.nic


def _faults_of_end(record: Record, job: Submitted, segment: Segment, kept: float) -> Iterator[str]:
    """Check what a job has kept, and paid for it, when it gives up its GPUs."""
    options = record.case.preemption
    made = kept + (segment.stop - segment.run) / job.iteration_s
    whole = max(kept, math.floor(made + _ROUNDING))
    saved = made if options.keep == "fraction" else whole
    saving_s = segment.free - segment.stop
    if segment.reason == "finish":
        keeps, due = float(job.iterations), 0.0
        if not _same(made, keeps):
            yield f"ends with {made:g} of {job.iterations} iterations"
    elif segment.reason == "preempt":
        keeps, due = saved, options.checkpoint_s * (saved > kept and not _same(saved, kept))
    else:
        due = saving_s if saving_s < options.checkpoint_s else 0.0
        keeps = kept if options.on_fault == "checkpoint" else saved if saving_s else whole
    if segment.reason != "finish" and (_same(made, job.iterations) or made > job.iterations):
        yield f"is stopped at {segment.stop:g} s, when it has made all its iterations"
    if not _same(segment.kept, keeps):
        yield (f"keeps {segment.kept:g} iterations, not {keeps:g}, of {made:g} at "
               f"{segment.stop:g} s")
    if not _same(saving_s, due):
        yield f"pays {saving_s:g} s at {segment.stop:g} s, not {due:g} s, to save"


def _faults_of_accounts(record: Record, number: int, job: Submitted) -> Iterator[str]:
    """Compare the accounts of a job with its segments."""
    segments = record.of_job[number]
    held = job.ranks * sum(each.free - each.got for each in segments)
    ran = job.ranks * sum(each.stop - each.run for each in segments)
    useful = job.ranks * job.takes_s
    stopped = [_reason_of_stop(each) for each in segments]
    for name, value in (
            ("first_start", segments[0].got if segments else math.nan),
            ("end", segments[-1].free if segments else math.nan),
            ("preemptions", stopped.count("preempt")),
            ("restarts", sum(each.reason == "fault" for each in segments)),
            ("held_gpu_s", held), ("useful_gpu_s", useful), ("lost_gpu_s", ran - useful),
            ("overhead_gpu_s", held - ran)):
        given = record.jobs[name][number]
        if not _same(given, value):
            yield f"has {name} = {given:g}, which should be {value:g}"


def _reason_of_stop(segment: Segment) -> str | None:
    """The reason why the progress of a job stopped: its server may be lost while it saves."""
    saving = segment.reason == "fault" and segment.free > segment.stop
    return "preempt" if saving else segment.reason


def _wrong_acts(record: Record) -> Iterator[str]:
    """Compare decisions with the starts and preemptions that happened."""
    ends = {(each.job, each.stop) for each in record.segments if each.reason == "finish"}
    decided = [(each.now, *start) for each in record.log for start in each.starts]
    happened = [(each.got, each.job, tuple(each.gpus.tolist())) for each in record.segments]
    for now, job, gpus in set(decided) ^ set(happened):
        did = "starts" if (now, job, gpus) in happened else "should start"
        yield f"job {job} {did} at {now:g} s on GPUs {list(gpus)}"
    wanted = {(each.now, job) for each in record.log for job in each.preempted}
    stopped = {(each.stop, each.job) for each in record.segments
               if _reason_of_stop(each) == "preempt"}
    for now, job in wanted ^ stopped:
        if not any(job == other and _same(now, end) for other, end in ends):
            did = "is" if (now, job) in stopped else "should be"
            yield f"job {job} {did} preempted at {now:g} s"


def _wrong_instants(record: Record) -> Iterator[str]:
    """Check that there is exactly one decision at each instant with events, and no other."""
    events = np.unique([*(job.arrival_s for job in record.case.jobs),
                        *(each.free for each in record.segments
                          if each.reason == "finish" or each.free > each.stop),
                        *(at for loss in record.case.losses for at in (loss.at, loss.until))])
    before = Asked(-math.inf)
    for each in record.log:
        if each.now == before.now and before.wake_at > each.now:
            yield f"there are two decisions at {each.now:g} s"
        if each.now > before.wake_at and not _same(each.now, before.wake_at):
            yield f"nothing is decided at {before.wake_at:g} s, as was asked for"
        if not (_same(each.now, before.wake_at) or _near(events, each.now)):
            yield f"there is a decision at {each.now:g} s, when nothing happens"
        before = each
    decided = np.array([each.now for each in record.log])
    last = record.jobs["end"].max()
    for instant in events:
        if instant < last and not _same(instant, last) and not _near(decided, instant):
            yield f"nothing is decided at {instant:g} s, when something happens"


def _near(instants: Sequence[float] | Floats, now: float) -> bool:
    return bool(np.isclose(instants, now, rtol=_ROUNDING, atol=_ROUNDING).any())
