"""Contention of SJF-BCO as an allocator: by hand, and the proof that rates fit as a property."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.cluster import RingLayout, ring_stages
from netsim.errors import InputError, UnknownNameError
from netsim.testing import make_view
from tests.examples import examples

HOSTS = 6
LEAF_SPINE = netsim.leaf_spine(3, 1, 2, 100.0, oversubscription=2)
SLACK = 1e-9


def policy(**options):
    return netsim.make_allocator({"name": "ring-contention", **options})


def rates(net, coflows, given=None, **options):
    """The rate of each job's flows."""
    view = make_view(net, coflows, running=given)
    found = policy(**options).allocate(view).rates
    return [found[view.coflow == job].tolist() for job in range(len(coflows))]


def ring(*servers):
    edges = RingLayout([(server, 0) for server in servers]).edges
    return [(src, dst, 1000.0) for src, dst in edges]


# --- two jobs on one NIC ------------------------------------------------------------------------


def iteration_times(count, second_starts, iterations=3):
    """Two jobs on servers 0, 1 and 1, 2: c = 1 s, D/b = 2 s, alpha = 1/2, so that f(2) = 5/2."""
    jobs = [netsim.JobSpec(k, arrival_s=at, iterations=iterations, hosts=(k, k + 1),
                           stages=ring_stages(RingLayout([(k, 0), (k + 1, 0)]), 200.0,
                                              compute_s=1.0))
            for k, at in enumerate((0.0, second_starts))]
    result = netsim.simulate(netsim.big_switch(3, 100.0), jobs, allocator={
        "name": "ring-contention", "alpha": 0.5, "count": count})
    return [np.diff([job.arrival_s, *result.coflows["finish_s"][result.coflows["job"] == job.id]])
            for job in jobs]


@pytest.mark.parametrize("count", ["sending", "running"])
def test_two_jobs_in_step(count):
    """Both compute, then both send: c + f(2) D/b = 1 + 5/2 * 2 = 6 s, whoever is counted."""
    for times in iteration_times(count, second_starts=0.0):
        assert times == pytest.approx(6)


def test_two_jobs_that_overlap_in_part():
    """B is d = 1 s late. A sends alone until c + d, d of its D/b = 2 s of bytes; the rest with B.

    That takes f(2) (D/b - d) = 5/2 s: A's iteration is c + d + f(2)(D/b - d) = 4.5 s. By then B
    has sent D/b - d alike, and d are left, which it sends alone while A computes, if d <= c. Then
    B computes, c = d seconds behind A's next coflow: it goes on like that, at 4.5 s for both.
    """
    first, second = iteration_times("sending", second_starts=1.0)
    assert first == pytest.approx(4.5)
    assert second == pytest.approx(4.5)


def test_two_jobs_that_overlap_in_part_and_run_all_the_time():
    """Counting who runs, A takes c + f(2) D/b = 6 s each time, 18 s, though B computes meanwhile.

    B's third iteration begins at 13 and sends from 14: 4 s at 2/5, 1.6 of its 2 s; A ends at 18,
    and the other 0.4 go alone: it takes 1 + 4 + 0.4 s.
    """
    first, second = iteration_times("running", second_starts=1.0)
    assert first == pytest.approx(6)
    assert second == pytest.approx([6, 6, 5.4])


def test_computation_can_hide_contention():
    """B is 2 s late: A sends in [1, 3] and B in [3, 5]. 3 s each; counting who runs, more."""
    first, second = iteration_times("sending", second_starts=2.0, iterations=1)
    assert (first.tolist(), second.tolist()) == ([3], [3])
    first, second = iteration_times("running", second_starts=2.0, iterations=1)
    # A: 1 alone in [1, 2], the other at 2/5, ends at 4.5. B: 0.6 by then, 1.4 alone.
    assert (first.tolist(), second.tolist()) == (pytest.approx([4.5]), pytest.approx([3.9]))


# --- whom it counts -----------------------------------------------------------------------------


def test_jobs_are_counted_and_not_flows():
    """Job 0 sends three flows out of server 0, job 1 one: n = 2, a half each, three times over.

    Those 200 overload the port twofold, so that both jobs get a half of their halves.
    """
    star = [(0, 1, 1000.0), (0, 2, 1000.0), (0, 3, 1000.0)]
    assert rates(netsim.big_switch(4, 100.0), [star, [(0, 3, 1000.0)]]) == [[25] * 3, [25]]


