"""`netsim.Simulation`: held, looked at, forked, changed, submitted to, and listened to."""

from __future__ import annotations

import gc
import math
import threading
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.allocators.registry import ALLOCATORS
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.flow_table import FlowTable, MaxMinEngine
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.events import EVENT_KINDS
from tests.examples import examples
from tests.pairs import few, in_turn, some
from tests.simulation.runs import (
    CLUSTER,
    EVERYTHING,
    NET,
    assert_same,
    jobs_of_all_kinds,
    rings,
)

#: Policies that need no clusters.
ANY = sorted({*ALLOCATORS.names, *ALLOCATORS.presets} - {"reserved"})

#: Those that do not plan before the run, by what is known then.
ONLINE = [name for name in ANY if name != "lp-order"]

#: Those that have links shared max-min fairly, maybe with weights, by the flows of all coflows.
MAXMIN = {"coflow-fair", "fair", "maxmin", "mltcp"}
TIGHT = {"rtol": 1e-12, "atol": 0}

instants = st.lists(st.floats(0.01, 8), min_size=1, max_size=3).map(sorted)


def held(sim: netsim.Simulation, at: list[float]) -> netsim.Simulation:
    """Hold a run at some instants, and look at everything there."""
    for instant in at:
        if instant >= sim.now:
            sim.run(until=instant)
            for look in (sim.jobs, sim.result, sim.active, sim.flows, sim.links):
                look()
    return sim


# --- networks -------------------------------------------------------------------------------


@pytest.mark.parametrize(("allocator", "interval"), in_turn(ANY, [0, "300ms"]))
@settings(max_examples=examples(3, fewest=2))
@given(seed=st.integers(0, 99), at=instants)
def test_a_run_that_is_held_and_forked_is_the_same(allocator, interval, seed, at):
    options = {"allocator": allocator, "observe_interval": interval, "record": EVERYTHING}
    workload = jobs_of_all_kinds(seed)
    expected = netsim.simulate(NET, workload, **options)
    sim = held(netsim.Simulation(NET, workload, **options), at)
    forks = [sim.fork(), sim.fork().fork()]
    assert_same(forks[0].run().result(), expected)
    assert_same(sim.run().result(), expected)
    assert_same(held(forks[1], [at[-1] + 0.5]).run().result(), expected)


@pytest.mark.parametrize("allocator", ["parrot", "sebf", "maxmin"])
def test_what_has_ended_unnoticed_is_not_shown(allocator):
    """2 MB over two links of 1 MB/s end at 1 s, which is noticed at 1.2 s."""
    job = JobSpec(0, hosts=range(4), stages=[Stage("s", [(0, 1, 1e6), (2, 3, 1e6)])])
    sim = netsim.Simulation(netsim.big_switch(4, "8Mbps"), [job], allocator=allocator,
                            observe_interval="300ms").run(until=1.1)
    assert len(sim.active()) == len(sim.flows()) == len(sim.view()) == 0
    assert sim.links()["rate"].sum() == 0
    assert sim.run().result().jobs["finish_s"].tolist() == [pytest.approx(1)]


@pytest.mark.parametrize("allocator", few(ANY, 8))
def test_any_policy_can_be_held_and_forked(allocator):
    workload = jobs_of_all_kinds()
    expected = netsim.simulate(NET, workload, allocator=allocator)
    sim = held(netsim.Simulation(NET, workload, allocator=allocator), [0.5, 2.0])
    for each in (sim.fork(), sim):
        np.testing.assert_allclose(each.run().result().jobs["finish_s"],
                                   expected.jobs["finish_s"], rtol=1e-9)


@pytest.mark.parametrize("events", [
    [{"at": 1, "kind": "fail", "host": 1, "restart": True}, {"at": 2, "kind": "repair", "host": 1}],
    [{"at": 1, "kind": "fail", "link": "ingress-1"}, {"at": 3, "kind": "repair",
                                                       "link": "ingress-1"}]])
@given(at=instants)
@settings(max_examples=examples(5))
def test_with_faults(events, at):
    options = {"allocator": "lccf", "events": events, "stragglers": {2: 2.0}}
    expected = netsim.simulate(NET, jobs_of_all_kinds(), **options)
    sim = held(netsim.Simulation(NET, jobs_of_all_kinds(), **options), at)
    for each in (sim.fork(), sim):
        assert_same(each.run().result(), expected)


