"""Experiment files of jobs on clusters: what they say, refuse, compare and sweep."""

from __future__ import annotations

import re

import numpy as np
import pytest

import netsim
from netsim.cluster import draw_gpus
from netsim.errors import InputError, SpecError
from netsim.experiment_file.experiment import Experiment
from netsim.studies.compare import compare_experiment

JOBS = {"format": "ring-jobs", "mix": {"1": 4, "2": 4, "4": 2}, "iterations": [20, 60],
        "length": "25MB"}
CLUSTER = {"servers": 3, "gpus": 2}
CONTINUOUS = {"name": "rar-contention", "time": "continuous"}


def of(**keys):
    return Experiment(**{"cluster": CLUSTER, "workload": JOBS, "execution": CONTINUOUS,
                         "record": ["jobs"]} | keys)


def problems(**keys):
    with pytest.raises(SpecError) as caught:
        of(**keys)
    return caught.value.problems


def test_a_file_gives_what_simulate_gives():
    experiment = of(scheduler="ls:order=by_size", seed=3)
    by_file = netsim.run(experiment)
    by_call = netsim.simulate(
        netsim.Cluster(servers=3, gpus=2),
        netsim.read_workload(seed=3, **JOBS), scheduler={"name": "ls", "order": "by_size"},
        execution=CONTINUOUS, seed=3)
    assert by_file.jobs.equals(by_call.jobs)
    assert by_file.gpus.equals(by_call.gpus)
    again = Experiment(**by_file.spec)
    assert again.resolved() == by_file.spec == experiment.resolved()
    assert netsim.run(again).jobs.equals(by_file.jobs)
    assert by_file.spec["scheduler"] == {"name": "ls", "order": "by_size", "search": "improve",
                                         "availability": "idle", "u": 1.0}


def test_servers_are_the_hosts_of_a_network():
    leaf_spine = {"kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 2,
                  "capacity": "10Gbps", "oversubscription": 2}
    found = of(cluster={"gpus": 2}, network=leaf_spine, execution="fabric", allocator="aalo")
    assert found.target.network.hosts == found.target.servers == 4
    assert netsim.run(found).run["allocator"]["name"] == "aalo"


def test_gpus_are_drawn_by_the_seed_and_the_first_servers_stay():
    """Of many servers each number comes about equally often: 200 of 1,000 within 5 deviations."""
    many = draw_gpus(1000, [1, 2, 4, 8, 16], seed=7)
    assert draw_gpus(30, [1, 2, 4, 8, 16], seed=7) == many[:30]
    assert draw_gpus(30, [1, 2, 4, 8, 16], seed=8) != many[:30]
    counts = np.unique(many, return_counts=True)[1]
    assert len(counts) == 5
    assert abs(counts - 200).max() < 5 * np.sqrt(1000 * 0.2 * 0.8)
    drawn = {"servers": 5, "draw_gpus": [4, 8]}
    assert of(cluster=drawn, seed=2).target.gpus.tolist() == draw_gpus(5, [4, 8], 2)
    own = of(cluster=drawn | {"seed": 9}, seed=2)
    assert own.target.gpus.tolist() == draw_gpus(5, [4, 8], 9)
    with pytest.raises(InputError, match="draw_gpus must list at least one"):
        draw_gpus(3, [])


