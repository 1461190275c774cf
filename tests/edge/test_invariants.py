"""Random edge-clouds: what holds under every scheduler, and A_online as its twin has it."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, EdgeJob, EdgeWorkload
from tests.examples import examples
from tests.twins.a_online import Task, a_online

SCHEDULERS = ("a-online", "a-online-e", "cloud-only", "batch:first=2:slot=1s", "srtf", "tiresias-l")

#: Times are multiples of a quarter of a second, which floats hold exactly.
quarters = st.integers(0, 24).map(lambda each: each / 4)
positive = st.integers(1, 16).map(lambda each: each / 4)


@st.composite
def jobs_on(draw, system, equal_delays=False):
    def job(number):
        delay = draw(quarters)
        return EdgeJob(
            id=number, arrival_s=draw(st.integers(0, 20)), chunks=draw(st.sampled_from([1, 2, 4])),
            worker_type=draw(st.sampled_from(system.types)), minibatches=draw(st.integers(1, 3)),
            epochs=draw(st.integers(1, 2)), compute_s=draw(positive),
            gradient_bytes=draw(quarters), bandwidth=2,
            upload_s=delay if equal_delays else [draw(quarters) for _ in system.workers],
            cloud_upload_s=delay if equal_delays else 2 * draw(quarters),
            gang=draw(st.none() | st.integers(1, 4)),
            chunk_bytes=draw(st.sampled_from([0, 1, 2.5])))
    return EdgeWorkload([job(k) for k in range(draw(st.integers(1, 8)))])


@st.composite
def systems(draw):
    workers = draw(st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=3), min_size=1,
                            max_size=3))
    return EdgeCloud(workers, ps=draw(st.integers(0, 2)),
                     storage=draw(st.sampled_from([float("inf"), 4, 7.5])))


@st.composite
def instances(draw, **options):
    system = draw(systems())
    return system, draw(jobs_on(system, **options))


def unlimited(system):
    return EdgeCloud(system.workers, ps=system.ps)


@settings(max_examples=examples(80), deadline=None)
@given(instances(), st.booleans())
def test_a_online_is_its_reference(instance, cloud):
    system, workload = unlimited(instance[0]), instance[1]
    found = netsim.simulate(system, workload, scheduler="a-online" if cloud else "a-online-e")
    tasks = [Task(Fraction(job.arrival_s), job.chunks, Fraction(job.p0_s), Fraction(job.p1_s),
                  {w: Fraction(job.upload_s[system.server_of[w]])
                   for w in system.of_type(job.worker_type).tolist()}, Fraction(job.cloud_upload_s))
             for job in workload]
    rows = found.chunks
    spans = [each[["start_s", "end_s"]].to_numpy().tolist()
             for _, each in found.training.groupby(["job", "chunk"], sort=False)]
    for k, piece in enumerate(a_online(tasks, system.total, cloud, Fraction)):
        row = rows.iloc[k]
        worker = -1 if row["server"] < 0 else system.first[int(row["server"])] + row["worker"]
        assert worker == (-1 if piece.worker is None else piece.worker)
        assert row["alpha_s"] == pytest.approx(float(piece.alpha), abs=1e-9)
        assert row["t_star_s"] == pytest.approx(float(piece.t_star), abs=1e-9)
        assert len(piece.spans) - 1 == row["preemptions"]
        assert np.array(spans[k]) == pytest.approx(np.array(piece.spans, float), abs=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(instances(), st.sampled_from(SCHEDULERS), st.sampled_from([0, 0.5]))
def test_what_holds_under_all(instance, scheduler, epsilon):
    system, workload = instance
    if scheduler in ("a-online-e", "srtf", "tiresias-l"):
        system = unlimited(system)
    result = netsim.simulate(system, workload, scheduler=scheduler, epsilon=epsilon)
    jobs, training = result.jobs, result.training
    assert jobs["finish_s"].notna().all()
    assert (jobs["jct_s"] >= jobs["lower_bound_s"] - 1e-9).all()
    edge = training[training["server"] >= 0]
    for _, rows in edge.groupby(["server", "worker"]):  # one chunk at a time
        spans = rows.sort_values("start_s")[["start_s", "end_s"]].to_numpy()
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))
    for job, rows in edge.groupby("job"):  # a worker of its type
        kind = workload.jobs[jobs.index[jobs["job"] == job][0]].worker_type
        assert all(system.workers[s][w] == kind
                   for s, w in zip(rows["server"], rows["worker"], strict=True))
    check_ps(result, system)
    if "chunks" in result.recorded:
        check_chunks(result, workload, epsilon)
        check_storage(result, system, workload)


def check_chunks(result, workload, epsilon):
    chunks, training = result.chunks, result.training
    jobs = {job.id: job for job in workload}
    zeta = dict(zip(result.jobs["job"], result.jobs["zeta"], strict=True))
    trained = training.assign(s=training["end_s"] - training["start_s"]).groupby(
        ["job", "chunk"])["s"].sum()
    assert len(chunks) == sum(job.chunks for job in workload)
    for row in chunks.itertuples():
        job = jobs[row.job]
        needed = job.p1_s if zeta[row.job] else job.p0_s
        assert trained[row.job, row.chunk] == pytest.approx(needed / (1 + epsilon), abs=1e-9)
        assert row.start_s >= row.ready_s - 1e-9
        assert row.ready_s == pytest.approx(row.dispatch_s + (
            job.cloud_upload_s if row.server < 0 else job.upload_s[row.server]))
    homes = training.groupby(["job", "chunk"])[["server", "worker"]].nunique()
    assert (homes == 1).all(axis=None)  # a chunk stays on its worker
    edge = chunks[chunks["server"] >= 0]
    order = {(row.job, row.chunk): (jobs[row.job].weight_s, k)
             for k, row in enumerate(chunks.itertuples())}
    for row in training[training["server"] >= 0].itertuples():  # HAPRF at every instant
        there = edge[(edge["server"] == row.server) & (edge["worker"] == row.worker)]
        for other in there.itertuples():
            if order[other.job, other.chunk] < order[row.job, row.chunk]:
                overlap = min(row.end_s, other.finish_s) - max(row.start_s, other.ready_s)
                assert overlap <= 1e-9


def check_storage(result, system, workload):
    size = {job.id: job.chunk_bytes for job in workload}
    finish = dict(zip(result.jobs["job"], result.jobs["finish_s"], strict=True))
    edge = result.chunks[result.chunks["server"] >= 0]
    most = np.zeros(system.servers)
    for now in edge["dispatch_s"].unique():
        held = edge[(edge["dispatch_s"] <= now) & (edge["job"].map(finish) > now + 1e-9)]
        used = np.bincount(held["server"], held["job"].map(size), system.servers)
        assert (used <= system.storage + 1e-9).all()
        most = np.maximum(most, used)
    assert result.servers["peak_bytes"].to_numpy() == pytest.approx(most)


def check_ps(result, system):
    zeta = dict(zip(result.jobs["job"], result.jobs["zeta"], strict=True))
    held = result.ps
    assert set(held["job"]) == set(zeta)
    assert (held.loc[held["job"].map(zeta) == 1, "server"] == -1).all()
    edge = held[held["server"] >= 0]
    for (server, ps), rows in edge.groupby(["server", "ps"]):
        assert ps < len(system.ps[server])
        spans = rows.sort_values("start_s")[["start_s", "end_s"]].to_numpy()
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))
    shortages = ((held["server"] < 0) & (held["job"].map(zeta) == 0)).sum()
    assert result.summary()["ps_shortages"] == shortages


@settings(max_examples=examples(60), deadline=None)
@given(instances(equal_delays=True), st.sampled_from(["a-online", "a-online-e", "cloud-only"]))
def test_duals_agree_where_all_delays_do(instance, scheduler):
    system, workload = unlimited(instance[0]), instance[1]
    # Of one job all delays are equal; and here of all jobs.
    one = [EdgeJob(**{name: getattr(job, name) for name in job.__dataclass_fields__}
                   | {"upload_s": 1.0, "cloud_upload_s": 1.0}) for job in workload]
    found = netsim.simulate(system, one, scheduler=scheduler).summary()
    assert found["alpha_total_s"] == pytest.approx(found["beta_integral_s"], rel=1e-9)
