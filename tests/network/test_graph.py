"""Networks from graphs: what becomes a host and a link, and which paths flows take."""

from __future__ import annotations

import copy
import pickle
import time

import networkx as nx
import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError, NetsimWarning, UnitError, UnknownNameError
from netsim.network.routing import mix
from tests.examples import examples

GBPS = 1.25e8


def names(net, src, dst, key=0):
    return [net.link_names[link] for link in net.route(src, dst, key)]


def two_switches() -> nx.Graph:
    """Hosts a, b on s; c on t; s - t."""
    return nx.Graph([("a", "s"), ("b", "s"), ("c", "t"), ("s", "t")])


# --- hosts and links ------------------------------------------------------------------------


def test_an_edge_is_a_link_each_way() -> None:
    graph = two_switches()
    graph.edges["s", "t"]["capacity"] = "2Gbps"
    graph.edges["a", "s"]["capacity"] = 5
    net = netsim.from_networkx(graph, capacity="1Gbps", name="mine")
    assert (net.name, net.hosts, net.links) == ("mine", 3, 8)
    assert [net.capacity[net.link(name)] for name in ("s->t", "t->s", "a->s", "s->a", "b->s")] == [
        2 * GBPS, 2 * GBPS, 5, 5, GBPS]
    assert names(net, 0, 2) == ["a->s", "s->t", "t->c"]
    assert names(net, 2, 1) == ["c->t", "t->s", "s->b"]


def test_directed_edges_are_one_link() -> None:
    graph = nx.DiGraph()
    graph.add_edge("a", "b", capacity=1.0, name="there")
    graph.add_edge("b", "c", capacity=2.0)
    graph.add_edge("c", "a", capacity=3.0)
    net = netsim.from_networkx(graph, hosts=["c", "a"])
    assert net.link_names == ("c->a", "there", "b->c")
    assert net.nodes == ("c", "a", "b")
    assert names(net, 1, 0) == ["there", "b->c"]
    assert net.capacity.tolist() == [3, 1, 2]


def test_who_is_a_host() -> None:
    graph = two_switches()
    assert netsim.from_networkx(graph, capacity=1).nodes[:3] == ("a", "b", "c")
    assert netsim.from_networkx(graph, capacity=1, hosts=["t", "a"]).nodes == (
        "t", "a", "s", "b", "c")
    graph.nodes["s"]["kind"] = "host"
    graph.nodes["t"].update(kind="switch", host=1)  # as GML has it
    graph.nodes["a"]["kind"] = "switch"
    net = netsim.from_networkx(graph, capacity=1)
    assert net.nodes[:net.hosts] == ("s", "t")
    assert netsim.from_networkx(nx.DiGraph([("a", "b"), ("b", "a")]), capacity=1).hosts == 2


def test_parallel_edges_are_parallel_links() -> None:
    graph = nx.MultiGraph()
    graph.add_edge("a", "b", capacity=1)
    graph.add_edge("a", "b", capacity=2)
    net = netsim.from_networkx(graph)
    assert net.link_names == ("a->b", "a->b#2", "b->a", "b->a#2")
    taken = {int(net.route(0, 1, key)[0]) for key in range(20)}
    assert taken == {0, 1}
    again = netsim.from_networkx(net.to_networkx())
    assert (again.link_names, again.capacity.tolist()) == (net.link_names, [1, 2, 1, 2])


def test_names_of_undirected_edges_get_a_direction() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, capacity=1, name="cable")
    assert netsim.from_networkx(graph).link_names == ("cable:0->1", "cable:1->0")


def test_one_host_is_a_network() -> None:
    graph = nx.Graph()
    graph.add_node("a", host=True)
    net = netsim.from_networkx(graph)
    assert (net.hosts, net.links, len(net.route(0, 0))) == (1, 0, 0)
    with pytest.raises(InputError, match=r"has no link 0; it has 0$"):
        net.link(0)


@pytest.mark.parametrize("net", [
    netsim.big_switch(3, [1.0, 2.0, 3.0]), netsim.leaf_spine(2, 2, 2), netsim.fat_tree(4),
    netsim.rail_pod(2, 2, intra="1GB/s"), netsim.torus([3, 2]), netsim.edge_cloud(2, 2),
    netsim.from_networkx(two_switches(), hosts=["t", "a", "c"], capacity=3),
], ids=lambda net: net.name)
def test_round_trip_through_networkx(net) -> None:
    again = netsim.from_networkx(net.to_networkx())
    assert (again.name, again.hosts) == (net.name, net.hosts)
    assert dict(zip(again.link_names, again.capacity, strict=True)) == dict(
        zip(net.link_names, net.capacity, strict=True))
    if not isinstance(net, netsim.BigSwitch):
        assert again.link_names == net.link_names
        assert again.nodes == net.nodes
    src, dst = (each.ravel() for each in np.indices((net.hosts, net.hosts)))
    if net.name != "rail-pod":  # whose GPUs do not relay, which the graph does not say
        assert [[again.link_names[link] for link in again.route(s, d)]
                for s, d in zip(src, dst, strict=True)] == [
            [net.link_names[link] for link in net.route(s, d)]
            for s, d in zip(src, dst, strict=True)]


