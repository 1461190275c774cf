"""Numbers of NumPy's give what Python's give, wherever they enter."""

import dataclasses

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
import netsim.testing
from netsim.allocators.registry import make_allocator
from netsim.base.values import known_names, plain
from netsim.cluster import draw_gpus
from netsim.engine.preemption import Preemption
from netsim.errors import UnknownNameError
from netsim.jobs.patterns import ParameterServer, make_pattern
from netsim.models.mapping import heavy_edge
from netsim.models.servers import ServerKind
from netsim.schedulers.a_srpt import ASRPT
from netsim.schedulers.attained import TiresiasG, TiresiasL
from netsim.schedulers.batch import BatchSche
from netsim.schedulers.sjf_bco import SjfBco
from netsim.studies.grid import runs_of_calls
from netsim.traces.cluster import ClusterConstruction, recurrent
from netsim.traces.generators import ring_jobs, synthetic
from netsim.traces.tiresias import Construction
from netsim.workload import split_history
from tests.examples import examples
from tests.offenders import check_each
from tests.pairs import few

DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint64, np.float16,
          np.float32, np.float64]


def described(thing):
    """What a result is, by value, with the types of its numbers."""
    if isinstance(thing, netsim.Topology):
        return (type(thing).__name__, thing.name, thing.hosts, thing.link_names,
                thing.capacity.tolist())
    if isinstance(thing, netsim.Workload):
        return [described(job) for job in thing], thing.seed, type(thing.seed)
    if isinstance(thing, netsim.Cluster):
        return thing.gpus.tolist(), thing.total, thing.nic, thing.intra
    if isinstance(thing, netsim.Flows):
        return list(thing)
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if dataclasses.is_dataclass(thing):
        return [(field.name, described(getattr(thing, field.name)))
                for field in dataclasses.fields(thing)]
    if isinstance(thing, list | tuple):
        return [described(each) for each in thing]
    if isinstance(thing, dict):
        return {key: described(each) for key, each in thing.items()}
    return type(thing), str(thing)


def sent(job):
    """The bytes of an iteration of a job, and its flows."""
    stages = make_pattern(job.pattern).stages(job.ranks, job.nbytes, np.random.default_rng(0))
    return [(len(each.flows), float(each.flows.nbytes.sum())) for each in stages]


def test_names_of_arguments_that_do_not_exist():
    """At each entry that takes sizes, and at builders, which take those of `wired`, too."""
    for call in (netsim.JobSpec, netsim.Flow, netsim.Flows, netsim.Workload.from_arrays,
                 netsim.Workload.from_frame, netsim.Fabric.transfer):
        with pytest.raises(UnknownNameError, match=r"'bytes' \(did you mean 'nbytes'\?\); "):
            call(bytes=5)
    with pytest.raises(UnknownNameError, match=r"argument of ring 'capcity' .*latency"):
        netsim.ring(4, capcity=5)


STAGE = {"flows": [(0, 1, 1.0)]}
EDGE_JOB = {"compute_s": 1.0, "gradient_bytes": 1e6}

