"""Where SimGrid is installed, flows end when they end there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netsim.network import read_network

BESIDE = Path(__file__).parent / "bench" / "beside_simgrid.py"


def test_ends_of_flows():
    """100 and 1,000 flows at once, and 1,000 Poisson ones: to 1e-9 of each flow's duration.

    On a switch; and 500 of either kind on a fat-tree.
    """
    done = subprocess.run([sys.executable, str(BESIDE), "--smoke", "at-once-*", "poisson-10k",
                           "tree-*"],
                          text=True, capture_output=True)
    if done.returncode == os.EX_UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("at-once-1k", "at-once-10k", "poisson-10k",
                                               "tree-at-once-5k", "tree-poisson-5k"))


PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="world" routing="Full">
  <cluster id="left" prefix="" suffix="" radical="0-3" speed="1Gf" bw="1MBps" lat="0s"
           bb_bw="1.5MBps" bb_lat="0s"/>
  <zone id="right" routing="Floyd">
    <host id="4" speed="1Gf"/> <host id="5" speed="1Gf"/> <host id="6" speed="1Gf"/>
    <router id="hub"/> <router id="exit"/>
    <link id="four" bandwidth="8Mbps" latency="0s"/>
    <link id="five" bandwidth="2MBps" latency="0s" sharing_policy="SPLITDUPLEX"/>
    <link id="six" bandwidth="900kBps" latency="0s"/>
    <link id="out" bandwidth="1.1MBps" latency="0s" sharing_policy="SPLITDUPLEX"/>
    <route src="4" dst="hub"><link_ctn id="four"/></route>
    <route src="5" dst="hub"><link_ctn id="five" direction="UP"/></route>
    <route src="exit" dst="hub"><link_ctn id="out" direction="DOWN"/></route>
    <route src="6" dst="exit"><link_ctn id="six"/></route>
  </zone>
  <link id="wan" bandwidth="1.2MBps" latency="0s"/>
  <zoneRoute src="left" dst="right" gw_src="left_router" gw_dst="exit">
    <link_ctn id="wan"/></zoneRoute>
</zone>
</platform>
"""


def test_platforms(tmp_path, monkeypatch):
    """A cluster and a zone of searched routes, joined: 200 flows end when they do there."""
    monkeypatch.syspath_prepend(str(BESIDE.parent))
    import beside_simgrid as beside
    from cases import Instance

    if beside.simgrid_version() is None:
        pytest.skip("there is no SimGrid")
    path = tmp_path / "platform.xml"
    path.write_text(PLATFORM)
    rng = np.random.default_rng(1)
    src = rng.integers(7, size=200)
    instance = Instance(7, np.sort(rng.uniform(0, 30, 200)), src,
                        (src + rng.integers(1, 7, 200)) % 7, np.rint(rng.uniform(1e4, 1e6, 200)))
    ends = beside.in_netsim(read_network(path), instance)()[1]
    theirs = beside.build_simgrid(tmp_path)(PLATFORM, instance, "Full")[1]
    assert np.allclose(theirs, ends, rtol=1e-9, atol=0)