# --- refused --------------------------------------------------------------------------------


def with_edge(*edge, **attributes) -> nx.Graph:
    graph = two_switches()
    graph.add_edge(*edge, **attributes)
    return graph


def lonely(graph: nx.Graph) -> nx.Graph:
    graph.add_node("z")
    return graph


@pytest.mark.parametrize(("graph", "options", "error", "message"), [
    ([], {}, InputError, r"graph must be a networkx graph, not \[\]"),
    (nx.Graph(), {}, InputError, "has no host: no node has host=True or kind='host', and none"),
    (nx.cycle_graph(4), {"capacity": 1}, InputError, r"name the hosts in hosts=\[...\]"),
    (two_switches(), {}, InputError, "link 'a->s' has no capacity; give the edge"),
    (two_switches(), {"capacity": 0}, UnitError,
     "network 'graph': capacity must be greater than 0, not 0"),
    (with_edge("s", "t", capacity="-1Gbps"), {"capacity": 1}, UnitError,
     "capacity of link 's->t' must be greater than 0, not '-1Gbps'"),
    (with_edge("s", "t", capacity="fast"), {"capacity": 1}, UnitError, "link 's->t' 'fast' is not"),
    (with_edge("s", "t", capacity=float("nan")), {"capacity": 1}, UnitError, "must be finite"),
    (lonely(two_switches()), {"capacity": 1}, InputError, "node 'z' has no edge; if it is not"),
    (with_edge("x", "y"), {"capacity": 1}, InputError,
     "no path from host 0, 'a', to host 3, 'x'"),
    (nx.DiGraph([("a", "b")]), {"capacity": 1}, InputError,
     "to host 0, 'a'; the graph is directed, and 'a->b' leads one way only: unless that is "
     "meant, give directed=False"),
    (nx.Graph([*nx.cycle_graph("abc").edges, ("a", "d")]), {"capacity": 1}, InputError,
     r"only 'd' has a single neighbour; name the hosts in hosts=\[...\]"),
    (two_switches(), {"capacity": 1, "hosts": ["a", "z"]}, InputError,
     "host 'z' is not a node of the graph, which has '.', '.'"),
    (two_switches(), {"capacity": 1, "hosts": ["a", "a"]}, InputError, "hosts lists twice a"),
    (two_switches(), {"capacity": 1, "hosts": []}, InputError, "has no host"),
    (two_switches(), {"capacity": 1, "hosts": 5}, InputError, "hosts must be a list of nodes, not"),
    (two_switches(), {"capacity": 1, "hosts": "a"}, InputError, "a list of nodes, not 'a'"),
    (two_switches(), {"capacity": 1, "routing": "ecpm"}, UnknownNameError,
     r"unknown routing 'ecpm' \(did you mean 'ecmp'\?\)"),
    (two_switches(), {"capacity": 1, "relay": 1}, InputError, "relay must be true or false, not 1"),
    (nx.Graph([(1, "x"), ("1", "x")]), {"capacity": 1}, InputError,
     "two links are named '1->x'; the names of nodes 1 and '1' are the same as text, '1'"),
])
def test_refused(graph, options, error, message) -> None:
    with pytest.raises(error, match=message):
        netsim.from_networkx(graph, **options)


def test_edges_from_a_node_to_itself_are_left_out() -> None:
    """A host with one has still a single neighbour."""
    graph = with_edge("s", "s")
    graph.add_edge("a", "a")
    with pytest.warns(NetsimWarning, match="edges from a node to itself are left out: those of"):
        made = netsim.from_networkx(graph, capacity=1)
    assert made.link_names == netsim.from_networkx(two_switches(), capacity=1).link_names
    assert made.nodes[:made.hosts] == ("a", "b", "c")


@pytest.mark.parametrize(("speed", "rate"), [(1e10, 1.25e9), ("1e10", 1.25e9), ("10Gbps", 1.25e9)])
def test_speeds_of_the_topology_zoo_are_bits_per_second(speed, rate) -> None:
    graph = nx.Graph([("a", "b", {"LinkSpeedRaw": speed})])
    made = netsim.from_networkx(graph, attribute="LinkSpeedRaw")
    assert made.capacity.tolist() == [rate, rate]
    default = netsim.from_networkx(nx.Graph([("a", "b")]), attribute="LinkSpeedRaw", capacity=5.0)
    assert default.capacity.tolist() == [5.0, 5.0]


