"""``netsim sweep``: a table with intervals, what is missing on a second call, an exit code."""

import json
from pathlib import Path

import pandas as pd
import pytest

from netsim.cli.options import split_at_commas

VARY = ("--vary", "allocator.name=parrot,lccf:work_conservation=none",
        "--vary", "observe_interval=1ms,100ms")

RAISES = """
import netsim
class Raises(netsim.Allocator):
    def allocate(self, view):
        raise RuntimeError("out of luck")
"""


def test_a_sweep_prints_means_and_where_its_runs_are(netsim, here):
    done = netsim("sweep", "demo", "--set", "workload.jobs=5", *VARY, "--seeds", "3")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["allocator", "observe_interval", "runs", "JCT", "(s)", "bound",
                                "parrot", "below:above"]
    assert len([line for line in lines if line.startswith("lccf (work_conservation=none)")]) == 2
    assert "[" in lines[2]
    assert lines[2].split()[-2:] == ["-", "-"]  # the baseline itself
    assert lines[-2].endswith("geometric means of ratios, pair by pair, and how many are below 1 "
                              "and above")
    folder = here / lines[-1].removeprefix("results: ")
    assert folder.parent.name == "sweeps"
    runs = pd.read_csv(folder / "runs.csv")
    assert runs["seed"].tolist() == [1, 2, 3] * 4
    assert {"means.csv", "ratios.csv", "runs.csv", "sweep.json", "runs"} == {
        path.name for path in folder.iterdir()}


@pytest.mark.parametrize(("seeds", "line"), [
    ("3", "all 3 seeds give the same: nothing in this experiment is drawn"),
    ("1", "one run each")])
def test_without_a_spread_over_seeds_no_intervals_are_promised(netsim, here, seeds, line):
    done = netsim("sweep", "fig2.toml", *VARY, "--seeds", seeds)
    assert done.stdout.splitlines()[-2] == line


def test_a_second_call_keeps_what_is_there_unless_told(netsim, here):
    command = ("sweep", "fig2.toml", *VARY, "--seeds", "2", "--out", "s", "--quiet")
    assert netsim(*command).stdout == "s\n"
    before = {path: path.stat().st_mtime_ns for path in here.glob("s/runs/*/*")}
    assert netsim(*command, "--resume").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert netsim(*command, "--no-resume").exit_code == 0
    assert not any(path.stat().st_mtime_ns == before[path] for path in before)


def test_another_grid_has_another_folder_and_takes_over_runs(netsim, here):
    """Nothing of the first is touched, and no run that it has is computed again."""
    first = here / netsim("sweep", "fig2.toml", "--vary", "observe_interval=1ms,10ms", "--quiet"
                          ).stdout.strip()
    netsim("report", str(first))
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert first / "report.html" in before
    more = ("sweep", "fig2.toml", "--vary", "observe_interval=10ms,20ms")
    key = pd.read_csv(first / "runs.csv").set_index("observe_interval")["key"]["10ms"]
    summary = json.loads((first / "runs" / key / "summary.json").read_text())
    second = here / netsim(*more, "--quiet").stdout.strip()
    assert second.parent == first.parent == here / "sweeps"
    assert second != first
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before
    # Only a copy took as long as the first.
    assert json.loads((second / "runs" / key / "summary.json").read_text()) == summary
    names = {second.name, first.name}
    for other in (("--set", "observe_interval=5ms", "--vary", "allocator=parrot,lccf"),
                  ("--seeds", "2"), ("--seeds", "3"),
                  ("--vary", "observe_interval=1ms..1s", "--points", "2:method=random"),
                  ("--vary", "observe_interval=1ms..1s", "--points", "2:method=random:seed=1")):
        names.add(Path(netsim("sweep", "fig2.toml", *other, "--quiet").stdout.strip()).name)
    assert len(names) == 7
    assert netsim("sweep", "fig2.toml", "--seeds", "0,1,2", "--quiet").stdout.strip() in {
        f"sweeps/{name}" for name in names}, "three seeds are three seeds"
    # The same command keeps the report.
    assert netsim("sweep", "fig2.toml", "--vary", "observe_interval=1ms,10ms").exit_code == 0
    assert (first / "report.html").read_bytes() == before[first / "report.html"]


