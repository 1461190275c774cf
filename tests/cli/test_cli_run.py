"""`netsim run`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

import netsim as api
from netsim.base import units
from netsim.results import store
from netsim.simulation.progress import show_progress

POLICIES = '''\
import numpy as np
import netsim

class Greedy(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(10 * view.maxmin())

class Shapeless(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation([1.0])

class NaN(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(np.full(view.flows, np.nan))

class Idle(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(np.zeros(view.flows))

class Interrupted(netsim.Allocator):
    def allocate(self, view):
        raise KeyboardInterrupt

class InKernel(netsim.Allocator):
    def allocate(self, view):
        raise SystemError("kernel returned a result with an exception set") from KeyboardInterrupt()

class InCompiler(netsim.Allocator):
    def allocate(self, view):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("no compiled object yet")
'''


@pytest.fixture
def policies(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write allocators that are wrong; return the name of their module."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"policies_{here.name}"  # a fresh name: modules stay loaded
    (here / f"{name}.py").write_text(POLICIES)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return name


def test_results_go_to_a_folder_with_name_and_hash(netsim, here) -> None:
    done = netsim("run", "fig2.toml")
    assert (done.exit_code, done.stderr) == (0, "")
    (folder,) = (here / "runs").iterdir()
    assert re.fullmatch("fig2-[0-9a-f]{8}", folder.name)
    assert done.stdout.splitlines()[-1] == f"results    runs/{folder.name}"
    assert {path.name for path in folder.iterdir()} == {"spec.toml", "summary.json", "jobs.csv",
                                                        "coflows.csv"}
    alone = api.run(here / "fig2.toml")
    assert api.load_result(folder).jobs.equals(alone.jobs)
    netsim("run", "fig2.toml")
    assert list((here / "runs").iterdir()) == [folder]


def test_the_summary_is_readable(netsim) -> None:
    """48 s in all under max-min, which the interval of 0.1 s does not change; 28 s at least."""
    lines = netsim("run", "fig2.toml").stdout.splitlines()
    assert lines[0] == "allocator  maxmin, decisions flow, weights equal"
    assert "total JCT  48 s (1.71 times the lower bound)" in lines
    assert "finished   2 of 2 jobs" in lines
    assert all(len(line) <= 100 and line.isascii() and line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("factor", "line"), [(1, "256 of 512 dropped by experts (50.0%)"),
                                              (2, None)])
def test_dropped_tokens_are_printed(netsim, here, factor, line) -> None:
    """Two layers and two ranks of 128 choices; all go to one of two experts, whose mean is 64."""
    (here / "tokens.csv").write_text("layer,a,b\n0,1,0\n1,0,1\n")
    (here / "moe.toml").write_text(f"""
