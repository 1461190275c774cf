"""What links add to bytes on their way."""

import re

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.errors import InputError
from netsim.network import Packet, Topology, Wire, profiles


def test_every_packet_that_is_begun_has_a_header():
    """1 byte, a packet to the full, one byte more, none: 1 + 78, 1460 + 78, 1461 + 156, 0."""
    found = Packet(1460, 78).wire_bytes(np.array([1.0, 1460.0, 1461.0, 0.0]))
    np.testing.assert_array_equal(found, [79, 1538, 1617, 0])


def test_rounding_begins_no_packet():
    """0.1 + 0.2 is above 0.3 in floats: three packets of 0.1, not four."""
    assert Packet(0.1, 1.0).wire_bytes(np.array([0.1 + 0.2]))[0] == pytest.approx(3.3)


def test_a_flow_has_the_most_bytes_that_formats_on_its_path_make():
    """Link 1 has packets of 100 + 50, the others 1000 + 10; 1000 bytes are 1010 or 1500.

    Or the other way round: the second flow has 1500 on link 2. The last one crosses no link.
    """
    few, many = Packet(1000, 10), Packet(100, 50)
    for packet, own, expected in (few, many, [1010, 1500, 1000]), (many, few, [1500, 1500, 1000]):
        wire = Wire(3, packet=packet, link_packets={1: own})
        found = wire.bytes_of(np.full(3, 1000.0), np.array([0, 1, 3, 3]), np.array([0, 1, 2]))
        np.testing.assert_array_equal(found, expected)


def test_latency_adds_up_along_paths():
    wire = Wire(3, latency=[1e-6, 2e-6, 4e-6])
    found = wire.latency_of(np.array([0, 2, 2, 3]), np.array([0, 2, 1]))
    np.testing.assert_allclose(found, [5e-6, 0, 2e-6], rtol=1e-15)


def test_usable_capacity_is_the_same_array_where_all_is_usable():
    plain = Topology("net", 1, [1.0, 2.0], ["a", "b"])
    assert plain.usable is plain.capacity
    part = Topology("net", 1, [1.0, 2.0], ["a", "b"], wire=Wire(2, efficiency=[0.5, 1.0]))
    np.testing.assert_array_equal(part.usable, [0.5, 2.0])


@pytest.mark.parametrize(("options", "says"), [
    ({"latency": [0, -1e-6]}, r"b: latency must be a finite number of at least 0, not -1e-06"),
    ({"latency": np.inf}, "a: latency"), ({"latency": np.nan}, "a: latency"),
    ({"latency": [1.0]}, "2 links need one number, or one each"),
    ({"efficiency": 0}, r"a: efficiency must be a number in \(0, 1\], not 0.0"),
    ({"efficiency": [1, 1.5]}, "b: efficiency"),
    ({"overhead": -1.0}, "overhead"), ({"overhead": np.inf}, "overhead"),
])
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        Wire(2, link_names=("a", "b"), **options)


@pytest.mark.parametrize(("payload", "header"),
                         [(0, 1), (-1, 1), (np.inf, 1), (1, -1), (1, np.nan)])
def test_formats_that_cannot_be_are_refused(payload, header):
    with pytest.raises(InputError, match="packet: "):
        Packet(payload, header)


def test_a_phase_of_steps_has_the_overheads_and_latencies_of_all():
    """o_A = 3 * 10 + (5 + 5 + 7) - 7: the coflow's own latency is that of its longest path."""
    steps = ((np.array([0, 1]), 2), (np.array([2]), 1))
    ptr, latency = np.array([0, 1, 2, 3]), np.array([5.0, 3.0, 7.0])
    assert Wire(3).overhead_of(ptr, latency, steps, 10.0) == 40.0
    assert Wire(3, overhead=10.0).overhead_of(ptr, latency, steps) == 40.0
    assert Wire(3, overhead=10.0).overhead_of(np.zeros(4, np.int64), np.zeros(3), steps) == 0.0


# --- options of builders ------------------------------------------------------------------


PROTOCOLS = [{"upto": "64kB", "launch": "20us", "efficiency": 0.5}, {"launch": "40us"}]


