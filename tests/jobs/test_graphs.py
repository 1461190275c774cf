"""Jobs of operations that the fabric goes through by itself, against processes that do it.

Processes run where an event may stop jobs; one that comes too late for that changes nothing else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Simulation, simulate
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.fabric.fabric_process import FabricProcess
from netsim.jobs.graph import OperationGraph
from netsim.workload.columns import Flows
from netsim.workload.operations import Operations, Sending
from tests.examples import examples
from tests.pairs import in_turn, some
from tests.twins.kernels import ends_of

RECORD = ("jobs", "coflows", "computations", "flows")
BY_PROCESSES = [{"at": 1e9, "host": 0, "kind": "fail", "restart": True}]
SWITCH = netsim.big_switch(4, 10.0)
LATE = netsim.big_switch(4, 10.0, latency=0.013, overhead=0.007)
ALLOCATORS_HERE = [name for name in ALLOCATORS.names
                   if not make_allocator(name).sees_running]


def drawn_operations(rng, size=9, ranks=3, alone=False, unit=1.0):
    """Draw operations of which those on a rank wait for each other, and coflows for any of them.

    Flows have 1 to 8 times `unit` bytes. If `alone`, each coflow has two hosts for itself, and
    waits for its own in the last iteration.
    """
    rows, after, previous, sendings = [], [], [], []
    last = {}
    first = {}
    for k in range(size):
        before = rng.permutation(k)[:rng.integers(0, 3)].tolist()
        if rng.random() < 0.5:
            rank = int(rng.integers(ranks))
            seconds = float(rng.choice([0.0, 0.1, 0.25, 0.3, 1.0]))
            rows.append((rank, seconds, -1, "compute", f"c{k}"))
            before += [last[rank]] if rank in last else []
            first.setdefault(rank, k)
            last[rank] = k
        else:
            pairs = rng.permutation(12)[:rng.integers(1, 4)]
            ends = [(4 + 2 * k, 5 + 2 * k)] if alone else [
                (p // 3, (p // 3 + 1 + p % 3) % 4) for p in pairs.tolist()]
            flows = [(*each, unit * float(rng.integers(1, 9))) for each in ends]
            rows.append((-1, float(rng.choice([0.0, 0.2])), len(sendings), "net", f"s{k}"))
            sendings.append(Sending(Flows.of(flows)))
            previous += [(k, k)] if alone else []
        after += [(k, other) for other in before]
        if not before:
            previous.append((k, int(rng.integers(size))))
    previous += [(first[rank], last[rank]) for rank in first]
    return Operations.make(rows, after, previous, sendings, 4 + 2 * size if alone else 4)


def drawn_jobs(seed, jobs=3, iterations=4, unit=1.0):
    rng = np.random.default_rng(seed)
    return [JobSpec(k, operations=drawn_operations(rng, unit=unit),
                    iterations=int(rng.integers(1, iterations)), ranks=4,
                    hosts=rng.permutation(4).tolist(),
                    arrival_s=float(rng.choice([0.0, 0.5, 0.7]))) for k in range(jobs)]


#: What is known of jobs that may be stopped.
OF_STOPS = ["restarts", "lost_s", "lost_bytes"]


def plain(table):
    """Return a table without categories, and what both kinds of runs know."""
    names = table.select_dtypes("category").columns
    return table.drop(columns=OF_STOPS, errors="ignore").astype(dict.fromkeys(names, str))


def check_same(one, other, **given):
    """Check that results have the same tables."""
    for name in RECORD:
        tables = [plain(getattr(each, name)) for each in (one, other)]
        pd.testing.assert_frame_equal(*tables, **(given or {"check_exact": True}))


def compare(jobs, network=SWITCH, tolerance=None, **given):
    """Compare jobs that the fabric goes through by itself with processes; return the former's."""
    alone = simulate(network, jobs, record=RECORD, **given)
    check_same(alone, simulate(network, jobs, record=RECORD, events=BY_PROCESSES, **given),
               **({} if tolerance is None else {"check_exact": False, "rtol": tolerance}))
    return alone


