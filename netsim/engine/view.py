"""The interface of schedulers: the view that they see, the decision they return, and checks."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import brief
from netsim.base.values import is_whole
from netsim.cluster.cluster import Cluster
from netsim.cluster.context import RunContext
from netsim.cluster.ring import split_replica_error
from netsim.engine.ledger import JobAccounts
from netsim.errors import AllocationError, InputError
from netsim.placements.placement import Placement, Room
from netsim.ties import is_now
from netsim.workload import JobSpec

#: The start of a job: its index in the workload and its GPUs, in order of ranks.
Start = tuple[int, Ints]


@dataclass(frozen=True)
class Decision:
    """The jobs to start and to preempt, and the latest instant at which to ask again.

    The jobs in `preempt` are preempted first, then those in `start` are started. A job can be moved
    by a single decision that preempts it and starts it on other GPUs, if it has nothing to save or
    saves at no cost.

    Attributes
    ----------
    start : sequence of Start
        Jobs with their GPUs, which must be distinct, and free once jobs are preempted.
    preempt : sequence of int
        Jobs that hold GPUs and are not saving. Their GPUs are free at once, unless they have to
        save their progress first, which takes ``checkpoint_s`` of `netsim.engine.preemption`.
    wake_at : float
        Instant in seconds at which to ask again, at the latest; in slotted time, it is rounded up
        to the beginning of a slot. The scheduler is also asked at all arrivals and ends; those at
        this instant are processed first.
    """

    start: Sequence[Start] = ()
    preempt: Sequence[int] = ()
    wake_at: float = math.inf

    __repr__ = brief


class Saving(NamedTuple):
    """The GPUs that a job holds while it saves its progress, and when it will have saved."""

    gpus: Ints
    until: float


@dataclass(slots=True)  # made at every decision: a frozen one would take three times as long
class ClusterView:
    """The state of a cluster as a scheduler sees it; read-only, and valid during one call only.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        All jobs in order of (arrival, id). The other attributes refer to jobs by index.
    now : float
        Current time, in seconds.
    arrived, ended : sequence of int
        Jobs that have begun to wait, and jobs that have ended, since the last call. A job that lost
        a server, or that was preempted and has saved its progress, arrives again. A job that was
        preempted without having to save waits at once, and is not listed again.
    pending : collection of int
        Jobs that wait for GPUs, in no particular order.
    running : mapping of int to ndarray of int
        GPUs of each job that runs, or restores its progress.
    holding : ndarray of int
        The jobs of `running` as an array, in no particular order.
    saving : mapping of int to Saving
        GPUs of each job that saves its progress, and when it will have saved.
    free : ndarray of bool, shape (GPUs,)
        Mask of free GPUs; those of lost servers are not free.
    free_on : ndarray of int, shape (servers,)
        Number of free GPUs of each server.
    idle : int
        Number of all free GPUs.
    lost : collection of int
        Servers that are lost at present.
    load, estimates : ndarray of float, shape (GPUs,) and (jobs,)
        Seconds of work that each GPU has been promised so far, and estimated seconds of each job.
    placement : Placement
        Placement of the run.
    accounts : JobAccounts
        The iterations that jobs have made, and the time for which they have held GPUs.
    ready_on : callable
        Takes a waiting job and GPUs. Returns when the job's progress would begin if it got the GPUs
        now, in seconds; see `ready`.
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    now: float
    arrived: Sequence[int]
    ended: Sequence[int]
    pending: Mapping[int, None]
    running: Mapping[int, Ints]
    holding: Ints
    saving: Mapping[int, Saving]
    free: Bools
    free_on: Ints
    idle: int
    lost: Mapping[int, None]
    load: Floats
    estimates: Floats
    placement: Placement
    accounts: JobAccounts
    ready_on: Callable[[int, Ints], float]

    __repr__ = brief

    @property
    def waiting(self) -> tuple[int, ...]:
        """Pending jobs in order of arrival, then id."""
        return tuple(sorted(self.pending))

    def room(self) -> Room:
        """Return a copy-on-write `Room` from which several jobs can be placed one after another."""
        return self.room_on(self.free)

    def room_on(self, free: Bools) -> Room:
        """Return a `Room` of the given GPUs, such as those that a preemption would make free.

        Parameters
        ----------
        free : ndarray of bool, shape (GPUs,)
        """
        free_on = self.free_on if free is self.free else np.bincount(
            self.cluster.server_of[free], minlength=self.cluster.servers)
        return Room(self.cluster, self.jobs, self.placement, free, free_on, self.load,
                    self.estimates)

    @property
    def weight(self) -> Floats:
        """The weight of each job, `JobSpec.weight`; shape (jobs,)."""
        return self.accounts.weight

    # --- jobs: a number, or an array for an array of jobs ------------------------------

    def progress(self, jobs: Any) -> Any:
        """Return the iterations that jobs have made, with the part of the current one."""
        return self.accounts.progress(jobs)

    def remaining_s(self, jobs: Any) -> Any:
        """Return the expected seconds of the iterations that jobs have not made.

        They follow from the jobs' own estimates. For a model or a ring without an estimate, the
        shortest iteration time on the cluster is used.
        """
        return self.accounts.remaining_s(jobs)

    def ranks(self, jobs: Any) -> Any:
        """Return the numbers of GPUs that jobs need."""
        return self.accounts.ranks(jobs)

    def attained(self, jobs: Any) -> Any:
        """Return the attained service: the GPU-seconds for which jobs have held GPUs."""
        return self.ranks(jobs) * self.held_s(jobs)

    def held_s(self, jobs: Any) -> Any:
        """Return the seconds for which jobs have held GPUs, restoring and saving included."""
        return self.accounts.held_s(jobs)

    def run_s(self, jobs: Any) -> Any:
        """Return the seconds for which jobs have made progress, kept or lost."""
        return self.accounts.run_s(jobs)

    def first_start(self, jobs: Any) -> Any:
        """Return when jobs first got GPUs; NaN for those that never did."""
        return self.accounts.at("first_start", jobs)

    def got(self, jobs: Any) -> Any:
        """Return when jobs got the GPUs that they hold; NaN for those that hold none."""
        return self.accounts.at("got", jobs)

    def ready(self, jobs: Any) -> Any:
        """Return when the progress of jobs on their GPUs began, or will begin.

        In seconds; NaN for jobs without GPUs. While a job's data is sent over a network, this is
        the time at which the data should arrive, as declared by the job. While the state of a job
        moves over a network, it is inf.
        """
        return self.accounts.ready(jobs)

    def waits_since(self, jobs: Any) -> Any:
        """Return when jobs arrived or, if later, last gave up GPUs; in seconds."""
        return self.accounts.at("waits_since", jobs)

    def saves(self, job: int) -> bool:
        """Whether a job preempted now would hold its GPUs longer, to save its progress."""
        return self.accounts.saves(job)


