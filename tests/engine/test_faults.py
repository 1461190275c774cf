"""Servers are lost and come back, and some are slow, under every execution.

Servers have 2 GPUs and ports of 10 MB/s; GPUs of one server exchange at 100 MB/s.
"""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import netsim
from netsim import Cluster, JobSpec, ModelStage, ParallelModel, Stage
from netsim.errors import AllocationError, InputError, StalledError
from tests.examples import examples

MB = 1e6
EXECUTIONS = ["fabric", "cassini", "asrpt", "rar-contention:time=continuous"]
SCHEDULERS = ["fifo", "sjf", "spjf:predictor=perfect", "wcs-subtime",
              "wcs-duration:predictor=perfect:retrain=1s"]


def cluster(servers=2):
    return Cluster(servers=servers, gpus=2, nic=10 * MB, intra=100 * MB)


def ring(place, ranks=2, **options):
    """Iterations of 0.5 s: 0.4 s of computation, 10 MB at 100 MB/s on one server."""
    return JobSpec(place, pattern="ring-all-reduce", ranks=ranks, **{
        "nbytes": 10 * MB, "compute_s": 0.4, "iterations": 10, **options})


def run(*jobs, on=None, **options):
    return netsim.simulate(on or cluster(), jobs, **options)


def lost(at, until, server):
    found = [{"at": at, "host": server, "kind": "fail", "restart": True}]
    return found + ([] if until is None else [{"at": until, "host": server, "kind": "repair"}])


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_job_goes_on_elsewhere_with_the_iteration_that_it_was_in(execution, scheduler):
    """Lost at 2.2 with server 0, after 4 iterations and 0.2 s: 6 more on server 1, until 5.2."""
    result = run(ring(0), scheduler=scheduler, execution=execution, events=lost(2.2, 10, 0))
    row = result.jobs.iloc[0]
    assert row[["start_s", "finish_s", "lost_s"]].tolist() == pytest.approx([0, 5.2, 0.2])
    assert row[["restarts", "placement"]].tolist() == [1, "1:2"]
    assert result.gpus["server"].tolist() == [0, 0, 1, 1]
    assert result.gpus["end_s"].tolist() == pytest.approx([2.2, 2.2, 5.2, 5.2])
    assert result.gpus["start_s"].tolist() == pytest.approx([0, 0, 2.2, 2.2])


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_it_waits_for_the_repair_if_there_is_no_room(execution):
    """Server 1 is taken until 5, server 0 is repaired at 4: 6 iterations from then on."""
    result = run(ring(0), ring(1), execution=execution, events=lost(2.2, 4, 0))
    assert result.jobs["finish_s"].tolist() == pytest.approx([7, 5])
    assert result.jobs["placement"].tolist() == ["0:2", "1:2"]
    summary = result.summary()
    assert summary["gpu_utilisation"] == pytest.approx((2 * (2.2 + 3) + 2 * 5) / (4 * 7))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_lost_server_gives_no_gpus(execution):
    """Lost before anybody is there: a job of 2 runs on the other, one of 4 waits until 6."""
    result = run(ring(0), ring(1, ranks=4), execution=execution, events=lost(0, 6, 0))
    assert result.jobs["placement"].tolist() == ["1:2", "0:2 1:2"]
    assert result.jobs["start_s"].tolist() == pytest.approx([0, 6])
    assert result.jobs["restarts"].tolist() == [0, 0]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_who_ends_at_that_instant_has_ended(execution):
    result = run(ring(0), execution=execution, events=lost(5, None, 0))
    assert result.jobs["finish_s"].tolist() == pytest.approx([5])
    assert result.jobs["restarts"].tolist() == [0]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_iterations_that_end_at_that_instant_have_been_made(execution):
    """0.5 s is exact: after 4 of them, at 2, nothing is lost."""
    result = run(ring(0), execution=execution, events=lost(2, 3, 0))
    assert result.jobs[["finish_s", "restarts"]].values.tolist() == [[5, 1]]
    assert result.jobs["lost_s"].tolist() == pytest.approx([0], abs=1e-9)


def test_who_stays_is_alone_on_the_nic():
    """By the contention model: job 0 is on servers 0 and 1, job 1 on 1 and 2.

    Alone an iteration takes 0.4 + 10 MB/(10 MB/s) = 1.4 s, together 2.4 s. At 4.8 both have made 2
    of 10; server 2 is lost, and job 1 has to wait. Job 0 makes 8 more of 1.4 s until 16, and job 1
    in its place as many until 27.2.
    """
    on = Cluster(servers=3, gpus=[1, 2, 1], nic=10 * MB, intra=100 * MB)
    result = run(ring(0), ring(1), on=on, execution="rar-contention:time=continuous",
                 events=lost(4.8, 20, 2))
    assert result.jobs["finish_s"].tolist() == pytest.approx([16, 27.2])
    assert result.jobs["restarts"].tolist() == [0, 1]


