"""Who runs where: told to those that declare it, from a job's beginning to its end."""

import numpy as np
import pytest
from hypothesis import given, settings

import netsim
from netsim import Event, JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.fabric.running import Running
from netsim.testing import workloads
from tests.examples import examples

NET = netsim.big_switch(4, 1.0)


class Watcher(netsim.Allocator):
    """Max-min fair; prints nothing, but keeps what it is told in a list of the class."""

    told: list = []  # noqa: RUF012 - instances are copies

    @property
    def sees_running(self):
        return True

    def allocate(self, view):
        pairs = [tuple(map(int, pair)) for pair in zip(*view.running(), strict=True)]
        self.told.append((view.now, pairs, bool(view.events & Event.JOB)))
        return netsim.Allocation(view.maxmin())


class Deaf(Watcher):
    """The same, but not told."""

    @property
    def sees_running(self):
        return False

    def allocate(self, view):
        assert not view.events & Event.JOB
        return netsim.Allocation(view.maxmin())


@pytest.fixture(autouse=True)
def _nothing_told():
    Watcher.told.clear()


def test_from_the_first_computation_to_the_last():
    """Job 0 sends for 10 s; 1 computes in [1, 3] and 2 in [2, 4], sends until 5, computes until 6.

    That is one decision for each change and, at 4 and 5, for a coflow.
    """
    jobs = [JobSpec(0, stages=[Stage("send", [(0, 1, 10.0)])], hosts=[0, 1]),
            JobSpec(1, 1.0, stages=[Stage("compute", compute_s=2.0)], hosts=[3, 3, 1], ranks=2),
            JobSpec(2, 2.0, stages=[Stage("send", [(0, 1, 1.0)], compute_s=2.0),
                                    Stage("compute", compute_s=1.0, after=["send"])],
                    hosts=[2, 3])]
    result = netsim.simulate(NET, jobs, allocator=Watcher)
    first, second, third = [(0, 0), (0, 1)], [(1, 3)], [(2, 2), (2, 3)]
    assert Watcher.told == [
        (0.0, first, True), (1.0, first + second, True), (2.0, first + second + third, True),
        (3.0, first + third, True), (4.0, first + third, False), (5.0, first + third, False),
        (6.0, first, True)]
    assert result.jobs["finish_s"].tolist() == [10, 3, 6]


def test_who_goes_at_the_instant_another_comes_is_gone():
    """Job 0 ends at 1, where job 1 begins: one decision, which sees job 1 alone."""
    jobs = [JobSpec(k, float(k), stages=[Stage("send", [(0, 1, 1.0)])], hosts=[0, 1 + k], ranks=2)
            for k in range(2)]
    netsim.simulate(NET, jobs, allocator=Watcher)
    assert [told[:2] for told in Watcher.told] == [(0.0, [(0, 0), (0, 1)]), (1.0, [(1, 0), (1, 2)])]


@settings(deadline=None, max_examples=examples(60))
@given(workloads(4))
def test_being_told_changes_nothing_else(workload):
    """Chains, jobs of single coflows and of all other kinds end when they end otherwise."""
    told, deaf, usual = (netsim.simulate(NET, workload, allocator=policy, seed=3)
                         for policy in (Watcher, Deaf, "maxmin"))
    for other in (deaf, usual):
        np.testing.assert_allclose(told.jobs["finish_s"], other.jobs["finish_s"], rtol=1e-9)
        np.testing.assert_allclose(told.jobs["start_s"], other.jobs["start_s"], rtol=1e-9)
        for column in ("coflow", "job", "stage", "valid_s", "finish_s", "bytes"):
            one, two = (result.coflows.sort_values("coflow")[column] for result in (told, other))
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
            else:
                assert one.tolist() == two.tolist()


def test_jobs_that_begin_and_end():
    changes = []
    running = Running(lambda: changes.append(1))
    assert [part.tolist() for part in running.pairs()] == [[], []]
    running.begin(5, [3, 1, 3])
    running.begin(2, np.array([0]))
    assert [part.tolist() for part in running.pairs()] == [[2, 5, 5], [0, 1, 3]]
    assert not any(part.flags.writeable for part in running.pairs())
    assert running.pairs() is running.pairs()
    with pytest.raises(InputError, match=r"job number 5 has begun already, on the hosts \[1, 3\]"):
        running.begin(5, [0])
    running.end(5)
    assert 5 not in running
    assert 2 in running
    with pytest.raises(InputError, match=r"job number 5 does not run; those that do are \[2\]"):
        running.end(5)
    assert len(changes) == 3


def test_a_workload_of_coflow_ids_keeps_them():
    """Jobs of a single coflow, with ids of their own: the same table."""
    jobs = Workload([JobSpec(k, hosts=[0, 1], stages=[
        Stage("only", [(0, 1, 1.0)], coflow_id=7 - k)]) for k in range(2)])
    for policy in (Watcher, "maxmin"):
        assert sorted(netsim.simulate(NET, jobs, allocator=policy).coflows["coflow"]) == [6, 7]
