"""Edge-clouds: neither the rounding of times nor late arrivals change a schedule."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.edge.parameter_servers import spans
from netsim.edge.schedule import Training
from tests.examples import examples
from tests.twins.a_online import Task, a_online

ONE = EdgeCloud([["a"]], cloud=False)


def job(number, arrival_s, compute_s, **options):
    return EdgeJob(id=number, arrival_s=arrival_s, compute_s=compute_s,
                   **{"worker_type": "a", "upload_s": 0.0, "cloud_upload_s": 1e3} | options)


def finishes(result):
    return result.jobs.sort_values("job")["finish_s"].to_numpy()


# --- late arrivals ---------------------------------------------------------------------------


@pytest.mark.parametrize(("arrival", "compute"), [
    (1.7e9, 99.9), (2_592_000, 99.9), (2_592_000, 0.7), (1.7e9, 0.7), (0, 0.7), (1e12, 99.9)])
def test_thresholds_are_crossed_at_late_instants_too(arrival, compute):
    """Alone, a job crosses both thresholds and ends after its training, whatever the clock says.

    The next float after 1.7e9 is 2.4e-7 s later, in which a job attains more than 1e-9 of 12.5 s.
    """
    result = netsim.simulate(ONE, [job(0, arrival, compute)], scheduler="tiresias-l")
    assert finishes(result) == pytest.approx([arrival + compute], abs=4e-16 * arrival)
    assert result.jobs["preemptions"].tolist() == [0]


@pytest.mark.parametrize("at", [0, 1e5, 1.7e9])
def test_late_jobs_change_places_at_thresholds(at):
    """A threshold at 0.7 s: job 0 trains until then, job 1 likewise, then each 0.3 s to its end."""
    result = netsim.simulate(ONE, [job(0, at, 1.0), job(1, at + 0.2, 1.0)],
                             scheduler={"name": "tiresias-l", "thresholds": [0.7]})
    assert finishes(result) - at == pytest.approx([1.7, 2.0], abs=1e-6)
    assert result.jobs["preemptions"].tolist() == [1, 1]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=6),
       st.lists(st.integers(1, 30), min_size=1, max_size=3, unique=True),
       st.sampled_from([1e6, 1.7e9, 1e14]))
def test_every_late_run_ends(jobs, thresholds, at):
    """All the work is done once, by one worker, however few digits the clock has left."""
    result = netsim.simulate(
        ONE, [job(k, at + arrival / 10, compute / 10) for k, (arrival, compute) in enumerate(jobs)],
        scheduler={"name": "tiresias-l", "thresholds": [each / 10 for each in sorted(thresholds)]})
    assert finishes(result).max() - at >= sum(each for _, each in jobs) / 10 - 1e-14 * at


# --- instants that are one -------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["constant", "fabric", "fabric:mode=exact:preemption=pause"])
def test_an_end_a_rounding_short_of_an_arrival(transport):
    """The eighth of nine chunks of 0.1 s ends as the job of 0.05 s arrives, at 0.8 s.

    0.1 added up eight times is 0.7999999999999999: the ninth chunk does not begin before.
    """
    result = netsim.simulate(ONE, [job(0, 0, 0.1, chunks=9), job(1, 0.8, 0.05)],
                             scheduler="a-online-e", transport=transport)
    assert result.jobs["preemptions"].tolist() == [0, 0]
    assert result.chunks["start_s"].tolist()[-2:] == pytest.approx([0.85, 0.8])
    assert finishes(result) == pytest.approx([0.95, 0.85])


def test_a_gang_whose_data_is_there_a_rounding_before_it_is_suspended():
    """0.7 + 0.1 is 0.7999999999999999; job 1 takes the worker at 0.8 s, before job 0 has trained.

    It is preempted all the same, which counts during an upload too.
    """
    result = netsim.simulate(ONE, [job(0, 0.7, 2.0, upload_s=0.1), job(1, 0.8, 1.0)],
                             scheduler="srtf")
    assert result.jobs["start_s"].tolist() == pytest.approx([1.8, 0.8])
    assert result.jobs["preemptions"].tolist() == [1, 0]
    assert len(result.training) == 2


SCHEDULERS = ("a-online", "a-online-e", "cloud-only", "batch", "srtf", "tiresias-l")


@st.composite
def instances(draw):
    """Servers, and jobs whose times are integers: a job is a dict of options of `EdgeJob`."""
    servers = [["a"] * each for each in draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))]
    times = st.integers(0, 8)
    jobs = [dict(arrival_s=draw(st.integers(0, 20)), compute_s=draw(st.integers(1, 8)),
                 update_s=draw(st.integers(0, 2)), chunks=draw(st.sampled_from([1, 2, 3, 5])),
                 minibatches=draw(st.integers(1, 2)), gradient_bytes=draw(times),
                 upload_s=[draw(times) for _ in servers], cloud_upload_s=3 * draw(times),
                 gang=draw(st.none() | st.integers(1, 3)))
            for _ in range(draw(st.integers(1, 7)))]
    thresholds = sorted(draw(st.lists(st.integers(1, 30), min_size=1, max_size=3, unique=True)))
    return servers, jobs, thresholds


def scaled(jobs, scale):
    """Return jobs with all times divided by a number; exchanges take as long as bytes say."""
    made = []
    for k, each in enumerate(jobs):
        times = {name: each[name] / scale for name in ("arrival_s", "compute_s", "update_s",
                                                       "cloud_upload_s")}
        times["upload_s"] = [delay / scale for delay in each["upload_s"]]
        made.append(EdgeJob(id=k, worker_type="a", bandwidth=2 * scale, **each | times))
    return made


def test_parameter_servers_go_to_the_first_job_of_those_that_start_together():
    """Jobs 0 and 2 start at 6, or at tenths of it that differ by rounding; one PS is free."""
    names = ("arrival_s", "compute_s", "update_s", "chunks", "minibatches", "gradient_bytes",
             "upload_s", "cloud_upload_s", "gang")
    jobs = [dict(zip(names, row, strict=True)) for row in (
        (4, 1, 1, 1, 1, 2, [1, 2, 2], 6, None), (0, 1, 2, 5, 2, 1, [0, 0, 0], 3, None),
        (5, 1, 2, 1, 1, 2, [0, 1, 1], 6, None), (0, 1, 0, 3, 1, 4, [1, 1, 2], 6, None))]
    for scale in (1, 10):
        held = netsim.simulate(EdgeCloud([["a", "a"]] * 3), scaled(jobs, scale),
                               scheduler="a-online").ps
        assert held["job"].tolist() == [1, 3, 0, 2]
        assert held["server"].tolist() == [0, 1, 2, -1]


def test_spans_that_touch_but_for_rounding_are_one():
    """A chunk trains until 0.7999999999999999, which is 0.1 added up eight times; one from 0.8."""
    none = np.zeros(2, np.int64)
    start, end = np.array([0.0, 0.8]), np.array([np.cumsum(np.full(8, 0.1))[-1], 1.0])
    assert end[0] < start[1]
    found = spans(Training(none, np.arange(2), np.arange(2), start, end))
    assert [each.tolist() for each in found] == [[0], [0.0], [1.0]]


def test_a_parameter_server_is_free_for_who_starts_as_its_job_ends():
    """0.1 added up three times is 0.30000000000000004; job 1 starts at 0.3 s on another worker."""
    result = netsim.simulate(EdgeCloud([["a", "b"]], ps=1), [
        job(0, 0, 0.1, chunks=3), job(1, 0.3, 1.0, worker_type="b")], scheduler="a-online")
    assert result.ps["end_s"].iloc[0] > result.ps["start_s"].iloc[1] == 0.3
    assert result.ps["server"].tolist() == [0, 0]


@settings(max_examples=examples(250), deadline=None)
@given(instances(), st.sampled_from(SCHEDULERS), st.sampled_from([3, 7, 10, 1000]))
def test_a_unit_in_which_times_are_rounded_gives_the_same_schedule(instance, scheduler, scale):
    """Integers add up exactly, their tenths do not: all times are a tenth nevertheless."""
    servers, jobs, thresholds = instance
    system = EdgeCloud(servers)
    runs = []
    for each in (1, scale):
        options = {"batch": {"first": 2, "slot": 1 / each},
                   "tiresias-l": {"thresholds": [value / each for value in thresholds]}}
        runs.append(netsim.simulate(system, scaled(jobs, each),
                                    scheduler={"name": scheduler, **options.get(scheduler, {})}))
    exact, rounded = runs
    for table in ("jobs", "training"):
        times = [name for name in getattr(exact, table) if name.endswith("_s")]
        before, after = (getattr(run, table) for run in runs)
        assert len(before) == len(after)
        assert before.drop(columns=times).equals(after.drop(columns=times))
        assert after[times].to_numpy() * scale == pytest.approx(
            before[times].to_numpy(), rel=1e-9, abs=1e-9, nan_ok=True)
    assert exact.summary()["preemptions"] == rounded.summary()["preemptions"]
    assert exact.summary()["ps_shortages"] == rounded.summary()["ps_shortages"]
    lengths = rounded.training["end_s"] - rounded.training["start_s"]
    assert (lengths > 1e-9).all()


def test_of_equal_jobs_that_wait_the_first_trains_first():
    """Both have a chunk of 1 s on one worker: Q is the same, and so is their arrival."""
    result = netsim.simulate(ONE, [job(0, 0, 1.0), job(1, 0, 1.0)], scheduler="a-online")
    assert finishes(result).tolist() == [1, 2]


@settings(max_examples=examples(150), deadline=None)
@given(instances(), st.booleans(), st.sampled_from([3, 7, 10]))
def test_a_online_with_floats_is_its_reference_with_fractions(instance, cloud, scale):
    """Also where the twin computes with floats itself."""
    servers, jobs, _ = instance
    system = EdgeCloud(servers)
    found = netsim.simulate(system, scaled(jobs, scale),
                            scheduler="a-online" if cloud else "a-online-e")
    order = sorted(range(len(jobs)), key=lambda k: (jobs[k]["arrival_s"], k))
    spans = [each[["start_s", "end_s"]].to_numpy()
             for _, each in found.training.groupby(["job", "chunk"], sort=False)]
    worker = np.where(found.chunks["server"] < 0, -1, system.first[found.chunks["server"]]
                      + found.chunks["worker"])
    for number in (Fraction, float):
        tasks = [task(jobs[k], system, number(scale)) for k in order]
        pieces = a_online(tasks, system.total, cloud, number)
        assert [-1 if piece.worker is None else piece.worker for piece in pieces] == worker.tolist()
        for piece, span, preemptions in zip(pieces, spans, found.chunks["preemptions"],
                                            strict=True):
            assert len(piece.spans) - 1 == preemptions
            assert span == pytest.approx(np.array(piece.spans, float), rel=1e-9)


def task(given, system, scale):
    def time(value):
        return type(scale)(value) / scale

    per_batch = given["compute_s"] + given["update_s"]
    batches = given["minibatches"]
    return Task(time(given["arrival_s"]), given["chunks"],
                time(batches * (per_batch + given["gradient_bytes"])), time(batches * per_batch),
                {worker: time(given["upload_s"][server])
                 for worker, server in enumerate(system.server_of.tolist())},
                time(given["cloud_upload_s"]))


# --- ties ------------------------------------------------------------------------------------


def test_remaining_times_are_compared_with_each_other():
    """2 ms go before 3 ms, also beside a job of 2,000 h that other workers train."""
    system = EdgeCloud([["a", "b"]], cloud=False)
    long = [job(2, 0, 7_200_000, worker_type=kind) for kind in "ab"]
    for beside in long:
        result = netsim.simulate(system, [job(0, 0, 0.003), job(1, 0, 0.002), beside],
                                 scheduler="srtf")
        assert finishes(result)[:2] == pytest.approx([0.005, 0.002])


def test_remaining_times_that_rounding_makes_differ():
    """Both jobs have 0.2 s left at 0.3 s, job 0 in floats 0.20000000000000004: it goes on."""
    result = netsim.simulate(ONE, [job(0, 0.1, 0.4), job(1, 0.3, 0.2)], scheduler="srtf")
    assert finishes(result) == pytest.approx([0.5, 0.7])
    assert result.jobs["preemptions"].tolist() == [0, 0]


@pytest.mark.parametrize("scheduler", ["a-online", "a-online-e"])
def test_rates_that_rounding_makes_differ(scheduler):
    """Job 0 has 3 chunks of 0.1 s, D p0 = 0.30000000000000004; job 1 has one of 0.3 s.

    Their gamma is the same, so that job 1 waits for all of job 0, and in Q for what is left of it:
    Q = 0.3 - 0.1 + 0.3. Were job 0's lower, job 1 would go first, at 0.1 s.
    """
    jobs = [job(0, 0, 0.1, chunks=3), job(1, 0.1, 0.3)]
    result = netsim.simulate(ONE, jobs, scheduler=scheduler)
    assert finishes(result) == pytest.approx([0.3, 0.6])
    assert result.chunks["alpha_s"].iloc[-1] == pytest.approx(0.5)
    assert result.chunks["t_star_s"].iloc[-1] == pytest.approx(0.3)
    for number, three in ((float, 0.1), (Fraction, Fraction(1, 10))):
        tasks = [Task(number(0), 3, three, three, {0: number(0)}, number(1000)),
                 Task(three, 1, number(3) / 10, number(3) / 10, {0: number(0)}, number(1000))]
        last = a_online(tasks, 1, False, number)[-1]
        assert float(last.alpha) == pytest.approx(0.5)
        assert np.array(last.spans, float) == pytest.approx(np.array([[0.3, 0.6]]))


def test_places_that_are_as_good_go_by_the_least_of_all():
    """Q of two workers and the cloud: 1 + 1.4e-9, 1 + 0.5e-9 and 1.

    The cloud's is the least. The second worker's equals it and goes before the cloud, and the
    first worker's does not equal it.
    """
    system = EdgeCloud([["a"], ["a"]])
    near = job(0, 0, 0.5, upload_s=[0.5 + 1.4e-9, 0.5 + 0.5e-9], cloud_upload_s=0.5)
    result = netsim.simulate(system, [near], scheduler="a-online")
    assert result.chunks["server"].tolist() == [1]
    for number in (float, Fraction):
        only = Task(number(0), 1, number(0.5), number(0.5),
                    dict(enumerate(map(number, near.upload_s))), number(0.5))
        assert [each.worker for each in a_online([only], 2, True, number)] == [1]