def test_a_host_is_one_or_not() -> None:
    graph = two_switches()
    graph.nodes["a"]["host"] = "yes"
    with pytest.raises(InputError, match="host of node 'a' must be true or false, not 'yes'"):
        netsim.from_networkx(graph, capacity=1)


def test_hosts_that_do_not_relay_keep_others_apart() -> None:
    """In b - a - c, where a is a host too, b and c reach it, but not each other."""
    graph = nx.Graph([("a", "b"), ("a", "c")])
    options = {"hosts": ["a", "b", "c"], "capacity": 1}
    assert names(netsim.from_networkx(graph, **options), 1, 2) == ["b->a", "a->c"]
    net = netsim.from_networkx(graph, relay=False, **options)
    assert names(net, 1, 0) == ["b->a"]
    with pytest.raises(InputError, match="no path from host 1, 'b', to host 2, 'c'"):
        net.route(1, 2)


def test_hosts_that_do_not_relay_are_gone_around() -> None:
    graph = nx.Graph([("a", "h"), ("h", "b"), ("a", "s"), ("s", "t"), ("t", "b")])
    options = {"hosts": ["a", "h", "b"], "capacity": 1}
    assert names(netsim.from_networkx(graph, **options), 0, 2) == ["a->h", "h->b"]
    net = netsim.from_networkx(graph, relay=False, **options)
    assert names(net, 0, 2) == ["a->s", "s->t", "t->b"]
    assert names(net, 1, 2) == ["h->b"]


# --- shortest paths -------------------------------------------------------------------------


@st.composite
def connected_graphs(draw):
    """Random connected graphs of up to 10 nodes; one to all of them hosts."""
    nodes = draw(st.integers(2, 10))
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    for node in range(1, nodes):
        graph.add_edge(node, draw(st.integers(0, node - 1)))
    for _ in range(draw(st.integers(0, 12))):
        start, end = draw(st.integers(0, nodes - 1)), draw(st.integers(0, nodes - 1))
        if start != end:
            graph.add_edge(start, end)
    hosts = draw(st.lists(st.integers(0, nodes - 1), min_size=1, unique=True))
    return graph, hosts


@settings(max_examples=examples(150), deadline=None)
@given(connected_graphs(), st.sampled_from(["ecmp", "shortest"]), st.integers(-2**40, 2**60))
def test_every_route_is_a_shortest_path(graph_and_hosts, routing, first_key) -> None:
    graph, hosts = graph_and_hosts
    net = netsim.from_networkx(graph, hosts=hosts, capacity=1, routing=routing)
    src, dst = (each.ravel() for each in np.indices((net.hosts, net.hosts)))
    key = first_key + np.arange(len(src))
    ptr, links = net.routes(src, dst, key)
    for flow, (s, d) in enumerate(zip(src, dst, strict=True)):
        path = links[ptr[flow]:ptr[flow + 1]]
        assert len(path) == nx.shortest_path_length(graph, hosts[s], hosts[d])
        at = hosts[s]
        for link in path:
            start, end = map(int, net.link_names[link].split("->"))
            assert start == at
            at = end
        assert at == hosts[d]
        assert net.route(s, d, key[flow]).tolist() == path.tolist()


@pytest.mark.parametrize("pair", [(0, 3), (-1, 1)])
def test_hosts_out_of_range(pair) -> None:
    with pytest.raises(InputError, match=r"'ring' has no host .*; it has 3, numbered from 0"):
        netsim.ring(3).route(*pair)


def test_routes_are_fast() -> None:
    """10,000 flows on 1,024 hosts, searches included: some 0.1 s."""
    net = netsim.fat_tree(16)
    src = np.arange(10_000) * 7 % 1024
    dst = (src + 1 + np.arange(10_000) * 13 % 1023) % 1024
    start = time.process_time()
    net.routes(src, dst, np.arange(10_000))
    assert time.process_time() - start < 1


def test_no_flows_have_no_links() -> None:
    ptr, links = netsim.ring(4).routes(*(np.empty(0, np.int64),) * 3)
    assert (ptr.tolist(), links.tolist()) == ([0], [])


def test_many_flows_go_in_blocks_as_one_by_one() -> None:
    net = netsim.fat_tree(4)
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 16, (2, 9000))
    ptr, links = net.routes(src, dst, np.arange(9000))
    for flow in range(0, 9000, 391):
        assert links[ptr[flow]:ptr[flow + 1]].tolist() == net.route(
            src[flow], dst[flow], flow).tolist()