def test_two_coflows_of_a_job_count_once():
    view = make_view(netsim.big_switch(3, 100.0), [ring(0, 1), [(1, 2, 1000.0)]], jobs=[0, 0])
    assert policy().allocate(view).rates.tolist() == [50, 50, 50]
    view = make_view(netsim.big_switch(4, 100.0), [[(0, 1, 9.0)], [(2, 3, 9.0)]], jobs=[0, 0])
    assert policy(alpha=1).allocate(view).rates.tolist() == [100, 100]


def test_finished_flows_do_not_count():
    """Job 1 shares server 2 with job 0, at 100/3 each, until job 0's flow from there has ended."""
    net = netsim.big_switch(5, 100.0)
    coflows = [[(0, 1, 9.0), (2, 3, 9.0)], [(2, 4, 9.0)]]
    assert rates(net, coflows, alpha=1) == [pytest.approx([100 / 3] * 2), pytest.approx([100 / 3])]
    view = make_view(net, coflows, sent=[[0, 9], 0])
    assert policy(alpha=1).allocate(view).rates.tolist() == [100, 100]


def test_running_jobs_count_on_several_servers_only():
    """Of jobs 1 to 3 none sends: 1 runs on 0 and 2, 2 on 0 alone, 3 does not run. n = 2 on 0."""
    net = netsim.big_switch(3, 100.0)
    for count, expected in (("sending", 100), ("running", 50)):
        view = make_view(net, [ring(0, 1)], running=[[], [0, 2], [0, 0], []])
        assert policy(count=count).allocate(view).rates.tolist() == [expected] * 2


def test_flows_are_counted_on_core_links():
    """Both rings leave leaf 0 by its one uplink of 100: a half each, though no server is shared."""
    net = netsim.leaf_spine(2, 1, 2, 100.0, oversubscription=2)
    assert rates(net, [ring(0, 2), ring(1, 3)]) == [[50, 50], [50, 50]]
    assert rates(net, [ring(0, 2), ring(1, 3)], alpha=0.5) == [[40, 40], [40, 40]]


def test_a_failed_link_stops_its_jobs_alone():
    view = make_view(netsim.big_switch(4, 100.0), [ring(0, 1), ring(2, 3)],
                     capacity={"egress-0": 0})
    assert policy().allocate(view).rates.tolist() == [0, 0, 100, 100]


def test_another_degradation():
    """Of two jobs on server 1 each gets 1/f(2): 1/2**1.5; or as measured, 2/5 of the port."""
    net, rings = netsim.big_switch(3, 100.0), [ring(0, 1), ring(1, 2)]
    half = pytest.approx([100 / 2**1.5] * 2)
    assert rates(net, rings, alpha=0.5, degradation="power") == [half] * 2
    assert rates(net, rings, degradation={"name": "table", "values": [2, 5]}) == [[40, 40]] * 2
    third = pytest.approx([100 / 3] * 2)
    assert rates(net, rings, alpha=0.5, degradation=lambda k, alpha: 1 + (k - 1) / alpha) == [
        third] * 2


def test_the_model_of_section_9():
    """With alpha = 0, k_min = 0 and tiny xi1 two jobs on a port share it all the same."""
    assert rates(netsim.big_switch(3, 100.0), [ring(0, 1), ring(1, 2)], k_min=0, xi1=7e-5) == [
        pytest.approx([50, 50]), pytest.approx([50, 50])]


# --- the proof of Section 8 ---------------------------------------------------------------------

RINGS = st.lists(st.lists(st.integers(0, HOSTS - 1), min_size=2, max_size=HOSTS, unique=True)
                 .map(lambda servers: ring(*servers)), min_size=1, max_size=8)
ALPHA = st.one_of(st.just(0.0), st.floats(0.01, 4))
COUNT = st.sampled_from(["sending", "running"])
PARTS = st.lists(st.lists(st.integers(0, HOSTS - 1), max_size=3), min_size=8, max_size=8)


@st.composite
def nets(draw):
    if draw(st.booleans()):
        return LEAF_SPINE
    nics = draw(st.lists(st.sampled_from([50.0, 100.0, 200.0]), min_size=HOSTS, max_size=HOSTS))
    return netsim.big_switch(HOSTS, nics)