@pytest.fixture
def begun(monkeypatch):
    """The jobs that the fabric has begun as graphs."""
    jobs, run_graph = [], FabricProcess.run_graph
    monkeypatch.setattr(FabricProcess, "run_graph", lambda self, job, *given: (
        jobs.append(job), run_graph(self, job, *given))[1])
    return jobs


@pytest.mark.parametrize(("allocator", "interval"), in_turn(ALLOCATORS_HERE, [0, 0.05]))
def test_the_fabric_does_what_processes_do(allocator, interval, begun):
    seeds = some(range(4), ALLOCATORS_HERE.index(allocator), of=2)
    for seed in seeds:
        compare(drawn_jobs(seed), allocator=allocator, observe_interval=interval)
    assert len(begun) == 3 * len(seeds)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["parrot", "sebf", "maxmin", "aalo", "fair", "srtf"]),
       st.sampled_from([0, 0.03, 0.4]))
def test_the_fabric_does_what_processes_do_with_any_graph(seed, allocator, interval):
    compare(drawn_jobs(seed), allocator=allocator, observe_interval=interval)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["parrot", "maxmin", "aalo"]))
def test_operations_end_at_the_ends_of_the_longest_paths(seed, iterations, allocator):
    """Each coflow has 10 bytes per second for itself, so that it takes a tenth of its bytes."""
    made = drawn_operations(np.random.default_rng(seed), alone=True)
    job = JobSpec(0, operations=made, iterations=iterations, ranks=22, hosts=range(22))
    result = simulate(netsim.big_switch(22, 10.0), [job], record=RECORD, allocator=allocator)
    sent = np.array([*(float(each.flows.nbytes.sum()) for each in made.sendings), 0.0])
    ends = ends_of(made, (made.compute_s + sent[made.sends] / 10).tolist(), iterations)
    place = {name: k for k, name in enumerate(made.names)}
    for row in (*result.computations.itertuples(), *result.coflows.itertuples()):
        assert row.finish_s == pytest.approx(
            ends[row.iteration][int(np.flatnonzero(made.name == place[row.stage])[0])], rel=1e-12)
    assert len(result.coflows) == iterations * len(made.sendings)
    assert result.jobs["finish_s"][0] == pytest.approx(max(map(max, ends)), rel=1e-12)


@pytest.mark.parametrize("allocator", ["parrot", "sebf", "maxmin", "aalo"])
@pytest.mark.parametrize("interval", [0, 0.05])
def test_latency_and_overheads(allocator, interval, begun):
    """A coflow begins after its overhead, and is complete when its last byte has arrived."""
    for seed in some(range(4), 1, of=2):
        compare(drawn_jobs(seed), LATE, 1e-12, allocator=allocator, observe_interval=interval)
    assert begun


def test_ranks_may_be_iterations_ahead(begun):
    """Rank 0 only computes, 1 s per iteration; rank 1 sends 10 bytes, 5 s each, 6 times.

    What rank 0 is ahead by needs room for the state of more iterations.
    """
    made = Operations.make(
        [(0, 1.0, -1, "compute", "ahead"), (1, 4.0, -1, "compute", "work"),
         (-1, 0.0, 0, "net", "push")],
        [(2, 1)], [(0, 0), (1, 1), (1, 2)],
        [Sending(Flows.of([(1, 2, 10.0)]))], 3)
    job = JobSpec(0, operations=made, iterations=6, ranks=3, hosts=range(3))
    result = compare([job], allocator="maxmin")
    ahead = result.computations[result.computations["stage"] == "ahead"]
    assert ahead["finish_s"].tolist() == [1, 2, 3, 4, 5, 6]
    assert result.coflows["finish_s"].tolist() == [5, 10, 15, 20, 25, 30]
    assert len(begun) == 1


