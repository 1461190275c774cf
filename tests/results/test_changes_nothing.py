"""What is recorded changes nothing: the same bytes of jobs and coflows, whoever watches."""

import contextlib

import numpy as np
import pytest
import simpy

import netsim
from netsim import JobSpec, Stage
from netsim.allocators import make_allocator
from netsim.allocators.registry import ALLOCATORS
from netsim.errors import NotRecordedError
from tests.fabric.test_service import Regrouped, Turned, many_at_once
from tests.jobs.test_graphs import drawn_jobs
from tests.pairs import in_turn, some

HOSTS = 6
NET = netsim.big_switch(HOSTS, "8Mbps")  # 1 MB/s: flows of 0.1 to 0.8 MB take some seconds

#: Beside jobs and coflows; then all tables, what a timeline needs, and jobs alone.
WATCHED = [{"record": ("jobs", "coflows", *names)} for names in (
    ("links",), ("decisions",), ("flows", "computations"),
    ("links", "decisions", "flows", "computations"))]
WATCHED += [{"record": ("jobs", "coflows"), "timeline": True}, {"record": ("jobs",)}]


class Alternating(netsim.Allocator):
    """Shares of another policy every other time: one question more would move all."""

    wakes_on = netsim.Event.COFLOW

    def __init__(self):
        self.asked = 0

    def allocate(self, view):
        self.asked += 1
        return make_allocator("aalo-lbsf" if self.asked % 2 else "lccf").allocate(view)


class Rates(netsim.Allocator):
    """A rate for each flow, at each event, and at an instant that it asks for."""

    def allocate(self, view):
        rates = view.maxmin(1.0 + view.coflow % 3)
        return netsim.Allocation(rates, revisit_at=np.floor(view.now) + 1.5)


@netsim.compiled(information="agnostic")
def in_step(coflows, jobs, now, order):
    """Serve coflows by their jobs' bytes; ask again after each 0.3 MB of a coflow."""
    for c in range(len(coflows)):
        order.key[c] = jobs[coflows[c].job].attained
        order.limit[c] = coflows[c].sent + 3e5


@netsim.compiled(leftover="maxmin")
def in_order(coflows, jobs, now, order):
    """Serve coflows by what they have left, or the other way round in every other second."""
    for c in range(len(coflows)):
        order.key[c] = coflows[c].remaining if now % 2 < 1 else -coflows[c].remaining


@netsim.compiled(gives="weights", information="agnostic")
def by_weight(coflows, jobs, now, order):
    """Share links by the number of a job's coflows."""
    for c in range(len(coflows)):
        order.weight[c] = 1.0 + jobs[coflows[c].job].completed % 3


OWN = (Alternating, Rates, Turned, Regrouped, in_step, in_order, by_weight)

POLICIES = [
    *sorted({*ALLOCATORS.names, *ALLOCATORS.presets} - {"reserved"}),
    *OWN, "reserved:shares=0.02",
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
    "operations": (lambda rng: drawn_jobs(3, unit=1e5), {}),
    "operations, an interval, faults, until": (lambda rng: drawn_jobs(5, unit=1e5), {
        "observe_interval": "300ms", "events": EVENTS, "until": 6.0}),
    "an observe interval": (chains, {"observe_interval": "300ms"}),
    "an interval, faults, until": (lambda rng: [*chains(rng)[:3], *(
        JobSpec(100 + job.id, job.arrival_s, hosts=job.hosts, stages=job.stages)
        for job in graphs(rng)[:2])], {"observe_interval": "700ms", "events": EVENTS,
                                       "until": 9.0}),
}


def said(result):
    """Return the bytes of the tables of jobs and coflows, and the number of decisions."""
    found = {"decisions": result.run["decisions"]}
    for name in ("jobs", "coflows"):
        with contextlib.suppress(NotRecordedError):
            found[name] = getattr(result, name).to_csv(float_format=float.hex).encode()
    return found


def check(network, jobs, policy, watched=WATCHED, **options):
    """Check that a run says the same of jobs and coflows, whatever else is recorded."""
    plain = said(netsim.simulate(network, jobs, allocator=policy, record=("jobs", "coflows"),
                                 **options))
    for each in watched:
        found = said(netsim.simulate(network, jobs, allocator=policy, **each, **options))
        assert found == {name: plain[name] for name in found}