def test_searches_are_per_switch_and_only_for_what_is_used() -> None:
    net = netsim.leaf_spine(4, 2, 16)
    assert net._shortest._rows == 0
    net.routes(np.zeros(32, int), np.arange(16, 48), np.arange(32))
    assert net._shortest._rows == 2


def test_networks_travel() -> None:
    net = netsim.fat_tree(4)
    expected = names(net, 0, 15, 3)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert names(other, 0, 15, 3) == expected


# --- ECMP -----------------------------------------------------------------------------------


def test_the_hash_is_splitmix64() -> None:
    """The first outputs of the published generator from seed 1234567."""
    seeds = np.uint64(1234567) + np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(seeds).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_the_same_key_takes_the_same_path_for_ever() -> None:
    """As written down once: on another platform or in another process it is the same."""
    net = netsim.fat_tree(4, "1Gbps")
    above = [[name.split("->")[1] for name in names(net, 0, 15, key)[1:3]] for key in range(4)]
    assert above == [["agg-0", "core-0"], ["agg-0", "core-0"], ["agg-0", "core-1"],
                     ["agg-0", "core-1"]]
    ptr, links = net.routes(np.array([0, 3, 12]), np.array([9, 10, 1]), np.array([5, 2**40, -1]))
    assert ptr.tolist() == [0, 6, 12, 18]
    assert links.tolist() == [0, 18, 50, 82, 64, 33, 3, 23, 55, 94, 69, 36, 12, 42, 74, 80, 48, 17]


@pytest.mark.parametrize("pairs", ["one pair", "all pairs"])
def test_flows_spread_evenly_over_spines(pairs) -> None:
    """Within five standard deviations of the even share."""
    net = netsim.leaf_spine(2, 8, 100)
    flows = 8000
    key = np.arange(flows) if pairs == "one pair" else np.zeros(flows, int)
    src = key * 0 if pairs == "one pair" else np.arange(flows) % 100
    dst = key * 0 + 100 if pairs == "one pair" else 100 + np.arange(flows) // 100
    links = net.routes(src, dst, key)[1].reshape(-1, 4)
    counts = np.unique(links[:, 1], return_counts=True)[1]
    assert len(counts) == 8
    assert np.all(abs(counts - flows / 8) < 5 * np.sqrt(flows * 1 / 8 * 7 / 8))


def test_choices_at_different_switches_are_independent() -> None:
    """All (aggregation, core) pairs of a k = 8 fat-tree are as frequent as each other."""
    net = netsim.fat_tree(8)
    flows = 16000
    links = net.routes(np.zeros(flows, int), np.full(flows, 127), np.arange(flows))[1]
    counts = np.unique(links.reshape(-1, 6)[:, 2], return_counts=True)[1]
    assert len(counts) == 16
    assert np.all(abs(counts - 1000) < 5 * np.sqrt(flows / 16))


def test_shortest_is_always_the_first() -> None:
    net = netsim.leaf_spine(2, 8, 2, routing="shortest")
    assert {tuple(names(net, 0, 2, key)) for key in range(50)} == {
        ("host-0->leaf-0", "leaf-0->spine-0", "spine-0->leaf-1", "leaf-1->host-2")}


# --- loopback and given paths ---------------------------------------------------------------


def test_loopback() -> None:
    assert names(netsim.leaf_spine(2, 2, 2), 1, 1) == []
    net = netsim.leaf_spine(2, 2, 2, loopback_uses_ports=True)
    assert names(net, 1, 1) == ["host-1->leaf-0", "leaf-0->host-1"]
    assert names(net, 0, 1) == ["host-0->leaf-0", "leaf-0->host-1"]
    one_way = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    net = netsim.from_networkx(one_way, hosts=["a", "b"], capacity=1, loopback_uses_ports=True)
    assert names(net, 0, 0) == []  # no link leads back


def test_given_paths_go_first() -> None:
    graph = netsim.ring(4).to_networkx()
    way = [f"host-{host}" for host in (0, 3, 2, 1)]
    for paths in ([way], {("host-0", "host-1"): way}, {("host-0", "host-1"): [way]},
                  [tuple(way)]):
        net = netsim.from_networkx(graph, paths=paths)
        assert names(net, 0, 1) == ["host-0->host-3", "host-3->host-2", "host-2->host-1"]
        assert names(net, 1, 0) == ["host-1->host-0"]
        ptr, _ = net.routes(np.array([1, 0, 2, 0]), np.array([0, 1, 2, 1]), np.arange(4))
        assert np.diff(ptr).tolist() == [1, 3, 0, 3]


