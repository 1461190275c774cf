"""Damaged networks: descriptions, instances and graphs give a network, or say what is wrong."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.network import TOPOLOGIES, read_network

from .checks import check_network
from .documents import toml_of, write_json
from .harness import Guard, fuzzed
from .mutations import changed, damaged

#: A table of each kind, with every option that it has.
KINDS: dict[str, dict[str, Any]] = {
    "big-switch": {"hosts": 4, "capacity": "10Gbps", "egress": ["1Gbps", 2e8, "1Gbps", "1Gbps"],
                   "ingress": "40Gbps"},
    "leaf-spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 3, "capacity": "10Gbps",
                   "oversubscription": 2.0},
    "fat-tree": {"k": 4, "capacity": "10Gbps"},
    "rail-pod": {"servers": 2, "gpus_per_server": 3, "spines": 2, "capacity": "400Gbps",
                 "uplink": "6.4Tbps", "intra": "450GB/s"},
    "ring": {"hosts": 5, "capacity": "10Gbps"},
    "torus": {"shape": [3, 2, 2], "capacity": "10Gbps"},
    "edge-cloud": {"sites": 2, "hosts_per_site": 2, "lan": "1Gbps", "wan": "100Mbps",
                   "cloud_hosts": 1, "cloud": "10Gbps"},
    "graph": {"file": "g.json", "hosts": ["a", "b"], "capacity": "10Gbps", "relay": True,
              "paths": [["a", "s", "b"]]}}
_EVERY = {"name": "n", "description": "d", "routing": "ecmp", "loopback_uses_ports": False}
_KEYS = tuple({"kind": 0} | _EVERY | {key: 0 for table in KINDS.values() for key in table})

INSTANCES = [
    {"hosts": 3, "port_capacity_bytes_per_s": 1e6, "loopback_uses_ports": True, "jobs": []},
    {"hosts": 2, "egress_capacity_bytes_per_s": [1e6, 2e6], "ingress_capacity_bytes_per_s": 1e6}]

GRAPH = {"directed": False, "multigraph": False, "graph": {"name": "g"},
         "nodes": [{"id": "a", "host": True}, {"id": "s"}, {"id": "b", "host": True},
                   {"id": 7, "kind": "host"}],
         "links": [{"source": "a", "target": "s", "capacity": 1e9, "name": "up"},
                   {"source": "s", "target": "b", "capacity": "10Gbps"},
                   {"source": "s", "target": 7, "capacity": 5e8}]}

INFRASTRUCTURE = {
    "name": "i", "devices": [
        {"name": "box", "components": [
            {"name": "gpu", "count": 2, "choice": "xpu"},
            {"name": "nic", "count": 2, "choice": "device"},
            {"name": "sw", "count": 1, "choice": "custom", "custom": {"type": "switch"}}],
         "links": [{"name": "in", "physical": {"bandwidth": {
             "choice": "gigabytes_per_second", "gigabytes_per_second": 300}}}],
         "edges": [{"ep1": {"component": "gpu"}, "ep2": {"component": "sw"}, "link": "in",
                    "scheme": "many2many"},
                   {"ep1": {"component": "gpu[0:2]"}, "ep2": {"device": "nic", "component": "port"},
                    "link": "in", "scheme": "one2one"}]},
        {"name": "nic", "components": [{"name": "port", "count": 1, "choice": "port"}],
         "links": [], "edges": []}],
    "instances": [{"name": "host", "device": "box", "count": 2}],
    "links": [{"name": "out", "physical": {"latency": {"choice": "us", "us": 1}}}],
    "edges": [{"ep1": {"instance": "host[0]", "component": "nic.port[0]"},
               "ep2": {"instance": "host[1]", "component": "nic.port[0]"}, "link": "out",
               "scheme": "one2one"}]}


def graph() -> nx.Graph:
    """Return a graph that GraphML and GML can say."""
    made = nx.Graph(name="g")
    for node in "abc":
        made.add_node(node, host=1)
        made.add_edge(node, "s", capacity=1e9)
    return made


@fuzzed(5)
@given(data=st.data())
def test_descriptions(guard: Guard, part: int, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    contents = data.draw(toml_of({"kind": kind} | _EVERY | KINDS[kind], _KEYS,
                                 counts=True))
    with guard.folder() as folder:
        (folder / "n.toml").write_bytes(contents)
        (folder / "g.json").write_text(json.dumps(GRAPH))
        network = guard(lambda: read_network(folder / "n.toml"), named=folder)
        if network is not None:
            check_network(network)


def read_and_check(guard: Guard, document: Any) -> None:
    """Read a network from a file of JSON, and look at it if it is one."""
    with guard.folder() as folder:
        path = folder / "n.json"
        write_json(document, path)
        network = guard(lambda: read_network(path), named=path)
        if network is not None:
            check_network(network)


@fuzzed(2)
@given(data=st.data())
def test_instances(guard: Guard, part: int, data: st.DataObject) -> None:
    read_and_check(guard, data.draw(
        changed(data.draw(st.sampled_from(INSTANCES)), tuple(INSTANCES[1]))))


@fuzzed(3)
@given(data=st.data())
def test_graphs_of_json(guard: Guard, part: int, data: st.DataObject) -> None:
    read_and_check(guard, data.draw(changed(GRAPH, (
        "nodes", "links", "edges", "id", "source", "target", "capacity", "host", "kind", "name",
        "directed", "multigraph", "graph", "key"))))


@fuzzed(2)
@given(data=st.data())
def test_infrastructures(guard: Guard, part: int, data: st.DataObject) -> None:
    document = data.draw(changed(INFRASTRUCTURE, (
        "name", "count", "choice", "custom", "component", "instance", "device", "scheme", "link",
        "physical", "bandwidth", "latency", "ep1", "ep2")))
    with guard.folder() as folder:
        path = folder / "n.json"
        write_json(document, path)
        network = guard(lambda: TOPOLOGIES.make("infragraph", {"file": path, "capacity": 1e9,
                                                               "hosts": "gpu"}), named=folder)
        if network is not None:
            check_network(network)


@fuzzed(3)
@given(data=st.data())
def test_graph_files(guard: Guard, part: int, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from([".graphml", ".gml", ".json"]))
    lines = {".graphml": lambda: nx.generate_graphml(graph()),
             ".gml": lambda: nx.generate_gml(graph()),
             ".json": lambda: json.dumps(GRAPH, indent=1).splitlines()}[suffix]()
    contents = data.draw(damaged("\n".join(lines).encode()))
    with guard.folder() as folder:
        path = folder / f"g{suffix}"
        path.write_bytes(contents)
        network = guard(lambda: read_network(path), named=path)
        if network is not None:
            check_network(network)


@fuzzed(1)
@given(data=st.data())
def test_changes_of_ready_made_ones(guard: Guard, part: int, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["big-switch-20-10g", "leaf-spine-20-4to1-10g", "ring-8-100g",
                                      "parrot-fig2"]))
    changes = data.draw(changed({"capacity": "10Gbps"}, _KEYS))
    network = guard(lambda: netsim.read_network(name, **{
        str(key): value for key, value in changes.items() if key not in ("source", "kind")}))
    if network is not None:
        check_network(network)