def test_a_fork_of_rerouted_flows():
    """A link of a ring fails at 1 s and comes back at 3 s; the fork is made between these."""
    ring = netsim.network.ring(6, "8Mbps")
    options = {"allocator": "lccf", "events": [
        {"at": 1, "kind": "fail", "link": "host-0->host-1"},
        {"at": 3, "kind": "repair", "link": "host-0->host-1"}]}
    expected = netsim.simulate(ring, jobs_of_all_kinds(), **options)
    sim = held(netsim.Simulation(ring, jobs_of_all_kinds(), **options), [2.0])
    for each in (sim.fork(), sim):
        assert_same(each.run().result(), expected)


@given(at=st.floats(0.01, 8))
@settings(max_examples=examples(8))
def test_a_result_in_the_middle_is_that_of_until(at):
    """Whatever has been looked at before; and `simulate` knows no other way."""
    options = {"allocator": "parrot", "record": EVERYTHING}
    expected = netsim.simulate(NET, jobs_of_all_kinds(), until=at, **options)
    sim = held(netsim.Simulation(NET, jobs_of_all_kinds(), **options), [at / 3, at])
    found = sim.result()
    assert_same(found, expected)
    assert found.run["stopped_at_s"] == expected.run["stopped_at_s"] == (
        None if found.jobs["finish_s"].notna().all() else at)


def test_what_one_sees_at_an_instant():
    """Two flows of 3 MB share a port of 1 MB/s from 0 s on; a third job comes at 4 s."""
    push = [JobSpec(7 + k, 4.0 * (k == 2), hosts=range(4),
                    stages=[Stage("push", [(k, 3, 3e6)])]) for k in range(3)]
    sim = netsim.Simulation(netsim.big_switch(4, "8Mbps"), push).run(until=3)
    assert sim.now == 3
    active = sim.active()
    assert active[["job", "coflow", "left_bytes", "rate"]].to_numpy().tolist() == [
        [7, 0, 1.5e6, 5e5], [8, 1, 1.5e6, 5e5]]
    assert set(active["stage"]) == {"push"}
    assert sim.flows()[["job", "src", "dst"]].to_numpy().tolist() == [[7, 0, 3], [8, 1, 3]]
    assert sim.links().set_index("link")["utilisation"]["ingress-3"] == 1
    jobs = sim.jobs().set_index("job")
    assert jobs["state"].tolist() == ["running", "running", "to come"]
    assert jobs["start_s"].tolist()[:2] == [0, 0]
    assert math.isnan(jobs["start_s"][9])
    assert len(sim.view()) == 2
    assert sim.allocator.title == "MaxMin"
    assert sim.run().now == pytest.approx(9)
    assert sim.jobs()["state"].tolist() == ["done"] * 3
    assert "3 of 3 coflows done" in repr(sim)


def test_coflows_of_processes_have_their_ids():
    """Of stages in parallel, in the second iteration."""
    stages = [Stage("a", [(0, 1, 1e6)]), Stage("b", [(2, 3, 2e6)])]
    sim = netsim.Simulation(NET, [JobSpec(0, hosts=range(6), iterations=3, stages=stages)])
    active = sim.run(until=2.5).active()
    assert active[["coflow", "stage"]].to_numpy().tolist() == [[2, "a"], [3, "b"]]


def test_time_goes_on_only():
    sim = netsim.Simulation(NET, jobs_of_all_kinds()).run(until=2)
    assert sim.run(until=2).now == 2
    for until, message in ((1, "until: 1 s has passed; it is 2 s"), (0, "greater than 0")):
        with pytest.raises(InputError, match=message):
            sim.run(until=until)
    assert sim.run().run(until=100).now == sim.result().jobs["finish_s"].max()


# --- clusters -------------------------------------------------------------------------------


RESTART = [{"at": 3, "kind": "fail", "host": 1, "restart": True},
           {"at": 6, "kind": "repair", "host": 1}]


def check_forks(workload, at, **options):
    expected = netsim.simulate(CLUSTER, workload, **options)
    sim = netsim.Simulation(CLUSTER, workload, **options)
    for instant in at:
        sim.run(until=instant)
        sim.jobs()
        assert_same(sim.fork().run().result(), expected)
    assert_same(sim.run().result(), expected)


