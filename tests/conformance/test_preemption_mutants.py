"""Faults of the engine that `check_scheduler` must find, each with the scheduler that shows it."""

import math

import pytest

from netsim.engine import engine, executions
from netsim.engine.engine import Engine
from netsim.engine.ledger import JobAccounts, Ledger
from netsim.engine.view import Decision
from netsim.testing import check_scheduler
from tests.examples import examples
from tests.pairs import few

SRTF = "srtf"
QUANTA = {"name": "las", "quantum_s": 3}
SLICES = {"name": "gandiva-rr", "quantum_s": 1}
QUEUES = {"name": "tiresias", "thresholds": [10], "promote_knob": 2}


def free_before_saved(patch):
    """GPUs are given to others before the job that holds them has saved its progress."""
    preempt = Engine._preempt

    def early(self, job):
        preempt(self, job)
        if job in self._saving:
            self._pool.give_back(self._saving[job].gpus)

    patch.setattr(Engine, "_preempt", early)


def kept_rounded_up(patch):
    """A job keeps the iteration in which it was preempted."""
    patch.setattr(executions, "whole", lambda progress: float(math.ceil(progress - 1e-9)))


def kept_is_forgotten(patch):
    """A job begins again from nothing."""
    stop = Engine._stop
    patch.setattr(Engine, "_stop", lambda self, job, kept, back, lossless=False: stop(
        self, job, 0.0, back))


def restore_not_paid(patch):
    """A job goes on at once."""
    patch.setattr(Engine, "ready_on", lambda self, job, gpus: self._env.now)


def restore_of_nothing(patch):
    """A job that has kept nothing pays as well if it has been preempted before."""
    start = Engine._start

    def as_if_kept(self, job, gpus, others):
        kept = self.ledger.rows["kept"]
        true = kept[job]
        if job in self.gpus:
            kept[job] = max(true, 1e-300)
        try:
            start(self, job, gpus, others)
        finally:
            kept[job] = true

    patch.setattr(Engine, "_start", as_if_kept)


def checkpoint_of_nothing(patch):
    """A job saves though it has made nothing since it last did."""
    patch.setattr(JobAccounts, "grew", lambda self, job: True)
    patch.setattr(JobAccounts, "saves", lambda self, job: self._options.checkpoint_s > 0)


def state_not_moved(patch):
    """A job restores on other servers as fast as on its own."""
    to_move = Engine._to_move
    patch.setattr(Engine, "_to_move", lambda self, job, before, gpus:
                  (0.0, *to_move(self, job, before, gpus)[1:]))


def decisions_before_ends(patch):
    """A scheduler is asked before what else happens at an instant."""
    patch.setattr(engine, "DECISIONS", 0)


def decision_per_event(patch):
    """A scheduler is asked for each event of an instant."""
    patch.setattr(Engine, "_ask", lambda self: self._at(self._env.now, self._decide_soon))


def old_wakes(patch):
    """A scheduler is woken when an earlier decision asked for it, too."""
    patch.setattr(Engine, "_wake", lambda self, alarm, event: self._ask())


def no_wakes(patch):
    """A scheduler is not woken."""
    patch.setattr(Engine, "_wake", lambda self, alarm, event: None)


def first_start_moves(patch):
    """A job that comes back counts as one that starts for the first time."""
    take = Ledger.take

    def restarted(self, job, gpus, now):
        self.rows["first_start"][job] = math.nan
        return take(self, job, gpus, now)

    patch.setattr(Ledger, "take", restarted)


def losses_not_counted(patch):
    """Progress that is made again counts as useful."""
    stop = Ledger.stop
    patch.setattr(Ledger, "stop", lambda self, job, now, kept, lost_s: stop(
        self, job, now, kept, 0.0))


def faults_cost_nothing(patch):
    """A job that loses a server keeps what it had, whatever the option says."""
    patch.setattr(JobAccounts, "finished", JobAccounts.progress)


ENGINE = "is run against the rules, by a fault of netsim: "
MUTANTS = [
    (free_before_saved, SRTF, ENGINE + "job . gets GPU . at .* s, which job . holds"),
    (kept_rounded_up, SRTF, ENGINE + "job . (keeps . iterations, not|ends with .* of) "),
    (kept_is_forgotten, SRTF, ENGINE + "job . keeps 0 iterations, not "),
    (restore_not_paid, SRTF, ENGINE + "job . pays 0 s at .* s, not .* s, to go on"),
    (restore_of_nothing, SLICES, ENGINE + "job . pays .* s at .* s, not 0 s, to go on"),
    (checkpoint_of_nothing, QUANTA, ENGINE + "job . pays .* s at .* s, not 0 s, to save"),
    (state_not_moved, SLICES, ENGINE + "job . pays .* s at .* s, not .* s, to go on"),
    (decisions_before_ends, SRTF,
     ENGINE + "(there are two decisions at |job . holds GPU . after its server was lost)"),
    (decision_per_event, SRTF, ENGINE + "there are two decisions at "),
    (old_wakes, SLICES, ENGINE + "there is a decision at .* s, when nothing happens"),
    (no_wakes, SLICES, ENGINE + "nothing is decided at .* s, as was asked for"),
    (first_start_moves, QUEUES, ENGINE + "job . has first_start = "),
    (losses_not_counted, SLICES, ENGINE + "job . has (useful|lost)_gpu_s = "),
    (faults_cost_nothing, "fifo", ENGINE + "job . keeps .* iterations, not "),
]


@pytest.mark.parametrize(("mutate", "scheduler", "message"), few(MUTANTS, 8),
                         ids=lambda each: getattr(each, "__name__", "-"))
def test_a_fault_of_the_engine_is_found(mutate, scheduler, message, monkeypatch):
    check_scheduler(scheduler, examples=examples(30))
    mutate(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        check_scheduler(scheduler, examples=120)


class Fickle:
    """Starts the first job, and preempts it at once if it is alone."""

    def decide(self, view):
        new = [job for job in view.running if view.got(job) == view.now]
        if new and view.now == view.jobs[0].arrival_s and view.progress(new[0]) == 0:
            return Decision(preempt=new, wake_at=view.now + 1)
        room = view.room()
        starts = [(job, room.place(job)) for job in view.waiting[:1] if not view.running]
        starts = [(job, gpus) for job, gpus in starts if gpus is not None]
        return Decision(starts, wake_at=view.now if starts else math.inf)


def test_a_job_that_is_stopped_at_its_start_is_found(monkeypatch):
    """The engine refuses that; without its check, the audit finds a job that held GPUs for 0 s."""
    with pytest.raises(AssertionError, match=r"breaks a rule: .* started at this very instant"):
        check_scheduler(Fickle)
    monkeypatch.setattr(engine, "check_preemption", lambda *given: None)
    with pytest.raises(AssertionError, match=ENGINE + "job 0 waits from .* s, holds GPUs from 0 to "
                                                      "0 s"):
        check_scheduler(Fickle)
