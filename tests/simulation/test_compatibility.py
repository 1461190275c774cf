"""The table of what goes with what: every need is refused alike, whichever way a run is given."""

import re

import pytest

import netsim
from netsim import InputError, JobSpec, ModelStage, ParallelModel, SpecError, Workload
from netsim.engine.registry import CoflowContention
from netsim.errors import UnknownNameError
from netsim.experiment_file.experiment import Experiment
from netsim.placements.placement import FirstFit
from netsim.schedulers.a_online import AOnline
from netsim.schedulers.queues import FIFO
from netsim.simulation.needs import NEEDS, needs_of
from netsim.simulation.run_spec import NOT_FOR

HERE = __name__


class OnCluster(FIFO):
    def __init__(self, need=None):
        self.needs = [need] if need else []


class OnEdge(AOnline):
    def __init__(self, need=None):
        object.__setattr__(self, "needs", {need} if need else ())


def jobs(*models, **keys):
    """A file's table of jobs: rings, or one of each model."""
    ring = {"pattern": "ring-all-reduce", "ranks": 2, "nbytes": 1e5, "iterations": 2}
    return [JobSpec(k, **(keys if model is None else keys | {"model": model})) for k, model
            in enumerate(models)] if models else [JobSpec(0, **(ring | keys))]


SLICED = ParallelModel([ModelStage(2, 0.1, 0.1, slices=2, slice_bytes=1e5)])
HALF = ParallelModel([ModelStage(2, 0.1, 0.1, param_bytes=1e5)], allreduce_factor=0.5)
EXCHANGE = jobs(pattern="all-to-all")
LOST = {"at": 1, "host": 0, "kind": "fail", "restart": True}

#: On a cluster: need -> the jobs, and the keys of an experiment, of a run without it.
WITHOUT = {
    "an edge-cloud": (jobs(), {}),
    "rings": (EXCHANGE, {}),
    "known iteration times": (EXCHANGE, {}),
    "known traffic": (EXCHANGE, {}),
    "whole all-reduces": (jobs(HALF), {"execution": "asrpt"}),
    "equal servers": (jobs(), {"cluster": {"gpus": [2, 1]}}),
    "fast servers": (jobs(), {"cluster": {"servers": 2, "gpus": 2, "nic": "1Gbps",
                                          "intra": "1Mbps"}, "execution": "asrpt"}),
    "jobs at 0": (jobs(arrival_s=3), {}),
    "a history": (jobs(), {}),
    "no placement": (jobs(), {"placement": "random"}),
    "no slices": (jobs(SLICED), {}),
    "no restarts": (jobs(), {"events": [LOST]}),
    "no link events": (jobs(), {"events": [{"at": 1, "link": 0, "capacity": 1e6}]}),
    "ideal links": (jobs(), {"cluster": {"gpus": 2},
                             "network": {"kind": "big-switch", "hosts": 2, "latency": "1us"}}),
}


def without(need):
    return Workload(WITHOUT[need][0])


PLACE = {"kind": "edge-listed", "workers": [["a"], ["a"]]}
CHUNKS = {"compute_s": 1, "chunks": 2, "worker_type": "a", "chunk_bytes": 5}

#: On an edge-cloud: need -> the keys of its table, those of its one job, and of the experiment.
WITHOUT_ON_EDGE = {
    "a cluster": ({}, {}, {}),
    "constant delays": ({}, {}, {"transport": "fabric"}),
    "a transport of whole jobs": ({}, {}, {"transport": "fabric:mode=exact:preemption=drop"}),
    "exchanges with a PS": ({}, {"exchange": "ring"}, {}),
    "a cloud": ({"cloud": False}, {}, {}),
    "edge workers": ({}, {"worker_type": "b"}, {}),
    "edge storage": ({"storage": 1}, {}, {}),
    "edge storage for whole jobs": ({"storage": 9}, {"gang": 1}, {}),
    "edge storage or a cloud": ({"storage": 1, "cloud": False}, {}, {}),
    "sites of the network": ({}, {"site": 7}, {}),
    "no restarts": ({}, {}, {"transport": "fabric", "events": [LOST]}),
    "placed jobs": ({}, {}, {"transport": "fabric", "allocator": "ring-contention:count=running"}),
}


def test_every_need_is_tried():
    assert set(NEEDS["cluster"]) == set(WITHOUT)
    assert set(NEEDS["edge-cloud"]) == set(WITHOUT_ON_EDGE)


