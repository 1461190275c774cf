"""Times with latency, overhead and headers that can be written down: the algebra is in each test.

B is the rate of a port in bytes per second, S bytes, L the latency of a path, o the overhead before
each stage, a = L + o; n ranks, and d = log2 n where n is a power of two.
"""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.collectives import bandwidths, closed_form_s
from netsim.network import Packet, Wire, from_networkx
from tests.examples import examples

B, S, L, OVERHEAD = 1e9, 8e6, 4e-6, 7e-6
A = L + OVERHEAD


def switch(hosts, **more):
    """A switch with ports of rate B, each of which has half of a path's latency."""
    network = netsim.big_switch(hosts, B)
    network.wire = Wire(network.links, L / 2, overhead=OVERHEAD, **more)
    return network


def jct(network, **job):
    result = netsim.simulate(network, [netsim.JobSpec(0, **job)], allocator="maxmin")
    return float(result.jobs["jct_s"].iloc[0])


def time_of(collective, n, algorithm=None, form="steps", nbytes=S, **options):
    pattern = {"name": collective, "form": form, **options}
    if algorithm is not None:
        pattern["algorithm"] = algorithm
    return jct(switch(n), pattern=pattern, ranks=n, nbytes=nbytes, hosts=range(n))


# --- collectives on an idle switch: alpha-beta times ----------------------------------------


@pytest.mark.parametrize(("collective", "algorithm", "options", "steps", "volume"), [
    ("all-reduce", "ring", {}, 14, 14 / 8),             # 2(n - 1)(S/(n B) + a)
    ("all-reduce", "direct", {}, 2, 14 / 8),            # 2((n - 1) S/(n B) + a)
    ("all-reduce", "halving-doubling", {}, 6, 14 / 8),  # 2(n - 1)/n S/B + 2d a
    ("all-reduce", "tree", {}, 6, 10),                  # (4d - 2) S/B + 2d a
    ("all-reduce", "double-tree", {}, 6, 5),            # (2d - 1) S/B + 2d a
    ("all-reduce", "hierarchical", {"group": 4}, 8, 6 / 4 + 2 / 8),
    # 2(g - 1)(S/(g B) + a) + 2(G - 1)(S/(n B) + a), with g = 4 and G = 2
    ("reduce-scatter", "ring", {}, 7, 7 / 8),           # (n - 1)(S/(n B) + a)
    ("reduce-scatter", "direct", {}, 1, 7 / 8),         # (n - 1) S/(n B) + a
    ("reduce-scatter", "recursive", {}, 3, 7 / 8),      # (n - 1)/n S/B + d a
    ("all-gather", "ring", {}, 7, 7 / 8),
    ("all-gather", "direct", {}, 1, 7 / 8),
    ("all-gather", "recursive", {}, 3, 7 / 8),
    ("broadcast", "ring", {"chunks": 5}, 11, 11 / 5),   # (n - 2 + k)(S/(k B) + a)
    ("broadcast", "tree", {"chunks": 5}, 7, 13 / 5),    # (2(d + k) - 3) S/(k B) + (d + k - 1) a
    ("reduce", "ring", {"chunks": 5, "root": 3}, 11, 11 / 5),
    ("reduce", "tree", {"chunks": 5, "root": 3}, 7, 13 / 5),
    ("all-to-all", "direct", {}, 1, 7 / 8),             # (n - 1) S/(n B) + a
    ("all-to-all", "pairwise", {}, 7, 7 / 8),           # (n - 1)(S/(n B) + a)
    ("send-recv", None, {}, 1, 1),                      # S/B + a
    ("barrier", None, {}, 3, 0),                        # d a
])
def test_eight_ranks(collective, algorithm, options, steps, volume):
    """Steps of a each, one after the other, and the bytes of the fullest port of each."""
    found = time_of(collective, 8, algorithm, **options)
    assert found == pytest.approx(steps * A + volume * S / B, rel=1e-9)