def test_room_for_iterations_is_made_while_the_event_loop_runs(begun):
    """A coflow of 5 s and one of 1 s are on different links; the second's rank is ahead."""
    made = Operations.make(
        [(0, 0.0, -1, "compute", "a"), (-1, 0.0, 0, "net", "fast"),
         (1, 0.0, -1, "compute", "b"), (-1, 0.0, 1, "net", "slow")],
        [(1, 0), (3, 2)], [(0, 0), (0, 1), (2, 2), (2, 3)],
        [Sending(Flows.of([(0, 1, 10.0)])), Sending(Flows.of([(2, 3, 50.0)]))], 4)
    job = JobSpec(0, operations=made, iterations=9, ranks=4, hosts=range(4))
    for allocator in ("maxmin", "parrot", "sebf", "fair", "aalo"):
        result = compare([job], allocator=allocator)
        fast = result.coflows[result.coflows["stage"] == "fast"]
        assert fast["finish_s"].tolist() == [*range(1, 10)]
    assert result.jobs["finish_s"].tolist() == [45]
    assert len(begun) == 5


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "sebf", "fair", "aalo"])
@pytest.mark.parametrize("latency", [0, 0.013])
def test_what_is_recorded_changes_nothing(allocator, latency):
    network = netsim.big_switch(4, 10.0, latency=latency)
    for seed in some(range(3), 0, of=3):
        jobs = drawn_jobs(seed)
        plain_run = simulate(network, jobs, allocator=allocator, record=("jobs", "coflows"))
        for record in (("coflows", "computations"), ("coflows", "links"),
                       ("coflows", "flows", "decisions", "computations", "links")):
            other = simulate(network, jobs, allocator=allocator, record=record)
            for name in ("jobs", "coflows"):
                pd.testing.assert_frame_equal(getattr(plain_run, name), getattr(other, name),
                                              check_exact=True)
            assert plain_run.summary()["decisions"] == other.summary()["decisions"]


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "aalo"])
def test_runs_that_are_held_and_forked_end_as_one_that_is_not(allocator, begun):
    jobs = drawn_jobs(5)
    whole = simulate(SWITCH, jobs, allocator=allocator, record=RECORD)
    assert begun == [0, 1, 2]
    sim = Simulation(SWITCH, jobs, allocator=allocator, record=RECORD)
    for at in (0.3, 0.7, 1.1, 2.0):
        sim.run(until=at)
        held = sim.result()
        assert not (held.computations["finish_s"] > at).any()
        assert not (held.coflows["finish_s"] > at).any()
        early = whole.computations[whole.computations["finish_s"] <= at].reset_index(drop=True)
        pd.testing.assert_frame_equal(plain(held.computations), plain(early), check_exact=True)
        ended = whole.jobs["finish_s"] <= at
        assert (held.jobs["finish_s"].notna() == ended).all()
        fork = sim.fork()
        check_same(fork.run().result(), whole)
    check_same(sim.run().result(), whole)


def test_a_run_may_end_between_operations(begun):
    jobs = drawn_jobs(5)
    whole = simulate(SWITCH, jobs, record=RECORD)
    assert begun == [0, 1, 2]
    for until in np.linspace(0.1, whole.jobs["finish_s"].max(), 7):
        part = simulate(SWITCH, jobs, record=RECORD, until=float(until))
        processes = simulate(SWITCH, jobs, record=RECORD, until=float(until), events=BY_PROCESSES)
        check_same(part, processes)


