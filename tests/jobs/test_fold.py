"""Ranks that do the same are simulated once: the same bytes of tables; when that is not done."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import netsim
from netsim.errors import NetsimWarning
from netsim.fabric.event_loop import EventLoop
from netsim.fabric.kernels.max_min_state import PATH
from netsim.workload import operations
from tests.examples import examples

SMALL = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
EXPERTS = SMALL | {"experts": 4, "top_k": 2, "moe_ffn": 128}


def simulated(network, jobs, **options):
    """Return a run in which ranks that do the same are simulated once, after comparing it."""
    whole = netsim.simulate(network, jobs, symmetry=False, **options)
    found = netsim.simulate(network, jobs, **options)
    assert "simulated_ranks" not in whole.run["counts"]
    for name in ("jobs", "coflows"):
        assert_frame_equal(getattr(found, name), getattr(whole, name), check_exact=True)
    assert found.run["decisions"] == whole.run["decisions"]
    return found


def ranks_of(result):
    return result.run["counts"].get("simulated_ranks", 0)


setups = st.fixed_dictionaries({
    "tp": st.sampled_from([1, 2, 4]), "pp": st.sampled_from([1, 2, 4]),
    "dp": st.sampled_from([1, 2, 4]), "cp": st.sampled_from([1, 2]),
    "sequence_parallel": st.booleans(), "zero": st.sampled_from([0, 1]),
    "overlap_grad_reduce": st.booleans(), "iterations": st.integers(1, 2)})


def overlapping(tp, dp, iterations):
    """Return a job whose gradients are reduced, in rings, while pairs exchange keys and values."""
    return {"tp": tp, "pp": 4, "dp": dp, "cp": 2, "sequence_parallel": False, "zero": 1,
            "overlap_grad_reduce": True, "iterations": iterations}


@settings(max_examples=examples(25), deadline=None)
@given(setups, st.sampled_from(["switch", "latency", "gpus", "rails"]),
       st.sampled_from([0, "100us"]))
@example(overlapping(1, 2, 1), "rails", 0)
@example(overlapping(2, 4, 2), "switch", 0)
def test_the_same_bytes(setup, kind, interval):
    """On every network on which ranks are alike, all ranks of a stage of the pipeline are one.

    In the examples, pairs that share a sequence send on the paths of half of a ring of gradients.
    """
    ranks = setup["tp"] * setup["pp"] * setup["dp"] * setup["cp"]
    job = netsim.llm_job(SMALL, global_batch=2 * setup["dp"], **setup)
    network = {"switch": lambda: netsim.big_switch(max(ranks, 2), "1Gbps"),
               "latency": lambda: netsim.big_switch(max(ranks, 2), "1Gbps", latency="3us"),
               "gpus": lambda: netsim.gpu_cluster(max(ranks // 4, 2), 4, "1GB/s", "1Gbps"),
               "rails": lambda: netsim.gpu_cluster(max(ranks // 4, 2), 4, "1GB/s", "1Gbps",
                                                   rails=1)}[kind]()
    result = simulated(network, [job], observe_interval=interval)
    if kind in ("switch", "latency") and ranks > 1:
        assert ranks_of(result) == setup["pp"]


def test_all_ranks_of_many_operations_are_warned_of(monkeypatch):
    """8 ranks of a job are one where symmetry holds, and all of them without it."""
    monkeypatch.setattr(operations, "_MANY", 100)
    network = netsim.big_switch(8, "1Gbps")
    job = netsim.llm_job(SMALL | {"layers": 5}, dp=8, global_batch=8)
    assert ranks_of(netsim.simulate(network, [job])) == 1
    with pytest.warns(NetsimWarning, match=r"all 8 ranks .* with \d+ operations .* symmetry holds"):
        netsim.simulate(network, [job], symmetry=False)


def test_experts():
    """All-to-alls have several flows of a class on each link."""
    job = netsim.llm_job(EXPERTS, tp=2, ep=4, dp=4, pp=2, global_batch=8, sequence_parallel=True)
    assert ranks_of(simulated(netsim.big_switch(16, "1Gbps"), [job])) == 2


def test_wire_bytes():
    """Tables tell payload and bytes on the wire of all ranks."""
    network = netsim.gpu_cluster(4, 4, profile="roce-4096")
    job = netsim.llm_job(SMALL, tp=4, pp=2, dp=2, global_batch=4)
    result = simulated(network, [job])
    assert ranks_of(result) == 2
    assert result.jobs["wire_bytes"][0] > result.jobs["bytes"][0] > 0


def test_protocols():
    """A launch per coflow, and more bytes on the wire for small messages, of all ranks."""
    ways = [{"upto": "2kB", "launch": "5us", "efficiency": 0.5}, {"launch": "20us"}]
    network = netsim.gpu_cluster(4, 4, protocols=ways)
    job = netsim.llm_job(SMALL, tp=4, pp=2, dp=2, global_batch=4)
    result = simulated(network, [job])
    assert ranks_of(result) == 2
    assert result.jobs["wire_bytes"][0] > result.jobs["bytes"][0] > 0


LINE = netsim.llm_job(SMALL, tp=2, pp=2, dp=4, global_batch=8, iterations=2)
SWITCH = netsim.big_switch(20, "1Gbps")


@pytest.mark.parametrize(("more", "options"), [
    ([netsim.JobSpec(1, hosts=[3, 17], stages=[netsim.Stage("a", [(0, 1, 1e6)])])], {}),
    ([netsim.llm_job(SMALL, id=1, tp=2, dp=2, global_batch=2, hosts=[0, 1, 16, 17])], {}),
    ([], {"events": [netsim.FaultEvent(0.01, link="egress-5", capacity="500Mbps")]}),
    ([], {"stragglers": {7: 1.5}}),
    ([], {"allocator": "sebf"}), ([], {"record": ["coflows", "links"]}), ([], {"timeline": True})])
@pytest.mark.filterwarnings("ignore:jobs .* compute on host")
def test_what_breaks_it(more, options):
    """Another job, a fault or a straggler on a rank's links; and what others would show of it."""
    assert ranks_of(simulated(SWITCH, [LINE, *more], **options)) == 0


