"""Paths round dead links: who turns, where to, and who has nowhere to go."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError
from netsim.network.live import LiveNetwork

SPINE = netsim.leaf_spine(2, 2, 2, 1.0, oversubscription=1)
FAT_TREE = netsim.fat_tree(4, 1.0)


def names(network, path):
    return [network.link_names[link] for link in path]


def live(network, *dead):
    made = LiveNetwork(network)
    assert made.set_dead([network.link(name) for name in dead]) is bool(dead)
    return made


def test_a_flow_takes_the_other_spine_and_no_other_flow_turns():
    usual = [SPINE.route(0, 2, key) for key in range(20)]
    after = live(SPINE, "leaf-0->spine-1")
    for key, path in enumerate(usual):
        now = names(SPINE, after.route(0, 2, key))
        assert now == ["host-0->leaf-0", "leaf-0->spine-0", "spine-0->leaf-1", "leaf-1->host-2"]
        assert now == names(SPINE, path) or "leaf-0->spine-1" in names(SPINE, path)
        np.testing.assert_array_equal(after.route(2, 0, key), SPINE.route(2, 0, key))
    assert len({tuple(path) for path in usual}) == 2


def test_without_another_way_a_flow_keeps_its_path():
    for dead in (["host-0->leaf-0"], ["leaf-0->spine-0", "leaf-0->spine-1"]):
        np.testing.assert_array_equal(live(SPINE, *dead).route(0, 2, 5), SPINE.route(0, 2, 5))


def test_a_repair_brings_the_usual_paths_back():
    after = live(SPINE, "leaf-0->spine-0")
    assert not after.set_dead([SPINE.link("leaf-0->spine-0")])
    assert after.set_dead([])
    for key in range(9):
        np.testing.assert_array_equal(after.route(0, 3, key), SPINE.route(0, 3, key))


def test_a_way_round_may_be_longer():
    after = live(netsim.ring(5), "host-0->host-1")
    assert names(after, after.route(0, 1)) == [
        "host-0->host-4", "host-4->host-3", "host-3->host-2", "host-2->host-1"]


def test_pairs_with_paths_of_their_own_take_no_others():
    """One of two paths around the ring is given, then both."""
    graph = netsim.ring(4).to_networkx()
    around = [f"host-{host}" for host in (0, 3, 2, 1)]
    direct = ["host-0", "host-1"]
    one = netsim.from_networkx(graph, paths=[around])
    cut = live(one, "host-3->host-2")
    np.testing.assert_array_equal(cut.route(0, 1), one.route(0, 1))
    assert len(cut.route(3, 2)) == 3  # which has no path of its own
    both = netsim.from_networkx(graph, paths=[around, direct])
    for key in range(9):
        assert len(live(both, "host-3->host-2").route(0, 1, key)) == 1
        assert len(live(both, "host-0->host-1").route(0, 1, key)) == 3


def test_a_parallel_link_takes_over():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from("ab", host=True)
    for name in ("one", "two"):
        graph.add_edge("a", "b", name=name, capacity=1.0)
    graph.add_edge("b", "a", capacity=1.0)
    network = netsim.from_networkx(graph)
    assert network.avoidable.tolist() == [True, True, False]
    for dead, other in (("one", "two"), ("two", "one")):
        assert names(network, live(network, dead).route(0, 1, 3)) == [other]


@given(st.sets(st.integers(0, FAT_TREE.links - 1), max_size=12),
       st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=20))
def test_paths_lead_from_host_to_host_and_avoid_dead_links_if_any_does(dead, pairs):
    """Held against networkx: where it finds a path without dead links, ours is a shortest one."""
    network = LiveNetwork(FAT_TREE)
    network.set_dead(dead)
    graph = FAT_TREE.to_networkx()
    ends = {FAT_TREE.link(name): (a, b) for a, b, name in graph.edges(data="name")}
    graph.remove_edges_from([ends[link] for link in dead])
    nodes = list(graph)
    src, dst = np.array(pairs).T
    ptr, links = network.routes(src, dst, np.arange(len(pairs)))
    for k, (start, end) in enumerate(pairs):
        path = links[ptr[k]:ptr[k + 1]].tolist()
        at = nodes[start]
        for link in path:
            assert ends[link][0] == at
            at = ends[link][1]
        assert at == nodes[end]
        usual = FAT_TREE.route(start, end, k).tolist()
        if dead.isdisjoint(usual):
            assert path == usual
        elif nx.has_path(graph, nodes[start], nodes[end]):
            assert dead.isdisjoint(path)
            assert len(path) == nx.shortest_path_length(graph, nodes[start], nodes[end])
        else:
            assert path == usual


def test_links_of_a_host():
    assert netsim.big_switch(3).links_of(1).tolist() == [1, 4]
    assert names(SPINE, SPINE.links_of(3)) == ["host-3->leaf-1", "leaf-1->host-3"]
    assert len(netsim.torus([3, 3]).links_of(4)) == 8
    for wrong in (3, -1, 1.0, True, "host-1"):
        with pytest.raises(InputError, match=r"has no host .*; it has 3, numbered from 0"):
            netsim.big_switch(3).links_of(wrong)


def test_only_ports_cannot_be_gone_round():
    hosts = np.array([name.count("host") == 1 for name in SPINE.link_names])
    np.testing.assert_array_equal(SPINE.avoidable, ~hosts)
    assert not netsim.big_switch(3).avoidable.any()
    assert netsim.ring(3).avoidable.all()