@pytest.mark.filterwarnings("default::netsim.NetsimWarning")
def test_tables_that_another_grid_replaces_are_told_of(netsim, here):
    netsim("sweep", "fig2.toml", "--seeds", "3", "--out", "s")
    assert netsim("sweep", "fig2.toml", "--seeds", "4", "--out", "s").stderr == ""
    assert netsim("sweep", "fig2.toml", "--seeds", "2", "--out", "s").stderr == (
        "warning: s: holds another sweep: 2 of its 4 runs are not in this one, or code has "
        "changed. Its tables (runs.csv, means.csv) are replaced, its runs stay. Give another "
        "folder to keep both\n")


def test_seeds_one_by_one(netsim, here):
    netsim("sweep", "fig2.toml", "--seeds", "7,3", "--out", "s")
    assert pd.read_csv(here / "s" / "runs.csv")["seed"].tolist() == [7, 3]


def test_policies_as_compare_takes_them(netsim, here):
    """With --vary beside it, and beside what the file varies, whose own allocators they replace."""
    policies = ("--allocator", "parrot,lccf:work_conservation=none", "--allocator", "aalo:queues=3")
    names = ["parrot", "lccf (work_conservation=none)", "aalo (queues=3)"]
    assert netsim("sweep", "fig2.toml", *policies, "--out", "a").exit_code == 0
    assert pd.read_csv(here / "a" / "runs.csv")["allocator"].tolist() == names
    assert netsim("sweep", "fig2.toml", *policies, "--vary", "until=14s,15s", "--out", "b"
                  ).exit_code == 0
    assert pd.read_csv(here / "b" / "runs.csv")["until"].tolist() == ["14s"] * 3 + ["15s"] * 3
    (here / "v.toml").write_text((here / "fig2.toml").read_text() + (
        '[sweep.vary]\n"allocator.name" = ["sebf"]\nobserve_interval = ["1ms", "10ms"]\n'))
    assert netsim("sweep", "v.toml", *policies, "--out", "c").exit_code == 0
    runs = pd.read_csv(here / "c" / "runs.csv")
    assert runs[["observe_interval", "allocator"]].to_numpy().tolist() == [
        [interval, name] for interval in ("1ms", "10ms") for name in names]


def test_values_may_hold_commas(netsim, here):
    done = netsim("sweep", "fig2.toml", "--out", "s", "--vary",
                  'allocator=aalo:thresholds=["1MB", "1GB"],{name = "parrot", theta_max = 0.6}')
    assert done.exit_code == 0
    assert pd.read_csv(here / "s" / "runs.csv")["allocator"].tolist() == [
        "aalo (thresholds=['1MB', '1GB'])", "parrot (theta_max=0.6)"]


@pytest.mark.parametrize(("values", "parts"), [
    ("1ms,10ms", ["1ms", "10ms"]), ("[[1, 2], [3]],[4]", ["[[1, 2], [3]]", "[4]"]),
    ('{a = {b = 1}, c = 2}, "x,y"', ["{a = {b = 1}, c = 2}", '"x,y"']), ("'[,',2", ["'[,'", "2"])])
def test_commas(values, parts):
    assert split_at_commas(values) == parts


def test_a_run_that_fails_is_told_of_and_the_exit_code_says_so(netsim, here, monkeypatch):
    (here / "raises_in_sweeps.py").write_text(RAISES)
    monkeypatch.syspath_prepend(here)
    done = netsim("sweep", "fig2.toml", "--out", "s", "--vary",
                  "allocator=parrot,raises_in_sweeps:Raises")
    assert done.exit_code == 1
    assert done.stderr == (
        "failed: allocator raises_in_sweeps:Raises, seed 0: RuntimeError: out of luck\n"
        "1 of 2 runs failed; more in s/failures.csv, their experiments in s/failed\n")
    assert "parrot" in done.stdout
    key = pd.read_csv(here / "s" / "failures.csv")["key"][0]
    again = netsim("run", f"s/failed/{key}.toml")
    assert again.exit_code == 1
    assert again.stderr.startswith("error: allocator Raises at 0 s of the simulation: "
                                   "RuntimeError: out of luck\n  File ")
    page = netsim("report", "s")
    assert page.exit_code == 0
    assert "out of luck" in (here / "s" / "report.html").read_text()


