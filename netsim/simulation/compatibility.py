"""Which policies, jobs, targets and arguments can be combined.

A policy lists its requirements in an attribute ``needs``. Each requirement is a row of the table
`NEEDS`, which is used to refuse runs before they begin and to make the tables in the docs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim import edge
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.plugins import Registry
from netsim.base.values import about
from netsim.cluster.cluster import Cluster, check_size, server_kind
from netsim.cluster.contention import Contention, check_rates
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.cluster.ring import has_model, is_sliced, kind_of, model_of
from netsim.edge.edge_cloud import EdgeCloud, EdgeWorkload
from netsim.edge.registry import TRANSPORTS, ConstantTransport, TransportKind, make_transport
from netsim.edge.schedule import why_only_cloud
from netsim.edge.setting import EdgeSetting
from netsim.engine.preemption import Preemption, as_preemption, on_edge
from netsim.engine.registry import make_execution
from netsim.errors import InputError, NetsimWarning, UnknownNameError
from netsim.jobs.patterns import model_coflows
from netsim.jobs.plan import check_traffic, has_operations
from netsim.models import ParallelModel
from netsim.models.mapping import can_hold
from netsim.network import Topology
from netsim.placements.placement import Placement
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.schedulers.plan import check_at_start
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler, schedules
from netsim.simulation.events import Change, FaultEvent, changes_of
from netsim.simulation.run_spec import RunSpec, problems_of_arguments
from netsim.workload import JobSpec, Workload

if TYPE_CHECKING:
    import pandas as pd


class ClusterRun(NamedTuple):
    """Inputs of a run on a cluster that requirements are checked against.

    `placed`: whether the user chose a placement.
    """

    context: RunContext
    changes: Sequence[Change] = ()
    placed: bool = False


class EdgeRun(NamedTuple):
    """Inputs of a run on an edge-cloud that requirements are checked against."""

    setting: EdgeSetting
    transport: TransportKind
    changes: Sequence[Change] = ()


class Need(NamedTuple):
    """A requirement that a policy may have of a run."""

    #: Takes a `ClusterRun` or an `EdgeRun`; returns why it does not meet the requirement, or None.
    problem: Callable[[Any], str | None]
    key: str  #: the experiment key that an error refers to; "" for the key of the policy
    cases: tuple[str, ...]  #: what the policy does not support: columns of the tables in the docs
    because: str  #: the reason for the requirement, for the docs


# --- what policies need on a cluster --------------------------------------------------------
def _refusal(check: Callable[..., object], *values: Any) -> str | None:
    """Return the message of the error that a check raises, or None if it passes."""
    try:
        check(*values)
    except InputError as error:
        return str(error)
    return None


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _not_rings(run: ClusterRun) -> str | None:
    for job in run.context.jobs:
        if ring_of(job) is None:
            return (f"job {job.id} is no ring: it has {kind_of(job)}. Rings are jobs with the "
                    "pattern 'ring-all-reduce', or with a model of one stage and a ring "
                    "all-reduce; other jobs can run with execution 'fabric', under schedulers "
                    "that do not plan, such as 'fifo'")
    return None


def _slow_servers(run: ClusterRun) -> str | None:
    if run.context.cluster.by_gpu and run.context.model.uses_links:
        return None  # rings are on links inside servers, too
    problem = _refusal(check_rates, run.context.cluster)
    if problem and any(ring_of(job) is not None for job in run.context.jobs):
        return problem
    return None


def _parts_of_all_reduces(run: ClusterRun) -> str | None:
    models = dict.fromkeys(job.model for job in run.context.jobs if job.model is not None)
    return _first(_refusal(model_coflows, model) for model in models)


def _no_history(run: ClusterRun) -> str | None:
    if run.context.history:
        return None
    return ("the workload has none, so the predictor has nothing to learn from; give one, such "
            "as by the option `train` of its format, or retrain = \"1d\", or predictor = "
            "\"perfect\"")


def _placement_given(run: ClusterRun) -> str | None:
    return ("it chooses GPUs itself; a placement is for schedulers that "
            "leave the choice to it, such as 'fifo' and 'sjf'") if run.placed else None


def _slices(run: ClusterRun) -> str | None:
    sliced = next((job for job in run.context.jobs if is_sliced(job.model)), None)
    return None if sliced is None else (
        f"it does not keep the slices of a replica on one server; job {sliced.id} has some")


def _restarts(run: ClusterRun) -> str | None:
    return ("it has planned all jobs before the run, and has no plan for jobs that lose a server; "
            "restart = true is for other schedulers, such as 'fifo'"
            ) if any(change.restart for change in run.changes) else None


def wire_of(network: Topology) -> str | None:
    """Describe the properties of links that only coflows take into account."""
    if not network.wire.timed and network.wire.plain:
        return None
    return (f"network {network.name!r} has "
            + ("latency or overhead" if network.wire.timed else "packets with headers")
            + ", which only coflows take into account: those of jobs on a network, or on a "
              "cluster with execution = \"fabric\"")


def _links_change(run: ClusterRun) -> str | None:
    for change in run.changes:
        if change.host is None or change.kind == "degrade":
            return ("an event changes links, but jobs use links only with execution = "
                    "\"fabric\"; without, servers can fail and be repaired")
        if change.kind == "fail" and not change.restart:
            return ("jobs have no links to wait for; set restart = true in the event in which "
                    f"server {change.host} fails")
    return None


_STAGED = "models of several stages, slices, experts, trees"

_OTHERS = "other patterns"

_WRITTEN = "stages written out, ranks that compute"

_FACTOR = "`allreduce_factor` other than 1"

_ON_CLUSTERS: Mapping[str, Need] = {
    "an edge-cloud": Need(
        lambda run: f"{run.context.cluster.name!r} is a cluster",
        "", (), "it schedules chunks of jobs, or sends jobs to the cloud"),
    "rings": Need(
        _not_rings, "workload", (_STAGED, _OTHERS, _WRITTEN, _FACTOR),
        "`rar-contention` and the plans of SJF-BCO only support rings: the pattern "
        "`ring-all-reduce`, or a model of one stage with a ring all-reduce"),
    "known iteration times": Need(
        lambda run: _first(_refusal(model_of, job) for job in run.context.jobs),
        "workload", (_OTHERS, _WRITTEN),
        "the time of an iteration is known only for models and rings; `asrpt` runs jobs by it, "
        "and predictions need it"),
    "known traffic": Need(
        lambda run: _first(_refusal(check_traffic, job) for job in run.context.jobs
                           if not has_model(job)),
        "workload", (_OTHERS,),
        "`mapped` uses the traffic between replicas or ranks; flows of other patterns are drawn "
        "when jobs run"),
    "whole all-reduces": Need(
        _parts_of_all_reduces, "workload", (_FACTOR,),
        "coflows send the whole all-reduce"),
    "equal servers": Need(
        lambda run: _refusal(server_kind, run.context.cluster),
        "cluster", ("servers with different numbers of GPUs",),
        "the GPUs must have equal shares of a NIC"),
    "fast servers": Need(
        _slow_servers, "cluster", ("`intra` below `nic`, with rings",),
        "the model assumes that a ring is not slower on one server than on two"),
    "jobs at 0": Need(
        lambda run: _refusal(check_at_start, run.context.jobs),
        "workload", ("jobs that come later",),
        "a plan needs all jobs to arrive at 0"),
    "a history": Need(
        _no_history, "workload", ("no history",),
        "there is nothing to learn from, unless `predictor = \"perfect\"`, or `retrain` lets "
        "predictors learn from the run"),
    "no placement": Need(
        _placement_given, "placement", ("a `placement`",),
        "the scheduler chooses the GPUs of jobs itself: `chooses_gpus = True`"),
    "no slices": Need(
        _slices, "", ("models with slices",),
        "the policy does not keep the slices of a replica on one server: `keeps_slices = False`"),
    "no restarts": Need(
        _restarts, "events", ("servers that fail, with `restart`",),
        "a plan made in advance has no place for jobs that restart; see [Faults](faults.md)"),
    "no link events": Need(
        _links_change, "events", ("`events` of links",),
        "formulas have no links"),
    "ideal links": Need(
        lambda run: wire_of(run.context.cluster.network),
        "cluster", ("links with latency, overhead or packets",),
        "formulas have neither latency nor headers"),
}


# --- what policies need on an edge-cloud ----------------------------------------------------
def _no_cloud(run: EdgeRun) -> str | None:
    system = run.setting.system
    return None if system.cloud else f"edge-cloud {system.name!r} has none"


def _shared_links(run: EdgeRun) -> str | None:
    if isinstance(run.transport, ConstantTransport):
        return None
    return f"transport {_name_of(run.transport)!r} decides itself when jobs train"


def _only_chunks(run: EdgeRun) -> str | None:
    only_chunks = f"transport {_name_of(run.transport)!r} is for schedulers of chunks"
    if not hasattr(run.transport, "backend"):
        return only_chunks
    return getattr(run.transport, "why_not_whole", only_chunks)


def _name_of(transport: TransportKind) -> str:
    name: str = TRANSPORTS.to_dict(transport)["name"]
    return name


_FULL = "servers that are full"

_NO_ROOM = f"{_FULL}, and no cloud"

_ON_EDGE_CLOUDS: Mapping[str, Need] = {
    "a cluster": Need(
        lambda run: (f"{run.setting.system.name!r} is an edge-cloud, where the jobs define how "
                     "long they train"),
        "", (), "it needs something that only clusters have"),
    "constant delays": Need(
        _shared_links, "", ("a `transport` other than `constant`",),
        "a schedule made in advance has the times at which jobs train"),
    "a transport of whole jobs": Need(
        _only_chunks, "", ("a `transport` whose `preemption` is `drop` or `finish`",),
        "preempted whole jobs keep the finished part of a mini-batch"),
    "exchanges with a PS": Need(
        lambda run: _refusal(run.setting.check_ps), "workload",
        ("jobs with `exchange = \"ring\"`",),
        "`drop` and `pause` stop a chunk in a mini-batch that the rest of its ring goes on with"),
    "a cloud": Need(
        _no_cloud, "", ("no cloud", _NO_ROOM), "all chunks train there"),
    "edge workers": Need(
        lambda run: _refusal(run.setting.check_workers),
        "workload", ("a type of workers that no server has",), "all jobs train at the edge"),
    "edge storage": Need(
        lambda run: _refusal(run.setting.check_storage, False),
        "edge_cloud.storage", (_FULL, _NO_ROOM), "servers of the edge hold all chunks"),
    "edge storage for whole jobs": Need(
        lambda run: _refusal(edge.whole_jobs.check_room, run.setting),
        "edge_cloud.storage", (_FULL, _NO_ROOM),
        "the storage of edge servers must hold everything that a job's workers train"),
    "edge storage or a cloud": Need(
        lambda run: _refusal(run.setting.check_storage, True),
        "edge_cloud.storage", (_NO_ROOM,), "servers of the edge or the cloud hold each chunk"),
    "sites of the network": Need(
        lambda run: _refusal(run.setting.check_sites),
        "workload", ("data at a site that is not in the network",), "uploads start at sites"),
    "no restarts": Need(
        lambda run: ("restart is for hosts of a network and servers of a cluster"
                     if any(change.restart for change in run.changes) else None),
        "events", ("servers that fail, with `restart`",), "chunks do not start over"),
    "placed jobs": Need(
        lambda run: "chunks on an edge-cloud have no servers and no GPUs of a cluster",
        "", ("an edge-cloud",),
        "allocators such as `ring-contention`, `reserved:shares=gpus` and `lp-order` need the "
        "servers, GPUs or hosts of jobs"),
}

#: All requirements, by target and by the name that policies declare.
NEEDS: Mapping[str, Mapping[str, Need]] = {"cluster": _ON_CLUSTERS, "edge-cloud": _ON_EDGE_CLOUDS}


def _at_the_edge(scheduler: Any) -> bool:
    """Whether a scheduler gives all workers of each job at once, and never those of the cloud."""
    return schedules(scheduler) == "jobs" and not _uses_cloud(scheduler)


#: Requirements that other attributes of a policy imply, so that it need not declare them.
_IMPLIED: Mapping[str, Callable[[Any], bool]] = {
    "a cluster": lambda policy: bool(
        {*_declared(policy)} - {*NEEDS["edge-cloud"], "an edge-cloud"}),
    "an edge-cloud": lambda policy: schedules(policy) != "jobs" or _uses_cloud(policy),
    "no placement": chooses_gpus,
    "no slices": lambda policy: not getattr(policy, "keeps_slices", True),
    "constant delays": lambda policy: schedules(policy) == "runs",
    "sites of the network": lambda policy: getattr(policy, "shares_links", False),
    "no restarts": lambda policy: getattr(policy, "shares_links", False),
    "placed jobs": lambda policy: (getattr(policy, "sees_running", False)
                                   or getattr(policy, "reserves_gpus", False)
                                   or getattr(policy, "plans_ahead", False)),
}

#: Further requirements that attributes of schedulers imply.
_IMPLIED_BY_SCHEDULERS: Mapping[str, Callable[[Any], bool]] = {
    "a transport of whole jobs": lambda scheduler: schedules(scheduler) == "jobs",
    "edge workers": _at_the_edge,
    "edge storage for whole jobs": _at_the_edge,
}


def needs_of(policy: Any, target: str, kind: str = "scheduler") -> tuple[str, ...]:
    """List the requirements that a policy declares, and those implied by its other attributes.

    They are names of rows of `NEEDS`, in the order of the table. `kind` is that of the policy's
    registry, such as ``"scheduler"``.
    """
    rows, declared = NEEDS[target], _declared(policy)
    for name in declared:
        if not any(name in each for each in NEEDS.values()):
            raise UnknownNameError("need", name, rows)
    implied = {**_IMPLIED, **(_IMPLIED_BY_SCHEDULERS if kind == "scheduler" else {})}
    return tuple(name for name in rows
                 if name in declared or (name in implied and implied[name](policy)))


def _declared(policy: Any) -> tuple[str, ...]:
    """Return the requirements that a policy declares."""
    declared = getattr(policy, "needs", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)


def _uses_cloud(scheduler: Any) -> bool:
    """Whether a scheduler sends jobs that no worker of the edge can train to the cloud."""
    return bool(getattr(scheduler, "uses_cloud", False))


def places_of(scheduler: Any) -> tuple[str, ...]:
    """List where a scheduler runs: on a ``"cluster"``, an ``"edge-cloud"``, or both."""
    return tuple(place for place, other in (("cluster", "an edge-cloud"),
                                            ("edge-cloud", "a cluster"))
                 if other not in needs_of(scheduler, place))


def goes_with(registry: Registry, target: str) -> pd.DataFrame:
    """Tabulate which cases the registered policies support, with their default options.

    There is a row for each policy that runs on the target, ``"cluster"`` or ``"edge-cloud"``, and a
    column for each case that one of them does not support.
    """
    import pandas as pd

    rows = NEEDS[target]
    cases = dict.fromkeys(case for need in rows.values() for case in need.cases)
    made = {name: registry.make(name, {}) for name in registry}
    refused = {name: {case for need in needs_of(policy, target, registry.kind)
                      for case in rows[need].cases}
               for name, policy in made.items()
               if registry is not SCHEDULERS or target in places_of(policy)}
    table = pd.DataFrame.from_dict(
        {name: {case: case not in refused[name] for case in cases} for name in refused},
        orient="index")
    return table.loc[:, ~table.all()]


class _Asked(NamedTuple):
    """A policy whose requirements are checked."""

    kind: str
    name: str
    policy: Any


def _problems(run: ClusterRun | EdgeRun, target: str, policies: Iterable[_Asked]
              ) -> Iterator[tuple[str, str]]:
    """Yield the experiment key and the message of each requirement that a run does not meet."""
    reported: set[str] = set()
    for kind, called, policy in policies:
        owner = f"{kind} {called!r}"
        try:
            needs = needs_of(policy, target, kind)
        except InputError as error:
            yield kind, f"{owner}: {error}"
            continue
        for name in needs:
            need = NEEDS[target][name]
            if name not in reported and (problem := need.problem(run)) is not None:
                reported.add(name)
                hint = "; another one, such as 'first-fit', may do" if kind == "placement" else ""
                yield need.key or kind, f"{owner} needs {name}: {problem}{hint}"


def _own_problems(context: RunContext, policies: Iterable[_Asked]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the message of each policy whose own check, ``suits``, fails."""
    for kind, called, policy in policies:
        if hasattr(policy, "suits") and (problem := _refusal(policy.suits, context)) is not None:
            yield kind, f"{kind} {called!r}: {problem}"


