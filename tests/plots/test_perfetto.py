"""Timelines: what viewers draw is what happened, and never more than they can draw."""

from __future__ import annotations

import errno
import json
import os
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.analysis.usage import computations
from netsim.errors import InputError, NetsimWarning, OutputError
from netsim.jobs.process import StageProcess
from netsim.plots import perfetto as module
from netsim.plots.perfetto import microseconds, save_with_timeline
from netsim.results.result import Result
from tests.examples import examples

NET = netsim.big_switch(16, "1Gbps")
EVENTS = [{"at": "100ms", "link": "egress-3", "capacity": "100Mbps"},
          {"at": "300ms", "link": "egress-3", "capacity": 0},
          {"at": "400ms", "link": "egress-3", "capacity": "1Gbps"}]


def mixed() -> Workload:
    """Return jobs of all kinds: lines, single coflows, DAGs, patterns, drawn anew or not."""
    rng = np.random.default_rng(3)

    def flows() -> list[tuple[int, int, float]]:
        return [(int(rng.integers(8)), int(rng.integers(8, 16)), float(rng.integers(1e5, 1e7)))
                for _ in range(rng.integers(1, 6))]

    hosts = range(16)
    line = [Stage("a", flows(), "7ms"), Stage("b", flows(), "3ms", after=["a"])]
    dag = [Stage("load", None, "11ms"), Stage("x", flows(), "5ms", after=["load"]),
           Stage("y", flows(), "2ms", after=["load"]), Stage("idle", None, "9ms", after=["x"]),
           Stage("z", flows(), "1ms", after=["y"], finishes_before=["idle"]),
           Stage("empty", [], "4ms", after=["z"]),
           Stage("end", None, "6ms", after=["empty"], finishes_before=["x"])]
    jobs = [JobSpec(9, 0.05, 3, line, hosts=hosts, name="line"),
            JobSpec(3, 0.0, 2, dag, hosts=hosts, compute_s="8ms"),
            JobSpec(4, 0.0, stages=[Stage("one", flows(), "2ms", release_s="10ms")], hosts=hosts),
            JobSpec(5, 0.02, 2, pattern={"name": "ring-all-reduce", "stepwise": True}, ranks=4,
                    nbytes=1e7, compute_s="3ms"),
            JobSpec(6, 0.03, 2, pattern="parameter-server", ranks=4, nbytes=1e7, redraw=True,
                    compute_s="3ms"),
            *(JobSpec(10 + k, 0.01 * k, stages=[Stage("s", flows())], hosts=hosts)
              for k in range(20))]
    return Workload(jobs, "mixed", seed=2)


def run(allocator: str = "parrot", workload: Workload | None = None, **options: Any) -> Result:
    return netsim.simulate(NET, workload or mixed(), allocator=allocator, timeline=True,
                           **{"events": EVENTS} | options)


def kind(made: dict[str, Any], phase: str, name: str = "") -> list[dict[str, Any]]:
    return [event for event in made["traceEvents"]
            if event["ph"] == phase and name in ("", event["name"])]


def ns(microseconds: float) -> int:
    """As Perfetto reads it: `static_cast<int64_t>(value * 1000.0)`."""
    return int(microseconds * 1000.0)


def threads(made: dict[str, Any]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in kind(made, "M", "thread_name")}


# --- what there is --------------------------------------------------------------------------


def test_the_example_of_the_parrot_paper() -> None:
    """Job 0 sends until 16 and 28, job 1 until 4 and 116/9; the ports carry 1 MB/s."""
    result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot", timeline=True)
    made = netsim.timeline(result)
    names = threads(made)
    spans = [(names[event["tid"]], event["name"], event["ts"], event["dur"])
             for event in kind(made, "X")]
    assert sorted(spans) == [
        ("job 0", "c0", 0.0, 16e6), ("job 0", "c1", 16e6, 12e6),
        ("job 1", "c0", 0.0, 4e6), ("job 1", "c1", 4e6, 8888888.889)]
    assert kind(made, "X")[0]["args"] == {
        "coflow": 2, "iteration": 0, "stage": "c0", "bytes": 4e6, "width": 4, "gamma_s": 2.0,
        "cct_s": 4.0, "start_s": 0.0}
    marks = [(event["ts"], event["args"]["theta"], event["args"]["job"])
             for event in kind(made, "i")]
    assert marks == [(0, 0.5, 0), (4e6, 0.9, 1), (12888888.889, 1, 0), (16e6, 1, 0)]
    rates = {link: [(event["ts"], round(event["args"]["bytes/s"]))
                    for event in kind(made, "C", link)] for link in ("egress-0", "egress-1")}
    assert rates == {"egress-0": [(0, 1e6), (28e6, 0)], "egress-1": [
        (0, 833333), (4e6, 741667), (12888888.889, 666667), (16e6, 833333), (28e6, 0)]}
    assert made["otherData"] == {
        "workload": "parrot-fig2", "network": "parrot-fig2", "allocator": "parrot",
        "netsim": netsim.__version__, "links": "4 of 4 that carried something"}


