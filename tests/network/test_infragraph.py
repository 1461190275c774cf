"""Infrastructures of InfraGraph: the graph that they amount to, and what is refused."""

import json
import sys

import pytest

from netsim.errors import InputError, MissingExtraError, NetsimWarning, TraceError
from netsim.network import read_network


def component(name, count, choice, **more):
    return {"name": name, "count": count, "choice": choice, **more}


def edge(one, other, link, scheme="many2many"):
    return {"ep1": one, "ep2": other, "link": link, "scheme": scheme}


def part(text, **more):
    return {"component": text, **more}


#: Servers of two GPUs and a card with two ports, on a switch.
DOCUMENT = {
    "name": "pod", "devices": [
        {"name": "server", "components": [
            component("gpu", 2, "xpu"), component("sw", 2, "switch"),
            component("bus", 1, "custom", custom={"type": "b"}), component("card", 1, "device")],
         "links": [{"name": "nvlink", "physical": {"bandwidth": {
             "choice": "gigabytes_per_second", "gigabytes_per_second": 300}}},
             {"name": "pcie", "physical": {"bandwidth": {
                 "choice": "gigatransfers_per_second", "gigatransfers_per_second": 32}}}],
         "edges": [edge(part("gpu"), part("sw"), "nvlink"), edge(part("gpu"), part("bus"), "pcie"),
                   edge(part("bus[0]"), part("chip[0]", device="card"), "pcie")]},
        {"name": "card", "components": [component("chip", 1, "nic"), component("port", 2, "port")],
         "links": [{"name": "serdes"}],
         "edges": [edge(part("chip"), part("port"), "serdes")]},
        {"name": "switch",
         "components": [component("asic", 1, "cpu"), component("port", 6, "port")],
         "links": [{"name": "serdes"}], "edges": [edge(part("asic"), part("port"), "serdes")]},
        {"name": "unused", "components": [], "links": [], "edges": []}],
    "instances": [{"name": "host", "device": "server", "count": 2},
                  {"name": "leaf", "device": "switch", "count": 1}],
    "links": [{"name": "cable", "physical": {
        "bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 100},
        "latency": {"choice": "us", "us": 1.5}}}],
    "edges": [edge(part("card.port", instance="host"), part("port[0:4]", instance="leaf[0]"),
                   "cable", "one2one")]}
CAPACITY = {"serdes": "400Gbps", "pcie": "32GB/s"}


@pytest.fixture
def read(tmp_path):
    def written(document=DOCUMENT, **options):
        path = tmp_path / "pod.json"
        path.write_text(json.dumps(document))
        return read_network(path, **({"capacity": CAPACITY} | options))
    return written


def changed(where, value):
    """Return the document with another value at a path."""
    document = json.loads(json.dumps(DOCUMENT))
    *around, last = where
    place = document
    for key in around:
        place = place[key]
    place[last] = value
    return document


def named(network, src, dst, key=0):
    return [network.link_names[link] for link in network.route(src, dst, key)]


def test_a_pod(read):
    """6 + 1 + 2 cables in each server, 6 of the switch, 4 between; each is two links."""
    net = read(name="pod")
    assert net.host_names == ("host.0.gpu.0", "host.0.gpu.1", "host.1.gpu.0", "host.1.gpu.1")
    assert net.links == 2 * (2 * (4 + 2 + 1 + 2) + 6 + 4)
    assert named(net, 0, 2)[:4] == [
        "host.0.gpu.0->host.0.bus.0", "host.0.bus.0->host.0.card.0.chip.0",
        "host.0.card.0.chip.0->host.0.card.0.port.1", "host.0.card.0.port.1->leaf.0.port.1"]
    rate = {name: net.capacity[net.link(name)] for name in (
        "leaf.0.port.3->host.1.card.0.port.1", "leaf.0.port.0->leaf.0.asic.0",
        "host.1.gpu.0->host.1.sw.1", "host.0.bus.0->host.0.card.0.chip.0")}
    assert list(rate.values()) == [12.5e9, 50e9, 300e9, 32e9]
    cable = net.link("host.0.card.0.port.0->leaf.0.port.0")
    assert net.wire.latency[cable] == pytest.approx(1.5e-6)