def check_policy(kind: str, policy: Any, context: RunContext, changes: Sequence[Change] = ()
                 ) -> None:
    """Check that a scheduler or a placement supports a cluster, its jobs and the changes."""
    asked = [_Asked(kind, type(policy).__name__, policy)]
    for key, problem in (*_problems(ClusterRun(context, changes), "cluster", asked),
                       *_own_problems(context, asked)):
        raise InputError(problem, key)


# --- runs on clusters -----------------------------------------------------------------------
class Policies(NamedTuple):
    """The policies of a run on a cluster, and how jobs run once they are placed."""

    scheduler: Any
    placement: Placement  #: used by schedulers that do not choose GPUs themselves
    execution: str
    model: Contention  #: of the execution; schedulers that plan ahead use it, too

    def asked(self) -> list[_Asked]:
        """List the policies in use; the placement is not used if the scheduler chooses GPUs."""
        found = [_Asked("execution", self.execution, self.model),
                 _Asked("scheduler", SCHEDULERS.to_dict(self.scheduler)["name"], self.scheduler)]
        if not chooses_gpus(self.scheduler):
            found.append(_Asked("placement", PLACEMENTS.to_dict(self.placement)["name"],
                                self.placement))
        return found


def usual_execution(jobs: Iterable[JobSpec]) -> str:
    """Return the name of the default execution: by the formula for rings, if all jobs are rings."""
    return "fabric" if any(ring_of(job) is None for job in jobs) else "rar-contention"