network = {{ kind = "big-switch", hosts = 2 }}
[workload]
ep = 2
dp = 2
global_batch = 2
expert_load = {{ file = "tokens.csv", capacity_factor = {factor} }}
[workload.llm]
name = "deepseek-moe-16b"
layers = 2
dense_first = 0
sequence = 128
experts = 2
top_k = 1
""")
    found = [each for each in netsim("run", "moe.toml").stdout.splitlines() if "tokens" in each]
    assert found == ([] if line is None else [f"tokens     {line}"])


def test_quiet_prints_the_folder_alone(netsim, here) -> None:
    assert netsim("run", "fig2.toml", "--quiet", "--out", "a/b").stdout == "a/b\n"
    assert (here / "a" / "b" / "summary.json").is_file()


def test_a_run_says_what_it_replaces(netsim, here) -> None:
    """Before it does; a new or an empty folder is nothing to tell of."""
    (here / "r").mkdir()
    assert netsim("run", "fig2.toml", "--timeline", "--out", "r").stderr == ""
    told = netsim("run", "fig2.toml", "--out", "r").stderr
    assert told == ("note: r holds earlier results, which are replaced at the end of the run and, "
                    "with them, trace.json; stop it and give another --out to keep them\n")
    assert netsim("run", "fig2.toml", "--out", "r", "--quiet").stderr == (
        "note: r holds earlier results, which are replaced at the end of the run; stop it and "
        "give another --out to keep them\n")


def test_settings_and_seed_reach_the_run(netsim, here) -> None:
    netsim("run", "fig2.toml", "--set", "allocator=parrot", "--set", "allocator.theta_max=0.6",
           "--seed", "7", "--set", 'record=["jobs", "decisions"]', "--out", "r")
    loaded = api.load_result("r")
    assert loaded.run["allocator"] == {"name": "parrot", "theta_max": 0.6,
                                       "work_conservation": "backfill"}
    assert (loaded.run["seed"], loaded.spec["workload"]["seed"]) == (7, 7)
    assert loaded.recorded == ("jobs", "decisions")
    assert len(loaded.decisions)


def test_the_spec_of_a_result_runs_to_the_same_bytes(netsim, here) -> None:
    netsim("run", "demo", "--set", "workload.jobs=5", "--out", "one")
    netsim("run", "one/spec.toml", "--out", "two")
    for name in ("jobs.csv", "coflows.csv", "spec.toml"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


@pytest.mark.parametrize("record", ['["coflows"]', '["decisions"]', "[]"])
def test_a_timeline_is_beside_the_results_and_changes_none(netsim, here, record) -> None:
    """But for what the run has cost."""
    settings = ("run", "fig2.toml", "--set", "allocator=parrot", "--set", f"record={record}")
    netsim(*settings, "--out", "plain")
    done = netsim(*settings, "--out", "r", "--timeline")
    assert (done.exit_code, done.stderr) == (0, "")
    assert ("CCT        not recorded" in done.stdout) == ("coflows" not in record)
    plain, files = ({path.name: path.read_bytes() for path in (here / name).iterdir()}
                    for name in ("plain", "r"))
    made = json.loads(files.pop("trace.json"))
    assert [event["name"] for event in made["traceEvents"] if event["ph"] == "X"] == [
        "c0", "c0", "c1", "c1"]
    assert {event["ph"] for event in made["traceEvents"]} == {"M", "X", "C", "i"}
    without_cost = dict.fromkeys(("simpy_events", "wall_s"))
    one, other = (json.loads(each.pop("summary.json")) | without_cost for each in (plain, files))
    assert one == other
    assert files == plain
    netsim(*settings, "--out", "r")
    assert not (here / "r" / "trace.json").exists()


@pytest.mark.filterwarnings("default")
def test_a_timeline_that_ends_early_is_warned_of(netsim, here, monkeypatch) -> None:
    monkeypatch.setattr("netsim.plots.perfetto._FIXED", 200_000 - 20)
    done = netsim("run", "fig2.toml", "--out", "r", "--quiet", "--timeline")
    assert (done.exit_code, done.stdout) == (0, "r\n")
    assert re.fullmatch(r"warning: the timeline ends at [\d.]+ s, as it would have too many "
                        r"events; it has . of 4 coflows and . of 4 decisions\n", done.stderr)


def test_no_ccts_where_coflows_are_not_recorded(netsim) -> None:
    assert "CCT        not recorded\n" in netsim("run", "fig2.toml", "--set",
                                                 "record=[]").stdout


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    (["nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory\n"),
    (["nowhere"], "unknown experiment 'nowhere'; choose from: a-online, demo"),
    (["parrot-60"], "unknown experiment 'parrot-60'"),
    (["fig2.toml", "--set", "seed"], "'seed' is not a setting; write it as key.path=value\n"),
    (["fig2.toml", "--set", "sed=1"], "fig2.toml: sed: unknown key 'sed' (did you mean 'seed'?)"),
    (["fig2.toml", "--set", "observe_interval=1 parsec"], "fig2.toml: observe_interval: time '1 pa"
     "rsec' has the unknown unit 'parsec'; choose from: s, ms, us"),
    (["fig2.toml", "--set", "network.capacity=-1Gbps"], "fig2.toml: network.capacity: egress capaci"
     "ty must be greater than 0, not '-1Gbps' (set by 'network.capacity=-1Gbps')\n"),
    (["fig2.toml", "--set", "network.capacity=nan"], "fig2.toml: network.capacity: "),
    (["fig2.toml", "--set", "network.hosts=1"], "fig2.toml:4: workload: job 0: host 1 is out of "),
    (["fig2.toml", "--set", "workload.name=parrot-60"], "fig2.toml:4: workload: job 0 needs"),
    (["fig2.toml", "--set", "allocator=parrot:theta_max=1"],
     "fig2.toml: allocator.theta_max: theta_max must be a number in [0.5, 1), not 1 (set by "
     "'allocator=parrot:theta_max=1')\n"),
    (["fig2.toml", "--set", "allocator=fofi"], "fig2.toml: allocator.name: unknown allocator 'fo"),
    (["fig2.toml", "--set", "events=[{at=1, link=9, capacity=0}]"],
     "fig2.toml: events.0.link: network 'parrot-fig2' has no link 9; it has 4"),
    (["fig2.toml", "--out", "fig2.toml"], "fig2.toml: is a file, not a folder\n"),
    (["fig2.toml", "--out", "fig2.toml/x"], "fig2.toml/x: cannot be written: Not a directory\n"),
    (["fig2.toml", "--out", "."], ".: holds the current folder, which cannot be replaced\n"),
])
def test_bad_input(refused, arguments, message) -> None:
    assert refused("run", *arguments).startswith(message)


def test_all_problems_are_said_at_once(refused, here) -> None:
    (here / "bad.toml").write_text('seed = -1\nobserve = 3\n[network]\nkind = "big-switch"\n'
                                   'hosts = 4\ncapacity = "5"\negress = "x"\n')
    lines = refused("run", "bad.toml").splitlines()
    assert lines[0] == "bad.toml: 4 problems:"
    assert [line.partition(": must")[0].split(": ")[:2] for line in lines[1:]] == [
        ["  - line 1", "seed"], ["  - line 7", "network.egress"], ["  - workload", "is required"],
        ["  - line 2", "observe"]]


@pytest.mark.parametrize(("name", "text", "message"), [
    ("t.csv", "job_id,num_gpu\n1,2\n", "t.csv:1: missing column 'submit_time'"),
    ("t.csv", "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
              "1,1,0,5,a,2,3\n1,1,0,5,a,2,3\n", "t.csv:3: job_id 1 was given already, on line 2"),
    ("t.json", '{"jobs": [{"coflows": [[{"src": 0, "dst": 1, "bytes": -4}]]}]}',
     "t.json:1: jobs[0].coflows[0][0].bytes must be a number from 0 to 1e+18, not -4"),
    ("t.json", '{"jobs": [{"stages": [{"name": "a", "after": ["b"]}, '
               '{"name": "b", "after": ["a"]}]}]}', "t.json:1: jobs[0]: "),
    ("t.json", '{"jobs": ]}', "t.json:1: "),
])
def test_bad_traces_are_named_with_file_and_line(refused, here, name, text, message) -> None:
    (here / name).write_text(text)
    (here / "e.toml").write_text('[network]\nname = "parrot-fig2"\n'
                                 f'[workload]\nfile = "{name}"\n')
    found = refused("run", "e.toml")
    assert found.startswith("e.toml:4: workload.file: ")
    assert message in found


def test_a_folder_of_something_else_is_not_replaced(refused, here) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "notes").write_text("x")
    assert "holds a file that is not a result" in refused("run", "fig2.toml", "--out", "mine")


def test_what_cannot_be_written_is_known_before_the_run(refused, monkeypatch) -> None:
    monkeypatch.setattr("netsim.studies.run.run_experiment",
                        lambda *_, **__: pytest.fail("ran"))
    refused("run", "fig2.toml", "--out", "fig2.toml/x")


def test_a_disk_that_fills_up_leaves_nothing(refused, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write_table", full)
    assert re.match(r"runs/fig2-\w+: cannot be written: No space left on device",
                    refused("run", "fig2.toml"))


@pytest.mark.parametrize(("policy", "message"), [
    ("Greedy", "Greedy at t = 0 s overloads link"),
    ("Shapeless", "Shapeless"),
    ("NaN", "NaN"),
    ("Idle", "stalled at t = 0 s: allocator Idle gives no bandwidth to 2 pending coflows"),
])
def test_allocators_that_are_wrong_are_named(refused, policies, policy, message) -> None:
    assert message in refused("run", "fig2.toml", "--set", f"allocator={policies}:{policy}")


def test_a_timeline_that_cannot_be_written_leaves_nothing(refused, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("netsim.plots.perfetto._stream", full)
    assert re.match(r"runs/fig2-\w+: cannot be written: No space left on device",
                    refused("run", "fig2.toml", "--timeline"))


@pytest.mark.parametrize("policy", ["Interrupted", "InKernel", "InCompiler"])
def test_ctrl_c_leaves_nothing(netsim, here, policies, policy) -> None:
    """Also where it comes out of compiled code, or of a compiler, as another error."""
    before = sorted(here.rglob("*"))
    stopped = netsim("run", "fig2.toml", "--set", f"allocator={policies}:{policy}")
    assert (stopped.exit_code, stopped.stdout) == (130, "")
    assert stopped.stderr == "interrupted: at 0 s of the simulation 0 of 2 jobs had finished\n"
    assert sorted(here.rglob("*")) == before


def test_ctrl_c_outside_of_a_run(netsim, monkeypatch) -> None:
    def reads(*_: object, **__: object) -> None:
        raise SystemError("kernel returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("netsim.experiment_file.load.load_experiment", reads)
    stopped = netsim("run", "fig2.toml")
    assert (stopped.exit_code, stopped.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("arguments", [
    ["run"], ["run", "a", "b"], ["run", "fig2.toml", "--seed", "-1"], ["run", "--nope"],
    ["nope"], ["trace", "nope"],
])
def test_wrong_usage(netsim, here, arguments) -> None:
    found = netsim(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Usage: netsim" in found.stderr
    assert os.listdir(here) == ["fig2.toml"]


def test_no_bar_where_nobody_watches(capsys) -> None:
    with show_progress(True, 10) as report:
        report(5, 10)
    assert capsys.readouterr() == ("", "")


def test_the_result_on_disk_is_what_was_said(netsim) -> None:
    said = netsim("run", "fig2.toml", "--out", "r").stdout
    summary = json.loads(Path("r/summary.json").read_text())
    assert f"{summary['decisions']} decisions, {summary['simpy_events']} SimPy events" in said
    assert summary["stopped_at_s"] is None
    assert "stopped" not in said


def test_a_cluster_says_what_preemption_cost(netsim, here) -> None:
    """Two jobs of 4 iterations of 1 s on one GPU, in slices of 2 s, and 1 s to restore.

    Both lose the GPU once, at 2 and 4 s; they end at 1 + 6 = 7 and 2 + 8 = 10 s. By formula nobody
    decides on rates.
    """
    (here / "c.toml").write_text(
        'execution = "asrpt"\nscheduler = "gandiva-rr:quantum_s=2s"\n'
        '[cluster]\nservers = 1\ngpus = 1\n[preemption]\nrestore_s = "1s"\n'
        '[workload]\nformat = "ring-jobs"\nmix = {"1" = 2}\niterations = [4, 4]\n'
        'compute = ["1s", "1s"]\n')
    said = netsim("run", "c.toml", "--out", "r").stdout
    assert ("preempted  2 times; of the GPU-seconds held, 8 useful, 0 lost, 2 to save, move and "
            "restore\n") in said
    assert "decisions" not in said
    assert "SimPy events" in said
    never = netsim("run", "c.toml", "--set", 'scheduler="fifo"', "--out", "s").stdout
    assert "preempted" not in never


def test_a_run_that_was_stopped_says_so(netsim) -> None:
    """Under Parrot job 1 ends at 116/9 = 12.9 s, and job 0 at 28 s."""
    said = netsim("run", "fig2.toml", "--set", "allocator=parrot", "--set", "until=14s",
                  "--out", "r").stdout
    assert "finished   1 of 2 jobs; stopped at 14 s\n" in said
    assert json.loads(Path("r/summary.json").read_text())["stopped_at_s"] == 14
    assert api.load_result("r").summary()["stopped_at_s"] == 14


def test_times_that_there_are_not_are_dashes(netsim) -> None:
    """Stopped before any job has finished."""
    lines = netsim("run", "fig2.toml", "--set", "until=1s").stdout.splitlines()
    assert "finished   0 of 2 jobs; stopped at 1 s" in lines
    assert {"total JCT  -", "makespan   -", "JCT        none"} <= {*lines}


@pytest.mark.parametrize(("given", "said"), [
    ("fabric", "fabric"), ("asrpt", "asrpt"), ("fabric:slot=2s", "fabric, slot 2.0"),
    ("rar-contention", "rar-contention")])
def test_an_execution_is_said_with_the_options_that_were_given(netsim, here, given, said) -> None:
    (here / "c.toml").write_text(
        f'execution = "{given}"\nscheduler = "fifo"\n[cluster]\nservers = 2\ngpus = 2\n'
        '[workload]\nformat = "ring-jobs"\nmix = {"1" = 1}\niterations = [2, 2]\n')
    done = netsim("run", "c.toml")
    assert f"execution  {said}" in done.stdout.splitlines(), done.output


def test_a_timeline_of_a_cluster(netsim, here) -> None:
    (here / "c.toml").write_text(
        'execution = "fabric"\n[cluster]\nservers = 2\ngpus = 2\n[workload]\n'
        'format = "ring-jobs"\nmix = {"2" = 2, "3" = 1}\niterations = [2, 3]\n')
    done = netsim("run", "c.toml", "--out", "r", "--timeline", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    made = json.loads((here / "r" / "trace.json").read_text())
    assert {event["cat"] for event in made["traceEvents"] if event["ph"] == "X"} == {
        "coflow", "running"}
    done = netsim("plot", "r", "--kind", "gpus", "--out", "a.png")
    assert (done.exit_code, done.stdout) == (0, "picture: a.png\n")


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(("given", "question"), [
    ("observe_interval=10", 'observe_interval = 10 has no unit and is read as 10 s; write "10s" '),
    ("network.latency=5", "network 'parrot-fig2': latency = 5 has no unit and is read as 5 s"),
    ("allocator=aalo:first_threshold=10", "first_threshold = 10 has no unit and is read as 10 byt"),
    ("observe_interval=10s", ""), ("network.latency=5s", ""), ("observe_interval=0.5", ""),
    ("allocator=aalo:first_threshold=10B", ""), ("until=10", "")])
def test_numbers_without_a_unit_that_look_wrong(netsim, here, monkeypatch, given, question) -> None:
    """Once, and never again in what is kept of the run."""
    told = netsim("run", "fig2.toml", "--set", given, "--out", "r").stderr
    assert told.startswith(f"warning: {question}") if question else told == ""
    assert told.count("\n") == bool(question)
    monkeypatch.setattr(units, "_told", set())
    again = netsim("run", "r/spec.toml", "--out", "s")
    assert again.exit_code == 0
    if given.startswith("observe_interval"):
        assert again.stderr == ""


def test_a_time_drawn_from_a_range_has_a_unit(netsim, here) -> None:
    done = netsim("sweep", "fig2.toml", "--vary", "observe_interval=2s..9s", "--points",
                  "2:method=random", "--out", "s")
    assert (done.exit_code, done.stderr) == (0, "")


def test_policies_as_compare_takes_them(netsim, here, refused) -> None:
    done = netsim("run", "fig2.toml", "--allocator", "parrot:theta_max=0.6", "--set",
                  "allocator.work_conservation=none", "--out", "r")
    assert done.stdout.splitlines()[0] == "allocator  parrot, theta_max 0.6, work_conservation none"
    done = netsim("run", "sjf-bco", "--scheduler", "ff:order=by_size", "--set",
                  "workload.mix={1=2}")
    assert re.match(r"scheduler  ff, .*order by_size$", done.stdout.splitlines()[0])
    assert refused("run", "fig2.toml", "--allocator", "sebf,parrot") == (
        "--allocator: a run has one allocator, not 'sebf,parrot'; netsim compare takes several\n")
    assert refused("run", "fig2.toml", "--allocator", "seb").startswith(
        "fig2.toml: allocator.name: unknown allocator 'seb' (did you mean 'sebf'?)")


def test_where_the_timeline_is(netsim, here) -> None:
    lines = netsim("run", "fig2.toml", "--timeline", "--out", "r").stdout.splitlines()
    assert lines[-2:] == ["results    r", "timeline   r/trace.json; open it in ui.perfetto.dev"]