@pytest.mark.parametrize("interval", [0, "10ms"])
@pytest.mark.parametrize("allocator", ["parrot", "sebf", "maxmin", "aalo-lbsf"])
def test_everything_is_in_its_place(allocator, interval) -> None:
    """Spans lie within their jobs and not over each other; all coflows and decisions are there."""
    result = run(allocator, observe_interval=interval)
    made = netsim.timeline(result, mixed())
    names, spans = threads(made), kind(made, "X")
    jobs = result.jobs.set_index("job")
    free: dict[int, int] = defaultdict(int)
    for span in sorted(spans, key=lambda span: (ns(span["ts"]), ns(span["dur"]))):
        assert ns(span["ts"]) >= free[span["tid"]], "overlaps"
        free[span["tid"]] = ns(span["ts"]) + ns(span["dur"])
        job = jobs.loc[int(names[span["tid"]].split()[1])]
        assert ns(span["ts"]) >= job["arrival_s"] * 1e9 - 1
        assert free[span["tid"]] <= job["finish_s"] * 1e9 + 1
    sent = {span["args"]["coflow"]: span for span in spans if span["cat"] == "coflow"}
    assert result.coflows is not None
    assert result.decisions is not None
    assert set(sent) == set(result.coflows["coflow"])
    for row in result.coflows.to_dict("records"):
        span = sent[row["coflow"]]
        assert span["ts"] == pytest.approx(row["valid_s"] * 1e6, abs=5e-3)
        assert span["dur"] == pytest.approx(row["cct_s"] * 1e6, abs=5e-3)
        for name in ("bytes", "width", "gamma_s", "cct_s", "iteration", "stage"):
            assert span["args"][name] == row[name]
        assert str(row["job"]) == names[span["tid"]].split()[1]
    marks = kind(made, "i")
    assert len(marks) == len(result.decisions)
    for mark, row in zip(marks, result.decisions.to_dict("records"), strict=True):
        assert mark["ts"] == pytest.approx(row.pop("time_s") * 1e6, abs=1e-3)
        assert mark["args"] == {name: value for name, value in row.items() if value == value}


@pytest.mark.parametrize("record", [["coflows"], ["coflows", "links"]])
@pytest.mark.parametrize("allocator", ["parrot", "sebf", "maxmin"])
def test_counters_are_what_links_carried(allocator, record) -> None:
    """Never more than the capacity at the time, and bytes in all, to a nanosecond's worth."""
    result = run(allocator, record=record)
    made = netsim.timeline(result, mixed(), most_links=100)
    assert result.links is not None
    changes = 0
    for link, rows in result.links.groupby("link", observed=True):
        events = [(ns(event["ts"]), event["args"]["bytes/s"]) for event in kind(made, "C", link)]
        at, rate = map(np.array, zip(*events, strict=True))
        assert (np.diff(at) >= 0).all()
        assert rate[-1] == 0
        assert (rate[:-1] * np.diff(at)).sum() / 1e9 == pytest.approx(
            rows["bytes"].sum(), rel=1e-8, abs=len(rows))
        for row in rows.to_dict("records"):
            inside = (at >= row["start_s"] * 1e9 - 1) & (at < row["end_s"] * 1e9 - 1)
            assert (rate[inside] <= row["capacity"]).all()
        changes += len(events)
    assert changes == len(kind(made, "C"))


def test_only_the_busiest_links_are_shown() -> None:
    result = run()
    assert result.links is not None
    carried = result.links.groupby("link", observed=True)["bytes"].sum()
    made = netsim.timeline(result, most_links=3)
    assert {event["name"] for event in kind(made, "C")} == set(carried.nlargest(3).index)
    assert made["otherData"]["links"] == f"3 of {(carried > 0).sum()} that carried something"
    assert kind(netsim.timeline(result, most_links=0), "C") == []