@pytest.mark.parametrize(("keys", "problem"), [
    ({"cluster": {"servers": 0}}, "cluster.servers: servers must be a whole number from 1"),
    ({"cluster": {"gpus": [2, 0]}}, "cluster.gpus: gpus: those of server 1"),
    ({"cluster": {"servers": 2, "gpus": [1, 2, 3]}}, "cluster.gpus: numbers of servers must"),
    ({"cluster": {"servers": 2, "nic": "10Gbs"}}, "cluster.nic: nic '10Gbs' has the unkn"),
    ({"cluster": {"server": 2}}, "cluster.server: unknown key 'server' (did you mean 'servers'?)"),
    ({"cluster": {"servers": 2, "gpus": 3, "draw_gpus": [4]}}, "cluster.draw_gpus: give either"),
    ({"cluster": {"servers": 2, "gpus": 0}}, "cluster.gpus: gpus: those of a server must be"),
    ({"cluster": {"servers": 2, "gpus": 2, "intra": 0}}, "cluster.intra: intra must be greater"),
    ({"cluster": {"servers": 2, "gpus": 4, "intra": "1Gbps"}},
     "cluster: execution 'rar-contention' needs fast servers: intra must be at least"),
    ({"cluster": {"gpus": 2}, "network": {"name": "big-switch-128-40g"},
      "compare": {"allocators": ["maxmin"]}}, "compare.allocators: allocators share the links"),
    ({"cluster": {"gpus": 2, "nic": "10Gbps"}, "network": {"name": "big-switch-128-40g"}},
     "network: nic is 1.25e+09 bytes/s, and the ports of network 'big-switch-128-40g' have 5e+09"),
    ({"cluster": {"gpus": 2}}, "network: a cluster needs servers, a list of gpus, or a topology"),
    ({"cluster": {"servers": 5}, "network": {"kind": "ring", "hosts": 4}},
     "network: numbers of servers must agree, not be 5 (servers), 4 (the hosts"),
    ({"cluster": {"servers": 1, "gpus": 2}}, "workload: job"),
    ({"workload": {"name": "parrot-fig2"}},
     "workload: execution 'rar-contention' needs rings: job 0 is no ring"),
    ({"scheduler": "sjfbco"}, "scheduler.name: unknown scheduler 'sjfbco' (did you mean 'sjf-bco'"),
    ({"scheduler": "sjf-bco:lam=0"}, "scheduler.lam: lam must be a finite number of at least 1"),
    ({"placement": "nearest"}, "placement.name: unknown placement 'nearest'"),
    ({"scheduler": "ff", "placement": "random"},
     "placement: scheduler 'ff' needs no placement: it chooses GPUs itself"),
    ({"execution": "fabric:alpha=-1"}, "execution.alpha: alpha must be a finite number of"),
    ({"events": [{"at": 1, "link": 0, "capacity": 0}]},
     "events: execution 'rar-contention' needs no link events: an event changes links, but jobs"),
    ({"events": [{"at": 1, "host": 0, "kind": "fail"}]},
     "events: execution 'rar-contention' needs no link events: jobs have no links to wait for; set "
     "restart = true"),
    ({"events": [{"at": 1, "host": 0, "kind": "fail", "restart": True}], "scheduler": "ls",
      "execution": "fabric"}, "events: scheduler 'ls' needs no restarts: it "
     "has planned all jobs before the run"),
    ({"events": [{"at": 1, "link": 9, "capacity": 0}], "execution": "fabric"},
     "events.0.link: "),
    ({"compare": {"schedulers": ["ff"], "allocators": ["maxmin"]}, "execution": "fabric"},
     "compare: has allocators and"),
])
def test_what_is_wrong_is_said_with_its_key(keys, problem):
    found = problems(**keys)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_policies_of_clusters_need_one():
    base = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}
    for name in ("scheduler", "placement", "execution"):
        with pytest.raises(SpecError, match=f"{name}: for jobs on a cluster"):
            Experiment(**base, **{name: "fifo" if name == "scheduler" else "random"
                                  if name == "placement" else "fabric"})
    with pytest.raises(SpecError, match=r"compare\.schedulers: for jobs on a cluster or an "):
        Experiment(**base, compare={"schedulers": ["ff"]})


def test_comparisons_of_schedulers(tmp_path):
    experiment = of(compare={"schedulers": ["fifo", "ls:order=by_size"], "baseline": "fifo"})
    compared = compare_experiment(experiment)
    assert list(compared.results) == ["fifo", "ls (order=by_size)"]
    assert compared.what == "scheduler"
    assert compared.results["ls (order=by_size)"].spec["scheduler"]["order"] == "by_size"
    compared.save(tmp_path / "c")
    again = netsim.load_comparison(tmp_path / "c")
    assert again.what == "scheduler"
    assert again.table.drop(columns="wall_s").equals(compared.table.drop(columns="wall_s"))
    by_call = netsim.compare(experiment.target, experiment.workload.built, schedulers=[
        "fifo", {"name": "ls", "order": "by_size"}], baseline="ls:order=by_size",
        execution=CONTINUOUS)
    assert by_call.baseline == "ls (order=by_size)"
    assert by_call.table["jct_total_s"].equals(compared.table["jct_total_s"])
    with pytest.raises(InputError, match="scheduler: two of the values have one label, 'ff'"):
        netsim.compare(experiment.target, experiment.workload.built, schedulers=["ff", "ff"])
    with pytest.raises(InputError, match="give either allocators or schedulers to compare"):
        netsim.compare(experiment.target, experiment.workload.built)
    for kind in ("scheduler", "allocator"):
        with pytest.raises(InputError, match=f"{kind}= holds for all runs, {kind}s= lists what"):
            netsim.compare(experiment.target, experiment.workload.built, **{kind: ["fifo"]})


def test_allocators_are_compared_on_a_cluster_too():
    compared = compare_experiment(of(
        execution="fabric", compare={"allocators": ["maxmin", "sebf"]}))
    assert compared.what == "allocator"
    assert list(compared.results) == ["maxmin", "sebf"]


