"""Big switches, their routes and their files."""

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.errors import InputError, TraceError, UnitError, UnknownNameError
from netsim.network import make_network, read_network, ready_made


def test_routes_are_egress_then_ingress():
    net = netsim.big_switch(4, "10Gbps")
    ptr, links = net.routes(np.array([0, 2, 1]), np.array([3, 2, 0]), np.zeros(3, int))
    assert ptr.tolist() == [0, 2, 2, 4]
    assert links.tolist() == [0, 7, 1, 4]
    assert [net.link_names[link] for link in net.route(0, 3)] == ["egress-0", "ingress-3"]


def test_loopback_uses_ports_only_where_it_is_said():
    assert len(netsim.big_switch(2).route(1, 1)) == 0
    assert netsim.big_switch(2, loopback_uses_ports=True).route(1, 1).tolist() == [1, 3]


def test_capacities_per_host_and_direction():
    net = netsim.big_switch(2, egress=["1Gbps", "2Gbps"], ingress="8Gbps")
    assert net.capacity.tolist() == [1.25e8, 2.5e8, 1e9, 1e9]
    assert netsim.big_switch(2, [1.0, 2.0]).capacity.tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(("args", "error", "message"), [
    ((0,), InputError, "hosts must be a whole number from 1 to 10,000,000, not 0"),
    ((2.5,), InputError, "not 2.5"),
    ((10**12,), InputError, "not 1000000000000"),
    ((2, "-1Gbps"), UnitError, "egress capacity must be greater than 0, not '-1Gbps'"),
    ((2, 0), UnitError, "must be greater than 0, not 0"),
    ((2, [1.0, float("nan")]), UnitError, "egress capacity of host 1 must be finite, not nan"),
    ((3, [1.0, 2.0]), InputError, "3 hosts need 3 values, not 2"),
    ((2, [[1.0, 2.0], 2.0]), UnitError, "egress capacity of host 0 must be a number or a string"),
])
def test_refused(args, error, message):
    with pytest.raises(error, match=message):
        netsim.big_switch(*args)


def test_loopback_is_yes_or_no():
    with pytest.raises(InputError, match="loopback_uses_ports must be true or false, not 'no'"):
        netsim.big_switch(2, loopback_uses_ports="no")


def test_links_by_name_or_number():
    net = netsim.big_switch(3)
    assert net.link("ingress-1") == net.link(4) == 4
    for wrong in ("ingress-3", 6, -1, 1.5, None, True):
        with pytest.raises(InputError, match=r"has no link .* such as 'egress-0' and 'ingress-2'"):
            net.link(wrong)


def test_capacity_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        netsim.big_switch(2).capacity[0] = 1


def test_to_networkx_keeps_names_and_capacities():
    """Every route of the topology is the shortest path of the graph."""
    net = netsim.big_switch(3, [1.0, 2.0, 3.0])
    graph = net.to_networkx()
    path = nx.shortest_path(graph, 0, 2)
    edges = [graph.edges[edge] for edge in nx.utils.pairwise(path)]
    assert [edge["name"] for edge in edges] == ["egress-0", "ingress-2"]
    assert [edge["capacity"] for edge in edges] == [1.0, 3.0]


def test_ready_made_networks_by_name():
    assert read_network("big-switch-128-10g").capacity[0] == 1.25e9
    assert read_network("big-switch-128-10g", capacity="40Gbps").capacity[0] == 5e9
    for name, description in ready_made().items():
        assert description
        assert read_network(name).name == name


