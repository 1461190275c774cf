"""Coflows that are taken back before they complete. Ports carry 1 MB/s."""

import pytest
import simpy

import netsim
from netsim.allocators import make_allocator
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.workload.columns import Flows

MB = 1e6
NET = netsim.big_switch(4, MB)


def demand(*flows):
    return RoutedCoflow.of(Flows.of([(s, d, mb * MB) for s, d, mb in flows]), NET)


@pytest.mark.parametrize("allocator", ["maxmin", "parrot", "sebf", "aalo", "srpt",
                                       "coflow-fair"])
def test_who_is_left_has_the_links_alone(allocator):
    """Two flows of 4 MB share a port, whatever the policy: 4 MB have gone after 4 s.

    One is taken back then; the other has what is left of 8 - 4 MB, less what that one had left.
    """
    env, (first, second) = simpy.Environment(0.0), (demand((0, 1, 4)), demand((0, 2, 4)))
    fabric = FabricProcess(env, NET, make_allocator(allocator), [0.0, 0.0])
    a, b = fabric.submit(0, first), fabric.submit(1, second)
    env.run(until=2)
    left = fabric.withdraw(a)
    env.run()
    assert not a.triggered
    assert b.finish_s == pytest.approx(2 + (8 - 2 - left[0] / MB))
    assert fabric.table.jobs["attained"].sum() == pytest.approx((8 - left[0] / MB) * MB)
    assert fabric.table.jobs["completed"].tolist() == [0, 1]
    assert fabric.table.active_jobs == 0


def test_what_has_not_begun_is_whole():
    env = simpy.Environment(0.0)
    fabric = FabricProcess(env, NET, make_allocator("maxmin"), [0.0])
    both = fabric.submit(0, demand((0, 1, 4), (2, 3, 1)))
    assert fabric.withdraw(both).tolist() == [4 * MB, MB]
    env.run()
    assert not both.triggered


def test_flows_that_have_ended_have_nothing_left():
    env = simpy.Environment(0.0)
    fabric = FabricProcess(env, NET, make_allocator("maxmin"), [0.0])
    both = fabric.submit(0, demand((0, 1, 4), (2, 3, 1)))
    env.run(until=1.5)
    assert fabric.withdraw(both) == pytest.approx([2.5 * MB, 0])
    env.run()
    assert not both.triggered
