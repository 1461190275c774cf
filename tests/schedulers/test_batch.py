"""BatchSche: at which instants batches are dispatched, and how few of them are looked at."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, EdgeJob, InputError
from netsim.schedulers import batch
from tests.examples import examples


def job(number, arrival_s, compute_s=2.0, **options):
    return EdgeJob(id=number, arrival_s=arrival_s, compute_s=compute_s, worker_type="a",
                   upload_s=0.0, cloud_upload_s=50.0, **options)


def dispatches(monkeypatch):
    """Return a list that fills with the instants at which jobs are dispatched."""
    seen = []

    class Watched(batch._Batches):
        def _dispatched(self, view):
            seen.append(view.now)
            return super()._dispatched(view)

    monkeypatch.setattr(batch, "_Batches", Watched)
    return seen


@pytest.mark.parametrize(("mode", "instants"), [
    ("periodic", [0.001, 3600.0, 6_480_000.001]),
    ("doubling", [0.001, 0.001 * 2**22, 0.001 * 2**33])])
def test_empty_hours_have_no_instants(mode, instants, monkeypatch):
    """Slots of 1 ms, jobs at 0, 1 h and 1,800 h and half a ms: three batches, not 6.48e9.

    2^21 ms are less than an hour, and 2^32 ms less than 1,800 h.
    """
    seen = dispatches(monkeypatch)
    result = netsim.simulate(
        EdgeCloud([["a"]]), [job(0, 0), job(1, "1h"), job(2, 6_480_000.0005)],
        scheduler={"name": "batch", "mode": mode, "first": 1, "slot": "1ms"})
    assert seen == pytest.approx(instants, rel=1e-15)
    assert result.jobs["start_s"].tolist() == pytest.approx(instants, rel=1e-15)


def test_who_waits_without_a_cloud_is_looked_at_when_a_worker_is_free(monkeypatch):
    """One worker and two jobs of 10,000.5 s: the second is dispatched in the slot after the end."""
    seen = dispatches(monkeypatch)
    result = netsim.simulate(
        EdgeCloud([["a"]], cloud=False), [job(0, 0, 10_000.5), job(1, 0, 10_000.5)],
        scheduler="batch:mode=periodic:first=1:slot=1s")
    assert seen == [1, 10_002]
    assert result.jobs["finish_s"].tolist() == [10_001.5, 20_002.5]


def naive(jobs, mode, step, workers, cloud):
    """Step from instant to instant, as the specification says; return when jobs start, and where.

    Jobs are in order of arrival, without exchanges: p0 = p1. Nothing is uploaded to the edge, and
    for 50 s to the cloud.
    """
    found, busy, coming, waiting = {}, [0] * workers, list(jobs), []
    count = itertools.count()
    while coming or waiting:
        now = step * (2**next(count) if mode == "doubling" else next(count) + 1)
        while coming and coming[0].arrival_s <= now:
            waiting.append(coming.pop(0))
        for job in sorted(waiting, key=lambda job: job.chunks * job.p1_s):
            free = [worker for worker in range(workers) if busy[worker] <= now]
            cheap = 0.8 * 10 ** (1 - len(free) / workers) < 1
            if free and (cheap or not cloud):
                used = free[:job.chunks]
                for worker in used:
                    busy[worker] = now + -(-job.chunks // len(used)) * job.p0_s
                found[job.id] = now, 0
            elif cloud:
                found[job.id] = now + 50, job.chunks
        waiting = [job for job in waiting if job.id not in found]
    return found


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.integers(1, 3)), min_size=1,
                max_size=6),
       st.sampled_from(["doubling", "periodic"]), st.sampled_from([1, 2, 5]), st.booleans())
def test_by_events_is_by_instants(jobs, mode, step, cloud):
    """All times are integers, so that both are exact."""
    system = EdgeCloud([["a", "a"]], cloud=cloud)
    made = netsim.EdgeWorkload([job(k, arrival, compute, chunks=chunks)
                                for k, (arrival, compute, chunks) in enumerate(jobs)])
    result = netsim.simulate(system, made, scheduler={
        "name": "batch", "mode": mode, "first": step, "slot": "1s"})
    rows = result.jobs.set_index("job")
    assert naive(made, mode, step, 2, cloud) == {
        job: (row["start_s"], row["cloud_chunks"]) for job, row in rows.iterrows()}


@pytest.mark.parametrize("options", [{"first": 1e-300, "slot": 1e-300},
                                     {"first": 1e300, "slot": 1e99}])
def test_slots_that_are_no_time(options):
    with pytest.raises(InputError, match=r"a number of slots of 1e\S+ s that last more"):
        batch.BatchSche(**options)


@pytest.mark.parametrize("mode", ["doubling", "periodic"])
@pytest.mark.parametrize(("arrival", "slot"), [(1e15, 1e-9), (1e99, 1e-300), (1.7e9, 0.1)])
def test_instants_nearer_than_floats(mode, arrival, slot):
    result = netsim.simulate(EdgeCloud([["a"]]), [job(0, arrival, arrival)],
                             scheduler={"name": "batch", "mode": mode, "first": 1, "slot": slot})
    start = result.jobs["start_s"].item()
    assert arrival <= start * (1 + 1e-12)
    assert start <= (2 * arrival if mode == "doubling" else arrival + slot * (1 + 1e-9))


def test_batches_take_jobs_that_need_the_same_in_order_of_arrival():
    """D p1 of 3 x 0.1 s and 1 x 0.3 s are equal: job 0 has the worker first."""
    jobs = [job(0, 0, 0.1, chunks=3), job(1, 0, 0.3)]
    result = netsim.simulate(EdgeCloud([["a"]], cloud=False), jobs,
                             scheduler="batch:first=1:slot=1s")
    assert result.jobs["finish_s"].tolist() == pytest.approx([1.3, 2.3])


@pytest.mark.parametrize("tenths", [11, 22, 44, 83, 88, 50])
def test_prices_that_rounding_makes_differ(tenths):
    """0.8 p0 = p1 where exchanges take a quarter of the rest: a tie, in which the cloud is taken.

    In floats, 0.8 p0 is a little less than p1 for all of these but the last.
    """
    only = job(0, 0, tenths / 10, minibatches=7, gradient_bytes=tenths / 10, bandwidth=8)
    result = netsim.simulate(EdgeCloud([["a"]]), [only], scheduler="batch:first=1:slot=1s")
    assert result.jobs["zeta"].tolist() == [1]
