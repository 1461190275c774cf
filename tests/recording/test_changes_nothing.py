"""What is recorded changes nothing: the same bytes of jobs and coflows, whoever watches."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.allocators import make_allocator
from netsim.allocators.registry import ALLOCATORS
from tests.fabric.test_service import many_at_once

HOSTS = 6
NET = netsim.big_switch(HOSTS, "8Mbps")  # 1 MB/s: flows of 0.1 to 0.8 MB take some seconds

#: Beside what each table says of itself, all tables, and what a timeline needs.
WATCHED = [{"record": ("jobs", "coflows", *names)} for names in (
    ("links",), ("decisions",), ("flows",), ("links", "decisions", "flows"))]
WATCHED += [{"record": ("jobs", "coflows"), "timeline": True}]

POLICIES = [
    *sorted({*ALLOCATORS.names, *ALLOCATORS.presets} - {"reserved"}),
    "parrot:work_conservation=none", "parrot:work_conservation=uniform",
    "parrot:work_conservation=per_flow", "srpt:work_conservation=capped",
    "lccf:work_conservation=none", "aalo:weights=strict", "sebf:work_conservation=greedy",
    "fifo:decisions=coflow", "maxmin:decisions=coflow", "maxmin:weights=coflow",
    "sincronia:reorder=arrival"]

EVENTS = [{"at": "2s", "link": "egress-1", "capacity": "0bps"},
          {"at": "5s", "link": "egress-1", "capacity": "8Mbps"},
          {"at": "3s", "link": "ingress-2", "capacity": "4Mbps"}]


def flows(rng, count):
    """Return flows between any two hosts of 0.1 to 0.8 MB."""
    src, dst = rng.integers(0, HOSTS, count), rng.integers(0, HOSTS - 1, count)
    return [(int(a), int(b + (b >= a)), float(nbytes)) for a, b, nbytes in zip(
        src, dst, rng.uniform(1e5, 8e5, count), strict=True)]


def chains(rng):
    """Return jobs that send one coflow after the other, with computation between."""
    return [JobSpec(k, float(rng.uniform(0, 3)), hosts=range(HOSTS), iterations=6,
                    compute_s=float(rng.choice([0.0, 0.1])),
                    stages=[Stage("a", flows(rng, 3)), Stage("b", flows(rng, 2), after=["a"])])
            for k in range(5)]


def graphs(rng):
    """Return jobs whose coflows overlap, which a process goes through."""
    return [JobSpec(k, float(rng.uniform(0, 3)), hosts=range(HOSTS), iterations=3, stages=[
        Stage("a", flows(rng, 2)), Stage("b", flows(rng, 3)),
        Stage("c", flows(rng, 2), after=["a"], compute_s=0.2)]) for k in range(4)]


def singles(rng):
    """Return jobs of one coflow each."""
    return [JobSpec(k, float(at), hosts=range(HOSTS), stages=[Stage("a", flows(rng, 3))])
            for k, at in enumerate(np.sort(rng.uniform(0, 8, 30)))]


CASES = {
    "chains": (chains, {}),
    "graphs and singles": (lambda rng: [
        *graphs(rng), *(JobSpec(100 + job.id, job.arrival_s, hosts=job.hosts, stages=job.stages)
                        for job in singles(rng)[:12])], {}),
    "singles": (singles, {}),
    "faults": (lambda rng: [*chains(rng), *(
        JobSpec(100 + job.id, job.arrival_s, hosts=job.hosts, stages=job.stages, iterations=2)
        for job in graphs(rng))], {"events": EVENTS}),
    "until": (chains, {"until": 7.5}),
    "an observe interval": (chains, {"observe_interval": "300ms"}),
    "an interval, faults, until": (lambda rng: [*chains(rng)[:3], *(
        JobSpec(100 + job.id, job.arrival_s, hosts=job.hosts, stages=job.stages)
        for job in graphs(rng)[:2])], {"observe_interval": "700ms", "events": EVENTS,
                                       "until": 9.0}),
}


def said(result):
    """Return the bytes of the tables of jobs and coflows, and the number of decisions."""
    tables = [table.to_csv(float_format=float.hex).encode()
              for table in (result.jobs, result.coflows)]
    return tables, result.run["decisions"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_and_coflows_are_the_same_to_the_last_bit(policy, case):
    make, options = CASES[case]
    jobs = make(np.random.default_rng(len(case)))
    plain = said(netsim.simulate(NET, jobs, allocator=policy, record=("jobs", "coflows"),
                                 **options))
    for watched in WATCHED:
        assert said(netsim.simulate(NET, jobs, allocator=policy, **watched, **options)) == plain


@pytest.mark.parametrize("policy", [
    "aalo", "maxmin", "parrot", "parrot:work_conservation=per_flow", "scf", "sincronia", "srtf"])
@pytest.mark.parametrize("interval", ["0s", "50ms"])
def test_over_many_coflows_roundings_do_not_add_up(policy, interval):
    """4 jobs on three hosts, over and over: one tie that moves is seen seconds later."""
    rng = np.random.default_rng(1)
    jobs = [JobSpec(k, hosts=range(3), iterations=1000 if policy == "maxmin" else 100,
                    compute_s=0.1, stages=[Stage("ring", [
                        (k % 3, (k + 1) % 3, float(rng.uniform(1e5, 8e5))),
                        ((k + 1) % 3, (k + 2) % 3, float(rng.uniform(1e5, 8e5)))])])
            for k in range(4)]
    network = netsim.big_switch(3, 1e6)
    plain, links, timeline = (said(netsim.simulate(
        network, jobs, allocator=policy, observe_interval=interval, **watched)) for watched in (
            {"record": ("jobs", "coflows")}, WATCHED[3], WATCHED[4]))
    assert links == plain
    assert timeline == plain


@pytest.mark.parametrize("policy", ["maxmin", "maxmin:decisions=coflow"])
@pytest.mark.parametrize("options", [{}, {"observe_interval": "300ms"}, {"until": 4.0}, {
    "events": [{"at": "2s", "link": "egress-1", "capacity": "0bps"},
               {"at": "3s", "link": "egress-1", "capacity": "8Mbps"}]}])
def test_many_flows_on_many_links(policy, options):
    """Few on each link, and more than 1,024 at once: their ends are kept in a heap."""
    rng = np.random.default_rng(1)
    jobs = []
    for k in range(400):
        hosts = rng.choice(500, 3, replace=False).tolist()
        jobs.append(JobSpec(k, float(rng.uniform(0, 2)), hosts=hosts, iterations=2, stages=[
            Stage("ring", [(i, (i + 1) % 3, float(rng.uniform(1e5, 8e5))) for i in range(3)])]))
    network = netsim.big_switch(500, "8Mbps")
    plain = said(netsim.simulate(network, jobs, allocator=policy, record=("jobs", "coflows"),
                                 **options))
    for watched in WATCHED[3:]:
        assert said(netsim.simulate(network, jobs, allocator=policy, **watched, **options)) == plain


@pytest.mark.parametrize("policy", ["maxmin", "maxmin:decisions=coflow", "coflow-fair"])
@pytest.mark.parametrize("options", [{}, {"observe_interval": "300ms"}, {"until": 21.5}, {
    "events": [{"at": "2s", "link": "egress-1", "capacity": "0bps"},
               {"at": "3s", "link": "egress-1", "capacity": "8bps"}]}])
def test_many_flows_on_few_links(policy, options):
    """Thousands are far from their ends, and passed over until levels have moved too far."""
    network, jobs = many_at_once()
    plain = said(netsim.simulate(network, jobs, allocator=policy, record=("jobs", "coflows"),
                                 **options))
    for watched in WATCHED[3:]:
        assert said(netsim.simulate(network, jobs, allocator=policy, **watched, **options)) == plain


def test_a_policy_with_a_state_is_not_asked_for_what_is_recorded():
    """Every other time it is asked, another job goes first: one question more would move all."""
    class Alternating(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def __init__(self):
            self.asked = 0

        def allocate(self, view):
            self.asked += 1
            return make_allocator("aalo-lbsf" if self.asked % 2 else "lccf").allocate(view)

    jobs = chains(np.random.default_rng(3))
    plain = said(netsim.simulate(NET, jobs, allocator=Alternating))
    for watched in WATCHED:
        assert said(netsim.simulate(NET, jobs, allocator=Alternating, **watched)) == plain