def test_of_several_given_paths_the_hash_chooses() -> None:
    graph = netsim.ring(4).to_networkx()
    ways = [["host-0", "host-1"], ["host-0", "host-3", "host-2", "host-1"]]
    net = netsim.from_networkx(graph, paths={("host-0", "host-1"): ways})
    lengths = [len(net.route(0, 1, key)) for key in range(400)]
    assert set(lengths) == {1, 3}
    assert abs(lengths.count(1) - 200) < 50
    first = netsim.from_networkx(graph, paths=ways, routing="shortest")
    assert {len(first.route(0, 1, key)) for key in range(40)} == {1}


@pytest.mark.parametrize(("paths", "message"), [
    (5, "paths must be a list of lists of nodes, not 5"),
    ({("a", "x"): 5}, "a path must be a list of nodes, not 5"),
    ([["a", "x", "b"]], r"path \['a', 'x', 'b'\] has the unknown node 'x'"),
    ([["a", "t", "c"]], "is invalid: no link leads from 'a' to 't'"),
    ([["a"]], "needs two or more nodes, each of them once"),
    ([[]], "needs two or more nodes"),
    ([["a", "s", "b", "s", "t", "c"]], "each of them once"),
    ([["a", "s"]], "must lead from a host to a host: 's' is not a host"),
    ([["t", "c"]], "must lead from a host to a host: 't' is not a host"),
    ({("a", "c"): ["a", "s", "b"]}, r"does not lead from .* node of its key \('a', 'c'\)"),
    ({("a", "c"): []}, "does not lead from the first to the second"),
    ({"a": ["a", "s", "b"]}, "does not lead from .* node of its key 'a'"),
    (["asb"], "a path must be a list of nodes, not 'asb'"),
    ([["a", ["s"], "b"]], r"unknown node \['s'\]"),
])
def test_paths_that_are_none(paths, message) -> None:
    with pytest.raises(InputError, match=message):
        netsim.from_networkx(two_switches(), capacity=1, paths=paths)


# --- nodes and edges by any name ----------------------------------------------------------


def star(nodes, switch, **edge):
    """A switch in the middle, with a link to each of the nodes."""
    graph = nx.Graph()
    graph.add_edges_from([(node, switch) for node in nodes], **edge)
    return graph


@pytest.mark.parametrize(("nodes", "switch"), [
    (["a", "b", "c"], "tor"), ([("rack", k) for k in range(3)], ("tor", 0)), ([10, 11, 12], 1)])
def test_nodes_have_the_names_of_the_graph(nodes, switch):
    """Hosts by their nodes, or by the texts of these; numbers are places."""
    net = netsim.from_networkx(star(nodes, switch, capacity=1))
    assert net.host_names == tuple(map(str, nodes))
    named = [str(node) if isinstance(node, int) else node for node in nodes]
    assert net.host_numbers(named).tolist() == [0, 1, 2]
    assert net.links_of(named[2]).tolist() == net.links_of(2).tolist()
    assert net.links_of_switch(switch).tolist() == list(range(6))
    for node in nodes:
        assert net.link((node, switch)) == net.link(f"{node}->{switch}")
    assert netsim.from_networkx(net.to_networkx()).host_names == net.host_names


def test_hosts_whose_names_are_numbers_are_told_from_places():
    net = netsim.from_networkx(star([10, 11, 12], 1, capacity=1))
    for wrong in (lambda: net.host(10),
                  lambda: netsim.simulate(net, [netsim.JobSpec(0, hosts=[10, 11], stages=[
                      netsim.Stage("s", [(0, 1, 1)])])])):
        with pytest.raises(InputError, match=r"one (that )?is named '10'"):
            wrong()


def test_a_run_on_nodes_that_are_tuples():
    """1 MB at 1 MB/s from (0, 0) to (1, 0); the link between fails, and there is a way round."""
    graph = nx.grid_2d_graph(2, 2)
    nx.set_edge_attributes(graph, 1e6, "capacity")
    net = netsim.from_networkx(graph, hosts=graph.nodes, paths={
        ((0, 1), (1, 0)): [(0, 1), (1, 1), (1, 0)], ((0, 1), (1, 1)): [[(0, 1), (1, 1)]]})
    assert names(net, 1, 2) == ["(0, 1)->(1, 1)", "(1, 1)->(1, 0)"]
    push = netsim.Stage("push", [(0, 1, 1e6)])
    job = netsim.JobSpec(0, hosts=[(0, 0), (1, 0)], stages=[push])
    assert job.hosts == ("(0, 0)", "(1, 0)")
    cut = netsim.FaultEvent(0, link=((0, 0), (1, 0)), kind="fail")
    result = netsim.simulate(net, [job], events=[cut], record=["flows", "links"],
                             stragglers={(0, 0): 2})
    assert result.jobs["finish_s"].tolist() == [1.0]
    used = result.links[result.links["bytes"] > 0]
    assert used["link"].astype(str).tolist() == [
        "(0, 0)->(0, 1)", "(0, 1)->(1, 1)", "(1, 1)->(1, 0)"]
    rows = netsim.Workload.from_arrays(src=[(0, 0)], dst=[(1, 1)], nbytes=[1e6])
    assert netsim.simulate(net, rows).jobs["finish_s"].tolist() == [1.0]
    env = simpy.Environment()
    fabric = netsim.Fabric(env, net)
    fabric.fail(host=(1, 1))
    env.run(fabric.transfer((0, 0), (1, 0), 1e6))
    assert env.now == 1


