"""Per-flow max-min fairness against finish times that another simulator computed."""

import json

import numpy as np
import pytest

import netsim


def load(path):
    return np.load(path) if path.suffix == ".npz" else {
        key: np.array(value) for key, value in json.loads(path.read_text()).items()
        if key != "note"}


def test_finish_times(maxmin_case):
    case = load(maxmin_case)
    hosts = int(case["hosts"])
    net = netsim.big_switch(hosts, float(case["port_capacity_bytes_per_s"]))
    jobs = [netsim.JobSpec(i, arrival_s=float(start), hosts=range(hosts), stages=[
                netsim.Stage("burst", [(int(src), int(dst), float(size))])])
            for i, (src, dst, size, start) in enumerate(zip(
                case["src"], case["dst"], case["size_bytes"], case["start_s"], strict=True))]
    result = netsim.simulate(net, netsim.Workload(jobs), allocator="maxmin")
    finish = result.jobs.sort_values("job")["finish_s"]
    np.testing.assert_allclose(finish, case["finish_s"], rtol=1e-9)


def test_one_coflow_is_the_same(maxmin_case):
    """A burst is the same to max-min whether it comes as one coflow or as one per flow."""
    case = load(maxmin_case)
    if np.ptp(case["start_s"]) > 0:
        pytest.skip("its flows do not start together")
    hosts = int(case["hosts"])
    net = netsim.big_switch(hosts, float(case["port_capacity_bytes_per_s"]))
    burst = netsim.Stage("burst", netsim.Flows(case["src"], case["dst"], case["size_bytes"]))
    job = netsim.JobSpec(0, arrival_s=float(case["start_s"][0]), hosts=range(hosts),
                         stages=[burst])
    result = netsim.simulate(net, netsim.Workload([job]), record=["flows"])
    np.testing.assert_allclose(result.flows["finish_s"], case["finish_s"], rtol=1e-9)
