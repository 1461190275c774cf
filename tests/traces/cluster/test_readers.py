"""What is read of each format, and what is dropped on the way, worked out by hand."""

from __future__ import annotations

import inspect
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.errors import InputError
from netsim.traces import check_trace, format_of
from netsim.traces.cluster import (
    ClusterJobs,
    gpu_v2023_nodes,
    helios_jobs,
    pai_jobs,
    pai_sample_jobs,
)
from netsim.traces.cluster.readers import GPU_TRACES

READ = {name: trace.jobs for name, trace in GPU_TRACES.items()}


def columns(jobs: ClusterJobs) -> list[list[Any]]:
    return [getattr(jobs, name).tolist()
            for name in ("submit_s", "duration_s", "gpus", "group", "user")]


#: The columns submit_s, duration_s, gpus, group, user; then what is dropped, and noted.
EXPECTED = {
    # Jobs 15, 11, 12, 22 in order of submission; 07:59:00 is the origin.
    "helios": ([0, 60, 360, 86460], [610, 600, 3600, 605], [1, 1, 8, 1], [0, 0, 1, 0],
               [0, 0, 0, 0],
               {"no submission time": 1, "did not finish": 2,
                "failed or was cancelled": 3, "requested no GPU": 1, "no running time": 1}, {}),
    # Jobs 2, 1, 6, 9; 00:09 in Shanghai is 16:09 UTC, and job 2 is of Pretrain.
    "acme": ([0, 60, 360, 28260], [3600, 600, 605, 100], [32, 8, 8, 1], [1, 0, 0, 7], [0, 0, 0, 2],
             {"no submission time": 1, "did not finish": 1, "failed or was cancelled": 1,
              "requested no GPU": 1, "no running time": 1}, {}),
    # Jobs 2, 1, 4 (which got 16 processors) and 5; of its parts, one has no time of submission.
    "swf": ([0, 60, 260, 360], [60, 600, 30, 1200], [4, 8, 16, 8], [1, 0, 3, 0], [0, 0, 1, 0],
            {"no submission time": 2, "did not finish": 2, "failed or was cancelled": 1,
             "requested no GPU": 1, "no running time": 1}, {}),
    # Jobs 1, 0, 2, 4, 5, 9: 4 x 2 GPUs, 3 x 0.25 rounded up.
    "pai-100k": ([0, 60, 120, 140, 150, 190], [600, 60, 7200, 90, 62, 610], [1, 1, 8, 1, 1, 1],
                 [1, 0, 2, 4, 0, 7], [1, 0, 1, 2, 0, 1],
                 {"no submission time": 1, "did not finish": 1, "requested no GPU": 1,
                  "no running time": 1}, {"a fraction of a GPU, rounded up": 3}),
    # Pods c, a, b, d.
    "gpu-v2023": ([0, 100, 200, 300], [90000, 3990, 600, 599], [8, 1, 1, 1], [2, 0, 1, 1],
                  [0, 0, 0, 0],
                  {"no submission time": 1, "did not finish": 2,
                   "failed or was cancelled": 1, "requested no GPU": 1, "no running time": 1},
                  {"a fraction of a GPU, rounded up": 2}),
    # Applications 1 (GPUs of its first attempt), 3 and 10.
    "philly": ([0, 540, 86940], [3600, 600, 620], [6, 1, 1], [0, 2, 2], [0, 1, 1],
               {"no submission time": 1, "no attempt": 1, "did not finish": 1,
                "failed or was cancelled": 2, "requested no GPU": 1, "no running time": 1}, {}),
    # Jobs 2 (tag-y), 1 (tag-x), 10 (no tag: past both tags, by its user).
    "pai": ([0, 100, 1100], [4000, 600, 690], [4, 1, 1], [1, 0, 2], [1, 0, 0],
            {"duplicate job_name": 1, "no submission time": 1,
             "did not finish": 3, "failed or was cancelled": 1, "requested no GPU": 1,
             "no running time": 1}, {"a fraction of a GPU, rounded up": 1}),
    "tiresias-cluster": ([0, 25, 40, 80, 100, 150], [80, 100, 100, 50, 60, 130],
                         [1, 2, 4, 1, 8, 1], [0, 1, 2, 3, 4, 5], [0] * 6,
                         {"requested no GPU": 0, "no running time": 0}, {}),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_left_and_what_is_dropped(trace, name: str) -> None:
    jobs = READ[name](trace(name))
    *expected, dropped, notes = EXPECTED[name]
    assert columns(jobs) == expected
    assert (jobs.dropped, jobs.notes) == (dropped, notes)
    assert jobs.read == len(jobs) + sum(dropped.values())


@pytest.mark.parametrize(("name", "more"), [("helios", [16, 4, 2]), ("acme", [16]), ("swf", [2]),
                                            ("gpu-v2023", [1]), ("philly", [1, 2]), ("pai", [2])])
def test_failed_jobs_are_kept_if_asked_for(trace, name: str, more: list[int]) -> None:
    few, many = READ[name](trace(name)), READ[name](trace(name), failed=True)
    assert many.dropped["failed or was cancelled"] == 0
    assert sorted(many.gpus.tolist()) == sorted(few.gpus.tolist() + more)
    with pytest.raises(InputError, match="failed must be true or false, not 1"):
        READ[name](trace(name), failed=1)


@pytest.mark.parametrize("name", READ)
def test_a_reader_of_workloads_has_the_options_of_that_of_jobs(name: str) -> None:
    """And is found again by its name, as workers that unpickle it do."""
    read = format_of(name).read
    path, *own = inspect.signature(READ[name]).parameters
    assert [*inspect.signature(read).parameters] == [path, "seed", *own, "construction"]
    assert pickle.loads(pickle.dumps(read)) is read


@pytest.mark.parametrize("change", [
    lambda text: text.replace(",", ";"), lambda text: text.replace(",", "\t"),
    lambda text: "\n" + text.replace(",", ";"),
    lambda text: text.replace(",", ", "), lambda text: text.replace(",", " ,"),
    lambda text: re.sub(r"(\d) (\d)", r"\1T\2", text)])
@pytest.mark.parametrize("name", ["helios", "pai-100k"])
def test_how_tables_are_written(trace, tmp_path: Path, name: str, change) -> None:
    """With other separators, spaces around cells, and instants of ISO 8601."""
    path = tmp_path / "other.csv"
    path.write_text(change(Path(trace(name)).read_text()))
    *expected, dropped, _ = EXPECTED[name]
    jobs = READ[name](path)
    assert (columns(jobs), jobs.dropped) == (expected, dropped)


@pytest.mark.parametrize(("ends", "submit_s"), [
    (("", ""), [0, 60]), (("Z", "+00:00"), [0, 60]), (("+08:00", "+08:00"), [0, 60]),
    (("+08:00", "+07:59"), [0, 120]), (("-05:30", "-05:31"), [0, 120]), (("", "+00:01"), [0, 0])])
def test_times_may_have_an_offset_from_utc(trace, tmp_path: Path, ends, submit_s) -> None:
    """The second job is submitted a minute after the first, by clocks that may differ."""
    rows = Path(trace("helios")).read_text().splitlines()
    path = tmp_path / "h.csv"
    path.write_text("\n".join((rows[0], *(
        f"{k},u,v,1,4,1,COMPLETED,2020-04-01 08:0{k}:00{end},2020-04-01 09:00:00,"
        "2020-04-01 09:10:00,600,0" for k, end in enumerate(ends)))))
    assert helios_jobs(path).submit_s.tolist() == submit_s


def test_instances_tell_starts_and_ends_more_exactly(trace) -> None:
    """Job 2: its workers from 970 to 4940. Job 10's instance has no end, so its task counts."""
    jobs = pai_jobs(trace("pai"), instances=True)
    assert columns(jobs)[:3] == [[0, 100, 1100], [3970, 580, 690], [4, 1, 1]]


def test_a_group_of_the_sample_where_it_has_some(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("group,num_inst,submit_time,num_gpu,gpu_type,duration,user,other\n"
                    "g,1,0,1,T4,5,u,x\ng,2,1,1,T4,5,v,x\n,1,2,1,T4,5,u,x\n,1,3,1,T4,6,u,x\n")
    assert pai_sample_jobs(path).group.tolist() == [0, 0, 1, 1]


def test_nodes() -> None:
    nodes = gpu_v2023_nodes(Path(__file__).parent / "nodes.csv")
    assert nodes.gpus.tolist() == [0, 8, 2, 8]
    assert nodes.model == ("", "G2", "P100", "G2")
    assert (len(nodes), nodes.name[0], nodes.sizes()) == (4, "node-a", {0: 1, 2: 1, 8: 2})


def test_headers_of_pai_are_read_where_they_are(trace, tmp_path: Path) -> None:
    """In another order; or in the table itself; or nowhere, and so as published."""
    folder = tmp_path / "pai"
    shutil.copytree(trace("pai").parent, folder)
    expected = columns(pai_jobs(folder / "pai_job_table.csv"))
    (folder / "pai_job_table.header").unlink()
    assert columns(pai_jobs(folder / "pai_job_table.csv")) == expected
    tags = folder / "pai_group_tag_table.csv"
    tags.write_text("inst_id,user,gpu_type_spec,group,workload\n" + tags.read_text())
    assert columns(pai_jobs(folder / "pai_job_table.csv")) == expected
    tags.write_text("tag-x,inst-1\ntag-y,inst-2\n")
    tags.with_suffix(".header").write_text("group,inst_id\n")
    assert columns(pai_jobs(folder / "pai_job_table.csv")) == expected


def test_check_says_what_was_dropped(trace) -> None:
    report = check_trace(trace("helios"), "helios", train=0)
    facts = dict(report.facts)
    assert facts["jobs in the trace"] == 12
    assert facts["dropped: failed or was cancelled"] == 3
    assert (facts["jobs"], facts["jobs of the history"], facts["groups"]) == (4, 0, 2)
    assert (facts["GPUs per job, most"], facts["jobs on one GPU (%)"]) == (8, 75)
    assert facts["last arrival (s)"] == 86460
    assert dict(check_trace(trace("pai"), "pai", train=0).facts)[
        "kept: a fraction of a GPU, rounded up"] == 1


def test_large_tables_are_the_same_in_chunks(tmp_path: Path) -> None:
    """Over several chunks, with rows out of order of submission."""
    count = 40_000
    path = tmp_path / "big.csv"
    rows = "".join(f"1,{(k * 7919) % count},{1 + k % 3},T4,{1 + k % 11},u{k % 17}\n"
                   for k in range(count))
    path.write_text("num_inst,submit_time,num_gpu,gpu_type,duration,user\n" + rows)
    jobs = pai_sample_jobs(path)
    k = np.arange(count)
    order = np.argsort((k * 7919) % count)
    assert np.array_equal(jobs.submit_s, np.arange(count))
    assert np.array_equal(jobs.gpus, (1 + k % 3)[order])
    assert np.array_equal(jobs.duration_s, (1 + k % 11)[order])
    assert np.array_equal(jobs.user, (k % 17)[order])
    assert len(np.unique(jobs.group)) == 3 * 17


def test_large_pai_tables_are_joined_as_by_dictionaries(tmp_path: Path) -> None:
    """20,000 jobs, over chunks, in another order in each table, with rows of no job."""
    rng = np.random.default_rng(1)
    count = 20_000
    tasks = rng.integers(0, count + 50, 30_000)
    start, run = rng.integers(1, 10**6, len(tasks)), rng.integers(-5, 500, len(tasks))
    number, percent = rng.integers(1, 4, len(tasks)), rng.choice([0, 25, 50, 100, 200], len(tasks))
    (tmp_path / "pai_job_table.csv").write_text("".join(
        f"job{k},inst{k},user{k % 37},Terminated,{1 + k}.0,\n" for k in range(count)))
    (tmp_path / "pai_task_table.csv").write_text("".join(
        f"job{k},worker,{n}.0,Terminated,{s}.0,{s + r}.0,600.0,1.0,{p}.0,T4\n"
        for k, n, s, r, p in zip(tasks, number, start, run, percent, strict=True)))
    tagged = rng.permutation(count)[:15_000]
    (tmp_path / "pai_group_tag_table.csv").write_text("".join(
        f"inst{k},user{k % 37},,tag{k % 611},\n" for k in tagged))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    shares: dict[int, float] = {}
    for k, n, s, r, p in zip(tasks.tolist(), number, start, run, percent, strict=True):
        first[k], last[k] = min(first.get(k, s), s), max(last.get(k, s + r), s + r)
        shares[k] = shares.get(k, 0) + n * p / 100
    kept = [k for k in range(count) if shares.get(k, 0) > 0 and last[k] > first[k]]
    jobs = pai_jobs(tmp_path / "pai_job_table.csv")
    assert jobs.submit_s.tolist() == [k - kept[0] for k in kept]
    assert jobs.duration_s.tolist() == [last[k] - first[k] for k in kept]
    assert jobs.gpus.tolist() == [int(np.ceil(shares[k])) for k in kept]
    assert jobs.user.tolist() == [k % 37 for k in kept]
    tags = set(tagged.tolist())
    names = [("tag", k % 611) if k in tags else ("user", k % 37) for k in kept]
    pairs = set(zip(names, jobs.group.tolist(), strict=True))
    assert len(pairs) == len(set(names)) == len(set(jobs.group.tolist()))
