"""Checks of the decisions of schedulers."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.checks import is_whole
from netsim.cluster.cluster import Cluster
from netsim.cluster.slices import split_replica_error
from netsim.engine.view import ClusterView, Decision, Saving, Scheduler, Start
from netsim.errors import AllocationError
from netsim.ties import is_now
from netsim.workload import JobSpec

Ints = NDArray[np.int64]

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
                     saving: Mapping[int, Saving], got: NDArray[np.float64], now: float) -> None:
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
                pending: Collection[int], saving: Mapping[int, Saving],
                free: NDArray[np.bool_], lost: bool, sizes_of: Callable[[int], Sequence[int]]
                ) -> None:
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
