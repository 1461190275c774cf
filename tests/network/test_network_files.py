"""Networks from graph files, by suffix and by kind; what is wrong in them is said with the file."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.network import make_network, read_network, ready_made
from netsim.network.files import changed_name

GBPS = 1.25e8


@pytest.fixture
def graph() -> nx.Graph:
    made = nx.Graph(name="campus")
    made.add_node("a", host=True)
    made.add_node("b", host=True)
    made.add_edge("a", "s", capacity="10Gbps")
    made.add_edge("b", "s", capacity=5e8)
    return made


def write(graph, path) -> None:
    if path.suffix == ".json":
        data = {"directed": graph.is_directed(), "multigraph": graph.is_multigraph(),
                "graph": graph.graph,
                "nodes": [{"id": node, **each} for node, each in graph.nodes.items()],
                "links": [{"source": s, "target": t, **each}
                          for s, t, each in graph.edges(data=True)]}
        path.write_text(json.dumps(data))
    else:
        # GraphML has one type per attribute.
        for *_, edge in graph.edges(data=True):
            edge["capacity"] = str(edge["capacity"])
        {".graphml": nx.write_graphml, ".gml": nx.write_gml}[path.suffix](graph, path)


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_graphs_by_suffix(tmp_path, graph, suffix) -> None:
    path = tmp_path / f"net{suffix}"
    write(graph, path)
    net = read_network(path)
    assert (net.hosts, net.links) == (2, 4)
    assert net.capacity[net.link("a->s")] == 10 * GBPS
    assert net.capacity[net.link("s->b")] == 5e8
    assert read_network(str(path), hosts=["s", "b"], name="mine").nodes == ("s", "b", "a")
    assert read_network(path, name="mine").name == "mine"


@pytest.mark.parametrize(("changes", "name"), [
    ({}, "ring-8-100g"),
    ({"capacity": "100Gbps"}, "ring-8-100g"),
    ({"capacity": "40Gbps"}, "ring-8-100g (capacity=40Gbps)"),
    ({"hosts": 4, "capacity": 5e9}, "ring-8-100g (hosts=4, capacity=5000000000.0)"),
    ({"capacity": "40Gbps", "name": "mine"}, "mine"),
    ({"hosts": np.int8(4), "capacity": np.float32(8)}, "ring-8-100g (hosts=4, capacity=8.0)"),
])
def test_a_network_that_is_changed_says_so(changes, name) -> None:
    assert read_network("ring-8-100g", **changes).name == name


def test_a_graph_that_is_changed_says_so(tmp_path, graph) -> None:
    """What its file does not say, options add to it; what its description says, they change."""
    write(graph, tmp_path / "net.gml")
    assert read_network(tmp_path / "net.gml", routing="shortest").name == "campus"
    path = tmp_path / "described.toml"
    path.write_text('kind = "graph"\nfile = "net.gml"\nrouting = "ecmp"\n')
    assert read_network(path, routing="shortest").name == "described (routing=shortest)"


@pytest.mark.parametrize(("name", "changes", "found"), [
    ("a", {"x": 1}, "a (x=1)"),
    ("a (x=1)", {"x": "2Gbps"}, "a (x=2Gbps)"),
    ("a (x=1, y=[1, 2])", {"z": True}, "a (x=1, y=[1, 2], z=True)"),
    ("a (of b)", {"x": 1}, "a (of b) (x=1)"),
    ("a", {"x": list(range(100))}, "a (x=[0, 1, 2, 3, ...])"),
    ("a", {}, "a"),
])
def test_names_of_what_is_changed(name, changes, found) -> None:
    assert changed_name(name, changes) == found


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_a_network_written_is_the_network_read(tmp_path, suffix) -> None:
    net = netsim.leaf_spine(2, 2, 3, oversubscription=3)
    path = tmp_path / f"net{suffix}"
    write(net.to_networkx(), path)
    again = read_network(path)
    assert again.link_names == net.link_names
    assert again.capacity.tolist() == net.capacity.tolist()
    assert again.hosts == net.hosts


def test_networkx_own_json_is_read(tmp_path, graph) -> None:
    """Whatever the version calls its edges; parallel ones have keys, which say nothing."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps(nx.node_link_data(nx.MultiGraph(graph), edges="edges")))
    assert read_network(path).links == 4
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    assert (read_network(path).links, read_network(path).name) == (4, "campus")


