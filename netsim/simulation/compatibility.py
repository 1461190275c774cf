"""Which policies, jobs, targets and arguments can be combined, and why others are refused.

What policies need is a row each of the table in `netsim.simulation.needs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from netsim import edge
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.plugins import Registry
from netsim.base.values import about
from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.edge.edge_cloud import EdgeCloud, EdgeWorkload
from netsim.edge.registry import TRANSPORTS, TransportKind, make_transport
from netsim.edge.schedule import why_only_cloud
from netsim.edge.setting import EdgeSetting
from netsim.engine.preemption import Preemption, as_preemption, on_edge
from netsim.engine.registry import make_execution
from netsim.errors import InputError, NetsimWarning, UnknownNameError
from netsim.jobs.plan import has_operations
from netsim.models import ParallelModel
from netsim.models.mapping import can_hold
from netsim.placements.placement import Placement
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler, schedules
from netsim.simulation.events import Change, FaultEvent, changes_of
from netsim.simulation.needs import NEEDS, ClusterRun, EdgeRun, needs_of, refusal, wire_of
from netsim.simulation.run_spec import RunSpec, problems_of_arguments
from netsim.workload import JobSpec, Workload


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
        if hasattr(policy, "suits") and (problem := refusal(policy.suits, context)) is not None:
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


def inputs_of(cluster: Cluster, workload: Workload, spec: RunSpec) -> tuple[Workload, Policies]:
    """Return the workload and the policies of a run on a cluster, after checking them.

    If a policy requires rings, models that amount to a ring are converted to the pattern.
    """
    policies = _policies(spec, workload)
    return checked(cluster, workload, policies, spec.seed, spec.placement is not None,
                   spec.events), policies


def checked(cluster: Cluster, workload: Workload, policies: Policies, seed: int,
            placed: bool = False, events: Sequence[FaultEvent | Mapping[str, Any]] = ()
            ) -> Workload:
    """Check that jobs can run on a cluster under some policies; return them as `inputs_of` does."""
    check_jobs(workload, cluster)
    problems, rings = _on_cluster(cluster, workload, policies, placed, seed, events)
    for key, problem in problems:
        raise InputError(problem, key)
    return rings


def _policies(spec: RunSpec, workload: Workload) -> Policies:
    return policies_of(spec.scheduler, spec.placement, spec.execution, spec.seed, workload.jobs)


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
def edge_inputs_of(system: EdgeCloud, workload: EdgeWorkload, transport: TransportKind,
                   spec: RunSpec) -> tuple[EdgeSetting, Any]:
    """Return the setting and the scheduler of a run over a transport, after checking them.

    Warn if all jobs will train in the cloud although the scheduler uses the edge, because no edge
    server can train them.
    """
    workload.check_on(system)
    setting = EdgeSetting(system, workload.jobs, spec.seed, spec.epsilon)
    decider = make_scheduler("a-online" if spec.scheduler is None else spec.scheduler)
    for key, problem in problems_of_edge(setting, decider, transport, spec.allocator, spec.events):
        raise InputError(problem, key)
    if system.cloud and "a cloud" not in needs_of(decider, "edge-cloud") and (
            why := why_only_cloud(setting)):
        # Of this line, so that Python's filters show it once for all runs of a comparison.
        warnings.warn(NetsimWarning("everything goes to the cloud, because "
                                    f"nothing else can serve it: {why}"), stacklevel=1)
    return setting, decider


def problem_of_wire(system: EdgeCloud) -> str | None:
    """Return what is wrong with links that have latency; None if nothing is."""
    problem = wire_of(system.network)
    return None if problem is None else f"edge-cloud {system.name!r}: {problem}"


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
        problems += _problems_on_cluster(what, jobs, spec)
    with suppress(InputError):  # which has been told
        if not policies_of(execution=spec.execution, jobs=jobs.jobs).model.uses_links:
            problems += problems_of_arguments("cluster by a model", given)
    return problems


def _problems_on_cluster(cluster: Cluster, jobs: Workload, spec: RunSpec) -> list[tuple[str, str]]:
    try:
        policies = _policies(spec, jobs)
    except InputError as error:
        return [("scheduler.name" if isinstance(error, UnknownNameError) else "scheduler",
                 str(error))]
    return _on_cluster(cluster, jobs, policies, spec.placement is not None, spec.seed,
                       spec.events)[0]


def _problems_on_edge(system: EdgeCloud, jobs: EdgeWorkload, spec: RunSpec, given: Sequence[str],
                      schedulers: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = problems_of_arguments("edge-cloud", given)
    transport = make_transport(spec.transport)
    if not transport.shares_links:
        problems += problems_of_arguments("edge-cloud without links", given,
                                          transport=TRANSPORTS.to_dict(transport)["name"])
    elif (wire := problem_of_wire(system)) is not None:
        problems.append(("network", wire))
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
        if not free and (problem := refusal(preemption_on_edge, options, scheduler)) is not None:
            return problem.removeprefix("preemption: ")
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
