"""Check that a scheduler of jobs on a cluster keeps the promises that runs rely on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np

from netsim.base.plugins import labelled
from netsim.base.values import known_names
from netsim.engine.engine import run_to_end, timed_engine
from netsim.engine.view import ClusterView, Decision, Scheduler, decider_of
from netsim.errors import AllocationError, InputError, StalledError
from netsim.placements.registry import make_placement
from netsim.schedulers.in_order import InOrderRun
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler
from netsim.simulation.compatibility import check_policy
from netsim.simulation.events import changes_of
from netsim.simulation.faults import Faults, JobsOnServers
from netsim.testing.cluster_cases import Asked, ClusterCase, Record, audit, draw_run
from netsim.testing.trial import BrokenPromise, Pick, Promise, Trial, check_drawn, chosen, noted

#: The most servers and GPUs per server, and the largest seed of a run.
_LARGEST, _SEEDS = 4, 99
#: Iterations that a job makes more, to see whether a scheduler knows of them.
_MORE = 8
#: Successive calls, with no job running or still to arrive, after which a scheduler is stuck.
_IN_VAIN = 1000
#: Preemptions of a job in a row that keep nothing, after which they are taken to go on forever.
_PREEMPTED = 50
#: Calls in one run after which a scheduler is taken to ask to be woken forever.
_ASKED = 50_000

#: Repeated runs before a difference is blamed on the example: a scheduler that is not deterministic
#: may have agreed with itself by chance.
_RUNS = 10

_UNSTEADY = "is not deterministic"
_WAITS = "leaves jobs waiting forever"
_RULE = "breaks a rule"

#: Relative difference up to which ends count as equal: on another example they may be rounded.
_ROUNDING = 1e-9

#: A start or preemption: the instant, the job, and its GPUs or None.
_Act = tuple[float, int, tuple[int, ...] | None]


@known_names
def check_scheduler(scheduler: Any, *, placement: Any = None,
                    promises: Iterable[str] | None = None, examples: int = 60, seed: int = 0
                    ) -> None:
    """Check on random jobs that a scheduler keeps its promises.

    Every decision must be legal: a job must start on as many free GPUs as it needs, and a preempted
    job must hold GPUs and not have been started at the same instant. GPUs of a job that saves its
    progress are not free. Every job must end. The scheduler must not change the view. Its
    decisions must be the same in each run with the same seed and, unless it declares
    ``clairvoyant = True``, must not depend on the number of iterations that a job has not made yet
    or on jobs that have not arrived.

    If it claims to be ``work_conserving``, its decision must leave no job waiting that would still
    fit, unless another job saves its progress. This is checked with placements that take any free
    GPUs. Examples include preemption with its costs, the loss of servers, and iteration times
    that are independent of estimates. Examples that the scheduler refuses, by its ``needs``,
    ``suits`` or ``begin``, are skipped.

    If the scheduler derives from `netsim.schedulers.in_order.InOrder`, the keys of waiting jobs
    must not change, unless the method ``see`` of the order returns these jobs.

    Each run is audited, too: no GPU is held twice, progress that was kept is not lost, costs are
    paid where they are due, and what jobs held adds up.

    Parameters
    ----------
    scheduler : str, mapping, object or class
        As for `netsim.simulate`. A fresh instance is made for each run.
    placement : str, mapping, Placement or class, optional
        Placement for schedulers that do not choose GPUs themselves. By default the one that runs
        use by default.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    examples : int
        Number of random examples, from a job on one server to eight jobs on four.
    seed : int
        Seed of the examples.

    Raises
    ------
    AssertionError
        If a promise is broken, or all examples are refused. The message names the scheduler and
        the promise, with the smallest example found that shows it. Exceptions of the scheduler
        itself propagate, with a note of the example.
    MissingExtraError
        If hypothesis is not installed.

    Examples
    --------
    >>> from netsim.testing import check_scheduler
    >>> check_scheduler("fifo", placement="random", examples=5)
    """
    def draw(pick: Pick) -> _Trial:
        seed = pick(0, _SEEDS)
        return _Trial(scheduler, placement, draw_run(pick, _LARGEST), seed)

    check_drawn(draw, chosen(PROMISES, promises), examples, seed)


class _Watched:
    """A scheduler in a run, with a log of its decisions."""

    def __init__(self, scheduler: Scheduler, case: ClusterCase) -> None:
        self._scheduler, self._case = scheduler, case
        self._last = max([job.arrival_s for job in case.jobs] + [
            loss.until for loss in case.losses])
        self._in_vain = 0
        self.log: list[Asked] = []

    def decide(self, view: ClusterView) -> Decision | Sequence[Any]:
        self._count_calls(view)
        before = _snapshot(view)
        with noted(f"on the example\n{self._case}"):
            answer = self._scheduler.decide(view)
        after = _snapshot(view)
        decision = answer if isinstance(answer, Decision) else Decision(answer)
        try:
            starts = tuple((job, tuple(np.asarray(gpus).tolist())) for job, gpus in decision.start)
            preempted = tuple(decision.preempt)
        except (TypeError, ValueError):
            return answer  # the engine refuses it
        changed = tuple(name for name in before if before[name] != after[name])
        self.log.append(Asked(view.now, starts, preempted, decision.wake_at, changed,
                              self._out_of_line(view)))
        return decision

    def _out_of_line(self, view: ClusterView) -> tuple[int, ...]:
        """List the waiting jobs whose current keys differ from those in the order."""
        with noted(f"on the example\n{self._case}"):
            return tuple(self._scheduler.out_of_line(view)
                         if isinstance(self._scheduler, InOrderRun) else ())

    def _count_calls(self, view: ClusterView) -> None:
        """Stop a scheduler that asks to be woken without end."""
        for job in np.flatnonzero(view.accounts.at("in_vain", np.arange(len(view.jobs)))
                                  >= _PREEMPTED):
            raise _EndlessCalls(_WAITS, f"job {job} has been preempted {_PREEMPTED} times in a row "
                                        f"and kept nothing, last before {view.now:g} s")
        waits = (view.pending and not view.running and not view.saving
                 and view.now > self._last)
        self._in_vain = self._in_vain + 1 if waits else 0
        if self._in_vain > _IN_VAIN:
            raise _EndlessCalls(_WAITS, f"it has been asked {_IN_VAIN:,} times in a row, last at "
                                        f"{view.now:g} s, and {len(view.pending)} jobs still wait")
        if len(self.log) == _ASKED:
            raise _EndlessCalls("asks to be woken forever", f"it has been asked {_ASKED:,} times, "
                                                            f"last at {view.now:g} s")


class _EndlessCalls(Exception):
    """A scheduler asks to be woken again and again; `promise` is the one that it breaks."""

    def __init__(self, promise: str, fault: str) -> None:
        super().__init__(fault)
        self.promise = promise


def _snapshot(view: ClusterView) -> dict[str, Any]:
    """All parts of a view that a scheduler must not change."""
    jobs = np.arange(len(view.jobs))
    arrays = {name: getattr(view, name).tobytes()
              for name in ("free", "free_on", "load", "estimates", "holding")}
    accounts = {name: getattr(view, name)(jobs).tobytes()
                for name in ("progress", "held_s", "run_s", "first_start", "got", "ready",
                             "waits_since")}
    return arrays | accounts | {
        "cluster": (view.cluster.gpus.tobytes(), view.cluster.first.tobytes()),
        "jobs": tuple(view.jobs), "arrived": tuple(view.arrived), "ended": tuple(view.ended),
        "pending": tuple(view.pending),
        "running": {job: gpus.tobytes() for job, gpus in view.running.items()},
        "saving": {job: (each.gpus.tobytes(), each.until) for job, each in view.saving.items()},
        "lost": tuple(view.lost), "idle": view.idle}


@dataclass(frozen=True)
class _Trial(Trial):
    """A scheduler under test on an example."""

    scheduler: Any
    placement: Any
    case: ClusterCase
    seed: int

    @property
    def subject(self) -> str:
        return f"scheduler {labelled(SCHEDULERS.to_dict(make_scheduler(self.scheduler)))}"

    @property
    def example(self) -> str:
        return f"on the example\n{self.case}"

    @cached_property
    def instance(self) -> Any:
        """An instance to read declarations from."""
        return make_scheduler(self.scheduler)

    @cached_property
    def refusal(self) -> InputError | None:
        """The error with which scheduler or placement refuses the example; None if neither does."""
        context = self.case.context(self.seed)
        try:
            changes = changes_of(self.case.events, self.case.cluster)
            check_policy("scheduler", self.instance, context, changes)
            check_policy("placement", self.placed, context, changes)
            decider_of(make_scheduler(self.scheduler), context)
        except InputError as error:
            return error
        return None

    @property
    def placed(self) -> Any:
        """A placement for a run."""
        usual = getattr(self.instance, "placement", "first-fit")
        return make_placement(usual if self.placement is None else self.placement, self.seed)

    @cached_property
    def run(self) -> Record:
        """The run on the example."""
        return self.run_on(self.case)

    def run_on(self, case: ClusterCase) -> Record:
        """Run the scheduler on another example; BrokenPromise is raised if not all jobs end."""
        context = case.context(self.seed)
        watched = _Watched(decider_of(make_scheduler(self.scheduler), context), case)
        env, engine = timed_engine(context, watched, self.placed,
                                   [job.takes_s for job in case.jobs],
                                   type(self.instance).__name__, case.preemption)
        Faults(case.events, case.cluster).begin(env, JobsOnServers(engine, case.cluster))
        trial = replace(self, case=case)
        try:
            run_to_end(env, engine)
        except AllocationError as error:
            raise BrokenPromise(trial, _RULE, str(error)) from None
        except StalledError as error:
            raise BrokenPromise(trial, _WAITS, str(error)) from None
        except _EndlessCalls as error:
            raise BrokenPromise(trial, error.promise, str(error)) from None
        rows = engine.ledger.rows
        counts = {name: rows[name] for name in ("first_start", "end", "preemptions", "restarts")}
        return Record(case, watched.log, engine.ledger.segments,
                      counts | engine.ledger.accounts(env.now))

    def difference(self, case: ClusterCase, until: float, what: str) -> str | None:
        """Describe the first action before an instant that differs on another example, if one does.

        BrokenPromise is raised if two runs on this example differ too.
        """
        here = _acts(self.run, until)
        try:
            there = _acts(self.run_on(case), until)
        except BrokenPromise:
            return None  # another promise, which its own check tests
        fault = _first_difference(here, there)
        if fault is None:
            return None
        for _ in range(_RUNS):
            again = _first_difference(here, _acts(self.run_on(self.case), until))
            if again is not None:
                raise BrokenPromise(self, _UNSTEADY, f"{again}, in another run")
        return f"{fault}, {what}"


def _acts(run: Record, until: float) -> list[_Act]:
    """List the actions of a scheduler before an instant."""
    before = until * (1 - _ROUNDING)
    return [(each.now, *act) for each in run.log if each.now < before
            for act in (*((job, None) for job in each.preempted), *each.starts)]


def _first_difference(here: Sequence[_Act], there: Sequence[_Act]) -> str | None:
    """Describe the first action in which two runs differ, if they do."""
    return next((_in_words(other) if one is None else f"{_in_words(other)}, not {_in_words(one)}"
                 for one, other in zip_longest(here, there) if one != other), None)


def _in_words(act: _Act | None) -> str:
    if act is None:
        return "no job starts"
    now, job, gpus = act
    if gpus is None:
        return f"job {job} is preempted at {now:g} s"
    return f"job {job} starts at {now:g} s on GPUs {list(gpus)}"


def _breaks_a_rule(trial: _Trial) -> str | None:
    trial.run  # noqa: B018  # raises BrokenPromise itself, also where jobs wait forever
    return None


def _changes_the_view(trial: _Trial) -> str | None:
    changed = dict.fromkeys(name for each in trial.run.log for name in each.changed)
    return f"{', '.join(changed)} changed" if changed else None


def _lets_keys_change(trial: _Trial) -> str | None:
    return next((f"at {each.now:g} s those of job {each.out_of_line[0]} are not those by which it "
                 "stands in line" for each in trial.run.log if each.out_of_line), None)


def _is_not_deterministic(trial: _Trial) -> str | None:
    fault = _first_difference(*(_acts(run, np.inf)
                                for run in (trial.run, trial.run_on(trial.case))))
    return None if fault is None else f"{fault}, in another run"


def _peeks_at_iterations(trial: _Trial) -> str | None:
    if getattr(trial.instance, "clairvoyant", False):
        return None
    for place, job in enumerate(trial.case.jobs):
        more = job.iterations + _MORE
        fault = trial.difference(trial.case.with_job(place, iterations=more),
                                 float(trial.run.jobs["end"][place]),
                                 f"if job {place} makes {more} iterations")
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
    if not getattr(trial.instance, "work_conserving", False) or not (
            chooses_gpus(trial.instance) or not getattr(trial.placed, "refuses", True)):
        return None
    run, specs = trial.run, trial.case.specs
    for now in dict.fromkeys(each.now for each in run.log):
        idle = run.idle(now)
        for job in run.waiting(now):
            # GPUs of jobs that save may be meant for jobs that come before this one.
            if specs[job].ranks <= idle and not run.saves(now):
                return f"at {now:g} s job {job} fits but does not start"
    return None


def _does_not_add_up(trial: _Trial) -> str | None:
    return next(audit(trial.run), None)


PROMISES: dict[str, Promise[_Trial]] = {
    "runs": Promise(_RULE, _breaks_a_rule),
    "view-unchanged": Promise("changes the view", _changes_the_view),
    "adds-up": Promise("is run against the rules, by a fault of netsim", _does_not_add_up),
    "deterministic": Promise(_UNSTEADY, _is_not_deterministic),
    "future-iterations": Promise(
        "depends on iterations that a job has not made yet (declare clairvoyant = True if "
        "that is intended)", _peeks_at_iterations),
    "future-jobs": Promise(
        "depends on jobs that have not arrived (declare clairvoyant = True if that is intended)",
        _peeks_ahead),
    "steady-keys": Promise(
        "lets keys of jobs that wait change by themselves (return these jobs from see)",
        _lets_keys_change),
    "work-conserving": Promise("is not work-conserving, as it claims", _is_not_work_conserving),
}