def test_without_an_execution_jobs_that_are_no_rings_share_links():
    """The fabric is then the default, so that an allocator may be given, and compared."""
    llm = {"format": "llm", "model": "llama-7b", "tp": 2, "global_batch": 2}
    network = {"kind": "gpu-cluster", "servers": 2, "gpus": 2}
    keys = {"network": network, "scheduler": "fifo", "workload": llm}
    assert Experiment(**keys, cluster={}, allocator="sebf").sharing == {
        "allocator": {"name": "sebf"}}
    assert not Experiment(cluster=CLUSTER, workload=JOBS).shares_links


def test_allocators_are_not_compared_where_there_is_nothing_to_share():
    experiment = of()
    target, jobs = experiment.target, experiment.workload.built
    with pytest.raises(InputError, match=r"^allocator: allocators share the links") as of_run:
        netsim.simulate(target, jobs, allocator="aalo")
    said = f"{re.escape(str(of_run.value))}$"
    # Also where all that are listed are what a run without an allocator would have.
    for allocators in (["maxmin", "aalo"], ["maxmin"]):
        with pytest.raises(InputError, match=f"^{said}"):
            netsim.compare(target, jobs, allocators)
        with pytest.raises(InputError, match=f"^{said}"):
            netsim.sweep(target, jobs, allocator=allocators)
        with pytest.raises(SpecError, match=said):
            netsim.sweep_experiment(experiment, {"allocator": allocators})


def test_sweeps_draw_clusters_and_jobs_by_the_seed():
    drawn = {"servers": 3, "draw_gpus": [2, 3, 4]}
    found = netsim.sweep_experiment(of(cluster=drawn), {
        "cluster.servers": [3, 4], "scheduler": ["fifo", "ls:order=by_size"]}, seeds=2)
    assert found.columns == ("cluster.servers", "scheduler")
    assert found.table["scheduler"].tolist() == (["fifo"] * 2 + ["ls (order=by_size)"] * 2) * 2
    for row, result in found.results():
        alone = netsim.run(of(cluster=drawn | {"servers": row["cluster.servers"]},
                              seed=row["seed"], scheduler=result.run["scheduler"]))
        assert alone.jobs.equals(result.jobs)
    assert found.compared == "scheduler"
    with pytest.raises(SpecError, match=r"'cluster.seed' cannot be varied: give seeds"):
        netsim.sweep_experiment(of(), {"cluster.seed": [1, 2]})


def test_what_a_plan_promised_is_in_the_summary():
    """Estimates of 50 ms per iteration; iterations take from 10 to 100 ms or so."""
    result = netsim.run(of(scheduler="sjf-bco"))
    summary = result.summary()
    assert summary["plan_makespan_s"] == pytest.approx(summary["makespan_s"])
    assert summary["estimates_low"] <= 1 <= summary["estimates_high"]
    low, high = summary["estimates_low"], summary["estimates_high"]
    assert summary["theorem_5"] >= 4 * high / low


def test_what_does_not_suit_is_refused_before_anything_runs():
    """Plans are for jobs that are there at 0; times of an iteration for servers that are alike."""
    late = {"poisson_jobs": 5, "poisson_mean": "1s"}
    assert problems(scheduler="ff", workload=JOBS | late)[0].startswith(
        "workload: scheduler 'ff' needs jobs at 0: job 0 arrives at")
    unlike = {"cluster": {"gpus": [4, 2]}}
    assert problems(execution="asrpt", **unlike) == [
        "cluster: execution 'asrpt' needs equal servers: servers must have equally many GPUs "
        "each, not [2, 4]: each GPU has the same share of a NIC"]
    assert problems(scheduler="spjf:predictor=perfect", placement="random", **unlike)[0].startswith(
        "cluster: scheduler 'spjf' needs equal servers: servers must have")
    assert problems(placement="mapped", **unlike)[0].startswith(
        "cluster: placement 'mapped' needs equal servers: servers must have")
    assert problems(scheduler="spjf")[0].startswith(
        "workload: scheduler 'spjf' needs a history: the workload has none, so the predictor")


def test_a_comparison_is_refused_before_anyone_has_run():
    begun = []

    class First:
        def decide(self, view):
            begun.append(view.now)
            return []

    cluster, jobs = netsim.Cluster(gpus=[4, 2]), netsim.read_workload(seed=3, **JOBS)
    with pytest.raises(InputError, match="scheduler 'a-srpt-perfect' needs equal servers: serv"):
        netsim.compare(cluster, jobs, schedulers={"mine": First(), "other": "a-srpt-perfect"})
    with pytest.raises(InputError, match="scheduler 'ff' needs no placement: it chooses GPUs"):
        netsim.compare(cluster, jobs, schedulers={"mine": First(), "other": "ff"},
                       placement="random")
    assert begun == []
