"""`check_scheduler` on every scheduler, and on broken ones that it must catch."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import netsim
from netsim.engine.view import Decision
from netsim.errors import AllocationError, InputError
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.in_order import InOrder, Keys
from netsim.schedulers.queues import FIFO, SJF, SRTF
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler
from netsim.simulation.needs import needs_of
from netsim.testing import check_scheduler, schedulers
from tests.examples import ALL, examples
from tests.pairs import few, some

#: Instead of the forest, whose fits take long; and the past, where it is not that of a workload.
QUICK = {"predictor": "median", "history": [1.0, 3.0, 5.0, 9.0, 30.0]}


def quick(name):
    """A scheduler by name, with a predictor that is quick if it asks one, and with a history."""
    parameters = inspect.signature(SCHEDULERS.resolve(name)).parameters
    return {"name": name} | {option: value for option, value in QUICK.items()
                             if option in parameters}


#: With times as long as those of the examples, so that jobs are preempted.
SHORT = [{"name": "las", "quantum_s": 3},
         {"name": "las", "quantum_s": 4, "service": "run", "backfill": False},
         {"name": "gandiva-rr", "quantum_s": 1},
         {"name": "gandiva-rr", "quantum_s": 2, "backfill": False},
         {"name": "tiresias", "thresholds": [20, 60], "promote_knob": 2},
         {"name": "tiresias", "thresholds": [10], "service": "run", "fifo_by": "arrival"},
         {"name": "tiresias-g", "thresholds": [20], "delta": 2, "promote_knob": 2,
          "history": [1, 2, 4, 7, 20]}]

OPTIONS = [{"name": "a-srpt", "predictor": "mean", "retrain": "1s", "tau": 2},
           {"name": "wcs-duration", "predictor": "perfect", "servers": "most"},
           {"name": "ls", "order": "by_size", "availability": "queue"},
         {"name": "fifo", "backfill": True}, {"name": "sjf", "by": "time"}, {"name": "ada-srsf"},
         {"name": "srtf", "backfill": False}, {"name": "srsf", "backfill": False}]


#: All but those of edge-clouds.
ON_CLUSTERS = [name for name in SCHEDULERS
               if "an edge-cloud" not in needs_of(make_scheduler(quick(name)), "cluster")]


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_keeps_its_promises(name):
    check_scheduler(quick(name), examples=examples(20))


@pytest.mark.parametrize("scheduler", [*OPTIONS, *SHORT], ids=lambda each: each["name"])
def test_keeps_its_promises_with_options(scheduler):
    check_scheduler(scheduler, examples=examples(12))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_keeps_its_promises_with_every_placement(placement):
    for name in some(ON_CLUSTERS, list(PLACEMENTS).index(placement), of=3):
        if not chooses_gpus(make_scheduler(quick(name))):
            check_scheduler(quick(name), placement=placement, examples=3)
    for scheduler in SHORT:
        check_scheduler(scheduler, placement=placement, examples=4, seed=1)


# --- broken schedulers, one or more for each promise --------------------------------------------


class InTurn:
    """In order of arrival; a job that does not fit holds up the others."""

    def order(self, view):
        return view.waiting

    def decide(self, view):
        room, starts = view.room(), []
        for job in self.order(view):
            gpus = room.place(job)
            if gpus is None:
                break
            starts.append((job, gpus))
        return starts


class OneByOne:
    """In order of arrival, one job at a time."""

    def decide(self, view):
        room = view.room()
        busy = view.running or view.saving
        starts = [(job, room.place(job)) for job in view.waiting[:1] if not busy]
        return [(job, gpus) for job, gpus in starts if gpus is not None]


class Again(InTurn):
    def decide(self, view):
        return [*super().decide(view), *((job, gpus) for job, gpus in view.running.items())]


class Everywhere:
    def decide(self, view):
        return [(job, np.arange(view.jobs[job].ranks)) for job in view.waiting]


class Piecemeal:
    """As many GPUs as are free, and not all that a job needs."""

    def decide(self, view):
        free = np.flatnonzero(view.free)
        return [(job, free[:view.jobs[job].ranks]) for job in view.waiting[:1] if len(free)]


class Never:
    def decide(self, view):
        return []


class NotTheLarge(OneByOne):
    def decide(self, view):
        if any(view.jobs[job].ranks == view.cluster.total > 1 for job in view.waiting):
            return []
        return super().decide(view)


class Later:
    def decide(self, view):
        return Decision(wake_at=view.now + 0.001)


class Unlocking(InTurn):
    def decide(self, view):
        starts = super().decide(view)
        view.load.setflags(write=True)
        view.load[:] = 7
        return starts


class Lowering(InTurn):
    def decide(self, view):
        starts = super().decide(view)
        view.idle -= 1
        return starts


class Writing(InTurn):
    """Puts what it means to start among the GPUs that are taken, and in the queue."""

    def decide(self, view):
        starts = super().decide(view)
        for _, gpus in starts:
            view.free[gpus] = False
        return starts


class Ticking(InTurn):
    def decide(self, view):
        starts = super().decide(view)
        for job, _ in starts:
            del view.pending[job]
        return starts


class Forgetting(InTurn):
    """Changes what jobs have held."""

    def decide(self, view):
        starts = super().decide(view)
        view.first_start(slice(None))[:] = view.now
        return starts


class Dice(InTurn):
    thrown = random.Random(7)

    def order(self, view):
        return self.thrown.sample(view.waiting, len(view.waiting))


class Remembering:
    """Forgets nothing from one run to the next: its memory is the class's."""

    runs = 0

    def begin(self, setting):
        type(self).runs += 1
        return (SJF() if self.runs % 2 else FIFO()).begin(setting)