def test_what_was_not_recorded_is_not_shown() -> None:
    plain = netsim.timeline(netsim.simulate(NET, mixed()))
    assert {event["ph"] for event in plain["traceEvents"]} == {"M", "X"}
    assert {event["cat"] for event in kind(plain, "X")} == {"coflow"}
    none = netsim.simulate("parrot-fig2", "parrot-fig2", until=1e-3, timeline=True)
    assert kind(netsim.timeline(none, "parrot-fig2"), "X") == []


# --- computation ----------------------------------------------------------------------------


def test_computation_in_a_dag() -> None:
    """1 s of loading, then a coflow of 2 s beside computation of 3 s, then 1 s; twice."""
    net = netsim.big_switch(2, "8Mbps")
    stages = [Stage("load", None, 1), Stage("push", [(0, 1, 2e6)], after=["load"]),
              Stage("work", None, 3, after=["load"]),
              Stage("end", None, 1, after=["push", "work"])]
    jobs = Workload([JobSpec(7, 0.5, 2, stages)])
    made = netsim.timeline(netsim.simulate(net, jobs, timeline=True), jobs)
    names = threads(made)
    spans = [(names[event["tid"]], event["args"]["stage"], event["ts"] / 1e6, event["dur"] / 1e6)
             for event in kind(made, "X")]
    assert spans == [
        ("job 7", "load", 0.5, 1), ("job 7", "push", 1.5, 2), ("job 7 (2)", "work", 1.5, 3),
        ("job 7", "end", 4.5, 1), ("job 7", "load", 5.5, 1), ("job 7", "push", 6.5, 2),
        ("job 7 (2)", "work", 6.5, 3), ("job 7", "end", 9.5, 1)]
    stopped = netsim.simulate(net, jobs, timeline=True, until=7)
    found = [(each.stage, each.end_s) for each in computations(stopped, jobs)]
    assert found == [("load", 1.5), ("work", 4.5), ("end", 5.5), ("load", 6.5)]


@pytest.mark.parametrize("interval", [0, "10ms"])
@pytest.mark.parametrize("allocator", ["parrot", "sebf"])
def test_computation_fills_the_time_before_coflows(allocator, interval) -> None:
    """Before each that waits for others: from their end, as it is seen, until it is valid."""
    jobs = mixed()
    result = run(allocator, jobs, observe_interval=interval)
    assert result.coflows is not None
    found = {(jobs.jobs[each.job].id, each.iteration, each.stage): each
             for each in computations(result, jobs)}
    sent = {(row["job"], row["iteration"], row["stage"]): row
            for row in result.coflows.to_dict("records")}
    # Each iteration of the DAG has 7 stages that compute, of which those three send nothing.
    assert len([key for key in found if key[0] == 3]) == 2 * 7
    for iteration in range(2):
        for stage, parent in (("x", "load"), ("y", "load")):
            assert found[3, iteration, stage].start_s == pytest.approx(
                found[3, iteration, parent].end_s, abs=1e-12)
        assert found[3, iteration, "idle"].end_s - found[3, iteration, "idle"].start_s == (
            pytest.approx(9e-3))
        assert found[3, iteration, "idle"].start_s >= sent[3, iteration, "x"]["finish_s"]
    assert found[3, 0, "load"].end_s == pytest.approx(19e-3)
    assert found[3, 1, "load"].start_s == found[3, 0, "end"].end_s or interval
    assert found[4, 0, "one"].start_s == pytest.approx(10e-3)
    slack = 1e-9 if not interval else 10e-3 + 1e-9
    for job, first, last in ((9, "a", "b"), (6, "push", "pull")):
        for iteration in range(1, jobs.jobs[[j.id for j in jobs].index(job)].iterations):
            gap = found[job, iteration, first].start_s - sent[job, iteration - 1, last]["finish_s"]
            assert -1e-9 <= gap <= slack


def dags(seed: int) -> Workload:
    """Return jobs with stages of all kinds, that wait for each other as it comes."""
    rng = np.random.default_rng(seed)

    def flows() -> list[tuple[int, int, float]] | None:
        kind = rng.integers(4)
        return None if not kind else [
            (int(rng.integers(8)), int(rng.integers(8, 16)), float(rng.integers(1e4, 1e6)))
            for _ in range(3 * (kind > 1))]

    def job(k: int) -> JobSpec:
        stages = []
        for count in range(rng.integers(2, 8)):
            earlier = [stage.name for stage in stages]
            after = [name for name in earlier if rng.random() < 0.4]
            stages.append(Stage(
                f"s{count}", flows(), 1e-3 * rng.integers(4), after,
                [name for name in earlier if name not in after and rng.random() < 0.2],
                release_s=float(rng.choice([0, 0.02]))))
        return JobSpec(k, 1e-3 * rng.integers(50), int(rng.integers(1, 4)), stages,
                       compute_s=float(rng.choice([0, 1e-3])), hosts=range(16))

    return Workload([job(k) for k in range(6)], seed=seed)


