"""The arguments of a run, from which its target is made: a network, a cluster or an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.allocators import make_allocator
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import Node, check_collection, check_flag, check_whole, refuse_several
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.edge.transport import LinkSettings
from netsim.engine.preemption import as_preemption
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.stragglers import factors_of
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.results.link_recorder import LinkRecorder
from netsim.results.result import EDGE_TABLES
from netsim.results.tables import OF_LINKS, RECORDS
from netsim.simulation.compatibility import (
    edge_inputs_of,
    inputs_of,
    preemption_on_edge,
    problem_of_pauses,
    refuse_arguments,
    wire_of,
)
from netsim.simulation.events import FaultEvent, capacities_of
from netsim.simulation.faults import Faults
from netsim.simulation.on_cluster import OnCluster
from netsim.simulation.on_edge import OnEdge, as_edge_workload
from netsim.simulation.on_network import OnNetwork
from netsim.simulation.run import Run
from netsim.traces.formats import as_workload
from netsim.workload import Workload

#: What a timeline shows beside the jobs.
TIMELINE = ("coflows", "computations", "links", "decisions")


class Arguments(NamedTuple):
    """The arguments of `simulate`, except the network and the workload."""

    allocator: Any = "maxmin"
    observe_interval: Quantity = 0
    seed: int = 0
    until: Quantity | None = None
    record: Sequence[str] = ("jobs", "coflows")
    timeline: bool = False
    events: Sequence[FaultEvent | Mapping[str, Any]] = ()
    stragglers: Mapping[Node, float] | None = None
    check: bool = True
    scheduler: Any = None
    placement: Any = None
    execution: Any = None
    epsilon: float = 0.0
    transport: Any = "constant"
    preemption: Any = None

    @property
    def interval(self) -> float:
        """The observe interval in seconds."""
        return parse_seconds(self.observe_interval, "observe_interval")

    def check_kinds(self) -> None:
        """Check that arguments of one value are not lists, and that flags are true or false."""
        for name, value in self._asdict().items():
            if name not in ("record", "events", "stragglers"):  # which have checks of their own
                refuse_several(value, name)
        check_flag(self.timeline, "timeline")
        check_flag(self.check, "check")

    @property
    def given(self) -> list[str]:
        """The arguments that differ from their defaults, in the order in which errors name them."""
        differs = {
            "until": self.until is not None, "timeline": self.timeline,
            "stragglers": self.stragglers is not None, "placement": self.placement is not None,
            "execution": self.execution is not None,
            "allocator": _differs(self.allocator, "maxmin"),
            "observe_interval": self.interval != 0,
            "events": not (isinstance(self.events, Sequence) and not self.events),
            "scheduler": self.scheduler is not None, "epsilon": _differs(self.epsilon, 0),
            "transport": _differs(self.transport, "constant"),
            "preemption": self.preemption is not None,
            **{f"record.{name}": isinstance(self.record, Sequence) and name in tuple(self.record)
               for name in (*OF_LINKS, *EDGE_TABLES)}}
        return [name for name, is_given in differs.items() if is_given]


def _differs(value: Any, default: object) -> bool:
    """Whether an argument is not the default; arrays compare element by element."""
    return not (isinstance(value, str | int | float) and value == default)


def target_of(what: Topology | Cluster | EdgeCloud | str | Path, workload: Any, args: Arguments
              ) -> Run:
    """Make the target of a simulation, after checking that its arguments can be combined."""
    args.check_kinds()
    refuse_several_places(what, workload)
    if isinstance(what, EdgeCloud):
        refuse_arguments("edge-cloud", args.given)
        return _on_edge(what, as_edge_workload(workload), args)
    what = _as_cluster(what, args)
    check_whole(args.seed, "seed")
    refuse_arguments("cluster" if isinstance(what, Cluster) else "network", args.given)
    jobs = as_workload(workload, args.seed)
    if isinstance(what, Cluster):
        return _on_cluster(what, jobs, args)()
    return OnNetwork(what, jobs, make_allocator(args.allocator), args.interval,
                     args.seed, args.record, args.events, args.check,
                     TIMELINE if args.timeline else (), args.stragglers)


def refuse_several_places(what: Any, workload: Any) -> None:
    """Refuse several networks or workloads, which a sweep runs one by one; jobs may be a list."""
    refuse_several(what, "network")
    if isinstance(workload, list | tuple) and any(
            isinstance(each, str | Path | Workload | EdgeWorkload) for each in workload):
        refuse_several(workload, "workload")


def check_call(what: Topology | Cluster | EdgeCloud, workload: Workload | EdgeWorkload,
               args: Arguments) -> None:
    """Check that arguments can be combined, as `simulate` does, without planning schedules."""
    args.check_kinds()
    what = what if isinstance(what, EdgeCloud) else _as_cluster(what, args)
    if isinstance(what, Cluster) and isinstance(workload, Workload):
        refuse_arguments("cluster", args.given)
        _on_cluster(what, workload, args)
    else:
        target_of(what, workload, args)
    if args.until is not None:
        parse_seconds(args.until, "until", strict=True)


def _as_cluster(what: Topology | Cluster | str | Path, args: Arguments) -> Topology | Cluster:
    """Return a network; or its cluster, if it knows its GPUs and there is a scheduler."""
    if isinstance(what, Cluster):
        return what
    network = as_network(what)
    if network.gpu_servers is None or not {"scheduler", "placement", "execution",
                                           "preemption"}.intersection(args.given):
        return network
    return Cluster(topology=network, name=network.name)


def _on_cluster(cluster: Cluster, workload: Workload, args: Arguments) -> Callable[[], OnCluster]:
    """Check the arguments of a run on a cluster; return a function that makes its target."""
    check_whole(args.seed, "seed")
    _check_record(args.record, RECORDS)
    rings, policies = inputs_of(cluster, workload, args.scheduler, args.placement, args.execution,
                                args.seed, args.events)
    faults = Faults(args.events, cluster)
    factors = factors_of(args.stragglers, cluster.servers, cluster.server)
    interval, preemption = args.interval, as_preemption(args.preemption)
    if (problem := problem_of_pauses(workload, preemption.keep)) is not None:
        raise InputError(f"preemption: {problem}")
    on_fabric = policies.model.uses_links
    if not on_fabric:
        refuse_arguments("cluster by a model", args.given)
    allocator = make_allocator(args.allocator) if on_fabric else None
    return partial(OnCluster, cluster, rings, policies, faults, args.seed, args.record, factors,
                   allocator, interval, args.check, preemption,
                   TIMELINE if args.timeline and on_fabric else ())


def _check_record(record: Sequence[str], known: Sequence[str]) -> None:
    """Check that all names of tables are known for the target."""
    for name in check_collection(record, str, "record", "names"):
        if name not in known:
            raise UnknownNameError("record", name, known)


def _on_edge(system: EdgeCloud, workload: EdgeWorkload, args: Arguments) -> OnEdge:
    if (problem := wire_of(system.network)) is not None:
        raise InputError(f"edge-cloud {system.name!r}: {problem}")
    transport = make_transport(args.transport)
    _check_record(args.record, (*RECORDS, *EDGE_TABLES))
    recorder = LinkRecorder([name for name in args.record if name in RECORDS], system.network,
                            OF_LINKS if args.timeline and transport.shares_links else ())
    if not transport.shares_links:
        refuse_arguments("edge-cloud without links", args.given,
                         transport=TRANSPORTS.to_dict(transport)["name"])
    setting, decider, kind = edge_inputs_of(system, workload, args.scheduler, transport,
                                            args.seed, args.epsilon, args.allocator, args.events)
    sharing = LinkSettings(args.allocator, args.interval,
                           capacities_of(args.events, system.network) if args.events else (),
                           args.check, recorder if recorder.watches_fabric else None)
    preemption = None if args.preemption is None else preemption_on_edge(args.preemption, decider)
    return OnEdge(setting, workload, decider, kind, sharing, recorder, preemption)