EXECUTIONS = [{"name": "rar-contention", "slot": "5s"},
              {"name": "rar-contention", "time": "continuous"}, "asrpt", "fabric"]


@pytest.mark.parametrize(("scheduler", "execution"), in_turn(sorted(
    {*SCHEDULERS.names, *SCHEDULERS.presets} - {"a-online", "a-online-e", "batch", "cloud-only"}),
    EXECUTIONS, rounds=2), ids=str)
def test_clusters_with_every_scheduler(scheduler, execution):
    plans = scheduler in ("ff", "ls", "rand", "sjf-bco")
    if scheduler == "tiresias-g":
        scheduler += ":history=[1,5,20]"
    options = {"scheduler": scheduler, "execution": execution,
               "events": () if plans else RESTART}
    if execution == "fabric":
        options |= {"allocator": "parrot", "record": ("jobs", "coflows", "flows")}
    check_forks(rings(together=plans), [2.5, 4.0, 7.5], **options)


@pytest.mark.parametrize("placement", sorted({*PLACEMENTS.names, *PLACEMENTS.presets}))
def test_clusters_with_every_placement(placement):
    check_forks(rings(), [2.5, 7.5], scheduler="fifo", placement=placement, execution="asrpt")


@pytest.mark.parametrize("retrain", [None, "2s"])
@pytest.mark.parametrize("predictor", ["random-forest:trees=3", "mean", "median", "perfect"])
def test_clusters_with_every_predictor(predictor, retrain):
    check_forks(rings(), [4.0, 12.0], execution="asrpt",
                scheduler={"name": "spjf", "predictor": predictor, "retrain": retrain})


def test_states_of_jobs_on_a_cluster():
    """One server of 2 GPUs: the pair runs for 10 s, the next waits, the last comes at 7 s."""
    job = {"pattern": "ring-all-reduce", "ranks": 2, "nbytes": 0.0, "compute_s": 1.0}
    jobs = [JobSpec(k, at, 10, **job) for k, at in ((4, 0.0), (5, 2.0), (6, 7.0))]
    sim = netsim.Simulation(netsim.Cluster(gpus=[2]), jobs, execution="asrpt").run(until=5)
    shown = sim.jobs()
    assert shown["state"].tolist() == ["running", "waiting", "to come"]
    assert shown["placement"].tolist() == ["0:2", "", ""]
    with pytest.raises(InputError, match="without links and an allocator"):
        sim.active()


# --- other jobs -----------------------------------------------------------------------------


@pytest.mark.parametrize(("allocator", "interval"), in_turn(ONLINE, [0, "300ms"], first=1))
@given(seed=st.integers(0, 99), at=st.none() | st.floats(0.01, 3))
@settings(max_examples=examples(3, fewest=2))
def test_jobs_submitted_before_they_arrive(allocator, interval, seed, at):
    check_submitted(allocator, interval, seed, at)


@pytest.mark.parametrize("seed", [5, 37, 52])
def test_coflows_seen_at_one_instant_join_in_the_order_of_their_jobs(seed):
    """Whether they are stages of chains, single coflows, or stages that a process submits.

    At 2.7 s of seed 5, a chain of job 0 goes on and two single coflows of later jobs are noticed:
    of which sum over a link comes first, the last bit of its bytes tells.
    """
    check_submitted("maxmin", "300ms", seed, 0.7)


def check_submitted(allocator, interval, seed, at):
    """Check that jobs submitted make the run the same as if they had been in the workload."""
    options = {"allocator": allocator, "observe_interval": interval, "record": EVERYTHING}
    workload = jobs_of_all_kinds(seed)
    early = [job for job in workload if job.arrival_s <= (at or 0.0)] or [workload.jobs[2]]
    sim = netsim.Simulation(NET, early, **options)
    if at is not None and at < early[0].arrival_s:
        at = None
    if at is not None:
        sim.run(until=at)
    for job in reversed(workload.jobs):
        if job not in early:
            sim.submit(job)
    expected = netsim.simulate(NET, workload, **options)
    for each in (sim.fork(), sim):
        assert_same(each.run().result(), expected)


@pytest.mark.parametrize(("scheduler", "execution"), in_turn(
    ["fifo", "sjf", "wcs-duration", "a-srpt", "a-srpt-perfect"], EXECUTIONS, rounds=2), ids=str)