@pytest.mark.parametrize(("kind", "ranks"), [
    ({"capacity": "1Gbps"}, 2), ({"kind": "fail"}, 0)])
def test_256_gpus_with_a_fault_in_mid_run(kind, ranks):
    """A slow link breaks the symmetry of the job that uses it; a failed one may reroute all."""
    network = netsim.gpu_cluster(32, 8, "300GB/s", "50Gbps")
    jobs = [netsim.llm_job(SMALL, id=k, tp=8, pp=2, dp=8, global_batch=16, iterations=2,
                           hosts=range(128 * k, 128 * k + 128)) for k in range(2)]
    whole_s = netsim.simulate(network, jobs).jobs["finish_s"].min()
    link = "gpu-3.0->nic-3.0"
    found = simulated(network, jobs, events=[
        netsim.FaultEvent(whole_s / 2, link=link, **kind),
        netsim.FaultEvent(whole_s, link=link, kind="repair")])
    assert ranks_of(found) == ranks
    late, other = found.jobs["finish_s"]
    assert late > 1.01 * whole_s
    assert other == pytest.approx(whole_s, rel=1e-12)


def test_jobs_on_other_links():
    """Two jobs that share no link are each simulated by one rank of each stage."""
    other = netsim.llm_job(SMALL, id=1, tp=2, dp=2, global_batch=2, hosts=[19, 18, 17, 16],
                           arrival_s=0.1)
    assert ranks_of(simulated(SWITCH, [LINE, other])) == 2 + 1