def test_links_by_their_nodes_where_they_are_members_of_trunks():
    """With spraying, the pair of nodes names the trunk of the link."""
    net = netsim.leaf_spine(2, 2, 2, "1Gbps", routing="spray")
    assert net.link(("leaf-0", "spine-1")) == net.link("leaf-0->spine-1")
    job = netsim.JobSpec(0, hosts=[0, 2], stages=[netsim.Stage("s", [(0, 1, 1e6)])])
    events = [[{"at": 0, "kind": "fail", "link": link}]
              for link in ("leaf-0->spine-1", ("leaf-0", "spine-1"))]
    one, other = (netsim.simulate(net, [job], events=each).jobs for each in events)
    assert one.equals(other)


def test_latency_by_the_nodes_of_a_link():
    net = netsim.from_networkx(star([("h", 0), ("h", 1)], "s", capacity=1),
                               latency={(("h", 1), "s"): 2})
    assert net.wire.latency[net.link((("h", 1), "s"))] == net.wire.latency.sum() == 2


@pytest.mark.parametrize(("edge", "options"), [
    ({"capacity": 5, "bandwidth": 1}, {}), ({"bandwidth": 5}, {}),
    ({"rate": 5}, {"attribute": "rate"}), ({"bandwidth": 1}, {"capacity": 5}),
    ({"bandwidth": 5, "capacity": 1}, {"attribute": "bandwidth"}),
    ({"bandwidth": 1}, {"attribute": "rate", "capacity": 5})])
def test_any_attribute_is_the_capacity(edge, options):
    net = netsim.from_networkx(star("ab", "s", **edge), **options)
    assert net.capacity.tolist() == [5.0] * 4


def test_the_attribute_that_is_meant_is_listed():
    with pytest.raises(InputError, match=r"the edge the attribute 'capacity', or capacity=\.\.\. "
                       "with a capacity for all edges without one, or with the name of another "
                       "attribute; choose from: 'rate'"):
        netsim.from_networkx(star("ab", "s", rate=5))


@pytest.mark.parametrize(("speed", "options", "rate"), [
    (10, {"unit": "Gbps"}, 1.25e9), ("10", {"unit": "Gbps"}, 1.25e9),
    (1e10, {"unit": "bps"}, 1.25e9), (np.float32(8), {"unit": "bps"}, 1),
    (3, {"unit": 1e6}, 3e6), (3, {"unit": "MiB/s"}, 3 * 2**20),
    ("2Gbps", {"unit": "bps"}, 2.5e8), (7, {}, 7)])
def test_the_capacity_may_name_an_attribute_and_its_unit(speed, options, rate):
    """The unit is that of plain numbers; what has one keeps it."""
    net = netsim.from_networkx(star("ab", "s", speed=speed), capacity="speed", **options)
    assert net.capacity.tolist() == [rate] * 4


def test_the_unit_is_that_of_all_plain_numbers():
    graph = star("ab", "s")
    graph.edges["a", "s"]["capacity"] = 40
    net = netsim.from_networkx(graph, capacity=10, unit="Gbps")
    assert sorted(net.capacity.tolist()) == [1.25e9, 1.25e9, 5e9, 5e9]
    zoo = netsim.from_networkx(star("ab", "s", LinkSpeedRaw=8e9), capacity="LinkSpeedRaw")
    assert zoo.capacity.tolist() == [1e9] * 4
    kilo = netsim.from_networkx(star("ab", "s", LinkSpeedRaw=8e9), capacity="LinkSpeedRaw",
                                unit="kbps")
    assert kilo.capacity.tolist() == [1e12] * 4


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"capacity": "speed"}, InputError, "capacity='speed' is neither a capacity, such as '10Gbps', "
     "nor an attribute of an edge; choose from: 'rate'"),
    ({"capacity": "rate", "attribute": "speed"}, InputError, "name two attributes; give one"),
    ({"capacity": "rate", "unit": "Gbs"}, UnitError, "unit '1Gbs' has the unknown unit 'Gbs'"),
    ({"capacity": "rate", "unit": 0}, UnitError, "unit must be greater than 0"),
    ({"capacity": "rate", "unit": True}, InputError, "unit must be a unit such as 'Gbps', or the "),
])
def test_attributes_and_units_that_are_none(options, error, message):
    with pytest.raises(error, match=message):
        netsim.from_networkx(star("ab", "s", rate=5), **options)