@pytest.mark.parametrize("interval", [0, "5ms"])
def test_computation_is_what_jobs_did(interval, monkeypatch) -> None:
    """All of it, but of lines, which have no process: when each began and ended."""
    did: dict[tuple[int, int, str], tuple[float, float]] = {}
    start = StageProcess._start

    def noted(self: StageProcess, stage: int) -> None:
        spec = self.graph.stages[stage]
        begin = max(self.arrival_s + spec.release_s, self._env.now)
        if spec.compute_s:
            did[self.index, self.iteration, spec.name] = begin, begin + spec.compute_s
        start(self, stage)

    monkeypatch.setattr(StageProcess, "_start", noted)
    count = 0
    for seed in range(examples(10)):
        did.clear()
        result = run("sebf", dags(seed), observe_interval=interval)
        found = {(each.job, each.iteration, each.stage): (each.start_s, each.end_s)
                 for each in computations(result, dags(seed))}
        assert {key: found.get(key) for key in did} == {
            key: pytest.approx(times, abs=1e-12) for key, times in did.items()}
        count += len(did)
    assert count > 30 * examples(10)


def test_another_workload_is_refused() -> None:
    with pytest.raises(InputError, match="'parrot-fig2' are not those of the result, which is of "
                                         "'mixed'"):
        netsim.timeline(run(), "parrot-fig2")
    with pytest.raises(InputError, match="coflows were not recorded; simulate with timeline=True"):
        netsim.timeline(netsim.simulate(NET, mixed(), record=["links"]))


@pytest.mark.parametrize(("options", "message"), [
    ({"most_events": 999}, "most_events must be a whole number of at least 1000, not 999"),
    ({"most_links": -1}, "most_links must be a whole number of at least 0, not -1"),
    ({"most_links": True}, "most_links must be a whole number"),
    ({"most_events": 1e6}, "most_events must be a whole number"),
])
def test_limits_that_are_none(options, message) -> None:
    with pytest.raises(InputError, match=message):
        netsim.timeline(run(), **options)


# --- the run itself -------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, "10ms"])
@pytest.mark.parametrize("allocator", ["parrot", "aalo-lbsf", "maxmin", "coflow-fair", "sebf",
                                       "aalo", "equal-split", "srtf"])
def test_recording_it_does_not_change_the_run(allocator, interval) -> None:
    """Not one bit of a time, and no decision; and links carry all bytes, in and out."""
    plain = netsim.simulate(NET, mixed(), allocator=allocator, events=EVENTS,
                            observe_interval=interval)
    result = run(allocator, observe_interval=interval)
    assert plain.coflows is not None
    pd.testing.assert_frame_equal(plain.jobs, result.jobs, check_exact=True)
    pd.testing.assert_frame_equal(plain.coflows, result.coflows, check_exact=True)
    assert plain.run["decisions"] == result.run["decisions"]
    assert result.links is not None
    assert result.links["bytes"].sum() == pytest.approx(2 * result.jobs["bytes"].sum())


def test_links_that_are_asked_for_are_exact() -> None:
    """With and without a timeline: rates are constant within their rows."""
    one, other = (netsim.simulate(NET, mixed(), allocator="sebf", record=["links"], timeline=each)
                  for each in (False, True))
    pd.testing.assert_frame_equal(one.links, other.links, check_exact=True)


# --- the bound ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long() -> tuple[Result, Workload]:
    """Return a run with some thousand events."""
    stages = [Stage("a", [(0, 1, 1e5)], "1ms"), Stage("b", [(1, 0, 2e5)], after=["a"])]
    jobs = Workload([JobSpec(k, 0.01 * k, 20, stages) for k in range(40)])
    return netsim.simulate(NET, jobs, allocator="sebf", timeline=True), jobs


