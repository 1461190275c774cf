"""Every registered allocator on every kind of topology: feasible, and done."""

from __future__ import annotations

import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.network import TOPOLOGIES
from netsim.testing import check_allocator
from tests.pairs import in_turn

HALF = {"a": "1MB/s", "b": "2MB/s", "c": "0.5MB/s"}
GRAPH = nx.Graph()
for _host, _rate in HALF.items():
    GRAPH.add_edge(_host, "left" if _host == "a" else "right", capacity=_rate)
GRAPH.add_edge("left", "right", capacity="0.75MB/s")

FILES = {
    "infragraph": """{"devices": [
{"name": "box", "components": [{"name": "gpu", "count": 2, "choice": "xpu"},
{"name": "sw", "count": 1, "choice": "switch"}],
"links": [{"name": "in"}], "edges": [{"ep1": {"component": "gpu"}, "ep2": {"component": "sw"},
"scheme": "many2many", "link": "in"}]}],
"instances": [{"name": "box", "device": "box", "count": 2}],
"links": [{"name": "out"}], "edges": [{"ep1": {"instance": "box[0]", "component": "sw"},
"ep2": {"instance": "box[1]", "component": "sw"}, "scheme": "one2one", "link": "out"}]}
""",
    "htsim": """Nodes 4
tiers 2
Podsize 4
Tier 0
Downlink_speed_Gbps 0.008
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 500
Tier 1
Downlink_speed_Gbps 0.008
Radix_Down 2
Downlink_Latency_ns 700
""",
    "hpcc": """5 2 4
0 3
1 0 8Mbps 1000ns 0
2 0 4Mbps 2us 0
0 3 6Mbps 5us 0
4 3 8Mbps 1us 0
""",
    "nccl": """<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
<pci busid="g0" class="0x030200" link_speed="16 GT/s" link_width="16">
<gpu dev="0" sm="90" rank="0"/></pci>
<pci busid="g1" class="0x030200" link_speed="16 GT/s" link_width="8">
<gpu dev="1" sm="90" rank="1"/></pci>
<pci busid="n0" class="0x020700" link_speed="16 GT/s" link_width="16">
<nic><net name="mlx5_0" dev="0" speed="1000" latency="1.5"/></nic></pci>
</cpu></system>
""",
    "simgrid": """<platform version="4.1"><zone id="z" routing="Full">
<cluster id="c" prefix="" suffix="" radical="0-2" bw="1MBps" lat="0" bb_bw="1.5MBps"/>
<host id="h"/><link id="l" bandwidth="0.5MBps"/>
<zoneRoute src="c" dst="h" gw_src="c_router"><link_ctn id="l"/></zoneRoute>
</zone></platform>
""",
}


def from_file(kind, **options):
    """Return the network of this kind that the text in ``FILES`` describes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network.{kind}"
        path.write_text(FILES[kind])
        return TOPOLOGIES.make(kind, {"file": path, **options})


NETWORKS = {
    "big-switch": netsim.big_switch(4, "1MB/s"),
    "leaf-spine": netsim.leaf_spine(2, 2, 2, "1MB/s", oversubscription=2),
    "fat-tree": netsim.fat_tree(4, "1MB/s", loopback_uses_ports=True),
    "rail-pod": netsim.rail_pod(2, 2, 1, "1MB/s", intra="4MB/s"),
    "gpu-cluster": netsim.gpu_cluster(2, 2, "4MB/s", "1MB/s", spine=1, routing="spray"),
    "ring": netsim.ring(5, "1MB/s"),
    "torus": netsim.torus([3, 2], "1MB/s"),
    "edge-cloud": netsim.edge_cloud(2, 2, "1MB/s", "0.25MB/s", cloud="4MB/s"),
    "graph": netsim.from_networkx(GRAPH),
    "htsim": from_file("htsim"),
    "hpcc": from_file("hpcc"),
    "nccl": from_file("nccl", servers=2, nvlink=0),
    "simgrid": from_file("simgrid"),
    "infragraph": from_file("infragraph", capacity={"in": "1MB/s", "out": "0.75MB/s"}),
}
ALLOCATORS = sorted(netsim.ALLOCATORS)


def test_every_kind_is_covered() -> None:
    assert set(NETWORKS) == set(TOPOLOGIES)


@pytest.mark.parametrize(("allocator", "kind"), in_turn(ALLOCATORS, NETWORKS, rounds=2))
def test_keeps_its_promises(allocator, kind) -> None:
    check_allocator(allocator, networks=[NETWORKS[kind]], examples=5)


@pytest.mark.parametrize(("allocator", "kind"), in_turn(ALLOCATORS, NETWORKS, rounds=4, first=1))
def test_runs_within_capacity(allocator, kind) -> None:
    """Links carry what the flows sent, no faster than they can; no job beats its bound."""
    net = NETWORKS[kind]
    ranks = net.hosts
    jobs = [netsim.JobSpec(id=0, pattern="all-to-all", ranks=ranks, nbytes=3e5, iterations=2),
            netsim.JobSpec(id=1, arrival_s=0.1, pattern="ring-all-reduce", ranks=ranks,
                           nbytes=2e5),
            netsim.JobSpec(id=2, arrival_s=0.1, pattern="parameter-server", ranks=2, nbytes=1e5)]
    result = netsim.simulate(net, netsim.Workload(jobs), allocator=allocator,
                             record=("jobs", "coflows", "links"))
    assert result.jobs["finish_s"].notna().all()
    assert (result.jobs["jct_s"] >= result.jobs["lower_bound_s"] * (1 - 1e-9)).all()
    carried = result.links
    capacity = carried["link"].map(dict(zip(net.link_names, net.capacity, strict=True)))
    took = carried["end_s"] - carried["start_s"]
    assert np.all(carried["bytes"] <= capacity * took * (1 + 1e-6) + 1e-3)
