"""PAI's and Philly's files as the workload of A-SRPT's evaluation, and its testbed.

The files are of their published form, written here from drawn jobs.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netsim
from netsim.traces import read_workload
from netsim.traces.cluster import ClusterJobs, recurrent_jobs

#: The workload of the paper's simulations, but for the format, the file and the sample.
PAPER = {"train": 0.8, "max_gpus": 64, "gpu": "v100", "configurations": "planned"}

POLICIES = ("a-srpt:tau=100", "a-srpt-perfect", "spjf", "spwf:servers=most", "wcs-duration",
            "wcs-workload:servers=most", "wcs-subtime")

DRAWN = recurrent_jobs(400, seed=6, mean_interarrival="20s")
FIRST = datetime(2017, 10, 7, 1, 0, 0)


def write_pai(folder: Path, jobs: ClusterJobs) -> Path:
    """Write three tables of PAI without headers: a task per job, of as many instances as GPUs."""
    tables: dict[str, list[str]] = {"job": [], "task": [], "group_tag": []}
    for k, (submit, lasts) in enumerate(zip(jobs.submit_s + 100, jobs.duration_s, strict=True)):
        tables["job"].append(f"job-{k},inst-{k},user-{jobs.user[k]},Terminated,{submit},"
                             f"{submit + lasts}")
        tables["task"].append(f"job-{k},worker,{jobs.gpus[k]}.0,Terminated,{submit},"
                              f"{submit + lasts},600.0,29.3,100.0,V100")
        tables["group_tag"].append(f"inst-{k},user-{jobs.user[k]},V100,tag-{jobs.group[k]},nmt")
    for name, rows in tables.items():
        (folder / f"pai_{name}_table.csv").write_text("\n".join(rows) + "\n")
    return folder / "pai_job_table.csv"


def write_philly(folder: Path, jobs: ClusterJobs) -> Path:
    """Write a ``cluster_job_log``, with times in whole seconds; a server holds eight GPUs."""
    entries = []
    for submit, lasts, gpus, group, user in zip(
            jobs.submit_s.tolist(), jobs.duration_s.tolist(), jobs.gpus.tolist(),
            jobs.group.tolist(), jobs.user.tolist(), strict=True):
        start = FIRST + timedelta(seconds=round(submit))
        end = start + timedelta(seconds=max(1, round(lasts)))
        detail = [{"ip": f"m{server}", "gpus": [f"gpu{k}" for k in range(min(8, gpus - server))]}
                  for server in range(0, gpus, 8)]
        entries.append({"status": "Pass", "vc": f"vc-{group}", "user": f"user-{user}",
                        "jobid": f"application-{len(entries)}", "submitted_time": str(start),
                        "attempts": [{"start_time": str(start), "end_time": str(end),
                                      "detail": detail}]})
    path = folder / "cluster_job_log"
    path.write_text(json.dumps(entries))
    return path


WRITERS = {"pai": write_pai, "philly": write_philly}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_the_traces_form_is_the_paper_s_workload(tmp_path: Path, name: str) -> None:
    """80 % are history, and a sample of consecutive jobs of the others runs."""
    path = WRITERS[name](tmp_path, DRAWN)
    workload = read_workload(path, format=name, seed=1, sample=40, **PAPER)
    assert len(workload.history) == 320
    assert len(workload) == 40
    assert workload.jobs[0].id >= 320
    drawn = read_workload(format="recurrent", jobs=400, seed=6, mean_interarrival="20s", **PAPER)
    by_id = {job.id: job for job in drawn}
    for job in workload:
        assert job.ranks == by_id[job.id].ranks
        assert job.arrival_s == pytest.approx(by_id[job.id].arrival_s, abs=0.6)
        # What it runs is the trace's duration, whichever model it got.
        assert job.estimate_s == pytest.approx(DRAWN.duration_s[job.id], rel=0.05, abs=20)
    sizes = {len(job.model.stages) for job in workload if job.ranks > 1}
    assert len(sizes) > 2


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("name", WRITERS)
def test_shares_of_jobs_on_one_gpu_on_a_file(tmp_path: Path, name: str, share: float) -> None:
    path = WRITERS[name](tmp_path, DRAWN)
    workload = read_workload(path, format=name, seed=1, single_gpu_share=share, **PAPER)
    every = read_workload(path, format=name, seed=1, single_gpu_share=share, **{**PAPER,
                                                                               "train": 0})
    assert np.mean([job.ranks == 1 for job in every]) == pytest.approx(share, abs=0.01)
    assert [job.ranks for job in workload] == [job.ranks for job in every][320:]


@pytest.mark.parametrize("name", WRITERS)
def test_every_policy_of_the_paper_runs_on_a_file(tmp_path: Path, name: str) -> None:
    """All jobs end, and with what they know of the history all but the perfect one predict."""
    pytest.importorskip("sklearn")
    path = WRITERS[name](tmp_path, DRAWN)
    experiment: dict[str, Any] = {
        "execution": "asrpt", "record": ["jobs"],
        "cluster": {"servers": 8, "gpus": 8, "nic": "1Gbps", "intra": "300GB/s"},
        "workload": {"file": str(path), "format": name, "sample": 30, "single_gpu_share": 0.0,
                     **PAPER}}
    for scheduler in POLICIES:
        result = netsim.run(netsim.Experiment(**experiment, scheduler=scheduler))
        assert len(result.jobs) == 30
        assert result.jobs["jct_s"].notna().all()


def test_the_testbed_of_the_paper() -> None:
    """14 slices of H100 in one server, 128 GB/s everywhere: a job takes n alpha~_min anywhere."""
    table = {"format": "recurrent", "jobs": 600, "sample": 75, "arrival_scale": 0.1,
             "iteration_scale": 0.1, "gpus_per_server": 14, "base_nic": "1792GB/s",
             "intra": "128GB/s", **PAPER, "max_gpus": 14, "gpu": "h100-nvl-1g.12gb"}
    jobs = netsim.run(netsim.Experiment(
        execution="asrpt", record=["jobs"], scheduler="a-srpt-perfect", workload=table,
        cluster={"servers": 1, "gpus": 14, "nic": "1792GB/s", "intra": "128GB/s"})).jobs
    assert len(jobs) == 75
    assert (jobs["finish_s"] - jobs["start_s"]).tolist() == pytest.approx(
        [job.estimate_s for job in read_workload(**table)])