def test_gpus_of_a_server_take_nvlink(read):
    """The bus is as near as both NVSwitches, and slower; keys choose one of these."""
    net = read()
    taken = {named(net, 2, 3, key)[0] for key in range(20)}
    assert taken == {"host.1.gpu.0->host.1.sw.0", "host.1.gpu.0->host.1.sw.1"}


def test_other_hosts(read):
    assert read(hosts="nic").host_names == ("host.0.card.0.chip.0", "host.1.card.0.chip.0")
    assert read(hosts="chip").hosts == 2
    assert read(changed(["devices", 0, "components", 2, "custom", "type"], "device"),
                hosts="device").hosts == 2
    assert read(hosts="b", capacity="1GB/s").host_names == ("host.0.bus.0", "host.1.bus.0")
    with pytest.raises(TraceError, match=r"unknown component of hosts 'gpus'.*gpu"):
        read(hosts="gpus")


def test_a_slice_with_a_step(read):
    where = ["edges", 0, "ep2", "component"]
    with pytest.warns(NetsimWarning, match=r"edges\[0\].scheme: one2one of 4 and 3 nodes links"):
        net = read(changed(where, "port[0:6:2]"))
    assert net.link("host.1.card.0.port.0->leaf.0.port.4")


def test_slices_are_those_of_python(read):
    """The last port of a card, and the ports of the switch in turn from the end."""
    document = changed(["edges", 0, "ep1", "component"], "card[:].port[-1]")
    document["edges"][0]["ep2"]["component"] = "port[:1:-2]"
    net = read(document)
    assert net.link("host.0.card.0.port.1->leaf.0.port.5")
    assert net.link("host.1.card.0.port.1->leaf.0.port.3")


def test_the_graph_of_the_service(read):
    """Its `get_graph` wraps the infrastructure, whose fields errors name from outside."""
    assert read({"infrastructure": DOCUMENT, "annotations": {}}).link_names == read().link_names
    with pytest.raises(TraceError, match=r"infrastructure.devices\[3\].name must be a string"):
        read({"infrastructure": changed(["devices", 3, "name"], None), "annotations": {}})


def test_yaml(tmp_path, read):
    """The package's own default; it is the same network as of JSON."""
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    made, same = read_network(path, capacity=CAPACITY), read()
    assert (made.name, made.host_names) == (same.name, same.host_names)
    assert dict(zip(made.link_names, made.capacity, strict=True)) == dict(
        zip(same.link_names, same.capacity, strict=True))
    for text, message in (
            ("devices: []\ninstances: ]\nlinks: []", "pod.yaml:2: is not YAML: "),
            ("devices: &a []\ninstances: *a", r"aliases \(\*name\), of which a few lines"),
            ("devices: !!python/object:os.x []", "could not determine a constructor"),
            ("name: \x01", "cannot be read as YAML: "),
            ("components: []", "must hold an object with the keys 'devices' and 'instances'"),
            ("- devices", "must hold an object with the keys 'devices' and 'instances'")):
        path.write_text(text)
        with pytest.raises(TraceError, match=message):
            read_network(path)


def test_yaml_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "pod.yml").write_text("devices: []")
    with pytest.raises(MissingExtraError, match=r"PyYAML is not installed.*coflow-netsim\[yaml\]"):
        read_network(tmp_path / "pod.yml")