def test_jobs_submitted_to_a_cluster(scheduler, execution):
    options = {"scheduler": scheduler, "execution": execution}
    if scheduler == "wcs-duration":
        options["scheduler"] = {"name": scheduler, "predictor": "mean"}
    if execution == "fabric":
        options["allocator"] = "parrot"
    jobs = rings().jobs
    sim = netsim.Simulation(CLUSTER, Workload(jobs[:6:2], history=rings().history), **options)
    sim.run(until=jobs[3].arrival_s)
    late = [job for job in jobs if job.arrival_s >= jobs[3].arrival_s and job not in jobs[:6:2]]
    for job in late:
        sim.submit(job)
    both = Workload([*jobs[:6:2], *late], history=rings().history)
    expected = netsim.simulate(CLUSTER, both, **options)
    assert_same(sim.fork().run().result(), expected)
    assert_same(sim.run().result(), expected)


def test_a_run_that_has_ended_takes_another_job():
    one, other = (JobSpec(k, at, hosts=range(2), stages=[Stage("s", [(0, 1, 1e6)])])
                  for k, at in ((0, 0.0), (1, 5.0)))
    sim = netsim.Simulation(netsim.big_switch(2, "8Mbps"), [one]).run()
    before = sim.result()
    sim.submit(other)
    assert sim.run().result().jobs["finish_s"].tolist() == [1, 6]
    assert before.jobs["finish_s"].tolist() == before.coflows["finish_s"].tolist() == [1]


def ring(number, arrival_s):
    return JobSpec(number, arrival_s, pattern="ring-all-reduce", ranks=2, nbytes=1e6)


@pytest.mark.parametrize(("job", "message"), [
    (5, "job must be a JobSpec, not 5"),
    (ring(99, 1.0), "job 99 arrives at 1 s, and it is 2 s already"),
    (ring(3, 5.0), "job 3: the run has a job with this id"),
    (JobSpec(99, 5.0, hosts=[9, 10], stages=[Stage("s", [(0, 1, 1)])]), "host 9 is out of range"),
    (JobSpec(99, 5.0, stages=[Stage("s", [(0, 1, 1)], coflow_id=1)]), "coflow_id .* be larger")])
def test_jobs_that_are_refused(job, message):
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="lccf").run(until=2)
    with pytest.raises(InputError, match=message):
        sim.submit(job)
    assert_same(sim.run().result(), netsim.simulate(NET, jobs_of_all_kinds(), allocator="lccf"))


def test_a_scheduler_that_plans_takes_no_more_jobs():
    sim = netsim.Simulation(CLUSTER, rings(together=True), scheduler="ff", execution="asrpt")
    with pytest.raises(InputError, match="'ff' needs jobs at 0"):
        sim.submit(ring(99, 1.0))
    with pytest.raises(InputError, match="learns of all jobs when the run begins"):
        sim.submit(ring(99, 0.0))


# --- changes --------------------------------------------------------------------------------


@pytest.mark.parametrize("allocator", few(ANY, 12))
def test_changes_by_hand_are_those_of_events(allocator):
    """At instants at which no policy wakes by itself, or its decision would be one more."""
    events = [{"at": 1.003, "link": "egress-2", "capacity": "2Mbps"},
              {"at": 1.503, "kind": "fail", "host": 3}, {"at": 2.503, "kind": "repair", "host": 3},
              {"at": 4.003, "kind": "repair", "link": "egress-2"}]
    options = {"allocator": allocator, "record": EVERYTHING}
    expected = netsim.simulate(NET, jobs_of_all_kinds(), events=events, **options)
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), **options).run(until=1.003)
    sim.set_capacity("egress-2", "2Mbps")
    other = sim.run(until=1.503).fork()
    for each in (sim, other):
        each.fail(host=3)
        each.run(until=2.503).repair(host=3)
        each.run(until=4.003).repair(link="egress-2")
        assert_same(each.run().result(), expected)


def fail_by_hand(allocator, seed, at):
    """Yield results of runs on a ring in which a link fails by hand, and of one that knew it."""
    ring, link = netsim.network.ring(6, "8Mbps"), "host-0->host-1"
    workload = jobs_of_all_kinds(seed)
    expected = netsim.simulate(ring, workload, allocator=allocator, events=[
        {"at": at, "kind": "fail", "link": link}, {"at": at + 2, "kind": "repair", "link": link}])
    sim = netsim.Simulation(ring, workload, allocator=allocator).run(until=at)
    sim.fail(link=link)
    for each in (sim.fork(), sim):
        each.run(until=at + 2).repair(link=link)
        yield each.run().result(), expected


