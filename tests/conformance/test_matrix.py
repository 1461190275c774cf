"""What goes with what: every registered policy in every role, on the same small problems.

A combination is refused before it runs, with the reason of a policy in it that needs what is not
so, as it declares in `needs`; or it runs, and holds what every run does. Policies are found in the
registries: those that declare nothing must take everything.
"""

from __future__ import annotations

import traceback
from itertools import cycle, product

import numpy as np
import pytest

import netsim
from netsim import (
    Cluster,
    EdgeCloud,
    EdgeJob,
    Event,
    JobSpec,
    ModelStage,
    ParallelModel,
    Stage,
    Workload,
)
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.edge.registry import TRANSPORTS
from netsim.engine.registry import EXECUTIONS
from netsim.errors import InputError, NetsimError
from netsim.experiment_file.experiment import Experiment
from netsim.jobs.patterns import PATTERNS
from netsim.placements.registry import PLACEMENTS
from netsim.predictors import PREDICTORS
from netsim.schedulers.registry import SCHEDULERS, make_scheduler
from netsim.simulation.needs import needs_of as needs_of_policy
from netsim.workload.history import History
from tests.conformance import matrix
from tests.conformance.test_schedulers import quick
from tests.conformance.test_topologies import NETWORKS
from tests.pairs import pairs, some

HISTORY = History(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([2.0, 3.0, 1.0]))

_PUSH, _PULL = (Stage("push", [(0, 1, 1e5)], compute_s=0.01),
                Stage("pull", [(1, 0, 1e5)], after=["push"]))
_LLM = netsim.llm_job({"layers": 2, "hidden": 64, "ffn": 256, "heads": 2, "vocab": 256,
                       "sequence": 16}, tp=2, dp=2, global_batch=4, forward_s=[0.001] * 3)
_RING, _STAGED = set(), {"rings"}
_WRITTEN, _OVERLAPPED = {"rings", "known iteration times"}, {"rings", "whole all-reduces"}
_DRAWN = {*_WRITTEN, "known traffic"}

#: Kinds of jobs: what they are made of, and which needs they go against.
KINDS = {
    "ring": ({"pattern": "ring-all-reduce"}, _RING),
    "stepwise ring": ({"pattern": {"name": "ring-all-reduce", "stepwise": True}}, _RING),
    "data parallel": (ParallelModel([ModelStage(3, 0.01, 0.01, param_bytes=1e5)]), _RING),
    "pipeline": (ParallelModel([ModelStage(1, 0.01, 0.01, out_bytes=1e5, param_bytes=1e5),
                                ModelStage(2, 0.01, 0.01, in_bytes=5e4)], micro_batches=2),
                 _STAGED),
    "slices": (ParallelModel([ModelStage(2, 0.01, 0.01, slices=2, slice_bytes=1e5),
                              ModelStage(1, 0.01)]), _STAGED),
    "experts": (ParallelModel([ModelStage(2, 0.01, 0.01, expert_bytes=1e5)], allreduce="tree"),
                _STAGED),
    "overlap": (ParallelModel([ModelStage(2, 0.01, 0.01, param_bytes=1e5)], allreduce_factor=0.5),
                _OVERLAPPED),
    "stages": ({"stages": [_PUSH, _PULL]}, _WRITTEN),
    "ranks": ({"stages": [
        Stage("pass", compute_s=0.01, ranks=[0, 1], after_previous=["pass"]),
        Stage("reduce", [(0, 1, 1e5), (1, 0, 1e5)], after=["pass"], after_previous=["reduce"])]},
        _WRITTEN),
    "language model": ({"operations": _LLM.operations, "ranks": _LLM.ranks}, _WRITTEN),
    "stale servers": ({"pattern": "parameter-server:staleness=1"}, _DRAWN),
} | {name: ({"pattern": name}, _DRAWN) for name in PATTERNS if name != "ring-all-reduce"}

ALIKE, UNLIKE = Cluster(servers=3, gpus=3, nic="8Mbps"), Cluster(gpus=[4, 3, 2], nic="8Mbps")
RANKED = ("ranks", "language model", "stale servers")
GPUS = Cluster(topology=netsim.gpu_cluster(3, 3, "80Mbps", "8Mbps"))


def clusters_for(kind):
    """Where jobs of a kind run: those whose ranks compute need a host for each GPU."""
    return (GPUS,) if kind in RANKED else (ALIKE, UNLIKE)