def test_those_who_listen_hear_what_they_hear_of_processes(begun):
    jobs = drawn_jobs(3)
    heard = []
    for events in ([], BY_PROCESSES):
        sim = Simulation(SWITCH, jobs, allocator="sebf", events=events)
        told = []
        for kind in ("coflow-valid", "coflow-done", "job-started", "job-done"):
            sim.on(kind, lambda event, told=told: told.append(
                (event.at_s, event.kind, event.job, event.coflow)))
        sim.run()
        heard.append(sorted(told, key=repr))
    assert begun == [0, 1, 2]
    assert heard[0] == heard[1]
    assert {kind for _, kind, *_ in heard[0]} == {"coflow-valid", "coflow-done", "job-started",
                                                  "job-done"}


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "sebf"])
def test_links_that_change_and_routes_that_do(allocator, begun):
    """A link to a spine fails for a while; flows of the jobs go by the other one.

    Those of later jobs, too, which have processes from then on.
    """
    network = netsim.leaf_spine(2, 2, 2, 10.0)
    for seed in range(3):
        results = []
        for events in ((), BY_PROCESSES):
            sim = Simulation(network, drawn_jobs(seed), allocator=allocator, record=RECORD,
                             events=events)
            sim.run(until=0.6)
            sim.fail(link=network.link_names[-1])
            sim.run(until=1.5)
            sim.set_capacity(network.link_names[0], 2.0)
            sim.run(until=3.0)
            sim.repair(link=network.link_names[-1])
            results.append(sim.run().result())
        check_same(*results)
    assert len(begun) == sum(job.arrival_s < 0.6 for seed in range(3) for job in drawn_jobs(seed))
    assert begun


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "aalo"])
@pytest.mark.parametrize("interval", [0, 0.05])
def test_jobs_that_are_submitted_are_as_if_they_had_been_there(allocator, interval, begun):
    """Two jobs come with the workload, two more are submitted while these run."""
    for seed in range(3):
        jobs = [replace(job, id=k, arrival_s=0.4 * k) for k, job in enumerate(drawn_jobs(seed, 4))]
        whole = simulate(SWITCH, jobs, allocator=allocator, observe_interval=interval,
                         record=RECORD)
        sim = Simulation(SWITCH, jobs[:2], allocator=allocator, observe_interval=interval,
                         record=RECORD)
        sim.run(until=0.6)
        for job in jobs[2:]:
            sim.submit(job)
        check_same(sim.run().result(), whole)
    assert len(begun) == 24


def test_an_operation_waits_for_the_latest_end_not_the_one_told_last(begun):
    """Of a computation that ends at 5 s, as is known at 0, and a coflow of 1 s; it ends at 6 s."""
    rows = [(0, 5.0, -1, "compute", "x"), (-1, 0.0, 0, "net", "s"), (1, 1.0, -1, "compute", "y")]
    made = Operations.make(rows, [(2, 0), (2, 1)], [(0, 0), (1, 2), (2, 2)],
                           [Sending(Flows.of([(0, 1, 10.0)]))], 2)
    result = compare([JobSpec(0, operations=made, ranks=2, hosts=range(2))])
    assert begun == [0]
    assert result.jobs["finish_s"].tolist() == [6.0]


def test_computations_of_no_length_come_in_the_order_in_which_they_wait():
    """Operation 1 comes before operation 0, at the same instant."""
    made = Operations.make(
        [(0, 0.0, -1, "compute", "b"), (0, 0.0, -1, "compute", "a"), (-1, 0.0, 0, "net", "c")],
        [(0, 1), (2, 0)], [(1, 0), (1, 2)], [Sending(Flows.of([(0, 1, 10.0)]))], 4)
    result = compare([JobSpec(0, operations=made, iterations=2, ranks=4, hosts=range(4))])
    assert result.computations["stage"].tolist() == ["a", "b", "a", "b"]


def test_which_graphs_the_fabric_takes():
    """Not those whose computations take turns, nor with a coflow without bytes."""
    rows = [(0, 1.0, -1, "compute", "a"), (0, 1.0, -1, "compute", "b"), (-1, 0.0, 0, "net", "s")]
    in_order = [(1, 0), (2, 1)], [(0, 1)]
    for after, previous, nbytes, alone in ((*in_order, 1.0, True), (*in_order, 0.0, False),
                                           ([(2, 0)], [(0, 1), (1, 1)], 1.0, False)):
        made = Operations.make(rows, after, previous, [Sending(Flows.of([(0, 1, nbytes)]))], 2)
        job = JobSpec(0, operations=made, ranks=2, hosts=range(2))
        plan = netsim.jobs.plan.JobPlan(job, SWITCH, [0, 1], 0, SWITCH.usable)
        graph = plan.graph(0)
        assert isinstance(graph, OperationGraph)
        assert graph.runs_without_process() == alone