def refused_alike(keys, owner, policy, need, besides=()):
    """Say that a run in which one policy needs what is not so is refused by all doors alike.

    Keys `besides` are refused for the sake of another policy, too.
    """
    given = Experiment(**keys)
    with pytest.raises(SpecError) as of_file:
        Experiment(**keys | {"scheduler": policy} | dict(besides))
    calls = given.arguments | {"scheduler": policy} | dict(besides)
    with pytest.raises(InputError, match=f"^{re.escape(owner)} needs {need}: ") as of_call:
        netsim.simulate(given.target, given.jobs, **calls)
    assert str(of_call.value) in str(of_file.value)
    others = {name: value for name, value in calls.items() if name != "scheduler"}
    with pytest.raises(InputError) as of_comparison:
        netsim.compare(given.target, given.jobs, schedulers=[policy], **others)
    assert str(of_comparison.value) == str(of_call.value)
    with pytest.raises(InputError) as of_sweep:
        netsim.sweep(given.target, given.jobs, scheduler=[policy], **others)
    assert str(of_sweep.value) == str(of_call.value)


@pytest.mark.parametrize("need", WITHOUT)
def test_on_a_cluster(need):
    keys = {"cluster": {"servers": 2, "gpus": 2}, "execution": "fabric",
            "workload": {"format": f"{HERE}:without", "need": need}} | WITHOUT[need][1]
    name = f"{HERE}:OnCluster"
    refused_alike(keys, f"scheduler {name!r}", {"name": name, "need": need}, need)


@pytest.mark.parametrize("need", WITHOUT_ON_EDGE)
def test_on_an_edge_cloud(need):
    place, job, others = WITHOUT_ON_EDGE[need]
    keys = {"edge_cloud": PLACE | place, "scheduler": f"{HERE}:OnEdge",
            "workload": {"format": "edge-listed", "jobs": [CHUNKS | job]}}
    name = f"{HERE}:OnEdge"
    refused_alike(keys, f"scheduler {name!r}", {"name": name, "need": need}, need, others)


#: What runs: the keys of an experiment on it.
TARGETS = {
    "network": {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}},
    "cluster": {"cluster": {"servers": 2, "gpus": 2}, "execution": "fabric",
                "workload": {"format": f"{HERE}:without", "need": "a history"}},
    "edge-cloud": {"edge_cloud": PLACE, "transport": "fabric",
                   "workload": {"format": "edge-listed", "jobs": [CHUNKS]}},
}
TARGETS["cluster by a model"] = TARGETS["cluster"] | {"execution": "asrpt"}
TARGETS["edge-cloud without links"] = TARGETS["edge-cloud"] | {"transport": "constant"}

#: Values of arguments that a file and a call have in common.
ARGUMENTS = {
    "epsilon": 0.5, "transport": "fabric", "scheduler": "fifo", "placement": "random",
    "preemption": {"keep": "fraction"},
    "execution": "fabric", "allocator": "sebf", "observe_interval": 1.0, "until": 3.0,
    "events": [{"at": 1, "link": 0, "capacity": 1e6}], "stragglers": {"0": 2.0},
    "record.links": ["links"], "record.decisions": ["decisions"],
    "record.chunks": ["jobs", "chunks"], "record.ps": ["ps"]}


@pytest.mark.parametrize(("target", "name"), [
    (target, name) for target, reasons in NOT_FOR.items() for name in reasons
    if name in ARGUMENTS])
def test_arguments_that_are_not_for_what_runs(target, name):
    """A file and a call refuse them alike."""
    keys, value, argument = TARGETS[target], ARGUMENTS[name], name.partition(".")[0]
    given = Experiment(**keys)
    with pytest.raises(SpecError) as of_file:
        Experiment(**keys | {argument: value})
    calls = given.arguments | {argument: value}
    with pytest.raises(InputError) as of_call:
        netsim.simulate(given.target, given.jobs, **calls)
    assert str(of_call.value) in of_file.value.problems
    assert str(of_call.value).startswith(f"{name}: ")


@pytest.mark.parametrize("wrong", [
    {"stragglers": {9: 2.0}}, {"stragglers": {0: 0.5}}, {"until": -1}, {"record": ["nothing"]},
    {"observe_interval": "soon"}, {"epsilon": -1},
    {"events": [{"at": 1, "link": 99, "capacity": 0}]}], ids=str)
@pytest.mark.parametrize("target", [target for target in TARGETS if target != "network"])
def test_comparisons_and_sweeps_refuse_what_a_run_does(target, wrong):
    """In the words of the run, and before any run."""
    given = Experiment(**TARGETS[target])
    calls = given.arguments | wrong
    schedulers = [calls.pop("scheduler", None) or ("a-online" if "edge" in target else "fifo")]
    with pytest.raises(InputError) as of_run:
        netsim.simulate(given.target, given.jobs, scheduler=schedulers[0], **calls)
    said = f"^{re.escape(str(of_run.value))}$"
    with pytest.raises(InputError, match=said):
        netsim.compare(given.target, given.jobs, schedulers=schedulers, **calls)
    with pytest.raises(InputError, match=said):
        netsim.sweep(given.target, given.jobs, scheduler=schedulers, **calls)