def jobs_of(kinds, late=True, history=HISTORY):
    """A job of each kind, three at least, one after the other or all at once."""
    jobs = []
    for k, kind in zip(range(max(3, len(kinds))), cycle(kinds), strict=False):
        made = KINDS[kind][0]
        what = {"model": made} if isinstance(made, ParallelModel) else dict(made)
        if "pattern" in what:
            what |= {"ranks": 2 + k % 3, "nbytes": 1e5, "compute_s": 0.01}
        jobs.append(JobSpec(k, arrival_s=0.05 * k * late, iterations=1 + k % 2, group=k % 2,
                            user=0, **what))
    return Workload(jobs, history=history)


def runs_on(name, target):
    """Whether a scheduler is for clusters, or for edge-clouds."""
    other = {"cluster": "an edge-cloud", "edge-cloud": "a cluster"}[target]
    return other not in needs_of_policy(make_scheduler(quick(name)), target)


ON_CLUSTERS = [name for name in SCHEDULERS if runs_on(name, "cluster")]
ON_EDGE_CLOUDS = [name for name in SCHEDULERS if runs_on(name, "edge-cloud")]


#: Allocators that do not plan for all jobs before the run, for which these need hosts.
ANYWHERE = [name for name in ALLOCATORS if not make_allocator(name).plans_ahead]


def needs_of(registry, name, target="cluster"):
    """What a registered policy needs, with its default options."""
    return set(needs_of_policy(registry.make(name, {}), target))


def needs_together(scheduler, placement=None, execution=None):
    """What the policies of a combination need; the placement is the scheduler's own if unnamed."""
    found = needs_of(SCHEDULERS, scheduler) | needs_of(EXECUTIONS, execution or "rar-contention")
    if "no placement" in found:
        return found
    usual = getattr(make_scheduler(quick(scheduler)), "placement", {"name": "first-fit"})
    return found | needs_of(PLACEMENTS, placement or usual["name"])


def comes_late(scheduler):
    """Whether jobs of a test come one after the other: not if plans are for those there at 0."""
    return "jobs at 0" not in needs_together(scheduler)


def expect(against, run, *arguments, **options):
    """Return what comes of a combination that goes against some needs; None if it is refused.

    Refused it must be if there are any, and only then: before a job has run, and with the reason.
    """
    try:
        result, refusal = run(*arguments, **options), None
    except NetsimError as error:
        result, refusal = None, error
    if refusal is None:
        assert not against, f"runs, though something needs {against}"
        return result
    assert isinstance(refusal, InputError), repr(refusal)
    # That servers are full is seen in the middle of a run, where nobody knows the need.
    assert any(f" needs {need}: " in str(refusal) or (
        need.startswith("edge storage") and "storage is too small" in str(refusal))
        for need in against), repr(refusal)
    frames = [frame.name for frame in traceback.extract_tb(refusal.__traceback__)]
    assert "_go" not in frames or "edge storage" in against, f"in the middle of the run: {refusal}"
    return None


def try_jobs(cluster, kinds, scheduler, placement, execution, late, besides=(), **others):
    """Try a combination on a cluster; what else it goes against is `besides`."""
    against = set().union(besides, *(KINDS[kind][1] for kind in kinds))
    against |= {need for need, is_so in (("equal servers", cluster is UNLIKE), ("jobs at 0", late),
                                         ("no placement", placement is not None)) if is_so}
    workload = jobs_of(kinds, late)
    try:
        result = expect(against & needs_together(scheduler, placement, execution), netsim.simulate,
                        cluster, workload, scheduler=quick(scheduler), placement=placement,
                        execution=execution, **others)
        if result is not None:
            holds(result, workload, cluster)
    except (AssertionError, NetsimError) as error:
        error.add_note(f"{scheduler} x {placement} x {execution} x {kinds} on {cluster} {others}")
        raise


def holds(result, workload, cluster):
    """What is so in every run on a cluster: all end, none too soon, and no GPU is had by two."""
    jobs, held = result.jobs, result.gpus
    times = {name: jobs[name].to_numpy() for name in ("arrival_s", "start_s", "finish_s", "jct_s",
                                                      "lower_bound_s")}
    assert np.isfinite(times["finish_s"]).all()
    assert (times["jct_s"] >= times["lower_bound_s"] * (1 - 1e-9)).all()
    assert (times["start_s"] >= times["arrival_s"]).all()
    server, gpu = held["server"].to_numpy(), held["gpu"].to_numpy()
    assert (gpu < cluster.gpus[server]).all()
    stops = sum(jobs[name].to_numpy() for name in ("restarts", "preemptions") if name in jobs)
    ranks = np.array([job.ranks for job in workload])
    assert (np.bincount(held["job"]) == ranks * (1 + stops)).all()
    begin, end = held["start_s"].to_numpy(), held["end_s"].to_numpy()
    order = np.lexsort((begin, gpu, server))
    same = (np.diff(server[order]) == 0) & (np.diff(gpu[order]) == 0)
    assert (end[order][:-1] <= begin[order][1:])[same].all()


