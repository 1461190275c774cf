"""Every compiled building block against its readable twin, on random views.

The views hold coflows in step and not, flows that have ended, and links that are degraded or
dead. Rates are held to 1e-9 of the largest link.
"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import netsim
from netsim import Allocation
from netsim.errors import AllocationError
from netsim.fabric.kernels.binding import bind, bottlenecks
from netsim.fabric.kernels.blocks import fill_paths
from netsim.fabric.kernels.proportional import share_out, update
from netsim.fabric.kernels.rules import MOST, SEQUENCE, SHARE
from netsim.fabric.rule_code import RuleRunner
from netsim.testing import make_view, views
from tests.examples import examples
from tests.twins import kernels as reference

SETTINGS = settings(deadline=None, max_examples=examples(80))
SHARES = st.sampled_from([0.0, 1e-12, 0.125, 0.3, 0.5, 0.9, 1.0])


def problem(view):
    """The view as the twins take it."""
    return reference.Problem(view.flow_remaining, view.coflow, *view.paths, view.capacity)


def per_coflow(data, view, values=SHARES):
    return np.array(data.draw(st.lists(values, min_size=len(view), max_size=len(view))))


def per_flow(data, view, values):
    return np.array(data.draw(st.lists(values, min_size=view.flows, max_size=view.flows)))


def feasible_base(data, view):
    """Shares that fit: some shares, divided by what they are too much by."""
    shares = per_coflow(data, view)
    load = reference.lp_rates(problem(view), shares)
    over = problem(view).link_load(load).sum(axis=0) - view.capacity
    return shares / len(view) if (over > 0).any() else shares


def residual(data, view):
    """What may be left of the links: nothing, a quarter, or all."""
    return view.capacity * np.array(data.draw(st.lists(
        st.sampled_from([0.0, 0.25, 1.0]), min_size=len(view.capacity),
        max_size=len(view.capacity))))


def close(found, expected, view, rtol=1e-12):
    assert_allclose(found, expected, rtol=rtol, atol=1e-9 * view.capacity.max())


@SETTINGS
@given(views())
def test_gamma(view):
    assert_allclose(view.gamma, reference.gamma(problem(view)), rtol=1e-12)


@SETTINGS
@given(views(), st.data())
def test_lp_rates(view, data):
    shares = per_coflow(data, view)
    close(view.lp_rates(shares), reference.lp_rates(problem(view), shares), view)
    close(view.lp_rates(0.5), reference.lp_rates(problem(view), 0.5), view)


@SETTINGS
@given(views(), st.data())
def test_common_factor(view, data):
    """1e-9 of slack in a link may move the factor by that much over the least share, 1/8."""
    shares, base = per_coflow(data, view), feasible_base(data, view)
    assert_allclose(view.common_factor(shares, base),
                    reference.common_factor(problem(view), shares, base), rtol=1e-9, atol=1e-8)


@SETTINGS
@given(views(), st.data())
def test_greedy(view, data):
    order = data.draw(st.permutations(range(len(view))))
    limit, base = per_coflow(data, view), feasible_base(data, view)
    assert_allclose(view.greedy(order, limit, base),
                    reference.greedy(problem(view), order, limit, base), rtol=1e-9, atol=2e-9)


@netsim.compiled
def unasked(coflows, jobs, now, order):
    """Answer nothing: the test writes the answer."""


@SETTINGS
@given(views(), st.data(), st.sampled_from(["order", "shares"]),
       st.sampled_from(["none", "all", "others"]))
def test_share_out(view, data, gives, stretch):
    """What a compiled rule has answered becomes shares, as its form says."""
    count, table = len(view), view._table
    runner = RuleRunner(dataclasses.replace(unasked().compiled_rule, gives=gives, stretch=stretch),
                        table)
    order = data.draw(st.permutations(range(count)))
    # As coflows; the rule says the same by places in the order, if it gives an order.
    shares, most = feasible_base(data, view), per_coflow(data, view)
    given = (shares[order], most[order]) if gives == "order" else (shares, most)
    table.refresh()
    engine = runner.engine(True)
    engine.rule.lists[SEQUENCE][:count] = order
    engine.rule.values[SHARE][:count], engine.rule.values[MOST][:count] = given
    update(engine.shared, table.coflows, table.loads, table.capacity)
    share_out(engine, count)
    expected = reference.share_out(problem(view), order, *given, gives == "order", stretch)
    assert_allclose(runner.shares, expected, rtol=1e-9, atol=1e-8)


@SETTINGS
@given(views(), st.data())
def test_stretch_flows(view, data):
    rates = per_flow(data, view, st.sampled_from([0.0, 1.0, 3e4, 5e5]))
    found = view.stretch_flows(rates)
    close(found, reference.stretch_flows(problem(view), rates), view)
    assert np.all(view.link_load(found) <= view.capacity * (1 + 1e-12))


@SETTINGS
@given(views(), st.data())
def test_maxmin(view, data):
    weights = per_flow(data, view, st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    close(view.maxmin(weights), reference.maxmin(problem(view), weights), view)
    close(view.maxmin(), reference.maxmin(problem(view), np.ones(view.flows)), view)


def test_a_weight_that_is_lost_in_sums_gets_nothing():
    """Of flows on links 0 and 1, 0 and 2, 2 and 3; without a full link a rate would be inf."""
    path = np.array([[0, 1], [0, 2], [2, 3]], np.uint32)
    rates = fill_paths(path, np.array([1e17, 1.0, 1e17]), np.array([10.0, 1.0, 10.0, 1.0]))
    assert_allclose(rates, [1, 0, 1])


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_maxmin_refuses_weights(weights):
    view = make_view(netsim.big_switch(2, 1.0), [[(0, 1, 1.0), (1, 0, 1.0)]])
    with pytest.raises(AllocationError, match="weights must be 2 numbers that are finite"):
        view.maxmin(weights)
    with pytest.raises(AllocationError, match="capacity must be 4 numbers that are finite"):
        view.maxmin(capacity=weights)


@SETTINGS
@given(views(), st.data())
def test_maxmin_on_a_residual(view, data):
    left = residual(data, view)
    expected = reference.maxmin(problem(view)._replace(capacity=left), np.ones(view.flows))
    close(view.maxmin(capacity=left), expected, view)


@SETTINGS
@given(views(), st.data())
def test_split(view, data):
    """Coflow by coflow, or all at once; it adds to the rates, and takes what it gives."""
    order, left = data.draw(st.permutations(range(len(view)))), residual(data, view)
    base = per_flow(data, view, st.sampled_from([0.0, 5.0]))
    for together in (False, True):
        lots = [order] if together else [[coflow] for coflow in order]
        rates, rest = view.split(order, left, base, together=together)
        expected, expected_rest = reference.split(problem(view), lots, left)
        close(rates, base + expected, view)
        close(rest, expected_rest, view)
        assert np.all(rest >= -1e-9 * view.capacity)
        close(left - rest, view.link_load(rates - base), view)


def test_split_by_hand():
    """A: 0->1 and 0->2. B: 3->1. Ports carry 6, the egress of 3 carries 2.

    A first: 6/2 each, which leaves 3 of ingress 1; B gets min(2, 3). Together: A's flows get
    min(6/2, 6/2) and min(6/2, 6), B gets min(2, 6/2): A could use the 1 that B leaves on
    ingress 1, if egress 0 had it.
    """
    net = netsim.BigSwitch([6, 6, 6, 2], [6, 6, 6, 6])
    view = make_view(net, [[(0, 1, 1.0), (0, 2, 1.0)], [(3, 1, 1.0)]])
    for together in (False, True):
        rates, left = view.split([0, 1], together=together)
        assert rates.tolist() == [3, 3, 2]
        assert left.tolist() == [0, 6, 6, 0, 6, 1, 3, 6]


@SETTINGS
@given(views(max_coflows=8, max_width=12))
def test_maxmin_is_fair(view):
    """Every flow crosses a full link on which no flow is faster: that is max-min fairness."""
    rates = view.maxmin()
    load = view.link_load(rates)
    ptr, links = view.paths
    fastest = np.zeros(len(view.capacity))
    np.maximum.at(fastest, links, np.repeat(rates, np.diff(ptr)))
    slack = 1e-9 * view.capacity.max()
    for flow, rate in enumerate(rates):
        path = links[ptr[flow]:ptr[flow + 1]]
        full = load[path] >= view.capacity[path] - slack
        assert np.any(full & (fastest[path] <= rate + slack))


@SETTINGS
@given(views(), st.data())
def test_all_forms_of_an_allocation(view, data):
    """`rates` turns shares into LP rates and weights into a weighted max-min sharing."""
    shares = per_coflow(data, view)
    weights = per_flow(data, view, st.sampled_from([0.0, 1.0, 2.0]))
    close(view.rates(Allocation(shares=shares)), reference.lp_rates(problem(view), shares), view)
    close(view.rates(Allocation(weights=weights)), reference.maxmin(problem(view), weights), view)
    assert view.rates(Allocation(weights)).tolist() == weights.tolist()


@SETTINGS
@given(views())
def test_leaving_step_changes_nothing_that_a_policy_sees(view):
    """Rates for single flows take over from shares: the same bytes, told flow by flow."""
    names = ("remaining", "sent", "gamma", "flow_remaining", "flow_sent")
    before = [getattr(view, name) for name in names]
    view._table.apply_rates(np.zeros(view.flows), view.now, True)
    after = netsim.FabricView(view._table, view.now)
    for name, values in zip(names, before, strict=True):
        assert_allclose(getattr(after, name), values, rtol=1e-12)


@SETTINGS
@given(views())
def test_loads(view):
    """`link_load` of the LP rates is the twin's loads, summed over coflows."""
    rates = view.lp_rates()
    close(view.link_load(rates), problem(view).link_load(rates).sum(axis=0), view)


