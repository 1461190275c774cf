"""Weights, names and groups of jobs: what allocators and schedulers see of them."""

import numpy as np
import pandas as pd
import pytest
import simpy

import netsim
from netsim import Cluster, EdgeCloud, EdgeJob, JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.predictors import Forecast
from netsim.testing import make_view
from netsim.workload import history_of
from netsim.workload.history import History

NET = netsim.big_switch(3, "8Mbps")
RING = {"pattern": "ring-all-reduce", "ranks": 2, "nbytes": "1MB"}
LABELS = {"weight": 3, "name": "one", "group": "prod"}


class Seen(netsim.Allocator):
    """Shares links by weight, and keeps what it has seen of each job."""

    def __init__(self):
        self.of = {}

    def __deepcopy__(self, memo):
        return self

    def allocate(self, view):
        for job, *labels in zip(view.job_id.tolist(), view.weight.tolist(), view.job_name,
                                view.job_group, strict=True):
            self.of[job] = tuple(labels)
        return netsim.Allocation(coflow_weights=view.weight)


KINDS = {
    "single": {"stages": [Stage("a", [(0, 1, 1e6)])], "hosts": [0, 1]},
    "chain": {"stages": [Stage("a", [(0, 1, 1e6)])], "hosts": [0, 1], "iterations": 2},
    "pattern": {**RING, "hosts": [0, 1]},
    "ranks": {"stages": [Stage("a", [(0, 1, 1e6)], compute_s=1, ranks=[0])], "hosts": [0, 1]},
    "model": {"model": netsim.make_model("resnet152", gpus=2), "hosts": [0, 1]}}


@pytest.mark.parametrize("kind", KINDS)
def test_allocators_see_them_of_jobs_of_every_kind(kind):
    seen = Seen()
    netsim.simulate(NET, [JobSpec(7, **KINDS[kind], **LABELS)], allocator=seen)
    assert seen.of == {7: (3.0, "one", "prod")}


def test_a_language_model_has_them():
    seen, job = Seen(), netsim.llm_job({"layers": 1, "hidden": 64, "heads": 4, "vocab": 64,
                                        "sequence": 8, "ffn": 64}, dp=2, global_batch=2, **LABELS)
    netsim.simulate(NET, [job], allocator=seen)
    assert seen.of == {0: (3.0, "one", "prod")}


def test_a_stage_counts_within_its_job():
    """The job's 3 times the stage's 2; a job without a weight, a name and a group has 1."""
    seen = Seen()
    stages = [Stage("a", [(0, 1, 1e6)], weight=2)]
    netsim.simulate(NET, [JobSpec(0, stages=stages, hosts=[0, 1], weight=3),
                          JobSpec(1, stages=KINDS["single"]["stages"], hosts=[0, 1])],
                    allocator=seen)
    assert seen.of == {0: (6.0, "", None), 1: (1.0, "", None)}


def test_it_is_a_share_of_a_link():
    """Two flows of 3 MB at 1 MB/s, at 3 to 1: the first ends at 4 s, the other at 6 s."""
    flows = Workload.from_arrays([0, 0], [1, 2], "3MB", weight=[1, 3])
    assert netsim.simulate(NET, flows, allocator="coflow-fair").jobs["finish_s"].tolist() == [6, 4]
    assert [job.weight for job in flows.shift(1)[1:]] == [3]


def test_a_table_has_a_column_of_weights():
    table = pd.DataFrame({"src": [0, 1, 0], "dst": 2, "bytes": 1e6, "job": ["b", "b", "a"],
                          "coflow": [0, 1, 2], "start_s": 0.0, "prio": [2, 2, 1]})
    jobs = Workload.from_frame(table, weight="prio")
    assert [(job.name, job.weight) for job in jobs] == [("b", 2.0), ("a", 1.0)]
    assert {job.weight for job in Workload.from_frame(table)} == {1.0}
    with pytest.raises(InputError, match="job 'b' has two weights, 2 in row 0 and 3 in row 1"):
        Workload.from_frame(table.assign(prio=[2, 3, 1]), weight="prio")
    with pytest.raises(InputError, match="prio of row 1 must be finite and positive, not 0"):
        Workload.from_frame(table.assign(prio=[2, 0, 1]), weight="prio")


