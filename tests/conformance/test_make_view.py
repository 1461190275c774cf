"""Views built by hand, as users' unit tests of allocators have them; and the strategies."""

import sys

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

import netsim
from netsim.errors import AllocationError, InputError, MissingExtraError, UnknownNameError
from netsim.testing import check_allocator, check_pattern, make_view, networks, views, workloads
from tests.examples import examples

NET = netsim.big_switch(4, 100.0)


def test_three_lines_are_enough():
    """Job 1 has sent less: it gets its LP rates; what it leaves of the port goes to job 0.

    Job 1's busiest port is egress 0, 300 bytes in 3 s: it fills that port.
    """
    view = make_view(NET, [[(0, 1, 400.0)], [(0, 2, 200.0), (0, 3, 100.0)]], sent=[0.5, 0])
    assert view.rates(netsim.make_allocator("aalo-lbsf").allocate(view)).tolist() == pytest.approx(
        [0, 200 / 3, 100 / 3])


def test_all_that_a_policy_sees():
    first = [(0, 1, 400.0), (2, 2, 9.0), (0, 1, 0.0), (3, 1, 40.0)]
    view = make_view(NET, [first, [(0, 2, 100.0)]],
                     sent=[[100, 0, 0, 40], 0.25], jobs=[0, 2], valid_s=[1, 2], now=3,
                     weight=[1, 2], deadline_s=[7, np.inf], arrival_s=[0, 0.5, 1],
                     attained=[50, 60, 0], completed=[1, 2, 0], ahead_s=[7, 8, 9],
                     predicted_s=[5, 4, 3], gpus=[4, 0, 0], per_gamma=[1.5, 0, 0],
                     profiles=[(4, 2, 1, 3, 0.5), (), (1, 4, 0, 1)],
                     capacity={"egress-0": 50.0}, information="job-clairvoyant")
    assert view.now == 3
    assert (len(view), view.flows, view.jobs) == (2, 2, 2)
    expected = {
        "job": [0, 2], "valid_s": [1, 2], "weight": [1, 2], "width": [1, 1],
        "deadline_s": [7, np.inf], "sent": [140, 25],
        "total": [440, 100], "remaining": [300, 75], "gamma": [6, 1.5],
        "job_arrival_s": [0, 1], "job_attained": [190, 25], "job_completed": [1, 0],
        "job_longest_gamma": [4.4, 1], "job_ahead_s": [7, 9], "job_predicted_s": [5, 3],
        "job_profile": [(4, 2, 1, 3, 0.5), (1, 4, 0, 1, 0)],
        "job_service": [4 * (1.5 * 7 + 6), 9 + 1.5], "coflow": [0, 1], "src": [0, 0],
        "dst": [1, 2], "flow_size": [400, 100], "flow_remaining": [300, 75],
        "flow_sent": [100, 25], "capacity": [50, *[100] * 7]}
    for name, values in expected.items():
        assert getattr(view, name).tolist() == values, name
    assert [part.tolist() for part in view.paths] == [[0, 2, 4], [0, 5, 0, 6]]


SIZES = ("total", "remaining", "gamma", "nominal_gamma", "longest", "job_longest_gamma",
         "flow_size", "flow_remaining")


@pytest.mark.parametrize("name", [*SIZES, "job_predicted_s", "job_ahead_s", "job_service",
                                  "job_profile"])
def test_what_a_policy_may_not_know_is_refused(name):
    blind = make_view(NET, [[(0, 1, 400.0)]], sent=[0.5], ahead_s=[1], information="agnostic")
    needs = {"job_predicted_s": "predicted", "job_ahead_s": "job-clairvoyant",
             "job_service": "job-clairvoyant", "job_profile": "job-clairvoyant",
             }.get(name, "clairvoyant")
    with pytest.raises(InputError, match=f"the policy reads view.{name}, but declares information="
                                         f"'agnostic'.* declare information='{needs}'"):
        getattr(blind, name)
    assert (blind.sent.tolist(), blind.job_attained.tolist()) == ([200], [200])
    assert "job" in blind._repr_html_()


def test_only_the_job_clairvoyant_see_what_is_ahead():
    for information in ("clairvoyant", "predicted", "job-clairvoyant"):
        view = make_view(NET, [[(0, 1, 400.0)]], ahead_s=[1], information=information)
        if information != "job-clairvoyant":
            with pytest.raises(InputError, match=r"view\.job_ahead_s, .*='job-clairvoyant'"):
                view.job_ahead_s  # noqa: B018
        else:
            assert view.job_ahead_s.tolist() == [1]


@pytest.mark.parametrize("leftover", ["none", "maxmin", "greedy"])
def test_rates_of_the_order_of_a_blind_policy(leftover):
    """The first coflow ends in 3 s on the link of 100 bytes/s; the other crosses it, too."""
    view = make_view(NET, [[(0, 1, 300.0)], [(0, 2, 100.0)]], information="agnostic")
    assert view.rates(netsim.Allocation(order=[0, 1], leftover=leftover)).tolist() == [100, 0]


def test_who_runs_where():
    """Those that send, on the hosts of their flows, and others where it is said."""
    coflows = [[(0, 1, 9.0), (1, 2, 0.0)], [(3, 1, 9.0)]]
    assert [part.tolist() for part in make_view(NET, coflows).running()] == [
        [0, 0, 0, 1, 1], [0, 1, 2, 1, 3]]
    view = make_view(NET, coflows, jobs=[0, 2], running=[[], [2, 2], [0], []])
    assert [part.tolist() for part in view.running()] == [
        [0, 0, 0, 1, 2, 2, 2], [0, 1, 2, 2, 0, 1, 3]]
    with pytest.raises(AllocationError, match="does not declare that it sees_running"):
        make_view(NET, coflows, sees_running=False).running()