class Scheduler(Protocol):
    """Decides which jobs start, whenever a job arrives or ends and at instants that it asks for.

    A scheduler that prepares for a run, or keeps state during a run, has the method
    ``begin(context)`` instead of ``decide``. ``begin`` returns an object with ``decide``, which is
    used for one run. If this object has ``add_job(job, context)``, jobs can be submitted during the
    run: the method is called with the number of the new job, and the numbers of later jobs grow by
    one. If the object also has ``check_open()``, this method is called first, and raises an
    `InputError` if no more jobs can be submitted. A scheduler that does not support all clusters
    and jobs declares what it needs in ``needs``. For further checks, it may have
    ``suits(context)``, which is called before a run, and raises an `InputError` if the scheduler
    does not support the run.

    Attributes
    ----------
    schedules : str, optional
        ``"jobs"``, which is the default. Schedulers of edge-clouds with other methods than
        ``decide`` and ``begin`` declare other values; see `netsim.schedulers.registry.schedules`.
    needs : collection of str, optional
        What a run must have, by names of `netsim.simulation.needs.NEEDS`, such as
        ``"equal servers"``; a run without it is refused before it begins.
    chooses_gpus : bool, optional
        Whether it chooses GPUs itself, so that no placement is used. False by default.
    placement : str or mapping, optional
        Default placement of its runs; ``"first-fit"`` if the scheduler has no such attribute.
    clairvoyant : bool, optional
        Whether the scheduler may use what is unknown in reality: the iterations that jobs will
        make, and jobs that have not arrived. False by default. If it is False,
        `netsim.testing.check_scheduler` checks that decisions do not depend on these.
    work_conserving : bool, optional
        Whether the scheduler claims to start every job that fits. False by default. If it is True,
        `netsim.testing.check_scheduler` checks the claim.
    """

    def decide(self, view: ClusterView) -> Decision | Sequence[Start]:
        """Return the jobs to start now, with GPUs that are free and distinct; see `Decision`."""


