"""Timelines of edge-clouds: jobs, workers and counters are what the tables say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.analysis.usage import worker_usage
from netsim.errors import NetsimWarning, NotRecordedError
from netsim.plots.edge_gantt import edge_gantt
from tests.examples import ALL
from tests.plots.test_perfetto import by_thread, check_format, kind, ns

SYSTEM = EdgeCloud([["a"], ["a", "b"]])
JOBS, WORKERS = 1, 4  # numbers of the groups


def job(number: int, **options: object) -> EdgeJob:
    return EdgeJob(**{"id": number, "worker_type": "a", "upload_s": 1.0, "cloud_upload_s": 5.0}
                   | options)


#: Of three chunks of 10 s one goes to the cloud; the other job takes a worker in [4, 6].
THREE = [job(0, compute_s=10, chunks=3, name="vgg"), job(1, arrival_s=3, compute_s=2)]


def drawn() -> tuple[EdgeCloud, netsim.EdgeWorkload]:
    system = netsim.draw_edge_cloud(6, types=2, seed=3)
    return system, netsim.draw_edge_jobs(
        12 if ALL else 4, servers=6, types=2, span="20h", chunks=(3, 9),
        compute=("0.001h", "0.005h"), seed=3)


def seconds(spans: list[tuple[str, int, int]]) -> list[tuple[str, float, float]]:
    return [(name, start / 1e9, end / 1e9) for name, start, end in spans]


def test_jobs_and_workers_of_a_small_run() -> None:
    made = check_format(json.dumps(netsim.timeline(netsim.simulate(SYSTEM, THREE))))
    names = [event["args"]["name"] for event in kind(made, "M", "process_name")]
    assert names == ["jobs: workload", "workers: a-online"]
    assert {name: seconds(spans) for name, spans in by_thread(made, JOBS).items()} == {
        "job 0 vgg": [("upload", 0, 1), ("training", 1, 15)],
        "job 1": [("upload", 3, 4), ("training", 4, 6)]}
    assert {name: seconds(spans) for name, spans in by_thread(made, WORKERS).items()} == {
        "server 0, worker 0": [("job 0 vgg", 1, 4), ("job 1", 4, 6), ("job 0 vgg", 6, 13)],
        "server 1, worker 0": [("job 0 vgg", 1, 11)]}
    assert [event["args"].get("chunk") for event in kind(made, "X") if event["pid"] == WORKERS] == [
        0, 1, 0, 0]
    counted = {name: [(event["ts"] / 1e6, event["args"]["number"])
                      for event in kind(made, "C", name)]
               for name in ("workers in training", "jobs waiting")}
    assert counted == {"workers in training": [(1, 2), (11, 1), (13, 0)],
                       "jobs waiting": [(0, 1), (1, 0), (3, 1), (4, 0)]}


@pytest.mark.parametrize("scheduler", ["a-online", "srtf", "batch:mode=periodic", "cloud-only"])
def test_everything_is_in_its_place(scheduler) -> None:
    """Spans of jobs are those of PSs, those of workers add up to the time that they train."""
    result = netsim.simulate(*drawn(), scheduler=scheduler)
    made = check_format(json.dumps(netsim.timeline(result)))
    of_jobs = by_thread(made, JOBS)
    for number, own in result.ps.groupby("job"):
        assert [each[1:] for each in of_jobs[f"job {number}"] if each[0] == "training"] == [
            (round(row.start_s * 1e9), round(row.end_s * 1e9)) for row in own.itertuples()]
    spans, free = by_thread(made, WORKERS), 0
    for name, own in spans.items():
        for _, start, end in own:
            assert start >= free - 4, f"{name} overlaps"
            free = end
        free = 0
    busy = result.workers.set_index(["server", "worker"])["busy_s"]
    for (server, worker), expected in busy.items():
        own = spans.get(f"server {server}, worker {worker}", [])
        assert sum(end - start for name, start, end in own if ": " not in name
                   ) / 1e9 == pytest.approx(expected, abs=1e-6)


def test_usage_of_workers_over_time() -> None:
    """Its area is the time that workers train; a job waits until it trains or when it does not."""
    result = netsim.simulate(*drawn(), scheduler="srtf")
    usage = worker_usage(result)
    length = np.diff(usage["t_s"])
    assert np.dot(usage["training"][:-1], length) == pytest.approx(result.workers["busy_s"].sum())
    trained = (result.ps["end_s"] - result.ps["start_s"]).sum()
    assert np.dot(usage["waiting"][:-1], length) == pytest.approx(
        result.jobs["jct_s"].sum() - trained)
    assert usage.iloc[-1].tolist() == [result.jobs["finish_s"].max(), 0, 0]


def test_a_stopped_run_ends_where_it_was_stopped() -> None:
    made = netsim.timeline(netsim.simulate(SYSTEM, THREE, until=3.5))
    assert {name: seconds(spans) for name, spans in by_thread(made, JOBS).items()} == {
        "job 0 vgg": [("upload", 0, 1), ("training", 1, 3.5)], "job 1": [("upload", 3, 3.5)]}


def test_many_workers_share_the_track_of_their_server(monkeypatch) -> None:
    """What overlaps is on further tracks."""
    monkeypatch.setattr("netsim.plots.spans.MOST_GPUS", 1)
    system = EdgeCloud([["a", "a"], ["b"]])
    spans = by_thread(netsim.timeline(netsim.simulate(system, THREE)), WORKERS)
    assert [*spans] == ["server 0", "server 0 (2)"]
    assert sum(map(len, spans.values())) == 4


@pytest.mark.parametrize("transport", ["fabric", "fabric:mode=exact"])
def test_links_are_there_where_they_are_shared_and_nothing_changes(transport) -> None:
    """To the last bit, though links and decisions are kept for the timeline alone."""
    system = EdgeCloud([["a"], ["a", "b"]], edge_links="1Gbps", wan="1Gbps")
    jobs = [job(k, arrival_s=k, chunks=3, compute_s=1, gradient_bytes="50MB", chunk_bytes="200MB")
            for k in range(3)]
    plain, kept = (netsim.simulate(system, jobs, transport=transport, record=["jobs"],
                                   timeline=timeline) for timeline in (False, True))
    assert {*kept.recorded} - {*plain.recorded} == {"links", "decisions"}
    for name in plain.recorded:
        assert getattr(plain, name).equals(getattr(kept, name)), name
    made = check_format(json.dumps(netsim.timeline(kept)))
    assert {event["pid"] for event in made["traceEvents"]} == {1, 2, 3, 4}
    assert len(kind(made, "i")) == len(kept.decisions) > 0
    for link, rows in kept.links.groupby("link", observed=True):
        events = [(ns(event["ts"]), event["args"]["bytes/s"]) for event in kind(made, "C", link)]
        at, rate = map(np.array, zip(*events, strict=True))
        assert (rate[:-1] * np.diff(at)).sum() / 1e9 == pytest.approx(rows["bytes"].sum(), rel=1e-6)


def test_what_is_too_long_ends_early() -> None:
    result = netsim.simulate(SYSTEM, [job(k, arrival_s=3 * k, compute_s=1) for k in range(2000)])
    with pytest.warns(NetsimWarning, match=r"it has [\d,]+ of 2,000 times that jobs held workers$"):
        made = netsim.timeline(result, most_events=1000)
    assert len(made["traceEvents"]) <= 1000


def test_tables_that_it_needs() -> None:
    result = netsim.simulate(SYSTEM, THREE)
    with pytest.raises(NotRecordedError, match=r"simulate with record=\['jobs', 'ps'\]"):
        netsim.timeline(result.replace(ps=None))
    without = netsim.timeline(result.replace(chunks=None))
    assert {event["name"] for event in kind(without, "X") if event["pid"] == JOBS} == {"training"}


#: Job 0 of two chunks uploads in [0, 2] and trains from 2 s on; the others come at 5 and 6 s.
GANGS = [job(0, compute_s=10, chunks=2, upload_s=2, worker_type="a"),
         job(1, compute_s=3, arrival_s=5), job(2, compute_s=30, arrival_s=6)]


@pytest.mark.parametrize("transport", ["constant", "fabric"])
def test_what_whole_jobs_do_when_they_do_not_train(transport) -> None:
    """On two workers, with 1 s to save and 2 s to restore.

    Job 1 is shorter, takes a worker at 6 s, when job 0 has saved, and trains in [7, 10]; job 2
    takes the other one, and trains until job 0 comes back, which is shorter. That restores in
    [11, 13], when job 2 has saved, and trains the 7 s that it has left; then job 2 comes back.
    """
    system = EdgeCloud([["a"], ["a"]], edge_links=1e9, wan=1e9)
    jobs = [replace(each, chunk_bytes=1e9) for each in GANGS]
    result = netsim.simulate(system, jobs, scheduler="srtf", transport=transport,
                             preemption={"checkpoint_s": 1, "restore_s": 2})
    made = check_format(json.dumps(netsim.timeline(result)))
    assert {name: seconds(spans) for name, spans in by_thread(made, JOBS).items()} == {
        "job 0": [("upload", 0, 2), ("training", 2, 5), ("save", 5, 6), ("suspended", 6, 11),
                  ("restore", 11, 13), ("training", 13, 20)],
        "job 1": [("upload", 6, 7), ("training", 7, 10)],
        "job 2": [("upload", 6, 7), ("training", 7, 10), ("save", 10, 11), ("suspended", 11, 20),
                  ("restore", 20, 22), ("training", 22, 49)]}
    assert seconds(by_thread(made, WORKERS)["server 0, worker 0"]) == [
        ("job 0: uploading", 0, 2), ("job 0", 2, 5), ("job 0: saving", 5, 6),
        ("job 1: uploading", 6, 7), ("job 1", 7, 10),
        ("job 0: restoring", 11, 13), ("job 0", 13, 20)]
    ax = edge_gantt(result)
    assert [text.get_text() for text in ax.get_legend().get_texts()
            ] == ["at the edge", "no data yet", "restoring", "saving", "suspended", "no training"]
    held = result.held[(result.held["job"] == 2)].drop(columns=["job", "worker"])
    assert held.to_numpy().tolist() == [[1, 6, 7, 7, 10, 11, "preempt"],
                                        [1, 20, 20, 22, 49, 49, "finish"]]
    assert (np.diff(held[["start_s", "data_s", "run_s", "stop_s", "end_s"]]) >= 0).all()


@pytest.mark.parametrize(("until", "ends"), [
    (1, [("upload", 0, 1)]), (8, [("upload", 0, 2), ("training", 2, 5), ("save", 5, 6),
                                  ("suspended", 6, 8)]),
    (12, [("upload", 0, 2), ("training", 2, 5), ("save", 5, 6), ("suspended", 6, 11),
          ("restore", 11, 12)])])
def test_what_whole_jobs_do_in_a_run_that_is_stopped(until, ends) -> None:
    result = netsim.simulate(EdgeCloud([["a"], ["a"]]), GANGS, scheduler="srtf", until=until,
                             preemption={"checkpoint_s": 1, "restore_s": 2})
    assert seconds(by_thread(netsim.timeline(result), JOBS)["job 0"]) == ends
    instants = result.held[["start_s", "data_s", "run_s", "stop_s", "end_s"]]
    assert not (instants > until).any(axis=None)


@pytest.mark.parametrize("scheduler", ["srtf", "tiresias-l", "gandiva-rr", "batch:mode=periodic"])
def test_what_whole_jobs_hold_adds_up(scheduler) -> None:
    """To the columns of jobs, and to the intervals of training."""
    result = netsim.simulate(*drawn(), scheduler=scheduler, preemption={"restore_s": "5min"})
    held = result.held
    of_job = held.assign(held=held["end_s"] - held["start_s"]).query("server >= 0").groupby("job")
    expected = result.jobs.set_index("job")["held_gpu_s"]
    assert of_job["held"].sum().reindex(expected.index, fill_value=0).to_numpy() == pytest.approx(
        expected.to_numpy())
    trained = held[held["stop_s"] > held["run_s"] * (1 + 1e-12)]
    key = ["job", "server", "worker", "start_s"]
    rows = trained.drop(columns="start_s").rename(columns={"run_s": "start_s"})[key]
    assert rows.sort_values(key).to_numpy().tolist() == result.training.sort_values(key)[
        key].to_numpy().tolist()
    with pytest.raises(netsim.NotRecordedError, match="or the scheduler is one for chunks"):
        netsim.simulate(*drawn()).held  # noqa: B018
