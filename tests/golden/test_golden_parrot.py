"""Every worked case of Parrot and its comparison schemes, at both observation intervals."""

import json

import numpy as np

import netsim


def policy(case, result):
    """The allocator that a result names, with its options.

    The cases decide at coflow events only, also under max-min: a flow that ends wastes its
    bandwidth until the next one (parrot.md, "Observation").
    """
    found = {"name": result["allocator"]}
    if result["work_conservation"] is not None:
        found["work_conservation"] = result["work_conservation"]
    if result["allocator"] == "parrot":
        found["theta_max"] = case["theta_max"]
    if result["allocator"] == "maxmin":
        found["decisions"] = "coflow"
    return found


def test_finish_times(parrot_case):
    case = json.loads(parrot_case.read_text())
    net, jobs = netsim.read_network(parrot_case), netsim.read_workload(parrot_case)
    for expected in case["results"]:
        allocator = policy(case, expected)
        result = netsim.simulate(net, jobs, allocator=allocator,
                                 observe_interval=expected["observe_interval_s"])
        finish = result.jobs.sort_values("job")["finish_s"]
        np.testing.assert_allclose(finish, expected["finish_s"], rtol=0, atol=1e-6,
                                   err_msg=str((allocator, expected["observe_interval_s"])))


def test_lower_bounds(parrot_case):
    case = json.loads(parrot_case.read_text())
    result = netsim.simulate(netsim.read_network(parrot_case), netsim.read_workload(parrot_case))
    bound = result.jobs.sort_values("job")["lower_bound_s"]
    np.testing.assert_allclose(bound, case["lower_bound_duration_s"], rtol=0, atol=1e-6)