@SETTINGS
@given(views(), st.data())
def test_link_shares(view, data):
    """Shares of LP rates never load a link by more than they add up to on it."""
    shares = per_coflow(data, view)
    reserved = view.link_shares(shares)
    assert_allclose(reserved, reference.link_shares(problem(view), shares), rtol=1e-12, atol=0)
    load = view.link_load(view.lp_rates(shares))
    assert np.all(load <= reserved * view.capacity + 1e-9 * view.capacity.max())


def test_three_flows_by_hand():
    """0->1 and 0->2 on a port of 6, 3->2 on one of 10, ports into 2 of 4; weights 1, 2, 1.

    Levels: egress 0 at 6/3, ingress 2 at 4/3: flows 1 and 2 get 8/3 and 4/3. Then egress 0
    has 6 - 8/3 = 10/3 left for flow 0, but ingress 1 lets it have 10/3 too, of 4.
    """
    net = netsim.BigSwitch([6, 6, 6, 10], [4, 4, 4, 4])
    view = make_view(net, [[(0, 1, 1.0), (0, 2, 1.0), (3, 2, 1.0)]])
    weights = np.array([1.0, 2.0, 1.0])
    for shared in (view.maxmin(weights), reference.maxmin(problem(view), weights)):
        assert_allclose(shared, [10 / 3, 8 / 3, 4 / 3])