def test_all_that_a_file_lacks_is_told_at_once():
    with pytest.raises(SpecError) as error:
        Experiment(cluster={"gpus": [2, 1]}, execution="asrpt", scheduler="ff", placement="random",
                   workload={"format": "ring-jobs", "mix": {"2": 1}, "poisson_jobs": 1,
                             "poisson_mean": "1s"})
    assert [problem.partition(" needs ")[0] for problem in error.value.problems] == [
        "cluster: execution 'asrpt'", "workload: scheduler 'ff'", "placement: scheduler 'ff'"]


class Mistaken(FirstFit):
    needs = frozenset({"equal server"})


def test_a_need_that_there_is_not():
    cluster = netsim.Cluster(servers=2, gpus=2)
    with pytest.raises(UnknownNameError, match="unknown need 'equal server'"):
        needs_of(Mistaken(), "cluster")
    with pytest.raises(InputError, match=r"placement '.*Mistaken': unknown need 'equal server' \("):
        netsim.simulate(cluster, jobs(), placement=Mistaken())


class Roomy(AOnline):
    needs = "edge storage or a cloud"


def test_a_need_may_stand_alone():
    """A single name is that need, and not also those whose names are parts of it."""
    assert needs_of(Roomy(), "edge-cloud") == ("edge storage or a cloud",)


def test_needs_that_options_change():
    cluster = netsim.Cluster(servers=2, gpus=2)
    with pytest.raises(InputError, match="scheduler 'spjf' needs a history: "):
        netsim.simulate(cluster, jobs(), scheduler="spjf:predictor=mean")
    for scheduler in ("spjf:predictor=perfect", "spjf:predictor=mean:retrain=1d"):
        assert netsim.simulate(cluster, jobs(), scheduler=scheduler).jobs["finish_s"].notna().all()


class MyCoflows(CoflowContention):
    """Coflows under a name of one's own."""


def test_an_execution_runs_as_the_one_that_it_derives_from():
    cluster, specs = netsim.Cluster(servers=2, gpus=1, nic="8Mbps"), EXCHANGE
    mine, usual = (netsim.simulate(cluster, specs, execution=name, allocator="sebf")
                   for name in (f"{HERE}:MyCoflows", "fabric"))
    assert mine.coflows.equals(usual.coflows)
    with pytest.raises(netsim.NotRecordedError, match="were not recorded"):
        mine.links  # noqa: B018


def test_jobs_of_an_edge_cloud_are_compared_as_they_run():
    """They may be a list, as for `simulate`."""
    given = Experiment(**TARGETS["edge-cloud without links"])
    jobs = list(given.jobs)
    one = netsim.simulate(given.target, jobs, scheduler="a-online")
    both = netsim.compare(given.target, jobs, schedulers=["a-online", "cloud-only"])
    assert both.results["a-online"].jobs.equals(one.jobs)


@pytest.mark.parametrize("transport", ["constant", "fabric"])
def test_tables_of_edge_clouds_may_be_named_in_files_and_calls(transport):
    """They are there in any case."""
    keys = TARGETS["edge-cloud"] | {"transport": transport}
    named = ["jobs", "chunks", "training", "workers", "servers", "ps"]
    given = Experiment(**keys, record=named)
    by_file = netsim.run(given)
    by_call = netsim.simulate(given.target, given.jobs, transport=transport, record=named)
    for table in named:
        assert getattr(by_file, table).equals(getattr(by_call, table))
    with pytest.raises(SpecError, match=r"record: unknown record 'chunk' \(did you mean 'chunks'"):
        Experiment(**keys, record=["chunk"])
    with pytest.raises(InputError, match=r"unknown record 'chunk' \(did you mean 'chunks'"):
        netsim.simulate(given.target, given.jobs, record=["chunk"])


class Helped(FIFO):
    """A scheduler of whole jobs, with methods of its own that are called as those of others."""

    def run(self, setting):
        raise AssertionError("it schedules jobs")

    dispatcher = run


class Undeclared:
    def dispatcher(self, setting):
        raise AssertionError("it does not say that it schedules chunks")


class Boundless(FIFO):
    schedules = "everything"


def test_what_a_scheduler_schedules_is_what_it_declares():
    """The names of its methods do not say it: they would have taken `Helped` for another kind."""
    cluster, edge = netsim.Cluster(servers=2, gpus=2), Experiment(**TARGETS["edge-cloud"])
    for place, specs in ((cluster, jobs()), (edge.target, list(edge.jobs))):
        mine, usual = (netsim.simulate(place, specs, scheduler=each) for each in (Helped(), "fifo"))
        assert mine.jobs.equals(usual.jobs)
    for wrong in (Undeclared(), Boundless()):
        with pytest.raises(InputError, match=r'is no scheduler: .* declares schedules = "chunks"'):
            netsim.simulate(edge.target, edge.jobs, scheduler=wrong)
