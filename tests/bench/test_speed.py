"""How long the things take that must be fast, after a warm-up; ``make bench`` runs it."""

import resource
import subprocess
import sys

import numpy as np
import pytest

import netsim

HOSTS = 128
TEN_GBPS = netsim.big_switch(HOSTS, "10Gbps")


@pytest.mark.parametrize("allocator", [
    "parrot", "aalo-lbsf", "lccf", "srpt", {"name": "maxmin", "decisions": "coflow"}, "maxmin",
], ids=lambda policy: policy if isinstance(policy, str) else "maxmin-per-coflow")
def test_trace(once, trace, allocator):
    """The 60-job trace, exact events, SimPy included."""
    result = once(netsim.simulate, TEN_GBPS, trace, allocator=allocator)
    assert result.jobs["finish_s"].notna().all()
    assert (result.jobs["jct_s"] >= result.jobs["lower_bound_s"] * (1 - 1e-9)).all()


@pytest.mark.parametrize("allocator", [
    "sebf", "scf", "lcf", "ncf", "fifo", "sincronia", "srtf", "aalo", "aalo:weights=strict",
    "maxmin",
])
def test_facebook(once, coflow_trace, allocator):
    """The Facebook coflow trace, exact events."""
    network = netsim.read_network("coflow-benchmark-150-1g")
    coflows = once(netsim.simulate, network, coflow_trace, allocator=allocator).coflows
    assert (coflows["cct_s"] >= coflows["gamma_s"] * (1 - 1e-9)).all()


def peers_flows(count, hosts=HOSTS):
    """Sources and other destinations uniform, sizes 10^U(6, 9) bytes."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, hosts, count), rng.integers(0, hosts - 1, count)
    return src, dst + (dst >= src), np.round(10 ** rng.uniform(6, 9, count)), rng


@pytest.mark.parametrize("count", [1_000, 10_000, 100_000])
def test_maxmin_at_once(once, smoke, count):
    """All flows at one instant, as one coflow; per-flow max-min."""
    src, dst, size, _ = peers_flows(count // 10 if smoke else count)
    burst = netsim.Stage("burst", netsim.Flows(src, dst, size))
    job = netsim.JobSpec(0, stages=[burst], hosts=range(HOSTS))
    result = once(netsim.simulate, TEN_GBPS, netsim.Workload([job]))
    assert result.jobs["bytes"][0] == size.sum()


def test_all_to_all(once, smoke):
    """60 jobs of 2 to 16 workers, 100 iterations each: 1.3 million flows; per-flow max-min."""
    rng = np.random.default_rng(2)
    jobs = []
    for k in range(60):
        ranks = int(rng.integers(2, 17))
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        stage = netsim.Stage("a", netsim.Flows(src, dst, rng.integers(1e6, 50e6, len(src)) * 1.0))
        jobs.append(netsim.JobSpec(k, hosts=rng.permutation(HOSTS)[:ranks], stages=[stage],
                                   iterations=2 if smoke else 100))
    result = once(netsim.simulate, TEN_GBPS, jobs)
    assert (result.jobs["jct_s"] >= result.jobs["lower_bound_s"] * (1 - 1e-9)).all()


def test_fat_tree(once, smoke):
    """10,000 flows at one instant on 1,024 hosts and 6,144 links; per-flow max-min."""
    network = netsim.fat_tree(4 if smoke else 16, "10Gbps")
    src, dst, size, _ = peers_flows(100 if smoke else 10_000, network.hosts)
    burst = netsim.Stage("burst", netsim.Flows(src, dst, size))
    job = netsim.JobSpec(0, stages=[burst], hosts=range(network.hosts))
    result = once(netsim.simulate, network, [job])
    assert result.jobs["bytes"][0] == size.sum()


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_maxmin_poisson(once, smoke, count):
    """One-flow jobs arriving at 70 % load; per-flow max-min."""
    src, dst, size, rng = peers_flows(count // 100 if smoke else count)
    gaps = rng.exponential(size.mean() / (0.7 * 1.25e9 * HOSTS), len(size))
    jobs = [netsim.JobSpec(i, at, hosts=range(HOSTS),
                           stages=[netsim.Stage("flow", [(int(s), int(d), float(nbytes))])])
            for i, (at, s, d, nbytes) in enumerate(zip(np.cumsum(gaps), src, dst, size,
                                                       strict=True))]
    result = once(netsim.simulate, TEN_GBPS, netsim.Workload(jobs))
    assert result.jobs["bytes"].sum() == size.sum()


def cpu_of_children():
    """CPU seconds of the processes that have ended: the timer's own clock leaves them out."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.benchmark(timer=cpu_of_children)
def test_import(benchmark):
    """A new interpreter that does nothing but ``import netsim``, whatever the timer."""
    before = cpu_of_children()
    benchmark.pedantic(subprocess.run, ([sys.executable, "-c", "import netsim"],),
                       {"check": True}, rounds=3, warmup_rounds=1)
    spent = cpu_of_children() - before
    assert 0 < 3 * benchmark.stats["min"] < spent