@pytest.mark.parametrize("allocator", few(ONLINE, 12))
@settings(max_examples=examples(3, fewest=2))
@given(seed=st.integers(0, 99), at=st.floats(0.01, 4))
def test_flows_avoid_links_that_fail_by_hand(allocator, seed, at):
    """As if it had been known from the beginning; there are two ways around a ring.

    Where links are shared, roundings may differ: an engine is made for paths as long as the longest
    that is known, and made again for a longer one. Jobs of one coflow are known in advance only if
    no event is to move flows.
    """
    exact = allocator not in MAXMIN
    for found, expected in fail_by_hand(allocator, seed, at):
        pd.testing.assert_frame_equal(found.coflows, expected.coflows, check_exact=exact,
                                      check_categorical=False, **({} if exact else TIGHT))
        np.testing.assert_allclose(found.jobs["finish_s"], expected.jobs["finish_s"],
                                   rtol=0 if exact else 1e-12)


@pytest.mark.parametrize("allocator", sorted(MAXMIN))
def test_roundings_of_shared_links_depend_on_the_longest_path_known(allocator, monkeypatch):
    """With engines that have room for any path on the ring, they are the same, bit by bit."""
    take_in = MaxMinEngine.take_in
    monkeypatch.setattr(MaxMinEngine, "take_in",
                        lambda self, *given: take_in(self, *given[:-1], 5))
    for seed in range(3):
        for at in some((1.0, 2.5), seed, of=2):
            for found, expected in fail_by_hand(allocator, seed, at):
                pd.testing.assert_frame_equal(found.coflows, expected.coflows, check_exact=True,
                                              check_categorical=False)


def test_servers_fail_by_hand_and_jobs_start_over():
    options = {"scheduler": "fifo", "execution": "asrpt"}
    sim = netsim.Simulation(CLUSTER, rings(), **options).run(until=3)
    sim.fail(host=1, restart=True)
    sim.run(until=6).repair(host=1)
    expected = netsim.simulate(CLUSTER, rings(), events=RESTART, **options)
    assert sim.run().result().jobs["finish_s"].equals(expected.jobs["finish_s"])


@pytest.mark.parametrize("allocator", ["parrot", "maxmin"])
def test_hosts_of_a_network_fail_by_hand_and_jobs_start_over(allocator):
    """Where an event with restart says that this may be, though it never happens."""
    events = [{"at": 1.5, "kind": "fail", "host": 3, "restart": True},
              {"at": 2.5, "kind": "repair", "host": 3}]
    expected = netsim.simulate(NET, jobs_of_all_kinds(), allocator=allocator, events=events)
    assert expected.jobs["restarts"].sum() > 1
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator=allocator,
                            events=[events[0] | {"at": 1e9}]).run(until=1.5)
    sim.fail(host=3, restart=True)
    sim.run(until=2.5).repair(host=3)
    assert_same(sim.run().result(), expected)


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "sebf", "srpt"])
def test_another_policy_from_the_beginning(allocator):
    """A run whose policy and interval are set before it begins is that of these."""
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="fifo")
    sim.allocator, sim.observe_interval = allocator, "100ms"
    found = sim.run().result()
    expected = netsim.simulate(NET, jobs_of_all_kinds(), allocator=allocator,
                               observe_interval="100ms")
    assert_same(found, expected)
    assert found.run["allocator"] == expected.run["allocator"]
    assert found.run["observe_interval"] == sim.observe_interval == 0.1


def test_another_policy_in_the_middle():
    """First in, first out sends the first 4 MB alone; from 1 s on both have half of the port."""
    jobs = [JobSpec(k, hosts=range(3), stages=[Stage("s", [(k, 2, 4e6)])]) for k in range(2)]
    sim = netsim.Simulation(netsim.big_switch(3, "8Mbps"), jobs, allocator="fifo").run(until=1)
    other = sim.fork()
    other.allocator = "maxmin"
    assert other.allocator.title == "MaxMin" != sim.allocator.title
    assert other.run().result().jobs["finish_s"].tolist() == pytest.approx([7, 8])
    assert sim.run().result().jobs["finish_s"].tolist() == pytest.approx([4, 8])