class ShortestFirst(InTurn):
    def order(self, view):
        return sorted(view.waiting, key=lambda job: (view.jobs[job].iterations, job))


class Expecting(OneByOne):
    """Leaves room for the next job that is to come, if that is large."""

    def decide(self, view):
        seen = {*view.pending, *view.running}
        coming = [job for job, spec in enumerate(view.jobs)
                  if spec.arrival_s > view.now and job not in seen]
        if coming and view.jobs[coming[0]].ranks > view.idle // 2:
            return []
        return super().decide(view)


class Boasting(OneByOne):
    work_conserving = True


# --- that preempt ---------------------------------------------------------------------------------


class Impatient(InTurn):
    """Preempts jobs that wait."""

    def decide(self, view):
        return Decision(super().decide(view), view.waiting)


class Fickle(InTurn):
    """Preempts at once what it has started."""

    def decide(self, view):
        if new := [job for job in view.running if view.got(job) == view.now]:
            return Decision(preempt=new)
        starts = super().decide(view)
        return Decision(starts, wake_at=view.now if starts else np.inf)


class Stirring(InTurn):
    """Whenever a job comes or ends, another one is moved to the GPUs that it has."""

    def decide(self, view):
        job = next((job for job in view.running if view.got(job) < view.now), None)
        starts = super().decide(view)
        return Decision([(job, view.running[job]), *starts], [job]) if job is not None else starts


class Grabbing(InTurn):
    """Preempts all for a job that comes, and places it at once, where they may still save."""

    def decide(self, view):
        old = [job for job in view.running if view.got(job) < view.now]
        if not (view.pending and old) or view.saving:
            return super().decide(view)
        free = view.free.copy()
        for job in old:
            free[view.running[job]] = True
        job = view.waiting[0]
        gpus = view.room_on(free).place(job)
        return Decision([] if gpus is None else [(job, gpus)], old)


class Restless(InTurn):
    """Preempts all that wait for others, every quarter of a second."""

    def order(self, view):
        return sorted(view.waiting, key=view.waits_since)

    def decide(self, view):
        if view.pending and not view.saving and (
                old := [job for job in view.running if view.got(job) < view.now]):
            return Decision(preempt=old, wake_at=view.now)
        starts = super().decide(view)
        wait = len(view.pending) > len(starts)
        return Decision(starts, wake_at=view.now + 0.25 if wait else np.inf)


class ByWhatIsLeft(SRTF):
    clairvoyant = False


class ByTheWhole(SRTF):
    """Knows how long a job will run from the iterations that it will make, of any length."""

    clairvoyant = False

    def keys(self, view, jobs):
        return Keys(value=np.array([float(view.jobs[job].iterations) for job in jobs]))


class Lottery(InOrder):
    thrown = random.Random(7)

    def keys(self, view, jobs):
        return Keys(value=np.array([self.thrown.random() for _ in jobs]))


class Aging(InOrder):
    """Whoever has waited longer, for its size, comes first: keys change as time passes."""

    def keys(self, view, jobs):
        return Keys(value=-(view.now - view.waits_since(jobs)) / view.ranks(jobs))


class Crowding(InOrder):
    """By how many jobs wait, for every other job."""

    def keys(self, view, jobs):
        return Keys(level=np.where(jobs % 2, float(len(view.pending)), 0.0))


class Announced(InOrder):
    """As `Aging`, and says so; it looks again every second."""

    def see(self, view, fresh):
        return [*view.pending]

    def keys(self, view, jobs):
        return Keys(value=-(view.now - np.nan_to_num(view.waits_since(jobs), nan=view.now))
                    / view.ranks(jobs))


@dataclass(frozen=True)
class Hoarding(SRTF):
    """Claims to start what fits, though a job that does not fit holds up those behind it."""

    work_conserving: ClassVar[bool] = True

    backfill: bool = False


class Refusing(InTurn):
    def suits(self, setting):
        raise InputError("no cluster is good enough")


