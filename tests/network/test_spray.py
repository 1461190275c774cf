"""Packets sprayed over trunks: their capacity, members that fail, what members can carry."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError
from netsim.network.live import LiveTrunks
from netsim.testing import check_topology
from tests.examples import examples

SPINE = netsim.leaf_spine(2, 2, 2, 1.0, routing="spray")


def path(network, src, dst, key=0):
    return [network.link_names[link] for link in network.route(src, dst, key)]


def push(src, dst, nbytes, number=0):
    return netsim.JobSpec(number, hosts=(src, dst), stages=[netsim.Stage("push", [(0, 1, nbytes)])])


@pytest.mark.parametrize(("network", "src", "dst", "expected", "capacity"), [
    (netsim.leaf_spine(2, 3, 2, 6.0, uplink=1.0, routing="spray"), 0, 2,
     ["host-0->leaf-0", "leaf-0->spines", "spines->leaf-1", "leaf-1->host-2"], [6, 3, 3, 6]),
    (netsim.fat_tree(4, 1.0, routing="spray"), 0, 15,
     ["host-0->edge-0", "edge-0->pod-0", "pod-0->cores", "cores->pod-3", "pod-3->edge-7",
      "edge-7->host-15"], [1, 2, 4, 4, 2, 1]),
    (netsim.rail_pod(2, 2, 3, 3.0, intra=9.0, routing="spray"), 0, 3,
     ["gpu-0.0->rail-0", "rail-0->spines", "spines->rail-1", "rail-1->gpu-1.1"], [3, 6, 6, 3]),
    (netsim.ring(3, 1.0, routing="spray"), 0, 1, ["host-0->host-1"], [1]),
])
def test_trunks_have_the_sum_of_their_members(network, src, dst, expected, capacity):
    assert path(network, src, dst) == expected
    assert network.capacity[network.route(src, dst)].tolist() == pytest.approx(capacity)
    check_topology(network, symmetric=True)
    usual = network.cables
    assert usual.routing == "ecmp"
    assert usual.capacity.sum() == pytest.approx(network.capacity.sum())
    described = netsim.network.describe_network(network)
    assert described == netsim.network.describe_network(usual)
    assert described["links"] == usual.links


def test_parallel_links_of_a_graph_are_a_trunk_and_equal_paths_are_not():
    graph = nx.MultiGraph()
    for host, switch in (("a", "left"), ("b", "right")):
        graph.add_edge(host, switch, capacity=9.0)
    for _ in range(2):
        graph.add_edge("left", "right", capacity=2.0)
    network = netsim.from_networkx(graph, routing="spray")
    assert path(network, 0, 1) == ["a->left", "left->right#*", "right->b"]
    assert network.link("left->right") == network.link("left->right#2") == network.route(0, 1)[1]
    for middle in ("up", "down"):
        graph.add_edges_from([("left", middle), ("right", middle)], capacity=1.0)
    graph.remove_edges_from([("left", "right"), ("left", "right")])
    network = netsim.from_networkx(graph, hosts=["a", "b"], routing="spray")
    assert {tuple(path(network, 0, 1, key)) for key in range(9)} == {
        ("a->left", f"left->{middle}", f"{middle}->right", "right->b")
        for middle in ("up", "down")}


@pytest.mark.parametrize("options", [
    {"latency": {"*": "1us", "leaf-0->spine-1": "2us"}},
    {"efficiency": {"leaf-0->spine-1": 0.5}},
    {"packet": {"leaf-0->spine-1": {"payload": 1000, "header": 60}}}])
def test_members_of_a_trunk_must_be_alike(options):
    with pytest.raises(InputError, match=r"trunk 'leaf-0->spines': its members 'leaf-0->spine-0' "
                                         rf"and 'leaf-0->spine-1' differ in {next(iter(options))}"):
        netsim.leaf_spine(2, 2, 2, routing="spray", **options)


def test_layers_must_be_of_switches_that_are_joined_alike():
    graph = SPINE.cables.to_networkx()
    graph.add_node("spine-0", layer="spines")
    graph.add_node("spine-1", layer="spines")
    graph.remove_edges_from([("leaf-1", "spine-1"), ("spine-1", "leaf-1")])
    with pytest.raises(InputError, match="of 'spines' some, but not all, are joined to 'leaf-1'"):
        netsim.from_networkx(graph, routing="spray")
    graph.add_node("host-0", layer="hosts")
    with pytest.raises(InputError, match="host 'host-0' cannot be in a layer"):
        netsim.from_networkx(graph, routing="spray")


def test_a_trunk_that_is_named_in_an_event_is_refused():
    with pytest.raises(InputError, match="is a trunk; name one of its members, such as "
                                         "'leaf-0->spine-0'"):
        netsim.simulate(SPINE, [push(0, 2, 1.0)], allocator="maxmin",
                        events=[{"at": 1, "link": "leaf-0->spines", "kind": "fail"}])


@pytest.mark.parametrize(("event", "sent_s"), [
    # 2 bytes/s until t = 1, then 1 byte/s of what is left, at most 1 of which fits a host's link.
    ({"link": "leaf-0->spine-0", "kind": "fail"}, 1 + 2 / 1),
    ({"link": "spine-1->leaf-1", "factor": 0.5}, 1 + 2 / 1.5),
    ({"switch": "spine-1", "kind": "fail"}, 1 + 2 / 1)])
@pytest.mark.parametrize("door", ["events", "held", "fabric"])
def test_a_trunk_loses_what_its_members_lose(event, sent_s, door):
    """4 bytes leave by a host link of 2 bytes/s, over spines of 1 byte/s each."""
    network = netsim.leaf_spine(2, 2, 1, 2.0, uplink=1.0, routing="spray")
    options = {"allocator": "maxmin", "record": ("links", "coflows")}
    if door == "events":
        result = netsim.simulate(network, [push(0, 1, 4.0)], events=[{"at": 1, **event}], **options)
    elif door == "held":
        held = netsim.Simulation(network, [push(0, 1, 4.0)], **options)
        change_now(held.run(until=1), event)
        result = held.run().result()
    else:
        fabric, result = scripted(network, event, **options)
        links = fabric.links().set_index("link")
        assert list(links.index) == list(network.link_names)
    assert result.coflows["finish_s"][0] == pytest.approx(sent_s)
    links = result.links
    assert set(links["link"][links["bytes"] > 0]) == set(path(network, 0, 1))
    assert links["bytes"].sum() == pytest.approx(4 * 4.0)


def change_now(run, event):
    where = {name: event[name] for name in ("link", "switch") if name in event}
    if "factor" in event:
        run.set_capacity(where["link"], event["factor"] * 1.0)
    else:
        run.fail(**where)


def scripted(network, event, **options):
    import simpy

    env = simpy.Environment()
    fabric = netsim.Fabric(env, network, **options)
    fabric.coflow([(0, 1, 4.0)])
    env.run(until=1)
    change_now(fabric, event)
    env.run()
    return fabric, fabric.result()


def test_a_slow_spine_costs_the_capacity_that_is_lost():
    """Of 4 spines, one at a quarter of its rate: a shift by a leaf takes 4/3.25 times as long."""
    network = netsim.leaf_spine(2, 4, 4, 1.0, routing="spray")
    jobs = [push(k, (k + 4) % 8, 13.0, k) for k in range(8)]
    slow = [{"at": 0, "switch": "spine-0", "kind": "degrade", "factor": 0.25}]
    for events, wanted in (([], 13.0), (slow, 16.0)):
        done = netsim.simulate(network, jobs, allocator="maxmin", events=events)
        assert done.jobs["finish_s"].tolist() == pytest.approx([wanted] * 8, rel=1e-12)


def test_a_pair_without_a_path_of_live_members_waits_and_others_do_not():
    """Leaf 0 has only spine 0 left, leaf 1 only spine 1; leaves 0 and 2 still meet."""
    network = netsim.leaf_spine(3, 2, 1, 2.0, uplink=1.0, routing="spray")
    live = LiveTrunks(network)
    dead = ["leaf-0->spine-1", "spine-0->leaf-1", "leaf-2->spine-1", "spine-1->leaf-2"]
    live.set_dead([live.link(name) for name in dead])
    assert path(live, 0, 2) == path(network, 0, 2)
    waits = path(live, 0, 1)
    assert set(waits) & set(dead)
    assert "leaf-0->spines" not in waits
    events = [{"at": 0, "link": name, "kind": "fail"} for name in dead]
    back = {"at": 5, "link": "spine-0->leaf-1", "kind": "repair"}
    result = netsim.simulate(network, [push(0, 1, 1.0), push(0, 2, 1.0, 1)], allocator="maxmin",
                             events=[*events, back])
    # Of the second job all is sent at 1 byte/s, of the first after the repair.
    assert result.jobs["finish_s"].tolist() == pytest.approx([6.0, 1.0])
    with pytest.raises(netsim.StalledError, match=r"dead links: '[a-z0-2]+-\d->"):
        netsim.simulate(network, [push(0, 1, 1.0)], allocator="maxmin", events=events)


def test_a_pair_goes_round_by_another_leaf_if_that_is_all_there_is():
    network = netsim.leaf_spine(3, 2, 1, 2.0, uplink=1.0, routing="spray")
    live = LiveTrunks(network)
    live.set_dead([live.link("leaf-0->spine-1"), live.link("spine-0->leaf-1")])
    assert path(live, 0, 1) == ["host-0->leaf-0", "leaf-0->spines", "spines->leaf-2",
                                "leaf-2->spines", "spines->leaf-1", "leaf-1->host-1"]
    assert path(live, 1, 0) == path(network, 1, 0)


@settings(max_examples=examples(15))
@given(st.integers(0, 10**6), st.sampled_from(["none", "spines", "cable"]))
def test_what_trunks_allow_members_can_carry(seed, what):
    """With all members alive, with dead spines, and with one dead cable, trunks are exact.

    Rates between leaves that fill trunks as max-min does are split over spines by a linear
    program: for each pair of leaves, parts over spines that add up to its rate, such that no cable
    carries more than it can.
    """
    rng = np.random.default_rng(seed)
    leaves, spines = rng.integers(2, 5, 2)
    alive = np.ones((leaves, spines), np.bool_)
    if what == "spines":
        alive[:, rng.permutation(spines)[1:]] = rng.random(spines - 1) < 0.5
    elif what == "cable":
        alive[rng.integers(leaves), rng.integers(spines)] = False
    trunk = alive.sum(axis=1).astype(float)
    pairs = [(a, b) for a in range(leaves) for b in range(leaves) if a != b]
    rates = filled(rng.permutation(len(pairs)), pairs, trunk, rng)
    assert can_be_split(pairs, rates, alive)


def filled(order, pairs, trunk, rng):
    """Rates of pairs that fill trunks one after the other."""
    up, down, rates = trunk.copy(), trunk.copy(), np.zeros(len(pairs))
    for k in order:
        (a, b), part = pairs[k], rng.choice([1.0, 0.5])
        rates[k] = part * min(up[a], down[b])
        up[a] -= rates[k]
        down[b] -= rates[k]
    return rates


def can_be_split(pairs, rates, alive):
    from scipy.optimize import linprog  # slow to import

    leaves, spines = alive.shape
    sums = np.kron(np.eye(len(pairs)), np.ones(spines))
    cables = np.zeros((2 * leaves * spines, len(pairs) * spines))
    for k, (a, b) in enumerate(pairs):
        for s in range(spines):
            cables[a * spines + s, k * spines + s] = 1
            cables[(leaves + b) * spines + s, k * spines + s] = 1
    return linprog(np.zeros(len(pairs) * spines), cables, np.tile(alive.ravel(), 2) + 1e-9,
                   sums, rates).status == 0


def test_with_two_dead_cables_trunks_may_allow_too_much():
    """Leaf 0 lacks spine 1, leaf 1 lacks spine 0: trunks allow 1 byte/s, and no spine is shared."""
    alive = np.array([[True, False], [False, True]])
    assert not can_be_split([(0, 1), (1, 0)], np.array([1.0, 0.0]), alive)