def test_slotted_time_sees_faults_where_it_sees_arrivals():
    """Slots of 1 s, 2 iterations in each: lost at 2.2, and so at 3, repaired at 3.5, so at 4."""
    result = run(ring(0), on=cluster(1), execution="rar-contention", events=lost(2.2, 3.5, 0))
    assert result.jobs[["finish_s", "lost_s"]].values.tolist() == [[6, 0]]


@pytest.mark.parametrize("execution", ["fabric", "asrpt"])
def test_a_model_of_several_stages(execution):
    """Two stages of one GPU each on one server: 0.5 + 0.5 s of computation, 10 MB each way.

    On the fabric 2 (0.5 + 0.5 + 0.2) = 2.4 s for 2 iterations; lost at 1.5 in the second.
    """
    model = ParallelModel([ModelStage(forward_s=0.25, backward_s=0.25, out_bytes=10 * MB),
                           ModelStage(forward_s=0.25, backward_s=0.25, in_bytes=10 * MB)],
                          micro_batches=1)
    job = JobSpec(0, model=model, iterations=4)
    alone = run(job, execution=execution).jobs["finish_s"][0]
    result = run(job, execution=execution, events=lost(0.3 * alone, 10 * alone, 0))
    assert result.jobs["finish_s"][0] == pytest.approx(0.3 * alone + 0.75 * alone)
    assert result.jobs["lost_s"][0] == pytest.approx(0.05 * alone)


def test_coflows_count_once_and_the_bound_is_that_of_the_better_servers():
    """A ring on servers 0 and 1, 10 MB on each port, 1.4 s per iteration; then on server 2, 0.5 s.

    That one is taken until 2.1. Both others are lost at 3.3, after 2.8 s and 0.4 s of computation.
    """
    on = Cluster(servers=3, gpus=[1, 1, 2], nic=10 * MB, intra=100 * MB)
    blocker = JobSpec(1, pattern="ring-all-reduce", ranks=2, nbytes=10 * MB, compute_s=2,
                      iterations=1)
    result = run(ring(0, iterations=3), blocker, on=on, execution="fabric",
                 events=[*lost(3.3, None, 0), *lost(3.3, None, 1)], record=("coflows", "links"))
    row = result.jobs.iloc[0]
    assert row["finish_s"] == pytest.approx(3.3 + 0.5)
    assert row[["lost_s", "lost_bytes", "bytes"]].tolist() == pytest.approx([0.5, 2 * MB, 40 * MB])
    assert result.coflows["coflow"].tolist() == [0, 1]
    ports = result.links.groupby("link", observed=True)["bytes"].sum()
    assert ports["egress-0"] == pytest.approx(21 * MB)
    assert row["lower_bound_s"] == pytest.approx(3 * 0.5)


def test_without_restart_jobs_keep_their_gpus_and_wait_for_the_links():
    """A ring on both servers, 1.4 s per iteration: lost while it sends, from 1 to 3."""
    events = [{"at": 1, "host": 0, "kind": "fail"}, {"at": 3, "host": 0, "kind": "repair"}]
    result = run(ring(0, ranks=4, nbytes=10 * MB * 2 / 3, iterations=2), ring(1), events=events,
                 execution="fabric")
    assert result.jobs["finish_s"].tolist() == pytest.approx([4.8, 9.8])
    assert not result.jobs["restarts"].any()


def test_plans_follow_suit_without_restart():
    """FF waits for the GPUs that it has planned, of a server that is lost until 2."""
    events = [{"at": 0, "host": 0, "kind": "fail"}, {"at": 2, "host": 0, "kind": "repair"}]
    result = run(ring(0), scheduler="ff", execution="fabric", events=events)
    assert result.jobs["start_s"].tolist() == [2]


