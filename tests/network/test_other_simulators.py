"""Networks of htsim, the HPCC simulator and NCCL: what they amount to, and what is refused."""

import gzip
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import netsim
from netsim.base.xml_tree import read_xml
from netsim.cli.main import main
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.network import htsim, nccl, read_nccl_server

TIERS = """\
# a fat-tree with bundles and oversubscription
Nodes 16
tiers 3
Podsize 8

Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Oversubscribed 2
Downlink_Latency_ns 500
Switch_Latency_ns 10
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Bundle 2
Downlink_Latency_ns 700
Switch_Latency_ns 20
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Bundle 2
Downlink_Latency_ns 900
Switch_Latency_ns 30
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_text(text)
        return path
    return write


def names_on(network, src, dst):
    return [network.link_names[link] for link in network.route(src, dst)]


def latency_s(network, src, dst):
    ptr, links = network.routes(*np.array([[src], [dst], [0]]))
    return network.wire.latency_of(ptr, links)[0]


# --- htsim ---------------------------------------------------------------------------------


def test_a_fat_tree_in_tiers(written):
    """U0 = 16/2 = 8 uplinks, in 2 pods and bundles of 2: 8/(2 4) = 1 aggregation switch a pod.

    U1 = 8 uplinks of these, 8/4 = 2 cores; an aggregation switch has 2 links to each of both.
    From pod to pod: links 500 + 700 + 900 there and down, switches 10 + 20 + 30 + 20 + 10.
    """
    net = netsim.read_network(written(TIERS, "fat.topo"))
    assert (net.hosts, len(net.nodes), net.links) == (16, 16 + 4 + 2 + 2, 2 * (16 + 8 + 8))
    assert names_on(net, 0, 1) == ["host-0->tor-0", "tor-0->host-1"]
    assert latency_s(net, 0, 15) == pytest.approx((2 * 2100 + 90) * 1e-9, rel=1e-12)
    assert latency_s(net, 0, 7) == pytest.approx((2 * 1200 + 40) * 1e-9, rel=1e-12)
    assert "tor-3->agg-1#2" in net.link_names
    assert "agg-0->core-1#2" in net.link_names
    assert (net.capacity == 12.5e9).all()


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
def test_files_take_what_they_do_not_say(tmp_path, routing):
    """Efficiency and overhead, besides the latencies of the file, which stay."""
    path = tmp_path / "net.topo"
    path.write_text(TIERS)
    plain = netsim.read_network(path, routing=routing)
    net = netsim.read_network(path, routing=routing, efficiency=0.5, overhead="1us")
    np.testing.assert_array_equal(net.wire.latency, plain.wire.latency)
    np.testing.assert_array_equal(net.usable, plain.usable / 2)
    assert net.wire.overhead == 1e-6
    with pytest.raises(InputError, match="latency must be at least 0, not -1"):
        netsim.read_network(path, latency=-1)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("Podsize 8", "Podsize 5", "Nodes 16 is no multiple of Podsize 5"),
    ("tiers 3", "tiers 4", "3: Tiers must be 2 or 3, not 4"),
    ("tiers 3", "tiers 2", "Tier 2 is too much"),
    ("Nodes 16", "Nodes many", "2: Nodes must be a whole number of at least 1.*'many'|from 1"),
    ("Radix_Up 2", "Radix_Up 3", "Radix_Down 4 over Radix_Up 3 must be Oversubscribed, 2"),
    ("Radix_Down 4\nBundle 2", "Radix_Down 3\nBundle 2", "Radix_Down 3 is no multiple"),
    ("Downlink_Latency_ns 900\n", "", "Downlink_Latency_ns is missing for tier 2"),
    ("Downlink_Latency_ns 900", "Downlink_Latency_ns 0", "greater than 0, .*not '0'"),
    ("Downlink_Latency_ns 900", "Downlink_Latency_ns -1", "greater than 0, .*not '-1'"),
    ("Switch_Latency_ns 30", "Switch_Latency_ns nan", "not 'nan'"),
    ("Switch_Latency_ns 30", "Speed 30", "25: unknown name 'Speed'; choose from: Tier, Radix_Up, "),
    ("Switch_Latency_ns 30", "Switch_Latency_ns", "25: Switch_Latency_ns is missing"),
    ("Switch_Latency_ns 30", "Tier 1", "25: Tier 1 is there twice, first on line 13"),
])
def test_what_does_not_go_together_is_refused(written, old, new, said):
    assert TIERS.count(old) == 1 or old.startswith("Radix_Down 4\nB")
    path = written(new.join(TIERS.rsplit(old, 1)), "bad.topo")
    with pytest.raises(TraceError, match=said) as caught:
        htsim(path)
    assert str(path) in str(caught.value)


def test_truncated_files_are_refused(written):
    """Each line cut off is missed, but for the last latency, which is 0 if not given."""
    lines = TIERS.rstrip("\n").split("\n")
    for stop in range(len(lines) - 1):
        with pytest.raises(TraceError):
            htsim(written("\n".join(lines[:stop]), "cut.topo"))


# --- the HPCC simulator ---------------------------------------------------------------------


HPCC = """\
5 2 4
0 3
1 0 10Gbps 1000ns 0
2 0 1250MBps 0.002ms 0.000000
0 3 40Gbps 5us 0
4 3 10Gbps 1000000ps 0
"""


def test_a_topology_of_hpcc(written):
    net = netsim.read_network(written(HPCC, "topology.txt"))
    assert net.nodes == ("host-1", "host-2", "host-4", "switch-0", "switch-3")
    assert names_on(net, 1, 2) == ["host-2->switch-0", "switch-0->switch-3", "switch-3->host-4"]
    assert latency_s(net, 1, 2) == pytest.approx(8e-6, rel=1e-12)
    assert net.capacity[net.link("host-2->switch-0")] == 1.25e9


@pytest.mark.parametrize("first", ["5 2 4", "5 2 1 4", "5 2 1 4 10000000000 40000000000.0",
                                   "5 2 1 4 10Gbps 40Gbps"])
def test_rates_without_a_unit_are_bits_per_second(written, first):
    """As in ns-3: 10^10 bits are 1.25 GB. PowerTCP has the top-of-rack switches, and rates, too."""
    text = HPCC.replace("5 2 4", first).replace("10Gbps", "10000000000.0").replace(
        "40Gbps", "40000000000")
    net, units = (netsim.read_network(written(each, "topology.txt")) for each in (text, HPCC))
    assert net.capacity.tolist() == units.capacity.tolist()
    assert set(net.capacity) == {1.25e9, 5e9}
    assert net.link_names == units.link_names


def test_simai_lists_nvswitches_first(written):
    """Two servers of two GPUs: node 4 and 5 are NVSwitches, 6 joins the NICs."""
    links = [f"{gpu} {4 + gpu // 2} 2880Gbps 25ns 0" for gpu in range(4)]
    links += [f"{gpu} 6 400Gbps 500ns 0" for gpu in range(4)]
    text = "7 2 2 1 8 H100\n4 5 6\n" + "\n".join(links) + "\n"
    net = netsim.read_network(written(text, "simai.txt"))
    # By the other switch it would be two hops, too.
    assert names_on(net, 0, 1) == ["host-0->nvswitch-4", "nvswitch-4->host-1"]
    assert names_on(net, 3, 2) == ["host-3->nvswitch-5", "nvswitch-5->host-2"]
    assert net.nodes[4:] == ("nvswitch-4", "nvswitch-5", "switch-6")
    assert names_on(net, 0, 2) == ["host-0->switch-6", "switch-6->host-2"]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("5 2 4", "5 2 5", "5 links announced, 4 found"),
    ("5 2 4", "5 3 4", "2: 3 switches announced|switch"),
    ("0 3\n", "0 9\n", "2: the number of a switch must be a whole number from 0 to 4, not '9'"),
    ("0 3\n", "0 0\n", "2: switch 0 is there twice"),
    ("1 0 10Gbps", "1 1 10Gbps", "3: the link leads from node 1 to itself"),
    ("1 0 10Gbps", "1 0 10Gbpss", "3: rate '10Gbpss' has the unknown unit"),
    ("1 0 10Gbps", "1 0 0Gbps", "3: rate must be greater than 0"),
    ("1000000ps 0", "1_0ps 0", "6: delay must be a number with a unit, such as .* not '1_0ps'"),
    ("5us 0", "-5us 0", "5: delay must be at least 0"),
    ("5us 0", "5us", "5: error of the link is missing"),
    ("0 3 40Gbps", "0 2 40Gbps", "there is no path from host 0, 'host-1', to host 2"),
    ("5 2 4", "9999999 2 4", "4 links cannot join 9999997 hosts"),
])
def test_bad_topologies_of_hpcc(written, old, new, said):
    assert HPCC.count(old) == 1
    with pytest.raises(TraceError, match=said):
        netsim.read_network(written(HPCC.replace(old, new), "bad.txt"))


def test_losses_and_further_links_are_told(written):
    text = HPCC.replace("5us 0", "5us 0.01") + "First line: nodes\n4 0 10Gbps 1ns 0\n"
    with pytest.warns(NetsimWarning) as caught:
        net = netsim.read_network(written(text, "topology.txt"))
    assert net.links == 8
    assert ["lose packets" in str(each.message) for each in caught] == [True, False]
    assert "topology.txt:8: 1 lines like links follow" in str(caught[1].message)


# --- NCCL -----------------------------------------------------------------------------------


def server(inside="", nic='<nic><net name="mlx5_0" dev="0" speed="200000" latency="1.5"/></nic>',
           cpu=""):
    """Return two CPUs; on the first a switch with two GPUs and a NIC, on the second a GPU."""
    return f"""\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="s" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="g0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="90" rank="0">{inside}</gpu>
      </pci>
      <pci busid="g1" class="0x030200" link_speed="16 GT/s" link_width="8">
        <gpu dev="1" sm="90" rank="1"/>
      </pci>
      <pci busid="n0" class="0x020700" link_speed="" link_width="0">{nic}</pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="g2" class="0x030200" link_speed="32 GT/s" link_width="16"/>{cpu}
  </cpu>
