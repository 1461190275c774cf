"""Runs on a cluster or an edge-cloud, where a scheduler places jobs: checked and made.

A run on a network needs none of what is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from netsim.allocators import make_allocator
from netsim.base.values import about
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.on_fabric.links import LinkSettings
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.engine.preemption import as_preemption
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.stragglers import factors_of
from netsim.network.files import as_network
from netsim.results.link_recorder import LinkRecorder
from netsim.results.result import EDGE_TABLES
from netsim.results.tables import OF_LINKS, RECORDS
from netsim.simulation.compatibility import (
    edge_inputs_of,
    inputs_of,
    preemption_on_edge,
    problem_of_pauses,
    problem_of_wire,
)
from netsim.simulation.events import capacities_of
from netsim.simulation.faults import Faults
from netsim.simulation.on_cluster import OnCluster
from netsim.simulation.on_edge import OnEdge, as_edge_workload
from netsim.simulation.run import Run
from netsim.simulation.run_spec import RunSpec, refuse_arguments
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


def maker(what: Cluster | EdgeCloud, jobs: Any, spec: RunSpec) -> Callable[[], Run]:
    """Check a run; return a function that makes it, with the plans of the scheduler."""
    if isinstance(what, EdgeCloud):
        return _on_edge(what, jobs, spec)
    return _on_cluster(what, jobs, spec)


def _on_cluster(cluster: Cluster, workload: Workload, spec: RunSpec) -> Callable[[], OnCluster]:
    _check_record(spec.record, RECORDS)
    rings, policies = inputs_of(cluster, workload, spec)
    faults = Faults(spec.events, cluster)
    factors = factors_of(spec.stragglers, cluster.servers, cluster.server)
    preemption = as_preemption(spec.preemption)
    if (problem := problem_of_pauses(workload, preemption.keep)) is not None:
        raise InputError(f"preemption: {problem}", "preemption")
    on_fabric = policies.model.uses_links
    if not on_fabric:
        refuse_arguments("cluster by a model", spec.given)
    with about("allocator"):
        allocator = make_allocator(spec.allocator) if on_fabric else None
    return partial(OnCluster, cluster, rings, policies, faults, factors, allocator, preemption,
                   spec)


def _check_record(record: Sequence[str], known: Sequence[str]) -> None:
    """Check that all names of tables are known for the target."""
    for name in record:
        if name not in known:
            raise UnknownNameError("record", name, known, key="record")


def _on_edge(system: EdgeCloud, workload: EdgeWorkload, spec: RunSpec) -> Callable[[], OnEdge]:
    refuse_arguments("edge-cloud", spec.given)
    if (problem := problem_of_wire(system)) is not None:
        raise InputError(problem, "network")
    with about("transport"):
        transport = make_transport(spec.transport)
    _check_record(spec.record, (*RECORDS, *EDGE_TABLES))
    recorder = LinkRecorder([name for name in spec.record if name in RECORDS], system.network,
                            OF_LINKS if spec.timeline and transport.shares_links else ())
    if not transport.shares_links:
        refuse_arguments("edge-cloud without links", spec.given,
                         transport=TRANSPORTS.to_dict(transport)["name"])
    setting, decider = edge_inputs_of(system, workload, transport, spec)
    sharing = LinkSettings(spec.allocator, float(spec.observe_interval),
                           capacities_of(spec.events, system.network) if spec.events else (),
                           spec.check, recorder if recorder.watches_fabric else None)
    preemption = None if spec.preemption is None else preemption_on_edge(spec.preemption, decider)
    return partial(OnEdge, setting, workload, decider, transport, sharing, recorder, preemption)