@pytest.mark.parametrize("most", [1000, 1777, 3000])
def test_what_is_too_long_ends_early(long, most) -> None:
    """With what begins first, and says so in three places and in a warning."""
    result, jobs = long
    with pytest.warns(NetsimWarning, match="the timeline ends at .* s, as it would have too many"
                                           " events; it has .* of 1,600 coflows and") as caught:
        made = netsim.timeline(result, jobs, most_events=most)
    assert most - 100 < len(made["traceEvents"]) <= most
    (mark,) = [event for event in kind(made, "i") if event["s"] == "g"]
    (label,) = kind(made, "M", "process_labels")
    notice = str(caught[0].message)
    assert made["otherData"]["notice"] == mark["name"] == label["args"]["labels"] == notice
    whole = netsim.timeline(result, jobs)
    end = mark["ts"]
    assert len(whole["traceEvents"]) > most
    for phase in "XCi":
        every = [event for event in kind(whole, phase) if event["ts"] < end]
        kept = [event for event in kind(made, phase) if event["ts"] < end]
        assert [(e["name"], e["ts"], e["args"]) for e in kept] == [
            (e["name"], e["ts"], e["args"]) for e in every]
        assert all(event["ts"] <= end for event in kind(made, phase))
    last = {event["name"]: event["args"]["bytes/s"] for event in kind(made, "C")}
    assert set(last.values()) == {0.0}
    assert f"{len([e for e in kind(made, 'X') if e['cat'] == 'coflow']):,} of 1,600" in notice


def test_what_fits_is_whole(long) -> None:
    result, jobs = long
    whole = netsim.timeline(result, jobs)
    count = len(whole["traceEvents"])
    assert "notice" not in whole["otherData"]
    assert netsim.timeline(result, jobs, most_events=count + 10) == whole


def test_all_at_one_instant() -> None:
    """The first are shown, and not nothing."""
    jobs = Workload([JobSpec(k, stages=[Stage("s", [(0, 1, 1e5)])]) for k in range(1000)])
    with pytest.warns(NetsimWarning, match="ends at 0 s"):
        made = netsim.timeline(netsim.simulate(NET, jobs, timeline=True), most_events=1000)
    assert 200 < len(kind(made, "X")) < 1000


def test_counters_that_alone_are_too_many(long) -> None:
    result, _ = long
    alone = result.replace(coflows=result.coflows.iloc[:1], decisions=None)
    whole = netsim.timeline(alone)
    assert len(kind(whole, "C")) > 1000
    with pytest.warns(NetsimWarning, match="it has 1 of 1 coflows$"):
        made = netsim.timeline(alone, most_events=1000)
    end = made["traceEvents"][-1]["ts"]
    assert 900 < len(made["traceEvents"]) <= 1000
    assert [event for event in kind(made, "C") if event["ts"] < end] == [
        event for event in kind(whole, "C") if event["ts"] < end]


@pytest.mark.parametrize("chunk", [57, 1000])
def test_in_parts_it_is_the_same(long, chunk, monkeypatch) -> None:
    result, jobs = long
    whole = netsim.timeline(result, jobs)
    fresh = netsim.simulate(NET, jobs, allocator="sebf", timeline=True)
    monkeypatch.setattr("netsim.results.lazy_table._CHUNK", chunk)
    assert netsim.timeline(fresh, jobs) == whole
    with pytest.warns(NetsimWarning):
        cut = netsim.timeline(fresh, jobs, most_events=1000)
    monkeypatch.undo()
    with pytest.warns(NetsimWarning):
        assert netsim.timeline(result, jobs, most_events=1000) == cut


# --- the file -------------------------------------------------------------------------------

#: What the Trace Event Format asks of each kind of event, beside name, ph, pid, tid and args.
KEYS = {"X": {"cat", "ts", "dur"}, "i": {"cat", "ts", "s"}, "C": {"ts"}, "M": set()}
METADATA = {"process_name": {"name": str}, "process_sort_index": {"sort_index": int},
            "process_labels": {"labels": str}, "thread_name": {"name": str},
            "thread_sort_index": {"sort_index": int}}


def check_format(text: str) -> dict[str, Any]:
    """Check a file by the format's documentation; return what it holds."""
    made = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert set(made) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert made["displayTimeUnit"] in ("ms", "ns")
    for event in made["traceEvents"]:
        assert set(event) == KEYS[event["ph"]] | {"name", "ph", "pid", "tid", "args"}
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            expected = METADATA[event["name"]]
            assert {key: type(value) for key, value in event["args"].items()} == expected
        else:
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        if event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(value, float) for value in event["args"].values())
    groups = {event["pid"] for event in kind(made, "M", "process_name")}
    assert {event["pid"] for event in made["traceEvents"]} == groups
    named = {(event["pid"], event["tid"]) for event in kind(made, "M", "thread_name")}
    assert {(event["pid"], event["tid"]) for event in kind(made, "X")} <= named
    assert len({tid for _, tid in named} | groups) == len(named) + len(groups), "numbers recur"
    return made