BROKEN = [
    (Again, "breaks a rule: scheduler Again starts the job with index ., job ., which is not wait"),
    (Everywhere, "breaks a rule: scheduler Everywhere gives job . GPUs that are taken"),
    (Piecemeal, "breaks a rule: scheduler Piecemeal gives job . the GPUs .*; it needs 2"),
    (lambda: None, "must return pairs"),
    (Never, "leaves jobs waiting forever: stalled at t = 0 s: scheduler Never starts no job"),
    (NotTheLarge, "leaves jobs waiting forever: stalled"),
    (Later, r"leaves jobs waiting forever: it has been asked 1,000 times in a row, last at .* "
            "s, and 1 jobs still wait"),
    (Unlocking, "changes the view: load changed"),
    (Lowering, "changes the view: idle changed"),
    (Writing, "breaks a rule: scheduler Writing tries to change what is read-only, as all of the "
              "view is, at 0 s: assignment destination is read-only; change a copy"),
    (Ticking, "breaks a rule: scheduler Ticking tries to change what is read-only, .*: "
              "'mappingproxy' object does.* support item deletion"),
    (Forgetting, "changes the view: first_start changed"),
    (Dice, "is not deterministic: job . starts at .* s on GPUs .*, not job "),
    (Remembering, "is not deterministic"),
    (ShortestFirst, r"depends on iterations that a job has not made yet \(declare clairvoyant"),
    (Expecting, r"depends on jobs that have not arrived \(declare clairvoyant"),
    (Boasting, "is not work-conserving, as it claims: at .* s job 1 fits but does not start"),
    (Impatient, "breaks a rule: scheduler Impatient preempts job ., which holds no GPUs"),
    (Fickle, "breaks a rule: scheduler Fickle preempts job ., which has been started at this very"),
    (Stirring, "breaks a rule: scheduler Stirring moves job . to the GPUs that it had"),
    (Grabbing, "breaks a rule: scheduler Grabbing gives job . GPUs that are taken"),
    (Restless, "leaves jobs waiting forever: job . has been preempted 50 times in a row and kept"),
    (ByWhatIsLeft, r"depends on iterations that a job has not made yet \(declare clairvoyant"),
    (ByTheWhole, r"depends on iterations that a job has not made yet \(declare clairvoyant"),
    (Lottery, "is not deterministic"),
    (Aging, r"lets keys of jobs that wait change by themselves \(return these jobs from see\): "
            "at .* s those of job . are not those by which it stands in line"),
    (Crowding, "lets keys of jobs that wait change by themselves"),
    (Hoarding, "is not work-conserving, as it claims: at .* s job . fits but does not start"),
    (Refusing, "refuses all of 60 examples, the last with: scheduler 'Refusing': no cluster is "),
]


def test_one_may_look_again_and_again_while_others_run():
    """Once a millisecond: thousands of times, but each job starts."""
    class Polling(InTurn):
        def decide(self, view):
            return Decision(super().decide(view), wake_at=view.now + 0.001)

    check_scheduler(Polling, examples=3 if ALL else 1)


def test_one_who_asks_without_end_is_told_so(monkeypatch):
    class Hasty(InTurn):
        def decide(self, view):
            return Decision(super().decide(view), wake_at=view.now + 1e-6)

    monkeypatch.setattr(schedulers, "_ASKED", 2000)
    with pytest.raises(AssertionError, match=r"asks to be woken forever: it has been asked "
                                             r"2,000 times, last at 0\.00"):
        check_scheduler(Hasty)


def nothing():
    class Nothing:
        def decide(self, view):
            return None
    return Nothing()


@pytest.mark.parametrize(("kind", "message"), few(BROKEN, 15), ids=lambda each: getattr(
    each, "__name__", "-"))
def test_a_broken_promise_is_caught(kind, message):
    scheduler = nothing() if kind.__name__ == "<lambda>" else kind()
    with pytest.raises(AssertionError, match=message) as error:
        check_scheduler(scheduler)
    assert f"{type(scheduler).__name__} " in str(error.value)


def test_the_example_is_small():
    """Two jobs that come at once are the least on which an order by iterations shows."""
    with pytest.raises(AssertionError) as error:
        check_scheduler(ShortestFirst())
    said = str(error.value).partition("on the example\n")[2].splitlines()
    assert said[0] == "Cluster(gpus=[1])"
    assert len(said) == 3
    assert all("1 GPUs, arrival_s=0, iterations=" in line for line in said[1:])


def test_what_depends_by_design_may_be_declared():
    class Clairvoyant(ShortestFirst):
        clairvoyant = True

    check_scheduler(Clairvoyant)
    check_scheduler(OneByOne, examples=examples(20))


def test_keys_may_change_of_which_see_tells():
    check_scheduler(Announced(), examples=examples(20))


def test_a_run_says_who_writes_to_the_view():
    alone = [netsim.JobSpec(0, pattern="ring-all-reduce", ranks=1)]
    with pytest.raises(AllocationError, match="Writing tries to change what is read"):
        netsim.simulate(netsim.Cluster(1, 1), alone, scheduler=Writing())


def test_an_exception_passes_through_with_the_example():
    class Hasty(InTurn):
        def decide(self, view):
            raise ValueError("it is broken")

    with pytest.raises(ValueError, match="it is broken") as error:
        check_scheduler(Hasty())
    assert error.value.__notes__[0].startswith("on the example\nCluster(gpus=[")


def test_what_is_no_scheduler_is_refused():
    with pytest.raises(netsim.InputError, match="is no scheduler: it needs a method decide"):
        check_scheduler(object())
    with pytest.raises(netsim.UnknownNameError, match="unknown scheduler 'fifi'"):
        check_scheduler("fifi")
