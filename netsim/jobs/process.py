"""The process that runs a job on the fabric, from event to event."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.base.lazy import simpy
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import Dag, OperationGraph, StageGraph
from netsim.jobs.plan import JobPlan
from netsim.network import Topology
from netsim.operations import Operations
from netsim.workload import Stage


class CompletedCoflow(NamedTuple):
    """A coflow of an iteration that will not be repeated: its stage, and its end in seconds.

    It represents `copies` equal coflows: those of this stage and of the stages that follow it.
    """

    iteration: int
    stages: Sequence[Stage]
    stage: int
    transfer: CoflowEvent
    finish: float
    copies: int = 1


class JobRecorder(Protocol):
    """Records the progress of jobs."""

    def coflow_finished(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Record the completion of a coflow."""

    def coflow_begun(self, job: JobProcess, iteration: int, stage: int) -> None:
        """Called when a coflow is submitted."""

    def coflow_ended(self, job: JobProcess, iteration: int, stage: int,
                     transfer: CoflowEvent | None) -> None:
        """Called when a stage completes; `coflow_finished` follows once it cannot be repeated."""

    def coflow_dropped(self, job: JobProcess, iteration: int, stage: Stage, transfer: CoflowEvent,
                       nbytes: float, why: str) -> None:
        """Record a coflow that is withdrawn, or has ended and will be sent again.

        `nbytes` are the bytes that it has sent, without headers; `why` is ``"withdrawn"`` or
        ``"repeated"``.
        """

    def computed(self, job: JobProcess, operations: Operations, iteration: int, operation: int,
                 start: float, end: float) -> None:
        """Record a computation on a rank."""

    def job_finished(self, job: JobProcess) -> None:
        """Record the completion of a job."""

    def operations_begun(self, operations: Operations) -> Any:
        """Called when a process begins to run a job of operations."""

    def graph_begun(self, job: int, graph: StageGraph | OperationGraph) -> None:
        """Record that the fabric runs a job by itself."""


@dataclass(slots=True)
class _Iteration:
    """The progress of the stages of an iteration."""

    left: int  #: the number of stages that have not completed
    blockers: list[int]  #: how many stages each stage waits for before it begins
    holders: list[int]  #: and before it completes
    #: The coflow and the end of stages whose own work is done, but which wait for others.
    held: dict[int, tuple[CoflowEvent | None, float]]
    held_until: list[float]  #: the latest end of the stages that held each stage
    #: For a stage that sent when the job was paused, the bytes left of each flow and the total
    #: bytes of all flows; for one that computed, the seconds left.
    paused: dict[int, tuple[NDArray[np.float64], float] | float] = field(default_factory=dict)
    spent_s: float = 0.0  #: in the iteration, when the job was paused
    sent_bytes: float = 0.0  #: by unfinished coflows when it was paused, without headers
    sent_on_wire: float = 0.0  #: and with headers

    @classmethod
    def of(cls, dag: Dag) -> _Iteration:
        """Make the state at the beginning of an iteration."""
        return cls(len(dag.after), list(map(len, dag.after)), list(map(len, dag.finishes_before)),
                   {}, [0.0] * len(dag.after))

    def copy(self) -> _Iteration:
        """Return an independent copy."""
        return _Iteration(self.left, self.blockers.copy(), self.holders.copy(), self.held.copy(),
                          self.held_until.copy(), self.paused.copy(), self.spent_s,
                          self.sent_bytes, self.sent_on_wire)


class _Resumed(NamedTuple):
    """The state of a job when it last began or resumed."""

    at_s: float
    iteration: int
    stages: _Iteration | None
    completed: int