def test_the_file_is_what_the_format_asks_for(tmp_path, long) -> None:
    result = run()
    path = netsim.write_timeline(result, tmp_path / "t.json", mixed())
    assert path == tmp_path / "t.json"
    assert check_format(path.read_text()) == netsim.timeline(result, mixed())
    with pytest.warns(NetsimWarning):
        netsim.write_timeline(long[0], path, long[1], most_events=1000)
    assert len(check_format(path.read_text())["traceEvents"]) <= 1000
    assert os.listdir(tmp_path) == ["t.json"]


def test_odd_names(tmp_path) -> None:
    name = 'a "b"\n\\ é'
    jobs = Workload([JobSpec(0, stages=[Stage(name, [(0, 1, 1e5)])], name=f"{name}")])
    made = netsim.timeline(netsim.simulate(NET, jobs, timeline=True))
    path = netsim.write_timeline(netsim.simulate(NET, jobs, timeline=True), tmp_path / "t.json")
    assert check_format(path.read_text()) == made
    assert set(threads(made).values()) == {"decisions", f"job 0 {name}"}


def test_viewers_read_the_same_nanoseconds() -> None:
    rng = np.random.default_rng(1)
    times = np.concatenate((rng.integers(0, 10**15, 100_000), np.arange(10_000)))
    told = microseconds(times)
    assert [ns(each) for each in told] == times.tolist()
    assert np.abs(np.array(told) * 1000 - times).max() < 0.5


def test_a_loaded_result_has_a_timeline_too(tmp_path) -> None:
    """The experiment says the workload, and so when jobs computed."""
    experiment = netsim.Experiment(
        network={"kind": "big-switch", "hosts": 40}, allocator="parrot",
        workload={"format": "synthetic", "jobs": 6, "iterations": 2, "arrival_scale": 0.01},
        record=["coflows", "links", "decisions"])
    result = netsim.run(experiment)
    made = netsim.timeline(result)
    assert netsim.timeline(netsim.load_result(result.save(tmp_path / "r"))) == made
    assert made == netsim.timeline(result, experiment.workload.built)


def test_a_file_that_cannot_be_written(tmp_path, monkeypatch) -> None:
    result = run()
    with pytest.raises(OutputError, match=r"nowhere/t\.json: cannot be written: No such file"):
        netsim.write_timeline(result, tmp_path / "nowhere" / "t.json")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "t.json").write_text("earlier")
    monkeypatch.setattr(module.json, "dumps", full)
    with pytest.raises(OutputError, match=r"t\.json: cannot be written: No space left on device"):
        netsim.write_timeline(result, tmp_path / "t.json")
    assert (tmp_path / "t.json").read_text() == "earlier"
    assert os.listdir(tmp_path) == ["t.json"]


def test_a_folder_of_results_holds_it_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    """With the tables that the experiment asks for and no others."""
    experiment = netsim.Experiment(network={"name": "parrot-fig2"}, allocator="parrot",
                                   workload={"name": "parrot-fig2"}, record=["decisions"])
    jobs = experiment.workload.built
    result = netsim.run(experiment, timeline=True)
    assert result.coflows is not None
    folder = save_with_timeline(result, tmp_path / "r", jobs)
    assert set(os.listdir(folder)) == {"spec.toml", "summary.json", "jobs.csv", "decisions.csv",
                                       "trace.json"}
    check_format((folder / "trace.json").read_text())
    again = netsim.load_result(folder)
    assert again.summary() | {"simpy_events": 0, "wall_s": 0} == (
        netsim.run(experiment).summary() | {"simpy_events": 0, "wall_s": 0})
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("netsim.plots.perfetto._stream", full)
    with pytest.raises(OutputError, match="r: cannot be written: No space left on device"):
        save_with_timeline(result, folder, jobs)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["r"]
    result.save(folder)
    assert not Path(folder, "trace.json").exists()


# --- clusters -------------------------------------------------------------------------------


def on_cluster(gpus: Any = (2, 2), execution: Any = "fabric", **options: Any) -> Result:
    """Return a run of rings of 1 to 3 GPUs, of which some have to wait."""
    cluster = netsim.Cluster(gpus=gpus, nic="1Gbps")
    jobs = [JobSpec(7 * k, 0.02 * k, 3, pattern="ring-all-reduce", ranks=1 + k % 3, nbytes=1e6,
                    compute_s="20ms", name="vgg" * (k == 2)) for k in range(6)]
    return netsim.simulate(cluster, jobs, scheduler="fifo", execution=execution,
                           **{"timeline": True} | options)