def test_instance_with_capacities_per_direction(tmp_path):
    path = tmp_path / "case.json"
    path.write_text('{"hosts": 2, "egress_capacity_bytes_per_s": [1, 2], "jobs": [],'
                    '"ingress_capacity_bytes_per_s": [3, 4], "loopback_uses_ports": true}')
    net = read_network(path)
    assert net.capacity.tolist() == [1, 2, 3, 4]
    assert net.loopback_uses_ports


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.json", "{", r"a.json:1: not JSON: .* at column 2$"),
    ("a.json", "[]", "must hold an object with the key 'hosts'"),
    ("a.json", '{"hosts": 2}', "needs port_capacity_bytes_per_s, or egress"),
    ("a.json", '{"hosts": "x", "port_capacity_bytes_per_s": 1}', "hosts must be a whole number"),
    ("a.json", '{"hosts": 1, "port_capacity_bytes_per_s": 1, "loopback_uses_ports": 1}',
     "loopback_uses_ports must be true or false, not 1"),
    ("a.toml", "hosts = ", "a.toml: is not TOML"),
    ("a.toml", "kind = ring", 'a.toml:1: is not TOML: .*; quote strings: kind = "ring"'),
    ("a.toml", "relay = True", r"a.toml:1: is not TOML: .*\); write relay = true$"),
    ("a.toml", "a = inf x", r"a.toml:1: is not TOML: .*\)$"),
    ("a.toml", "a = [1, fifo]", r'a.toml:1: is not TOML: .*\); quote strings: "fifo"$'),
    ("a.toml", "a = {b = 10Gbps}", r'a.toml:1: is not TOML: .*\); quote strings: "10Gbps"$'),
    ("a.toml", "a = [1, 2\nb = 3", r"a.toml:2: is not TOML: .*\)$"),
    ("a.toml", "hosts = 3", "names no kind; choose from: big-switch"),
    ("a.toml", 'kind = "rings"', r"unknown topology 'rings' .did you mean 'ring'\?"),
    ("a.toml", 'kind = "big-switch"\nhost = 3', "unknown option .* 'host' .did you mean 'hosts'"),
    ("a.toml", 'kind = "big-switch"', "needs: hosts"),
])
def test_bad_files_are_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TraceError, match=message) as error:
        read_network(path)
    assert str(path) in str(error.value)


def test_unknown_names_list_the_choices():
    with pytest.raises(UnknownNameError, match=r"unknown network 'dragonfly'; choose from: big-sw"):
        read_network("dragonfly")
    with pytest.raises(UnknownNameError, match="choose from: big-switch"):
        make_network("dragonfly")
    with pytest.raises(TraceError, match=r"all\.toml: no such file"):
        read_network("nowhere/at-all.toml")


def test_a_big_switch_of_named_hosts(tmp_path):
    """At 1 MB/s, 2 MB from a to b take 2 s; the same network comes back from its graph."""
    net = netsim.big_switch(["a", "b", "c"], "8Mbps")
    assert (net.hosts, net.host_names, net.host("b"), net.host(2)) == (3, ("a", "b", "c"), 1, 2)
    assert net.link_names == ("egress-a", "egress-b", "egress-c",
                              "ingress-a", "ingress-b", "ingress-c")
    assert net.links_of("b").tolist() == [1, 4]
    flows = netsim.Workload.from_arrays(["a", "c"], ["b", "a"], 2e6)
    done = netsim.simulate(net, flows, record=["jobs", "flows"],
                           events=[netsim.FaultEvent("1s", host="c", kind="fail"),
                                   netsim.FaultEvent("2s", host="c", kind="repair")])
    assert done.jobs["finish_s"].tolist() == [2.0, 3.0]
    assert done.flows["src_name"].tolist() == ["a", "c"]
    again = netsim.from_networkx(net.to_networkx())
    assert (again.host_names, set(again.link_names)) == (net.host_names, set(net.link_names))
    path = tmp_path / "net.toml"
    path.write_text('kind = "big-switch"\nhosts = ["a", "b"]\ncapacity = ["8Mbps", "16Mbps"]\n')
    assert read_network(path).host_names == ("a", "b")


@pytest.mark.parametrize(("hosts", "message"), [
    (["a", "b", "a"], "network 'big-switch': two nodes are named a"),
    (["a", "switch"], "two nodes are named switch"),
    (["a", "1"], "'1' names a host, but looks like the number of one"),
    (["a", 1], "the name of a host must be a string, not 1"),
    ([], r"hosts must be a whole number from 1 to 10,000,000, not \[\]"),
    ({"a", "b"}, "hosts must not be a set"),
    ("ab", "hosts must be a whole number from 1 to 10,000,000, not 'ab'")])
def test_names_of_hosts_that_are_refused(hosts, message):
    with pytest.raises(InputError, match=message):
        netsim.big_switch(hosts)


def test_a_host_that_is_named_where_none_has_a_name():
    net = netsim.big_switch(16)
    with pytest.raises(InputError, match=r"has no host 'node13'; it has 16, numbered from 0; give "
                       r"it names, as in netsim\.big_switch\(hosts=\['node-0', 'node-1'\]\)$"):
        net.host("node13")
    with pytest.raises(InputError, match=r"it has 16, numbered from 0$"):
        net.host(16)
    with pytest.raises(InputError, match=r"has no host 'd' ?.*named such as 'a'$"):
        netsim.big_switch(["a", "b"]).host("d")
