"""A_online and its baselines on edge-clouds, exactly."""

import itertools
import json
import math

import numpy as np
import pytest

import netsim
from netsim import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.edge.kernels import calculate_q
from netsim.schedulers.registry import make_scheduler, schedules

#: The cases count in slots of an hour.
HOUR = 3600.0

SCHEDULERS = {"A_online": "a-online", "A_online_edge_only": "a-online-e", "SRTF": "srtf",
              "Tiresias_L": "tiresias-l"}


def near(expected):
    """Return slots as seconds, up to the cases' tolerance."""
    return pytest.approx(np.asarray(expected, float) * HOUR, abs=1e-9 * HOUR, rel=0)


def instance(inputs):
    """Return the edge-cloud and the jobs of a case: with ample links, and something to upload."""
    servers = inputs["servers"]
    system = EdgeCloud([each["worker_types"] for each in servers], edge_links=1e12, wan=1e12,
                       storage=[each.get("storage_megabytes", math.inf) * 1e6 for each in servers])
    return system, EdgeWorkload([job_of(each) for each in inputs["jobs"]])


def job_of(given):
    return EdgeJob(
        id=given["job"], arrival_s=given["arrival_slots"] * HOUR, chunks=given["chunks"],
        minibatches=given["minibatches_per_chunk"], epochs=given["epochs"],
        compute_s=given["compute_and_update_time_per_minibatch_slots"] * HOUR,
        gradient_bytes=given["exchange_time_per_minibatch_slots"] * HOUR / 2, bandwidth=1,
        worker_type=given["worker_type"], gang=given["workers_required_by_gang_schedulers"],
        upload_s=[each * HOUR for each in given["upload_delay_to_server_slots"]],
        cloud_upload_s=given["upload_delay_to_cloud_slots"] * HOUR,
        chunk_bytes=given.get("chunk_size_megabytes", 1) * 1e6)


def scheduler_of(name, case):
    if name != "Tiresias_L":
        return SCHEDULERS[name]
    return {"name": "tiresias-l", "thresholds": [
        each * HOUR for each in case["tiresias_thresholds_worker_slots"]]}


#: A worker that stops in the middle of a mini-batch, as they all do with constant rates.
TRANSPORTS = ("constant", "fabric", "fabric:mode=exact:preemption=pause")


def transports_of(scheduler):
    """Return the transports that a scheduler runs on: the fabric is for those of chunks."""
    return TRANSPORTS if schedules(make_scheduler(scheduler)) == "chunks" else TRANSPORTS[:1]


def check_case(path):
    case = json.loads(path.read_text())
    system, workload = instance(case["inputs"])
    assert case["expected"]
    for name, expected in case["expected"].items():
        scheduler = scheduler_of(name, case)
        for transport in transports_of(scheduler):
            result = netsim.simulate(system, workload, scheduler=scheduler, transport=transport)
            check_totals(result.summary(), expected)
            check_jobs(result, expected["jobs"])
            if "chunks" in expected:
                check_chunks(result, expected["chunks"])


def test_schedules(aonline_schedule_case):
    check_case(aonline_schedule_case)


def test_storage(aonline_storage_case):
    check_case(aonline_storage_case)


def check_totals(summary, expected):
    for name, key in (("jct_total_s", "total_jct_slots"), ("makespan_s", "makespan_slots"),
                      ("alpha_total_s", "sum_of_alpha_slots"),
                      ("beta_integral_s", "integral_of_beta_over_all_workers_slots"),
                      ("communication_s", "communication_time_slots")):
        if key in expected:
            assert summary[name] == near(expected[key]), name
    for name, key in (("preemptions", "preemptions"), ("preemptions", "preemptions_jobs"),
                      ("preempted_workers", "preemptions_workers"), ("migrations", "migrations")):
        if key in expected:
            assert summary[name] == expected[key], key


def check_jobs(result, jobs):
    rows = result.jobs.set_index("job")
    for job in jobs:
        row = rows.loc[job["job"]]
        assert row["finish_s"] == near(job["completion_slots"])
        assert row["jct_s"] == near(job["jct_slots"])
        if "zeta" in job:
            assert row["zeta"] == job["zeta"]
            assert row["cloud_chunks"] == job["chunks_on_cloud"]
            assert row["chunks"] - row["cloud_chunks"] == job["chunks_on_edge"]
            held = result.ps[result.ps["job"] == job["job"]]
            assert held[["start_s", "end_s"]].to_numpy() == near(
                job["parameter_server_intervals_slots"])
            if job["parameter_server_side"] == "cloud":
                assert (held["server"] == -1).all()
        else:
            check_gang(result.training[result.training["job"] == job["job"]],
                       job["training_intervals"])


