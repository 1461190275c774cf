"""Families of networks: counts, oversubscription and bisection by formula, and simulations."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.errors import InputError, UnitError
from netsim.network import describe_network
from netsim.network.describe import BOUND, _flow, bisection_bandwidth

GBPS = 1.25e8

SMALL = [
    netsim.big_switch(4, [1.0, 2.0, 3.0, 5.0]),
    netsim.big_switch(5, egress=[3.0, 1.0, 2.0, 9.0, 9.0], ingress=[1.0, 2.0, 1.0, 1.0, 4.0]),
    netsim.leaf_spine(2, 2, 3), netsim.leaf_spine(3, 2, 2, oversubscription=4),
    netsim.leaf_spine(2, 3, 4, oversubscription=3), netsim.leaf_spine(3, 1, 3, uplink="1Gbps"),
    netsim.leaf_spine(4, 2, 2, oversubscription=0.5), netsim.leaf_spine(1, 2, 5),
    netsim.rail_pod(3, 2, 2), netsim.rail_pod(2, 3, 1, oversubscription=2),
    netsim.ring(2), netsim.ring(3), netsim.ring(7), netsim.ring(8),
    netsim.torus([2, 2]), netsim.torus([4, 2]), netsim.torus([4, 3]), netsim.torus([2, 2, 2]),
]


@pytest.mark.parametrize("net", SMALL, ids=lambda net: f"{net.name}-{net.hosts}-{net.links}")
def test_the_bisection_formula_is_the_least_of_all_splits(net) -> None:
    """By brute force: maximum flow over every way to halve the hosts."""
    found, method = bisection_bandwidth(net)
    flows = [_flow(net, np.isin(np.arange(net.hosts), senders))
             for senders in combinations(range(net.hosts), net.hosts // 2)]
    assert method == "exact"
    assert found == pytest.approx(min(flows), rel=1e-12)


@pytest.mark.parametrize(("leaves", "spines", "hosts", "ratio"), [
    (4, 2, 8, 1.0), (8, 4, 16, 4.0), (2, 3, 5, 2.5), (6, 1, 1, 1.0),
])
def test_leaf_spine_by_formula(leaves, spines, hosts, ratio) -> None:
    net = netsim.leaf_spine(leaves, spines, hosts, "10Gbps", oversubscription=ratio)
    found = describe_network(net)
    assert (found["hosts"], found["switches"]) == (leaves * hosts, leaves + spines)
    assert found["links"] == 2 * leaves * (hosts + spines)
    assert found["layers"] == 2
    assert found["oversubscription"] == pytest.approx(ratio)
    assert found["bisection_bandwidth"] == pytest.approx(leaves * hosts / 2 * 10 * GBPS / ratio)
    assert net.capacity[net.link("leaf-0->spine-0")] == pytest.approx(
        hosts * 10 * GBPS / spines / ratio)


def test_uplinks_of_a_given_capacity() -> None:
    net = netsim.leaf_spine(2, 4, 16, "10Gbps", uplink="20Gbps")
    assert describe_network(net)["oversubscription"] == pytest.approx(2)
    with pytest.raises(InputError, match="give either uplink, '1Gbps', or oversubscription, 2"):
        netsim.leaf_spine(2, 4, 16, oversubscription=2, uplink="1Gbps")


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_fat_tree_by_formula(k) -> None:
    found = describe_network(netsim.fat_tree(k, "1Gbps"))
    hosts = k**3 // 4
    assert (found["hosts"], found["switches"], found["links"]) == (
        hosts, 5 * k * k // 4, 2 * 3 * hosts)
    assert found["oversubscription"] == 1
    assert found["bisection_bandwidth"] == hosts / 2 * GBPS
    assert found["layers"] == 3


def test_fat_tree_routes_stay_as_low_as_they_can() -> None:
    net = netsim.fat_tree(4)
    hops = [len(net.route(0, dst)) for dst in (1, 2, 3, 4, 15)]
    assert hops == [2, 4, 4, 6, 6]
    graph = net.to_networkx()
    ways = nx.all_shortest_paths(graph, "host-0", "host-15")
    assert len(list(ways)) == 4
    taken = {tuple(net.route(0, 15, key)) for key in range(100)}
    assert len(taken) == 4


def test_rail_pod() -> None:
    net = netsim.rail_pod(4, 8, 2, "400Gbps", intra="450GB/s", oversubscription=2)
    found = describe_network(net)
    assert (net.hosts, found["switches"], net.links) == (32, 8 + 2 + 4, 2 * (32 + 32 + 16))
    assert found["oversubscription"] == pytest.approx(2)
    assert found["bisection_method"] == BOUND
    assert found["bisection_bandwidth"] == pytest.approx(16 * 400 * GBPS)  # between servers
    graph = net.to_networkx()
    for server, rail in ((0, 0), (3, 7), (2, 5)):
        assert set(graph.adj[f"gpu-{server}.{rail}"]) == {f"rail-{rail}", f"server-{server}"}
    # GPUs do not relay: across rails and servers it is the spines.
    assert {net.link_names[net.route(0, 15, key)[1]] for key in range(50)} == {
        "rail-0->spine-0", "rail-0->spine-1"}


def test_a_rail_pod_without_spines_relays_in_servers() -> None:
    net = netsim.rail_pod(2, 2, 0, intra="1GB/s")
    assert {tuple(net.link_names[link] for link in net.route(0, 3, key)) for key in range(50)} == {
        ("gpu-0.0->rail-0", "rail-0->gpu-1.0", "gpu-1.0->server-1", "server-1->gpu-1.1"),
        ("gpu-0.0->server-0", "server-0->gpu-0.1", "gpu-0.1->rail-1", "rail-1->gpu-1.1")}
    with pytest.raises(InputError, match="spines = 0 leaves the rails disc"):
        netsim.rail_pod(2, 2, 0)


@pytest.mark.parametrize(("shape", "links", "farthest"), [
    ([2], 2, 1), ([5], 10, 2), ([4, 4, 4], 384, 6), ([2, 3], 6 * 3, 2), ([3, 5], 60, 3),
])
def test_torus_by_formula(shape, links, farthest) -> None:
    net = netsim.torus(shape)
    assert (net.hosts, net.links) == (np.prod(shape), links)
    src = np.zeros(net.hosts, int)
    assert np.diff(net.routes(src, np.arange(net.hosts), src)[0]).max() == farthest
    assert describe_network(net)["oversubscription"] is None


def test_an_odd_torus_has_a_bound() -> None:
    found, method = bisection_bandwidth(netsim.torus([3, 3], "1Gbps"))
    assert method == BOUND
    assert found >= 6 * GBPS


def test_edge_cloud() -> None:
    net = netsim.edge_cloud(3, 4, "1Gbps", "100Mbps", cloud_hosts=2, cloud="10Gbps")
    found = describe_network(net)
    assert (net.hosts, found["switches"], net.links) == (14, 4, 2 * (14 + 3))
    # A site's hosts over its WAN link, 40:1, or the cloud's over all WAN links.
    assert found["oversubscription"] == pytest.approx(max(4 * 1000 / 100, 20_000 / 300))
    assert net.capacity[net.link("cloud->host-13")] == 10 * GBPS
    assert [net.link_names[link] for link in net.route(0, 4)] == [
        "host-0->site-0", "site-0->cloud", "cloud->site-1", "site-1->host-4"]
    assert netsim.edge_cloud(2, 1, cloud_hosts=0).hosts == 2


@pytest.mark.parametrize(("build", "message"), [
    (lambda: netsim.leaf_spine(0, 1, 1), "leaves must be a whole number of at least 1, not 0"),
    (lambda: netsim.leaf_spine(1, 1.5, 1), "spines must be a whole number of at least 1, not 1.5"),
    (lambda: netsim.leaf_spine(1, 1, True), "hosts_per_leaf must be .* not True"),
    (lambda: netsim.leaf_spine(1, 1, 1, oversubscription=0),
     "oversubscription must be a finite number greater than 0, not 0"),
    (lambda: netsim.leaf_spine(1, 1, 1, oversubscription="4:1"), "greater than 0, not '4:1'"),
    (lambda: netsim.leaf_spine(1, 1, 1, oversubscription=float("nan")), "greater than 0, not nan"),
    (lambda: netsim.fat_tree(3), "k must be even, not 3"),
    (lambda: netsim.fat_tree(0), "k must be a whole number of at least 1, not 0"),
    (lambda: netsim.rail_pod(2, spines=-1), "spines must be a whole number of at least 0, not -1"),
    (lambda: netsim.ring(1), "hosts must be a whole number of at least 2, not 1"),
    (lambda: netsim.torus([]), r"shape must be a list of whole numbers, not \[\]"),
    (lambda: netsim.torus("4x4"), "shape must be a list of whole numbers, not '4x4'"),
    (lambda: netsim.torus([4, 1]), "each length of the shape must be .* at least 2, not 1"),
    (lambda: netsim.edge_cloud(1, 1, cloud_hosts=-1), "cloud_hosts must be"),
    (lambda: netsim.torus([2], routing="x"), "unknown routing 'x'"),
    (lambda: netsim.leaf_spine(10**12, 1, 1), "more than 10,000,000 cables; make it smaller"),
    (lambda: netsim.fat_tree(10**400), "more than 10,000,000 cables"),
    (lambda: netsim.rail_pod(10**9), "more than 10,000,000 cables"),
    (lambda: netsim.ring(10**9), "more than 10,000,000 cables"),
    (lambda: netsim.torus([3, 2, 10**9]), "more than 10,000,000 cables"),
    (lambda: netsim.edge_cloud(10**9, 1), "more than 10,000,000 cables"),
])
def test_refused(build, message) -> None:
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize(("build", "message"), [
    (lambda: netsim.fat_tree(4, "0Gbps"), "capacity must be greater than 0"),
    (lambda: netsim.rail_pod(2, intra="-1GB/s"), "intra must be greater than 0"),
    (lambda: netsim.leaf_spine(1, 1, 1, uplink="4"), None),
    (lambda: netsim.edge_cloud(1, 1, wan="slow"), "wan 'slow' is not a number with a unit"),
])
def test_quantities(build, message) -> None:
    if message is None:
        assert build().links == 4
        return
    with pytest.raises(UnitError, match=message):
        build()


# --- simulations ----------------------------------------------------------------------------


def coflows(*flows, arrivals=None, hosts=16):
    """A job per list of flows, rank r on host r."""
    return netsim.Workload([
        netsim.JobSpec(id=job, arrival_s=0.0 if arrivals is None else arrivals[job],
                       stages=[netsim.Stage("send", each)], hosts=range(hosts))
        for job, each in enumerate(flows)])


def finishes(net, workload, allocator):
    return netsim.simulate(net, workload, allocator=allocator).coflows["finish_s"].to_numpy()


@pytest.mark.parametrize("allocator", sorted(netsim.ALLOCATORS))
def test_permutations_on_a_fat_tree_are_as_on_a_big_switch(allocator) -> None:
    """Host j of each edge switch e goes up through aggregation j and core 2j + e: no two meet."""
    k, half = 4, 2
    graph = netsim.fat_tree(k, "1Gbps").to_networkx()
    paths, pairs = [], []
    for pod in range(k):
        for edge in range(half):
            for slot in range(half):
                src, other = (pod * half + edge) * half + slot, (pod + 1) % k
                dst = (other * half + edge) * half + slot
                paths.append([f"host-{src}", f"edge-{pod * half + edge}",
                              f"agg-{pod * half + slot}", f"core-{slot * half + edge}",
                              f"agg-{other * half + slot}", f"edge-{other * half + edge}",
                              f"host-{dst}"])
                pairs.append((src, dst))
    tree = netsim.from_networkx(graph, paths=paths)
    rng = np.random.default_rng(1)
    jobs = [[(src, dst, float(size)) for (src, dst), size in
             zip(pairs, rng.integers(1, 50, len(pairs)) * 1e6, strict=True) if rng.random() < 0.7]
            for _ in range(6)]
    workload = coflows(*jobs, arrivals=sorted(rng.random(6)))
    expected = finishes(netsim.big_switch(16, "1Gbps"), workload, allocator)
    assert finishes(tree, workload, allocator) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("allocator", sorted(netsim.ALLOCATORS))
@pytest.mark.parametrize("build", [lambda: netsim.fat_tree(8, "1Gbps"),
                                   lambda: netsim.leaf_spine(2, 2, 64, "1Gbps")])
def test_traffic_below_one_switch_is_as_on_a_big_switch(allocator, build) -> None:
    """Any traffic among the first four hosts meets on their ports alone."""
    rng = np.random.default_rng(2)
    jobs = [[(int(src), int((src + step) % 4), float(size)) for src, step, size in zip(
        rng.integers(0, 4, 5), rng.integers(1, 4, 5), rng.integers(1, 50, 5) * 1e6, strict=True)]
        for _ in range(8)]
    workload = coflows(*jobs, arrivals=sorted(rng.random(8)), hosts=4)
    expected = finishes(netsim.big_switch(4, "1Gbps"), workload, allocator)
    assert finishes(build(), workload, allocator) == pytest.approx(expected, rel=1e-9)


def test_maxmin_on_an_oversubscribed_leaf_spine_by_hand() -> None:
    """Two leaves of two hosts at 1 MB/s, one spine, 2:1: the uplinks carry 1 MB/s.

    A: 0 -> 2, 3 MB; B: 1 -> 3, 1 MB; E: 1 -> 2, 1 MB: all cross the uplink of leaf 0.
    C: 0 -> 1, 2 MB does not.

    Least share first: the uplink has 1/3 for each of A, B, E; host 0's port has 1/2 for each
    of A, C; host 1's 1/2 for B, E; host 2's 1/2 for A, E. So A = B = E = 1/3. Host 0 has
    1 - 1/3 = 2/3 left for C. Then B and E end at 1 / (1/3) = 3 s, and C at 2 / (2/3) = 3 s.
    A has sent 3 * 1/3 = 1 MB; alone it gets 1 MB/s: the other 2 MB end at 5 s.
    """
    net = netsim.leaf_spine(2, 1, 2, "1MB/s", oversubscription=2)
    assert net.capacity[net.link("leaf-0->spine-0")] == 1e6
    workload = coflows([(0, 2, 3e6)], [(1, 3, 1e6)], [(1, 2, 1e6)], [(0, 1, 2e6)], hosts=4)
    result = netsim.simulate(net, workload, allocator="maxmin")
    by_job = result.coflows.set_index("job")["finish_s"]
    assert by_job[[0, 1, 2, 3]].tolist() == pytest.approx([5, 3, 3, 3], rel=1e-9)
    # What each coflow needs alone: its bytes over 1 MB/s, wherever.
    assert result.coflows.set_index("job")["gamma_s"][[0, 1]].tolist() == pytest.approx([3, 1])