class JobProcess:
    """Runs a job, iteration by iteration and stage by stage, once `arrive` has been called.

    A job whose stages form a chain, or whose operations need not take turns, is handed over to the
    fabric, which runs it by itself; this process then only knows the job's lower bound. The job is
    not handed over if another process waits for its end or may stop or reroute it (`waited_for`),
    or if an allocator sees which jobs run.

    `index` is the job's position in order of (arrival, id). If `may_run` returns False for its
    hosts, the job waits for `resume`. With `may_go_back`, it may lose iterations that it has made
    since it last began or resumed; their coflows are recorded once they can no longer be lost.
    """

    plan: JobPlan  #: only while the job runs, as `graph`
    graph: StageGraph  #: of the current iteration

    def __init__(self, env: simpy.Environment, fabric: FabricProcess, index: int, arrival_s: float,
                 recorder: JobRecorder, waited_for: bool = False,
                 may_run: Callable[[NDArray[np.int64]], bool] | None = None,
                 may_go_back: bool = False, predicted: float = 0.0) -> None:
        self.index = index
        self.arrival_s = arrival_s
        self.start_s = math.nan  # when it first sent a byte
        self.finish_s = arrival_s  # the exact end of the last stage completed so far
        self.iteration = 0  # after the end, the number of iterations
        self.done = False
        self.lower_bound_s = math.nan  # of the JCT; after a move, the least on all hosts so far
        self.running = False  # whether it has arrived, is not done, and is not stopped
        # The work of repeated iterations; `lost_bytes` are on the wire.
        self.restarts, self.lost_s, self.lost_bytes = 0, 0.0, 0.0
        # What was sent before the job was stopped, and not again; without headers and with them.
        self.kept_bytes = self.kept_on_wire = 0.0
        self._env = env
        self._fabric = fabric
        self._recorder = recorder
        self._waited_for = waited_for or fabric.allocator.sees_running
        self._may_run, self._may_go_back = may_run, may_go_back
        self._predicted = predicted  # the number of iterations; 0 if there is no prediction
        self._attempt, self._began_s = 0, math.nan
        self._made, self._made_s = 0, 0.0
        self._stages: _Iteration | None = None
        self._resumed = _Resumed(math.nan, 0, None, 0)
        self._sending: dict[int, CoflowEvent] = {}
        self._computing: dict[int, float] = {}
        self._completed: list[CompletedCoflow] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> JobProcess:
        """Copy the process, unless nothing more will happen to it."""
        if self.over:
            return self
        other = memo[id(self)] = copy(self)
        other.__dict__.update(deepcopy(self.__dict__, memo))
        return other

    def stuck(self) -> list[str]:
        """Describe which ranks wait for each other in a circle, if any do."""
        return []

    @property
    def over(self) -> bool:
        """Whether the process has nothing left to do: the job has ended, or the fabric runs it."""
        return not hasattr(self, "_env")

    def _leave(self) -> None:
        """Drop references to the run, so that no copy of this process keeps it in memory."""
        del self.plan, self._env, self._fabric, self._recorder, self._may_run

    def arrive(self, plan: JobPlan, _: simpy.Event | None = None) -> None:
        """Start the job now, unless it has to wait for its hosts."""
        self.plan = plan
        self.lower_bound_s = self.plan.lower_bound()
        if self._may_run is not None and not self._may_run(self.hosts):
            return
        if not (self._waited_for or self.plan.spec.redraw) and (
                graph := self.plan.graph(0)).runs_without_process():
            self._announce()
            self._hand_over(graph)
            self._leave()
        else:
            self._begin()

    def _hand_over(self, graph: StageGraph | OperationGraph) -> None:
        """Let the fabric run the job; this process does nothing afterwards."""
        self._recorder.graph_begun(self.index, graph)
        self._fabric.run_graph(self.index, graph.routed, graph.steps, self.plan.spec.iterations,
                               max(self.arrival_s + graph.release_s - self._env.now, 0.0))

    def _announce(self) -> None:
        """Tell the fabric what remains of the job, and what is predicted of it.

        Without random draws, what remains is told under any allocator, because a job-clairvoyant
        one may take over later.
        """
        row = self._fabric.table.jobs[self.index]
        if self._fabric.allocator.information == "job-clairvoyant" or not self.plan.spec.redraw:
            ahead_s = self.plan.communication_s(self.iteration)
            row["ahead"] = ahead_s
            if ahead_s > 0:
                part = 1 - self.iteration / self.plan.spec.iterations
                row["per_gamma"] = part * self.plan.alone_s() / ahead_s
        if self._predicted:
            row["predicted"] = self.plan.predicted_s(self._predicted, self.iteration)

    def _begin(self) -> None:
        """Start the current iteration from its beginning, or continue it where it was paused."""
        self._announce()
        if self._fabric.allocator.sees_running:
            self._fabric.running.begin(self.index, self.hosts)
        self.running = True
        stages, now = self._stages, self._env.now
        if stages is not None and self.plan.graph(self.iteration).dag != self.graph.dag:
            stages = None
        self._tell_before(self.iteration)
        self._resumed = _Resumed(now, self.iteration, None if stages is None else stages.copy(),
                                 len(self._completed))
        if stages is None:
            self._begin_iteration()
        else:
            self._go_on(stages)

    # --- faults of hosts and links --------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the job has arrived and waits for `resume`."""
        return not self.over and hasattr(self, "plan") and not self.running

    def place_of(self, transfer: CoflowEvent) -> tuple[int, int]:
        """Return the iteration and the stage whose coflow is in flight."""
        return self.iteration, next(stage for stage, each in self._sending.items()
                                    if each is transfer)

    @property
    def hosts(self) -> NDArray[np.int64]:
        """The hosts of the job's ranks; available while it runs or waits."""
        return self.plan.hosts[:self.plan.spec.ranks]

    @property
    def in_iteration_s(self) -> float:
        """Seconds spent in the current iteration, without those in which the job was stopped."""
        spent = 0.0 if self._stages is None else self._stages.spent_s
        return spent + (self._env.now - self._began_s if self.running else 0.0)

    @property
    def mean_iteration_s(self) -> float:
        """Mean time of the iterations made so far, in seconds; NaN before the first one ends."""
        return self._made_s / self._made if self._made else math.nan

    @property
    def next_order(self) -> int:
        """The place of the current iteration's first coflow among those of the job."""
        return self.iteration * len(self.graph.stages)

    def stop(self, back: bool = False) -> float:
        """Stop the job and discard its progress in the current iteration, which `resume` repeats.

        Coflows whose end has not been observed yet are discarded as well. With `back`, the job goes
        back to where it began or was last resumed. Return the seconds that are lost.
        """
        resumed, kept = self._resumed, self._resumed.completed if back else sum(
            done.iteration < self.iteration for done in self._completed)
        lost_s = self._env.now - (resumed.at_s if back else self._began_s)
        before = resumed.stages if back else None
        sent = sum(self._withdraw(transfer)[1] for transfer in self._sending.values())
        self._drop(self._completed[kept:])
        ended = [done.transfer for done in self._completed[kept:]]
        held = self._unfinished(self._stages) - self._unfinished(before)
        self._drop_held(held)
        ended += held
        self.lost_bytes += sent + sum(transfer.demand.nbytes for transfer in ended)
        self.lost_s += lost_s
        self.restarts += 1
        del self._completed[kept:]
        if back:
            self.iteration = resumed.iteration
        self._stages = None if before is None else before.copy()
        self._halt()
        return lost_s

    def go_back(self) -> None:
        """Go back to where the job began or was last resumed, after it was stopped."""
        resumed = self._resumed
        lost = self._completed[resumed.completed:]
        self._drop(lost)
        self.lost_bytes += sum(done.transfer.demand.nbytes for done in lost)
        del self._completed[resumed.completed:]
        self.iteration = resumed.iteration
        self._stages = None if resumed.stages is None else resumed.stages.copy()

    def pause(self) -> None:
        """Stop the job so that `resume` continues within the current iteration.

        Stages that are done stay done. The others continue with the bytes left of their flows, or
        the seconds left of their computation.
        """
        stages = self._stages
        assert stages is not None
        stages.spent_s = self.in_iteration_s
        for stage, until in self._computing.items():
            stages.paused[stage] = max(until - self._env.now, 0.0)
        for stage, transfer in self._sending.items():
            left, sent = self._withdraw(transfer)
            stages.paused[stage] = left, transfer.demand.nbytes
            demand = transfer.demand
            stages.sent_bytes += sent * (demand.payload / demand.nbytes if demand.nbytes else 0.0)
            stages.sent_on_wire += sent
        self._halt()

    def _drop(self, completed: Iterable[CompletedCoflow]) -> None:
        """Record coflows that have ended and will be sent again."""
        for done in completed:
            self._recorder.coflow_dropped(self, done.iteration, done.stages[done.stage],
                                          done.transfer, done.transfer.demand.payload, "repeated")

    def _drop_held(self, dropped: Collection[CoflowEvent]) -> None:
        """Record coflows that have ended, in stages that are held, and will be sent again."""
        held = {} if self._stages is None else self._stages.held
        for stage, (transfer, _) in held.items():
            if transfer is not None and transfer in dropped:
                self._recorder.coflow_dropped(self, self.iteration, self.graph.stages[stage],
                                              transfer, transfer.demand.payload, "repeated")

    def _withdraw(self, transfer: CoflowEvent) -> tuple[NDArray[np.float64], float]:
        """Withdraw a coflow in flight; return the bytes left of its flows, and those sent."""
        if not len(transfer.demand.flows):
            return np.zeros(0), 0.0
        left = self._fabric.withdraw(transfer)
        self.start_s = float(np.fmin(self.start_s, transfer.start_s))
        sent = max(transfer.demand.nbytes - float(left.sum()), 0.0)
        iteration, stage = self.place_of(transfer)
        self._recorder.coflow_dropped(self, iteration, self.graph.stages[stage], transfer,
                                      sent * transfer.demand.payload / transfer.demand.nbytes,
                                      "withdrawn")
        return left, sent

    def _halt(self) -> None:
        self.running = False
        self._attempt += 1
        self._sending, self._computing = {}, {}
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)

    def resume(self, plan: JobPlan | None = None) -> None:
        """Continue where the job was paused, or repeat the iteration if it was stopped.

        A job that has moved to other hosts gets its `plan` there; if its stages differ from those
        before, a paused job repeats the iteration as well.
        """
        if plan is not None:
            self.plan = plan
            self.lower_bound_s = min(self.lower_bound_s, plan.lower_bound())
        self._begin()

    def route_on(self, network: Topology) -> None:
        """Use the routes of another network with the same links from the next rerouting on."""
        if hasattr(self, "plan"):
            self.plan.network = network

    def rerouted(self) -> dict[CoflowEvent, RoutedCoflow]:
        """Recompute the routes; return the active coflows whose routes change, with new ones."""
        if not hasattr(self, "plan"):
            return {}
        self.plan.reroute()
        if not self.running:
            return {}
        self.graph = self.plan.graph(self.iteration)
        return self._on_new_routes((transfer, self.graph.demands[stage])
                                   for stage, transfer in self._sending.items())

    @staticmethod
    def _on_new_routes(demands: Iterable[tuple[CoflowEvent, RoutedCoflow | None]]
                       ) -> dict[CoflowEvent, RoutedCoflow]:
        """Return the coflows whose routes have changed."""
        return {transfer: demand for transfer, demand in demands
                if demand is not None
                and not np.array_equal(demand.hops["link"], transfer.demand.hops["link"])}

    # --- stages ---------------------------------------------------------------------------

    def _go_on(self, stages: _Iteration) -> None:
        """Continue the current iteration where it was paused."""
        before, self.graph = self.graph, self.plan.graph(self.iteration)
        self._began_s, self._stages = self._env.now, stages
        paused, stages.paused = stages.paused, {}
        for stage, left in paused.items():
            if isinstance(left, float):
                self._compute(stage, left)
            elif (demand := self.graph.demands[stage]) is not None:
                self._emit(stage, demand.with_left(*left, self.plan.network.usable))
            else:  # it sends inside a server now, for which its computation takes longer
                more_s = self.graph.stages[stage].compute_s - before.stages[stage].compute_s
                nbytes, of_bytes = left
                share = float(nbytes.sum()) / of_bytes if of_bytes else 0.0
                self._compute(stage, max(more_s, 0.0) * share)

    def _begin_iteration(self) -> None:
        """Begin the current iteration: start the stages that have no parents."""
        self.graph = self.plan.graph(self.iteration)
        self._began_s = self._env.now
        dag = self.graph.dag
        self._stages = _Iteration.of(dag)
        for stage, stages in enumerate(dag.after):
            if not stages:
                self._start(stage)

    def _start(self, stage: int) -> None:
        """Wait for the stage's release and its computation, then send its coflow."""
        spec = self.graph.stages[stage]
        wait = max(self.arrival_s + spec.release_s - self._env.now, 0.0) + spec.compute_s
        demand = self.graph.demands[stage]
        if wait > 0 or demand is None:
            self._compute(stage, wait)
        else:
            self._emit(stage, demand)

    def _compute(self, stage: int, wait: float) -> None:
        self._computing[stage] = self._env.now + wait
        self._env.timeout(wait).callbacks.append(partial(self._computed, stage, self._attempt))

    def _computed(self, stage: int, attempt: int, _: simpy.Event) -> None:
        if attempt != self._attempt:
            return
        del self._computing[stage]
        demand = self.graph.demands[stage]
        if demand is None:
            self._ready(stage, None, self._env.now)
        else:
            self._emit(stage, demand)

    def _emit(self, stage: int, demand: RoutedCoflow) -> None:
        order = self.iteration * len(self.graph.stages) + self.graph.dag.order[stage]
        self._sending[stage] = self._fabric.submit(self.index, demand, order,
                                                   partial(self._sent, stage))
        self._recorder.coflow_begun(self, self.iteration, stage)

    def _sent(self, stage: int, transfer: CoflowEvent) -> None:
        if self._sending.pop(stage, None) is not transfer:
            return  # a coflow without bytes of an iteration that was stopped at this instant
        if not self.start_s <= transfer.start_s:
            self.start_s = transfer.start_s
        self._ready(stage, transfer, transfer.finish_s)

    def _ready(self, stage: int, transfer: CoflowEvent | None, finish: float) -> None:
        """Complete a stage whose own work ended at `finish`, unless another stage holds it.

        Stages that only this one held are completed as well, and so on. This is a loop, because
        chains of such stages may be too long for recursion.
        """
        at = self._stages
        assert at is not None
        at.held[stage] = transfer, finish
        ready = [] if at.holders[stage] else [stage]
        for each in ready:  # the list grows in the loop
            ready += self._complete(at, each, *at.held.pop(each))
        if not at.left:
            self._end_iteration()

    def _complete(self, at: _Iteration, stage: int, transfer: CoflowEvent | None, finish: float
                  ) -> list[int]:
        """Complete a stage; return the finished stages that only this one still held."""
        finish = max(finish, at.held_until[stage])
        if transfer is not None:
            self._completed.append(CompletedCoflow(self.iteration, self.graph.stages, stage,
                                                   transfer, finish))
        self._recorder.coflow_ended(self, self.iteration, stage, transfer)
        self.finish_s = max(self.finish_s, finish)
        at.left -= 1
        for child in self.graph.dag.children[stage]:
            at.blockers[child] -= 1
            if not at.blockers[child]:
                self._start(child)
        released = []
        for other in self.graph.dag.held[stage]:
            at.holders[other] -= 1
            at.held_until[other] = max(at.held_until[other], finish)
            if not at.holders[other] and other in at.held:
                released.append(other)
        return released

    def tell(self) -> None:
        """Record all coflows completed so far; none of them will be repeated."""
        self._tell_before(math.inf)

    def _tell_before(self, iteration: float) -> None:
        """Record the coflows of the iterations before the given one."""
        completed, self._completed = self._completed, []
        for done in completed:
            if done.iteration < iteration:
                self._recorder.coflow_finished(self, done)
            else:
                self._completed.append(done)

    @staticmethod
    def _unfinished(stages: _Iteration | None) -> Counter[CoflowEvent]:
        """Count the coflows that have ended in an iteration, but whose stages are held."""
        held = () if stages is None else stages.held.values()
        return Counter(transfer for transfer, _ in held if transfer is not None)

    def _end_iteration(self) -> None:
        if not self._may_go_back:
            self._tell_before(self.iteration + 1)
        self._made += 1
        self._made_s += self.in_iteration_s
        if self._stages is not None:
            self.kept_bytes += self._stages.sent_bytes
            self.kept_on_wire += self._stages.sent_on_wire
        self.iteration += 1
        if self.iteration < self.plan.spec.iterations:
            self._begin_iteration()
        else:
            self._finish()

    def _finish(self) -> None:
        self.tell()
        self.done, self.running = True, False
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)
        self._recorder.job_finished(self)
        self._leave()
        del self.graph