def test_flows_of_placed_jobs_go_round_dead_links():
    """A ring over two racks with two spines: it goes on at its rate with one of them."""
    on = Cluster(gpus=1, topology=netsim.leaf_spine(2, 2, 1, 10 * MB, oversubscription=0.5),
                 intra=100 * MB)
    usual = run(ring(0), on=on, execution="fabric")
    for spine in (0, 1):
        events = [{"at": 1, "link": f"leaf-{leaf}->spine-{spine}", "kind": "fail"}
                  for leaf in range(2)]
        result = run(ring(0), on=on, execution="fabric", events=events)
        assert result.jobs["finish_s"].tolist() == pytest.approx(usual.jobs["finish_s"].tolist())


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_stragglers(execution):
    """Server 1 computes for 0.8 instead of 0.4 s; a ring over both waits for it."""
    result = run(ring(0), ring(1), execution=execution, stragglers={1: 2})
    assert result.jobs["finish_s"].tolist() == pytest.approx([5, 9])
    usual, slow = (run(ring(0, ranks=4), execution=execution, stragglers=each)
                   for each in (None, {0: 2}))
    assert slow.jobs["finish_s"][0] == pytest.approx(usual.jobs["finish_s"][0] + 10 * 0.4)
    assert (slow.jobs["lower_bound_s"] <= slow.jobs["jct_s"]).all()


def test_stragglers_of_jobs_that_are_no_rings():
    """All-to-all within a server, 1 s of computation; a pipeline on two servers, 0.5 s each."""
    job = JobSpec(0, pattern="all-to-all", ranks=2, nbytes=10 * MB, compute_s=1, iterations=3)
    usual, slow = (run(job, execution="fabric", stragglers=each) for each in (None, {0: 2}))
    assert slow.jobs["finish_s"][0] == pytest.approx(usual.jobs["finish_s"][0] + 3)
    model = ParallelModel([ModelStage(forward_s=0.25, backward_s=0.25, out_bytes=MB),
                           ModelStage(forward_s=0.25, backward_s=0.25, in_bytes=MB)],
                          micro_batches=1)
    on = Cluster(servers=2, gpus=1, nic=10 * MB, intra=100 * MB)
    for execution in ("fabric", "asrpt"):
        usual, slow = (run(JobSpec(0, model=model), on=on, execution=execution, stragglers=each)
                       for each in (None, {1: 3}))
        assert slow.jobs["finish_s"][0] == pytest.approx(usual.jobs["finish_s"][0] + 1)


class TestRefused:

    @pytest.mark.parametrize(("options", "message"), [
        ({"scheduler": "sjf-bco", "events": lost(1, 2, 0)}, "scheduler 'sjf-bco' needs no "
         "restarts: it has planned all jobs before the run, and has no plan for jobs that lose a "
         "server; restart = true is for"),
        ({"events": [{"at": 1, "host": 0, "kind": "fail"}]}, "execution 'rar-contention' needs "
         "no link events: jobs have no links to wait for; set restart = true in the event in which "
         "server 0 fails"),
        ({"events": [{"at": 1, "link": 0, "kind": "fail"}], "execution": "asrpt"}, "execution "
         "'asrpt' needs no link events: an event changes links, .* servers can fail"),
        ({"events": [{"at": 1, "host": 0, "factor": 0.5}]}, "execution 'rar-contention' needs no "
         "link events: an event changes links"),
        ({"events": lost(1, 2, 5)}, "no host 5; it has 2, numbered from 0"),
        ({"stragglers": {2: 2}}, "stragglers: there is no host 2; there are 2"),
    ])
    def test_with_the_reason(self, options, message):
        with pytest.raises(InputError, match=message):
            run(ring(0), **options)

    def test_gpus_of_a_lost_server(self):
        class Stubborn:
            def decide(self, view):
                assert not view.free[:2].any()
                assert view.free_on.tolist() == [0, 2]
                assert view.idle == 2
                return [(job, np.arange(2)) for job in view.waiting]

        with pytest.raises(AllocationError, match=r"gives job 0 GPUs that are taken, or of lost "
                                                  r"servers: \[0, 1\]"):
            run(ring(0), scheduler=Stubborn(), execution="fabric", events=lost(0, None, 0))


class TestRunsThatCannotEnd:

    @pytest.mark.parametrize("execution", EXECUTIONS)
    @pytest.mark.parametrize("scheduler", [*SCHEDULERS, "a-srpt-perfect"])
    def test_lost_servers_are_named(self, execution, scheduler):
        with pytest.raises(StalledError, match=r"1 waiting: job 1 \(4 GPUs\); lost servers: 1"):
            run(ring(0), ring(1, ranks=4), scheduler=scheduler, execution=execution,
                events=lost(0, None, 1))

    def test_dead_links_are_named(self):
        with pytest.raises(StalledError, match=r"stalled at t = 1 s: .* 1 pending coflows, of 1 "
                                               r"jobs: 7; dead links: 'ingress-1'"):
            run(ring(7, ranks=4), execution="fabric",
                events=[{"at": 1, "link": "ingress-1", "kind": "fail"}])

    def test_until_ends_it(self):
        result = run(ring(0), on=cluster(1), execution="fabric", events=lost(2.2, None, 0), until=9)
        assert result.jobs[["restarts", "lost_s"]].values.tolist() == [[1, pytest.approx(0.2)]]
        assert result.jobs["finish_s"].isna().all()
        assert result.gpus["end_s"].tolist() == [2.2, 2.2]


