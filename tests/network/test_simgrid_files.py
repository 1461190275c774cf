"""Platforms of SimGrid: the routes that they amount to, and what is refused."""

import pickle

import numpy as np
import pytest
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.network import describe_network, read_network

HEAD = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
"""

#: Three hosts whose routes share links, in both directions.
FULL = HEAD + """<zone id="z" routing="Full">
<host id="a" speed="1Gf"/> <host id="b" speed="1Gf"/> <host id="c" speed="1Gf"><prop id="x"/></host>
<link id="one" bandwidth="1MBps" latency="1ms"/>
<link id="two" bandwidth="16Mbps"/>
<link id="up" bandwidth="3e6" latency="2" sharing_policy="SPLITDUPLEX"/>
<link id="loop" bandwidth="9MBps" latency="15us" sharing_policy="FATPIPE"/>
<route src="a" dst="a"><link_ctn id="loop"/></route>
<route src="a" dst="b"><link_ctn id="one"/><link_ctn id="up" direction="UP"/></route>
<route src="a" dst="c"><link_ctn id="two"/></route>
<route src="b" dst="c" symmetrical="NO"><link_ctn id="one"/><link_ctn id="two"/></route>
<route src="c" dst="b" symmetrical="NO"><link_ctn id="up_DOWN"/></route>
</zone></platform>
"""

#: A cluster and a zone that searches its routes, each with a gateway, inside another zone.
NESTED = HEAD + """<AS id="world" routing="Full">
<cluster id="left" prefix="l" suffix=".x" radical="0-1,7" speed="1Gf" bw="1MBps" lat="50us"
         bb_bw="4MBps" bb_lat="500us"/>
<AS id="right" routing="Floyd">
<host id="h" speed="1Gf"/> <router id="r"/> <router id="far"/>
<AS id="inner" routing="Full"><host id="i" speed="1Gf"/><router id="door"/>
<link id="id" bandwidth="2MBps"/><route src="i" dst="door"><link_ctn id="id"/></route></AS>
<link id="hr" bandwidth="2MBps"/> <link id="rf" bandwidth="2MBps"/>
<link id="fi" bandwidth="2MBps"/>
<route src="h" dst="r"><link_ctn id="hr"/></route>
<route src="r" dst="far"><link_ctn id="rf"/></route>
<ASroute src="far" dst="inner" gw_src="far" gw_dst="door"><link_ctn id="fi"/></ASroute>
</AS>
<link id="wan" bandwidth="0.5MBps" latency="10ms"/>
<ASroute src="left" dst="right" gw_src="lleft_router.x" gw_dst="r"><link_ctn id="wan"/></ASroute>
</AS></platform>
"""

#: A cluster as a zone: a host with a link in each direction, one with a link for both, a cabinet.
CLUSTER = HEAD + """<zone id="world" routing="full">
<zone id="z" routing="Cluster">
<backbone id="bb" bandwidth="4MBps" latency="500us"/> <router id="r"/>
<host id="a" speed="1Gf"/> <host id="b" speed="1Gf"/>
<host_link id="a" up="in_UP" down="in_DOWN"/> <host_link id="b" up="both" down="both"/>
<link id="in" bandwidth="2MBps" sharing_policy="SPLITDUPLEX"/>
<link id="both" bandwidth="2MBps" latency="1m"/>
<cabinet id="row" prefix="h" suffix=".x" radical="3-4" speed="1Gf" bw="1MBps" lat="50us"/>
</zone>
<zone id="far" routing="None"><host id="f" speed="1Gf"/></zone>
<link id="wan" bandwidth="1MBps"/>
<zoneRoute src="z" dst="far" gw_src="r" gw_dst="f"><link_ctn id="wan"/></zoneRoute>
</zone></platform>
"""


@pytest.fixture
def read(tmp_path):
    def written(text, **changes):
        path = tmp_path / "p.xml"
        path.write_text(text)
        return read_network(path, **changes)
    return written


def named(network, src, dst):
    return [network.link_names[link] for link in network.route(src, dst)]


def test_a_list_of_routes(read):
    """A shared link is one in both directions; a split one has two, which swap on the way back."""
    net = read(FULL)
    assert net.host_names == ("a", "b", "c")
    assert net.link_names == ("one", "two", "up_UP", "up_DOWN", "loop")
    assert net.capacity.tolist() == [1e6, 2e6, 3e6, 3e6, 9e6]
    assert net.wire.latency.tolist() == pytest.approx([1e-3, 0, 2, 2, 15e-6])
    assert named(net, "a", "b") == ["one", "up_UP"]
    assert named(net, "b", "a") == ["up_DOWN", "one"]
    assert named(net, "b", "c") == ["one", "two"]
    assert named(net, "c", "b") == ["up_DOWN"]
    assert named(net, "a", "a") == []


def test_flows_in_both_directions_share_a_link(read):
    """Flows a -> b and b -> a have half of `one` each: 1 MB in 2 s, beside 2.001 s of latency."""
    net = read(FULL)
    jobs = [netsim.JobSpec(0, stages=[netsim.Stage("s", [(0, 1, 1e6)])], hosts=["a", "b"]),
            netsim.JobSpec(1, stages=[netsim.Stage("s", [(0, 1, 1e6)])], hosts=["b", "a"])]
    assert netsim.simulate(net, jobs, allocator="maxmin").jobs["jct_s"].tolist() == pytest.approx(
        [4.001, 4.001])


def test_events_name_links(read):
    """1 MB at 2 MB/s, and from 0.25 s on at 1 MB/s: 0.25 + 0.5 s. A host's links are unknown."""
    net = read(FULL)
    jobs = [netsim.JobSpec(0, stages=[netsim.Stage("s", [(0, 1, 1e6)])], hosts=["a", "c"])]
    slower = {"at": 0.25, "link": "two", "capacity": "1MB/s"}
    done = netsim.simulate(pickle.loads(pickle.dumps(net)), jobs, allocator="maxmin",
                           events=[slower])
    assert done.jobs["jct_s"].tolist() == pytest.approx([0.75])
    with pytest.raises(InputError, match="it has no graph, and events name links"):
        netsim.simulate(net, jobs, allocator="maxmin",
                        events=[{"at": 1, "host": "a", "kind": "fail"}])