@pytest.mark.parametrize("scheduler", ON_CLUSTERS)
def test_schedulers_x_placements_x_executions(scheduler):
    """On rings and on models with slices."""
    late, number = comes_late(scheduler), ON_CLUSTERS.index(scheduler)
    for placement, execution, kind in pairs((None, *PLACEMENTS), EXECUTIONS, ("ring", "slices"),
                                            seed=number):
        try_jobs(ALIKE, [kind], scheduler, placement, execution, late)


@pytest.mark.parametrize("scheduler", ON_CLUSTERS)
def test_schedulers_x_executions_x_jobs_x_servers(scheduler):
    """With the scheduler's own placement; and jobs that come late."""
    late, number = comes_late(scheduler), ON_CLUSTERS.index(scheduler)
    for execution, kind in some(product(EXECUTIONS, KINDS), number, of=3):
        for cluster in clusters_for(kind):
            try_jobs(cluster, [kind], scheduler, None, execution, late)
    try_jobs(ALIKE, ["ring"], scheduler, None, "fabric", True)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placements_x_jobs_x_servers(placement):
    """The whole product, on the fabric, under the two schedulers that take any job."""
    number = list(PLACEMENTS).index(placement)
    for scheduler, kind in some(product(("fifo", "wcs-subtime"), KINDS), number, of=2):
        for cluster in clusters_for(kind):
            try_jobs(cluster, [kind], scheduler, placement, "fabric", True)