@pytest.mark.parametrize(("n", "steps", "volume"), [
    (5, 6, 2 * 3 / 4 + 2), (6, 6, 2 * 3 / 4 + 2), (7, 6, 2 * 3 / 4 + 2), (9, 8, 2 * 7 / 8 + 2)])
def test_halving_doubling_folds_what_is_no_power_of_two(n, steps, volume):
    """2(p - 1)/p S/B + 2 log2 p a among the p = 4 or 8 that are left, and 2(S/B + a) around it."""
    assert time_of("all-reduce", n, "halving-doubling") == pytest.approx(
        steps * A + volume * S / B, rel=1e-9)


FLAT = ["ring", "direct", "halving-doubling"]
EQUAL = [*(("all-reduce", each) for each in FLAT), ("reduce-scatter", "ring"),
         ("reduce-scatter", "direct"), ("reduce-scatter", "recursive"), ("all-gather", "ring"),
         ("all-gather", "direct"), ("all-gather", "recursive"), ("all-to-all", "direct"),
         ("all-to-all", "pairwise"), ("send-recv", "direct")]


@settings(deadline=None, max_examples=examples(20), derandomize=True)
@given(which=st.sampled_from(EQUAL), n=st.integers(2, 9), nbytes=st.floats(1e3, 1e8))
def test_aggregated_equals_steps_and_the_formula(which, n, nbytes):
    """Where in each phase one port is the fullest in every step, which trees and chains are not.

    The overhead of the aggregated coflow is that of all steps, with their latencies but the last.
    """
    steps, whole = (time_of(which[0], n, which[1], form, nbytes) for form in ("steps", "aggregate"))
    assert whole == pytest.approx(steps, rel=1e-9)
    assert steps == pytest.approx(closed_form_s(*which, n, nbytes, B, L, OVERHEAD), rel=1e-9)


@pytest.mark.parametrize("which", [("all-reduce", "tree"), ("all-reduce", "double-tree"),
                                   ("broadcast", "ring"), ("reduce", "tree")])
def test_aggregated_trees_and_chains_take_less_than_any_number_of_chunks(which):
    """They are the limit of endless pipelining, with the latencies of one chunk."""
    whole = time_of(which[0], 8, which[1], "aggregate")
    for chunks in (1, 4, 16):
        assert whole < time_of(which[0], 8, which[1], chunks=chunks)


@settings(deadline=None, max_examples=examples(10), derandomize=True)
@given(which=st.sampled_from([*EQUAL, ("all-reduce", "tree"), ("all-reduce", "double-tree")]),
       n=st.integers(2, 9), header=st.sampled_from([0.0, 80.0]), part=st.floats(0.2, 1.0))
def test_busbw_stays_below_the_line_rate(which, n, header, part):
    """B times the efficiency and the share of payload in a packet, whatever the algorithm."""
    network = switch(n, efficiency=part, packet=Packet(1000.0, header))
    pattern = {"name": which[0], "algorithm": which[1]}
    took = jct(network, pattern=pattern, ranks=n, nbytes=S, hosts=range(n))
    assert bandwidths(which[0], n, S, took).busbw <= B * part * 1000 / (1000 + header)


# --- one flow, and a chain of two stages ----------------------------------------------------


def line(rates, latencies):
    """Two hosts, with switches between them on links of these rates and latencies."""
    nodes = ["host-0", *(f"switch-{k}" for k in range(len(rates) - 1)), "host-1"]
    graph = nx.Graph()
    for ends, rate, latency in zip(pairwise(nodes), rates, latencies, strict=True):
        graph.add_edge(*ends, capacity=rate, latency=latency)
    return from_networkx(graph, hosts=["host-0", "host-1"])