def test_zones_in_zones(read):
    net = read(NESTED)
    assert net.host_names == ("l0.x", "l1.x", "l7.x", "h", "i")
    assert named(net, "l0.x", "l7.x") == ["left_link_0_UP", "left_backbone", "left_link_7_DOWN"]
    assert named(net, "l7.x", "h") == ["left_link_7_UP", "left_backbone", "wan", "hr"]
    assert named(net, "i", "l1.x") == ["id", "fi", "rf", "wan", "left_backbone", "left_link_1_DOWN"]
    assert named(net, "h", "i") == ["hr", "rf", "fi", "id"]
    ptr, links = net.routes(np.array([0, 3]), np.array([1, 4]), np.array([0, 0]))
    assert ptr.tolist() == [0, 3, 7]
    assert net.wire.latency_of(ptr, links).tolist() == pytest.approx([6e-4, 0])


def test_a_shared_cluster_without_backbone(read):
    """With one link per host, a route is both hosts' links."""
    net = read(HEAD + '<cluster id="c" prefix="" suffix="" radical="0-2" bw="1GBps" lat="0"'
               ' sharing_policy="SHARED"/></platform>')
    assert net.host_names == ()
    assert named(net, 0, 2) == ["c_link_0", "c_link_2"]


def test_a_cluster_as_a_zone(read):
    """The backbone is crossed once, also on the way to the router; a minute is one of SimGrid's."""
    net = read(CLUSTER)
    assert net.host_names == ("a", "b", "h3.x", "h4.x", "f")
    assert named(net, "a", "b") == ["in_UP", "bb", "both"]
    assert named(net, "b", "a") == ["both", "bb", "in_DOWN"]
    assert named(net, "h3.x", "h4.x") == ["link_h3.x_UP", "bb", "link_h4.x_DOWN"]
    assert named(net, "h4.x", "f") == ["link_h4.x_UP", "bb", "wan"]
    assert named(net, "f", "b") == ["wan", "bb", "both"]
    assert net.wire.latency[[net.link("both"), net.link("link_h3.x_UP")]].tolist() == pytest.approx(
        [60, 5e-5])


def test_a_link_for_two_hosts_of_a_cluster(read):
    net = read(CLUSTER.replace("in_UP", "both").replace("in_DOWN", "both"))
    assert named(net, "a", "b") == ["both", "bb"]


def test_limiters(read):
    """As SimGrid 3.32 does, they are crossed first on the way up, and last on the way down."""
    net = read(NESTED.replace("bb_lat", 'limiter_link="3MBps" bb_lat'))
    assert named(net, "l7.x", "l0.x") == [
        "left_link_7_limiter", "left_link_7_UP", "left_backbone", "left_link_0_DOWN",
        "left_link_0_limiter"]
    assert net.capacity[net.link("left_link_0_limiter")] == 3e6


def test_a_cluster_has_one_backbone(read):
    with pytest.raises(TraceError, match="a zone has one <backbone>"):
        read(CLUSTER.replace("<backbone", '<backbone id="b2" bandwidth="1MBps"/> <backbone', 1))


