"""The compiled blocks that serve coflows and flows in order, against their twins.

On switches with links that are degraded or dead, and on a line of hosts, where flows cross one to
three links that no two hosts share alike.
"""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import netsim
from netsim.fabric.allocation import PriorityService
from netsim.testing import make_view, views
from tests.examples import examples
from tests.fabric.test_blocks import close, problem, residual
from tests.twins import kernels, service

SETTINGS = settings(deadline=None, max_examples=examples(150), derandomize=True)


def line_of_hosts(capacities):
    """Hosts in a row that relay, with one capacity for each two neighbours, both ways."""
    row = nx.path_graph(len(capacities) + 1)
    for (one, two), capacity in zip(row.edges, capacities, strict=True):
        row.edges[one, two]["capacity"] = capacity
    return netsim.from_networkx(row, hosts=list(row))


LINE = line_of_hosts([500_000.0, 250_000.0, 750_000.0])
ANY_VIEW = st.one_of(views(), views(LINE), views(LINE, max_coflows=8, max_width=8))


@SETTINGS
@given(ANY_VIEW, st.data())
def test_madd(view, data):
    order = data.draw(st.permutations(range(len(view))))
    rates, left = view.madd(order)
    expected, expected_left = service.madd(problem(view), order, view.capacity)
    close(rates, expected, view)
    close(left, expected_left, view)


@SETTINGS
@given(ANY_VIEW, st.data())
def test_fill(view, data):
    order, before = data.draw(st.permutations(range(len(view)))), residual(data, view)
    rates, left = view.fill(order, before)
    expected, expected_left = service.fill(problem(view), order, before)
    close(rates, expected, view)
    close(left, expected_left, view)


@SETTINGS
@given(ANY_VIEW, st.data())
def test_greedy_flows(view, data):
    order, before = data.draw(st.permutations(range(view.flows))), residual(data, view)
    rates, left = view.greedy_flows(order, before)
    expected, expected_left = service.greedy_flows(problem(view), order, before)
    close(rates, expected, view)
    close(left, expected_left, view)


@st.composite
def services(draw, count):
    """A service in order of so many coflows, by all its rules."""
    primary = draw(st.sampled_from(["none", "madd", "queues"]))
    backfill = draw(st.sampled_from(["none", "maxmin", "greedy"]))
    order = draw(st.permutations(range(count)))
    if primary != "queues":
        by_size = primary == "none" and backfill == "greedy" and draw(st.booleans())
        return PriorityService(order, primary=primary, backfill=backfill, by_size=by_size)
    queue = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    shares = draw(st.sampled_from([(0.5, 0.3, 0.2), (0.25, 0.0, 0.5), (1.0, 0.0, 0.0)]))
    return PriorityService(sorted(order, key=lambda coflow: queue[coflow]), primary=primary,
                           backfill=backfill, queue=queue, queue_shares=shares)


@SETTINGS
@given(ANY_VIEW, st.data())
def test_serve(view, data):
    rule = data.draw(services(len(view)))
    expected = service.serve(problem(view), rule.order, rule.primary, rule.backfill, rule.queue,
                             rule.queue_shares, by_size=rule.by_size)
    close(view.serve(rule), expected, view)


@SETTINGS
@given(ANY_VIEW)
def test_ports(view):
    assert (view.ports(unfinished=True).tolist()
            == kernels.ports(view.coflow, view.src, view.dst).tolist())
    rows = [view._table.flows_of(row) for row in view._table.coflows]
    coflow, flows = np.repeat(range(len(rows)), list(map(len, rows))), np.concatenate(rows)
    assert view.ports().tolist() == kernels.ports(coflow, flows["src"], flows["dst"]).tolist()


@SETTINGS
@given(ANY_VIEW)
def test_bssi(view):
    order, dual = view.bssi()
    expected, expected_dual = kernels.bssi(problem(view), view.weight)
    assert order.tolist() == expected
    assert_allclose(dual, expected_dual, rtol=1e-9)


HALVES = {"primary": "queues", "queue": [0, 1], "queue_shares": [0.5, 0.5]}


@pytest.mark.parametrize(("options", "rates"), [
    ({"primary": "madd", "backfill": "maxmin"}, [2, 1, 2]),
    (HALVES, [0.75, 0.75, 1.5]), (HALVES | {"backfill": "maxmin"}, [1.5, 1.5, 2.5]),
    ({"backfill": "greedy"}, [3, 0, 1]), ({"backfill": "greedy", "by_size": True}, [0, 3, 3])])
def test_service_by_hand(options, rates):
    """A: 4 from 0 to 1 and 2 from 0 to 2. B: 6 from 3 to 1. Ports carry 3, ingress 1 carries 4.

    MADD: Gamma' of A is 6/3 = 2, its rates are 2 and 1. Ingress 1 has 2 left for B, which nothing
    is left of. Halves: egress 0 has 3/2 for A, 3/4 for each flow, and egress 3 has 3/2 for B. In
    the pool egress 0 has 3/2, again 3/4 for each flow of A, and ingress 1 has 4 - 3/4 - 3/2, of
    which A takes 3/4 and B the last 1. Greedily in list order the first flow takes egress 0; by
    size the second does.
    """
    net = netsim.BigSwitch([3, 9, 9, 3], [9, 4, 9, 9])
    view = make_view(net, [[(0, 1, 4.0), (0, 2, 2.0)], [(3, 1, 6.0)]])
    assert view.serve(PriorityService([0, 1], **options)).tolist() == pytest.approx(rates)
    assert service.serve(problem(view), [0, 1], **options).tolist() == pytest.approx(rates)


def test_bssi_by_hand():
    """Loads in s on ports 0 and 1: A 2 and 1, B 1 and 3, C only 2 on port 1; weights 1, 2 and 1.

    Port 1 needs 6 s; w/d is 1, 2/3 and 1/2 there, so that C goes last with theta = 1/2 and leaves
    A and B weights 1/2: dual 1/2 (36 + 1 + 9 + 4)/2 = 12.5. Then port 1 needs 4 s; w/d is 1/2 and
    1/6: B with theta = 1/6, and A keeps 1/3: dual 1/6 (16 + 1 + 9)/2 = 13/6. Last A on port 0:
    theta = 1/6, dual 1/6 (4 + 4)/2 = 2/3.
    """
    net = netsim.BigSwitch([1, 1, 9], [9, 9, 9])
    view = make_view(net, [[(0, 2, 2.0), (1, 2, 1.0)], [(0, 2, 1.0), (1, 2, 3.0)], [(1, 2, 2.0)]],
                     weight=[1.0, 2.0, 1.0])
    for order, dual in (view.bssi(), kernels.bssi(problem(view), view.weight)):
        assert list(order) == [0, 1, 2]
        assert dual == pytest.approx(12.5 + 13 / 6 + 2 / 3)


def test_bssi_serves_the_latest_of_equal_coflows_last():
    """Of 0.1 + 0.2 bytes and 0.3, the first has less weight per second by a rounding only."""
    view = make_view(netsim.BigSwitch([1, 9], [9, 9]), [[(0, 1, 0.1 + 0.2)], [(0, 1, 0.3)]])
    for order, _ in (view.bssi(), kernels.bssi(problem(view), view.weight)):
        assert list(order) == [0, 1]
