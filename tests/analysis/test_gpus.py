"""GPUs held, running and waited for: counted by hand, and held against tables and summaries."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Cluster, JobSpec
from netsim.analysis.usage import gpu_usage, held_gpus
from netsim.errors import InputError, NotRecordedError
from netsim.results.result import Result
from tests.examples import examples

CONTINUOUS = {"name": "rar-contention", "time": "continuous"}


def job(number: int, gpus: int, seconds: float, arrival: float = 0.0) -> JobSpec:
    return JobSpec(number, arrival, ranks=gpus, nbytes=0, compute_s=seconds,
                   pattern="ring-all-reduce")


def run(*jobs: JobSpec, gpus: Sequence[int] = (2, 1), **given: object) -> Result:
    return netsim.simulate(Cluster(gpus=gpus), jobs, scheduler="fifo", execution=CONTINUOUS,
                           **given)


def rows(usage: pd.DataFrame) -> list[tuple[float, ...]]:
    return [tuple(row) for row in usage[["t_s", "held", "running", "waiting"]].to_numpy().tolist()]


def preempted(**changed: object) -> Result:
    """Return the tables of a job that is preempted for another, both of 2 GPUs.

    Job 0 runs in [0, 4], saves until 5, restores in [8, 10] and runs until 13. Job 1 arrives at 3
    and has the GPUs in [5, 8].
    """
    base = run(job(0, 2, 1), job(1, 2, 1), gpus=[2])
    jobs = base.jobs.assign(arrival_s=[0.0, 3.0], finish_s=[13.0, 8.0])
    gpus = pd.DataFrame([(each, 0, gpu, *times, reason)
                         for each, times, reason in ((0, (0.0, 0.0, 4.0, 5.0), "preempt"),
                                                     (0, (8.0, 10.0, 13.0, 13.0), "finish"),
                                                     (1, (5.0, 5.0, 8.0, 8.0), "finish"))
                         for gpu in (0, 1)],
                        columns=["job", "server", "gpu", "start_s", "run_s", "stop_s", "end_s",
                                 "reason"])
    return base.replace(**{"jobs": jobs, "gpus": gpus} | changed)


def test_a_queue_by_hand():
    """3 GPUs: 2 of them for [0, 4]; one of 3 from 4 to 6 holds up the one of 1, from 6 to 7."""
    assert rows(gpu_usage(run(job(0, 2, 4), job(1, 3, 2, 1.0), job(2, 1, 1, 2.0)))) == [
        (0, 2, 2, 0), (1, 2, 2, 1), (2, 2, 2, 2), (4, 3, 3, 1), (6, 1, 1, 0), (7, 0, 0, 0)]


def test_what_changes_nothing_has_no_row():
    """At 2 one job follows another of its size, and the queue is empty before and after."""
    assert rows(gpu_usage(run(job(0, 3, 2), job(1, 3, 2, 2.0)))) == [(0, 3, 3, 0), (4, 0, 0, 0)]


def test_saving_and_restoring_hold_gpus_that_do_not_run():
    assert rows(gpu_usage(preempted())) == [
        (0, 2, 2, 0), (3, 2, 2, 1), (4, 2, 0, 1), (5, 2, 2, 1), (8, 2, 0, 0), (10, 2, 2, 0),
        (13, 0, 0, 0)]


@pytest.mark.parametrize(("until", "last"), [(2, (2, 2, 2, 0)), (3, (3, 2, 2, 1)),
                                             (4.5, (4.5, 2, 0, 1)), (6, (6, 2, 2, 1)),
                                             (9, (9, 2, 0, 0)), (11, (11, 2, 2, 0))])
def test_a_stopped_run_ends_with_what_is_so_then(until, last):
    """Its tables have what was until then, and NaN for what comes."""
    whole = preempted()
    jobs = whole.jobs.assign(finish_s=whole.jobs["finish_s"].where(whole.jobs["finish_s"] <= until))
    gpus = whole.gpus[whole.gpus["start_s"] <= until].copy()
    for name in ("run_s", "stop_s", "end_s"):
        gpus[name] = gpus[name].where(gpus[name] <= until)
    stopped = whole.replace(jobs=jobs, gpus=gpus, run=dict(whole.run) | {"stopped_at_s": until})
    found = rows(gpu_usage(stopped))
    assert found[-1] == last
    before = [row for row in rows(gpu_usage(whole)) if row[0] < until]
    assert found[:len(before)] == before
    assert len(found) == len(before) + 1
    held = held_gpus(stopped)
    assert (np.diff(held[["start_s", "run_s", "stop_s", "end_s"]]) >= 0).all()
    assert held["end_s"].max() <= until


def test_a_run_that_was_stopped_before_any_job_had_arrived():
    assert rows(gpu_usage(run(job(0, 1, 1, 5.0), until=2))) == [(2, 0, 0, 0)]


def test_only_clusters_have_gpus():
    result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="fifo")
    with pytest.raises(NotRecordedError, match=r"there are no gpus; only runs on a netsim.Cluster"):
        gpu_usage(result)


JOBS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8), st.integers(0, 12)),
                min_size=1, max_size=8)


@settings(max_examples=examples(40), deadline=None)
@given(JOBS, st.sampled_from([None, 3.25, 11.0]))
def test_areas_are_the_utilisation_and_the_waiting_of_the_summary(jobs, until):
    """Integrals: of GPUs held, the utilisation; of waiting jobs, the times from arrival to start.

    All times are multiples of a quarter, so that sums are exact but for the division.
    """
    result = run(*(job(k, gpus, seconds, arrival) for k, (gpus, seconds, arrival)
                   in enumerate(jobs)), until=until)
    usage = gpu_usage(result)
    lengths = np.diff(usage["t_s"])
    end = usage["t_s"].iloc[-1]
    arrived = result.jobs[result.jobs["arrival_s"] <= end]
    waited = (arrived["start_s"].fillna(end) - arrived["arrival_s"]).sum()
    assert (usage["waiting"].to_numpy()[:-1] * lengths).sum() == pytest.approx(waited)
    assert (usage["held"] <= 3).all()
    assert (usage[["held", "waiting"]] >= 0).all(axis=None)
    assert (usage["held"] == usage["running"]).all()
    if len(arrived) and end > result.jobs["arrival_s"].min():
        offered = 3 * (end - result.jobs["arrival_s"].min())
        share = (usage["held"].to_numpy()[:-1] * lengths).sum() / offered
        assert share == pytest.approx(result.summary()["gpu_utilisation"])


def test_a_loss_makes_a_job_wait_again():
    """The server is lost from 1 to 3: its job waits for these two seconds, then runs for all 4."""
    events = [{"at": 1, "kind": "fail", "host": 0, "restart": True},
              {"at": 3, "kind": "repair", "host": 0}]
    result = run(job(0, 2, 4), gpus=[2], events=events)
    assert rows(gpu_usage(result)) == [(0, 2, 2, 0), (1, 0, 0, 1), (3, 2, 2, 0), (7, 0, 0, 0)]


@pytest.mark.parametrize("wrong", [{"server": 2}, {"server": -1}, {"gpu": 2}, {"gpu": -1}])
def test_gpus_that_the_cluster_lacks(wrong):
    result = run(job(0, 3, 1))
    with pytest.raises(InputError, match="not in the cluster, which has 3 GPUs on 2 serv"):
        held_gpus(result.replace(gpus=result.gpus.assign(**wrong)))
    assert held_gpus(result)["number"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("said", [{}, {"gpus_per_server": "many"}, {"gpus_per_server": None}])
def test_results_that_do_not_say_what_servers_have(said):
    result = run(job(0, 3, 1))
    rest = {name: value for name, value in result.run.items() if name != "gpus_per_server"}
    with pytest.raises(InputError, match="does not say how many GPUs each server has; if it is "):
        held_gpus(result.replace(run=rest | said))


@pytest.mark.parametrize("execution", [CONTINUOUS, "fabric"])
def test_areas_are_the_accounts_of_jobs_that_are_preempted(execution):
    """GPU-seconds held, those that are useful or lost, and the seconds that jobs waited."""
    jobs = [replace(job(k, 1 + k % 3, 6 - k % 4, 1.5 * k), estimate_s=6 - k % 4) for k in range(8)]
    result = netsim.simulate(
        Cluster(gpus=[2, 1]), jobs, scheduler={"name": "las", "quantum_s": 2}, execution=execution,
        preemption={"keep": "fraction", "checkpoint_s": 0.25, "restore_s": 0.5})
    assert result.jobs["preemptions"].sum() > 3
    usage, accounts = gpu_usage(result), result.jobs.sum(numeric_only=True)
    area = usage[["held", "running", "waiting"]].iloc[:-1].mul(np.diff(usage["t_s"]), axis=0).sum()
    assert area["held"] == pytest.approx(accounts["held_gpu_s"])
    assert area["running"] == pytest.approx(accounts["useful_gpu_s"] + accounts["lost_gpu_s"])
    assert area["waiting"] == pytest.approx(accounts["waited_s"])