@pytest.mark.parametrize("form", ["steps", "messages", "aggregate"])
def test_a_collective_is_launched_once_by_the_size_of_its_messages(form):
    """All-reduce on 4 ports of B = 10 GB/s: launch + 6 (o + 2 l) + 6 S/(4 e B).

    Messages of S/4 = 16 and 64 kB take 20 us and e = 0.5, those of 250 kB 40 us and e = 1.
    """
    network = netsim.big_switch(4, "80Gbps", latency="500ns", overhead="1us", protocols=PROTOCOLS)
    found = netsim.collective_times("all-reduce", network, 4, ["64kB", "256kB", "1MB"], form=form)
    each = 6 * np.array([16e3 / 0.5, 64e3 / 0.5, 250e3]) / 10e9
    np.testing.assert_allclose(found["time_s"], np.array([20, 20, 40]) * 1e-6 + 12e-6 + each,
                               rtol=1e-12)


@pytest.mark.parametrize("iterations", [1, 2])
def test_the_largest_message_of_a_coflow_says_how_it_is_launched(iterations):
    """With 64 kB and 1 MB, 40 us; each flow has the efficiency of its own size.

    The port sends 2 * 64 kB + 1 MB in 0.1128 ms. The job has one coflow, or two in a chain. A flow
    inside a host needs no launch.
    """
    network = netsim.big_switch(3, "80Gbps", protocols=PROTOCOLS)
    jobs = [netsim.JobSpec(0, hosts=[0, 1, 2], iterations=iterations, stages=[
                netsim.Stage("a", [(0, 1, "64kB"), (0, 2, "1MB")])]),
            netsim.JobSpec(1, hosts=[1], stages=[netsim.Stage("a", [(0, 0, "1MB")])])]
    result = netsim.simulate(network, jobs)
    np.testing.assert_allclose(result.jobs["jct_s"], [iterations * 152.8e-6, 0], rtol=1e-12)
    assert result.coflows["wire_bytes"].tolist() == [1.128e6] * iterations + [0]


def test_options_are_for_links_by_name():
    """Of patterns that match a link, the last counts."""
    net = netsim.leaf_spine(2, 1, 1, "10Gbps", efficiency={"host-0->*": 0.5},
                            latency={"*": "1us", "leaf-*->spine-*": "2us"})
    of = dict(zip(net.link_names, net.wire.latency, strict=True))
    assert of["leaf-1->spine-0"] == 2e-6
    assert of["spine-0->leaf-1"] == 1e-6
    assert net.usable[net.link("host-0->leaf-0")] == 0.625e9
    assert net.usable[net.link("leaf-0->host-0")] == 1.25e9


@pytest.mark.parametrize("name", ["leaf-0->spines", "*-0->spines", ("leaf-0", "spines"),
                                  "leaf-0->spine-*"])
def test_the_name_of_a_trunk_stands_for_its_members(name):
    net = netsim.leaf_spine(2, 3, 1, "10Gbps", routing="spray", latency={name: "2us"})
    of = dict(zip(net.link_names, net.wire.latency, strict=True))
    assert {link: lag for link, lag in of.items() if lag} == {"leaf-0->spines": 2e-6}
    assert net.cables.wire.latency.sum() == pytest.approx(3 * 2e-6)


def test_the_name_of_parallel_links_stands_for_all_of_them():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from("ab", host=True)
    for pair in ("ab", "ab", "ba"):
        graph.add_edge(*pair, capacity="1Gbps")
    net = netsim.from_networkx(graph, routing="spray", latency={"a->b#*": "2us"})
    assert dict(zip(net.link_names, net.wire.latency, strict=True)) == {
        "a->b#*": 2e-6, "b->a": 0.0}


def test_profiles():
    """A link's own overrides that of all; ideal has no packets."""
    net = netsim.ring(3, "10Gbps", profile={"*": "roce-4096", "host-0->host-1": "ideal",
                                            "host-1->host-2": "nvlink4"})
    ptr = np.arange(4)
    links = [net.link(f"host-{k}->host-{(k + 1) % 3}") for k in range(3)]
    found = net.wire.bytes_of(np.full(3, 4097.0), ptr, np.array(links))
    np.testing.assert_array_equal(found, [4097, 4097, 4097 + 2 * 82])
    assert net.usable[links[1]] == pytest.approx(1.25e9 * 370 / 450)
    assert all(each.source for each in profiles().values())


