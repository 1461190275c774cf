"""Rings of placed jobs, and what contention leaves them, against worked cases."""

import json

import numpy as np
import pytest

import netsim
from netsim.cluster import RingLayout, ring_stages
from netsim.testing import make_view


def load(path, kind):
    return json.loads(path.read_text())[kind]


def ring(servers):
    return RingLayout([(server, 0) for server in servers])


def test_rates_and_loads(sjfbco_fabric_case):
    """Whether the case counts sending or running jobs: here the same ones."""
    for case in load(sjfbco_fabric_case, "allocation_cases"):
        rings = [ring(job["ring_servers"]) for job in case["sending_jobs"]]
        hosts = 1 + max(server for each in rings for server in each.servers)
        nics = case["nic_bytes_per_s_by_server"] or {
            str(host): case["nic_bytes_per_s"] for host in range(hosts)}
        net = netsim.big_switch(hosts, [nics[str(host)] for host in range(hosts)])
        coflows = [[(src, dst, 1e6) for src, dst in each.edges] for each in rings]
        options = {name: case[name] for name in ("alpha", "xi1", "k_min")}
        expected = case["expected_rate_bytes_per_s_of_each_flow"]
        for count in ("sending", "running"):
            policy = netsim.make_allocator({"name": "ring-contention", "count": count, **options})
            view = make_view(net, coflows)
            rates = policy.allocate(view).rates
            wanted = [expected[job["job"]] for job in case["sending_jobs"]]
            np.testing.assert_allclose(rates, np.array(wanted)[view.coflow], rtol=1e-9,
                                       err_msg=case["name"])
            load_of = view.link_load(rates)
            for way, ports in (("out_of", load_of[:hosts]), ("into", load_of[hosts:])):
                given = case[f"expected_load_bytes_per_s_{way}_each_server"]
                for server, nbytes_s in given.items():
                    assert ports[int(server)] == pytest.approx(nbytes_s, rel=1e-9), case["name"]


def test_rings(sjfbco_fabric_case):
    for case in load(sjfbco_fabric_case, "ring_cases"):
        layout = RingLayout([(each["server"], each["gpu"]) for each in case["workers"]])
        nbytes = case["gradient_bytes"]
        assert [{"server": server, "gpu": gpu} for server, gpu in layout.workers] == (
            case["expected_ring_order"])
        assert layout.steps == case["expected_steps_per_iteration"]
        assert layout.bytes_per_step(nbytes) == case["expected_bytes_per_step_per_edge"]
        assert layout.bytes_per_edge(nbytes) == case["expected_bytes_per_iteration_per_edge"]
        assert layout.edges_inside == case["expected_intra_server_edges"]
        stage, = ring_stages(layout, nbytes)
        sent = [] if stage.flows is None else [
            {"from_server": layout.servers[flow.src], "to_server": layout.servers[flow.dst],
             "bytes": flow.nbytes} for flow in stage.flows]
        assert sent == case["expected_inter_server_flows"]