def policies_of(scheduler: Any = None, placement: Any = None, execution: Any = None,
                seed: int = 0, jobs: Iterable[JobSpec] = ()) -> Policies:
    """Make the policies of a run on a cluster, with defaults for those that are not given.

    The default execution depends on the jobs.
    """
    with about("scheduler"):
        decider = make_scheduler("fifo" if scheduler is None else scheduler)
    usual = getattr(decider, "placement", "first-fit")
    with about("placement"):
        placed = make_placement(usual if placement is None else placement, seed)
    with about("execution"):
        made = make_execution(usual_execution(jobs) if execution is None else execution)
    return Policies(decider, placed, *made)


def check_jobs(workload: Workload, cluster: Cluster) -> None:
    """Check that each job fits on a cluster and can be split among its servers."""
    held: set[ParallelModel] = set()
    for job in workload:
        check_size(job, cluster)
        if has_operations(job) and not (cluster.by_gpu or (cluster.gpus == 1).all()):
            raise InputError(f"job {job.id}: its ranks compute, or its iterations overlap, which "
                             f"needs a host for each GPU; those of cluster {cluster.name!r} are "
                             f"servers of up to {cluster.gpus.max()}. A gpu_cluster has such hosts")
        if job.model is None or job.model in held:
            continue
        held.add(job.model)
        if not can_hold(job.model, cluster.gpus.tolist()):
            raise InputError(f"job {job.id}: slices of a replica of model {job.model.name!r} must "
                             "be on one server, and the servers of cluster "
                             f"{cluster.name!r} cannot hold all of them")


