"""Latency and overhead: to a job they are computation, on whichever way the fabric runs it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.network import Packet, Wire
from tests.examples import examples
from tests.jobs.test_chain import HOSTS, TURNS, alike, both, draw
from tests.jobs.test_single import draw as draw_singles
from tests.jobs.test_single import same
from tests.jobs.test_single import with_process as single_with_process

NO_DEADLINES = ["maxmin", "maxmin:decisions=coflow", "fifo", "sebf", "aalo:first_threshold=3",
                "sincronia", "srtf", "parrot", "coflow-fair", "srpt", *TURNS]


def wired(latency, **more):
    """A switch whose loopbacks use ports, and whose links have latencies and more."""
    network = netsim.big_switch(HOSTS, 1.0, loopback_uses_ports=True)
    network.wire = Wire(network.links, latency, **more)
    return network


def slow(seed, **more):
    """A switch whose links have different latencies, some none."""
    rng = np.random.default_rng(seed)
    return wired(rng.integers(0, 4, 2 * HOSTS) / 8 + rng.random(2 * HOSTS) / 64, **more)


# --- the ways of the fabric --------------------------------------------------------------


@pytest.mark.parametrize("policy", [*NO_DEADLINES, "edf"])
@settings(deadline=None, max_examples=examples(6, fewest=2), derandomize=True)
@given(seed=st.integers(0, 10**6), interval=st.sampled_from([0, 0.1]),
       overhead=st.sampled_from([0, 0.3]), watched=st.booleans())
def test_chains_as_with_a_process(policy, seed, interval, overhead, watched):
    """Unequal latencies, so that the last flow to be sent is not the last to arrive."""
    network = slow(seed, overhead=overhead, packet=Packet(1.5, 0.25))
    record = ("coflows", "flows") if watched else ("coflows",)
    alike(*both(network, draw(seed, ties=False), allocator=policy, observe_interval=interval,
                record=record))


@pytest.mark.parametrize("policy", ["maxmin", "sebf", "parrot", "fifo"])
@settings(deadline=None, max_examples=examples(6), derandomize=True)
@given(seed=st.integers(0, 10**6), overhead=st.sampled_from([0, 0.3]))
def test_singles_as_with_a_process(policy, seed, overhead):
    """Some have no bytes, some no links."""
    jobs, network = draw_singles(seed), slow(seed, overhead=overhead)
    same(*(netsim.simulate(network, each, allocator=policy, record=("coflows", "flows"))
           for each in (jobs, list(map(single_with_process, jobs)))))


@pytest.mark.parametrize("policy", ["maxmin", "sebf", "parrot"])
@pytest.mark.parametrize("until", [0.1, 3.3, 7.0, 7.1, 7.2, 7.3, 11.0])
def test_stopped_half_way(policy, until):
    """What was sent and has not arrived is not complete."""
    fast, other = both(slow(5), draw(2, 30), allocator=policy, until=until)
    alike(fast, other)
    assert fast.jobs["finish_s"].isna().any()
    assert (fast.coflows["finish_s"] <= until).all()


def test_a_run_ends_when_the_last_byte_arrives():
    network = wired(0.25)
    jobs = [netsim.JobSpec(0, hosts=(0, 1), stages=[netsim.Stage("s", [(0, 1, 1.0)])])]
    run = netsim.Simulation(network, jobs, allocator="maxmin")
    run.run(until=1.25)
    assert run.result().jobs["finish_s"].isna().all()
    run.run()
    assert run.now == 1.5
    assert run.result().jobs["finish_s"][0] == 1.5


# --- latency is computation --------------------------------------------------------------


def spelled_out(job, latency, overhead):
    """The job with overheads as computation before, and latency after, each coflow."""
    stages = []
    for stage in job.stages:
        stages.append(replace(stage, compute_s=stage.compute_s + overhead,
                              after=[f"{name} arrives" for name in stage.after]))
        stages.append(netsim.Stage(f"{stage.name} arrives", compute_s=latency, after=[stage.name]))
    return replace(job, stages=stages)


@pytest.mark.parametrize("policy", NO_DEADLINES)
@settings(deadline=None, max_examples=examples(8, fewest=2), derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_equal_latency_is_computation(policy, seed):
    """For all policies: every coflow has o more to compute, all that waits for it 2 L more."""
    latency, overhead = 0.25 + 1 / 64, 0.3
    jobs = draw(seed, ties=False)
    jobs = [replace(job, stages=[replace(stage, deadline_s=None) for stage in job.stages])
            for job in jobs]
    found = netsim.simulate(wired(latency, overhead=overhead), jobs, allocator=policy)
    told = netsim.simulate(wired(0.0), [spelled_out(job, 2 * latency, overhead) for job in jobs],
                           allocator=policy)
    np.testing.assert_allclose(found.jobs["finish_s"], told.jobs["finish_s"], rtol=1e-12)
    np.testing.assert_allclose(np.sort(found.coflows["sent_s"]),
                               np.sort(told.coflows["finish_s"]), rtol=1e-12)


@settings(deadline=None, max_examples=examples(20), derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_unequal_latencies_of_fair_flows(seed):
    """Under max-min fairness each flow may be a stage, then one that computes for its latency."""
    network, jobs = slow(seed), draw(seed, ties=False)
    found = netsim.simulate(network, jobs, allocator="maxmin")
    told = netsim.simulate(wired(0.0), [flow_by_flow(job, network) for job in jobs],
                           allocator="maxmin")
    np.testing.assert_allclose(found.jobs["finish_s"], told.jobs["finish_s"], rtol=1e-12)


def flow_by_flow(job, network):
    stages, parts = [], {}
    for stage in sorted(job.stages, key=lambda each: each.name):
        after = [name for parent in stage.after for name in parts[parent]]
        parts[stage.name] = []
        for k, (src, dst, nbytes) in enumerate(zip(stage.flows.src, stage.flows.dst,
                                                   stage.flows.nbytes, strict=True)):
            hosts = [job.hosts[int(end)] for end in (src, dst)]
            name, latency = f"{stage.name} {k}", network.wire.latency[network.route(*hosts)].sum()
            stages.append(replace(stage, name=name, flows=[(src, dst, nbytes)], after=after,
                                  deadline_s=None))
            stages.append(netsim.Stage(f"{name} arrives", compute_s=latency, after=[name]))
            parts[stage.name].append(f"{name} arrives")
    return replace(job, stages=stages)
