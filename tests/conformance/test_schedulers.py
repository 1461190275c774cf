"""`check_scheduler` on every scheduler, and on broken ones that it must catch."""

from __future__ import annotations

import inspect
import random

import numpy as np
import pytest

import netsim
from netsim.engine.view import Decision
from netsim.errors import InputError
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.queues import FIFO, SJF
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler
from netsim.testing import check_scheduler, schedulers

#: Instead of the forest, whose fits take long.
QUICK = {"predictor": "median"}


def quick(name):
    """A scheduler by name, with a predictor that is quick if it asks one."""
    asks = "predictor" in inspect.signature(SCHEDULERS.resolve(name)).parameters
    return {"name": name} | (QUICK if asks else {})


OPTIONS = [{"name": "a-srpt", "predictor": "mean", "retrain": "1s", "tau": 2},
           {"name": "wcs-duration", "predictor": "perfect", "servers": "most"},
           {"name": "ls", "order": "by_size", "availability": "queue"}]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_keeps_its_promises(name):
    check_scheduler(quick(name), examples=20)


@pytest.mark.parametrize("scheduler", OPTIONS, ids=lambda each: each["name"])
def test_keeps_its_promises_with_options(scheduler):
    check_scheduler(scheduler, examples=12)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_keeps_its_promises_with_every_placement(placement):
    for name in SCHEDULERS:
        if not chooses_gpus(make_scheduler(quick(name))):
            check_scheduler(quick(name), placement=placement, examples=3)


# --- broken schedulers, one or more for each promise --------------------------------------------


class OneByOne:
    """In order of arrival, one job at a time."""

    def decide(self, view):
        room = view.room()
        starts = [(job, room.place(job)) for job in view.waiting[:1] if not view.running]
        return [(job, gpus) for job, gpus in starts if gpus is not None]


class Again(FIFO):
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
        return Decision([], view.now + 0.001)


class Unlocking(FIFO):
    def decide(self, view):
        starts = super().decide(view)
        view.load.setflags(write=True)
        view.load[:] = 7
        return starts


class Lowering(FIFO):
    def decide(self, view):
        view.idle -= 1
        return super().decide(view)


class Dice(FIFO):
    thrown = random.Random(7)

    def order(self, view):
        return self.thrown.sample(view.waiting, len(view.waiting))


class Remembering(FIFO):
    """Forgets nothing from one run to the next: its memory is the class's."""

    runs = 0

    def begin(self, setting):
        type(self).runs += 1
        return SJF() if self.runs % 2 else FIFO()


class ShortestFirst(FIFO):
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


class Refusing(FIFO):
    def suits(self, setting):
        raise InputError("no cluster is good enough")


BROKEN = [
    (Again, "breaks a rule: scheduler Again starts the job with index 0, which is not wait"),
    (Everywhere, "breaks a rule: scheduler Everywhere gives job . GPUs that are taken"),
    (Piecemeal, "breaks a rule: scheduler Piecemeal gives job . the GPUs .*; it needs 2"),
    (lambda: None, "must return pairs"),
    (Never, "leaves jobs waiting forever: stalled at t = 0 s: scheduler Never starts no job"),
    (NotTheLarge, "leaves jobs waiting forever: stalled"),
    (Later, r"leaves jobs waiting forever: it has been asked 1,000 times in a row, last at .* "
            "s, and 1 jobs still wait"),
    (Unlocking, "changes the view: load changed"),
    (Lowering, "changes the view: idle changed"),
    (Dice, "is not deterministic: job . starts at .* s on GPUs .*, not job "),
    (Remembering, "is not deterministic"),
    (ShortestFirst, r"depends on iterations that a job has not made yet \(declare clairvoyant"),
    (Expecting, r"depends on jobs that have not arrived \(declare clairvoyant"),
    (Boasting, "is not work-conserving, as it claims: at .* s job 1 fits but does not start"),
    (Refusing, "refuses all of 60 examples, the last with: scheduler 'Refusing': no cluster is "),
]


def test_one_may_look_again_and_again_while_others_run():
    """Once a millisecond: thousands of times, but each job starts."""
    class Polling(FIFO):
        def decide(self, view):
            return Decision(super().decide(view), view.now + 0.001)

    check_scheduler(Polling, examples=3)


def test_one_who_asks_without_end_is_told_so(monkeypatch):
    class Hasty(FIFO):
        def decide(self, view):
            return Decision(super().decide(view), view.now + 1e-6)

    monkeypatch.setattr(schedulers, "_ASKED", 2000)
    with pytest.raises(AssertionError, match=r"asks to be woken forever: it has been asked "
                                             r"2,000 times, last at 0\.00"):
        check_scheduler(Hasty)


def nothing():
    class Nothing:
        def decide(self, view):
            return None
    return Nothing()


@pytest.mark.parametrize(("kind", "message"), BROKEN, ids=lambda each: getattr(
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
    check_scheduler(OneByOne, examples=20)


def test_an_exception_passes_through_with_the_example():
    class Hasty(FIFO):
        def decide(self, view):
            view.free[0] = False

    with pytest.raises(ValueError, match="read-only") as error:
        check_scheduler(Hasty())
    assert error.value.__notes__[0].startswith("on the example\nCluster(gpus=[")


def test_what_is_no_scheduler_is_refused():
    with pytest.raises(netsim.InputError, match="is no scheduler: it needs a method decide"):
        check_scheduler(object())
    with pytest.raises(netsim.UnknownNameError, match="unknown scheduler 'fifi'"):
        check_scheduler("fifi")
