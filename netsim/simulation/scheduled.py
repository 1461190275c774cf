"""Runs in which a scheduler places jobs, on a cluster or an edge-cloud: their checks and targets.

A run on a network needs none of what is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from netsim.allocators import make_allocator
from netsim.base.values import as_collection
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.edge.setting import EdgeSetting
from netsim.edge.transport import LinkSettings
from netsim.engine.preemption import as_preemption
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.stragglers import factors_of
from netsim.network.files import as_network
from netsim.results.link_recorder import LinkRecorder
from netsim.results.result import EDGE_TABLES
from netsim.results.tables import OF_LINKS, RECORDS
from netsim.schedulers.registry import make_scheduler
from netsim.simulation.compatibility import (
    edge_inputs_of,
    inputs_of,
    policies_of,
    preemption_on_edge,
    problem_of_pauses,
    problems_of_cluster,
    problems_of_edge,
    wire_of,
    without_preemption,
)
from netsim.simulation.events import capacities_of
from netsim.simulation.faults import Faults
from netsim.simulation.on_cluster import OnCluster
from netsim.simulation.on_edge import OnEdge, as_edge_workload
from netsim.simulation.run_spec import (
    TIMELINE,
    RunSpec,
    problems_of_arguments,
    refuse_arguments,
)
from netsim.simulation.target import Target
from netsim.traces.formats import as_workload
from netsim.workload import Workload


def built(spec: RunSpec) -> tuple[Cluster | EdgeCloud, Workload | EdgeWorkload]:
    """Return what jobs run on, and the jobs; see `netsim.simulation.targets.built`."""
    what = spec.network
    if isinstance(what, EdgeCloud):
        return what, as_edge_workload(spec.workload)
    if not isinstance(what, Cluster):
        network = as_network(what)
        what = Cluster(topology=network, name=network.name)
    refuse_arguments("cluster", spec.given)
    return what, as_workload(spec.workload, spec.seed)


def maker(what: Cluster | EdgeCloud, jobs: Workload | EdgeWorkload, spec: RunSpec
          ) -> Callable[[], Target]:
    """Check a run; return a function that makes its target, with the plans of the scheduler."""
    return (_on_edge if isinstance(what, EdgeCloud) else _on_cluster)(what, jobs, spec)  # type: ignore[operator]


def problems_of(spec: RunSpec, keys: Iterable[str], schedulers: Mapping[str, Any]
                ) -> list[tuple[str, str]]:
    """List why a run is refused; see `netsim.simulation.targets.problems_of`."""
    what, jobs, given = spec.network, spec.workload, [*spec.given, *keys]
    if isinstance(what, EdgeCloud):
        return _problems_on_edge(what, jobs, spec, given, schedulers)
    assert isinstance(what, Cluster)
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


def _on_cluster(cluster: Cluster, workload: Workload, spec: RunSpec) -> Callable[[], OnCluster]:
    _check_record(spec.record, RECORDS)
    rings, policies = inputs_of(cluster, workload, spec.scheduler, spec.placement, spec.execution,
                                spec.seed, spec.events)
    faults = Faults(spec.events, cluster)
    factors = factors_of(spec.stragglers, cluster.servers, cluster.server)
    preemption = as_preemption(spec.preemption)
    if (problem := problem_of_pauses(workload, preemption.keep)) is not None:
        raise InputError(f"preemption: {problem}", "preemption")
    on_fabric = policies.model.uses_links
    if not on_fabric:
        refuse_arguments("cluster by a model", spec.given)
    allocator = make_allocator(spec.allocator) if on_fabric else None
    return partial(OnCluster, cluster, rings, policies, faults, spec.seed, spec.record, factors,
                   allocator, spec.observe_interval, spec.check, preemption,
                   TIMELINE if spec.timeline and on_fabric else ())


def _check_record(record: Sequence[str], known: Sequence[str]) -> None:
    """Check that all names of tables are known for the target."""
    for name in as_collection(record, "record", str, "names"):
        if name not in known:
            raise UnknownNameError("record", name, known, key="record")


def _on_edge(system: EdgeCloud, workload: EdgeWorkload, spec: RunSpec) -> Callable[[], OnEdge]:
    refuse_arguments("edge-cloud", spec.given)
    if (problem := wire_of(system.network)) is not None:
        raise InputError(f"edge-cloud {system.name!r}: {problem}")
    transport = make_transport(spec.transport)
    _check_record(spec.record, (*RECORDS, *EDGE_TABLES))
    recorder = LinkRecorder([name for name in spec.record if name in RECORDS], system.network,
                            OF_LINKS if spec.timeline and transport.shares_links else ())
    if not transport.shares_links:
        refuse_arguments("edge-cloud without links", spec.given,
                         transport=TRANSPORTS.to_dict(transport)["name"])
    setting, decider, kind = edge_inputs_of(system, workload, spec.scheduler, transport,
                                            spec.seed, spec.epsilon, spec.allocator, spec.events)
    sharing = LinkSettings(spec.allocator, spec.observe_interval,
                           capacities_of(spec.events, system.network) if spec.events else (),
                           spec.check, recorder if recorder.watches_fabric else None)
    preemption = None if spec.preemption is None else preemption_on_edge(spec.preemption, decider)
    return partial(OnEdge, setting, workload, decider, kind, sharing, recorder, preemption)