def test_runs_that_were_stopped_are_told_of(netsim, here):
    done = netsim("sweep", "fig2.toml", "--set", "until=14s", *VARY, "--out", "s")
    assert "4 of 4 runs were stopped before all jobs had finished: there" in done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (("--vary", "network.capacity"), "'network.capacity' is nothing to vary; write it as key"),
    (("--vary", "network.capacity="), "is nothing to vary"),
    (("--vary", "allocator=parrot", "--vary", "allocator=lccf"), "is varied already"),
    (("--vary", "allocator=parrot,,lccf"), "'parrot,,lccf' has a value that is empty"),
    (("--vary", "allocater=parrot"), "unknown key 'allocater'"),
    (("--seeds", "x"), "--seeds must be a number, or a list such as 3,5,8, not 'x'"),
    (("--seeds", "9" * 5000), "--seeds must be a number, or a list such as 3,5,8, not"),
    ((), "there is nothing to vary"),
    (("--set", "observe_interval=2024-01-01"), "observe_interval: "),
    (("--set", "network=3"), "network: must be a table, not 3"),
    (("--seeds", "2", "--backend", "dask"), "--backend dask needs --dask"),
    (("--seeds", "2", "--dask", "tcp://x"), "--dask goes with --backend dask"),
    (("--backend", "dask", "--scheduler", "tcp://x"), "--backend dask needs --dask ADDRESS"),
    (("--seeds", "2", "--scheduler", "tcp://x"), "--scheduler names schedulers of jobs; for the "
                                                 "address of Dask's, write --dask tcp://x"),
    (("--vary", "allocator.name=sebf,lccf", "--allocator", "parrot"), "--allocator: 'allocator' is "
                                                                      "varied already"),
])
def test_bad_input(refused, arguments, message):
    assert message in refused("sweep", "fig2.toml", *arguments)


@pytest.mark.filterwarnings("default::netsim.NetsimWarning")
def test_the_baseline_of_the_file_heads_the_column_of_ratios(netsim, here):
    (here / "fig2.toml").write_text((here / "fig2.toml").read_text().replace(
        "[compare]", '[compare]\nbaseline = "lccf (work_conservation=none)"'))
    done = netsim("sweep", "fig2.toml", "--vary", "allocator=parrot,lccf:work_conservation=none",
                  "--seeds", "2", "--out", "s")
    assert (done.exit_code, done.stderr) == (0, "")
    head = done.stdout.splitlines()[:3]
    words = ("over", "lccf", "(work_conservation=none)")
    assert all(word in line for word, line in zip(words, head, strict=True))
    assert set(pd.read_csv(here / "s" / "ratios.csv")["baseline"]) == {
        "lccf (work_conservation=none)"}
    again = netsim("sweep", "fig2.toml", "--set", "compare.baseline=parrot", "--vary",
                   "allocator=parrot,lccf:work_conservation=none", "--seeds", "2", "--out", "s")
    assert again.exit_code == 0
    assert again.stderr.startswith("warning: s: holds another sweep: its baseline was 'lccf (work")
    assert set(pd.read_csv(here / "s" / "ratios.csv")["baseline"]) == {"parrot"}


def test_ranges(netsim, here):
    """Points are drawn from ranges; what only looks like one is a value."""
    done = netsim("sweep", "fig2.toml", "--vary", "observe_interval=1ms..1s:log", "--vary",
                  "allocator=parrot,lccf", "--points", "3:method=random:seed=2", "--out", "s",
                  "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    table = pd.read_csv(here / "s" / "runs.csv")
    assert len(table) == 6
    assert table["observe_interval"].nunique() == 3
    assert table["observe_interval"].between(1e-3, 1).all()


@pytest.mark.parametrize(("arguments", "message"), [
    (["--vary", "until=1s..2s"], "points must say how many are drawn from the range of 'until'"),
    (["--vary", "until=2s..1s", "--points", "2"], "low must be below high in 2s..1s"),
    (["--vary", "until=1,2", "--points", "2"], "nothing is varied over one"),
    (["--vary", "until=1..2", "--points", "x"], "points: count must be a whole number from 1 to"),
    (["--vary", "workload.file=../a..b.json"], "../a..b.json"),
])
def test_ranges_that_are_refused(refused, here, arguments, message):
    assert message in refused("sweep", "fig2.toml", *arguments)