def test_the_label_is_the_files_where_the_graph_has_none(tmp_path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}]}')
    assert read_network(path, capacity="1Gbps").name == "mine"


def test_parallel_edges_of_gml_need_the_word_multigraph(tmp_path) -> None:
    graph = nx.MultiGraph([("a", "b", {"capacity": 1.0})] * 2)
    text = "\n".join(nx.generate_gml(graph))
    path = tmp_path / "net.gml"
    path.write_text(text)
    assert read_network(path).links == 4
    path.write_text(text.replace("multigraph 1", ""))
    with pytest.raises(TraceError, match=r'duplicated; for .* must begin with "multigraph 1"'):
        read_network(path)


def test_gml_without_labels_goes_by_ids(tmp_path) -> None:
    path = tmp_path / "net.gml"
    path.write_text("graph [ node [ id 4 ] node [ id 2 ] edge [ source 4 target 2 capacity 9 ] ]")
    assert read_network(path).nodes == (4, 2)


def test_a_toml_names_a_graph_beside_it(tmp_path, graph, monkeypatch) -> None:
    folder = tmp_path / "nets"
    folder.mkdir()
    write(graph, folder / "net.gml")
    (folder / "net.toml").write_text(
        'kind = "graph"\nfile = "net.gml"\nhosts = ["b", "a", "s"]\nrouting = "shortest"\n'
        'paths = [["a", "s", "b"]]\ndescription = "mine"\n')
    monkeypatch.chdir(tmp_path)
    net = read_network("nets/net.toml")
    assert net.nodes == ("b", "a", "s")
    assert net.name == "net"
    assert make_network("graph", file="nets/net.gml").hosts == 2


