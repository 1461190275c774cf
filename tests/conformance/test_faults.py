"""What holds whatever fails: everything arrives in the end, and no link carries what it cannot."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.testing import workloads
from tests.examples import examples

HOSTS = 4
NETWORKS = [netsim.big_switch(HOSTS, 1.0), netsim.ring(HOSTS, 1.0),
            netsim.leaf_spine(2, 2, 2, 1.0, oversubscription=1)]
POLICIES = ["maxmin", "parrot", "aalo", "sebf", "coflow-fair", "srpt", "equal-split"]
#: Relative: a flow with less than that of its bytes left has ended.
DUST = 1e-9


@st.composite
def faults(draw, network):
    """Up to three links and two hosts fail or degrade, several times perhaps; all are repaired."""
    events = []
    for place in draw(st.lists(st.one_of(
            st.tuples(st.just("link"), st.integers(0, network.links - 1)),
            st.tuples(st.just("host"), st.integers(0, HOSTS - 1))), max_size=5)):
        at = draw(st.integers(0, 16)) / 4
        where = dict([place])
        events.append(draw(st.sampled_from([
            {"at": at, "kind": "fail"}, {"at": at, "factor": 0.5},
            {"at": at, "kind": "fail"} | ({"restart": True} if "host" in where else {})])) | where)
        events.append({"at": at + draw(st.integers(1, 12)) / 4, "kind": "repair"} | where)
    return [*events, *({"at": 9, "kind": "repair", "host": host} for host in range(HOSTS)),
            *({"at": 9, "kind": "repair", "link": link} for link in range(network.links))]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
@settings(max_examples=examples(40), derandomize=True)
@given(data=st.data(), workload=workloads(HOSTS), policy=st.sampled_from(POLICIES),
       interval=st.sampled_from([0.0, 0.1, 2.0]))
def test_every_run(data, network, workload, policy, interval):
    events = data.draw(faults(network))
    result = netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                             events=events, record=("coflows", "flows", "links"))
    usual = netsim.simulate(network, workload, allocator=policy)
    jobs, coflows, links = result.jobs, result.coflows, result.links

    assert jobs["finish_s"].notna().all()
    assert coflows["coflow"].is_unique
    np.testing.assert_allclose(jobs["bytes"], usual.jobs["bytes"], rtol=1e-12)
    np.testing.assert_array_equal(coflows["coflow"], usual.coflows["coflow"])
    sizes = result.flows.groupby("coflow")["bytes"].sum().reindex(coflows["coflow"], fill_value=0.0)
    np.testing.assert_allclose(sizes, coflows["bytes"], rtol=1e-12)
    assert (jobs["jct_s"] >= jobs["lower_bound_s"] * (1 - DUST) - 1e-12).all()

    lost = jobs["lost_bytes"].sum() if "lost_bytes" in jobs else 0.0
    carried = links.groupby("link", observed=True)["bytes"].sum() if len(links) else {}
    sent = jobs["bytes"].sum() + lost
    if network.name != "ring":  # where hosts relay
        ports = sum(carried.get(network.link_names[link], 0.0) for host in range(HOSTS)
                    for link in network.links_of(host)) / 2
        assert ports == pytest.approx(sent, rel=1e-6)
    assert sum(links["bytes"]) >= sent * (1 - 1e-6)
    slack = DUST * sent + 2e-6 * interval * links["capacity"]
    assert (links["bytes"] <= links["capacity"] * (links["end_s"] - links["start_s"]) * (1 + DUST)
            + slack).all()


@settings(max_examples=examples(40), derandomize=True)
@given(workloads(HOSTS), st.sampled_from(POLICIES))
def test_a_fault_that_concerns_nobody_changes_nothing(workload, policy):
    """But that jobs have processes: no line and no single coflow is left to the fabric."""
    network = netsim.leaf_spine(3, 2, 2, 1.0, oversubscription=1)
    jobs = [replace(job, hosts=range(HOSTS)) for job in workload]
    usual = netsim.simulate(network, jobs, allocator=policy)
    result = netsim.simulate(network, jobs, allocator=policy, events=[
        {"at": 0.5, "host": 5, "kind": "fail", "restart": True},
        {"at": 1, "link": "leaf-2->spine-1", "kind": "fail"}])
    for table, column in (("jobs", "finish_s"), ("coflows", "finish_s"), ("coflows", "start_s")):
        ours, theirs = (getattr(each, table)[column] for each in (result, usual))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