@pytest.mark.parametrize(("policy", "case"), in_turn(POLICIES, CASES, rounds=2))
def test_jobs_and_coflows_are_the_same_to_the_last_bit(policy, case):
    make, options = CASES[case]
    watched = some(WATCHED, POLICIES.index(policy) + len(case), of=2)
    check(NET, make(np.random.default_rng(len(case))), policy, watched, **options)


@pytest.mark.parametrize(("policy", "interval"), in_turn(
    [each for each in POLICIES if each != "lp-order"], [0, 0.3]))
def test_coflows_of_processes(policy, interval):
    """Processes send one coflow after the other; half of them take back what lasts too long."""
    def run(record):
        rng, env, seen = np.random.default_rng(4), simpy.Environment(), []
        fabric = netsim.Fabric(env, NET, allocator=policy, observe_interval=interval,
                               record=record)

        def sender(at, patience, steps):
            yield env.timeout(at)
            job = fabric.job(communication_s=4.0)
            for step in steps:
                coflow = fabric.coflow(step, job=job)
                if coflow not in (yield coflow | env.timeout(patience)):
                    seen.append(coflow.cancel())
                seen.append(env.now)
            job.end()

        for k in range(6):
            env.process(sender(rng.uniform(0, 2), 1.5 if k % 2 else 1e4,
                               [flows(rng, 3) for _ in range(4)]))
        env.run()
        return said(fabric.result()) | {"seen": seen}

    plain = run(("jobs", "coflows"))
    for watched in some(WATCHED, POLICIES.index(policy), of=2):
        if "timeline" not in watched:
            found = run(watched["record"])
            assert found == {name: plain[name] for name in found}


@pytest.mark.parametrize(("policy", "interval"), in_turn([
    "aalo", "maxmin", "parrot", "parrot:work_conservation=per_flow", "scf", "sincronia", "srtf"],
    ["0s", "50ms"]))
def test_over_many_coflows_roundings_do_not_add_up(policy, interval):
    """4 jobs on three hosts, over and over: one tie that moves is seen seconds later."""
    rng = np.random.default_rng(1)
    jobs = [JobSpec(k, hosts=range(3), iterations=1000 if policy == "maxmin" else 100,
                    compute_s=0.1, stages=[Stage("ring", [
                        (k % 3, (k + 1) % 3, float(rng.uniform(1e5, 8e5))),
                        ((k + 1) % 3, (k + 2) % 3, float(rng.uniform(1e5, 8e5)))])])
            for k in range(4)]
    network = netsim.big_switch(3, 1e6)
    check(network, jobs, policy, WATCHED[3:], observe_interval=interval)


@pytest.mark.parametrize(("policy", "options"), in_turn(["maxmin", "maxmin:decisions=coflow"], [
    {}, {"observe_interval": "300ms"}, {"until": 4.0}, {
        "events": [{"at": "2s", "link": "egress-1", "capacity": "0bps"},
                   {"at": "3s", "link": "egress-1", "capacity": "8Mbps"}]}]))
def test_many_flows_on_many_links(policy, options):
    """Few on each link, and more than 1,024 at once: their ends are kept in a heap."""
    rng = np.random.default_rng(1)
    jobs = []
    for k in range(400):
        hosts = rng.choice(500, 3, replace=False).tolist()
        jobs.append(JobSpec(k, float(rng.uniform(0, 2)), hosts=hosts, iterations=2, stages=[
            Stage("ring", [(i, (i + 1) % 3, float(rng.uniform(1e5, 8e5))) for i in range(3)])]))
    check(netsim.big_switch(500, "8Mbps"), jobs, policy, WATCHED[3:], **options)


@pytest.mark.parametrize(("policy", "options"), in_turn(
    ["maxmin", "maxmin:decisions=coflow", "coflow-fair"], [
        {}, {"observe_interval": "300ms"}, {"until": 21.5}, {
            "events": [{"at": "2s", "link": "egress-1", "capacity": "0bps"},
                       {"at": "3s", "link": "egress-1", "capacity": "8bps"}]}]))
def test_many_flows_on_few_links(policy, options):
    """Thousands are far from their ends, and passed over until levels have moved too far."""
    network, jobs = many_at_once()
    check(network, jobs, policy, WATCHED[3:], **options)