def test_what_comes_before_the_declaration(read):
    """SimGrid's parser takes it; lines are counted as in the file."""
    net = read("\n<!-- five hosts -->\n" + NESTED)
    assert net.hosts == 5
    with pytest.raises(TraceError, match="unknown link 'too'") as refused:
        read("\n<!-- <?xml?> -->\n<!---->" + FULL.replace('ctn id="two"', 'ctn id="too"', 1))
    assert refused.value.line == 14


@pytest.mark.parametrize(("before", "after", "left_out"), [
    ('<host id="b"', '<host state_file="b.fail" speed_file="b.speed" id="b"',
     "speed_file of 'b', state_file of 'b'"),
    ("</zone>", '<trace id="t" periodicity="1">0 1</trace><trace_connect trace="t" element="a"/>'
     "</zone>", "HOST_AVAIL of 'a'"),
    ("</zone>", '</zone><trace_connect kind="SPEED" trace="t" element="c"/>', "SPEED of 'c'"),
    ("<zone", '<config><prop id="network/model" value="CM02"/><prop id="path" value="x"/></config>'
     "<zone", "network/model=CM02$")])
def test_what_is_left_out(read, before, after, left_out):
    """One warning for all of it; traces that are not connected, and other settings, say nothing."""
    with pytest.warns(NetsimWarning, match=left_out) as warned:
        net = read(FULL.replace(before, after, 1))
    assert len(warned) == 1
    assert named(net, "a", "b") == ["one", "up_UP"]


def test_hosts_named_by_other_numbers(read):
    net = read(HEAD + '<zone id="z" routing="Full"><host id="1"/><host id="0"/></zone></platform>')
    assert net.host("0") == 1
    assert net.misleading == {0, 1}


def test_facts_without_a_graph(read, tmp_path):
    net = read(NESTED)
    facts = describe_network(net)
    assert (facts["hosts"], facts["links"], facts["switches"]) == (5, 12, None)
    with pytest.raises(InputError, match="links of a SimGrid platform have no ends"):
        net.plot()
    shown = CliRunner().invoke(main, ["topo", "show", str(tmp_path / "p.xml")])
    assert not shown.exit_code, shown.output
    assert "4 Mbps to 32 Mbps" in shown.output
    assert "switches" not in shown.output


def test_options(read):
    """Its wire can be changed as that of any network."""
    assert read(FULL, latency={"one": "5ms"}, name="n").wire.latency[0] == 5e-3


