"""Check that a scheduler of jobs on a cluster keeps the promises that runs rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from netsim.engine.timed import run_timed
from netsim.engine.view import ClusterView, Decision, Scheduler, decider_of
from netsim.errors import AllocationError, InputError, StalledError
from netsim.placements.registry import make_placement
from netsim.plugins import labelled
from netsim.schedulers.registry import SCHEDULERS, make_scheduler
from netsim.simulation.compatibility import check_policy
from netsim.testing.cluster_cases import ClusterCase, draw_jobs
from netsim.testing.hunt import BrokenPromise, hunt, noted

__all__ = ["check_scheduler"]

_LARGEST = 4
#: Successive calls, with no job running or still to arrive, after which a scheduler is stuck.
_IN_VAIN = 1000
#: Calls in one run after which a scheduler is taken to ask to be woken forever.
_ASKED = 50_000

#: Repeated runs before a difference is blamed on the example: a scheduler that is not deterministic
#: may have agreed with itself by chance.
_RUNS = 4

_UNSTEADY = "is not deterministic"
_WAITS = "leaves jobs waiting forever"

#: The start of a job: the instant, the job and its GPUs.
_Start = tuple[float, int, tuple[int, ...]]


def check_scheduler(scheduler: Any, *, placement: Any = None, examples: int = 60, seed: int = 0
                    ) -> None:
    """Check on random jobs that a scheduler keeps its promises.

    It must start each job once, on as many free GPUs as the job needs, so that every job ends. It
    must not change the view. Its decisions must be the same in each run with the same seed and,
    unless it declares ``clairvoyant = True``, must not depend on the number of iterations that a
    job has not made yet or on jobs that have not arrived.

    If it claims to be ``work_conserving``, no job may be left waiting that would fit after its
    decision. The running times of jobs are part of the example and independent of their iterations
    and estimates. Examples that the scheduler refuses, by its ``needs``, ``suits`` or ``begin``,
    are skipped.

    Parameters
    ----------
    scheduler : str, mapping, object or class
        As for `netsim.simulate`. A fresh instance is made for each run.
    placement : str, mapping, Placement or class, optional
        Placement for schedulers that do not choose GPUs themselves. By default that of runs.
    examples : int
        Number of random examples. They grow from two jobs on one server to eight jobs on four.
    seed : int
        Seed of the examples.

    Raises
    ------
    AssertionError
        If a promise is broken, or all examples are refused. The message names the scheduler and
        the promise, with the smallest example found that shows it. Exceptions of the scheduler
        itself propagate, with a note of the example.

    Examples
    --------
    >>> from netsim.testing import check_scheduler
    >>> check_scheduler("fifo", placement="random", examples=5)
    """
    rng = np.random.default_rng(seed)
    refusals: list[InputError] = []

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high, endpoint=True))

    def trials() -> Iterator[_Trial]:
        for example in range(examples):
            case = draw_jobs(pick, 1 + _LARGEST * example // examples)
            trial = _Trial(scheduler, placement, case, seed + example)
            if (refusal := trial.refusal) is None:
                yield trial
            else:
                refusals.append(refusal)

    hunt(trials(), _PROMISES)
    if len(refusals) == examples:
        raise AssertionError(f"{_describe(scheduler)} refuses all of {examples} examples, the last "
                             f"with: {refusals[-1]}")


def _describe(scheduler: Any) -> str:
    """Return the scheduler with its options, as messages name it."""
    return f"scheduler {labelled(SCHEDULERS.to_dict(make_scheduler(scheduler)))}"


class _Asked(NamedTuple):
    """A decision: instant, starts, jobs that were left out though they fit, changes of the view."""

    now: float
    starts: tuple[tuple[int, tuple[int, ...]], ...]
    left_out: tuple[int, ...]
    changed: tuple[str, ...]


class _Watched:
    """A scheduler in a run, with a log of its decisions."""

    def __init__(self, scheduler: Scheduler, case: ClusterCase) -> None:
        self._scheduler, self._case = scheduler, case
        self._last = max(job.arrival_s for job in case.jobs)
        self._in_vain = 0
        self.log: list[_Asked] = []

    def decide(self, view: ClusterView) -> Decision | Sequence[Any]:
        waits = view.pending and not view.running and view.now > self._last
        self._in_vain = self._in_vain + 1 if waits else 0
        if self._in_vain > _IN_VAIN:
            raise _EndlessCalls(_WAITS, f"it has been asked {_IN_VAIN:,} times in a row, last at "
                                        f"{view.now:g} s, and {len(view.pending)} jobs still wait")
        if len(self.log) == _ASKED:
            raise _EndlessCalls("asks to be woken forever", f"it has been asked {_ASKED:,} times, "
                                                            f"last at {view.now:g} s")
        before = _snapshot(view)
        with noted(f"on the example\n{self._case}"):
            answer = self._scheduler.decide(view)
        after = _snapshot(view)
        decision = answer if isinstance(answer, Decision) else Decision(answer)
        try:
            starts = tuple((job, tuple(np.asarray(gpus).tolist())) for job, gpus in decision.starts)
        except (TypeError, ValueError):
            return answer  # the engine refuses it
        idle = view.idle - sum(len(gpus) for _, gpus in starts)
        left_out = tuple(job for job in view.pending if view.jobs[job].ranks <= idle
                         and job not in dict(starts))
        changed = tuple(name for name in before if before[name] != after[name])
        self.log.append(_Asked(view.now, starts, left_out, changed))
        return decision


class _EndlessCalls(Exception):
    """A scheduler asks to be woken again and again; `promise` is the one that it breaks."""

    def __init__(self, promise: str, fault: str) -> None:
        super().__init__(fault)
        self.promise = promise


def _snapshot(view: ClusterView) -> dict[str, Any]:
    """Return all parts of a view that a scheduler must not change."""
    arrays = {name: getattr(view, name).tobytes()
              for name in ("free", "free_on", "load", "estimates")}
    return arrays | {
        "cluster": (view.cluster.gpus.tobytes(), view.cluster.first.tobytes()),
        "jobs": tuple(view.jobs), "arrived": tuple(view.arrived), "ended": tuple(view.ended),
        "pending": tuple(view.pending),
        "running": {job: gpus.tobytes() for job, gpus in view.running.items()},
        "idle": view.idle}


class _Run(NamedTuple):
    """The decisions of a scheduler in a run, and the ends of the jobs."""

    log: list[_Asked]
    end_s: list[float]


@dataclass(frozen=True)
class _Trial:
    """A scheduler under test on an example."""

    scheduler: Any
    placement: Any
    case: ClusterCase
    seed: int

    @property
    def subject(self) -> str:
        return _describe(self.scheduler)

    @property
    def example(self) -> str:
        return f"on the example\n{self.case}"

    def smaller(self) -> Iterator[_Trial]:
        for case in self.case.smaller():
            trial = replace(self, case=case)
            if trial.refusal is None:
                yield trial

    @cached_property
    def instance(self) -> Any:
        """An instance to read declarations from."""
        return make_scheduler(self.scheduler)

    @cached_property
    def refusal(self) -> InputError | None:
        """The error with which scheduler or placement refuses the example; None if neither does."""
        context = self.case.context(self.seed)
        try:
            check_policy("scheduler", self.instance, context)
            check_policy("placement", self._placed(), context)
            decider_of(make_scheduler(self.scheduler), context)
        except InputError as error:
            return error
        return None

    def _placed(self) -> Any:
        """Return the placement of the run."""
        usual = getattr(self.instance, "placement", "first-fit")
        return make_placement(usual if self.placement is None else self.placement, self.seed)

    @cached_property
    def run(self) -> _Run:
        """The run on the example."""
        return self.run_on(self.case)

    def run_on(self, case: ClusterCase) -> _Run:
        """Run the scheduler on another example.

        Raises
        ------
        BrokenPromise
            If not all jobs end.
        """
        context = case.context(self.seed)
        watched = _Watched(decider_of(make_scheduler(self.scheduler), context), case)
        trial = replace(self, case=case)
        try:
            engine = run_timed(context, watched, self._placed(),
                               [job.takes_s for job in case.jobs], type(self.instance).__name__)
        except AllocationError as error:
            raise BrokenPromise(trial, "breaks a rule", str(error)) from None
        except StalledError as error:
            raise BrokenPromise(trial, _WAITS, str(error)) from None
        except _EndlessCalls as error:
            raise BrokenPromise(trial, error.promise, str(error)) from None
        return _Run(watched.log, engine.end_s.tolist())

    def difference(self, case: ClusterCase, until: float, what: str) -> str | None:
        """Describe the first start before an instant that differs on another example, if one does.

        Raises
        ------
        BrokenPromise
            If two runs on this example differ too.
        """
        here, there = (_starts(run, until) for run in (self.run, self.run_on(case)))
        fault = _first_difference(here, there)
        if fault is None:
            return None
        for _ in range(_RUNS):
            again = _first_difference(here, _starts(self.run_on(self.case), until))
            if again is not None:
                raise BrokenPromise(self, _UNSTEADY, f"{again}, in another run")
        return f"{fault}, {what}"


def _starts(run: _Run, until: float) -> list[_Start]:
    """Return the starts of jobs before an instant."""
    return [(each.now, *start) for each in run.log for start in each.starts if each.now < until]


def _first_difference(here: Sequence[_Start], there: Sequence[_Start]) -> str | None:
    """Describe the first start in which two runs differ, if they do."""
    return next((f"{_in_words(other)}, not {_in_words(one)}"
                 for one, other in zip_longest(here, there) if one != other), None)


def _in_words(start: _Start | None) -> str:
    if start is None:
        return "no job starts"
    now, job, gpus = start
    return f"job {job} starts at {now:g} s on GPUs {list(gpus)}"


def _changes_the_view(trial: _Trial) -> str | None:
    changed = dict.fromkeys(name for each in trial.run.log for name in each.changed)
    return f"{', '.join(changed)} changed" if changed else None


def _is_not_deterministic(trial: _Trial) -> str | None:
    fault = _first_difference(*(_starts(run, np.inf)
                                for run in (trial.run, trial.run_on(trial.case))))
    return None if fault is None else f"{fault}, in another run"


def _peeks_at_iterations(trial: _Trial) -> str | None:
    if getattr(trial.instance, "clairvoyant", False):
        return None
    for place, job in enumerate(trial.case.jobs):
        other = trial.case.with_job(place, iterations=1 if job.iterations > 1 else 9)
        fault = trial.difference(other, trial.run.end_s[place],
                                 f"if job {place} makes {other.jobs[place].iterations} iterations "
                                 f"in the same time")
        if fault:
            return fault
    return None


def _peeks_ahead(trial: _Trial) -> str | None:
    if getattr(trial.instance, "clairvoyant", False):
        return None
    last = trial.case.jobs[-1].arrival_s
    known = tuple(job for job in trial.case.jobs if job.arrival_s < last)
    if not known:
        return None
    return trial.difference(replace(trial.case, jobs=known), last,
                            f"if no job arrives at {last:g} s")


def _is_not_work_conserving(trial: _Trial) -> str | None:
    if not getattr(trial.instance, "work_conserving", False):
        return None
    for each in trial.run.log:
        if each.left_out:
            return f"at {each.now:g} s job {each.left_out[0]} fits but does not start"
    return None


_PROMISES: dict[str, Callable[[_Trial], str | None]] = {
    "changes the view": _changes_the_view,
    _UNSTEADY: _is_not_deterministic,
    "depends on iterations that a job has not made yet (declare clairvoyant = True if that is "
    "intended)": _peeks_at_iterations,
    "depends on jobs that have not arrived (declare clairvoyant = True if that is intended)":
    _peeks_ahead,
    "is not work-conserving, as it claims": _is_not_work_conserving,
}