def test_two_coflows_by_hand():
    """A: 6 from 0 to 1, 3 from 0 to 2; B: 4 from 3 to 1. Egress of 0 is 3, ingress of 1 is 4.

    Gamma of A is 9/3 = 3 (LP rates 2 and 1), of B 4/4 = 1. With A at share 1, ingress 1 has
    4 - 2 left for B, which could use 4: x = 1/2. Both times the same: 2x + 4x <= 4, x = 2/3.
    """
    net = netsim.BigSwitch([3, 9, 9, 9], [9, 4, 9, 9])
    view = make_view(net, [[(0, 1, 6.0), (0, 2, 3.0)], [(3, 1, 4.0)]])
    ones = np.ones(2)
    assert view.gamma.tolist() == reference.gamma(problem(view)).tolist() == [3, 1]
    assert view.lp_rates().tolist() == reference.lp_rates(problem(view)).tolist() == [2, 1, 4]
    assert view.greedy([0, 1]).tolist() == [1, 0.5]
    assert reference.greedy(problem(view), [0, 1], ones, 0 * ones).tolist() == [1, 0.5]
    assert_allclose(view.common_factor(), 2 / 3)
    assert_allclose(reference.common_factor(problem(view), ones, 0 * ones), 2 / 3)


def test_a_dead_link_stops_its_coflow_only():
    """Coflow 0 needs the dead link: Gamma is inf, LP rates 0, and it takes nothing from 1."""
    net = netsim.BigSwitch([4, 4], [4, 4])
    view = make_view(net, [[(0, 1, 8.0), (1, 0, 8.0)], [(1, 0, 2.0)]], capacity={"egress-0": 0})
    assert view.gamma.tolist() == [np.inf, 0.5]
    assert view.lp_rates().tolist() == [0, 0, 4]
    assert view.greedy([0, 1])[1] == 1
    assert view.maxmin().tolist() == [0, 2, 2]