#: Entry point -> what it gives when a number n is handed to it.
ENTRIES = {
    "JobSpec, all-to-all": lambda n: sent(netsim.JobSpec(
        0, pattern="all-to-all", ranks=n, nbytes=1e6)),
    "JobSpec, ring": lambda n: sent(netsim.JobSpec(
        0, pattern="ring-all-reduce", ranks=n, nbytes=n)),
    "JobSpec, parameter server": lambda n: sent(netsim.JobSpec(
        0, pattern={"name": "parameter-server", "servers": n}, ranks=200, nbytes=1e6)),
    "JobSpec, fields": lambda n: netsim.JobSpec(
        n, n, n, [netsim.Stage("s", **STAGE)], ranks=n, compute_s=n, estimate_s=n, group=n, user=n),
    "JobSpec, hosts": lambda n: netsim.JobSpec(
        0, stages=[netsim.Stage("s", **STAGE)], hosts=[n, n]),
    "ParameterServer": lambda n: ParameterServer(n),
    "Stage": lambda n: netsim.Stage("s", [(0, 1, n), (n, 0, 1.0)], n, release_s=n, weight=n,
                                    coflow_id=n, deadline_s=n),
    "Workload": lambda n: netsim.Workload([netsim.JobSpec(0, stages=[netsim.Stage("s", **STAGE)])],
                                          seed=n),
    "big_switch": lambda n: netsim.big_switch(n, n),
    "big_switch, lists": lambda n: netsim.big_switch(2, [n, n]),
    "leaf_spine": lambda n: netsim.leaf_spine(n, 2, n, oversubscription=n),
    "fat_tree": lambda n: netsim.fat_tree(n),
    "rail_pod": lambda n: netsim.rail_pod(n, n, 2, oversubscription=n),
    "ring": lambda n: netsim.ring(n),
    "torus": lambda n: netsim.torus([n, n]),
    "edge_cloud": lambda n: netsim.edge_cloud(n, n, cloud_hosts=n),
    "read_network": lambda n: netsim.read_network("parrot-fig2", capacity=n),
    "route": lambda n: netsim.fat_tree(10).route(n, 249),
    "links_of": lambda n: netsim.leaf_spine(20, 2, 10).links_of(n),
    "link": lambda n: netsim.leaf_spine(20, 2, 10).link(n),
    "Cluster": lambda n: netsim.Cluster(n, n, nic=n),
    "Cluster, list": lambda n: netsim.Cluster(gpus=[n, n, n]),
    "draw_gpus": lambda n: draw_gpus(n, [n, n], n),
    "EdgeCloud": lambda n: netsim.EdgeCloud([[n, 0], [n]], ps=n, storage=n, edge_links=n, wan=n),
    "EdgeCloud, lists": lambda n: netsim.EdgeCloud([[n, 0]], ps=[[n]], storage=[n], edge_links=[n]),
    "EdgeJob": lambda n: netsim.EdgeJob(
        id=n, worker_type=n, chunks=n, minibatches=n, epochs=n, gang=n, ps_type=n, site=n,
        upload_s=[n, n], **EDGE_JOB),
    "EdgeJob, derived": lambda n: [
        getattr(netsim.EdgeJob(id=0, chunks=n, minibatches=n, epochs=n, **EDGE_JOB), name)
        for name in ("batches", "p0_s", "weight_s", "workers")],
    "EdgeWorkload": lambda n: netsim.EdgeWorkload([netsim.EdgeJob(id=n, **EDGE_JOB)], seed=n),
    "draw_edge_cloud": lambda n: netsim.draw_edge_cloud(
        n, sizes={n: n, "2": n}, types=n, ps=n, seed=n),
    "draw_edge_jobs": lambda n: netsim.draw_edge_jobs(
        n, servers=n, types=n, chunks=[n, n], minibatches=n, epochs=(n, n), gang=n, seed=n),
    "draw_edge_jobs, shares": lambda n: netsim.draw_edge_jobs(
        3, servers=1, peaks=[n], peak_width=n, in_peaks=n),
    "ModelStage": lambda n: netsim.ModelStage(n, n, n, param_bytes=n, slices=n).gpus,
    "ParallelModel": lambda n: netsim.ParallelModel(
        [netsim.ModelStage(n)] * 3, micro_batches=n, backward_factor=n, allreduce_factor=n),
    "make_model": lambda n: netsim.make_model("resnet50", n),
    "models_for": lambda n: netsim.models_for(n),
    "heavy_edge": lambda n: heavy_edge(
        netsim.make_model("resnet50", 60), [n, n, n], ServerKind(n, 1e9, 1e10)),
    "ServerKind": lambda n: ServerKind(n, n, n),
    "synthetic": lambda n: synthetic(n, seed=n, trace_seed=n, ranks_per_gpu=n),
    "ring_jobs": lambda n: ring_jobs(mix={n: n}, iterations=(n, n), compute=(n, n), seed=n),
    "recurrent": lambda n: recurrent(n, seed=n, users=n, gpus_per_server=n),
    "recurrent, shares": lambda n: recurrent(20, tail=n, recurring_share=n, train=0.5),
    "poisson_resample": lambda n: netsim.poisson_resample(synthetic(3), n, n, n),
    "read_workload": lambda n: netsim.read_workload(
        format="synthetic", jobs=n, seed=n, servers_max=n, arrival_scale=n),
    "Construction": lambda n: Construction(iterations=n, servers=n, ranks_per_gpu=n, length=n),
    "ClusterConstruction": lambda n: ClusterConstruction(limit=n, max_gpus=n, arrival_scale=n),
    "make_allocator": lambda n: make_allocator({"name": "aalo", "queues": n, "factor": n}),
    "aalo": lambda n: make_allocator({"name": "aalo", "thresholds": [n, 1000], "observe": n}),
    "SjfBco": lambda n: SjfBco(kappa=n, horizon=n, u=n, lam=n),
    "TiresiasL": lambda n: TiresiasL(thresholds=[n], promote_knob=n),
    "TiresiasG": lambda n: TiresiasG(delta=n, history=[n, n]),
    "ASRPT": lambda n: ASRPT({"name": "random-forest", "trees": n}, n, n, n),
    "BatchSche": lambda n: BatchSche(first=n, slot=n),
    "Preemption": lambda n: Preemption(checkpoint_s=n, restore_s=n, state_bytes=n),
    "FaultEvent": lambda n: netsim.FaultEvent(at=n, host=n, factor=n),
    "split_history": lambda n: split_history(synthetic(20), n),
    "simulate": lambda n: netsim.simulate(
        "parrot-fig2", "parrot-fig2", observe_interval=n, seed=n, until=n,
        stragglers={0: n}).summary()["jct_total_s"],
    "sweep's keys": lambda n: [cell.key for cell in runs_of_calls(
        {"network": "parrot-fig2", "workload": "parrot-fig2", "allocator": "maxmin",
         "observe_interval": n}, {}, [1])],
    "sweep, arrays": lambda n: netsim.sweep(
        "parrot-fig2", "parrot-fig2", seed=np.array([n, type(n)(1)]),
        observe_interval=np.array([n, type(n)(0)])).table.drop(columns="wall_s").to_csv(),
    "sweep_experiment": lambda n: netsim.sweep_experiment(
        netsim.Experiment(network={"kind": "big-switch", "hosts": 40},
                          workload={"format": "synthetic", "jobs": 2, "iterations": 2}),
        {"workload.iterations": np.array([n])}, seeds=[n]).table["jct_total_s"].tolist(),
    "Experiment": lambda n: netsim.Experiment(
        network={"kind": "big-switch", "hosts": n}, seed=n, observe_interval=n, epsilon=0.0,
        workload={"format": "synthetic", "jobs": n}, stragglers={"0": n}).resolved(),
    "sweep": lambda n: netsim.sweep("parrot-fig2", "parrot-fig2", seed=n,
                                    observe_interval=[n, 0]).table["jct_total_s"].tolist(),
}