def decider_of(scheduler: Any, context: RunContext) -> Scheduler:
    """The object that decides in a run: what `begin` returns, or the scheduler itself."""
    decider: Scheduler = scheduler.begin(context) if hasattr(scheduler, "begin") else scheduler
    return decider


def check_open(scheduler: Any, decider: Any) -> None:
    """Check that more jobs can be submitted, in a run in which `decider` decides."""
    if hasattr(scheduler, "begin") and not hasattr(decider, "add_job"):
        raise InputError(f"scheduler {type(scheduler).__name__} learns of all jobs when the run "
                         "begins, and has no add_job")
    if hasattr(decider, "check_open"):
        decider.check_open()


# --- checks of decisions -------------------------------------------------------------------

#: Parts of the messages of errors that writing to arrays and mappings of a view raises.
_READ_ONLY = ("read-only", "'mappingproxy' object")


class Checked(NamedTuple):
    """A decision of a scheduler whose form has been checked."""

    start: list[Start]
    preempt: list[int]
    wake_at: float


def ask(name: str, scheduler: Scheduler, view: ClusterView) -> Any:
    """Ask a scheduler for a decision; an attempt to change the view raises AllocationError."""
    try:
        return scheduler.decide(view)
    except (AttributeError, TypeError, ValueError) as error:
        if not any(each in str(error) for each in _READ_ONLY):
            raise
        raise AllocationError(
            f"scheduler {name} tries to change what is read-only, as all of the view is, at "
            f"{view.now:g} s: {error}; change a copy, such as view.free.copy()") from error


def check_form(name: str, answer: Decision | Sequence[Start], now: float) -> Checked:
    """Check the form of a scheduler's answer, and convert its GPUs to arrays."""
    decision = answer if isinstance(answer, Decision) else Decision(answer)
    start: list[Start] = []
    sound = True
    try:
        for job, given in decision.start:
            gpus = np.asarray(given, None if len(given) else np.int64)
            sound = sound and is_whole(job) and gpus.ndim == 1 and gpus.dtype.kind in "iu"
            start.append((job, gpus))
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise AllocationError(f"scheduler {name} must return pairs (job, array of GPUs), or a "
                              f"Decision of them, not {reprlib.repr(decision.start)}")
    try:
        preempt = list(decision.preempt)
        sound = all(map(is_whole, preempt))
    except TypeError:
        sound = False
    if not sound:
        raise AllocationError(f"scheduler {name}: preempt must be a sequence of jobs, by index, "
                              f"not {reprlib.repr(decision.preempt)}")
    preempt = list(map(int, preempt))
    if preempt and len(set(preempt)) < len(preempt):
        twice = next(job for k, job in enumerate(preempt) if job in preempt[:k])
        raise AllocationError(f"scheduler {name} preempts the job with index {twice} twice in one "
                              "decision")
    return Checked(start, preempt, _wake_at(name, decision.wake_at, now, bool(start or preempt)))


def _wake_at(name: str, given: Any, now: float, acts: bool) -> float:
    """Check the time at which a scheduler asks to be woken.

    With `acts`, the decision changes something, so another decision may follow at the same time.
    """
    if type(given) is not float and not _is_number(given):
        raise AllocationError(f"scheduler {name} asks to be woken at {reprlib.repr(given)}; "
                              "wake_at must be an instant as a number of seconds, or inf for none")
    if not (given > now or (acts and given == now)):
        raise AllocationError(f"scheduler {name} asks to be woken at {given!r} s, which is not "
                              f"after {now!r} s; wake_at must be later, or inf for no instant")
    return float(given)


