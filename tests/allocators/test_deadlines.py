"""Deadlines: what EDF does without admission, and what Varys guarantees with it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.allocators.deadlines import VarysDeadline
from netsim.errors import StalledError, UnknownNameError
from netsim.testing import make_view, networks, workloads
from tests.examples import examples

NET = netsim.big_switch(4, 1.0)
HOSTS = 4


def coflows(*rows):
    """Jobs of one flow each, out of host 0: (dst, bytes, deadline) or with an arrival."""
    return Workload([
        JobSpec(number, *arrival, stages=[Stage("only", [(0, dst, size)], deadline_s=due)],
                hosts=range(4))
        for number, (dst, size, due, *arrival) in enumerate(rows)])


def run(jobs, name="varys-deadline", until=None, **options):
    return netsim.simulate(NET, jobs, allocator={"name": name} | options, until=until,
                           record=["jobs", "coflows", "decisions"])


#: A needs 2/4 and B 1/2 of the port; C's 1/10 does not fit beside them.
THREE = coflows((1, 2, 4), (2, 1, 2), (3, 1, 10))


@pytest.mark.parametrize(("options", "ends"), [
    ({}, [3, 2, 4]), ({"work_conservation": "greedy"}, [3, 2, 4]),
    ({"rejected": "drop"}, [3, 2, None]), ({"work_conservation": "none"}, [4, 2, None])])
def test_who_does_not_fit_is_rejected(options, ends):
    """B ends at its deadline, 2. Then A, with 1 left and 2 s, takes the port until 3, and C has it.

    Without work conservation A keeps its half until 4. C may have nothing, or the rest.
    """
    finish = run(THREE, until=9, **options).jobs["finish_s"]
    assert [None if math.isnan(end) else end for end in finish] == pytest.approx(ends)


def test_what_is_counted():
    result = run(THREE)
    assert result.decisions[["admitted", "rejected"]].iloc[0].tolist() == [2, 1]
    summary = result.summary()
    assert (summary["deadlines"], summary["deadlines_met"]) == (3, 1)
    assert (summary["admitted"], summary["rejected"]) == (2, 1)
    summary = run(THREE, "fifo").summary()
    assert summary["deadlines_met"] == pytest.approx(2 / 3)  # A until 2, B until 3, C until 4
    assert "admitted" not in summary


def test_what_is_dropped_stalls():
    """A run that is stopped counts it as missed."""
    assert run(THREE, rejected="drop", until=11).summary()["deadlines_met"] == 2 / 3
    with pytest.raises(StalledError, match=r"no bandwidth to 1 pending coflows.* of job 2 "):
        run(THREE, rejected="drop")


def test_without_a_deadline_nothing_is_asked():
    """One without is backfilled even if the rejected are dropped: 1/2 until 2, then all."""
    result = run(coflows((1, 1, 2), (2, 2, None), (3, 3, 3)), rejected="drop", until=9,
                 work_conservation="greedy")
    assert result.jobs["finish_s"].tolist()[:2] == [1, 3]
    assert result.run["counts"] == {"admitted": 1, "rejected": 1}


def test_edf_has_no_admission():
    """A, 2 bytes due at 1, cannot be in time. EDF serves it first: both are late, A at 2, B at 4.

    Varys rejects it, and B, 2 bytes due at 3, has the port until 2.
    """
    jobs = coflows((1, 2, 1), (2, 2, 3))
    assert run(jobs, "edf").jobs["finish_s"].tolist() == [2, 4]
    assert run(jobs).jobs["finish_s"].tolist() == [4, 2]


def test_edf_serves_the_earliest_first_and_those_without_last():
    """Due never, at 5, never, at 4 (from 1 on, 3 s): 1 byte each."""
    jobs = coflows((1, 1, None), (2, 1, 5), (3, 1, None), (1, 1, 3, 1))
    assert run(jobs, "edf").jobs["finish_s"].tolist() == [3, 1, 4, 2]


def test_simultaneous_coflows_are_asked_by_arrival_and_id():
    """Each needs 3/5: the first of those at 0 is admitted; at 5, when it has gone, another."""
    jobs = coflows((1, 3, 5), (2, 3, 5), (3, 3, 5), (1, 3, 5, 5))
    result = run(jobs, work_conservation="none", until=20)
    assert result.jobs["finish_s"].tolist()[::3] == pytest.approx([5, 10])
    assert result.run["counts"] == {"admitted": 2, "rejected": 2}


def test_a_capacity_drop_may_break_a_guarantee():
    """4 bytes due at 8: at 1/2 until 4, when it needs all of the 1/2; there is 1/4, until 12."""
    result = netsim.simulate(
        NET, coflows((1, 4, 8)), allocator={"name": "varys-deadline", "decisions": "coflow"},
        events=[{"at": 0, "link": "egress-0", "capacity": 0.5},
                {"at": 4, "link": "egress-0", "capacity": 0.25}])
    assert result.jobs["finish_s"].tolist() == pytest.approx([12])
    assert result.summary()["deadlines_met"] == 0


def test_a_dead_link_can_guarantee_nothing():
    view = make_view(NET, [[(0, 1, 1.0)], [(2, 3, 1.0)]], deadline_s=[9, 4],
                     capacity={"egress-0": 0})
    policy = VarysDeadline(work_conservation="none")
    assert policy.allocate(view).rates.tolist() == [0, 0.25]
    assert policy.counts == {"admitted": 1, "rejected": 1}


def test_a_deadline_far_away():
    """A guarantee of 1e-12 of a port is one of 1e-9: as good, and not lost as dust."""
    view = make_view(NET, [[(0, 1, 1.0)]], deadline_s=[1e12])
    assert VarysDeadline(work_conservation="none").allocate(view).rates.tolist() == [1e-9]


class Spy(VarysDeadline):
    """Keeps which coflows, by (job, when valid), were admitted."""

    def __deepcopy__(self, memo):
        self.seen = {}
        return self

    def allocate(self, view):
        allocation = super().allocate(view)
        self.seen |= {(job, valid): self._admitted[coflow] for job, valid, coflow
                      in zip(view.job.tolist(), view.valid_s.tolist(), view.id.tolist(),
                             strict=True)}
        return allocation


@st.composite
def with_deadlines(draw):
    """Chains of coflows, some of which are due."""
    workload = draw(workloads(HOSTS, chains=True))
    due = st.sampled_from([None, 0.5, 1, 2, 4, 8])
    return replace(workload, jobs=[
        replace(job, stages=[replace(stage, deadline_s=draw(due)) for stage in job.stages])
        for job in workload])


@pytest.mark.parametrize("decisions", ["flow", "coflow"])
@pytest.mark.parametrize("work", ["maxmin", "greedy", "none"])
@settings(deadline=None, max_examples=examples(100))
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), with_deadlines(), st.sampled_from([0.0, 0.3]))
def test_the_admitted_are_always_in_time(work, decisions, network, workload, interval):
    """Rates v/(time left) use no more of a link as time goes by, whatever is given on top.

    With time t left and v bytes, at any rate r >= v/t the quotient (v - r dt)/(t - dt) is at
    most v/t: what fitted at admission fits until the deadline, when nothing is left.
    """
    spy = Spy(work_conservation=work, decisions=decisions)
    result = netsim.simulate(network, workload, allocator=spy, until=1e3, check=True,
                             observe_interval=interval)
    number = {job.id: index for index, job in enumerate(workload)}
    found = {(number[row.job], row.valid_s): row for row in result.coflows.itertuples()
             if row.bytes > 0}
    for coflow, admitted in spy.seen.items():
        if admitted:
            assert found[coflow].finish_s <= found[coflow].deadline_s * (1 + 1e-9)
    assert spy.counts["admitted"] == sum(spy.seen.values())


def test_refused():
    for option, choices in (("work_conservation", "greedy, maxmin, none"),
                            ("rejected", "backfill, drop"), ("decisions", "coflow, flow")):
        with pytest.raises(UnknownNameError, match=f"{option} 'x'; choose from: {choices}"):
            VarysDeadline(**{option: "x"})


@pytest.mark.parametrize(("flows", "due", "ends"), [
    ([[(0, 1, 2.0), (0, 2, 1.0)]], None, [3]), ([[(0, 1, 2.0), (0, 2, 1.0)]], 1, [3]),
    ([[(0, 1, 1.0), (0, 2, 1.0)], [(0, 1, 1.0), (3, 2, 1.0)]], None, [2, 3])])
def test_a_greedy_rest_at_coflow_events_serves_somebody_in_full(flows, due, ends):
    """In list order 0->1 has all of egress 0, and 0->2 waits for an event that never comes.

    Nobody is admitted, so the first coflow has MADD rates: it ends after its gamma. With two
    coflows, the second has 1/2 of egress 3 or more by then, and 1 byte from host 0 to go, or less.
    """
    jobs = Workload([JobSpec(k, stages=[Stage("only", each, deadline_s=due)], hosts=range(4))
                     for k, each in enumerate(flows)])
    found = run(jobs, work_conservation="greedy", decisions="coflow")
    assert found.jobs["finish_s"].tolist() == ends
