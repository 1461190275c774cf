"""A-SRPT and its baselines: virtual machines and whole schedules, exactly."""

import json

import numpy as np
import pytest

import netsim
from netsim import Cluster, History, JobSpec, ModelStage, ParallelModel, Workload
from netsim.models.mapping import Mapper
from netsim.models.servers import ServerKind
from netsim.schedulers.a_srpt import VirtualMachine

#: Iterations of the cases have one decimal, those of jobs none: so many times as many, as fast.
SCALE = 10

SCHEDULERS = {"A-SRPT": "a-srpt", "SPJF": "spjf", "SPWF": "spwf", "WCS-Duration": "wcs-duration",
              "WCS-Workload": "wcs-workload", "WCS-SubTime": "wcs-subtime"}


def model_of(config):
    return ParallelModel([
        ModelStage(stage["replicas"], stage["forward_s"] / SCALE, stage["backward_s"] / SCALE,
                   stage["in_bytes_per_replica"] / SCALE, stage["out_bytes_per_replica"] / SCALE,
                   stage["param_bytes"] / SCALE)
        for stage in config["stages"]], {"double_tree": "tree"}.get(*[config["allreduce"]] * 2),
        config["name"])


def setting_of(case):
    """Return the cluster and the jobs; each is a group of its own, with a history of one job."""
    given = case["cluster"]
    cluster = Cluster(given["servers"], given["gpus_per_server"], given["nic_bytes_per_s"],
                      given["intra_server_bytes_per_s"])
    models = {config["name"]: model_of(config) for config in case["configs"]}
    jobs, known = [], {}
    for job in case["jobs"]:
        count = round(job["iterations"] * SCALE)
        assert count == pytest.approx(job["iterations"] * SCALE)
        jobs.append(JobSpec(job["id"], arrival_s=job["submit_s"], iterations=count,
                            model=models[job["config"]], group=job["id"], user=0))
        if job["predicted_iterations"]:
            known[job["id"]] = job["predicted_iterations"] * SCALE
    history = History(list(known), [0] * len(known), list(known.values()))
    return cluster, Workload(jobs, history=history), models


def policies_of(name):
    """Return the scheduler and the placement of a run of a case, such as "SPJF servers=most"."""
    words = name.split()
    scheduler = {"name": SCHEDULERS[words[0]]}
    if scheduler["name"] != "wcs-subtime":
        scheduler["predictor"] = "mean"
    placement = None
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "tau":
            scheduler["tau"] = float(value)
        else:
            placement = {"name": "mapped", "servers": value}
    return scheduler, placement


def test_schedules(asrpt_schedules_case):
    given = json.loads(asrpt_schedules_case.read_text())
    tolerance = {"abs": given["tolerance_absolute_s"], "rel": 1e-9}
    assert given["cases"]
    for case in given["cases"]:
        cluster, workload, models = setting_of(case)
        check_derived(case, cluster, models)
        for name, expected in case["expected"].items():
            scheduler, placement = policies_of(name)
            result = netsim.simulate(cluster, workload, scheduler=scheduler, placement=placement,
                                     execution="asrpt")
            check(result, expected, workload, tolerance, f"{case['name']}: {name}")


def check_derived(case, cluster, models):
    kind = ServerKind(int(cluster.gpus[0]), cluster.nic, cluster.intra)
    for name, derived in case["derived_by_config"].items():
        most, least = Mapper(kind).extremes(models[name])
        assert (most * SCALE, least * SCALE) == pytest.approx(
            (derived["alpha_max_s"], derived["alpha_tilde_min_s"]), rel=1e-9)


def check(result, expected, workload, tolerance, what):
    rows = result.jobs.set_index("job")
    specs = {job.id: job for job in workload}
    for job in expected["schedule"]:
        row, spec = rows.loc[job["id"]], specs[job["id"]]
        assert row["start_s"] == pytest.approx(job["start_s"], **tolerance), what
        assert row["finish_s"] == pytest.approx(job["end_s"], **tolerance), what
        alpha = (row["finish_s"] - row["start_s"]) / spec.iterations * SCALE
        assert alpha == pytest.approx(job["per_iteration_s"], rel=1e-6), what
        held = result.gpus[result.gpus["job"] == job["id"]]
        assert dict(held["server"].value_counts()) == {
            each["server"]: each["gpus"] for each in job["servers"]}, what
    finish = result.jobs["finish_s"]
    assert finish.sum() == pytest.approx(expected["total_completion_s"], abs=1e-5)
    assert result.jobs["jct_s"].sum() == pytest.approx(expected["total_flow_s"], abs=1e-5)
    assert finish.max() == pytest.approx(expected["makespan_s"], **tolerance)


def test_virtual_machines(asrpt_virtual_case):
    given = json.loads(asrpt_virtual_case.read_text())
    assert given["cases"]
    for case in given["cases"]:
        ends = served([(job["id"], job["submit_s"], job["size_s"]) for job in case["jobs"]])
        expected = case["expected"]
        assert list(ends) == expected["completion_order"], case["name"]
        assert list(ends.values()) == pytest.approx(expected["completion_s"], abs=1e-9)
        assert sum(ends.values()) == pytest.approx(expected["total_completion_s"], abs=1e-9)


def served(jobs):
    """Return when each job completes, in order of completion."""
    machine, ends = VirtualMachine(), {}
    arrivals = sorted(jobs, key=lambda job: (job[1], job[0]))
    instants = {arrival for _, arrival, _ in jobs}
    while instants:
        now = min(instants)
        instants.discard(now)
        ends |= dict.fromkeys(machine.completed(now), now)
        while arrivals and arrivals[0][1] <= now:
            job, arrival, size = arrivals.pop(0)
            machine.arrive(arrival, job, size)
        ends |= dict.fromkeys(machine.completed(now), now)
        if machine.next_completion < np.inf:
            instants.add(machine.next_completion)
    return ends
