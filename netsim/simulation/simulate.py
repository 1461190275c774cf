"""`simulate`: run one workload on a network, a cluster or an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.checks import Node, check_flag, refuse_several
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.fabric.allocator import Allocator
from netsim.network import Topology
from netsim.plain import plain_numbers
from netsim.results.result import Result
from netsim.simulation.events import FaultEvent
from netsim.simulation.progress import check_progress
from netsim.simulation.simulation import Simulation
from netsim.units import Quantity
from netsim.workload import JobSpec, Workload


@plain_numbers
def simulate(network: Topology | Cluster | EdgeCloud | str | Path,
             workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
             | Path, *,
             allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
             observe_interval: Quantity = 0, seed: int = 0, until: Quantity | None = None,
             record: Sequence[str] = ("jobs", "coflows"), timeline: bool = False,
             events: Sequence[FaultEvent | Mapping[str, Any]] = (),
             stragglers: Mapping[Node, float] | None = None, check: bool = True,
             scheduler: Any = None, placement: Any = None, execution: Any = None,
             epsilon: float = 0.0, transport: Any = "constant", preemption: Any = None,
             symmetry: bool = True,
             progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a workload on a network, on the servers of a cluster, or on an edge-cloud.

    Parameters
    ----------
    network : Topology, Cluster, EdgeCloud, str or path
        A network, or the name or file of one, see `read_network`; a cluster of servers with GPUs;
        or an edge-cloud. On an edge-cloud, `placement` and `execution` are not supported.
        `allocator`, `observe_interval`, `events`, and the tables links and decisions in `record`
        are supported there only with ``transport="fabric"``.
    workload : Workload, sequence of JobSpec, str or path
        A workload, a sequence of jobs, or the name or file of a workload, see `read_workload`. On
        an edge-cloud, an `EdgeWorkload` or a sequence of `EdgeJob`.
    allocator : str, mapping, Allocator or class
        Policy that decides the bandwidth of flows; see `netsim.allocators.make_allocator`.
    observe_interval : quantity
        If positive, such as ``"10ms"``, events are noticed and bandwidth is allocated only at
        multiples of this interval. If 0, this happens at the exact instants of events.
    seed : int
        Seed of the placement of jobs without hosts, and of the workload if it is given by name or
        path.
    until : quantity, optional
        Time at which to stop, whether or not all jobs have finished.
    record : sequence of str
        Tables to keep: jobs (kept always), coflows, flows, links, decisions; see `Result`. On an
        edge-cloud, the tables chunks, training, held, workers, servers and ps are always kept, and
        may be named.
    timeline : bool
        Whether to keep the coflows, links and decisions that `netsim.write_timeline` needs, even if
        `record` does not name these tables. This does not change the run. If links are kept only
        for the timeline, their rates are means between events. If decisions are kept only for the
        timeline, those that do not change the allocation may be left out.
    events : sequence of FaultEvent or mapping
        Changes, failures and repairs of links and hosts: ``{"at": "5s", "kind": "fail", "host": 3,
        "restart": True}``, ``{"at": "7s", "link": "egress-3", "capacity": "1Gbps"}``.
    stragglers : mapping of int or str to float, optional
        Factors by which computation is slower on some hosts, or servers of a cluster, given by
        number or name: ``{3: 2.0}``.
    check : bool
        Whether to check that each allocation is feasible, which costs a few percent of the run.
    scheduler : str, mapping or object, optional
        On a cluster, the policy that decides when jobs start; ``"fifo"`` by default. On an
        edge-cloud, the policy that decides where and when jobs or their chunks train;
        ``"a-online"`` by default. See `netsim.schedulers.registry.make_scheduler`.
    placement : str, mapping or Placement, optional
        On a cluster, the policy that chooses the GPUs of a job, for schedulers that do not choose
        them; see `netsim.placements.registry.make_placement`. The default is that of the
        scheduler, or ``"first-fit"``.
    execution : str or mapping, optional
        On a cluster, how placed jobs run: by the formulas of ``"rar-contention"`` or ``"asrpt"``,
        without an allocator; or as coflows on the ``"fabric"``, with the allocator. The default is
        ``"rar-contention"`` if all jobs are rings, which it can run, or else ``"fabric"``. See
        `netsim.engine.registry.make_execution`.
    epsilon : float
        On an edge-cloud, the speed-up of workers, at least 0: training takes 1 / (1 + epsilon) of
        its nominal time.
    transport : str, mapping or object
        On an edge-cloud, how chunks reach workers and exchange gradients: in nominal times
        (``"constant"``), or as flows over the links (``"fabric"``). See
        `netsim.edge.registry.make_transport`.
    preemption : mapping or Preemption, optional
        On a cluster, what jobs keep when they are preempted or lose a server, and what it costs,
        such as ``{"keep": "fraction", "checkpoint_s": "5s", "restore_s": "10s"}``; see
        `netsim.engine.preemption.Preemption`. By default, they keep whole iterations, at no cost.
    symmetry : bool
        Whether identical ranks of a job made by `netsim.llm_job` may be simulated once, if no other
        job uses their links. This changes no result. It applies to networks under max-min fairness,
        if flows, links and decisions are not recorded.
    progress : bool or callable
        Whether to show a progress bar on a terminal or in a notebook; or a function to call with
        the number of coflows done and the number of all coflows. On a cluster or an edge-cloud,
        these are numbers of jobs.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the network, the workload or an argument is invalid.
    AllocationError
        If the allocator returns rates that are not feasible; the message names it.
    StalledError
        If coflows are pending, but none can send and no event is left.
    Interrupted
        On Ctrl-C; a `KeyboardInterrupt` with the progress of the run in its message.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, "8Mbps")
    >>> job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 3e6)])])
    >>> netsim.simulate(net, netsim.Workload([job])).jobs["jct_s"][0]
    np.float64(3.0)
    """
    check_flag(symmetry, "symmetry")
    refuse_several(until, "until")
    check_progress(progress)
    sim = Simulation(
        network, workload, allocator=allocator, observe_interval=observe_interval, seed=seed,
        record=record, timeline=timeline, events=events, stragglers=stragglers, check=check,
        scheduler=scheduler, placement=placement, execution=execution, epsilon=epsilon,
        transport=transport, preemption=preemption)
    if symmetry:
        sim.see_symmetry()
    result = sim.run(until, progress).result()
    sim.close()
    return result