@settings(deadline=None, max_examples=examples(150))
@given(nets(), RINGS, ALPHA, COUNT, PARTS, st.sampled_from(["linear", "power"]))
def test_rings_fit_without_being_rescaled(net, rings, alpha, count, computing, degradation):
    """xi1 = 1: a link with n contenders carries n cap/f(n) at most, and f(n) >= n.

    A port is full if and only if alpha = 0 or n = 1, all jobs that count there send, and none of
    them is limited elsewhere; checked on big switches.
    """
    own = computing[:len(rings)]
    view = make_view(net, rings, running=own)
    found = policy(alpha=alpha, count=count, degradation=degradation).allocate(view).rates
    jobs = hosts_of(rings, own if count == "running" else [[]] * len(rings))
    contenders = [len(on) for on in jobs]
    unscaled = by_the_formula(view, contenders, {"linear": lambda n: n + alpha * (n - 1),
                                                 "power": lambda n: n ** (1 + alpha)}[degradation])
    np.testing.assert_allclose(found, unscaled, rtol=SLACK)
    load = view.link_load(found)
    assert (load <= net.capacity * (1 + SLACK)).all()
    if isinstance(net, netsim.BigSwitch):
        for server in range(HOSTS):
            sent, n, cap = found[view.src == server], contenders[server], net.capacity[server]
            full = load[server] >= cap * (1 - SLACK)
            assert full == (0 < n == len(sent) and (alpha == 0 or n == 1)
                            and (sent >= cap / n * (1 - SLACK)).all())


@settings(deadline=None, max_examples=examples(150))
@given(nets(), RINGS, ALPHA, st.floats(0.01, 1), COUNT, PARTS)
def test_rings_fit_when_rescaled(net, rings, alpha, xi1, count, computing):
    """xi1 < 1: dividing by the worst overload makes each term on a link small enough.

    Jobs without an overloaded link keep their rates.
    """
    own = computing[:len(rings)]
    view = make_view(net, rings, running=own)
    found = policy(alpha=alpha, xi1=xi1, count=count).allocate(view).rates
    assert (view.link_load(found) <= net.capacity * (1 + SLACK)).all()
    jobs = hosts_of(rings, own if count == "running" else [[]] * len(rings))

    def slowdown(n):
        k = max(1.0, xi1 * n)
        return k + alpha * (k - 1)

    raw = by_the_formula(view, [len(on) for on in jobs], slowdown)
    over = view.link_load(raw) / net.capacity
    ptr, links = view.paths
    per_flow = np.maximum.reduceat(over[links], ptr[:-1])
    worst = np.array([per_flow[view.coflow == job].max() for job in view.coflow])
    np.testing.assert_allclose(found, raw / np.maximum(1, worst), rtol=SLACK)


def hosts_of(rings, others):
    """The jobs that count on each host: of rings, and of others on several hosts."""
    on = [set() for _ in range(HOSTS)]
    for job, (flows, more) in enumerate(zip(rings, others, strict=True)):
        for host in {src for src, _, _ in flows} | set(more):
            on[host].add(job)
    return on


def by_the_formula(view, contenders, slowdown):
    """Section 8 in words: per job, the least cap/f of its servers, and of core links by flows."""
    ptr, links = view.paths
    least = np.full(len(view), np.inf)
    for f in range(view.flows):
        path = links[ptr[f]:ptr[f + 1]]
        counted = [contenders[view.src[f]], *((links == link).sum() for link in path[1:-1]),
                   contenders[view.dst[f]]]
        limit = min(view.capacity[link] / slowdown(n)
                    for link, n in zip(path, counted, strict=True))
        least[view.coflow[f]] = min(least[view.coflow[f]], limit)
    return least[view.coflow]


# --- bad options --------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"alpha": -0.1}, "alpha must be a finite number of at least 0, not -0.1"),
    ({"alpha": float("nan")}, "alpha must be a finite number of at least 0, not nan"),
    ({"xi1": 0}, r"xi1 must be a number in \(0, 1\], not 0"),
    ({"xi1": 1.5}, r"xi1 must be a number in \(0, 1\], not 1.5"),
    ({"xi1": True}, r"xi1 must be a number in \(0, 1\], not True"),
    ({"k_min": -1}, "k_min must be a finite number of at least 0, not -1"),
    ({"k_min": "1"}, "k_min must be a finite number of at least 0, not '1'"),
    ({"k_min": 0, "alpha": 1, "xi1": 0.25}, r"must be positive for one job alone, but is -0\.5 at "
     r"k = max\(k_min, xi1\) = 0\.25; raise k_min"),
    ({"degradation": lambda k: 2 - k}, "must increase with the contention k"),
])
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        policy(**options)


def test_unknown_count():
    with pytest.raises(UnknownNameError, match="choose from: running, sending"):
        policy(count="all")