def test_one_format_for_all_links_is_the_networks():
    net = netsim.big_switch(2, packet={"payload": "1kB", "header": 10}, profile="ndr400")
    assert net.wire.packet == Packet(1000, 10)
    assert not net.wire.link_packets
    assert (net.wire.efficiency == 0.94).all()


def test_a_graph_has_them_as_attributes():
    graph = nx.Graph()
    graph.add_edge("a", "s", capacity=1e6, latency="1ms")
    graph.add_edge("b", "s", capacity=1e6, efficiency=0.5)
    net = netsim.from_networkx(graph)
    path = net.route(0, 1)
    assert net.wire.latency[path].tolist() == [1e-3, 0]
    assert net.usable[path].tolist() == [1e6, 5e5]


@pytest.mark.parametrize(("name", "value", "message"), [
    ("latency", -1, "a->s: latency must be at least 0, not -1"),
    ("efficiency", 1.5, "a->s: efficiency must be a number in (0, 1], not 1.5"),
    ("efficiency", "most", "a->s: efficiency must be a number in (0, 1], not 'most'")])
def test_attributes_that_cannot_be_are_refused(name, value, message):
    graph = nx.Graph()
    graph.add_edge("a", "s", capacity=1e6, **{name: value})
    graph.add_edge("b", "s", capacity=1e6)
    with pytest.raises(InputError, match=re.escape(message)):
        netsim.from_networkx(graph, hosts=["a", "b"])


def test_a_name_with_brackets_stands_for_itself():
    graph = nx.Graph()
    graph.add_edge("gpu[0]", "switch", capacity=1.0)
    graph.add_edge("gpu[1]", "switch", capacity=1.0)
    network = netsim.from_networkx(graph, latency={"gpu[0]->switch": 2.0})
    assert network.wire.latency[network.link("gpu[0]->switch")] == 2
    assert network.wire.latency.sum() == 2


@pytest.mark.parametrize(("options", "message"), [
    ({"latency": -1}, "latency must be at least 0"),
    ({"latency": {"*": "inf"}}, "*: latency 'inf' is not a number"),
    ({"latency": {"nowhere": 1}}, "no link has a name like that, such as 'host-0->host-1'"),
    ({"efficiency": 0}, "network 'ring': efficiency must be a number in (0, 1], not 0"),
    ({"efficiency": "most"}, "efficiency must be a number"),
    ({"packet": {"payload": 0, "header": 1}}, "payload must be greater than 0"),
    ({"packet": {"payload": 1, "header": 0, "gap": 12}}, "must be a Packet or have the keys"),
    ({"packet": {"payload": 1}}, "must be a Packet or have the keys payload and header"),
    ({"overhead": -1}, "overhead must be at least 0"),
    ({"protocols": [{"upto": "1MB"}]}, "in order of upto, the last one without upto; they have 1e"),
    ({"protocols": [{"upto": 2}, {"upto": 1}, {}]}, "protocols must be in order of upto"),
    ({"protocols": [{"lauch": 1}]}, "protocol 0 'lauch' (did you mean 'launch'?)"),
    ({"protocols": [{}, {"efficiency": 2}]}, "protocol 1: efficiency must be a number in (0, 1]"),
    ({"protocols": {"launch": 1}}, "must be a list of protocols"),
    ({"protocols": [3]}, "must be a Protocol or a mapping"),
    ({"profile": "tcp"}, "unknown profile 'tcp'; choose from: ethernet-1500, ideal"),
])
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        netsim.ring(4, **options)


def test_formulas_refuse_it():
    net = netsim.big_switch(2, latency="1us")
    job = netsim.JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6)
    with pytest.raises(InputError, match="latency or overhead, which only coflows take into"):
        netsim.simulate(netsim.Cluster(gpus=1, topology=net), [job], scheduler="fifo",
                        execution="asrpt")


def test_the_summary_has_payload_and_wire_bytes():
    """1,000 bytes are a packet of 600 and one of 400, with a header of 10 each."""
    job = netsim.JobSpec(0, hosts=(0, 1), stages=[netsim.Stage("push", [(0, 1, 1000)])])
    sums = [netsim.simulate(netsim.big_switch(2, **options), [job]).summary() for options in (
        {"packet": {"payload": 600, "header": 10}}, {})]
    assert [sums[0][name] for name in ("bytes", "wire_bytes")] == [1000, 1020]
    assert "wire_bytes" not in sums[1]