def check_gang(training, expected):
    found = [(start, end, sorted(zip(rows["server"], rows["worker"], strict=True)))
             for (start, end), rows in training.groupby(["start_s", "end_s"])]
    assert len(found) == len(expected)
    for (start, end, workers), each in zip(found, expected, strict=True):
        assert (start, end) == near([each["start_slots"], each["end_slots"]])
        assert workers == sorted((held["server"], held["worker"]) for held in each["workers"])


def check_chunks(result, chunks):
    rows = result.chunks.set_index(["job", "chunk"])
    training = dict(list(result.training.groupby(["job", "chunk"])))
    assert len(rows) == len(chunks)
    for chunk in chunks:
        key = chunk["job"], chunk["chunk"]
        row = rows.loc[key]
        cloud = chunk["server"] == "cloud"
        assert row["server"] == (-1 if cloud else chunk["server"]), key
        assert row["worker"] == (-1 if cloud else chunk["worker"]), key
        assert row["alpha_s"] == near(chunk["Q_at_selection_slots"]), key
        assert row["t_star_s"] == near(chunk["t_star_at_selection_slots"]), key
        assert row["finish_s"] == near(chunk["finish_slots"]), key
        assert row["preemptions"] == chunk["times_preempted"], key
        assert training[key][["start_s", "end_s"]].to_numpy() == near(
            chunk["training_intervals_slots"]), key


def test_speed_augmentation(aonline_speed_case):
    case = json.loads(aonline_speed_case.read_text())
    system, workload = instance(case["inputs"])
    for name, transport in itertools.product(case["expected"], TRANSPORTS):
        expected = case["expected"][name]
        result = netsim.simulate(system, workload, epsilon=float(name.removeprefix("epsilon_")),
                                 transport=transport)
        assert result.jobs["jct_s"].to_numpy() == near(expected["jct_slots"])
        assert result.summary()["jct_total_s"] == near(expected["total_jct_slots"])
        assert result.summary()["preemptions"] == expected["preemptions"]
        assert result.jobs["cloud_chunks"].tolist() == expected["chunks_on_cloud"]


def test_batches(aonline_batching_case):
    case = json.loads(aonline_batching_case.read_text())
    system, workload = instance(case["inputs"])
    for mode, expected in case["expected"].items():
        result = netsim.simulate(system, workload,
                                 scheduler={"name": "batch", "mode": mode, "first": 4})
        assert result.jobs["jct_s"].to_numpy() == near(expected["jct_slots"])
        assert result.summary()["jct_total_s"] == near(expected["total_jct_slots"])
        assert result.summary()["cloud_jobs"] == expected["cloud_jobs"]


def test_processing_capacity(aonline_processing_case):
    for case in json.loads(aonline_processing_case.read_text())["cases"]:
        given, expected = case["inputs"], case["expected"]
        slot = given["slot_length_hours"] * HOUR
        job = EdgeJob(
            id=0, chunks=given["chunks"], minibatches=given["minibatches_per_chunk"],
            epochs=given["epochs"], compute_s=f"{given['compute_time_per_minibatch_hours']}h",
            update_s=f"{given['parameter_update_time_milliseconds']}ms",
            gradient_bytes=f"{given['gradient_size_megabytes']}MB",
            bandwidth=f"{given['reserved_bandwidth_megabits_per_second']}Mbps")
        found = {"minibatches_per_slot_zeta_0": job.batches * slot / job.p0_s,
                 "minibatches_per_slot_zeta_1": job.batches * slot / job.p1_s,
                 "chunk_processing_time_zeta_0_slots": job.p0_s / slot,
                 "chunk_processing_time_zeta_1_slots": job.p1_s / slot,
                 "exchange_time_per_minibatch_seconds": job.exchange_s,
                 "haprf_rate_zeta_0_per_slot": job.gamma * slot}
        assert found == pytest.approx(expected, rel=1e-9)


def test_q_values(aonline_q_case):
    cases = json.loads(aonline_q_case.read_text())["cases"]
    assert cases
    for case in cases:
        given, expected = case["inputs"], case["expected"]
        queue = given["queue_at_decision_time_in_dispatch_order"]
        weight = np.array([each["owner_job_chunks"] * each["full_processing_time_slots"]
                           for each in queue], float)
        chunks, p = given["new_job_chunks"], float(given["new_chunk_processing_time_slots"])
        q, start = calculate_q(
            np.argsort(weight, kind="stable"), len(queue),
            np.array([each["remaining_processing_time_slots"] for each in queue], float),
            np.array([each["data_ready_time_slots"] for each in queue], float), weight,
            np.array([1 / each["owner_job_chunks"] for each in queue]),
            float(given["decision_time_slots"]), float(given["upload_delay_slots"]), p, chunks,
            chunks * p, np.empty(len(queue)))
        assert q == pytest.approx(expected["Q_slots"], abs=1e-9), case["title"]
        assert given["decision_time_slots"] + start == pytest.approx(
            expected["t_star_slots"], abs=1e-9)