# --- directed graphs as undirected ones -----------------------------------------------------


def test_a_directed_graph_may_be_meant_as_undirected():
    """An edge that has one back keeps its own capacity each way."""
    graph = nx.DiGraph([("a", "s", {"capacity": 1, "name": "up"}), ("s", "b", {"capacity": 2}),
                        ("b", "s", {"capacity": 3})])
    net = netsim.from_networkx(graph, directed=False)
    assert (net.hosts, net.links) == (2, 4)
    assert {name: net.capacity[net.link(name)] for name in net.link_names} == {
        "up:a->s": 1, "up:s->a": 1, "s->b": 2, "b->s": 3}
    assert names(net, 1, 0) == ["b->s", "up:s->a"]
    assert graph.number_of_edges() == 3  # the user's is as before


def test_parallel_edges_lead_both_ways():
    """Of three edges a -> b and one back, two have none that leads back."""
    graph = nx.MultiDiGraph([("a", "b", {"capacity": k}) for k in (1, 2, 3)])
    graph.add_edge("b", "a", capacity=4)
    net = netsim.from_networkx(graph, hosts="all", directed=False)
    assert dict(zip(net.link_names, net.capacity.tolist(), strict=True)) == {
        "a->b": 1, "a->b#2": 2, "a->b#3": 3, "b->a": 4, "b->a#2": 2, "b->a#3": 3}


@pytest.mark.parametrize("directed", [None, False])
def test_an_undirected_graph_is_the_same_without_direction(directed):
    net = netsim.from_networkx(two_switches(), capacity=1, directed=directed)
    assert net.link_names == netsim.from_networkx(two_switches(), capacity=1).link_names


def test_a_graph_is_directed_or_not():
    with pytest.raises(InputError, match="directed=True is for directed graphs"):
        netsim.from_networkx(two_switches(), capacity=1, directed=True)
    with pytest.raises(InputError, match="directed must be true or false, not 'no'"):
        netsim.from_networkx(two_switches(), capacity=1, directed="no")


def test_all_nodes_may_be_hosts():
    net = netsim.from_networkx(nx.cycle_graph("abc"), hosts="all", capacity=1)
    assert (net.hosts, net.nodes) == (3, ("a", "b", "c"))


# --- paths by weight ------------------------------------------------------------------------


def square(**weights):
    """A square a-b-d and a-c-d of hosts, with weights of 1 but where others are given."""
    graph = nx.Graph()
    for start, end in ("ab", "bd", "ac", "cd", "ad"):
        graph.add_edge(start, end, capacity=1, weight=weights.get(start + end, 1))
    return graph


def test_paths_have_the_least_weight():
    """a-d weighs 5, a-b-d 3 and a-c-d 4; without b's links, a-c-d is the best."""
    net = netsim.from_networkx(square(ad=5, ab=2, cd=3), hosts=list("adbc"), paths="weight")
    assert names(net, 0, 1) == ["a->b", "b->d"]
    assert names(net, 1, 0) == ["d->b", "b->a"]
    assert names(netsim.from_networkx(square(ad=5), hosts=list("adbc")), 0, 1) == ["a->d"]
    dead = np.isin(net.link_names, ["a->b", "b->a", "b->d", "d->b"])
    assert names(net.without(dead), 0, 1) == ["a->c", "c->d"]
    assert not net.without(dead).reaches(np.array([0]), np.array([2]))[0]


