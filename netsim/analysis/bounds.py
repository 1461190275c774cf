"""Lower bounds on completion times, which hold for any policy, from the coflows that jobs emit."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.base.lazy import pd
from netsim.base.values import as_choice, known_names
from netsim.errors import InputError
from netsim.fabric.allocation import Event
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.fabric.view import FabricView
from netsim.jobs.fitting import all_fitted
from netsim.jobs.graph import OperationGraph, StageGraph
from netsim.jobs.longest_path import longest_path
from netsim.jobs.plan import JobPlan, place_randomly
from netsim.network import Topology, read_network
from netsim.network.files import as_network
from netsim.results.tables import CoflowNumbers
from netsim.traces.formats import as_workload
from netsim.workload import Workload


# --- what a workload emits, without a run --------------------------------------------------
class Emitted(NamedTuple):
    """A coflow of a workload, with its earliest times: every coflow is alone on the network."""

    coflow: int  #: number of the coflow in results
    job: int  #: id of the job
    iteration: int
    stage: str
    valid_s: float
    finish_s: float
    fixed: bool  #: waits for no other coflow, so becomes valid at `valid_s` under every policy
    weight: float
    least_s: float  #: least possible CCT
    demand: RoutedCoflow


class _Span(NamedTuple):
    """Earliest start and end, and whether these are the same under every policy."""

    start: float
    end: float
    starts_then: bool
    ends_then: bool


def emitted(network: Topology | str | Path, workload: Workload | str | Path, seed: int = 0
            ) -> Iterator[Emitted]:
    """Yield the coflows of a workload, job by job and iteration by iteration."""
    network = as_network(network)
    workload = all_fitted(as_workload(workload, seed), network, seed)
    numbers = CoflowNumbers(workload)
    for job, spec in enumerate(workload):
        plan = JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                       network.usable)
        for iteration, (graph, spans, least) in enumerate(_iterations(plan, network)):
            for k, (stage, demand) in enumerate(zip(graph.stages, graph.demands, strict=True)):
                if demand is not None:
                    span = spans[k]
                    yield Emitted(numbers.number(job, iteration, graph.stages, k), spec.id,
                                  iteration, stage.name, span.start, span.end, span.starts_then,
                                  demand.weight, least[k], demand)


class _IterationBounds(NamedTuple):
    """The graph of an iteration, with the span of each stage and the least time of its coflow."""

    graph: StageGraph | OperationGraph
    spans: Sequence[_Span]
    least: Sequence[float]


def _iterations(plan: JobPlan, network: Topology) -> Iterator[_IterationBounds]:
    """Yield the iterations of a job."""
    arrival_s = plan.spec.arrival_s
    if isinstance(plan.graph(0), OperationGraph):
        yield from _of_ranks(plan, network)
        return
    whole = _Span(arrival_s, arrival_s, True, True)
    for iteration in range(plan.spec.iterations):
        graph = plan.graph(iteration)
        least = _alone(graph.demands, network)
        spans = _earliest(graph, least, whole, arrival_s)
        yield _IterationBounds(graph, spans, least)
        whole = _Span(whole.start, max(span.end for span in spans), True,
                      all(span.ends_then for span in spans))


def _alone(demands: Iterable[RoutedCoflow | None], network: Topology) -> list[float]:
    """The least time of each coflow; 0 where there is none."""
    return [0.0 if demand is None else demand.least_s(network.usable, network.wire.latency)
            for demand in demands]


def _of_ranks(plan: JobPlan, network: Topology) -> Iterator[_IterationBounds]:
    """Yield the iterations of a job whose ranks compute.

    Where computations take turns, any of them may be held up by one that waits for a coflow.
    """
    graph: OperationGraph = plan.graph(0)
    made, iterations = graph.operations, plan.spec.iterations
    graphs = [plan.graph(iteration) for iteration in range(plan.period)]
    alone_s = np.array([[*_alone(each.routed, network), 0.0] for each in graphs])[:, made.sends]
    sent = np.array([[*(demand.nbytes > 0 for demand in each.routed), 0.0]
                     for each in graphs])[:, made.sends]
    compute_s = np.stack([each.operations.compute_s for each in graphs])
    paths = longest_path(made, compute_s + alone_s, iterations)
    coflows = longest_path(made, sent, iterations)  # on the way to an end
    for iteration, (after_s, count) in enumerate(zip(paths, coflows, strict=True)):
        at = iteration % len(graphs)
        alone, sends = alone_s[at], sent[at] > 0
        ends = plan.spec.arrival_s + after_s
        starts_then = (count == sends) & graph.in_order
        columns = ends - alone, ends, starts_then, starts_then & ~sends
        spans = [_Span(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
        yield _IterationBounds(graphs[at], spans, alone.tolist())


def _earliest(graph: StageGraph, least: Sequence[float], before: _Span, arrival: float
              ) -> list[_Span]:
    """Find the span of each stage of an iteration that follows `before`.

    `least` has the least time of each stage after its computation, in seconds.
    """
    spans = [before] * len(graph.stages)
    for k in graph.dag.sequence:
        stage, demand = graph.stages[k], graph.demands[k]
        sends = demand is not None and demand.nbytes > 0
        parents = [spans[parent] for parent in graph.dag.after[k]] or [before]
        holders = [spans[holder] for holder in graph.dag.finishes_before[k]]
        start = max(max(parent.end for parent in parents), arrival + stage.release_s)
        start += stage.compute_s
        known = all(parent.ends_then for parent in parents)
        spans[k] = _Span(
            start, max(start + least[k], *(holder.end for holder in holders), start), known,
            known and not sends and all(holder.ends_then for holder in holders))
    return spans


# --- bounds --------------------------------------------------------------------------------

#: Names of the bounds, in order of the time to compute them.
BOUNDS = ("isolation", "single-link", "bssi", "lp")


@dataclass(frozen=True)
class LowerBounds:
    """Lower bounds for any policy on one network and workload.

    Attributes
    ----------
    coflows : DataFrame
        One row per coflow: coflow, job, iteration, stage, valid_s and finish_s (the earliest
        possible instants, with every coflow alone on the network), gamma_s (the least possible
        CCT, overhead and latency included), weight.
    totals : DataFrame
        One row per bound, by name, with lower bounds on

        finish_s, weighted_finish_s
            The sum of all finish times from time 0, without and with weights.
        cct_mean_s
            The mean CCT.

        Entries are NaN if a bound does not apply. Unless all weights are equal, ``"single-link"``
        bounds only the unweighted sum; ``"bssi"`` and ``"lp"`` bound only the weighted sum. If
        coflows wait for others, only ``"isolation"`` bounds CCTs, because a CCT counts from the
        time at which the coflow becomes valid.
    """

    coflows: pd.DataFrame
    totals: pd.DataFrame

    __repr__ = brief


@known_names
def lower_bounds(network: Topology | str | Path, workload: Workload | str | Path, *,
                 which: Sequence[str] = BOUNDS[:-1], seed: int = 0) -> LowerBounds:
    """Compute lower bounds on the completion times of all coflows of a workload.

    The bounds hold for every policy, at the network's original capacities. Precedence is replaced
    by release times: a coflow that follows others is taken to become valid at the earliest possible
    instant, as if each of its predecessors had had the network to itself.

    Parameters
    ----------
    network, workload, seed
        As for `netsim.simulate`.
    which : sequence of str
        Names of bounds, by default all but ``"lp"``:

        ``"isolation"``
            Every coflow has the network to itself.
        ``"single-link"``
            Coflows on one link are served by shortest remaining time first, which is optimal
            for a single machine; all other coflows have the network to themselves. The bound is
            the largest result over all links.
        ``"bssi"``
            The dual of Sincronia's ordering (Agarwal et al., SIGCOMM'18). It takes all coflows
            to be valid at time 0, so it is loose, and can even be below the isolation bound, if
            coflows become valid much later. The time to compute it is quadratic in the number of
            coflows: 2 s on one core for 16,000 coflows of one flow each. If this is too long, leave
            it out of `which`.
        ``"lp"``
            The linear programme of concurrent open shops: no coflow finishes earlier than if it
            were alone, and no set of coflows finishes on a link before the link can have carried
            all its bytes. It is never below ``"bssi"`` and ``"isolation"``, but takes minutes for a
            few hundred wide coflows.
            Needs the extra ``ilp`` (SciPy).

    Returns
    -------
    LowerBounds

    Raises
    ------
    UnknownNameError
        If there is no such bound.
    MissingExtraError
        If SciPy is needed and not installed.
    InputError
        If the network or the workload cannot be read, a job does not fit, or there are no coflows.

    Warns
    -----
    NetsimWarning
        If ``"lp"`` was stopped early. The result is then a lower bound, but not the LP's optimum.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, 1e6)
    >>> jobs = netsim.Workload([netsim.JobSpec(job, hosts=(0, 1), stages=[
    ...     netsim.Stage("c", [(0, 1, size)])]) for job, size in enumerate([1e6, 2e6])])
    >>> netsim.lower_bounds(net, jobs).totals
                 finish_s  weighted_finish_s  cct_mean_s
    isolation         3.0                3.0         1.5
    single-link       4.0                4.0         2.0
    bssi              4.0                4.0         2.0
    """
    for name in which:
        as_choice(name, "bound", BOUNDS, "which")
    if not isinstance(network, Topology):
        network = read_network(network)
    coflows = list(emitted(network, workload, seed))
    if not coflows:
        raise InputError("the workload has no coflows: its jobs only compute")
    instance = _Instance(coflows, network)
    totals = {name: instance.totals(name) for name in BOUNDS if name in which}
    frame = pd.DataFrame([(*each[:6], each.least_s, each.weight) for each in coflows],
                         columns=["coflow", "job", "iteration", "stage", "valid_s", "finish_s",
                                  "gamma_s", "weight"])
    return LowerBounds(frame, pd.DataFrame.from_dict(totals, orient="index", columns=[
        "finish_s", "weighted_finish_s", "cct_mean_s"]))


class _Instance:
    """The coflows of a workload as arrays, with a method for each bound."""

    def __init__(self, coflows: Sequence[Emitted], network: Topology) -> None:
        self._coflows, self._network = coflows, network
        self._valid, self._finish, self._weight, self._least = np.array(
            [(each.valid_s, each.finish_s, each.weight, each.least_s) for each in coflows]).T
        self._fixed = all(each.fixed for each in coflows)

    def totals(self, name: str) -> tuple[float, float, float]:
        """Compute a bound on the sum of finish times, on the weighted sum, and on the mean CCT."""
        if name == "isolation":
            return (float(self._finish.sum()), float(self._weight @ self._finish),
                    float(self._least.mean()))
        weight = self._weight[0] if (self._weight == self._weight[0]).all() else np.nan
        if name == "single-link":
            finish = self._single_link()
            weighted = finish * weight
        else:
            weighted = self._bssi() if name == "bssi" else self._lp()
            finish = weighted / weight
        cct = (finish - self._valid.sum()) / len(self._valid) if self._fixed else np.nan
        return float(finish), float(weighted), float(cct)

    def _loads(self) -> tuple[Ints, Ints, Floats]:
        """The loads of links as arrays: coflow, link, and seconds at full capacity."""
        loads = [each.demand.loads for each in self._coflows]
        owner = np.repeat(np.arange(len(loads)), [len(rows) for rows in loads])
        rows = np.concatenate(loads)
        return owner, rows["link"], rows["nbytes"] / self._network.usable[rows["link"]]

    def _single_link(self) -> float:
        """The largest bound of a single link on the sum of finish times."""
        owner, links, seconds = self._loads()
        most = alone = self._finish.sum()
        for link in np.unique(links):
            on = links == link
            mine = owner[on]
            total = srpt_total(self._valid[mine], seconds[on])
            most = max(most, total + alone - self._finish[mine].sum())
        return float(most)

    def _bssi(self) -> float:
        """The dual bound; coflows without bytes count with their earliest finish."""
        table = FlowTable(self._network.usable, np.zeros(1))
        for key, each in enumerate(self._coflows):
            if each.demand.nbytes:
                table.add(each.demand, 0, 0.0, key)
        empty = np.array([each.demand.nbytes == 0 for each in self._coflows])
        rest = float(self._weight[empty] @ self._finish[empty])
        if not len(table.coflows):
            return rest
        return rest + FabricView(table, 0.0, "clairvoyant", Event(0)).bssi()[1]

    def _lp(self) -> float:
        """The bound of the linear programme on the weighted sum of finish times."""
        from netsim.allocators.lp_order import ordering

        return ordering(self._finish, self._weight, *self._loads()).bound


def srpt_total(valid: Floats, seconds: Floats) -> float:
    """Sum the finish times on one machine that serves the shortest remaining time first.

    This is the least possible sum if jobs may be preempted (Schrage, 1968). `valid` and `seconds`
    are the release time and the processing time of each job, in seconds.
    """
    order = np.argsort(valid, kind="stable")
    arrivals = [*zip(valid[order].tolist(), seconds[order].tolist(), strict=True), (np.inf, 0.0)]
    waiting: list[float] = []
    now = total = 0.0
    for arrival, length in arrivals:
        while waiting and now + waiting[0] <= arrival:
            now += heapq.heappop(waiting)
            total += now
        if waiting:
            heapq.heapreplace(waiting, waiting[0] - (arrival - now))
        now = arrival
        heapq.heappush(waiting, length)
    return total
