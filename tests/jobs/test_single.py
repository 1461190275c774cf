"""Jobs of a single coflow have no process of their own; nothing may come of that but speed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.jobs import single
from netsim.jobs.single import is_single
from tests.examples import examples

HOSTS = 6
NETWORKS = [netsim.big_switch(HOSTS, 1.0, loopback_uses_ports=True), netsim.ring(HOSTS, 1.0)]
POLICIES = ["maxmin", "maxmin:decisions=coflow", "fifo", "sebf", "aalo:first_threshold=3",
            "sincronia", "srtf", "parrot", "coflow-fair", "edf", "srpt"]


def draw(seed, count=12, ties=True):
    """Jobs of one stage: times on a grid of 1/4 s, so that some coincide; some without bytes.

    Without ties, flows end at times of their own, and none is empty.
    """
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(count):
        width = int(rng.integers(1, 5))
        flows = netsim.Flows(rng.integers(0, HOSTS, width), rng.integers(0, HOSTS, width),
                             rng.integers(0, 5, width) * 1.0 if ties
                             else rng.uniform(1, 5, width))
        stage = netsim.Stage("s", flows, release_s=rng.integers(0, 3) / 4,
                             weight=1.0 + rng.integers(0, 3), deadline_s=2.0 + rng.integers(0, 9))
        jobs.append(netsim.JobSpec(k, rng.integers(0, 40) / 4, hosts=range(HOSTS), stages=[stage],
                                   compute_s=rng.integers(0, 3) / 4))
    return jobs


def with_process(job):
    """The same job, with a stage behind that does nothing: it is not single."""
    return replace(job, stages=[*job.stages, netsim.Stage("idle", after=["s"])])


def both(network, jobs, **options):
    assert all(map(is_single, jobs))
    assert not any(map(is_single, map(with_process, jobs)))
    return (netsim.simulate(network, each, record=options.pop("record", ("coflows", "flows")),
                            **options)
            for each in (jobs, list(map(with_process, jobs))))


def same(fast, slow, *but):
    """Compare all that is recorded but the numbers of coflows, which count idle stages too."""
    for name in ("jobs", "coflows", "flows"):
        if name not in fast.recorded:
            continue
        one, two = getattr(fast, name), getattr(slow, name)
        if name == "jobs":
            one, two = (each.drop(columns=list(but)) for each in (one, two))
        else:
            by = ["job", *(["flow"] if name == "flows" else [])]
            one, two = (each.drop(columns=["coflow", "stage"], errors="ignore")
                        .sort_values(by, ignore_index=True) for each in (one, two))
        pd.testing.assert_frame_equal(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=examples(10, fewest=3), derandomize=True)
@given(seed=st.integers(0, 10**6), network=st.sampled_from(NETWORKS),
       interval=st.sampled_from([0, 0.1]))
def test_as_with_a_process(policy, seed, network, interval):
    """An idle stage ends when it begins, which with an interval is when that is noticed."""
    same(*both(network, draw(seed), allocator=policy, observe_interval=interval),
         *(["finish_s", "jct_s"] if interval else []))


@pytest.mark.parametrize("policy", ["maxmin", "sebf"])
@pytest.mark.parametrize("record", [(), ("coflows",), ("decisions",), ("links",)])
def test_the_same_decisions(policy, record):
    """As often as with processes, whatever is recorded."""
    jobs = draw(1, 40, ties=False)
    fast, slow = (netsim.simulate(NETWORKS[0], each, allocator=policy, record=record)
                  for each in (jobs, list(map(with_process, jobs))))
    assert fast.run["decisions"] == slow.run["decisions"]
    same(fast, slow)
    if "decisions" in record:
        pd.testing.assert_frame_equal(fast.decisions, slow.decisions)
    if "links" in record:
        totals = [each.links.groupby("link", observed=False)["bytes"].sum()
                  for each in (fast, slow)]
        pd.testing.assert_series_equal(*totals, rtol=1e-9)


@pytest.mark.parametrize("policy", ["maxmin", "fifo"])
@pytest.mark.parametrize("until", [0.1, 3.3, 7.0, 11.0])
def test_stopped_half_way(policy, until):
    """What has not completed by then has no end, and what has not arrived no lower bound."""
    jobs = draw(2, 30)
    fast, slow = (netsim.simulate(NETWORKS[0], each, allocator=policy, until=until)
                  for each in (jobs, list(map(with_process, jobs))))
    same(fast, slow)
    assert fast.jobs["finish_s"].isna().any()


@pytest.mark.parametrize("policy", ["maxmin", "sebf"])
def test_among_others(policy):
    """Some jobs are single, some run for iterations, and a link fails and is repaired."""
    rng = np.random.default_rng(4)
    jobs = [replace(job, id=100 + job.id) for job in draw(3, 30)]
    others = [netsim.JobSpec(k, rng.integers(0, 8) / 4, hosts=[k % HOSTS, (k + 1) % HOSTS],
                             iterations=3, stages=[netsim.Stage("i", [(0, 1, 1.5), (1, 0, 1.0)])])
              for k in range(4)]
    events = [{"at": 4.0, "link": 0, "capacity": 0}, {"at": 9.0, "link": 0, "capacity": 2.0}]
    results = [netsim.simulate(NETWORKS[0], [*others, *each], allocator=policy, events=events,
                               record=("flows", "coflows"))
               for each in (jobs, list(map(with_process, jobs)))]
    same(*results)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [2, 4096])
def test_past_arrivals_in_compiled_code(seed, most, monkeypatch):
    """Nothing recorded but coflows: plain fairness goes on past arrivals, and many links are full.

    Among the others are jobs whose next coflow comes just when one that is single does: all times
    and bytes are such that instants coincide.
    """
    monkeypatch.setattr(single, "_MOST_COFLOWS", most)
    rng = np.random.default_rng(seed)
    network = netsim.big_switch(44, 1.0)

    def flows(count):
        return netsim.Flows(rng.integers(0, 44, count), rng.integers(0, 44, count),
                            rng.integers(1, 9, count) / 2)

    chains = [netsim.JobSpec(k, 0.0, hosts=range(44), iterations=4,
                             stages=[netsim.Stage("i", flows(10))]) for k in range(8)]
    jobs = [netsim.JobSpec(100 + k, rng.integers(0, 24) / 2, hosts=range(44),
                           stages=[netsim.Stage("s", flows(4))]) for k in range(40)]
    events = [{"at": 3.0, "link": 0, "capacity": 0}, {"at": 6.0, "link": 0, "capacity": 2.0}]
    fast, slow = (netsim.simulate(network, [*chains, *each], events=events)
                  for each in (jobs, list(map(with_process, jobs))))
    same(fast, slow)
    assert fast.run["decisions"] == slow.run["decisions"]


def test_an_empty_coflow_that_is_seen_late(monkeypatch):
    """With an interval of 1 s, what comes at 0.1 s is seen at 1 s, behind an empty one of 0.2 s."""
    monkeypatch.setattr(single, "_MOST_COFLOWS", 1)
    jobs = [netsim.JobSpec(k, at, hosts=[0, 1], stages=[netsim.Stage("s", [(0, 1, nbytes)])])
            for k, (at, nbytes) in enumerate([(0.1, 1.0), (0.2, 0.0), (0.3, 1.0)])]
    result = netsim.simulate(netsim.big_switch(2, 1.0), jobs, observe_interval=1)
    assert result.jobs["finish_s"].tolist() == pytest.approx([3.0, 0.2, 3.0])


def test_more_than_are_built_at_once(monkeypatch):
    """5,000 coflows of one flow of 1 byte, one a second, on a link of 1 byte/s: 1 s each."""
    jobs = [netsim.JobSpec(k, float(k), hosts=[0, 1], stages=[netsim.Stage("s", [(0, 1, 1.0)])])
            for k in range(5000)]
    seen = []
    result = netsim.simulate(netsim.big_switch(2, 1.0), jobs,
                             progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_allclose(result.jobs["jct_s"], 1.0, rtol=1e-9)
    assert result.run["simpy_events"] < 100
    assert seen[-1] == (5000, 5000)


def test_a_wide_coflow_between_narrow_ones():
    """More flows than are built at once: 120,000 of 1 byte share a link of 1 byte/s from 1 s on.

    The last job's flow comes at 2 s, gets 1/120,001, and ends after 0.5 x 120,001 s.
    """
    wide = netsim.Flows(np.zeros(120_000, int), np.ones(120_000, int), np.ones(120_000))
    jobs = [netsim.JobSpec(k, float(k), hosts=[0, 1], stages=[netsim.Stage("s", flows)])
            for k, flows in enumerate([[(0, 1, 0.5)], wide, [(0, 1, 0.5)]])]
    result = netsim.simulate(netsim.big_switch(2, 1.0), jobs)
    assert result.jobs["finish_s"].tolist() == pytest.approx([0.5, 120_001.5, 60_002.5], rel=1e-9)
