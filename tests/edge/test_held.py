"""Runs on edge-clouds that are stopped, held, looked at, forked, submitted to and listened to."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, EdgeJob, EdgeWorkload, FaultEvent, InputError, StalledError
from netsim.edge.schedule import Schedule, Training
from netsim.simulation.run_spec import RunSpec
from netsim.simulation.targets import make_run
from tests.edge.test_invariants import jobs_on
from tests.examples import examples

#: Held runs are exact under each of these, as an edge-cloud's fabric is never ahead of the clock.
ALLOCATORS = ("parrot", "maxmin", "sebf", "aalo")

WHOLE_JOBS = ("srtf", "batch:first=2:slot=1s", {"name": "tiresias-l", "thresholds": [2.5, 9]})
OF_CHUNKS = ("a-online", "cloud-only", "a-online-e")
ON_LINKS = ("fabric", "fabric:mode=sync", "fabric:mode=exact:preemption=drop",
            "fabric:mode=exact:preemption=pause")
WHOLE_ON_LINKS = ("fabric", "fabric:mode=sync", "fabric:mode=exact")

#: A scheduler, a transport and an allocator.
ways = st.one_of(
    st.tuples(st.sampled_from(WHOLE_JOBS), st.just("constant"), st.just("maxmin")),
    st.tuples(st.sampled_from(OF_CHUNKS), st.just("constant"), st.just("maxmin")),
    st.tuples(st.sampled_from(WHOLE_JOBS), st.sampled_from(WHOLE_ON_LINKS),
              st.sampled_from(ALLOCATORS)),
    st.tuples(st.sampled_from(OF_CHUNKS), st.sampled_from(ON_LINKS), st.sampled_from(ALLOCATORS)))

#: A whole network records what it carries.
RECORD = ("jobs", "links", "decisions")


@st.composite
def instances(draw):
    """Draw a system with narrow links, and jobs that arrive at instants with many digits."""
    workers = draw(st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=3), min_size=1,
                            max_size=3))
    system = EdgeCloud(workers, ps=draw(st.integers(0, 2)), edge_links=3.3, wan=2.7)
    jobs = draw(jobs_on(system)).jobs
    shifts = draw(st.lists(st.floats(0, 1), min_size=len(jobs), max_size=len(jobs)))
    return system, [replace(job, arrival_s=job.arrival_s + shift)
                    for job, shift in zip(jobs, shifts, strict=True)]


def start(system, jobs, way, **options):
    """Return a run that has not begun."""
    scheduler, transport, allocator = way
    if transport != "constant":
        options = {"allocator": allocator, "record": RECORD} | options
    target = make_run(RunSpec(network=system, workload=EdgeWorkload(jobs), scheduler=scheduler,
                               transport=transport, **options))
    target.begin()
    return target


def go(target, until=math.inf):
    """Go on until an instant, or to the end; return the run."""
    target.hold_at(until)
    while not target.ended and target.next_at() <= until:
        target.step()
    return target


def tables(target):
    """Return all tables, with all their bits, and the counts."""
    found = {name: table.frame() if hasattr(table, "frame") else table
             for name, table in target.tables().items() if table is not None}
    return {name: table.to_csv(float_format="%.17g") for name, table in found.items()} | {
        "cost": repr(sorted(target.cost().items()))}


def instants(rng, end, count=4):
    return sorted(rng.uniform(0, 1.05 * end) for _ in range(count))


# --- stopped at an instant -----------------------------------------------------------------

#: One worker, where job 0 trains from 0, and is suspended from 2 to 3 for job 1, which is shorter.
TWO = [EdgeJob(id=0, chunks=1, compute_s=4, gradient_bytes=2, bandwidth=4),
       EdgeJob(id=1, chunks=1, compute_s=1, arrival_s=2, chunk_bytes=3)]
ONE = EdgeCloud([[0]], ps=1, cloud=False)


@pytest.mark.parametrize("scheduler", ["a-online", "srtf"])
def test_what_has_not_happened_is_not_there(scheduler):
    whole = netsim.simulate(ONE, TWO, scheduler=scheduler)
    assert whole.jobs["finish_s"].tolist() == [6, 3]
    stopped = netsim.simulate(ONE, TWO, scheduler=scheduler, until=2.5)
    assert stopped.run["stopped_at_s"] == 2.5
    assert stopped.jobs["start_s"].tolist() == [0, 2]
    assert stopped.jobs["finish_s"].isna().all()
    assert stopped.training[["job", "start_s"]].to_numpy().tolist() == [[0, 0], [1, 2]]
    assert stopped.training["end_s"].tolist()[0] == 2
    assert np.isnan(stopped.training["end_s"][1])
    assert stopped.workers["busy_s"].tolist() == [2.5]
    assert stopped.ps["end_s"].isna().tolist() == [False, True]
    summary = stopped.summary()
    assert summary["jobs_finished"] == 0
    assert summary["utilisation"] == 1
    assert summary["preemptions"] == 1


def test_chunks_that_have_not_been_dispatched_have_no_rows():
    result = netsim.simulate(ONE, TWO, until=1)
    assert result.chunks["job"].tolist() == [0]
    assert result.jobs["uploaded_s"].isna().tolist() == [False, True]
    assert result.jobs["bytes"].tolist() == [0, 0]
    assert result.summary()["chunks"] == 2


def test_before_anything_arrives():
    later = [EdgeJob(id=0, compute_s=1, arrival_s=5)]
    for scheduler in ("a-online", "srtf", "batch"):
        result = netsim.simulate(ONE, later, scheduler=scheduler, until=1)
        assert result.jobs["start_s"].isna().all()
        assert len(result.training) == len(result.ps) == 0
        assert math.isnan(result.summary()["utilisation"])


def test_an_end_after_the_last_end_stops_nothing():
    result = netsim.simulate(ONE, TWO, until=6)
    assert result.run["stopped_at_s"] is None
    assert result.jobs.equals(netsim.simulate(ONE, TWO).jobs)


def test_who_is_stuck_has_no_end():
    system = EdgeCloud([["a"]], edge_links=1, wan=1)
    job = EdgeJob(id=0, worker_type="a", compute_s=1, upload_s=1, cloud_upload_s=90, chunk_bytes=1)
    options = {"transport": "fabric", "events": [{"at": 0.5, "link": 0, "capacity": 0},
                                                 {"at": 0.5, "host": 2, "kind": "fail"}]}
    with pytest.raises(StalledError, match="no other event is pending"):
        netsim.simulate(system, [job], **options)
    assert netsim.simulate(system, [job], until=9, **options).jobs["finish_s"].isna().all()


@settings(max_examples=examples(40), deadline=None)
@given(instances(), ways, st.randoms(use_true_random=False))
def test_a_run_that_is_stopped_has_the_rows_of_the_whole_one(instance, way, rng):
    system, jobs = instance
    options = {"scheduler": way[0], "transport": way[1]}
    if way[1] != "constant":
        options["allocator"] = way[2]
    whole = netsim.simulate(system, jobs, **options)
    at = rng.choice([rng.uniform(0.1, 1.1 * whole.jobs["finish_s"].max()),
                     *(each for each in whole.training["start_s"] if each > 0),
                     *whole.training["end_s"]])
    part = netsim.simulate(system, jobs, until=at, **options)
    check_rows(whole, part, at)


def by(frame, at, *names):
    """Return rows with NaN for what comes after an instant."""
    return frame.assign(**{name: frame[name].where(frame[name] <= at) for name in names})


def same(found, wanted):
    pd.testing.assert_frame_equal(found, wanted.reset_index(drop=True), check_exact=True)


def check_rows(whole, part, at):
    done = part.jobs["finish_s"].notna()
    same(part.jobs[["start_s", "finish_s"]],
         by(whole.jobs, at, "start_s", "finish_s")[["start_s", "finish_s"]])
    same(part.jobs[done].reset_index(drop=True), whole.jobs[done])
    for name in ("training", "ps"):
        rows = getattr(whole, name)
        same(getattr(part, name), by(rows[rows["start_s"] <= at], at, "end_s"))
    if "chunks" in whole.recorded:
        rows = whole.chunks[whole.chunks["dispatch_s"] <= at]
        rows = by(rows, at, "ready_s", "start_s", "finish_s")
        known = ["job", "chunk", "server", "worker", "ready_s", "start_s", "finish_s", "alpha_s"]
        same(part.chunks[known], rows[known])
    busy = part.training[part.training["server"] >= 0]
    trained = (busy["end_s"].fillna(at) - busy["start_s"]).sum()
    assert part.workers["busy_s"].sum() == pytest.approx(trained, abs=1e-9)
    counts = part.summary()
    assert counts["jobs_finished"] == done.sum()
    assert (part.jobs["preemptions"] <= whole.jobs["preemptions"]).all()
    assert (part.jobs["bytes"] <= whole.jobs["bytes"] * (1 + 1e-12)).all()
    assert (part.jobs["communication_s"] <= whole.jobs["communication_s"] * (1 + 1e-9) + 1e-9).all()
    assert part.workers["utilisation"].fillna(0).between(0, 1 + 1e-9).all()


def test_suspensions_and_use_of_a_run_that_is_stopped():
    stopped = netsim.simulate(ONE, TWO, until=2.5)
    assert netsim.analysis.usage.suspended_jobs(stopped) == 1
    use = netsim.edge_utilisation(stopped, slot=1)
    assert use["utilisation"].tolist() == [1, 1, 0.5]


def test_a_run_that_is_stopped_is_stored(tmp_path):
    stopped = netsim.simulate(ONE, TWO, until=2.5)
    back = netsim.load_result(stopped.save(tmp_path / "r"))
    assert back.training.equals(stopped.training)
    assert back.jobs.equals(stopped.jobs)


class Whole:
    """A scheduler that says beforehand when all jobs train: one after the other."""

    schedules = "runs"
    needs = ("edge workers",)

    def run(self, setting):
        count = len(setting.jobs)
        ends = np.cumsum(setting.p0) + setting.arrival.max()
        training = Training(np.arange(count), np.full(count, -1), np.zeros(count, np.int64),
                            ends - setting.p0, ends)
        none = np.zeros(count, np.int64)
        return Schedule(ends - setting.p0, ends, none, none, np.zeros(count), training)


def test_a_schedule_made_beforehand_can_be_stopped():
    whole = netsim.simulate(ONE, TWO, scheduler=Whole())
    assert whole.jobs["finish_s"].tolist() == [7, 8]
    part = netsim.simulate(ONE, TWO, scheduler=Whole(), until=7.5)
    assert part.jobs["finish_s"].tolist()[0] == 7
    assert part.jobs["finish_s"].isna().tolist() == [False, True]
    assert part.workers["busy_s"].tolist() == [5.5]
    run = go(start(ONE, TWO, (Whole(), "constant", "maxmin")), 3)
    with pytest.raises(InputError, match=r"'.*Whole' has worked out all jobs beforehand"):
        run.submit(EdgeJob(id=2, compute_s=1, arrival_s=9))


# --- held and gone on with -----------------------------------------------------------------

@settings(max_examples=examples(40), deadline=None)
@given(instances(), ways, st.randoms(use_true_random=False))
def test_to_hold_a_run_and_look_changes_no_bit(instance, way, rng):
    whole = go(start(*instance, way))
    run = start(*instance, way)
    for at in instants(rng, whole.now):
        go(run, at)
        assert run.ended or run.now == at
        look(run, way)
    assert tables(go(run)) == tables(whole)


def look(run, way):
    tables(run)
    run.so_far()
    states = run.jobs_now()
    assert set(states["state"]) <= {"to come", "waiting", "running", "done"}
    assert (states["chunks_done"] <= states["chunks"]).all()
    if way[1] != "constant":
        flows, links = run.flows(), run.links()
        assert (flows["rate"] >= 0).all()
        assert run.active()["left_bytes"].sum() == pytest.approx(flows["left_bytes"].sum())
        assert (links["rate"] <= links["capacity"] * (1 + 1e-9)).all()
        assert run.view().now == run.now


def test_the_states_of_jobs():
    jobs = [EdgeJob(id=k, compute_s=2, arrival_s=at) for k, at in enumerate([0, 1, 1.5, 8])]
    run = start(ONE, jobs, ("a-online", "constant", "maxmin"))
    assert go(run, 3).jobs_now()["state"].tolist() == ["done", "running", "waiting", "to come"]
    assert run.jobs_now()["trained_s"].tolist() == [2, 1, 0, 0]
    assert run.jobs_now()["chunks_done"].tolist() == [1, 0, 0, 0]


# --- forks ---------------------------------------------------------------------------------

def forked(run):
    """A copy with the same future, as `Simulation.fork` makes it."""
    return deepcopy(run, {id(each): each for each in run.shared()})


@settings(max_examples=examples(40), deadline=None)
@given(instances(), ways.filter(lambda way: way[1] == "constant"),
       st.randoms(use_true_random=False))
def test_forks_have_the_same_future(instance, way, rng):
    check_forks(instance, way, rng)


@settings(max_examples=examples(30), deadline=None)
@given(instances(), ways.filter(lambda way: way[1] != "constant"),
       st.randoms(use_true_random=False))
def test_forks_on_links_have_the_same_future(instance, way, rng):
    check_forks(instance, way, rng)


def check_forks(instance, way, rng):
    whole = go(start(*instance, way))
    wanted, run, kept = tables(whole), start(*instance, way), []
    for at in instants(rng, whole.now, 3):
        kept.append(forked(go(run, at)))
        kept.append(forked(kept[-1]))
        if rng.random() < 0.5:
            assert tables(go(kept.pop())) == wanted
    assert all(tables(go(each)) == wanted for each in (run, *kept))


@pytest.mark.parametrize("scheduler", ["a-online", "srtf", "batch:first=1:slot=1s"])
def test_a_fork_and_its_origin_do_not_feel_each_other(scheduler):
    way = scheduler, "constant", "maxmin"
    run = go(start(ONE, TWO, way), 1)
    other = forked(run)
    other.submit(EdgeJob(id=2, compute_s=0.5, arrival_s=1.5))
    assert tables(go(run)) == tables(go(start(ONE, TWO, way)))
    assert len(go(other).tables()["jobs"].frame()) == 3
    assert len(run.tables()["jobs"].frame()) == 2


# --- jobs that are submitted ---------------------------------------------------------------

@settings(max_examples=examples(40), deadline=None)
@given(instances(), ways, st.randoms(use_true_random=False))
def test_a_job_submitted_is_a_job_of_the_workload(instance, way, rng):
    system, jobs = instance
    late = [job for job in jobs[1:] if rng.random() < 0.5]
    run = start(system, [job for job in jobs if job not in late], way)
    for job in sorted(late, key=lambda job: (job.arrival_s, job.id)):
        if (at := rng.uniform(run.now, job.arrival_s)) < job.arrival_s and at > 0:
            go(run, at)
        run.submit(job)
    found, wanted = (tables(go(each)) for each in (run, start(system, jobs, way)))
    if way[0] in WHOLE_JOBS:  # a job that comes before those expected takes an event of its own
        found, wanted = found | {"cost": 0}, wanted | {"cost": 0}
    assert found == wanted


@pytest.mark.parametrize("scheduler", ["a-online", "srtf", "batch:first=1:slot=1s",
                                       {"name": "tiresias-l", "thresholds": [1, 3]}])
def test_a_job_submitted_after_the_end(scheduler):
    way = scheduler, "constant", "maxmin"
    run = go(start(ONE, TWO, way))
    assert run.ended
    more = EdgeJob(id=2, compute_s=0.5, arrival_s=20)
    run.submit(more)
    assert not run.ended
    assert tables(go(run)) == tables(go(start(ONE, [*TWO, more], way)))


@pytest.mark.parametrize(("job", "said"), [
    ({"id": 0, "arrival_s": 9}, "two jobs have the id 0"),
    ({"id": 2, "arrival_s": 1}, "job 2 arrives at 1 s, and it is 2.5 s already"),
    ({"id": 2, "arrival_s": 9, "upload_s": [1, 2]}, "job 2: upload_s has 2 delays"),
    ({"id": 2, "arrival_s": 9, "worker_type": "b"}, "job 2 needs workers of type 'b'")])
@pytest.mark.parametrize("scheduler", ["a-online-e", "srtf"])
def test_jobs_that_cannot_be_submitted(scheduler, job, said):
    run = go(start(ONE, TWO, (scheduler, "constant", "maxmin")), 2.5)
    with pytest.raises(InputError, match=said):
        run.submit(EdgeJob(compute_s=1, **job))
    assert run.total == 2


def test_more_that_cannot_be_submitted():
    run = go(start(ONE, [EdgeJob(id=5, compute_s=1, arrival_s=2)],
                   ("a-online", "constant", "maxmin")), 2)
    with pytest.raises(InputError, match="jobs with larger ids that have arrived already"):
        run.submit(EdgeJob(id=4, compute_s=1, arrival_s=2))
    with pytest.raises(InputError, match="job must be an EdgeJob"):
        run.submit(netsim.JobSpec(7, stages=[netsim.Stage("a", [(0, 1, 5)])]))
    by_mean = start(ONE, TWO, ("tiresias-l", "constant", "maxmin"))
    go(by_mean, 1)
    with pytest.raises(InputError, match="give thresholds"):
        by_mean.submit(EdgeJob(id=2, compute_s=1, arrival_s=9))


def test_tiresias_with_given_thresholds_takes_jobs_at_any_time():
    """Job 0, of 5 s, has trained for 1.5 s when job 2 comes; at level 1, it waits for it, 1 s."""
    sim = netsim.Simulation(ONE, TWO[:1], scheduler={"name": "tiresias-l", "thresholds": ["1s"]})
    sim.run(until=1.5).submit(EdgeJob(id=2, compute_s=1, arrival_s=1.5))
    jobs = sim.run().result().jobs
    assert jobs["preemptions"].tolist() == [1, 0]
    assert jobs["finish_s"].tolist() == [6, 2.5]


# --- changes -------------------------------------------------------------------------------

NARROW = EdgeCloud([["a"]], ps=1, edge_links=2, wan=2, cloud=False)
UPLOAD = EdgeJob(id=0, worker_type="a", compute_s=1, upload_s=2, chunk_bytes=8)


def narrow(run):
    """Halve the capacity of the link that `UPLOAD` crosses."""
    run.change(FaultEvent(run.now, link="ingress-0", capacity=1))


def test_a_link_changes():
    """4 bytes per second are allowed, and 2 there: 2 bytes until 1; 1 per second for the others."""
    run = start(NARROW, [UPLOAD], ("a-online", "fabric", "maxmin"))
    names = NARROW.network.link_names
    assert go(run, 1).flows()["left_bytes"].tolist() == [6]
    narrow(run)
    links = go(run, 2).links().set_index("link")
    assert links.loc["ingress-0", ["capacity", "rate"]].tolist() == [1, 1]
    assert list(links.index) == list(names)
    assert run.active()[["job", "stage", "left_bytes"]].to_numpy().tolist() == [[0, "upload", 5]]
    run.change(FaultEvent(run.now, host=0, kind="fail"))
    assert go(run, 3).flows()["rate"].tolist() == [0]
    run.change(FaultEvent(run.now, host=0, kind="repair"))
    assert go(run).tables()["jobs"].frame()["finish_s"].tolist() == [6.5]
    carried = run.tables()["links"].frame()
    assert carried[carried["link"] == "ingress-0"]["capacity"].tolist() == [2, 1, 0, 2]


def test_what_is_done_is_as_an_event_that_was_planned():
    """It was 2 bytes per second until 1, and is 1 from then on."""
    way = "a-online", "fabric", "maxmin"
    planned = start(NARROW, [UPLOAD], way, events=[{"at": 1, "link": "ingress-0", "capacity": 1}])
    run = go(start(NARROW, [UPLOAD], way), 1)
    narrow(run)
    found, wanted = (each.tables()["jobs"].frame() for each in (go(run), go(planned)))
    assert found.equals(wanted)


def test_another_allocator_from_now_on():
    """Fairly, each of two uploads of 4 bytes is halfway at 2; in order, job 0 ends then, at 3."""
    jobs = [EdgeJob(id=k, worker_type="a", compute_s=1, upload_s=1, chunk_bytes=4)
            for k in range(2)]
    wide = EdgeCloud([["a", "a"]], ps=1, edge_links=2, wan=2, cloud=False)
    run = go(start(wide, jobs, ("a-online", "fabric", "maxmin")), 2)
    assert run.flows()["left_bytes"].tolist() == [2, 2]
    run.set_allocator("fifo")
    assert type(run.allocator).__name__ == "FIFO"
    assert go(run).tables()["jobs"].frame()["uploaded_s"].tolist() == [3, 4]
    assert run.identity()["allocator"]["name"] == "fifo"


def test_another_observe_interval_from_now_on():
    run = go(start(NARROW, [UPLOAD], ("a-online", "fabric", "maxmin")), 1)
    assert run.observe_interval == 0
    run.set_observe_interval("2.5s")
    assert go(run).tables()["jobs"].frame()["uploaded_s"].tolist() == [5]
    assert run.identity()["observe_interval"] == 2.5


@pytest.mark.parametrize("ask", [
    lambda run: run.active(), lambda run: run.links(), lambda run: run.view(),
    narrow, lambda run: run.allocator, lambda run: run.observe_interval])
def test_where_there_are_no_links(ask):
    run = go(start(ONE, TWO, ("a-online", "constant", "maxmin")), 1)
    with pytest.raises(InputError, match="no links and no allocator with transport 'constant'"):
        ask(run)


# --- processes of a user's own --------------------------------------------------------------

@settings(max_examples=examples(40), deadline=None)
@given(instances(), ways.filter(lambda way: way[1] != "constant"),
       st.randoms(use_true_random=False))
def test_a_process_beside_the_run_changes_no_bit(instance, way, rng):
    whole = go(start(*instance, way))
    run, seen = start(*instance, way), []
    at = instants(rng, whole.now)

    def watch():
        for each in at:
            yield run.env.timeout(each - run.env.now)
            assert run.now == run.env.now
            look(run, way)
            run.tables()
            seen.append(run.now)

    run.env.process(watch())
    assert tables(go(run)) | {"cost": 0} == tables(whole) | {"cost": 0}
    assert seen == pytest.approx([each for each in at if each <= whole.now])


def test_a_process_begins_at_the_time_of_the_run_and_may_change_it():
    """Of 8 bytes 2 per second are sent until 2.5, when the link gets 1: 3 bytes more, until 5.5."""
    sim = netsim.Simulation(NARROW, [UPLOAD], transport="fabric").run(until=1)

    def narrow():
        yield sim.env.timeout(1.5)
        sim.set_capacity("ingress-0", 1)

    sim.env.process(narrow())
    with pytest.raises(InputError, match="process 'narrow' is in the environment"):
        sim.fork()
    assert sim.run().result().jobs["uploaded_s"].tolist() == [5.5]


def test_where_there_is_no_environment():
    for scheduler in ("a-online", "srtf"):
        sim = netsim.Simulation(ONE, TWO, scheduler=scheduler)
        with pytest.raises(InputError, match=r"no SimPy environment.*with 'fabric' it has one"):
            sim.env.timeout(1)


# --- to listen -----------------------------------------------------------------------------

@settings(max_examples=examples(30), deadline=None)
@given(instances(), ways)
def test_who_listens_hears_of_each_job_when_it_is_time(instance, way):
    run, heard = start(*instance, way), []

    def hear(event):
        assert event.at_s == run.now
        heard.append(event)
    run.listen(hear)
    assert tables(go(run)) == tables(go(start(*instance, way)))
    jobs = run.tables()["jobs"].frame().set_index("job")
    for kind, name in (("job-arrived", "arrival_s"), ("job-started", "start_s"),
                       ("job-done", "finish_s")):
        told = {event.job: event.at_s for event in heard if event.kind == kind}
        assert told == pytest.approx(jobs[name].to_dict(), rel=1e-11)
        assert len(told) == sum(event.kind == kind for event in heard)
    coflows = [[event.coflow for event in heard if event.kind == kind]
               for kind in ("coflow-valid", "coflow-done")]
    assert set(coflows[1]) <= set(coflows[0])
    assert all(len(set(each)) == len(each) for each in coflows)


def test_who_listens_may_change_the_run():
    """Each job that ends submits the next, which is there at once and trains for 4 s."""
    run = start(ONE, TWO[:1], ("a-online", "constant", "maxmin"))
    heard = []

    def hear(event):
        heard.append((event.kind, event.at_s))
        if event.kind == "job-done" and run.total < 3:
            run.submit(EdgeJob(id=run.total, compute_s=4, arrival_s=event.at_s))
    run.listen(hear)
    assert go(run).tables()["jobs"].frame()["finish_s"].tolist() == [5, 9, 13]
    assert heard == [(kind, at) for at in (0, 5, 9)
                     for kind, at in (("job-arrived", at), ("job-started", at),
                                      ("job-done", {0: 5, 5: 9, 9: 13}[at]))]
    assert not run.listen(None)


def test_what_is_heard_of_links():
    run, heard = start(NARROW, [UPLOAD], ("a-online", "fabric", "maxmin")), []
    run.listen(heard.append)
    go(run, 1)
    narrow(run)
    assert heard[-1].kind == "capacity"
    assert (heard[-1].link, heard[-1].capacity, heard[-1].at_s) == ("ingress-0", 1, 1)
    go(run)
    said = [(event.kind, event.at_s) for event in heard if event.kind.startswith("coflow")]
    assert said == [("coflow-valid", 0), ("coflow-done", 7)]
    assert [event.at_s for event in heard if event.kind == "decision"][:2] == [0, 1]
    other = forked(run)
    other.submit(EdgeJob(id=1, worker_type="a", compute_s=1, arrival_s=50))
    count = len(heard)
    go(other)
    assert len(heard) == count


# --- through the front door ----------------------------------------------------------------

@pytest.mark.parametrize(("scheduler", "transport"), [
    ("a-online", "constant"), ("a-online", "fabric"), ("srtf", "constant"),
    ("batch:first=1:slot=1s", "constant")])
def test_a_simulation_on_an_edge_cloud(scheduler, transport):
    options = {"scheduler": scheduler, "transport": transport}
    whole = netsim.simulate(ONE, TWO, **options)
    sim, heard = netsim.Simulation(ONE, TWO, **options), []
    sim.on("job-done", lambda event: heard.append((event.job, event.at_s)))
    assert sim.run(until=2.5).now == 2.5
    assert sim.jobs()["state"].tolist()[0] == "running"
    stopped, other = sim.result(), sim.fork()
    assert stopped.run["stopped_at_s"] == 2.5
    assert stopped.jobs["finish_s"].isna().all()
    next(kinds := (event.kind for event in sim.events()))
    kinds.close()
    for each in (sim, other):
        assert each.run().result().jobs.equals(whole.jobs)
    assert dict(heard) == whole.jobs.set_index("job")["finish_s"].to_dict()
    other.submit(EdgeJob(id=2, compute_s=1, arrival_s=50))
    assert len(other.run().result().jobs) == 3