def test_equal_weights_are_shared_whatever_the_order_of_the_sum():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in their last digit."""
    graph = nx.Graph()
    for path, weights in (("apqz", (0.1, 0.2, 0.3)), ("arsz", (0.3, 0.2, 0.1))):
        for start, end, weight in zip(path, path[1:], weights, strict=False):
            graph.add_edge(start, end, capacity=1, weight=weight)
    net = netsim.from_networkx(graph, hosts=["a", "z"], paths="weight")
    taken = {net.link_names[net.route(0, 1, key)[0]] for key in range(20)}
    assert taken == {"a->p", "a->r"}
    first = netsim.from_networkx(graph, hosts=["a", "z"], paths="weight", routing="shortest")
    assert {first.link_names[first.route(0, 1, key)[0]] for key in range(20)} == {"a->p"}


@settings(max_examples=examples(100), deadline=None)
@given(connected_graphs(), st.data())
def test_every_path_is_as_light_as_that_of_networkx(graph_and_hosts, data):
    graph, hosts = graph_and_hosts
    for edge in graph.edges.values():
        edge["km"] = data.draw(st.sampled_from([0.1, 0.2, 0.3, 1, 2, 7.5]))
    net = netsim.from_networkx(graph, hosts=hosts, capacity=1, paths="km")
    for s, d in np.ndindex(net.hosts, net.hosts):
        path = [tuple(map(int, net.link_names[link].split("->"))) for link in net.route(s, d, 5)]
        assert [end for _, end in path[:-1]] == [start for start, _ in path[1:]]
        assert sum(graph.edges[edge]["km"] for edge in path) == pytest.approx(
            nx.dijkstra_path_length(graph, hosts[s], hosts[d], "km"))


def test_hosts_that_do_not_relay_are_gone_around_by_weight():
    graph = square(ad=5, ab=1, bd=1, ac=1, cd=2)
    assert names(netsim.from_networkx(graph, hosts=list("adb"), paths="weight"), 0, 1) == [
        "a->b", "b->d"]
    assert names(netsim.from_networkx(graph, hosts=list("adb"), paths="weight", relay=False), 0, 1
                 ) == ["a->c", "c->d"]


@pytest.mark.parametrize(("weight", "options", "message"), [
    (None, {}, "needs a weight of every edge, and link 'a->b' has none; choose from: 'capacity'"),
    (0, {}, "the weight of link 'a->b' must be a finite number greater than 0, not 0"),
    ("far", {}, "of link 'a->b' .* not 'far'"), (float("inf"), {}, "of link 'a->b' .* not inf"),
    (1e13, {}, "weights from 1 to 1e+13 are too far apart"),
    (1, {"paths": "km"}, "paths='km' needs a weight of every edge.*; choose from: 'capacity', 'we"),
    (1, {"routing": "spray"}, "and routing='spray' by trunks of them; give one of both"),
])
def test_weights_that_are_none(weight, options, message):
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        netsim.from_networkx(square(ab=weight), hosts="all", **{"paths": "weight"} | options)


@pytest.mark.parametrize("make", [dict, lambda pairs: {a: dict(ends) for a, ends in pairs}])
def test_all_pairs_of_networkx_are_paths(make):
    """It has paths from nodes to themselves, and from and to switches, too."""
    graph = square(ad=5, ab=2, cd=3)
    paths = make(nx.all_pairs_dijkstra_path(graph, weight="weight"))
    net = netsim.from_networkx(graph, hosts=["a", "d"], paths=paths)
    assert names(net, 0, 1) == ["a->b", "b->d"]
    assert names(net, 1, 0) == ["d->b", "b->a"]


def test_mappings_of_mappings_may_have_several_paths():
    net = netsim.from_networkx(square(), hosts=["a", "d"],
                               paths={"a": {"d": [["a", "b", "d"], ["a", "c", "d"]]}})
    assert {net.link_names[net.route(0, 1, key)[0]] for key in range(20)} == {"a->b", "a->c"}
    with pytest.raises(InputError, match="paths has the unknown node 'x'"):
        netsim.from_networkx(square(), hosts=["a", "d"], paths={"a": {"x": ["a", "x"]}})
    with pytest.raises(InputError, match=r"does not lead from the first to the second node of its "
                       r"key \('a', 'd'\)"):
        netsim.from_networkx(square(), hosts=["a", "d"], paths={"a": {"d": ["d", "b", "a"]}})


def test_files_take_the_same_options(tmp_path):
    graph = nx.DiGraph()
    for start, end, km in (("a", "b", 1), ("b", "d", 1), ("a", "d", 5)):
        graph.add_edge(start, end, LinkSpeed=10, km=km)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    net = netsim.read_network(tmp_path / "g.graphml", directed=False, hosts="all", paths="km",
                              capacity="LinkSpeed", unit="Gbps")
    assert (net.hosts, net.capacity.tolist()) == (3, [1.25e9] * 6)
    assert names(net, 2, 0) == ["d->b", "b->a"]


def test_an_attribute_of_a_file(tmp_path):
    nx.write_graphml(star("ab", "s", speed=5e6), tmp_path / "g.graphml")
    net = netsim.read_network(tmp_path / "g.graphml", attribute="speed")
    assert net.capacity.tolist() == [5e6] * 4