@pytest.mark.parametrize("block", ["lp_rates", "common_factor", "greedy"])
def test_blocks_that_need_sizes_refuse_the_blind(block):
    view = make_view(netsim.big_switch(2, 4.0), [[(0, 1, 8.0)]], information="agnostic")
    with pytest.raises(AllocationError, match=f"{block} needs flow sizes"):
        getattr(view, block)(*[[0]] if block == "greedy" else [])


@SETTINGS
@given(views(), st.data())
def test_crossings(view, data):
    """At rates of any size, with limits that flows reach as they end, or never."""
    rates = per_flow(data, view, st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    ahead = view.remaining * per_coflow(data, view, st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]))
    limit = view.sent + ahead
    expected = view.now + reference.crossing_in(problem(view), rates, ahead, 1e-9 * limit)
    assert_allclose(view.crossings(limit, rates), expected, rtol=1e-9, atol=1e-9)


@SETTINGS
@given(views())
def test_rows_of_flows_and_their_bottlenecks(view):
    """What flows bring to the fabric, and the seconds that each coflow takes alone."""
    rows, flows, _, loads = bind(view.src, view.dst, view.flow_remaining, *view.paths,
                                 view.capacity, np.cumsum(view.width))
    assert_allclose(rows["gamma"], reference.gamma(problem(view)), rtol=1e-12)
    assert flows["remaining"].tolist() == view.flow_remaining.tolist()
    fast = problem(view)._replace(capacity=view.capacity + 1.0)
    assert_allclose(bottlenecks(rows, loads, fast.capacity), reference.gamma(fast), rtol=1e-12)


@SETTINGS
@given(views(), st.data())
def test_what_links_carry(view, data):
    """A quarter of a second at rates, or at shares: flows stop as they end."""
    dt, table = 0.25, view._table
    for put in (table.apply_rates, table.apply_shares):
        given = (per_flow(data, view, st.sampled_from([0.0, 1.0, 3e4, 5e5]))
                 if put == table.apply_rates else per_coflow(data, view))
        rates = given if put == table.apply_rates else view.lp_rates(given)
        put(given, view.now, False)
        sent = problem(view).link_load(np.minimum(rates * dt, view.flow_remaining)).sum(axis=0)
        assert_allclose(table.carried(view.now, view.now + dt), sent, rtol=1e-9, atol=1e-6)


@SETTINGS
@given(views(), st.booleans(), st.data())
def test_what_is_too_fast_slows_down(view, in_step, data):
    """Links keep all, a half or nothing of their capacities."""
    shares, table = per_coflow(data, view), view._table
    before = view.lp_rates(shares)
    if in_step:
        table.apply_shares(shares, view.now, False)
    else:
        table.apply_rates(before, view.now, False)
    kept = data.draw(st.lists(st.sampled_from([1.0, 0.5, 0.0]), min_size=len(view.capacity),
                              max_size=len(view.capacity)))
    less = problem(view)._replace(capacity=view.capacity * kept)
    for link, capacity in enumerate(less.capacity):
        table.set_capacities({link: capacity})
    table.throttle(view.now)
    rows, (index, owner) = table.flows, table.open_flows()
    found = (table.coflows["speed"][owner] * rows["remaining"][index] if in_step
             else rows["rate"][index])
    close(found, reference.throttle(less, before, in_step), view)


def test_a_flow_slows_down_to_its_slowest_link():
    """It sends 8 B/s over two links of 8 B/s, of which 2 and 4 are left: then 2, not 8/4 * 4/8."""
    view = make_view(netsim.big_switch(2, 8.0), [[(0, 1, 100.0)]])
    view._table.apply_rates(np.array([8.0]), view.now, False)
    view._table.set_capacities({0: 2.0, 3: 4.0})
    view._table.throttle(view.now)
    assert view._table.flow_rates().tolist() == [2.0]