@pytest.mark.parametrize(("where", "value", "message"), [
    (["devices"], {}, "devices must be a list of objects"),
    (["devices", 3, "name"], "card", "devices: the name 'card' is there twice"),
    (["devices", 0, "name"], 7, r"devices\[0\].name must be a string, not 7"),
    (["devices", 0, "components", 0, "count"], -1,
     r"devices\[0\].components\[0\].count must be a whole number of at least 0, not -1"),
    (["devices", 0, "components", 0, "count"], 10**9,
     r"devices\[0\].components\[0\].count: 1,000,000,000 is above the limit of 1,000,000 hosts"),
    (["devices", 0, "components", 0, "choice"], None, "choice must be a string"),
    (["devices", 0, "components", 3, "name"], "cart",
     r"devices\[0\].components\[3\].name: unknown device 'cart'.*card"),
    (["devices", 1, "components", 0], component("card", 1, "device"), "'card' is a part of itself"),
    (["devices", 0, "edges", 0, "ep1"], "gpu",
     r"devices\[0\].edges\[0\].ep1 must be an object, not 'gpu'"),
    (["devices", 0, "edges", 0, "ep1"], part("gpx"),
     r"devices\[0\].edges\[0\].ep1.component: unknown component 'gpx' .*choose from: gpu, sw"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu[2]"), r"'gpu\[2\]' is too much: there are 2"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu[:3]"), r"'gpu\[:3\]' is too much: there are 2"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu[-3]"), r"'gpu\[-3\]' is too much: there are 2"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu[0"), "must be a name, perhaps with a number or"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu[::0]"), "must be a name, perhaps with a number"),
    (["devices", 0, "edges", 0, "ep1"], part("card"), "'card' must end with a component"),
    (["devices", 0, "edges", 0, "ep1"], part("gpu.port"), "'gpu.port' must end with a component"),
    (["devices", 0, "edges", 0, "scheme"], "ring",
     r"devices\[0\].edges\[0\].scheme: unknown scheme 'ring'; choose from: one2one, many2many"),
    (["instances", 0, "device"], "srv",
     r"instances\[0\].device: unknown device 'srv' .*choose from: server"),
    (["instances", 0, "count"], 10**6, "instances and components: .*limit of 1,000,000 hosts"),
    (["edges", 0, "ep1", "instance"], "hosts",
     r"edges\[0\].ep1.instance: unknown instance 'hosts'.*host"),
    (["edges", 0, "link"], "fibre",
     r"^[^ ]*: edges\[0\].link: no link 'fibre' is declared; declared are: cable$"),
    (["devices", 0, "edges", 0, "link"], "nvlnk", r"devices\[0\].edges\[0\].link: no link 'nvlnk' "
     r"is declared .did you mean 'nvlink'.*; declared are: nvlink, pcie$"),
    (["links", 0, "physical", "bandwidth"], 100,
     r"links\[0\].physical.bandwidth must be an object, not 100"),
    (["links", 0, "physical", "bandwidth", "gigabits_per_second"], 0,
     r"links\[0\].physical.bandwidth.gigabits_per_second must be a number from 1e-18 to 1e18, no"),
    (["links", 0, "physical", "latency", "us"], "1",
     r"links\[0\].physical.latency.us must be a number from 0 to 1e18, not '1'"),
    (["links", 0, "physical", "latency"], {"uss": 1},
     r"links\[0\].physical.latency.uss: unknown key 'uss' .did you mean 'us'"),
    (["links", 0, "physical"], {"latncy": {"us": 1}}, "unknown key 'latncy' .did you mean"),
])
def test_what_is_refused(read, tmp_path, where, value, message):
    with pytest.raises(TraceError, match=message) as refused:
        read(changed(where, value))
    assert refused.value.path == tmp_path / "pod.json"


def test_rates_that_lack(read):
    with pytest.raises(TraceError, match=r"devices\[0\].edges\[1\].link: link 'pcie' has no "
                       r"bandwidth in bits or bytes; give capacity = \{pcie = ...\}"):
        read(capacity={"serdes": "400Gbps"})
    with pytest.raises(InputError, match="capacity of link 'serdes' '1 apple'"):
        read(capacity="1 apple")