def by_thread(made: dict[str, Any], pid: int) -> dict[str, list[tuple[str, int, int]]]:
    """Return (name, start, end) of the spans of each track of a group, in nanoseconds."""
    names, found = threads(made), defaultdict(list)
    for event in kind(made, "X"):
        if event["pid"] == pid:
            found[names[event["tid"]]].append(
                (event["name"], ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])))
    return found


GPUS = 4  # number of the group


def test_the_gpus_of_a_cluster_are_tracks() -> None:
    """With jobs, coflows, decisions and links as on a network; GPUs as the table has them."""
    result = on_cluster()
    made = check_format(json.dumps(netsim.timeline(result)))
    names = [event["args"]["name"] for event in kind(made, "M", "process_name")]
    assert names == ["jobs: workload", "policy: maxmin", "links", "GPUs: fifo"]
    spans = by_thread(made, GPUS)
    assert [*spans] == sorted(spans) == [f"server {k}, GPU {n}" for k in (0, 1) for n in (0, 1)]
    labels = {job: f"job {job}" + " vgg" * (job == 14) for job in result.jobs["job"]}
    for (server, gpu), own in result.gpus.groupby(["server", "gpu"]):
        held = own.sort_values("start_s")
        assert spans[f"server {server}, GPU {gpu}"] == [
            (labels[row.job], round(row.start_s * 1e9), round(row.end_s * 1e9))
            for row in held.itertuples()]
    coflows = [event for event in kind(made, "X") if event["cat"] == "coflow"]
    assert len(coflows) == len(result.coflows) > 0
    assert len(kind(made, "i")) == len(result.decisions) > 0
    assert made["otherData"]["scheduler"] == "fifo"


@pytest.mark.parametrize("execution", ["fabric", {"name": "rar-contention",
                                                  "time": "continuous"}])
def test_counters_of_a_cluster_are_its_usage(execution) -> None:
    """By a model there are no coflows, policy and links: GPUs and counters are all there is."""
    result = on_cluster(execution=execution)
    made = check_format(json.dumps(netsim.timeline(result)))
    usage = netsim.gpu_usage(result)
    for name, column in (("GPUs held", "held"), ("GPUs running", "running"),
                         ("jobs waiting", "waiting")):
        drawn = [(ns(event["ts"]), event["args"]["number"]) for event in kind(made, "C", name)]
        at = [at for at, _ in drawn]
        assert at == sorted(set(at))
        for instant, value in zip(usage["t_s"], usage[column], strict=True):
            last = np.searchsorted(at, round(instant * 1e9), "right") - 1
            assert (drawn[last][1] if last >= 0 else 0) == value
    groups = {event["pid"] for event in made["traceEvents"]}
    assert groups == ({1, 2, 3, 4} if execution == "fabric" else {1, 4})
    named = {"allocator": "maxmin"} if execution == "fabric" else {"execution": "rar-contention"}
    assert named.items() <= made["otherData"].items()
    assert len({"allocator", "execution"} & set(made["otherData"])) == 1


def paused(gpus: Any) -> Result:
    """Return a run by a model that restores for a tenth of each segment and saves for another."""
    result = on_cluster(gpus, {"name": "rar-contention", "time": "continuous"})
    tenth = (result.gpus["end_s"] - result.gpus["start_s"]) / 10
    return result.replace(gpus=result.gpus.assign(
        run_s=result.gpus["start_s"] + tenth, stop_s=result.gpus["end_s"] - tenth,
        reason="finish"))


def test_states_of_gpus_are_slices_of_their_own() -> None:
    result = paused((2, 2))
    made = check_format(json.dumps(netsim.timeline(result)))
    first = result.gpus.query("server == 0 and gpu == 0").sort_values("start_s").iloc[0]
    times = [round(first[name] * 1e9) for name in ("start_s", "run_s", "stop_s", "end_s")]
    assert by_thread(made, GPUS)["server 0, GPU 0"][:3] == [
        ("job 0: restoring", *times[:2]), ("job 0", *times[1:3]), ("job 0: saving", *times[2:])]
    cats = [event["cat"] for event in kind(made, "X")]
    assert {cats.count(each) for each in ("restoring", "running", "saving")} == {len(result.gpus)}
    assert kind(made, "X")[0]["args"] == {"job": 0, "gpus": 1, "ended": "finish"}


