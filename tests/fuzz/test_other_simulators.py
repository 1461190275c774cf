"""Damaged files of other simulators: networks, flows and programs, or what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.collectives import read_msccl
from netsim.network import read_network
from netsim.traces import read_workload

from .checks import check_network, check_workload
from .harness import Guard, fuzzed
from .mutations import damaged

CM = """Nodes 16
Connections 4
Triggers 2
Failures 1
# a comment
0->1 id 1 start 1000000 size 1000 send_done_trigger 1 prio 3
1->3 id 2 trigger 1 size 1000 recv_done_trigger 2
2->3 id 3 trigger 1 size 1000 recv_done_trigger 2 msg 1
3->0 id 4 trigger 2 size 2000
trigger id 1 oneshot
trigger id 2 barrier count 2
failure switch_type TOR switch_id 1 link_id 0
"""
ALONE = "Nodes 16\nConnections 2\n0->1 id 1 start 5.5 size 9\n15->1 id 2 start 0 size 7\n"
TOPO = """Nodes 16
Tiers 3
Podsize 4
Tier 0
Downlink_speed_Gbps 100
Radix_Up 2
Radix_Down 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Up 2
Radix_Down 2
Bundle 1
Downlink_Latency_ns 1000
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
"""
HPCC = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 0.001ms 0\n2 3 25Gbps 1000ns 0\n"
INSIDE = ("5 2 1 1 4 A100\n3 4\n0 3 2Tbps 1us 0\n1 3 2Tbps 1us 0\n"
          "0 4 9Gbps 1us 0\n2 4 9Gbps 1us 0\n")
FLOWS = "3\n0 1 3 100 5000 0.5\n1 2 3 100 5000 0.75\n2 0 3 100 1 2\n"
STEP = ('<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" '
        'deps="-1" hasdep="0"/>')
GPU = ('<gpu id="{}" i_chunks="0" o_chunks="0" s_chunks="2">'
       '<tb id="0" send="{}" recv="{}" chan="0">\n' + STEP.format(0, "s") + "\n"
       + STEP.format(1, "rrc") + "\n</tb></gpu>\n")
MSCCL = ('<algo name="a" proto="Simple" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="1">'
         "\n" + GPU.format(0, 1, 1) + GPU.format(1, 0, 0) + "</algo>\n")
NCCL = """<system version="1">
<cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
<pci busid="0:1" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
<pci busid="0:2" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0:3" count="4" tclass="0x030200"/></gpu></pci>
<pci busid="0:3" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0:2" count="4" tclass="0x030200"/></gpu></pci>
<pci busid="0:4" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" dev="0" speed="100000" port="1" gdr="1"/></nic></pci>
</pci></cpu></system>
"""
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="w" routing="Full">
<cluster id="c" prefix="n" suffix=".x" radical="0-1,3" bw="1GBps" lat="50us" bb_bw="2GBps"/>
<zone id="f" routing="Floyd"><host id="a" speed="1Gf"/><host id="b"/><router id="r"/>
<link id="ar" bandwidth="1e8" latency="1ms" sharing_policy="SPLITDUPLEX"/>
<link id="rb" bandwidth="10Gbps"/>
<route src="a" dst="r"><link_ctn id="ar" direction="UP"/></route>
<route src="r" dst="b" symmetrical="YES"><link_ctn id="rb"/></route></zone>
<link id="wan" bandwidth="1Gbps" latency="1ms"/>
<zoneRoute src="c" dst="f" gw_src="nc_router.x" gw_dst="r"><link_ctn id="wan"/></zoneRoute>
</zone></platform>
"""
BATSIM = """{"nb_res": 3,
"jobs": [{"id": "1", "subtime": 0, "walltime": 3, "res": 1, "profile": "d"},
{"id": "2", "subtime": 1.5, "res": 2, "profile": "p"},
{"id": "3", "subtime": 2, "walltime": -1, "res": 3, "profile": "s"}],
"profiles": {"d": {"type": "delay", "delay": 20.25},
"p": {"type": "parallel", "cpu": [5e6, 2e6], "com": [7e6, 0, 3e6, 0]},
"h": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e7, "com": 1e6,
"generation_strategy": "DefinedAmountsSpreadUniformly"},
"s": {"type": "composed", "repeat": 4, "seq": ["d", "h"]}}}
"""


def read_platform(path: Path) -> Any:
    """Read a platform, and ask for the routes of `check_network`, as some may be missing."""
    network = read_network(path)
    ends = np.array([0, network.hosts // 2, network.hosts - 1])
    network.routes(ends, ends[::-1].copy(), np.arange(3))
    return network


#: By name of the file: valid contents, and what reads it.
FILES: dict[str, tuple[list[str], Any, Any]] = {
    "t.cm": ([CM, ALONE], read_workload, check_workload),
    "flow.txt": ([FLOWS], read_workload, check_workload),
    "n.topo": ([TOPO], read_network, check_network),
    "n.txt": ([HPCC, INSIDE], read_network, check_network),
    "n.xml": ([NCCL], lambda path: read_network(path, servers=2), check_network),
    "p.xml": ([PLATFORM], read_platform, check_network),
    "b.json": ([BATSIM], lambda path: read_workload(path, format="batsim", speed=1e9),
               check_workload),
    "a.xml": ([MSCCL], read_msccl, lambda program: program.messages_sent)}


@pytest.mark.filterwarnings("ignore::netsim.NetsimWarning")
def test_files_are_valid(tmp_path: Path) -> None:
    for name, (texts, read, check) in FILES.items():
        for text in texts:
            (tmp_path / name).write_text(text)
            check(read(tmp_path / name))


@pytest.mark.parametrize("name", sorted(FILES))
@fuzzed(1.5)
@given(data=st.data())
def test_files_of_other_simulators(guard: Guard, part: int, name: str, data: st.DataObject) -> None:
    texts, read, check = FILES[name]
    contents = data.draw(damaged(data.draw(st.sampled_from(texts)).encode()))
    with guard.folder() as folder:
        (folder / name).write_bytes(contents)
        made = guard(lambda: read(folder / name), named=folder)
        if made is not None:
            check(made)
