"""Every registered allocator on every kind of topology: feasible, and done."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.network import TOPOLOGIES
from netsim.testing import check_allocator

HALF = {"a": "1MB/s", "b": "2MB/s", "c": "0.5MB/s"}
GRAPH = nx.Graph()
for _host, _rate in HALF.items():
    GRAPH.add_edge(_host, "left" if _host == "a" else "right", capacity=_rate)
GRAPH.add_edge("left", "right", capacity="0.75MB/s")

NETWORKS = {
    "big-switch": netsim.big_switch(4, "1MB/s"),
    "leaf-spine": netsim.leaf_spine(2, 2, 2, "1MB/s", oversubscription=2),
    "fat-tree": netsim.fat_tree(4, "1MB/s", loopback_uses_ports=True),
    "rail-pod": netsim.rail_pod(2, 2, 1, "1MB/s", intra="4MB/s"),
    "ring": netsim.ring(5, "1MB/s"),
    "torus": netsim.torus([3, 2], "1MB/s"),
    "edge-cloud": netsim.edge_cloud(2, 2, "1MB/s", "0.25MB/s", cloud="4MB/s"),
    "graph": netsim.from_networkx(GRAPH),
}
ALLOCATORS = sorted(netsim.ALLOCATORS)


def test_every_kind_is_covered() -> None:
    assert set(NETWORKS) == set(TOPOLOGIES)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_keeps_its_promises(allocator, kind) -> None:
    check_allocator(allocator, networks=[NETWORKS[kind]], examples=5)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("allocator", ALLOCATORS)
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