@pytest.mark.parametrize(("act", "message"), [
    (lambda sim: sim.set_capacity("nowhere", 1), "nowhere"),
    (lambda sim: sim.set_capacity("egress-1", "fast"), "fast"),
    (lambda sim: sim.set_capacity(None, 1), "set_capacity: link must be a name or a number"),
    (lambda sim: sim.fail(), "^fail: give one of link, host and switch"),
    (lambda sim: sim.repair(host=0.5), "^repair: host must be a name or a whole number, not 0.5"),
    (lambda sim: sim.fail(host=77), "77"),
    (lambda sim: sim.fail(host=1, restart=True), "jobs of this run cannot be stopped"),
    (lambda sim: setattr(sim, "allocator", "quick"), "unknown allocator 'quick'"),
    (lambda sim: setattr(sim, "allocator", "ring-contention:count=running"), "told which jobs run"),
    (lambda sim: setattr(sim, "observe_interval", -1), "observe_interval"),
    (lambda sim: sim.on("job-born", print), "unknown kind of event 'job-born'"),
    (lambda sim: sim.on("job-done", 5), "must be a function, not 5")])
def test_changes_that_are_refused(act, message):
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="lccf").run(until=1)
    with pytest.raises(InputError, match=message):
        act(sim)
    assert_same(sim.run().result(), netsim.simulate(NET, jobs_of_all_kinds(), allocator="lccf"))


def test_an_unknown_kind_of_event_is_a_name():
    with pytest.raises(UnknownNameError):
        netsim.Simulation(NET, jobs_of_all_kinds()).on("", print)


# --- listeners ------------------------------------------------------------------------------


@pytest.mark.parametrize(("allocator", "interval"), in_turn(ANY, [0, "300ms"], first=1))
@given(seed=st.integers(0, 99))
@settings(max_examples=examples(2))
def test_events_are_those_of_the_tables(allocator, interval, seed):
    """Each comes at its instant; the run is the same with them as without."""
    workload, heard = jobs_of_all_kinds(seed), []
    options = {"allocator": allocator, "observe_interval": interval, "record": EVERYTHING}
    expected = netsim.simulate(NET, workload, **options)
    sim = netsim.Simulation(NET, workload, **options)
    for kind in EVENT_KINDS:
        sim.on(kind, lambda event: heard.append((event, sim.now)))
    assert_same(sim.run().result(), expected)
    assert all(event.at_s == now for event, now in heard)
    step = sim.observe_interval
    for kind, table, column, name in (
            ("job-arrived", "jobs", "arrival_s", "job"), ("job-started", "jobs", "start_s", "job"),
            ("job-done", "jobs", "finish_s", "job"), ("coflow-valid", "coflows", "valid_s",
                                                      "coflow"),
            ("coflow-done", "coflows", "finish_s", "coflow")):
        rows = getattr(expected, table).set_index(name)[column]
        told = {getattr(event, name): event.at_s for event, _ in heard if event.kind == kind}
        assert sorted(told) == sorted(rows.index)
        late = [told[number] - rows[number] for number in rows.index]
        assert min(late) >= -1e-9
        assert max(late) <= step + 1e-9
    decisions = [event.at_s for event, _ in heard if event.kind == "decision"]
    assert decisions == expected.decisions["time_s"].drop_duplicates().tolist()