</system>
"""


def test_a_server(written):
    """PCIe: 16 lanes of 16 GT/s are 16 120/80 = 24 GB/s; of no known speed 12; NVLinks 20.6."""
    path = written(server('<nvlink target="g1" count="4" tclass="0x030200"/>'
                          '<c2c bw="900" count="2"/>'), "server.xml")
    found = read_nccl_server(path)
    assert {each.busid: (each.kind, each.parent, each.rate / 1e9) for each in found.devices} == {
        "s": ("pci", "numa0", 24.0), "g0": ("gpu", "s", 24.0), "g1": ("gpu", "s", 12.0),
        "n0": ("nic", "s", 12.0), "g2": ("gpu", "numa1", 48.0)}
    assert [(each.start, each.end, each.kind) for each in found.links] == [
        ("g0", "g1", "nvlink"), ("g0", "numa0", "c2c"), ("numa0", "g0", "c2c")]
    assert [each.rate for each in found.links] == pytest.approx([82.4e9, 1.8e9, 1.8e9])
    assert [cpu.between / 1e9 for cpu in found.cpus] == [22.0, 16.0]
    assert found.nets == (("n0", "mlx5_0", 25e9, 1.5e-6),)
    assert [each.busid for each in found.gpus] == ["g0", "g1", "g2"]


def test_paths_inside_and_between_servers(written):
    """One NVLink leads one way only; the way back is by PCIe."""
    path = written(server('<nvlink target="g1" count="4" tclass="0x030200"/>'), "server.xml")
    net = netsim.read_network(path, servers=2)
    assert names_on(net, 0, 1) == ["gpu-0.0->gpu-0.1"]
    assert names_on(net, 1, 0) == ["gpu-0.1->pci-0.0", "pci-0.0->gpu-0.0"]
    assert names_on(net, 2, 1) == ["gpu-0.2->cpu-0.1", "cpu-0.1->cpu-0.0", "cpu-0.0->pci-0.0",
                                   "pci-0.0->gpu-0.1"]
    assert names_on(net, 0, 4) == ["gpu-0.0->pci-0.0", "pci-0.0->nic-0.0", "nic-0.0->fabric",
                                   "fabric->nic-1.0", "nic-1.0->pci-1.0", "pci-1.0->gpu-1.1"]
    assert latency_s(net, 0, 4) == 1.5e-6
    assert net.capacity[net.link("nic-1.0->fabric")] == 25e9
    assert net.capacity[net.link("cpu-0.0->cpu-0.1")] == 16e9
    again = netsim.from_networkx(net.to_networkx())
    assert sorted(again.link_names) == sorted(net.link_names)
    assert again.hosts == 6


def test_rates_of_xgmi_have_a_name_of_their_own(written):
    path = written(server('<xgmi target="g1" count="4" tclass="0x038000"/>'), "server.xml")
    with pytest.raises(TraceError, match=r"has xGMI links; give xgmi, .* instead of nvlink"):
        netsim.read_network(path, nvlink="50GB/s")
    assert netsim.read_network(path, xgmi="50GB/s").hosts == 3


def test_flows_share_the_nic_of_a_server(written):
    """Three GPUs send S each to the other server: 3 S/25 GB/s, after which all are done."""
    net = nccl(written(server(), "server.xml"), servers=2, nvlink="900GB/s")
    job = netsim.JobSpec(0, ranks=6, hosts=range(6), stages=[
        netsim.Stage("a", [(k, 3 + k, "1GB") for k in range(3)])])
    done = netsim.simulate(net, [job], allocator="maxmin")
    # Two of them come through the same PCIe port of the NIC, of 12 GB/s, and so does the third.
    assert done.jobs["jct_s"].iloc[0] == pytest.approx(3 / 12, abs=1e-5)


def test_gpus_as_near_take_turns_with_nics(written):
    more = "".join(f'<pci busid="n{k}" class="0x02"/>' for k in (1, 2))
    net = nccl(written(server(cpu=more), "server.xml"), servers=2, nvlink=0, nic="100Gbps")
    assert names_on(net, 2, 3)[1] == "cpu-0.1->nic-0.1"
    assert names_on(net, 0, 3)[1] == names_on(net, 1, 3)[1] == "pci-0.0->nic-0.0"


@pytest.mark.parametrize(("text", "options", "said"), [
    (server(), {}, "has no NVLinks; give nvlink"),
    (server().replace("32 GT/s", "\uff11\uff16.0 GT/s"), {"nvlink": 0},
     "server.xml:14: <pci>: link_speed must be such as '16.0 GT/s PCIe', not"),
    (server(nic=""), {"servers": 2, "nvlink": 0}, "has no speed of NIC n0; give nic"),
    (server(nic="").replace('class="0x020700"', 'class="0x060400"'),
     {"servers": 2, "nvlink": 0}, "has no NIC, which GPU g0 needs"),
    (server(nic="").replace('class="0x020700"', ""), {"nvlink": 0},
     "does not say what these devices are: n0"),
    (server('<xgmi target="g1" count="1"/>'), {}, "no speed of its xGMI"),
    (server('<nvlink target="g1" count="1" tclass="0x03"/>'), {"nvlink": "1GB/s"}, "leave out"),
    (server('<nvlink target="g9" count="1" tclass="0x03"/>'), {}, "server.xml:5: .*'g9'"),
    (server().replace('busid="g2"', 'busid="g1"'), {"nvlink": 0}, "server.xml:14: .*'g1' .*twice"),
    (server().replace('numaid="1"', 'numaid="0"'), {"nvlink": 0}, "CPU numa0 is there twice"),
    (server().replace("</cpu>", "", 1), {}, "is not XML: mismatched tag"),
    ("<algo/>", {}, "must be a <system>"),
    (server().replace("0x0302", "0x0604").replace("<gpu", "<x").replace("</gpu>", "</x>"),
     {"nvlink": 0}, "has no GPU"),
])
def test_bad_servers(written, text, options, said):
    with pytest.raises(TraceError, match=said):
        nccl(written(text, "server.xml"), **options)


def test_kinds_say_what_devices_are(written):
    path = written(server(nic="").replace('class="0x020700"', ""), "server.xml")
    net = nccl(path, servers=2, nvlink=0, nic="100Gbps", kinds={"n0": "nic"})
    assert net.hosts == 6
    with pytest.raises(InputError, match="no device 'n7'"):
        nccl(path, kinds={"n7": "nic"})
    with pytest.raises(InputError, match="unknown kind of device 'n0' 'cpu'"):
        nccl(path, kinds={"n0": "cpu"})


def test_a_link_to_itself_is_left_out(written):
    path = written(server('<nvlink target="g0" count="1" tclass="0x03"/>'), "server.xml")
    with pytest.warns(NetsimWarning, match="server.xml:5: a link of GPU g0 leads to itself"):
        assert not read_nccl_server(path).links


BOMB = """<?xml version="1.0"?>
<!DOCTYPE system [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<system version="&b;"/>
"""


@pytest.mark.parametrize("text", [
    BOMB, '<!DOCTYPE system SYSTEM "file:///etc/passwd"><system/>',
    '<!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/passwd">]><system version="1">&x;</system>'])
def test_document_types_and_entities_are_refused(written, text):
    with pytest.raises(TraceError, match=r"server.xml:\d: has a document type or entities"):
        read_xml(written(text, "server.xml"))


def test_xml_is_not_nested_without_end(written):
    assert read_xml(written("<a>" * 1000 + "</a>" * 1000, "deep.xml")).name == "a"
    with pytest.raises(TraceError, match="more than 1,000 deep"):
        read_xml(written("<a>" * 1001 + "</a>" * 1001, "deep.xml"))
    for text in ("", "<a>", "<a>&x;</a>", '<?xml version="1.0" encoding="nope"?><a/>'):
        with pytest.raises(TraceError, match="is not XML"):
            read_xml(written(text, "bad.xml"))
    with pytest.raises(TraceError, match=r"nowhere\.xml: no such file"):
        read_xml("nowhere.xml")


# --- where users meet them -------------------------------------------------------------------


def test_in_descriptions_experiments_and_on_the_command_line(written, tmp_path):
    path = written(TIERS, "fat.topo")
    toml = written('kind = "htsim"\nfile = "fat.topo"\nrouting = "shortest"\n', "mine.toml")
    assert netsim.read_network(toml).routing == "shortest"
    flows = written("Nodes 16\nConnections 1\n0->15 start 0 size 1000\n", "one.cm")
    experiment = netsim.Experiment(network={"file": str(path)}, workload={"file": str(flows)},
                                   allocator="maxmin")
    assert experiment.network.built.hosts == 16
    kind = netsim.Experiment(network={"kind": "nccl", "nvlink": 0, "file": str(
        written(server(), "s.xml"))}, workload={"name": "parrot-fig2"}, allocator="maxmin")
    assert kind.network.built.hosts == 3
    done = CliRunner().invoke(main, ["topo", "show", str(path)])
    assert done.exit_code == 0
    assert "switches          8 in 3 layers" in done.output
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert netsim.simulate(path, flows).jobs["finish_s"].iloc[0] > 0


@pytest.mark.parametrize("suffix", ["toml", "topo", "json"])
def test_files_compressed_by_gzip(tmp_path, suffix):
    """They are told by the suffix before and their content, and named after the file inside."""
    texts = {"toml": 'kind = "ring"\nhosts = 4\ncapacity = "1Gbps"\n',
             "topo": "Nodes 4\nPodsize 4\nTiers 2\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\n"
                     "Radix_Up 2\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\n"
                     "Radix_Down 2\nDownlink_Latency_ns 1000\n",
             "json": '{"nodes": [{"id": "a"}, {"id": "s"}, {"id": "b"}], "links": ['
                     '{"source": "a", "target": "s", "capacity": "1Gbps"}, '
                     '{"source": "s", "target": "b", "capacity": "1Gbps"}]}'}
    plain, packed = tmp_path / f"net.{suffix}", tmp_path / f"net.{suffix}.gz"
    plain.write_text(texts[suffix])
    packed.write_bytes(gzip.compress(texts[suffix].encode()))
    expected, found = netsim.read_network(plain), netsim.read_network(packed)
    assert (found.name, found.hosts, found.link_names) == (
        expected.name, expected.hosts, expected.link_names)