def test_nothing_is_stored_and_forwarded():
    """S/min B + L1 + L2 + L3: not a transmission per link, nor a packet per switch."""
    network = line([2 * B, B, 4 * B], [1e-6, 20e-6, 3e-6])
    stages = [netsim.Stage("s", [(0, 1, S)])]
    assert jct(network, stages=stages, hosts=(0, 1)) == pytest.approx(S / B + 24e-6, rel=1e-12)
    network.wire = Wire(network.links, network.wire.latency, packet=Packet(4096.0, 82.0))
    wire = S + 82 * np.ceil(S / 4096)
    assert jct(network, stages=stages, hosts=(0, 1)) == pytest.approx(wire / B + 24e-6, rel=1e-12)


@pytest.mark.parametrize("overhead", [0.0, 5e-6])
def test_a_chain_of_two_stages_over_three_links(overhead):
    """Each waits for the one before to arrive: 2(o + S/B + L1 + L2 + L3), and computation between.

    The second one goes back over the same three links, which are as slow in that direction.
    """
    network = line([B, B, B], [1e-6, 20e-6, 3e-6])
    network.wire = Wire(network.links, network.wire.latency, overhead=overhead)
    stages = [netsim.Stage("there", [(0, 1, S)]),
              netsim.Stage("back", [(1, 0, S)], after=["there"], compute_s=9e-6)]
    assert jct(network, stages=stages, hosts=(0, 1)) == pytest.approx(
        2 * (overhead + S / B + 24e-6) + 9e-6, rel=1e-12)


# --- several flows --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_an_incast(n):
    """All n S bytes cross one port: o + n S/B + L."""
    flows = [(1 + k, 0, S) for k in range(n)]
    found = jct(switch(n + 1), stages=[netsim.Stage("incast", flows)], hosts=range(n + 1))
    assert found == pytest.approx(OVERHEAD + n * S / B + L, rel=1e-12)


def test_an_incast_of_unequal_messages():
    """With sizes S, 2S and 4S the port is shared by three, by two, then by one.

    Sent after 3S/B, 3S/B + 2S/B and 7S/B; each arrives L later.
    """
    jobs = [netsim.JobSpec(k, stages=[netsim.Stage("s", [(1 + k, 0, size * S)])], hosts=range(4))
            for k, size in enumerate((1, 2, 4))]
    found = netsim.simulate(switch(4), jobs, allocator="maxmin").jobs["jct_s"]
    np.testing.assert_allclose(found, A + np.array([3, 5, 7]) * S / B, rtol=1e-12)


def servers(count, gpus, latency):
    """Servers whose GPUs have endless links to a switch inside, and a NIC of rate B each.

    A path inside has two links, one between servers four, so that the shortest one is taken.
    """
    graph, hosts = nx.Graph(), [f"gpu-{k}" for k in range(count * gpus)]
    for k, gpu in enumerate(hosts):
        graph.add_edge(gpu, f"inside-{k // gpus}", capacity=1e18)
        graph.add_edge(gpu, f"nic-{k}", capacity=B)
        graph.add_edge(f"nic-{k}", "fabric", capacity=B, latency=latency / 2)
    return from_networkx(graph, hosts=hosts, relay=False)


@pytest.mark.parametrize("latency", [0.0, L])
def test_hierarchical_against_flat_where_what_is_inside_is_free(latency):
    """G servers of g GPUs: 2(G - 1)(S/(n B) + L) against 2(n - 1)(S/(n B) + L) of a flat ring.

    The flat ring thus takes (n - 1)/(G - 1) times as long, n = G g.
    """
    count, gpus = 3, 4
    n, network = count * gpus, servers(count, gpus, latency)
    job = {"ranks": n, "nbytes": S, "hosts": range(n)}
    flat = jct(network, pattern="all-reduce", **job)
    across = jct(network, pattern={"name": "all-reduce", "algorithm": "hierarchical",
                                   "group": gpus}, **job)
    assert flat == pytest.approx(2 * (n - 1) * (S / (n * B) + latency), rel=1e-6)
    assert across == pytest.approx(2 * (count - 1) * (S / (n * B) + latency), rel=1e-6)
    assert flat / across == pytest.approx((n - 1) / (count - 1), rel=1e-6)