def outcome(entry, number):
    try:
        return described(entry(number))
    except netsim.NetsimError as error:
        return type(error), str(error)


def same_outcome(entry, number):
    assert outcome(entry, number) == outcome(entry, number.item())


@pytest.mark.parametrize("dtype", few(DTYPES, 3))
def test_numbers_of_numpys_give_what_pythons_give(dtype):
    """20 = 20, and its square does not fit into 8 bits, its fourth power not into 16."""
    check_each(lambda name: same_outcome(ENTRIES[name], dtype(20)), ENTRIES)


QUICK = sorted(set(ENTRIES) - {"simulate", "sweep", "sweep's keys", "sweep, arrays",
                               "sweep_experiment", "Experiment", "heavy_edge", "recurrent",
                               "recurrent, shares", "read_network", "rail_pod", "torus",
                               "edge_cloud", "leaf_spine", "fat_tree", "models_for"})


@settings(deadline=None, max_examples=examples(150))
@given(st.sampled_from(QUICK), st.sampled_from(DTYPES), st.integers(0, 127))
def test_any_number_of_numpys_gives_what_pythons_gives(name, dtype, value):
    same_outcome(ENTRIES[name], dtype(value))


def test_the_smallest_cases():
    """100 ranks send 99/100 of 1 MB each; a fat-tree of 20-port switches has 20**3/4 hosts."""
    job = netsim.JobSpec(0, pattern="all-to-all", ranks=np.int8(100), nbytes=1e6)
    assert sent(job) == [(9900, pytest.approx(99e6))]
    job = netsim.JobSpec(0, pattern="all-to-all", ranks=np.int16(200), nbytes=1e6)
    assert sent(job) == [(39800, pytest.approx(199e6))]
    assert netsim.fat_tree(np.uint8(20)).hosts == 2000


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain(dtype):
    n = dtype(3)
    for value, found in ((n, 3), ([n, 4], [3, 4]), ((n, "a"), (3, "a")),
                 ({n: [n]}, {3: [3]}), ([[n], (n,)], [[3], (3,)])):
        assert plain(value) == found
        assert "np." not in repr(plain(value))


