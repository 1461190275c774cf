"""Jobs whose ranks compute, and whose iterations overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Simulation, Stage, simulate
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.longest_path import longest_path
from netsim.workload.columns import Flows
from netsim.workload.operations import Operations, Sending
from tests.examples import examples
from tests.twins.kernels import ends_of

SWITCH = netsim.big_switch(4, 1.0)
RECORD = ("jobs", "coflows", "computations")


def run(stages, iterations=1, ranks=4, **given):
    job = JobSpec(0, iterations=iterations, stages=stages, ranks=ranks, hosts=range(ranks))
    return simulate(SWITCH, [job], record=RECORD, **given)


def spans(result):
    """Start and end of each computation, by iteration, rank and stage."""
    return {(row.iteration, row.rank, row.stage): (row.start_s, row.finish_s)
            for row in result.computations.itertuples()}


def test_stages_on_a_rank_take_turns_in_order_of_readiness():
    """C is ready at 1, b at 2; both wait for a on rank 0, until 3. Then c has it, then b."""
    result = run([Stage("a", compute_s=3, ranks=[0]), Stage("x", compute_s=2, ranks=[1]),
                  Stage("y", compute_s=1, ranks=[2]),
                  Stage("b", compute_s=1, ranks=[0], after=["x"]),
                  Stage("c", compute_s=5, ranks=[0], after=["y"])])
    assert spans(result)[0, 0, "c"] == (3, 8)
    assert spans(result)[0, 0, "b"] == (8, 9)


def test_ties_go_by_the_order_of_stages():
    result = run([Stage("a", compute_s=1, ranks=[0]), Stage("b", compute_s=2, ranks=[0])])
    assert spans(result) == {(0, 0, "a"): (0, 1), (0, 0, "b"): (1, 3)}


def test_ties_go_by_the_order_of_stages_whatever_ends_first():
    """Stages b and c could both begin at 2, when x, and y and z, have ended; b stands first."""
    for first, second in (("x", "z"), ("z", "x")):
        result = run([Stage("x", compute_s=2, ranks=[1]), Stage("y", compute_s=1, ranks=[2]),
                      Stage("z", compute_s=1, ranks=[2], after=["y"]),
                      Stage("b", compute_s=1, ranks=[0], after=[first]),
                      Stage("c", compute_s=1, ranks=[0], after=[second])])
        assert spans(result)[0, 0, "b"] == (2, 3)
        assert spans(result)[0, 0, "c"] == (3, 4)


def test_streams_run_side_by_side():
    result = run([Stage("a", compute_s=3, ranks=[0]),
                  Stage("b", compute_s=2, ranks=[0], stream="copy")])
    assert spans(result) == {(0, 0, "a"): (0, 3), (0, 0, "b"): (0, 2)}
    assert set(result.computations["stream"]) == {"compute", "copy"}


def test_a_coflow_waits_for_all_ranks_of_its_stage():
    """Rank 1 is busy until 4, so that its part ends at 6; then 5 bytes at 1 byte/s."""
    result = run([Stage("other", compute_s=4, ranks=[1]),
                  Stage("s", [(0, 1, 5.0)], compute_s=2, ranks=[0, 1])])
    assert spans(result)[0, 0, "s"] == (0, 2)
    assert spans(result)[0, 1, "s"] == (4, 6)
    assert result.coflows[["valid_s", "finish_s"]].iloc[0].tolist() == [6, 11]


def test_a_straggler_slows_its_rank_alone():
    result = run([Stage("a", compute_s=2, ranks=[0, 1]), Stage("b", compute_s=1, ranks=[1]),
                  Stage("c", [(2, 3, 1.0)], compute_s=1)], stragglers={0: 3})
    assert spans(result) == {(0, 0, "a"): (0, 6), (0, 1, "a"): (0, 2), (0, 1, "b"): (2, 3)}


def test_iterations_overlap_where_stages_say_so():
    """A pass of 2 s, and 3 s of gradients under the next: 2 + 3 (n - 1) + 3 s for n iterations."""
    stages = [Stage("pass", compute_s=2, ranks=[0, 1], after_previous=["pass"]),
              Stage("reduce", [(0, 1, 3.0), (1, 0, 3.0)], after=["pass"],
                    after_previous=["reduce"])]
    result = run(stages, iterations=4)
    assert result.jobs["finish_s"][0] == 14
    assert result.jobs["lower_bound_s"][0] == 14
    assert spans(result)[3, 0, "pass"] == (6, 8)
    one_by_one = [Stage("pass", compute_s=2, ranks=[0, 1]), Stage("reduce", stages[1].flows,
                                                                  after=["pass"])]
    assert run(one_by_one, iterations=4).jobs["finish_s"][0] == 20


def test_a_job_without_ranks_is_the_same_as_on_one_rank_of_its_own():
    """Stages that never meet on a rank give the coflows of the same stages without ranks."""
    shape = [("a", (), 1.0, (0, 1, 2.0)), ("b", ("a",), 0.5, (1, 2, 1.0)),
             ("c", ("a",), 0.25, (0, 2, 3.0)), ("d", ("b", "c"), 0.0, (2, 3, 1.0))]
    made = [[Stage(name, [flow], seconds, after, **({"ranks": [k], "stream": name} if ranked
                                                    else {}))
             for k, (name, after, seconds, flow) in enumerate(shape)] for ranked in (False, True)]
    plain, ranked = (run(stages, iterations=3) for stages in made)
    columns = ["stage", "iteration", "valid_s", "start_s", "finish_s", "bytes"]
    assert (plain.coflows[columns].astype({"stage": str}).values.tolist()
            == ranked.coflows[columns].astype({"stage": str}).values.tolist())


# --- any operations ----------------------------------------------------------------------------


@st.composite
def operations(draw):
    """Random operations on three ranks; what has no parents follows the last of the one before."""
    count = draw(st.integers(1, 7))
    rows, after, previous, sendings = [], [], [], []
    for k in range(count):
        rank = draw(st.integers(-1, 2))
        sends = -1
        if rank < 0 and draw(st.booleans()):
            sends = len(sendings)
            sendings.append(Sending(Flows.of([(k % 3, (k + 1) % 3, draw(st.integers(0, 3)))])))
        rows.append((rank, draw(st.sampled_from([0, 0, 1, 2.5])) if rank >= 0 else 0, sends,
                     f"stream {k}", f"operation {k}"))
        after += [(k, parent) for parent in draw(st.sets(st.integers(0, k - 1), max_size=2))
                  ] if k else []
        previous += [(k, other) for other in draw(st.sets(st.integers(0, count - 1), min_size=1,
                                                          max_size=2))]
        previous.append((k, k))  # so that none waits for its turn
    return Operations.make(rows, after, previous, sendings, 3)


@settings(max_examples=examples(20), deadline=None)
@given(operations(), st.integers(1, 3))
def test_the_compiled_longest_path_is_the_readable_one(made, iterations):
    seconds = made.compute_s + 0.5 * (made.sends >= 0)
    assert np.array_equal(list(longest_path(made, seconds, iterations)),
                          ends_of(made, seconds.tolist(), iterations))


@settings(max_examples=examples(20), deadline=None)
@given(operations(), st.integers(1, 3))
def test_runs_end_no_sooner_than_the_longest_path(made, iterations):
    """Computations, each on a stream of its own, end there where nothing is sent."""
    job = JobSpec(0, iterations=iterations, operations=made, hosts=range(3))
    result = simulate(SWITCH, [job], record=RECORD)
    assert len(result.computations) == iterations * np.count_nonzero(made.rank >= 0)
    assert len(result.coflows) == iterations * len(made.sendings)
    bound = result.jobs["lower_bound_s"][0]
    assert result.jobs["finish_s"][0] >= bound * (1 - 1e-12)
    if not made.sendings:
        assert result.jobs["finish_s"][0] == pytest.approx(bound)
        ends = [dict(zip(made.names, each[np.argsort(made.name)], strict=True))
                for each in ends_of(made, made.compute_s.tolist(), iterations) for each in
                [np.array(each)]]
        assert all(row.finish_s == pytest.approx(ends[row.iteration][row.stage])
                   for row in result.computations.itertuples())


def holding(turns="ready"):
    """Two ranks meet twice in collectives, for which each has one stream.

    Rank 0 computes 1 s, then may begin an all-reduce and a send; rank 1 only meets it in the
    all-reduce, after 4 s.
    """
    rows = [(0, 1.0, -1, "compute", "pass"), (1, 4.0, -1, "compute", "pass"),
            (0, 0.0, -1, "talk", "all-reduce"), (1, 0.0, -1, "talk", "all-reduce"),
            (-1, 0.0, 0, "net", "all-reduce"),
            (0, 0.0, -1, "talk", "send"), (-1, 0.0, 1, "net", "send"),
            (0, 0.5, -1, "talk", "early")]
    sendings = [Sending.of("all-reduce", [0, 1], 3), Sending.of("send", [0, 1], 2)]
    until = np.array([0, 1, 4, 4, 4, 6, 6, 7])
    made = Operations.make(rows, [(2, 0), (3, 1), (4, 2), (4, 3), (5, 0), (6, 5), (7, 0)],
                           [(0, 6), (1, 4)], sendings, 2)
    return replace(made, until=until, turns=turns)


def test_a_rank_holds_its_stream_until_a_collective_ends():
    """Rank 0 waits from 1 s until 4 s, both send 3 B until 7 s at 1 B/s; then 2 B until 9 s.

    What came first, by number, after these, is the computation of 0.5 s.
    """
    job = JobSpec(0, operations=holding(), hosts=[0, 1])
    result = simulate(SWITCH, [job], record=RECORD)
    assert result.coflows[["start_s", "finish_s"]].values.tolist() == [[4, 7], [7, 9]]
    talk = result.computations[result.computations["stream"] == "talk"]
    assert sorted(talk[["rank", "start_s", "finish_s"]].values.tolist()) == [
        [0, 1, 7], [0, 7, 9], [0, 9, 9.5], [1, 4, 7]]


def test_turns_go_by_readiness_or_by_number():
    """Computation 1 could begin at 1 s and 2 at 2 s; their stream is free at 3 s."""
    rows = [(0, 1.0, -1, "b", "first"), (0, 3.0, -1, "a", "long"), (0, 1.0, -1, "c", "early"),
            (0, 2.0, -1, "a", "late"), (0, 1.0, -1, "a", "ready")]
    made = Operations.make(rows, [(4, 0), (2, 0), (3, 2)], [(0, 4), (1, 4)], [], 1)
    for turns, ends in (("ready", [4, 6]), ("number", [6, 5])):
        job = JobSpec(0, operations=replace(made, turns=turns), hosts=[0])
        table = simulate(SWITCH, [job], record=RECORD).computations.set_index("stage")
        assert table.loc[["ready", "late"], "finish_s"].tolist() == ends
    with pytest.raises(UnknownNameError, match="turns 'rank'"):
        replace(made, turns="rank")


# --- the run as an object, and faults ----------------------------------------------------------


OVERLAPPED = [Stage("pass", compute_s=2, ranks=[0, 1], after_previous=["pass"]),
              Stage("reduce", [(0, 1, 3.0), (1, 0, 3.0)], after=["pass"],
                    after_previous=["reduce"])]


def overlapped(iterations=4):
    return JobSpec(0, iterations=iterations, stages=OVERLAPPED, hosts=[0, 1])


def test_a_run_can_be_held_forked_and_looked_at():
    whole = simulate(SWITCH, [overlapped()], record=RECORD)
    sim = Simulation(SWITCH, [overlapped()], record=RECORD).run(until=6)
    assert sim.active()["stage"].tolist() == ["reduce"]
    other = sim.fork()
    for each in (sim, other):
        result = each.run().result()
        assert result.coflows.equals(whole.coflows)
        assert result.jobs.equals(whole.jobs)
        assert result.computations.equals(whole.computations)


def test_events_tell_of_its_coflows():
    sim = Simulation(SWITCH, [overlapped(2)])
    told = [(event.kind, event.at_s, event.coflow) for event in sim.events()
            if event.kind.startswith("coflow")]
    numbers = simulate(SWITCH, [overlapped(2)]).coflows["coflow"].tolist()
    assert told == [("coflow-valid", 2, numbers[0]), ("coflow-done", 5, numbers[0]),
                    ("coflow-valid", 5, numbers[1]), ("coflow-done", 8, numbers[1])]


def test_a_lost_host_repeats_the_iterations_that_are_not_complete():
    """At 6 s the first all-reduce is through (5 s); all begins again with the second iteration."""
    events = [{"at": 6, "host": 0, "kind": "fail", "restart": True},
              {"at": 10, "host": 0, "kind": "repair"}]
    result = simulate(SWITCH, [overlapped(2)], record=RECORD, events=events)
    assert result.jobs[["finish_s", "restarts", "lost_bytes"]].iloc[0].tolist() == [15, 1, 2]
    assert result.coflows[["iteration", "valid_s", "finish_s"]].values.tolist() == [
        [0, 2, 5], [1, 12, 15]]


def test_it_runs_under_policies_that_look_at_coflows():
    for allocator in ("sebf", "aalo", "parrot", "fair"):
        result = simulate(SWITCH, [overlapped()], allocator=allocator)
        assert result.jobs["finish_s"][0] == pytest.approx(14)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "message"), [
    ({"ranks": [0], "release_s": 1}, "release_s"), ({"ranks": [0], "coflow_id": 3}, "coflow_id"),
    ({"ranks": [0, 0]}, "has twice the rank 0"), ({"ranks": [-1]}, "ranks must be a whole number"),
    ({"ranks": "01"}, "ranks"),
])
def test_stages_that_are_refused(stage, message):
    with pytest.raises(InputError, match=message):
        JobSpec(0, stages=[Stage("a", [(0, 1, 1.0)], **stage)])


def test_unknown_stages_of_the_previous_iteration_are_refused():
    with pytest.raises(InputError, match=r"job 0: after_previous of stage 'a' names 'b', which is "
                                         "not one of its stages: a"):
        JobSpec(0, stages=[Stage("a", after_previous=["b"])])


def test_it_does_not_run_where_it_cannot():
    job = overlapped()
    with pytest.raises(InputError, match="a host for each GPU"):
        simulate(netsim.Cluster(2, 2), [job], execution="fabric")
    with pytest.raises(InputError, match="compute_s is on no rank"):
        JobSpec(0, stages=OVERLAPPED, compute_s=1)


@pytest.mark.parametrize(("rows", "after", "previous", "message"), [
    ([(0, 1.0, -1, "c", "a")], [], [], "waits for no other"),
    ([(0, 1.0, -1, "c", "a"), (0, 1.0, -1, "c", "b")], [(0, 1), (1, 0)], [], "cycle"),
    ([(5, 1.0, -1, "c", "a")], [], [(0, 0)], "rank must be from -1 to 1"),
    ([(0, -1.0, -1, "c", "a")], [], [(0, 0)], "compute_s must be finite"),
])
def test_operations_that_are_refused(rows, after, previous, message):
    with pytest.raises(InputError, match=message):
        Operations.make(rows, after, previous, [], 2)