def test_a_file_of_flows_has_one(tmp_path):
    path = tmp_path / "flows.csv"
    path.write_text("src,dst,bytes,prio\n0,1,5,2\n1,2,5,4\n")
    assert [job.weight for job in netsim.read_workload(path, weight="prio")] == [2, 4]


def test_linear_programmes_minimise_by_it():
    """Of 3 and 1 s on one link, with weights 9 and 1, the long one goes first: 9 * 3 + 4."""
    jobs = [JobSpec(k, stages=[Stage("a", [(0, 1, size)])], hosts=range(3), weight=weight)
            for k, (size, weight) in enumerate([("3MB", 9), ("1MB", 1)])]
    done = netsim.simulate(NET, jobs, allocator="lp-order")
    assert done.jobs["finish_s"].tolist() == [3, 4]
    assert done.summary()["weighted_jct_bound_s"] == pytest.approx(31, rel=2e-3)


def test_a_rule_sees_it():
    @netsim.compiled(information="agnostic")
    def heaviest_first(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = -coflows[c].weight

    jobs = [JobSpec(k, stages=[Stage("a", [(0, 1, "1MB")])], hosts=range(3), weight=1 + k)
            for k in range(2)]
    assert netsim.simulate(NET, jobs, allocator=heaviest_first).jobs["finish_s"].tolist() == [2, 1]


class Heaviest:
    """Starts the heaviest waiting job, and keeps what it has seen."""

    def decide(self, view):
        self.seen = view.weight.tolist()
        room = view.room()
        placed = [(job, room.place(job)) for job in
                  sorted(view.waiting, key=lambda job: -view.weight[job])]
        return [(job, gpus) for job, gpus in placed if gpus is not None]


@pytest.mark.parametrize("execution", ["fabric", "rar-contention:time=continuous"])
def test_schedulers_see_it_per_job(execution):
    """Three jobs of all GPUs: the last one, which is the heaviest, goes before the others."""
    jobs = [JobSpec(k, **RING, compute_s=1, weight=weight) for k, weight in enumerate([1, 2, 4])]
    done = netsim.simulate(Cluster(servers=1, gpus=2), jobs, scheduler=Heaviest,
                           execution=execution).jobs
    assert np.argsort(done["start_s"]).tolist() == [2, 1, 0]


def test_a_submitted_job_has_them_also_in_a_fork():
    sim = netsim.Simulation(NET, [JobSpec(5, **KINDS["chain"], weight=2, name="old")])
    sim.submit(JobSpec(2, **KINDS["chain"], weight=5, name="new"))
    for each in (sim.fork(), sim):
        view = each.run(until=0.5).view()
        assert view.job_id.tolist() == [2, 5]
        assert view.weight.tolist() == [5, 2]
        assert view.job_name.tolist() == ["new", "old"]


def test_shares_of_gpus_take_no_weight():
    """A-SRPT's reserved shares are those of the GPUs, whatever the job's weight."""
    def ends(weight):
        return netsim.simulate(Cluster(servers=2, gpus=2, nic="8Mbps"), [
            JobSpec(0, pattern="ring-all-reduce", ranks=3, nbytes="1MB", weight=weight)],
            allocator={"name": "reserved", "shares": "gpus"}, execution="fabric").jobs["finish_s"]

    assert ends(1).tolist() == ends(50).tolist()


def test_edge_jobs_have_them():
    """Whole jobs of an edge-cloud are as those of a cluster; their coflows on links, too."""
    cloud = EdgeCloud([["gpu"]], cloud=False)
    jobs = [EdgeJob(id=k, worker_type="gpu", compute_s=1, weight=weight, group=weight)
            for k, weight in enumerate([1, 2, 4])]
    done = netsim.simulate(cloud, jobs, scheduler=Heaviest).jobs
    assert np.argsort(done["finish_s"]).tolist() == [2, 1, 0]
    seen = Seen()
    netsim.simulate(EdgeCloud([["gpu"]], ps=1, edge_links="8Mbps", wan="8Mbps"), [EdgeJob(
        id=5, worker_type="gpu", compute_s=1, gradient_bytes="1MB", bandwidth="8Mbps",
        cloud_upload_s=1e6, chunk_bytes="1MB", **LABELS)], scheduler="a-online-e",
        transport="fabric", allocator=seen)
    assert seen.of == {5: (3.0, "one", "prod")}


def test_jobs_of_programs_have_them():
    seen, env = Seen(), simpy.Environment()
    fabric = netsim.Fabric(env, NET, allocator=seen)
    fabric.transfer(0, 1, "1MB", job=fabric.job("one", weight=3, group="prod"), weight=2)
    fabric.transfer(0, 1, "1MB", weight=2)
    env.run()
    assert seen.of == {0: (6.0, "one", "prod"), 1: (2.0, "transfer", None)}
    with pytest.raises(InputError, match="weight of a job must be a finite number greater than 0"):
        fabric.job(weight=0)
    with pytest.raises(InputError, match="group of a job must be a label"):
        fabric.job(group=1.5)


def test_views_by_hand_have_them():
    view = make_view(NET, [[(0, 1, 5.0)], [(0, 2, 5.0)]], jobs=[0, 2], job_id=[4, 5, 6],
                     job_name=["a", "b", "c"], job_group=["x", None, 3])
    assert view.job_id.tolist() == [4, 6]
    assert view.job_name.tolist() == ["a", "c"]
    assert view.job_group.tolist() == ["x", 3]
    assert (view.job_group == "x").tolist() == [True, False]
    with pytest.raises(InputError, match="job_name has 1 values for 2 jobs"):
        make_view(NET, [[(0, 1, 5.0)]], jobs=[1], job_name=["a"])


def test_instances_keep_them(tmp_path):
    jobs = [JobSpec(0, stages=[Stage("c0", [(0, 1, 5.0)])], hosts=[0, 1], weight=2.5, group="x"),
            JobSpec(1, stages=[Stage("c0", [(0, 1, 5.0)])], hosts=[0, 1], group=3)]
    netsim.traces.write_instance(Workload(jobs), tmp_path / "jobs.json")
    back = netsim.read_workload(tmp_path / "jobs.json")
    assert [(job.weight, job.group) for job in back] == [(2.5, "x"), (1.0, 3)]
    apart = JobSpec(7, stages=[Stage("1", [(0, 1, 5.0)], coflow_id=1)], hosts=[0, 1], weight=2)
    for write in (netsim.traces.write_instance, netsim.traces.write_coflow_benchmark):
        with pytest.raises(InputError, match="job 7 has a weight"):
            write(Workload([apart]), tmp_path / "other")


def test_predictors_learn_of_named_groups():
    past = [JobSpec(k, ranks=1, pattern="ring-all-reduce", iterations=10 * (1 + k % 2),
                    group="ab"[k % 2]) for k in range(4)]
    forecast = Forecast("mean", history_of(past))
    assert [forecast.predict(0, group, None) for group in ("a", "b")] == [10, 20]
    numbered = History([1, 1], [0, 0], [4, 8])
    assert Forecast("mean", numbered).predict(0, 1, 0) == 6


@pytest.mark.parametrize(("given", "message"), [
    ({"weight": 0}, "job 0: weight must be a finite number greater than 0, not 0"),
    ({"weight": float("inf")}, "job 0: weight must be a finite number greater than 0, not inf"),
    ({"weight": "2"}, "job 0: weight must be a finite number greater than 0, not '2'"),
    ({"group": -1}, "job 0: group must be a label: a name, or a whole number from 0 to "
                    "1,000,000,000,000,000, not -1"),
    ({"weight": 1e300, "stages": [Stage("a", weight=1e300)], "pattern": None, "ranks": 0},
     "job 0: weight times that of stage 'a' must be finite; they are 1e+300 and 1e+300")])
def test_what_is_refused(given, message):
    with pytest.raises(InputError) as caught:
        JobSpec(0, **RING | given)
    assert str(caught.value) == message