class Tied(netsim.Allocator):
    """Gives less where more jobs run; says, or not, that it knows."""

    def __init__(self, sees):
        self.sees = sees

    @property
    def sees_running(self):
        return self.sees

    def allocate(self, view):
        return netsim.Allocation(view.maxmin() / (1 + len(view.running().job)))


def test_only_who_declares_it_is_told_who_runs():
    check_allocator(Tied(True), examples=examples(20))
    with pytest.raises(AllocationError, match="does not declare that it sees_running"):
        check_allocator(Tied(False), examples=1)


def test_a_fraction_and_its_bytes_are_the_same_view():
    """In step (one number per coflow) or flow by flow: no policy sees a difference."""
    coflows = [[(0, 1, 400.0), (0, 2, 200.0)], [(3, 1, 100.0)]]
    for sent in ([[100, 50], 0.5], [[100, 50], [50]]):
        one, other = make_view(NET, coflows, sent=[0.25, 0.5]), make_view(NET, coflows, sent=sent)
        for name in ("sent", "remaining", "gamma", "flow_remaining", "flow_sent", "job_attained"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


@pytest.mark.parametrize(("change", "message"), [
    ({"coflows": []}, "at least one coflow"),
    ({"coflows": [[(0, 4, 9.0)], [(0, 1, 9.0)]]}, "host 4 is out of range"),
    ({"coflows": [[(0, 1, 9.0)], []]}, "coflow 1 has nothing left to send"),
    ({"coflows": [[(1, 1, 9.0)], [(0, 1, 9.0)]]}, "coflow 0 has nothing left to send"),
    ({"sent": [[100], 0]}, "coflow 0 has nothing left to send"),
    ({"sent": [0.5]}, "sent has 1 values for 2 coflows"),
    ({"sent": [0.5, 1.0]}, r"coflow 1 has sent the fraction 1.0; it must be in \[0, 1\)"),
    ({"sent": [[101], 0]}, "flow 0 of coflow 0 has sent 101.0 of its 100.0 bytes"),
    ({"sent": [[1, 2], 0]}, "sent of coflow 0 has 2 values for 1 flows"),
    ({"jobs": [1, 0]}, r"in order of \(valid time, job\), not \(0, 1\), \(0, 0\)"),
    ({"jobs": [-1, 0]}, "numbered from 0, not -1"),
    ({"valid_s": [2, 1]}, "in order of"),
    ({"valid_s": [0, 2], "now": 1}, "now is 1, before a coflow becomes valid at 2"),
    ({"arrival_s": [2, 1]}, "must not decrease"),
    ({"running": [[0]]}, "running has 1 values for 2 jobs"),
    ({"running": [[], [4]]}, r"job 1 runs on the hosts \[0, 2, 4\]; network .* the hosts 0 to 3"),
    ({"completed": [1]}, "completed has 1 values for 2 jobs"),
    ({"capacity": {"egress-9": 1}}, "no link 'egress-9'"),
    ({"capacity": {"egress-0": -1}}, "capacity of 'egress-0' must be at least 0"),
])
def test_refused(change, message):
    arguments = {"coflows": [[(0, 1, 100.0)], [(0, 2, 100.0)]]} | change
    with pytest.raises(InputError, match=message):
        make_view(NET, **arguments)


def test_unknown_knowledge_is_refused():
    with pytest.raises(UnknownNameError, match="choose from: agnostic, clairvoyant, job-"):
        make_view(NET, [[(0, 1, 1.0)]], information="all")


@settings(deadline=None, max_examples=examples(50))
@given(views(NET, information="agnostic"))
def test_views_are_consistent(view):
    assert view.capacity.shape == (8,)
    assert np.all(np.diff(view.valid_s) >= 0)
    assert view.valid_s.max() <= view.now
    assert np.bincount(view.coflow, minlength=len(view)).tolist() == view.width.tolist()
    assert not view.shows("remaining")


def one_stage(workload, holds):
    return any(stage.flows is not None and any(holds(flow) for flow in stage.flows)
               for job in workload for stage in job.stages)


@pytest.mark.parametrize(("strategy", "holds"), [
    (networks(), lambda network: network.loopback_uses_ports),
    (networks(), lambda network: len(set(network.capacity)) > 2),
    (views(), lambda view: view.jobs < len(view)),
    (views(), lambda view: view.width.min() < 2 < view.flows),
    (views(), lambda view: view.capacity.min() == 0),
    (views(), lambda view: view.flow_sent.any() and not view.sent.all()),
    (workloads(4), lambda workload: any(job.pattern for job in workload)),
    (workloads(4), lambda workload: any(stage.finishes_before for job in workload
                                        for stage in job.stages)),
    (workloads(4), lambda workload: len({job.arrival_s for job in workload}) < len(workload)),
    (workloads(4), lambda workload: one_stage(workload, lambda flow: flow.src == flow.dst)),
    (workloads(4), lambda workload: one_stage(workload, lambda flow: flow.nbytes == 0)),
    (workloads(4, chains=True), lambda workload: max(len(job.stages) for job in workload) == 3),
])
def test_strategies_reach_the_odd_cases(strategy, holds):
    find(strategy, holds, settings=settings(deadline=None, max_examples=2000, database=None,
                                            phases=[Phase.generate]))


def test_what_is_drawn_needs_hypothesis(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for draw in (views, lambda: check_allocator("maxmin", examples=2)):
        with pytest.raises(MissingExtraError, match="hypothesis is not installed"):
            draw()
    check_pattern("ring-all-reduce")
