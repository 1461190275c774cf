"""`simulate`: run one workload on a network, a cluster or an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.allocators import make_allocator
from netsim.checks import check_sequence, check_whole
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.edge.transport import LinkSettings
from netsim.errors import UnknownNameError
from netsim.fabric.allocator import Allocator
from netsim.jobs.stragglers import factors_of
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.plain import plain_numbers
from netsim.recording.link_recorder import OF_LINKS, RECORDS, LinkRecorder
from netsim.results.result import Result
from netsim.simulation.compatibility import edge_inputs_of, inputs_of, refuse_arguments
from netsim.simulation.events import FaultEvent, capacities_of
from netsim.simulation.faults import Faults
from netsim.simulation.on_cluster import OnCluster
from netsim.simulation.on_edge import OnEdge, as_edge_workload
from netsim.simulation.on_network import OnNetwork
from netsim.simulation.simulation import Simulation, Target
from netsim.traces.formats import as_workload
from netsim.units import Quantity, parse_seconds
from netsim.workload import JobSpec, Workload

__all__ = ["Arguments", "check_call", "simulate", "target_of"]

#: What a timeline shows beside the jobs.
TIMELINE = ("coflows", "links", "decisions")


@plain_numbers
def simulate(network: Topology | Cluster | EdgeCloud | str | Path,
             workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
             | Path, *,
             allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
             observe_interval: Quantity = 0, seed: int = 0, until: Quantity | None = None,
             record: Sequence[str] = ("jobs", "coflows"), timeline: bool = False,
             events: Sequence[FaultEvent | Mapping[str, Any]] = (),
             stragglers: Mapping[int, float] | None = None, check: bool = True,
             scheduler: Any = None, placement: Any = None, execution: Any = None,
             epsilon: float = 0.0, transport: Any = "constant",
             progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a workload on a network, on the servers of a cluster, or on an edge-cloud.

    Parameters
    ----------
    network : Topology, Cluster, EdgeCloud, str or path
        A network, or the name or file of one, see `read_network`; a cluster of servers with GPUs;
        or an edge-cloud. On an edge-cloud, `until`, `timeline`, `placement` and `execution` are
        not supported, and `allocator`, `observe_interval`, `events` and `record` only with
        ``transport="fabric"``.
    workload : Workload, sequence of JobSpec, str or path
        A workload, a sequence of jobs, or the name or file of a workload, see `read_workload`. On
        an edge-cloud, an `EdgeWorkload` or a sequence of `EdgeJob`.
    allocator : str, mapping, Allocator or class
        Policy that decides the bandwidth of flows; see `netsim.allocators.make_allocator`.
    observe_interval : quantity
        If positive, such as ``"10ms"``, events are noticed and bandwidth is decided only at
        multiples of this interval. If 0, at the exact instants.
    seed : int
        Seed of the placement of jobs without hosts, and of the workload if it is given by name or
        path.
    until : quantity, optional
        Time at which to stop, whether or not all jobs have finished.
    record : sequence of str
        Tables to keep: jobs (always), coflows, flows, links, decisions.
    timeline : bool
        Whether to keep what `netsim.write_timeline` needs of coflows, links and decisions, even if
        `record` does not name these tables. This does not change the run. Links that are kept
        only for the timeline have mean rates between events, and decisions that leave an
        allocation in force are not listed separately.
    events : sequence of FaultEvent or mapping
        Changes, failures and repairs of links and hosts: ``{"at": "5s", "kind": "fail", "host": 3,
        "restart": True}``, ``{"at": "7s", "link": "egress-3", "capacity": "1Gbps"}``.
    stragglers : mapping of int to float, optional
        Factors by which computation is slower on some hosts, or servers of a cluster: ``{3: 2.0}``.
    check : bool
        Whether to check that each allocation is feasible, which costs a few percent of the run.
    scheduler : str, mapping or object, optional
        On a cluster, the policy that decides when jobs start, ``"fifo"`` by default; see
        `netsim.schedulers.registry.make_scheduler`. On an edge-cloud, the policy that decides
        where chunks train, ``"a-online"`` by default; see
        `netsim.schedulers.edge_registry.make_edge_scheduler`.
    placement : str, mapping or Placement, optional
        On a cluster, the policy that chooses the GPUs of a job, for schedulers that do not choose
        them; see `netsim.placements.registry.make_placement`. The default is that of the
        scheduler, or ``"first-fit"``.
    execution : str or mapping, optional
        On a cluster, how placed jobs run: by the formulas of ``"rar-contention"`` (the default) or
        ``"asrpt"``, without an allocator; or as coflows on the ``"fabric"``, with the allocator.
        See `netsim.engine.registry.make_execution`.
    epsilon : float
        On an edge-cloud, the speed-up of workers: training takes 1 / (1 + epsilon) of its nominal
        time.
    transport : str, mapping or object
        On an edge-cloud, how chunks reach workers and exchange gradients: in nominal times
        (``"constant"``), or as flows over the links (``"fabric"``). See
        `netsim.edge.registry.make_transport`.
    progress : bool or callable
        Whether to show a progress bar on a terminal or in a notebook; or a function to call with
        the numbers of coflows done and in total, or of jobs on a cluster or an edge-cloud.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the network, the workload or an argument cannot be simulated.
    AllocationError
        If the allocator returns rates that are not feasible; the message names it.
    StalledError
        If coflows are pending, but nothing moves and no event is left.
    Interrupted
        On Ctrl-C; a `KeyboardInterrupt` whose message says how far the run was.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, "8Mbps")
    >>> job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 3e6)])])
    >>> netsim.simulate(net, netsim.Workload([job])).jobs["jct_s"][0]
    np.float64(3.0)
    """
    target = target_of(network, workload, Arguments(
        allocator, observe_interval, seed, until, record, timeline, events, stragglers, check,
        scheduler, placement, execution, epsilon, transport))
    simulation = Simulation(target)
    simulation.run(until, progress)
    return simulation.result()