@pytest.mark.parametrize("arrival_s", [1.4e-3, 1.8e-3, 2.7e-3])
def test_a_large_job_arrives_in_mid_run(arrival_s):
    """Sharing is made anew for it, at other instants where all ranks are simulated."""
    jobs = [netsim.llm_job(SMALL, id=k, hosts=hosts, arrival_s=at_s, global_batch=2 * dp,
                           **overlapping(1, dp, 1))
            for k, (hosts, at_s, dp) in enumerate([(range(16), 0.0, 2),
                                                   (range(16, 144), arrival_s, 16)])]
    assert ranks_of(simulated(netsim.big_switch(144, "1Gbps"), jobs)) == 4 + 4


def test_thousands_of_flows_at_once():
    """Bytes left are rounded in one way, although other jobs' are rounded otherwise if many."""
    job = netsim.llm_job(SMALL, global_batch=1024, **overlapping(1, 512, 1))
    assert ranks_of(simulated(netsim.big_switch(4096, "1Gbps"), [job])) == 4


def test_coflows_of_a_job_share_no_class(monkeypatch):
    """However classes change places, each is of one coflow, which has one on each path."""
    shared, seen = EventLoop.share_all, []

    def share_all(loop, *given):
        found = shared(loop, *given)
        engine = loop._table.sharing.current
        owners = engine.flows["owner"], engine.flows["number"]
        for c, kind in enumerate(engine.classes[:engine.state["classes"][0]]):
            of_class = np.unique(owners[0][owners[1] == kind["number"]])
            assert of_class.tolist() == [kind["coflow"]]
            seen.append((loop.now, kind["coflow"], *engine.paths[PATH, c].tolist()))
        return found

    monkeypatch.setattr(EventLoop, "share_all", share_all)
    jobs = [netsim.llm_job(SMALL, id=k, hosts=range(16 * k, 16 * k + 16), arrival_s=k * 1e-3,
                           global_batch=4, **overlapping(1, 2, 1)) for k in range(2)]
    sim = netsim.Simulation(netsim.big_switch(32, "1Gbps"), jobs)
    for at_s in np.linspace(1e-4, 8e-3, 80):
        sim.run(until=at_s)
    assert len(seen) > 500
    assert len(set(seen)) == len(seen)


def test_a_slower_port_breaks_it():
    """Ranks whose ports differ are not alike."""
    rates = np.full(16, 1e8)
    rates[5] = 5e7
    network = netsim.big_switch(16, rates.tolist())
    assert ranks_of(simulated(network, [LINE])) == 0


def test_a_shared_nic_breaks_it():
    """One NIC carries flows of two groups, and a GPU's own port those of one."""
    network = netsim.gpu_cluster(4, 4, "10GB/s", "1Gbps", gpus_per_nic=2)
    assert ranks_of(simulated(network, [LINE])) == 0


def test_scaled_jobs_and_copies_of_processes():
    """Programs go with the job, without the operations that they made."""
    scaled = netsim.Workload([LINE]).scale(nbytes=2, compute=3)
    copied = pickle.loads(pickle.dumps(scaled))
    assert len(copied[0].operations) == len(LINE.operations)
    assert ranks_of(simulated(SWITCH, copied)) == 2


def test_many_links():
    """Sharing goes on where flows move in memory, with more links than 16 bits can number."""
    hosts = np.arange(64)
    flows = netsim.Flows(hosts, np.roll(hosts, 1), np.arange(1.0, 65.0))
    stages = [netsim.Stage(f"s{k}", flows, after=[f"s{k - 1}"][:k]) for k in range(400)]
    jobs = [netsim.JobSpec(k, hosts=64 * k + hosts, stages=stages, arrival_s=10.0 * k)
            for k in range(2)]
    moves = []
    make_room = EventLoop.share_all
    EventLoop.share_all = lambda *args: (moves.append(1), make_room(*args))[1]
    try:
        result = netsim.simulate(netsim.big_switch(40_000, 1.0), jobs)
    finally:
        EventLoop.share_all = make_room
    assert len(moves) > 2  # there was no room
    assert np.allclose(result.jobs["jct_s"], 400 * 64)