def _is_number(given: Any) -> bool:
    """Whether a value is a number of Python or NumPy; booleans are not."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        return False
    return array.ndim == 0 and array.dtype.kind in "iuf"


def check_preemption(name: str, job: int, jobs: Sequence[JobSpec], running: Mapping[int, Ints],
                     saving: Mapping[int, Saving], got: Floats, now: float) -> None:
    """Check that a job can be preempted now; `got` has the time at which each got its GPUs."""
    known = 0 <= job < len(jobs)
    what = f"scheduler {name} preempts " + (f"job {jobs[job].id}" if known
                                            else f"the job with index {job}")
    if job in saving:
        raise AllocationError(f"{what}, which saves its progress already, until "
                              f"{saving[job].until:g} s")
    if job not in running:
        raise AllocationError(f"{what}, which holds no GPUs")
    if is_now(got[job], now):
        raise AllocationError(f"{what}, which has been started at this very instant, {now:g} s")


def check_moved(name: str, job: int, gpus: Ints, jobs: Sequence[JobSpec],
                held: Mapping[int, Ints | None], saving: Mapping[int, Saving]) -> None:
    """Check that a job preempted in the same decision may start on the given GPUs.

    `held` has the GPUs that the preempted jobs had.
    """
    before = held.get(job)
    if before is None:
        return
    if job in saving:
        raise AllocationError(f"scheduler {name} moves job {jobs[job].id}, which has to save its "
                              f"progress first, until {saving[job].until:g} s")
    if set(before.tolist()) == set(gpus.tolist()):
        raise AllocationError(f"scheduler {name} moves job {jobs[job].id} to the GPUs that it had: "
                              f"{gpus.tolist()}")


def check_start(name: str, job: int, gpus: Ints, jobs: Sequence[JobSpec], cluster: Cluster,
                pending: Collection[int], saving: Mapping[int, Saving], free: Bools, lost: bool,
                sizes_of: Callable[[int], Sequence[int]]) -> None:
    """Check that a job waits, and that it can start on the given GPUs.

    `sizes_of` lists the numbers of GPUs with which a job can run, in ascending order.
    """
    if job not in pending:
        known = f", job {jobs[job].id}," if 0 <= job < len(jobs) else ","
        saves = (f"; it saves its progress until {saving[job].until:g} s" if job in saving else "")
        raise AllocationError(f"scheduler {name} starts the job with index {job}{known} which is "
                              f"not waiting{saves}")
    spec, listed, sizes = jobs[job], gpus.tolist(), sizes_of(job)
    if len(listed) not in sizes or len(set(listed)) != len(listed):
        wanted = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else sizes[0]
        raise AllocationError(f"scheduler {name} gives job {spec.id} the GPUs "
                              f"{listed}; it needs {wanted}")
    if listed and (min(listed) < 0 or max(listed) >= len(free)):
        raise AllocationError(f"scheduler {name} gives job {spec.id} the GPUs {listed}; there "
                              f"are {len(free)}, numbered from 0")
    if not free[gpus].all():
        taken = gpus[~free[gpus]].tolist()
        more = ", or of lost servers" if lost else ""
        raise AllocationError(f"scheduler {name} gives job {spec.id} GPUs that are taken"
                              f"{more}: {taken}{_who_saves(taken, jobs, saving)}")
    if fault := split_replica_error(spec.model, cluster.server_of[gpus]):
        raise AllocationError(f"scheduler {name}, for job {spec.id}: {fault}")


def _who_saves(taken: Sequence[int], jobs: Sequence[JobSpec], saving: Mapping[int, Saving]) -> str:
    """Describe, for a message, the jobs that still save their progress on some GPUs."""
    held = {job: sorted({*taken}.intersection(each.gpus.tolist())) for job, each in saving.items()}
    return "".join(f"; job {jobs[job].id} saves its progress on {gpus} until "
                   f"{saving[job].until:g} s" for job, gpus in held.items() if gpus)