class Arguments(NamedTuple):
    """The arguments of `simulate`, except the network and the workload."""

    allocator: Any = "maxmin"
    observe_interval: Quantity = 0
    seed: int = 0
    until: Quantity | None = None
    record: Sequence[str] = ("jobs", "coflows")
    timeline: bool = False
    events: Sequence[FaultEvent | Mapping[str, Any]] = ()
    stragglers: Mapping[int, float] | None = None
    check: bool = True
    scheduler: Any = None
    placement: Any = None
    execution: Any = None
    epsilon: float = 0.0
    transport: Any = "constant"

    @property
    def interval(self) -> float:
        """The observe interval in seconds."""
        return parse_seconds(self.observe_interval, "observe_interval")

    @property
    def given(self) -> list[str]:
        """The arguments that differ from their defaults, in the order in which errors name them."""
        differs = {
            "until": self.until is not None, "timeline": self.timeline,
            "stragglers": self.stragglers is not None, "placement": self.placement is not None,
            "execution": self.execution is not None, "allocator": self.allocator != "maxmin",
            "observe_interval": self.interval != 0,
            "events": not (isinstance(self.events, Sequence) and not self.events),
            "scheduler": self.scheduler is not None, "epsilon": self.epsilon != 0,
            "transport": self.transport != "constant",
            **{f"record.{name}": isinstance(self.record, Sequence) and name in self.record
               for name in OF_LINKS}}
        return [name for name, is_given in differs.items() if is_given]


def target_of(what: Topology | Cluster | EdgeCloud | str | Path, workload: Any, args: Arguments
              ) -> Target:
    """Make the target of a simulation, after checking that its arguments can be combined.

    Raises
    ------
    InputError
        As `simulate` does.
    """
    if isinstance(what, EdgeCloud):
        refuse_arguments("edge-cloud", args.given)
        return _on_edge(what, as_edge_workload(workload), args)
    refuse_arguments("cluster" if isinstance(what, Cluster) else "network", args.given)
    jobs = as_workload(workload, args.seed)
    if isinstance(what, Cluster):
        return _on_cluster(what, jobs, args)()
    return OnNetwork(as_network(what), jobs, make_allocator(args.allocator), args.interval,
                     args.seed, args.record, args.events, args.check,
                     TIMELINE if args.timeline else (), args.stragglers)


def check_call(what: Topology | Cluster | EdgeCloud, workload: Workload | EdgeWorkload,
               args: Arguments) -> None:
    """Check that arguments can be combined, as `simulate` does, without planning schedules.

    Raises
    ------
    InputError
        As `simulate` does.
    """
    if isinstance(what, Cluster) and isinstance(workload, Workload):
        refuse_arguments("cluster", args.given)
        _on_cluster(what, workload, args)
    else:
        target_of(what, workload, args)
    if args.until is not None:
        parse_seconds(args.until, "until", strict=True)


def _on_cluster(cluster: Cluster, workload: Workload, args: Arguments) -> Callable[[], OnCluster]:
    """Check the arguments of a run on a cluster; return a function that makes its target."""
    check_whole(args.seed, "seed")
    for name in check_sequence(args.record, str, "record", "names"):
        if name not in RECORDS:
            raise UnknownNameError("record", name, RECORDS)
    rings, policies = inputs_of(cluster, workload, args.scheduler, args.placement, args.execution,
                                args.seed, args.events)
    faults = Faults(args.events, cluster.network)
    factors = factors_of(args.stragglers, cluster.servers)
    interval = args.interval
    on_fabric = policies.model.uses_links
    if not on_fabric:
        refuse_arguments("cluster by a model", args.given)
    allocator = make_allocator(args.allocator) if on_fabric else None
    return partial(OnCluster, cluster, rings, policies, faults, args.seed, args.record, factors,
                   allocator, interval, args.check)


def _on_edge(system: EdgeCloud, workload: EdgeWorkload, args: Arguments) -> OnEdge:
    recorder = LinkRecorder(args.record, system.network.capacity)
    transport = make_transport(args.transport)
    if not transport.shares_links:
        refuse_arguments("edge-cloud without links", args.given,
                         transport=TRANSPORTS.to_dict(transport)["name"])
    setting, decider, kind = edge_inputs_of(system, workload, args.scheduler, transport,
                                            args.seed, args.epsilon, args.allocator, args.events)
    sharing = LinkSettings(args.allocator, args.interval,
                           capacities_of(args.events, system.network) if args.events else (),
                           args.check, recorder if recorder.watches_fabric else None)
    return OnEdge(setting, workload, decider, kind, sharing, recorder)
