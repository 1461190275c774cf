"""Does a scheduler of jobs on a cluster keep the promises that runs rely on?"""

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
#: Wakes in a row, with no job running or to come, after which a scheduler is taken to be stuck.
_IN_VAIN = 1000
#: Wakes in one run after which a scheduler is taken to ask for ever.
_ASKED = 50_000

#: Before an example is blamed: what throws dice may have been lucky before.
_RUNS = 4

_WAVERS = "is not deterministic"
_WAITS = "leaves jobs waiting for ever"

#: When a job starts, which, and on which GPUs.
_Start = tuple[float, int, tuple[int, ...]]


def check_scheduler(scheduler: Any, *, placement: Any = None, examples: int = 60, seed: int = 0
                    ) -> None:
    """Check on random jobs that a scheduler keeps its promises.

    It must start each job once, on as many GPUs as that needs, all of them free, so that every job
    that fits into the cluster ends; leave the view as it is; and decide alike

    - if it is asked in another run: fresh instances, the same seed;
    - unless it declares ``clairvoyant = True``, however many iterations a job has yet to make, and
      whichever jobs are yet to come.

    If it claims to be ``work_conserving``, whoever fits has started when it has decided. Jobs take
    what is written down for them, whatever else they say. Examples that it refuses, by its
    ``needs``, ``suits`` or ``begin``, are passed over.

    Parameters
    ----------
    scheduler : str, mapping, object or class
        As for `netsim.simulate`. Each run gets a fresh instance.
    placement : str, mapping, Placement or class, optional
        For schedulers that leave it to that; the one that runs have if they say none.
    examples : int
        How many; they grow from two jobs on a server to eight on four.
    seed : int

    Raises
    ------
    AssertionError
        Names the scheduler and the broken promise, with the smallest example found that shows it;
        or says that it refuses all examples. What it raises itself passes through, with a note of
        the example.

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
        raise AssertionError(f"{_who(scheduler)} refuses all of {examples} examples, the last one "
                             f"so: {refusals[-1]}")


def _who(scheduler: Any) -> str:
    return f"scheduler {labelled(SCHEDULERS.to_dict(make_scheduler(scheduler)))}"


class _Asked(NamedTuple):
    """A decision: when, who starts, who fits and does not, and what it changed in the view."""

    now: float
    starts: tuple[tuple[int, tuple[int, ...]], ...]
    left_out: tuple[int, ...]
    changed: tuple[str, ...]


class _Watched:
    """A scheduler in a run, with a log of what it has decided."""

    def __init__(self, scheduler: Scheduler, case: ClusterCase) -> None:
        self._scheduler, self._case = scheduler, case
        self._last = max(job.arrival_s for job in case.jobs)
        self._in_vain = 0
        self.log: list[_Asked] = []

    def decide(self, view: ClusterView) -> Decision | Sequence[Any]:
        waits = view.pending and not view.running and view.now > self._last
        self._in_vain = self._in_vain + 1 if waits else 0
        if self._in_vain > _IN_VAIN:
            raise _AsksOn(_WAITS, f"it has been asked {_IN_VAIN:,} times in a row, at last at "
                                  f"{view.now:g} s, and {len(view.pending)} jobs still wait")
        if len(self.log) == _ASKED:
            raise _AsksOn("asks to be woken without end", f"it has been asked {_ASKED:,} times, at "
                                                          f"last at {view.now:g} s")
        before = _snapshot(view)
        with noted(f"on the example\n{self._case}"):
            answer = self._scheduler.decide(view)
        after = _snapshot(view)
        decision = answer if isinstance(answer, Decision) else Decision(answer)
        try:
            starts = tuple((job, tuple(np.asarray(gpus).tolist())) for job, gpus in decision.starts)
        except (TypeError, ValueError):
            return answer  # which the engine refuses
        idle = view.idle - sum(len(gpus) for _, gpus in starts)
        left_out = tuple(job for job in view.pending if view.jobs[job].ranks <= idle
                         and job not in dict(starts))
        changed = tuple(name for name in before if before[name] != after[name])
        self.log.append(_Asked(view.now, starts, left_out, changed))
        return decision


class _AsksOn(Exception):
    """Somebody asks to be woken again and again: the promise that breaks, and how."""

    def __init__(self, promise: str, fault: str) -> None:
        super().__init__(fault)
        self.promise = promise


def _snapshot(view: ClusterView) -> dict[str, Any]:
    """Return all that a scheduler must leave as it is."""
    arrays = {name: getattr(view, name).tobytes()
              for name in ("free", "free_on", "load", "estimates")}
    return arrays | {
        "cluster": (view.cluster.gpus.tobytes(), view.cluster.first.tobytes()),
        "jobs": tuple(view.jobs), "arrived": tuple(view.arrived), "ended": tuple(view.ended),
        "pending": tuple(view.pending),
        "running": {job: gpus.tobytes() for job, gpus in view.running.items()},
        "idle": view.idle}


class _Run(NamedTuple):
    """What a scheduler has decided, and when jobs ended."""

    log: list[_Asked]
    end_s: list[float]


@dataclass(frozen=True)
class _Trial:
    """A scheduler to be tried on an example."""

    scheduler: Any
    placement: Any
    case: ClusterCase
    seed: int

    @property
    def who(self) -> str:
        return _who(self.scheduler)

    @property
    def where(self) -> str:
        return f"on the example\n{self.case}"

    def smaller(self) -> Iterator[_Trial]:
        for case in self.case.smaller():
            trial = replace(self, case=case)
            if trial.refusal is None:
                yield trial

    @cached_property
    def instance(self) -> Any:
        """One to read the declarations of."""
        return make_scheduler(self.scheduler)

    @cached_property
    def refusal(self) -> InputError | None:
        """Why the scheduler, or its placement, is not for this example; None if it is."""
        context = self.case.context(self.seed)
        try:
            check_policy("scheduler", self.instance, context)
            check_policy("placement", self._placed(), context)
            decider_of(make_scheduler(self.scheduler), context)
        except InputError as error:
            return error
        return None

    def _placed(self) -> Any:
        usual = getattr(self.instance, "placement", "first-fit")
        return make_placement(usual if self.placement is None else self.placement, self.seed)

    @cached_property
    def run(self) -> _Run:
        """What comes of it."""
        return self.run_on(self.case)

    def run_on(self, case: ClusterCase) -> _Run:
        """Return what comes of another example.

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
        except _AsksOn as error:
            raise BrokenPromise(trial, error.promise, str(error)) from None
        return _Run(watched.log, engine.end_s.tolist())

    def difference(self, case: ClusterCase, until: float, what: str) -> str | None:
        """Say which job starts otherwise on another example before an instant, if one does.

        Raises
        ------
        BrokenPromise
            If it does so on this example, too.
        """
        here, there = (_starts(run, until) for run in (self.run, self.run_on(case)))
        fault = _apart(here, there)
        if fault is None:
            return None
        for _ in range(_RUNS):
            again = _apart(here, _starts(self.run_on(self.case), until))
            if again is not None:
                raise BrokenPromise(self, _WAVERS, f"{again}, in another run")
        return f"{fault}, {what}"


