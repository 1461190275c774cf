"""What whole jobs on an edge-cloud keep and pay when they are preempted, by pencil."""

import pytest

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.errors import InputError
from netsim.experiment_file.experiment import Experiment
from tests.edge.test_on_fabric import MODES

ONE = EdgeCloud([["a"]], ps=1, edge_links=1e9, wan=1e9)
TRANSPORTS = ["constant", *(f"fabric:mode={mode}" for mode in MODES)]
ACCOUNTS = ["held_gpu_s", "useful_gpu_s", "lost_gpu_s", "overhead_gpu_s"]
COSTS = {"checkpoint_s": 1, "restore_s": 2}


def run(preemption, transport="constant", later=2.5, scheduler="srtf", **options):
    """Run a job of 10 mini-batches of 1 s, and one of 3 that comes later, on one worker."""
    jobs = [EdgeJob(id=0, minibatches=10, compute_s=1.0, worker_type="a"),
            EdgeJob(id=1, arrival_s=later, minibatches=3, compute_s=1.0, worker_type="a")]
    return netsim.simulate(ONE, jobs, scheduler=scheduler, transport=transport,
                           preemption=preemption, **options).jobs


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("costs", "later", "ends", "accounts"), [
    (None, 2.5, [13, 5.5], [10, 10, 0, 0]),
    (COSTS, 2.5, [16, 6.5], [13, 10, 0, 3]),
    (COSTS | {"keep": "iterations"}, 2.5, [16.5, 6.5], [13.5, 10, 0.5, 3]),
    ({"keep": "iterations"}, 2.5, [13.5, 5.5], [10.5, 10, 0.5, 0]),
    (COSTS | {"keep": "iterations"}, 0.5, [13.5, 3.5], [10.5, 10, 0.5, 0])])
def test_what_is_kept_and_paid(costs, later, ends, accounts, transport):
    """Job 0 has made 2.5 of its 10 s when job 1 comes, and saves until 3.5 s; then job 1 trains.

    Job 0 restores from 6.5 to 8.5 s, and has 7.5 s left, or 8 if it keeps whole mini-batches. After
    0.5 s it has none of these: nothing is saved nor restored.
    """
    jobs = run(costs, transport, later)
    assert jobs["finish_s"].tolist() == pytest.approx(ends)
    assert jobs.loc[0, ACCOUNTS].tolist() == pytest.approx(accounts)
    assert jobs.loc[1, ACCOUNTS].tolist() == pytest.approx([3, 3, 0, 0])
    assert jobs["preemptions"].tolist() == [1, 0]
    assert jobs["promotions"].tolist() == [0, 0]
    waited = jobs["finish_s"] - jobs["arrival_s"] - jobs["held_gpu_s"]
    assert jobs["waited_s"].tolist() == pytest.approx(waited.tolist())


def test_costs_of_a_run_that_is_stopped():
    """At 3 s job 0 saves, and at 7 s it restores: it has held the worker for 3 and 4 s."""
    for until, accounts in ((3, [3, 2.5, 0, 0.5]), (7, [4, 2.5, 0, 1.5])):
        jobs = run(COSTS, until=until)
        assert jobs.loc[0, ACCOUNTS].tolist() == pytest.approx(accounts)


def test_chunks_have_no_such_accounts():
    assert not {*ACCOUNTS, "waited_s", "promotions"} & {*run(None, scheduler="a-online").columns}


@pytest.mark.parametrize(("preemption", "scheduler", "message"), [
    ({"state_bytes": "1GB"}, "srtf", "state_bytes is for jobs on a cluster; .* upload their data"),
    ({"on_fault": "checkpoint"}, "srtf", "on_fault is for jobs on a cluster; .* no server is lost"),
    ({"keeps": 1}, "srtf", "unknown option of preemption 'keeps'"),
    ("5s", "srtf", "preemption must be a mapping"),
    (COSTS, "a-online", "preemption is for jobs on a cluster and for whole jobs; .*'a-online'")])
def test_what_means_nothing(preemption, scheduler, message):
    with pytest.raises(InputError, match=message):
        run(preemption, scheduler=scheduler)


def test_preemption_in_a_file():
    """What is not given is as for edge-clouds: jobs keep what they have made."""
    clouds = {"kind": "edge-servers", "servers": 4, "types": 2}
    jobs = {"format": "edge-jobs", "jobs": 30, "chunks": [2, 5], "span": "1h",
            "compute": ["0.0001h", "0.05h"]}

    def found(**options):
        return netsim.run(Experiment(edge_cloud=clouds, workload=jobs, scheduler="srtf", **options))

    paid, free = found(preemption={"restore_s": "20s"}), found()
    assert paid.run["preemption"]["keep"] == "fraction"
    assert paid.jobs["lost_gpu_s"].tolist() == [0.0] * 30
    assert paid.jobs["useful_gpu_s"].tolist() == pytest.approx(free.jobs["useful_gpu_s"].tolist())
    assert (paid.jobs["preemptions"] > 0).any()
    assert (paid.jobs["overhead_gpu_s"].sum() - free.jobs["overhead_gpu_s"].sum()) > 0