REFUSED = {
    "routing": ('routing="Full"', 'routing="Vivaldi"', 4, "unknown routing 'Vivaldi'; choose from: "
                "Full, None, Floyd"),
    "a FATPIPE": ('<link_ctn id="two"/></route>\n<route src="b"',
                  '<link_ctn id="loop"/></route>\n<route src="b"', 12, "'loop' is a FATPIPE"),
    "WIFI": ("FATPIPE", "WIFI", 9, "unknown sharing policy 'WIFI'; choose from: SHARED"),
    "a direction": (' direction="UP"', "", 11, "'up' is split in two; give the direction"),
    "a way": ('direction="UP"', 'direction="ALL"', 11, "UP, DOWN or NONE, not 'ALL'"),
    "a link": ('<link_ctn id="two"/>', '<link_ctn id="too"/>', 12, "unknown link 'too'.*two"),
    "a host": ('src="a" dst="c"', 'src="a" dst="d"', 12, "unknown point of zone 'z' 'd'"),
    "twice": ('src="c" dst="b" symmetrical', 'src="c" dst="a" symmetrical', 14,
              "the route from 'c' to 'a' is there twice"),
    "symmetry": ('symmetrical="NO"><link_ctn id="one"/>', 'symmetrical="MAYBE">', 13,
                 "must be YES or NO, not 'MAYBE'"),
    "an id": ('host id="b"', 'host id="a"', 5, "the id 'a' is there twice"),
    "a link's id": ('link id="two"', 'link id="one"', 7, "the link 'one' is there twice"),
    "a rate": ("16Mbps", "16Mbits", 7, "<link>: bandwidth"),
    "no rate": (' bandwidth="16Mbps"', "", 7, "<link> has no attribute 'bandwidth'"),
    "a time": ('latency="1ms"', 'latency="1ly"', 6, "<link>: latency"),
    "a profile": ('latency="1ms"', 'bandwidth_file="x"', 6, "bandwidth_file is not read"),
    "a profile of its trace": ("</zone>", '</zone><trace_connect kind="BANDWIDTH" trace="t" '
                               'element="one"/>', 15, "BANDWIDTH of 'one' is not read"),
    "an attribute": ('latency="1ms"', 'latancy="1ms"', 6, "unknown attribute of <link> 'latancy' "
                     ".did you mean 'latency'"),
    "an old host": ('speed="1Gf"', 'power="1Gf"', 5, "unknown attribute of <host> 'power'"),
    "a bypass": ('<route src="a" dst="b"', '<bypassRoute src="a" dst="c"/><route src="a" dst="b"',
                 11, "element of a zone 'bypassRoute'"),
    "a row": ("<link", '<cabinet id="c" prefix="" suffix="" radical="1" bw="1" lat="1"/><link', 6,
              "<cabinet> must stand in a zone with routing='Cluster'"),
    "an element": ("<link id", "<peer id", 6, "element of a zone 'peer'; choose from: host"),
    "two roots": ("</zone>", '</zone><zone id="y" routing="Full"/>', 3, "one zone or cluster"),
    "declarations": ('"https://simgrid.org/simgrid.dtd"', '"x" [<!ENTITY a "b">]', 2,
                     "document type or entities"),
    "another type": ("DOCTYPE platform", "DOCTYPE other", 2, "document type or entities"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(read, case):
    before, after, line, message = REFUSED[case]
    assert before in FULL
    with pytest.raises(TraceError, match=message) as refused:
        read(FULL.replace(before, after, 1))
    assert refused.value.line == line


def test_clusters_that_are_refused(read):
    for before, after, message in (
            ("0-1,7", "0-", "radical must list numbers and ranges"),
            ("0-1,7", "3-1", "the range '3-1' of the radical is empty"),
            ("0-1,7", "0-999999999", "limit of 1,000,000 hosts"),
            ('bb_bw="4MBps"', "", "<cluster> has no attribute 'bb_bw'"),
            ("bb_lat", 'topology="TORUS" bb_lat', "topology='TORUS' is not read"),
            ("bb_lat", 'bb_sharing_policy="FATPIPE" bb_lat', "'left_backbone' is a FATPIPE"),
            ("bb_lat", 'bb_sharing_policy="SPLITDUPLEX" bb_lat', "must be SHARED"),
            ('gw_dst="r"', 'gw_dst="l0.x"', "gw_dst 'l0.x' is not in zone 'right'"),
            ('gw_dst="r"', "", "no attribute 'gw_dst'")):
        assert before in NESTED
        with pytest.raises(TraceError, match=message) as refused:
            read(NESTED.replace(before, after, 1))
        assert refused.value.line


def test_zones_of_clusters_that_are_refused(read):
    for before, after, message in (
            ('host_link id="a"', 'host_link id="h"', "unknown point of zone 'z' 'h'"),
            ('up="both"', 'up="bath"', "unknown link 'bath' .did you mean 'both'"),
            ('radical="3-4"', 'radical="3-"', "<cabinet>: radical must list numbers and ranges"),
            ("<cabinet", '<route src="a" dst="b"/><cabinet', "<route>: a cluster has no routes")):
        with pytest.raises(TraceError, match=message) as refused:
            read(CLUSTER.replace(before, after, 1))
        assert refused.value.line
    net = read(CLUSTER.replace('<host_link id="b" up="both" down="both"/>', ""))
    with pytest.raises(TraceError, match=r"'z' \(Cluster\) has no route from 'a' to 'b'"):
        net.route("a", "b")


def test_flows_without_a_route(read):
    """As in SimGrid, routes may be missing; the first flow that needs one is refused."""
    net = read(FULL.replace('<route src="a" dst="c"><link_ctn id="two"/></route>', ""))
    assert named(net, "b", "c") == ["one", "two"]
    with pytest.raises(TraceError, match=r"'z' \(Full\) has no route from 'a' to 'c'"):
        net.route("a", "c")
    net = read(NESTED.replace('<route src="h" dst="r"><link_ctn id="hr"/></route>', ""))
    with pytest.raises(TraceError, match=r"'right' \(Floyd\) has no route from 'h' to 'inner'"):
        net.route("h", "i")
    net = read(FULL.replace('<link_ctn id="one"/><link_ctn id="two"/>', 2 * '<link_ctn id="one"/>'))
    for _ in range(2):
        with pytest.raises(TraceError, match="'b' to 'c' crosses link 'one' twice"):
            net.route("b", "c")


def test_deep_zones(read):
    deep = "".join(f'<zone id="{k}" routing="Full">' for k in range(11))
    with pytest.raises(TraceError, match="nested more than 10 deep"):
        read(HEAD + deep + "</zone>" * 11 + "</platform>")