outages = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 20)), max_size=5)
rings = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8), st.integers(0, 20)), min_size=1,
                 max_size=6)


@pytest.mark.parametrize("execution", [*EXECUTIONS, "rar-contention:slot=2"])
@settings(max_examples=examples(25), derandomize=True)
@given(outages, rings, st.sampled_from([*SCHEDULERS, "a-srpt-perfect"]),
       st.dictionaries(st.integers(0, 3), st.sampled_from([1.0, 1.5, 3.0])))
def test_gpus_are_held_by_one_job_and_by_none_while_lost(execution, listed, jobs, scheduler, slow):
    """Jobs make all their iterations, whatever is lost of them: they hold GPUs long enough.

    In slots too, which A-SRPT does not keep to: it has jobs start when it wakes.
    """
    slot = 2 if execution.endswith("slot=2") else 0
    assume(not (slot and scheduler == "a-srpt-perfect"))
    on = Cluster(servers=4, gpus=2, nic=10 * MB, intra=100 * MB)
    specs = [ring(k, ranks, iterations=iterations, arrival_s=arrival / 4, nbytes=MB)
             for k, (ranks, iterations, arrival) in enumerate(jobs)]
    events = [event for server, at, wait in listed
              for event in lost(at / 4, (at + wait) / 4, server)]
    result = run(*specs, on=on, scheduler=scheduler, execution=execution, events=events,
                 stragglers=slow)
    frame, gpus = result.jobs.set_index("job"), result.gpus
    assert frame["finish_s"].notna().all()
    assert (frame["jct_s"] >= frame["lower_bound_s"] * (1 - 1e-9)).all()
    for (_, _), stays in gpus.groupby(["server", "gpu"]):
        held = sorted(zip(stays["start_s"], stays["end_s"], strict=True))
        assert all(start >= end for (_, end), (start, _) in itertools.pairwise(held))
    down = {server: [] for server in range(4)}
    for event in sorted(events, key=lambda event: event["at"]):
        if event["kind"] == "fail":
            down[event["host"]].append([event["at"], np.inf])
        else:
            for outage in down[event["host"]]:
                outage[1] = min(outage[1], event["at"]) if outage[0] <= event["at"] else outage[1]
    for stay in gpus.itertuples():
        for begin, end in down[stay.server]:
            begin, end = (np.ceil(each / slot) * slot if slot else each for each in (begin, end))
            assert stay.end_s <= begin + 1e-9 or stay.start_s >= end - 1e-9
    for spec in specs:
        stays = gpus[gpus["job"] == spec.id].drop_duplicates("start_s")
        held = (stays["end_s"] - stays["start_s"]).sum()
        lost_s, restarts = frame.reindex(columns=["lost_s", "restarts"]).fillna(0).loc[spec.id]
        assert held >= frame["lower_bound_s"][spec.id] + lost_s - 1e-6
        assert len(stays) == restarts + 1


def test_stages_with_release_times_are_released_since_the_first_start():
    """Released 1 s after the start at 0, which is past when it starts over at 2."""
    job = JobSpec(0, stages=[Stage("send", [(0, 1, 10 * MB)], release_s=1)], ranks=2, iterations=1)
    on = Cluster(servers=3, gpus=1, nic=10 * MB, intra=100 * MB)
    result = run(job, on=on, execution="fabric", events=lost(1.5, None, 0))
    assert result.jobs["finish_s"].tolist() == pytest.approx([2.5])


def test_no_job_ends_before_its_bound_where_links_are_given_more():
    """A ring of two servers with a GPU each: 20 MB over each port, in 2 s, or in 1 s."""
    on = Cluster(servers=2, gpus=1, nic=10 * MB, intra=10 * MB)
    pair = ring(0, nbytes=20 * MB, compute_s=0, iterations=1)
    faster = [{"at": 0, "host": server, "factor": 2} for server in (0, 1)]
    for events, expected in (([], 2), (faster, 1)):
        row = run(pair, on=on, execution="fabric", events=events).jobs.iloc[0]
        assert row[["jct_s", "lower_bound_s"]].tolist() == pytest.approx([expected, expected])