#: What happens during a run, and which needs that goes against.
FAULTS = {
    "a server": ([{"at": 0.01, "kind": "fail", "host": 0, "restart": True},
                  {"at": 0.2, "kind": "repair", "host": 0}], {"no restarts"}),
    "a link": ([{"at": 0.01, "link": 0, "capacity": 0}, {"at": 0.2, "link": 0, "capacity": 1e6}],
               {"no link events"}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scheduler", ON_CLUSTERS)
def test_schedulers_x_executions_x_faults(scheduler, fault):
    """A server or a link that fails, and is repaired."""
    events, against = FAULTS[fault]
    for execution in EXECUTIONS:
        try_jobs(ALIKE, ["ring", "data parallel"], scheduler, None, execution,
                 comes_late(scheduler), against, events=events)


@pytest.mark.parametrize("allocator", ANYWHERE)
def test_allocators_x_schedulers_and_placements(allocator):
    """On the fabric: every scheduler, and every placement under FIFO; jobs of several kinds.

    Presets are allocators with options, and do not run here.
    """
    number = ANYWHERE.index(allocator)
    for scheduler in some(ON_CLUSTERS, number, of=3):
        needs = needs_together(scheduler)
        kinds = (["ring", "data parallel"] if "rings" in needs else
                 ["ring", "pipeline", "slices"] if _DRAWN & needs else
                 ["all-to-all", "pipeline", "stages", "parameter-server"])
        try_jobs(ALIKE, kinds, scheduler, None, "fabric", comes_late(scheduler),
                 allocator=allocator)
    for placement in some(PLACEMENTS, number, of=3):
        try_jobs(ALIKE, ["ring", "pipeline", "slices"], "fifo", placement, "fabric", True,
                 allocator=allocator)


@pytest.mark.parametrize("allocator", ANYWHERE)
def test_allocators_x_ranks(allocator):
    """Jobs whose ranks compute, and a ring beside them: every scheduler, and a lost server."""
    for scheduler in some(ON_CLUSTERS, ANYWHERE.index(allocator), of=7):
        try_jobs(GPUS, ["language model", "ring", "ranks", "language model"], scheduler, None,
                 "fabric", comes_late(scheduler), allocator=allocator)
    try_jobs(GPUS, ["language model", "ring", "ranks"], "fifo", None, "fabric", True,
             allocator=allocator, events=FAULTS["a server"][0])


@pytest.mark.parametrize("kind", NETWORKS)
def test_topologies_x_schedulers(kind):
    """The whole product, on the fabric; allocators take turns."""
    network = NETWORKS[kind]
    nic = "1MB/s" if network.gpu_servers is None else None  # servers of GPUs have their own
    cluster = Cluster(gpus=2, topology=network, nic=nic, intra="8MB/s")
    both = zip(ON_CLUSTERS, cycle([*ALLOCATORS.presets, *ANYWHERE]), strict=False)
    for scheduler, allocator in some(both, list(NETWORKS).index(kind), of=3):
        try_jobs(cluster, ["ring", "data parallel"], scheduler, None, "fabric",
                 comes_late(scheduler), allocator=allocator)


HOSTS = 6
FEW = [netsim.big_switch(HOSTS, "1MB/s"), netsim.leaf_spine(3, 2, 2, "1MB/s", oversubscription=2),
       netsim.ring(HOSTS, "1MB/s")]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocators_x_patterns_x_topologies(allocator):
    """Three topologies; `test_topologies` has the others, patterns mixed."""
    number = list(ALLOCATORS).index(allocator)
    for kind, network in some(product([*PATTERNS, "pipeline", "stages"], FEW), number, of=4):
        name = "ring" if kind == "ring-all-reduce" else kind
        jobs = netsim.simulate(network, jobs_of([name]), allocator=allocator).jobs
        jct_s, bound_s = jobs["jct_s"].to_numpy(), jobs["lower_bound_s"].to_numpy()
        assert (jct_s >= bound_s * (1 - 1e-9)).all(), (kind, network)


@pytest.mark.parametrize("preset", ALLOCATORS.presets)
def test_presets(preset):
    """They are of allocators that are there, and run."""
    assert type(make_allocator(preset)) is type(make_allocator(ALLOCATORS.presets[preset]["name"]))
    jobs = netsim.simulate(FEW[0], jobs_of(["ring", "all-to-all", "pipeline"]), allocator=preset)
    assert jobs.jobs["finish_s"].notna().all()


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_predictors_x_schedulers(predictor):
    """The whole product, of schedulers that ask one; without a history none but the truth can."""
    given = {"name": predictor} | ({"trees": 3, "n_jobs": 1} if "forest" in predictor else {})
    for name in ON_CLUSTERS:
        for history in (HISTORY, None) if "predictor" in quick(name) else ():
            against = {"a history"} if history is None and predictor != "perfect" else set()
            workload = jobs_of(["ring", "pipeline"], history=history)
            result = expect(against, netsim.simulate, ALIKE, workload, execution="asrpt",
                            scheduler={"name": name, "predictor": given})
            if result is not None:
                holds(result, workload, ALIKE)


#: In an experiment file: servers, and jobs with the needs that they go against.
FILE_CLUSTERS = {"alike": {"servers": 3, "gpus": 8}, "unlike": {"gpus": [10, 8, 4]}}
FILE_JOBS = {
    "rings": ({"format": "ring-jobs", "mix": {"1": 2, "2": 2}, "iterations": [2, 4]},
              {"a history"}),
    "models": ({"format": "recurrent", "jobs": 30, "max_gpus": 8, "train": 0.6, "seed": 3,
                "single_gpu_share": 0.2, "median_duration": "2s", "mean_interarrival": "1s"},
               {"rings", "jobs at 0"}),
    "others": ({"format": "synthetic", "jobs": 2, "iterations": 1, "length": "1MB"},
               {*_DRAWN, "jobs at 0", "a history"}),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_experiment_files(execution):
    """Every scheduler and placement in a file, with kinds of jobs and servers in turn.

    A file is refused when it is read, for what `netsim.simulate` refuses; every tenth runs.
    """
    ran = 0
    places = product(FILE_JOBS, FILE_CLUSTERS)
    for (scheduler, placement), (jobs, servers) in zip(
            product(ON_CLUSTERS, (None, *PLACEMENTS)), cycle(places), strict=False):
        table, against = FILE_JOBS[jobs]
        against = against | {need for need, is_so in (
            ("equal servers", servers == "unlike"),
            ("no placement", placement is not None)) if is_so}
        keys = {"cluster": FILE_CLUSTERS[servers], "workload": table, "execution": execution,
                "scheduler": quick(scheduler)}
        built = expect(against & needs_together(scheduler, placement, execution), Experiment,
                       **keys, **({} if placement is None else {"placement": placement}))
        if built is not None:
            ran += 1
            if ran % 10 == 1:
                assert netsim.run(built).jobs["finish_s"].notna().all()
    assert ran > 5


# --- edge-clouds --------------------------------------------------------------------------------


def edge_jobs(servers):
    return [EdgeJob(id=k, arrival_s=k, chunks=2, worker_type="a", minibatches=2, epochs=1,
                    compute_s=1, gradient_bytes=1, bandwidth=2, upload_s=[1] * servers,
                    cloud_upload_s=3, chunk_bytes=1, gang=1) for k in range(4)]


SYSTEMS = {
    "plenty": (EdgeCloud([["a", "a"], ["a"]]), set()),
    "no cloud": (EdgeCloud([["a", "a"], ["a"]], cloud=False), {"a cloud"}),
    "other workers": (EdgeCloud([["b"]]), {"edge workers"}),
    "full servers": (EdgeCloud([["a"], ["a"]], storage=1), {
        "edge storage", "edge storage for whole jobs"}),
    "small servers": (EdgeCloud([["a"], ["a"]], storage=0.5), {
        "edge storage", "edge storage for whole jobs"}),
    "small servers, no cloud": (EdgeCloud([["a"], ["a"]], storage=0.5, cloud=False), {
        "a cloud", "edge storage", "edge storage for whole jobs", "edge storage or a cloud"}),
    "no parameter servers": (EdgeCloud([["a"]], ps=0), set()),
}


@pytest.mark.filterwarnings("ignore:everything goes to the cloud")
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("scheduler", ON_EDGE_CLOUDS)
def test_schedulers_of_edge_clouds(scheduler, system):
    """Full servers are found as chunks come: that alone is refused in the middle of a run."""
    where, against = SYSTEMS[system]
    result = expect(needs_of(SCHEDULERS, scheduler, "edge-cloud") & against, netsim.simulate,
                    where, edge_jobs(where.servers), scheduler=quick(scheduler))
    if result is not None:
        assert result.jobs["finish_s"].notna().all()
        assert (result.jobs["jct_s"] >= result.jobs["lower_bound_s"] - 1e-9).all()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("scheduler", ON_EDGE_CLOUDS)
def test_schedulers_x_transports(scheduler, transport):
    """And where links are shared, every allocator."""
    where, jobs = EdgeCloud([["a", "a"], ["a"]], edge_links="8bps", wan="4bps"), edge_jobs(2)
    against = {"constant delays"} if transport != "constant" else set()
    against &= needs_of(SCHEDULERS, scheduler, "edge-cloud")
    shares = transport == "fabric" and not against
    number = ON_EDGE_CLOUDS.index(scheduler)
    for allocator in some(ANYWHERE, number, of=4) if shares else ["maxmin"]:
        result = expect(against, netsim.simulate, where, jobs, scheduler=quick(scheduler),
                        transport=transport, allocator=allocator)
        assert result is None or result.jobs["finish_s"].notna().all(), allocator


# --- the pages ----------------------------------------------------------------------------------

POLICIES = matrix.PAGE.with_name("policies.md")


def test_the_docs_show_the_matrix():
    page = matrix.PAGE.read_text()
    assert page == matrix.written(page), "run: python -m tests.conformance.matrix"
    assert all(f"<!-- {name}: written by" in page for name in matrix.TABLES)


def rows_of(heading):
    """Return the rows of a table of policies: name to cells, of each name in its first one."""
    text = POLICIES.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {name.strip("` "): [cell.strip() for cell in row[1:]]
            for row in rows for name in row[0].split(",")}


REGISTRIES = {"Allocators": ALLOCATORS, "Placements": PLACEMENTS, "Predictors": PREDICTORS}


@pytest.mark.parametrize(("heading", "names"), [
    ("Allocators", ALLOCATORS), ("Schedulers on clusters", ON_CLUSTERS), ("Placements", PLACEMENTS),
    ("Predictors", PREDICTORS),
    ("Schedulers of edge-clouds", set(ON_EDGE_CLOUDS) - set(ON_CLUSTERS))])
def test_every_policy_is_described(heading, names):
    rows, registry = rows_of(heading), REGISTRIES.get(heading, SCHEDULERS)
    assert set(rows) == set(names)
    assert all(cells[0] for cells in rows.values())
    modules = {name: registry.resolve(name).__module__.rpartition(".")[2] for name in names}
    assert {name: cells[-1] for name, cells in rows.items()} == {
        name: f"`{module}.py`" for name, module in modules.items()}


def test_what_is_said_of_allocators_is_so():
    """What they know, and on which events they are asked, are theirs to say."""
    for name, (information, asked, *_) in rows_of("Allocators").items():
        allocator = make_allocator(name)
        assert information == allocator.information, name
        assert asked.startswith("coflows and flows") == bool(
            allocator.wakes_on & Event.FLOW_DONE), name


def test_what_is_said_of_schedulers_is_so():
    for name, (information, *_) in rows_of("Schedulers on clusters").items():
        clairvoyant = getattr(make_scheduler(quick(name)), "clairvoyant", False)
        assert information.endswith("clairvoyant") == clairvoyant, name