@netsim.compiled(information="agnostic")
def by_turns(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = (coflows[c].job + np.rint(now / 0.3)) % 4
    order.wake_at[0] = now + 0.3


@netsim.compiled(information="agnostic")
def by_megabytes(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = np.floor(coflows[c].sent / 5e5)
        order.limit[c] = 5e5 * (order.key[c] + 1)


class ByTurns(netsim.Allocator):
    """Who is first changes each 0.3 s, with shares or with rates."""

    wakes_on = netsim.Event.COFLOW
    rates = False

    def allocate(self, view):
        order = np.lexsort((view.job, (view.job + np.rint(view.now / 0.3)) % 4))
        if self.rates:
            return netsim.Allocation(view.madd(order)[0], revisit_at=view.now + 0.3)
        return netsim.Allocation(order=order, revisit_at=view.now + 0.3)


class ByTurnsInRates(ByTurns):
    rates = True


@pytest.mark.parametrize("interval", [0, "50ms"])
@pytest.mark.parametrize("allocator", [
    by_turns, by_megabytes, ByTurns, ByTurnsInRates, "aalo:first_threshold=500000:factor=2",
    "aalo:first_threshold=500000:factor=2:weights=strict",
    "aalo:first_threshold=500000:observe=0.2"])
def test_who_asks_to_be_woken_is_with_listeners_too(allocator, interval):
    for seed in some(range(4), 1, of=4):
        options = {"allocator": allocator, "observe_interval": interval}
        expected = netsim.simulate(NET, jobs_of_all_kinds(seed), **options)
        sim = netsim.Simulation(NET, jobs_of_all_kinds(seed), **options)
        sim.on("capacity", print)
        found = sim.run().result()
        assert_same(found, expected)
        assert found.run["decisions"] == expected.run["decisions"]


def test_event_by_event():
    """The run can be looked at and forked at each event, and go on by itself after a break."""
    expected = netsim.simulate(NET, jobs_of_all_kinds(), allocator="lccf")
    sim, heard = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="lccf"), []
    for event in sim.events():
        assert event.at_s == sim.now
        heard.append(event)
        if len(heard) % 9 == 0:
            sim.active()
            forked = sim.fork()
    assert_same(sim.result(), expected)
    assert_same(forked.run().result(), expected)
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="lccf")
    for found, event in enumerate(sim.events()):
        assert event == heard[found]
        if found == 20:
            break
    assert_same(sim.run().result(), expected)


def test_a_listener_changes_the_run():
    """When the first of two coflows is done, at 3 s, the port gets twice as fast."""
    jobs = [JobSpec(k, hosts=range(3), stages=[Stage("s", [(k, 2, 3e6)])]) for k in range(2)]

    def faster(event):
        if event.coflow == 0:
            sim.set_capacity("ingress-2", "16Mbps")
            sim.set_capacity("egress-1", "16Mbps")
            sim.submit(JobSpec(9, sim.now, hosts=range(3), stages=[Stage("s", [(0, 1, 1e6)])]))

    for way in ("listener", "loop"):
        sim = netsim.Simulation(netsim.big_switch(3, "8Mbps"), jobs, allocator="fifo")
        changes = []
        sim.on("capacity", changes.append)
        if way == "listener":
            sim.on("coflow-done", faster)
            sim.run()
        else:
            for event in sim.events():
                if event.kind == "coflow-done":
                    faster(event)
        assert sim.result().jobs["finish_s"].tolist() == pytest.approx([3, 4.5, 4])
        assert [(each.link, each.capacity, each.at_s) for each in changes] == [
            ("ingress-2", 2e6, 3.0), ("egress-1", 2e6, 3.0)]


def test_events_on_a_cluster():
    sim = netsim.Simulation(CLUSTER, rings(), scheduler="sjf", execution="asrpt")
    jobs = netsim.simulate(CLUSTER, rings(), scheduler="sjf", execution="asrpt").jobs
    heard = list(sim.events())
    for kind, column in (("job-arrived", "arrival_s"), ("job-started", "start_s"),
                         ("job-done", "finish_s")):
        told = {event.job: event.at_s for event in heard if event.kind == kind}
        assert told == dict(zip(jobs["job"], jobs[column], strict=True))


def test_what_cannot_be_done_in_a_listener():
    for act in (netsim.Simulation.run, netsim.Simulation.fork, lambda sim: list(sim.events())):
        sim = netsim.Simulation(NET, jobs_of_all_kinds())
        sim.on("job-done", lambda _, sim=sim, act=act: act(sim))
        with pytest.raises(InputError, match="not possible in a listener"):
            sim.run()


# --- forks ----------------------------------------------------------------------------------


def test_listeners_stay_with_the_origin():
    sim, heard = netsim.Simulation(NET, jobs_of_all_kinds()), []
    sim.on("job-done", heard.append)
    sim.run(until=1).fork().run()
    assert not [event for event in heard if event.at_s > 1]
    sim.run()
    assert len(heard) == 8


