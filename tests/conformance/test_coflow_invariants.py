"""What the coflow papers promise of their policies, on random workloads and on the trace."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.testing import networks, workloads
from tests.examples import examples
from tests.pairs import exhaustive

HOSTS = 4
NETWORKS = [
    netsim.big_switch(HOSTS, 1e6),
    netsim.leaf_spine(2, 2, 2, 1e6, oversubscription=2),
    netsim.ring(HOSTS, 1e6),
]
TRACE = (Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
         / "coflow-benchmark" / "FB2010-1Hr-150-0.txt")


def same_finishes(network, workload, one, other):
    first, second = (netsim.simulate(network, workload, allocator=policy).coflows["finish_s"]
                     for policy in (one, other))
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weights", ["linear", "strict"])
@settings(deadline=None, max_examples=examples(50), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS))
def test_thresholds_that_nobody_reaches_make_one_queue(weights, network, workload):
    """D-CLAS with its thresholds at infinity serves coflows first in, first out."""
    far = {"name": "aalo", "weights": weights, "thresholds": [1e25, 1e26]}
    same_finishes(network, workload, far, {"name": "aalo", "queues": 1})


@pytest.mark.parametrize("policy", [
    {"name": "fifo"}, {"name": "fifo", "work_conservation": "none"}, {"name": "aalo", "queues": 1},
], ids=str)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
@settings(deadline=None, max_examples=examples(30), derandomize=True)
@given(arrivals=st.lists(st.integers(0, 8), min_size=2, max_size=5))
def test_fifo_keeps_the_order_on_one_bottleneck(policy, network, arrivals):
    """Coflows of one flow of 1 MB each from host 0 to 1: nobody overtakes, each takes 1 s."""
    jobs = [netsim.JobSpec(k, at / 4, hosts=range(HOSTS),
                           stages=[netsim.Stage("one", [(0, 1, 1e6)])])
            for k, at in enumerate(arrivals)]
    done = netsim.simulate(network, jobs, allocator=policy).jobs
    ranked = done.sort_values(["arrival_s", "job"])["finish_s"]
    assert ranked.is_monotonic_increasing
    free = 0.0
    for at, finish in zip(done["arrival_s"], done["finish_s"], strict=True):
        free = max(free, at) + 1.0
        assert finish == pytest.approx(free)


@settings(deadline=None, max_examples=examples(30), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS, chains=True))
def test_one_coflow_at_a_time_makes_all_orders_equal(network, workload):
    """With one job, a chain, there is nothing to order: MADD policies agree, and meet the bound."""
    alone = netsim.Workload([workload.jobs[0]])
    for policy in ("scf", "lcf", "ncf", "sebf", "edf"):
        same_finishes(network, alone, "fifo", policy)
    jobs = netsim.simulate(network, alone, allocator="sebf").jobs
    np.testing.assert_allclose(jobs["jct_s"], jobs["lower_bound_s"], rtol=1e-9, atol=1e-12)


@exhaustive
@pytest.mark.skipif(not TRACE.is_file(), reason="the Facebook trace is not there")
def test_smallest_bottleneck_first_beats_first_come_on_the_trace():
    """At coflow decisions, as the specification says: FIFO 115 s, SEBF by original sizes 24.2 s."""
    network = netsim.read_network("coflow-benchmark-150-1g")
    trace = netsim.read_workload(TRACE)
    means = {name: netsim.simulate(network, trace, allocator=policy).summary()["cct_mean_s"]
             for name, policy in {
                 "fifo": "fifo:decisions=coflow",
                 "sebf": "sebf:decisions=coflow:key=original"}.items()}
    assert means["fifo"] == pytest.approx(115.0, abs=0.05)
    assert means["sebf"] == pytest.approx(24.2, abs=0.05)
