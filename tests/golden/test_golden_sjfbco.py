"""Ring-all-reduce jobs under contention: iteration times, exits and whole schedules, exactly."""

import json
import math

import pytest

from netsim import JobSpec
from netsim.cluster import Cluster, Contention
from netsim.cluster.contention import RunningJobs
from netsim.placements.placement import FirstFit, LeastLoaded
from netsim.schedulers.sjf_bco import FF, LS, RAND, SjfBco


def cases_of(path, key="cases"):
    cases = json.loads(path.read_text())[key]
    assert cases
    return cases


def cluster_of(case):
    given = case["parameters"]
    return Cluster(gpus=case["gpus_per_server"], nic=given["inter_server_bytes_per_s"],
                   intra=given["intra_server_bytes_per_s"])


def model_of(case, time="slotted"):
    given = case["parameters"]
    return Contention(alpha=given["alpha"], xi1=given["xi1"], xi2=given["xi2_s_per_server"],
                      k_min=given["k_min"], reduce=given["reduce_bytes_per_s"],
                      slot=given["slot_s"], time=time)


def jobs_of(listed):
    return [JobSpec(id=place, name=job["job"], pattern="ring-all-reduce", ranks=job["gpus"],
                    nbytes=job["gradient_bytes"], compute_s=job["compute_s"],
                    iterations=job["iterations"], estimate_s=job.get("estimated_time_slots"))
            for place, job in enumerate(listed)]


def test_iterations(sjfbco_tau_case):
    for case in cases_of(sjfbco_tau_case):
        check_iterations(case)


def check_iterations(case):
    cluster, model, jobs = cluster_of(case), model_of(case), jobs_of(case["running_jobs"])
    iterations = model.of(cluster, jobs)
    running = RunningJobs(iterations, cluster, jobs)
    for place, job in enumerate(case["running_jobs"]):
        running.start(place, map(int, job["gpus_on_server"]))
    for place, expected in enumerate(case["expected"]):
        assert running.seconds(place) == pytest.approx(expected["tau_s"], rel=1e-9)
        assert iterations.per_slot(running.seconds(place)) == expected["iterations_per_slot"]
        assert iterations.least[place] == pytest.approx(expected["tau_lower_bound_s"], rel=1e-9)
        assert iterations.most[place] == pytest.approx(expected["tau_upper_bound_s"], rel=1e-9)


@pytest.mark.parametrize("time", ["slotted", "continuous"])
def test_exits(sjfbco_timeline_case, time):
    for case in cases_of(sjfbco_timeline_case):
        check_exits(case, time)


def check_exits(case, time):
    cluster, jobs = cluster_of(case), jobs_of(case["jobs"])
    running = RunningJobs(model_of(case, time).of(cluster, jobs), cluster, jobs)
    for place, job in enumerate(case["jobs"]):
        assert job["start_slot"] == 0
        running.start(place, sorted({gpu["server"] for gpu in job["placed_on"]}))
    found = {}
    while len(running):
        done = running.to_next_exit()
        found |= {jobs[place].name: running.now for place in done}
    expected = case["expected_end_slot_slotted" if time == "slotted"
                    else "expected_end_s_continuous"]
    assert found == pytest.approx(expected, rel=1e-9)


def check_plan(plan, case, cluster, expected, slotted=True):
    """Starts, ends and GPUs as expected: exactly in slots, to 1e-9 in seconds."""
    names = [job["job"] for job in case["jobs"]]
    for job in expected["jobs"]:
        place = names.index(job["job"])
        unit = "slot" if slotted else "second"
        times = (plan.start_s[place], plan.end_s[place])
        wanted = (job[f"start_{unit}"], job[f"end_{unit}"])
        assert times == (wanted if slotted else pytest.approx(wanted, rel=1e-9)), job["job"]
        if "placed_on" in job:
            assert sorted(plan.gpus[place].tolist()) == sorted(
                int(cluster.first[gpu["server"]]) + gpu["gpu"] for gpu in job["placed_on"])
    unit = "slots" if slotted else "seconds"
    assert plan.makespan_s == pytest.approx(expected[f"makespan_{unit}"], rel=1e-9)
    assert plan.end_s.mean() == pytest.approx(expected[f"average_completion_{unit}"], rel=1e-9)
    if "accumulated_time_slots" in expected:
        assert plan.load.tolist() == pytest.approx(
            [load for server in expected["accumulated_time_slots"] for load in server])


def test_one_run(sjfbco_schedule_case):
    for case in cases_of(sjfbco_schedule_case):
        check_runs(case)


def check_runs(case):
    cluster, jobs = cluster_of(case), jobs_of(case["jobs"])
    assert case["runs_at_fixed_limit"]
    for run in case["runs_at_fixed_limit"]:
        assert run["policy"] == "SJF-BCO"
        scheduler = SjfBco(lam=run["lam"], availability=run["availability"])
        planner = scheduler.planner(cluster, jobs, model_of(case, run["time"]))
        plan = scheduler.plan_at(planner, run["limit_slots"], run["kappa"])
        assert (plan is not None) == run["expected"]["feasible"]
        if plan is not None:
            check_plan(plan, case, cluster, run["expected"], run["time"] == "slotted")


def test_searches(sjfbco_schedule_case):
    for case in cases_of(sjfbco_schedule_case):
        check_searches(case)


def check_searches(case):
    cluster, jobs = cluster_of(case), jobs_of(case["jobs"])
    assert case["runs_with_search"]
    for run in case["runs_with_search"]:
        options = {"horizon": run["horizon_slots"], "availability": run["availability"],
                   "search": run["search"]}
        if run["policy"] == "SJF-BCO":
            scheduler = SjfBco(lam=run["lam"], **options)
        else:
            scheduler = {"FF": FF, "LS": LS}[run["policy"]](order=run["job_order"], **options)
        model = model_of(case, run["time"])
        plan = scheduler.plan(cluster, jobs, model)
        check_plan(plan, case, cluster, run["expected"], run["time"] == "slotted")
        assert plan.limit == run["chosen_limit_slots"]
        assert plan.kappa == run.get("chosen_kappa")
        check_trace(scheduler, scheduler.planner(cluster, jobs, model), run)


def check_trace(scheduler, planner, run):
    """The makespans under each limit that the search tries."""
    for step in run["search_trace"]:
        limit = step["limit_slots"]
        if run["policy"] == "SJF-BCO":
            plans = {kappa: scheduler.plan_at(planner, limit, int(kappa))
                     for kappa in step["makespan_slots_by_kappa"]}
            assert {kappa: None if plan is None else plan.makespan_s
                    for kappa, plan in plans.items()} == step["makespan_slots_by_kappa"]
        else:
            placement = FirstFit() if run["policy"] == "FF" else LeastLoaded()
            plan = scheduler.plan_at(planner, limit, placement)
            found = math.inf if plan is None else plan.makespan_s
            assert min(found, run["horizon_slots"]) == step["best_makespan_slots_or_horizon"]


@pytest.mark.parametrize("seed", range(5))
def test_random_placement(sjfbco_schedule_case, seed):
    for case in cases_of(sjfbco_schedule_case, "random_policy_cases"):
        cluster, jobs = cluster_of(case), jobs_of(case["jobs"])
        scheduler = RAND(horizon=case["limit_slots"], order=case["job_order"])
        plan = scheduler.plan(cluster, jobs, model_of(case, case["time"]), seed)
        check_plan(plan, case, cluster, case["expected"])