def inputs_of(cluster: Cluster, workload: Workload, scheduler: Any = None, placement: Any = None,
              execution: Any = None, seed: int = 0,
              events: Sequence[FaultEvent | Mapping[str, Any]] = ()
              ) -> tuple[Workload, Policies]:
    """Return the workload and the policies of a run on a cluster, after checking them.

    If a policy requires rings, models that amount to a ring are converted to the pattern.
    """
    policies = policies_of(scheduler, placement, execution, seed, workload.jobs)
    check_jobs(workload, cluster)
    problems, rings = _on_cluster(cluster, workload, policies, placement is not None, seed, events)
    for key, problem in problems:
        raise InputError(problem, key)
    return rings, policies


def check_submitted(cluster: Cluster, workload: Workload, policies: Policies, seed: int
                    ) -> Workload:
    """Check a workload to which a job was added during a run; return it as `inputs_of` does."""
    check_jobs(workload, cluster)
    problems, rings = _on_cluster(cluster, workload, policies, False, seed, ())
    for key, problem in problems:
        raise InputError(problem, key)
    return rings


def problems_of_cluster(cluster: Cluster, workload: Workload, scheduler: Any = None,
                        placement: Any = None, execution: Any = None, seed: int = 0,
                        events: Sequence[FaultEvent | Mapping[str, Any]] = ()
                        ) -> list[tuple[str, str]]:
    """List the problems for which `inputs_of` would refuse a run: keys and messages.

    `check_jobs` must have accepted the workload.
    """
    try:
        policies = policies_of(scheduler, placement, execution, seed, workload.jobs)
    except InputError as error:
        return [("scheduler.name" if isinstance(error, UnknownNameError) else "scheduler",
                 str(error))]
    return _on_cluster(cluster, workload, policies, placement is not None, seed, events)[0]