def test_servers_are_tracks_where_gpus_are_too_many(monkeypatch) -> None:
    """All states of a segment are on one track; those of several jobs do not overlap."""
    result = paused((2, 6))
    monkeypatch.setattr("netsim.plots.spans.MOST_GPUS", 7)
    made = check_format(json.dumps(netsim.timeline(result)))
    tracks = by_thread(made, GPUS)
    assert {name.split(" (")[0] for name in tracks} == {"server 0", "server 1"}
    assert "server 1 (2)" in tracks
    for spans in tracks.values():
        jobs = [name.split(":")[0] for name, *_ in spans]
        assert jobs == [job for job in jobs[::3] for _ in range(3)]
        assert all(before[2] <= after[1] for before, after in pairwise(spans))
    held = sum(event["args"]["gpus"] * ns(event["dur"]) for event in kind(made, "X"))
    assert held == pytest.approx((result.gpus["end_s"] - result.gpus["start_s"]).sum() * 1e9)


def test_a_timeline_of_a_cluster_that_ends_early() -> None:
    """Counters are 0 from then on, and the notice says what is missing."""
    jobs = [JobSpec(k, 0.1 * k, pattern="ring-all-reduce", ranks=1, compute_s=0.05)
            for k in range(2000)]
    result = netsim.simulate(netsim.Cluster(1, 2), jobs, scheduler="fifo",
                             execution={"name": "rar-contention", "time": "continuous"})
    with pytest.warns(NetsimWarning, match=r"has [\d,]+ of 2,000 times that jobs held GPUs$"):
        made = netsim.timeline(result, most_events=1000)
    assert 900 < len(made["traceEvents"]) <= 1000
    cut = kind(made, "i")[-1]["ts"]
    assert all(event["ts"] <= cut for event in made["traceEvents"] if event["ph"] in "XC")
    for name in ("GPUs held", "GPUs running"):
        assert kind(made, "C", name)[-1]["args"] == {"number": 0.0}


def test_a_timeline_changes_nothing_on_a_cluster() -> None:
    one, other = (on_cluster(timeline=timeline, record=["jobs"]) for timeline in (True, False))
    assert ("links" in one.recorded) > ("links" in other.recorded)
    for name in ("jobs", "gpus"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))


def test_gpus_alone_are_shown_if_coflows_were_not_recorded() -> None:
    cluster = netsim.Cluster(gpus=[2, 2], nic="1Gbps")
    result = netsim.simulate(cluster, [JobSpec(0, pattern="ring-all-reduce", ranks=3, nbytes=1e6)],
                             execution="fabric", scheduler="fifo", record=["jobs"])
    made = check_format(json.dumps(netsim.timeline(result)))
    assert {event["cat"] for event in kind(made, "X")} == {"running"}


def test_parts_of_coflows() -> None:
    """Overhead of 1 s, sending of 2 s, a tail of 2 s, within the coflow; one without bytes."""
    net = netsim.big_switch(2, 1e6, latency="1s", overhead="1s")
    jobs = [netsim.JobSpec(k, hosts=(0, 1), stages=[netsim.Stage("push", [(0, 1, size)])])
            for k, size in enumerate((2e6, 0.0))]
    made = netsim.timeline(netsim.simulate(net, jobs, timeline=True))["traceEvents"]
    spans = [(each["name"], each["ts"] / 1e6, each["dur"] / 1e6, each["tid"])
             for each in made if each["ph"] == "X"]
    assert [each[0] for each in spans[:2]] == ["push", "push"]  # before what is within them
    own = {long: track for name, _, long, track in spans if name == "push"}
    assert sorted(spans) == sorted([
        ("push", 0, 5, own[5]), ("overhead", 0, 1, own[5]), ("sending", 1, 2, own[5]),
        ("tail", 3, 2, own[5]),
        ("push", 0, 3, own[3]), ("overhead", 0, 1, own[3]), ("tail", 1, 2, own[3])])


def test_parts_count_for_the_limit() -> None:
    net = netsim.big_switch(2, 1e6, latency="1ms")
    flows = netsim.Workload.from_arrays(np.zeros(500, int), np.ones(500, int), 1e6)
    with pytest.warns(netsim.NetsimWarning, match="the timeline ends at"):
        made = netsim.timeline(netsim.simulate(net, flows, timeline=True), most_events=1000)
    assert len(made["traceEvents"]) <= 1000