def test_a_process_of_a_user_goes_along_but_cannot_be_forked():
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator="lccf")
    seen = []

    def watch():
        for _ in range(3):
            yield sim.env.timeout(0.7)
            seen.append((sim.now, len(sim.active())))

    sim.env.process(watch())
    with pytest.raises(InputError, match=r"process 'watch' is in the environment"):
        sim.run(until=1).fork()
    assert_same(sim.run().result(), netsim.simulate(NET, jobs_of_all_kinds(), allocator="lccf"))
    assert [now for now, _ in seen] == pytest.approx([0.7, 1.4, 2.1])


def test_a_function_that_keeps_variables_cannot_be_forked():
    sim, seen = netsim.Simulation(NET, jobs_of_all_kinds()), []
    sim.env.timeout(5).callbacks.append(lambda _: seen.append(sim.now))
    with pytest.raises(InputError, match="keeps variables that a fork would share"):
        sim.fork()


class Counting(netsim.Allocator):
    """Equal shares, with a state, of which nobody can copy the last part."""

    def __init__(self, locks=False):
        self.asked, self.locks, self.lock = 0, locks, None

    def allocate(self, view):
        self.asked += 1
        self.lock = threading.Lock() if self.locks else None
        return netsim.Allocation(view.maxmin())


def test_policies_are_copied_or_refused():
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator=Counting()).run(until=1)
    asked, other = sim.allocator.asked, sim.fork()
    other.run()
    assert sim.allocator.asked == asked < other.allocator.asked
    sim = netsim.Simulation(NET, jobs_of_all_kinds(), allocator=Counting(locks=True))
    sim.run(until=1).result()
    with pytest.raises(InputError, match=r"allocator Counting cannot be copied: .*lock"):
        sim.fork()


def test_a_fork_copies_what_is_active():
    """Of eight jobs that begin together, seven have ended: one has two stages, one of them sent."""
    jobs = [netsim.JobSpec(k, hosts=range(6), iterations=1 if k else 50, stages=[
        Stage("a", [(k % 5, 5, 1e5)]), Stage("b", [(5, k % 5, 1e5)], after=["a"])])
        for k in range(8)]
    sim = netsim.Simulation(NET, jobs, allocator="parrot").run(until=4)
    assert sim.jobs()["state"].tolist() == ["running", *["done"] * 7]
    other = sim.fork()
    origin, copied = (each._run.fabric.table for each in (sim, other))
    assert np.count_nonzero(origin.flows["size"]) > 16
    assert np.count_nonzero(copied.flows["size"]) == 3
    assert np.count_nonzero(copied.loads["nbytes"]) == 6
    assert_same(other.run().result(), sim.run().result())


@pytest.mark.parametrize("allocator", ["maxmin", "sebf", "parrot"])
def test_a_run_is_free_at_once_when_it_is_over(allocator, monkeypatch):
    """Without Python looking for circles of references, of which a run has some."""
    tables = []
    make = FlowTable.__init__
    monkeypatch.setattr(FlowTable, "__init__", lambda self, *args: (
        make(self, *args), tables.append(weakref.ref(self.flow_arrays)))[0])
    gc.disable()
    try:
        result = netsim.simulate(netsim.big_switch(2, 1.0), [netsim.JobSpec(
            0, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 1.0)])])], allocator=allocator)
        assert [arrays() for arrays in tables] == [None]
    finally:
        gc.enable()
    assert result.jobs["jct_s"].tolist() == [1.0]


def test_the_past_is_shared_on_disk(monkeypatch):
    """Tables that have been moved to files are read by all copies, and each adds its own rows."""
    monkeypatch.setattr("netsim.results.lazy_table.MOST_BYTES", 0)
    options = {"allocator": "lccf", "record": EVERYTHING}
    expected = netsim.simulate(NET, jobs_of_all_kinds(), **options)
    sim = held(netsim.Simulation(NET, jobs_of_all_kinds(), **options), [1.0, 2.0, 3.0])
    other = sim.fork()
    results = [each.run().result() for each in (other, sim)]
    for result in results:
        assert_same(result, expected)


def test_a_wrong_name_of_what_can_be_replaced_is_refused() -> None:
    sim = netsim.Simulation("parrot-fig2", "parrot-fig2")
    with pytest.raises(AttributeError, match="alocator"):
        sim.alocator = "sebf"
    sim.allocator = "sebf"
    assert sim.fork().allocator.title == sim.allocator.title