def _on_cluster(cluster: Cluster, workload: Workload, policies: Policies, placed: bool, seed: int,
                events: Sequence[FaultEvent | Mapping[str, Any]]
                ) -> tuple[list[tuple[str, str]], Workload]:
    """Return the problems of a run on a cluster, and its jobs, as rings if a policy needs them."""
    asked = policies.asked()
    context = RunContext(cluster, workload.jobs, policies.model, workload.history, seed)
    run = ClusterRun(context, changes_of(events, cluster), placed)
    if problems := list(_problems(run, "cluster", asked)):
        return problems, workload
    if any("rings" in needs_of(each.policy, "cluster") for each in asked):
        workload = _as_rings(workload)
    return list(_own_problems(replace(context, jobs=workload.jobs), asked)), workload


def _as_rings(workload: Workload) -> Workload:
    """Convert all jobs of a workload, which must amount to rings, to the pattern."""
    rings = [ring for job in workload if (ring := ring_of(job)) is not None]
    return workload if rings == list(workload) else replace(workload, jobs=rings)


# --- runs on edge-clouds --------------------------------------------------------------------
def edge_inputs_of(system: EdgeCloud, workload: EdgeWorkload, scheduler: Any = None,
                   transport: Any = "constant", seed: int = 0, epsilon: float = 0.0,
                   allocator: Any = "maxmin",
                   events: Sequence[FaultEvent | Mapping[str, Any]] = ()
                   ) -> tuple[EdgeSetting, Any, TransportKind]:
    """Return the setting, the scheduler and the transport of a run, after checking them.

    Warn if all jobs will train in the cloud although the scheduler uses the edge, because no edge
    server can train them.
    """
    workload.check_on(system)
    setting = EdgeSetting(system, workload.jobs, seed, epsilon)
    decider = make_scheduler("a-online" if scheduler is None else scheduler)
    kind = make_transport(transport)
    for key, problem in problems_of_edge(setting, decider, kind, allocator, events):
        raise InputError(problem, key)
    if system.cloud and "a cloud" not in needs_of(decider, "edge-cloud") and (
            why := why_only_cloud(setting)):
        # Of this line, so that Python's filters show it once for all runs of a comparison.
        warnings.warn(NetsimWarning("everything goes to the cloud, because "
                                    f"nothing else can serve it: {why}"), stacklevel=1)
    return setting, decider, kind