def test_plain_leaves_other_things_as_they_are():
    array, flow, listed = np.arange(3), netsim.Flow(0, 1, 2.0), [1, 2.0, "a", None]
    for thing in (array, flow, listed, None, "text", True):
        assert plain(thing) is thing
    assert plain(np.True_) is True
    assert isinstance(plain(np.timedelta64(5, "s")), np.timedelta64)


#: Those whose first argument says which others there are, or which users do not make.
_OTHERS = {"Allocator", "Comparison", "Event", "Experiment", "FabricView", "LPBound", "LowerBounds",
           "Pattern", "Result", "RunEvent", "Sweep", "check_trace", "collective_times", "compare",
           "make_model", "read_edge_cloud", "read_edge_jobs", "read_network", "read_workload",
           "sweep"}


def _users_calls():
    made = netsim.Fabric(simpy.Environment(), netsim.ring(3))
    yield from (getattr(module, name) for module in (netsim, netsim.testing)
                for name in module.__all__ if name not in _OTHERS)
    yield from (made.coflow, made.transfer, made.job, made.fail, made.repair,
                netsim.Simulation.run, netsim.Result.save, netsim.Workload.from_frame)


def test_arguments_that_do_not_exist():
    """Python's own error does not say which there are."""
    calls = [each for each in _users_calls() if callable(each)
             and not (isinstance(each, type) and issubclass(each, Exception))]
    assert len(calls) > 60
    for call in calls:
        with pytest.raises(UnknownNameError, match=r"unknown (argument|option) of .* 'gvies'"):
            call(gvies=1)
    with pytest.raises(UnknownNameError, match=r"'gvies' \(did you mean 'gives'\?\)"):
        netsim.compiled(gvies="order")


@pytest.mark.parametrize("what", ["observe_interval", "until"])
def test_durations_of_numpys_are_refused_with_what_is_allowed(what):
    with pytest.raises(netsim.UnitError, match=rf"{what} must be a number or a string such as "
                                               r"'10ms', not np\.timedelta64\(5,'s'\)"):
        netsim.simulate("parrot-fig2", "parrot-fig2", **{what: np.timedelta64(5, "s")})


@pytest.mark.parametrize("make", [
    lambda given: netsim.JobSpec(given, stages=[netsim.Stage("s")]),
    lambda given: netsim.big_switch(given), lambda given: netsim.Cluster(given),
    lambda given: netsim.fat_tree(given), lambda given: netsim.Cluster(gpus=[given]),
    lambda given: netsim.FaultEvent(1, host=given, kind="fail")])
def test_durations_of_numpys_are_no_counts(make):
    with pytest.raises(netsim.InputError, match="whole number"):
        make(np.timedelta64(4, "s"))


def test_arguments_of_what_takes_none():
    """Python's own error stays where names would not help."""
    @known_names
    def nothing():
        return 3

    assert nothing() == 3
    with pytest.raises(UnknownNameError, match=r"argument of .*nothing 'a'; choose from: none"):
        nothing(a=1)
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        nothing(1)