def test_graphs_run_from_an_experiment(tmp_path, graph) -> None:
    write(graph, tmp_path / "net.graphml")
    path = tmp_path / "e.toml"
    path.write_text('[network]\nfile = "net.graphml"\nrouting = "shortest"\n'
                    '[workload]\nname = "parrot-fig2"\n')
    experiment = netsim.load_experiment(path)
    assert experiment.network.built.routing == "shortest"
    assert len(netsim.run(experiment).jobs) > 0
    assert netsim.load_experiment(path, ["seed=3"]).resolved()["network"]["sha256"]


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<graph edgedefault="undirected"><node id="a"/>
<edge source="a" target="b"/></graph></graphml>
"""


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.graphml", "", "a.graphml:1: the file is empty"),
    ("a.graphml", "<graphml>", r"a.graphml:1: is not GraphML: no element found"),
    ("a.graphml", "<graphml>\n<graph>\n</oops>", r"a.graphml:3: is not GraphML: mismatched tag"),
    ("a.graphml", "<html/>", "a.graphml: is not GraphML: file not successfully read"),
    ("a.graphml", GRAPHML, "a.graphml: network 'a': link 'a->b' has no capacity"),
    ("a.gml", "graph", "a.gml:2: is not GML: expected an int"),
    ("a.gml", "graph [\n  node [\n    id ?\n", r"a.gml:3: is not GML: cannot tokenize"),
    ("a.gml", "graph [ node [ id 1 ] edge [ source 1 target 2 ] ]", "undefined target 2"),
    ("a.json", '{"nodes": [', "a.json:1: not JSON: Expecting value at column 12"),
    ("a.json", '{"nodes": 3}', "'nodes' must be a list of objects"),
    ("a.json", '{"nodes": [3], "links": []}', "'nodes' must be a list of objects"),
    ("a.json", '{"nodes": []}', "'links' or 'edges' must be a list of objects"),
    ("a.json", '{"nodes": [{}], "links": []}',
     "node 0: 'id' must be text or a whole number, not None"),
    ("a.json", '{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two nodes have the same id"),
    ("a.json", '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}',
     "edge 0 has the unknown node 2"),
    ("a.json", '{"nodes": [{"id": 1}], "links": [{"source": 1}]}',
     "edge 0: 'target' must be text or a whole number, not None"),
    ("a.json", '{"nodes": [], "links": []}', "network 'a' has no host"),
    ("a.json", '{"jobs": []}', "has no key 'hosts', of an instance, or 'nodes', of a graph"),
    ("a.toml", 'kind = "graph"', "needs: file"),
    ("a.toml", 'kind = "graph"\nfile = "b.gml"', "b.gml: no such file"),
    ("a.toml", 'kind = "graph"\nfile = "b.xml"', "unknown suffix of a graph's file '.xml'"),
    ("a.toml", 'kind = "torus"\nshape = 4', "a.toml: shape must be a list"),
    ("a.toml", "kind = []", r"a.toml: unknown topology \[\]"),
    ("a.toml", 'kind = "graph"\nfile = 0', "a.toml: file must be a name or a path, not 0"),
    ("a.toml", "a = " + "[" * 3000, "a.toml: is not TOML: maximum recursion depth"),
    ("a.json", "[" * 100_000, "a.json:1: not read as JSON: 100,000 brackets are open"),
    ("a.json", f'{{"hosts": {"9" * 5000}}}', "a.json: not read as JSON: Exceeds the limit"),
    ("a.toml", r'kind = "graph"' "\n" r'file = "a\u0000.gml"', "gml: no such file"),
])
def test_bad_files_are_named(tmp_path, name, text, message) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TraceError, match=message) as error:
        read_network(path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(("name", "text", "changes", "message"), [
    ("a.toml", 'kind = "big-switch"\nhosts = 2\n', {"capacity": -1},
     "egress capacity must be greater than 0, not -1"),
    ("a.toml", 'kind = "big-switch"\nhosts = 2\ncapacity = "1XB/s"', {"capacity": "1YB/s"},
     "egress capacity '1YB/s' has the unknown unit 'YB/s'"),
    ("a.toml", 'kind = "big-switch"\nhosts = 2\n', {"hots": 3, "name": "x"},
     "unknown option of topology 'big-switch' 'hots'"),
    ("a.gml", "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]",
     {"capacity": -1}, "network 'a': capacity must be greater than 0, not -1"),
    ("a.gml", "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]",
     {"capacity": 1, "hosts": [3]}, "network 'a': the host 3 is not a node"),
])
def test_a_file_is_not_blamed_for_what_was_changed(tmp_path, name, text, changes, message) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_network(tmp_path / name, **changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("name", "text", "changes"), [
    ("a.toml", 'kind = "big-switch"\nhosts = 2\ncapacity = "1XB/s"', {"name": "x"}),
    ("a.toml", 'kind = "big-switch"\nhosts = 2\ncapacity = "1XB/s"',
     {"loopback_uses_ports": True}),
    ("a.gml", "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]",
     {"name": "x", "relay": False}),
    ("a.gml", "graph [ node [ id 1 ] edge [ source 1 target 2 ] ]", {"capacity": -1}),
])
def test_but_for_what_stands_in_it(tmp_path, name, text, changes) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TraceError) as caught:
        read_network(tmp_path / name, **changes)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_bytes_that_are_no_text(tmp_path) -> None:
    path = tmp_path / "a.gml"
    path.write_bytes(b"\xff")
    with pytest.raises(TraceError, match=r"a\.gml:1: byte 0xff is not UTF-8"):
        read_network(path)


def test_unknown_options_of_graphs(tmp_path) -> None:
    path = tmp_path / "a.gml"
    path.write_text("graph [ ]")
    with pytest.raises(UnknownNameError, match=r"'capacities' .did you mean 'capacity'"):
        read_network(path, capacities=3)
    with pytest.raises(UnknownNameError, match="suffix"):
        make_network("graph", file="x.csv")


@pytest.mark.parametrize(("name", "hosts"), [
    ("leaf-spine-128-4to1-10g", 128), ("leaf-spine-128-10g", 128), ("fat-tree-k8-10g", 128),
    ("fat-tree-k16-10g", 1024), ("rail-pod-64x8-400g", 512), ("torus-4x4x4-400g", 64),
    ("ring-8-100g", 8), ("edge-cloud-10x10", 101),
])
def test_ready_made(name, hosts) -> None:
    net = read_network(name)
    assert (net.name, net.hosts) == (name, hosts)
    assert f"{hosts:,} hosts" in ready_made()[name] or name.startswith(("rail", "edge"))