def problems_of_edge(setting: EdgeSetting, scheduler: Any, transport: TransportKind,
                     allocator: Any = "maxmin",
                     events: Sequence[FaultEvent | Mapping[str, Any]] = ()
                     ) -> list[tuple[str, str]]:
    """List the requirements that a run on an edge-cloud does not meet: keys and messages.

    `allocator` and `events` are ignored if the transport has no links.
    """
    found: list[tuple[str, Any, Registry]] = [
        ("scheduler", scheduler, SCHEDULERS), ("transport", transport, TRANSPORTS)]
    changes: Sequence[Change] = ()
    if transport.shares_links:
        found.append(("allocator", make_allocator(allocator), ALLOCATORS))
        changes = changes_of(events, setting.system.network)
    asked = [_Asked(kind, registry.to_dict(policy)["name"], policy)
             for kind, policy, registry in found]
    problems = list(_problems(EdgeRun(setting, transport, changes), "edge-cloud", asked))
    if not problems and hasattr(scheduler, "suits"):
        for context in edge.whole_jobs.contexts_of(setting):
            problems += _own_problems(context, asked[:1])
    return problems


# --- whole runs ----------------------------------------------------------------------------
def problems_of(spec: RunSpec, keys: Iterable[str] = (),
                schedulers: Mapping[str, Any] = MappingProxyType({})) -> list[tuple[str, str]]:
    """List why a run is refused: keys of a file, and messages; the run itself raises one of them.

    `keys` are further keys that a file has, and `schedulers` those that it compares, by their keys.
    The network and the workload must be built, and accepted by `check_jobs`.
    """
    what, jobs, given = spec.network, spec.workload, [*spec.given, *keys]
    if isinstance(what, EdgeCloud):
        return _problems_on_edge(what, jobs, spec, given, schedulers)
    if not isinstance(what, Cluster):
        return problems_of_arguments("network", given)
    problems = problems_of_arguments("cluster", given)
    if paused := problem_of_pauses(jobs, as_preemption(spec.preemption).keep):
        problems.append(("preemption.keep", paused))
    else:
        problems += problems_of_cluster(what, jobs, spec.scheduler, spec.placement, spec.execution,
                                        spec.seed, spec.events)
    with suppress(InputError):  # which `problems_of_cluster` has told
        if not policies_of(execution=spec.execution, jobs=jobs.jobs).model.uses_links:
            problems += problems_of_arguments("cluster by a model", given)
    return problems