def _starts(run: _Run, until: float) -> list[_Start]:
    """Return when which jobs start before an instant, and on which GPUs."""
    return [(each.now, *start) for each in run.log for start in each.starts if each.now < until]


def _apart(here: Sequence[_Start], there: Sequence[_Start]) -> str | None:
    """Say where two runs differ."""
    return next((f"{_said(other)}, and not {_said(one)}"
                 for one, other in zip_longest(here, there) if one != other), None)


def _said(start: _Start | None) -> str:
    if start is None:
        return "nobody starts"
    now, job, gpus = start
    return f"job {job} starts at {now:g} s on GPUs {list(gpus)}"


def _changes_the_view(trial: _Trial) -> str | None:
    changed = dict.fromkeys(name for each in trial.run.log for name in each.changed)
    return f"{', '.join(changed)} changed" if changed else None


def _wavers(trial: _Trial) -> str | None:
    fault = _apart(*(_starts(run, np.inf) for run in (trial.run, trial.run_on(trial.case))))
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
                            f"if nobody is to come at {last:g} s")


def _wastes(trial: _Trial) -> str | None:
    if not getattr(trial.instance, "work_conserving", False):
        return None
    for each in trial.run.log:
        if each.left_out:
            return f"at {each.now:g} s job {each.left_out[0]} fits, and does not start"
    return None


_PROMISES: dict[str, Callable[[_Trial], str | None]] = {
    "changes the view": _changes_the_view,
    _WAVERS: _wavers,
    "depends on iterations that a job has yet to make (declare clairvoyant = True if it is to)":
    _peeks_at_iterations,
    "depends on jobs that are yet to come (declare clairvoyant = True if it is to)": _peeks_ahead,
    "is not work-conserving, as it claims": _wastes,
}
