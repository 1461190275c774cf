"""What a policy gives to a view, or answers, is checked before compiled code uses it."""

import numpy as np
import pytest

import netsim
from netsim.errors import AllocationError, InputError
from netsim.testing import check_allocator, make_view

NET = netsim.big_switch(3, "8Mbps")
FLOWS = [[(0, 1, 3e6)], [(0, 2, 1e6)]]


@pytest.fixture
def view():
    return make_view(NET, FLOWS)


@pytest.mark.parametrize(("answer", "fault"), [
    ({"order": [0, 0]}, r"returned \[0, 0\]; an order must name each of 2 coflows once"),
    ({"order": [-1, 0]}, r"returned \[-1, 0\]; an order must"),
    ({"order": [3e6, 1e6]}, r"returned \[3000000, 1000000\]; an order must"),
    ({"order": [0]}, r"returned an order of shape \(1,\), not \(2,\)"),
    ({"rates": [1.0]}, r"returned rates of shape \(1,\), not \(2,\)"),
    ({"shares": [1.0, 1.0, 1.0]}, r"returned shares of shape \(3,\), not \(2,\)")])
def test_rates_of_a_view_are_those_of_an_allocation_that_a_run_accepts(view, answer, fault):
    with pytest.raises(AllocationError, match=fault):
        view.rates(netsim.Allocation(**answer))


@pytest.mark.parametrize("order", [[0.9, 1.9], [np.nan, 0.0], ["a", "b"]])
def test_an_order_has_whole_numbers(order):
    for make in (lambda: netsim.Allocation(order=order), lambda: netsim.PriorityService(order)):
        with pytest.raises(AllocationError, match="an order must be whole numbers"):
            make()
    assert netsim.Allocation(order=[1.0, 0.0]).order.tolist() == [1, 0]


@pytest.mark.parametrize("block", ["madd", "greedy", "flows_of", "greedy_flows", "split"])
def test_building_blocks_take_no_order_beyond_their_arrays(view, block):
    for order in ([2], [-1], [10**9, 0], [[0, 1]]):
        with pytest.raises(AllocationError, match="an order must have numbers from 0 to 1"):
            getattr(view, block)(order)


@pytest.mark.parametrize("call", [
    lambda view: view.fill([0], [1.0]), lambda view: view.fill([0], view.capacity, [1.0]),
    lambda view: view.greedy_flows([0], [1.0]), lambda view: view.split([0], [1.0]),
    lambda view: view.lp_rates([1.0]), lambda view: view.greedy([0], [1.0]),
    lambda view: view.stretch_flows([1.0]), lambda view: view.link_load([1.0]),
    lambda view: view.link_shares([1.0]), lambda view: view.common_factor([1.0]),
    lambda view: view.crossings([1.0, 1.0], [1.0]),
    lambda view: view.backfill("none", [0], view.capacity, [1.0])])
def test_building_blocks_take_as_many_numbers_as_there_are(view, call):
    with pytest.raises(AllocationError, match=r"must be \d+ numbers, not array\(\[1\.\]\)"):
        call(view)


class Keys(netsim.Allocator):
    """Keys instead of an order: argsort is forgotten."""

    def allocate(self, view):
        return netsim.Allocation(order=view.total)


def test_the_kit_says_what_is_wrong_with_keys_instead_of_an_order():
    with pytest.raises((AssertionError, AllocationError), match="an order must name each of 1 co"):
        check_allocator(Keys)


def test_events_of_a_class_may_be_words():
    class Words(netsim.Allocator):
        wakes_on = "coflow"

        def allocate(self, view):
            return netsim.Allocation(order=np.argsort(view.remaining, kind="stable"))

    assert Words.wakes_on is netsim.Event.COFLOW
    netsim.simulate("parrot-fig2", "parrot-fig2", allocator=Words)
    with pytest.raises(InputError, match=r"wakes_on must be a netsim\.Event.*not \['coflow'\]"):
        type("Wrong", (Words,), {"wakes_on": ["coflow"]})


def test_events_of_an_instance_may_be_words():
    class Own(Keys):
        def __init__(self):
            self.wakes_on = "coflow"

        def allocate(self, view):
            return netsim.Allocation(order=np.argsort(view.remaining, kind="stable"))

    result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator=Own())
    assert result.jobs["finish_s"].notna().all()


def test_values_of_a_policy_are_numbers(view):
    with pytest.raises(AllocationError, match="rates must be numbers"):
        view.link_load(["a", "b"])