def _problems_on_edge(system: EdgeCloud, jobs: EdgeWorkload, spec: RunSpec, given: Sequence[str],
                      schedulers: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = problems_of_arguments("edge-cloud", given)
    transport = make_transport(spec.transport)
    if not transport.shares_links:
        problems += problems_of_arguments("edge-cloud without links", given,
                                          transport=TRANSPORTS.to_dict(transport)["name"])
    own = {} if spec.scheduler is None and schedulers else {"scheduler": spec.scheduler}
    made = {}
    for key, policy in {**own, **schedulers}.items():
        try:
            made[key] = make_scheduler("a-online" if policy is None else policy)
        except InputError as error:
            problems.append((f"{key}.name", str(error)))
    if problems:
        return problems
    if spec.preemption is not None and (
            problem := _problem_of_preemption(spec.preemption, list(made.values()))):
        return [("preemption", problem)]
    setting = EdgeSetting(system, jobs.jobs)
    return [(key if at == "scheduler" else at, why) for key, scheduler in made.items()
            for at, why in problems_of_edge(setting, scheduler, transport, spec.allocator,
                                            spec.events)]


def _problem_of_preemption(options: Any, schedulers: Sequence[Any]) -> str:
    """Say why options of preemption are refused; they may have no effect for some schedulers."""
    for scheduler, free in zip(schedulers, without_preemption(schedulers), strict=True):
        if not free:
            try:
                preemption_on_edge(options, scheduler)
            except InputError as error:
                return str(error).removeprefix("preemption: ")
    return ""


def without_preemption(schedulers: Iterable[Any]) -> list[bool]:
    """Find which of several compared schedulers on an edge-cloud ignore the options of preemption.

    These are the schedulers of chunks. But if there are no others, none counts as ignoring them, so
    that the options are refused.
    """
    free = [schedules(make_scheduler(each)) != "jobs" for each in schedulers]
    return [False] * len(free) if all(free) else free


def problem_of_pauses(workload: Workload, keep: str) -> str | None:
    """Return why `keep` is not possible: a job cannot be paused in an iteration; or None."""
    ranked = next((job for job in workload if has_operations(job)), None)
    if ranked is None or keep != "fraction":
        return None
    return (f"keep must be 'iterations', not 'fraction': ranks of job {ranked.id} compute, or its "
            "iterations overlap, and it cannot be paused within one")


def preemption_on_edge(given: Any, scheduler: Any) -> Preemption:
    """Make the options of preemption on an edge-cloud, for schedulers of whole jobs."""
    if schedules(scheduler) != "jobs":
        name = SCHEDULERS.to_dict(scheduler)["name"]
        raise InputError("preemption is for jobs on a cluster and for whole jobs; scheduler "
                         f"{name!r} dispatches chunks, or plans jobs by itself")
    return on_edge(given)
