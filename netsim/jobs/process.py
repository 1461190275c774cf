"""The process that runs a job on the fabric, from event to event: its stages, or its operations.

Both arrive, are stopped, resumed and rerouted, and report what they send in the same way, that of
`JobProcess`. They differ within iterations. Iterations of stages follow each other; a stage can be
paused, and be held by others. Iterations of operations overlap, and computations take turns.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import simpy
from netsim.fabric.clock import DECISIONS, CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import OperationGraph, OperationLists, Progress, StageGraph
from netsim.jobs.plan import JobPlan, has_operations
from netsim.network import Topology
from netsim.workload import JobSpec, Operations, Stage

#: An iteration, and a stage or an operation of it.
_At = tuple[int, int]


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
    """Records the progress of jobs; see `netsim.results.recorder.Recorder`."""

    def coflow_begun(self, job: JobProcess, iteration: int, stage: int) -> None: ...
    def coflow_ended(self, job: JobProcess, done: CompletedCoflow) -> None: ...
    def coflow_finished(self, job: JobProcess, done: CompletedCoflow) -> None: ...
    def coflow_dropped(self, job: int, iteration: int, stage: str, transfer: CoflowEvent,
                       nbytes: float, why: str) -> None: ...
    def computed(self, job: JobProcess, operations: Operations, iteration: int, operation: int,
                 start: float, end: float) -> None: ...
    def job_finished(self, job: int, finish: float) -> None: ...
    def operations_begun(self, operations: Operations) -> Any: ...
    def graph_begun(self, job: int, graph: StageGraph | OperationGraph) -> None: ...


class _Resumed(NamedTuple):
    """The state of a job when it last began or resumed."""

    at_s: float
    iteration: int
    progress: Progress | None
    completed: int
    kept_bytes: float
    kept_on_wire: float


class JobProcess(ABC):
    """Runs a job, iteration by iteration, once `arrive` has been called; see `process_of`.

    A job whose stages form a chain, or whose operations need not take turns, is handed over to the
    fabric, which runs it by itself; this process then only knows the job's lower bound. The job is
    not handed over if another process waits for its end or may stop or reroute it (`waited_for`),
    or if an allocator sees which jobs run.

    `index` is the job's position in order of (arrival, id). If `may_run` returns False for its
    hosts, the job waits for `resume`. With `may_go_back`, it may lose iterations that it has made
    since it last began or resumed; their coflows are recorded once they can no longer be lost.
    """

    plan: JobPlan  #: only while the job runs, as `graph`
    graph: Any  #: of the current iteration: a `StageGraph` or an `OperationGraph`
    ended: Callable[[int], None] | None = None  #: called with `index` when the job has ended
    #: Of the stages of the current iteration, which may be paused; None for operations.
    _progress: Progress | None = None

    def __init__(self, env: simpy.Environment, fabric: FabricProcess, index: int, arrival_s: float,
                 recorder: JobRecorder, waited_for: bool = False,
                 may_run: Callable[[Ints], bool] | None = None,
                 may_go_back: bool = False, predicted: float = 0.0) -> None:
        self.index, self.arrival_s = index, arrival_s
        self.start_s = math.nan  # when it first sent a byte
        self.finish_s = arrival_s  # the exact end of what has been completed so far
        self.iteration = 0  # after the end, the number of iterations
        self.done = False
        self.lower_bound_s = math.nan  # of the JCT; after a move, the least on all hosts so far
        self.running = False  # whether it has arrived, is not done, and is not stopped
        # The work of repeated iterations; `lost_bytes` are on the wire.
        self.restarts, self.lost_s, self.lost_bytes = 0, 0.0, 0.0
        # What was sent before the job was stopped, and not again; without headers and with them.
        self.kept_bytes = self.kept_on_wire = 0.0
        self._env, self._fabric, self._recorder = env, fabric, recorder
        self._waited_for = waited_for or fabric.allocator.sees_running
        self._may_run, self._may_go_back = may_run, may_go_back
        self._predicted = predicted  # the number of iterations; 0 if there is no prediction
        self._attempt, self._began_s = 0, math.nan
        self._made, self._made_s = 0, 0.0
        self._resumed = _Resumed(math.nan, 0, None, 0, 0.0, 0.0)
        self._in_flight: dict[CoflowEvent, _At] = {}
        self._completed: list[CompletedCoflow] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> JobProcess:
        """Copy the process, unless nothing more will happen to it."""
        if self.over:
            return self
        other = memo[id(self)] = copy(self)
        other.__dict__.update(deepcopy(self.__dict__, memo))
        return other

    @property
    def over(self) -> bool:
        """Whether the process has nothing left to do: the job has ended, or the fabric runs it."""
        return not hasattr(self, "_env")

    def _leave(self) -> None:
        """Drop references to the run, so that no copy of this process keeps it in memory."""
        del self.plan, self._env, self._fabric, self._recorder, self._may_run
        self.ended = None

    def arrive(self, plan: JobPlan, _: simpy.Event | None = None) -> None:
        """Start the job now, unless it has to wait for its hosts."""
        self.plan = plan
        self.lower_bound_s = self.plan.lower_bound()
        if self._may_run is not None and not self._may_run(self.hosts):
            return
        if not (self._waited_for or self.plan.spec.redraw or self.plan.period > 1) and (
                graph := self.plan.graph(0)).runs_without_process():
            self._announce()
            self._recorder.graph_begun(self.index, graph)
            self._fabric.run_graph(
                self.index, graph.routed, graph.steps, self.plan.spec.iterations,
                max(self.arrival_s + graph.release_s - self._env.now, 0.0))
            self._leave()
        else:
            self._begin()

    def _announce(self) -> None:
        """Tell the fabric what remains of the job, and what is predicted of it.

        Without random draws, what remains is told under any allocator, because a job-clairvoyant
        one may take over later.
        """
        row = self._fabric.table.jobs[self.index]
        if self._fabric.allocator.information == "job-clairvoyant" or not self.plan.spec.redraw:
            ahead_s = row["ahead"] = self.plan.communication_s(self.iteration)
            if ahead_s > 0:
                part = 1 - self.iteration / self.plan.spec.iterations
                row["per_gamma"] = part * self.plan.alone_s() / ahead_s
            self._fabric.table.profiles[self.index] = self.plan.profile(
                self.iteration, max(int(row["gpus"]), 1))
        if self._predicted:
            row["predicted"] = self.plan.predicted_s(self._predicted, self.iteration)

    def _begin(self) -> float:
        """Start the current iteration from its beginning, or continue it where it was paused.

        Return the seconds of it that were spent before and are lost now.
        """
        self._announce()
        if self._fabric.allocator.sees_running:
            self._fabric.running.begin(self.index, self.hosts)
        self.running = True
        progress, now, lost_s = self._progress, self._env.now, 0.0
        if progress is not None and self.plan.graph(self.iteration).dag != progress.graph.dag:
            self._lose(back=False)
            lost_s, progress = progress.spent_s, None
        self._tell_before(self.iteration)
        self._resumed = _Resumed(now, self.iteration, copy(progress), len(self._completed),
                                 self.kept_bytes, self.kept_on_wire)
        self._began_s = now
        self._begin_iteration(progress)
        return lost_s

    @abstractmethod
    def _begin_iteration(self, paused: Progress | None = None) -> None:
        """Begin, or repeat, the first iteration that is not complete; or go on with a paused one.

        Only iterations of stages can be paused.
        """

    # --- coflows --------------------------------------------------------------------------

    def _send(self, at: _At, demand: RoutedCoflow) -> None:
        transfer = self._fabric.submit(self.index, demand, self.graph.order_of(*at), self._sent)
        self._in_flight[transfer] = at
        self._recorder.coflow_begun(self, *at)

    def _sent(self, transfer: CoflowEvent) -> None:
        at = self._in_flight.pop(transfer, None)
        if at is None:
            return  # a coflow without bytes of an iteration that was stopped at this instant
        if not self.start_s <= transfer.start_s:
            self.start_s = transfer.start_s
        self._arrived(at, transfer)

    @abstractmethod
    def _arrived(self, at: _At, transfer: CoflowEvent) -> None:
        """Continue after a coflow."""

    def _complete(self, done: CompletedCoflow) -> None:
        """Note a coflow that is complete, though it may have to be repeated."""
        self._completed.append(done)
        self._recorder.coflow_ended(self, done)

    def tell(self) -> None:
        """Record all coflows completed so far; none of them will be repeated."""
        self._tell_before(math.inf)

    def _tell_before(self, iteration: float) -> None:
        """Record the coflows of the iterations before the given one."""
        for done in self._completed:
            if done.iteration < iteration:
                self._recorder.coflow_finished(self, done)
        self._completed = [done for done in self._completed if done.iteration >= iteration]

    def _end_iteration(self) -> None:
        """Count an iteration that is complete; end the job after the last one."""
        if not self._may_go_back:
            self._tell_before(self.iteration + 1)
        self._made += 1
        self._made_s += self.in_iteration_s
        if self._progress is not None:
            self.kept_bytes += self._progress.sent_bytes
            self.kept_on_wire += self._progress.sent_on_wire
        self._began_s = self._env.now
        self.iteration += 1
        if self.iteration == self.plan.spec.iterations:
            self._finish()

    def _finish(self) -> None:
        self.tell()
        self.done, self.running = True, False
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)
        self._recorder.job_finished(self.index, self.finish_s)
        if self.ended is not None:
            self.ended(self.index)
        self._leave()
        del self.graph, self._resumed
        self._progress = None

    # --- how far the job is ----------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the job has arrived and waits for `resume`."""
        return not self.over and hasattr(self, "plan") and not self.running

    def stuck(self) -> list[str]:
        """Describe which ranks wait for each other in a circle, if any do."""
        return []

    def place_of(self, transfer: CoflowEvent) -> tuple[int, int]:
        """Return the iteration, and the stage or operation, whose coflow is in flight."""
        return self._in_flight[transfer]

    @property
    def hosts(self) -> Ints:
        """The hosts of the job's ranks; available while it runs or waits."""
        return self.plan.hosts[:self.plan.spec.ranks]

    @property
    def in_iteration_s(self) -> float:
        """Seconds spent in the current iteration, without those in which the job was stopped."""
        spent = 0.0 if self._progress is None else self._progress.spent_s
        return spent + (self._env.now - self._began_s if self.running else 0.0)

    @property
    def mean_iteration_s(self) -> float:
        """Mean time of the iterations made so far, in seconds; NaN before the first one ends."""
        return self._made_s / self._made if self._made else math.nan

    @property
    def next_order(self) -> int:
        """The place of the current iteration's first coflow among those of the job."""
        return self.iteration * len(self.graph.stages)

    # --- faults of hosts and links --------------------------------------------------------

    def stop(self, back: bool = False) -> float:
        """Stop the job and discard its progress in incomplete iterations, which `resume` repeats.

        Coflows whose end has not been observed yet are discarded as well. With `back`, the job goes
        back to where it began or was last resumed. Return the seconds that are lost.
        """
        lost_s = self._env.now - (self._resumed.at_s if back else self._began_s)
        self._lose(back=back, sent=sum(self._withdraw(each)[1] for each in self._in_flight))
        self.lost_s += lost_s
        self.restarts += 1
        self._halt()
        return lost_s

    def go_back(self) -> None:
        """Go back to where the job began or was last resumed, after it was stopped."""
        self._lose(back=True)

    @property
    def _parts(self) -> float:
        """Bytes on the wire of coflows that pauses have cut, as far as these count."""
        return self.kept_on_wire + (0.0 if self._progress is None else self._progress.sent_on_wire)

    def _lose(self, *, back: bool, sent: float = 0.0) -> None:
        """Return to the beginning of the current iteration, or to where the job last resumed.

        Coflows that have ended since then will be sent again, also those of stages that others
        hold, and so will the parts of others that were sent before a pause. `sent` are the bytes of
        coflows that are withdrawn now.
        """
        completed, resumed, progress, parts = (
            self._completed, self._resumed, self._progress, self._parts)
        if back:
            kept, lost = completed[:resumed.completed], completed[resumed.completed:]
        else:
            kept = [done for done in completed if done.iteration < self.iteration]
            lost = [done for done in completed if done.iteration >= self.iteration]
        again = [(done.iteration, done.stages[done.stage], done.transfer) for done in lost]
        if progress is not None:
            again += [(self.iteration, progress.graph.stages[stage], transfer)
                      for stage, (transfer, _) in progress.held.items() if transfer is not None]
        self._completed, self._progress = kept, None
        if back:
            self.iteration, self._progress = resumed.iteration, copy(resumed.progress)
            self.kept_bytes, self.kept_on_wire = resumed.kept_bytes, resumed.kept_on_wire
        if self._progress is not None:
            still = {transfer for transfer, _ in self._progress.held.values()}
            again = [each for each in again if each[2] not in still]
        for iteration, stage, transfer in again:
            self._recorder.coflow_dropped(self.index, iteration, stage.name, transfer,
                                          transfer.demand.payload, "repeated")
        self.lost_bytes += (sent + sum(transfer.demand.nbytes for _, _, transfer in again)
                            + (parts - self._parts))

    def _withdraw(self, transfer: CoflowEvent) -> tuple[Floats, float]:
        """Withdraw a coflow in flight; return the bytes left of its flows, and those sent."""
        if not len(transfer.demand.flows):
            return np.zeros(0), 0.0
        left = self._fabric.withdraw(transfer)
        self.start_s = float(np.fmin(self.start_s, transfer.start_s))
        sent = max(transfer.demand.nbytes - float(left.sum()), 0.0)
        iteration, stage = self._in_flight[transfer]
        self._recorder.coflow_dropped(
            self.index, iteration, self.graph.stages[stage].name, transfer,
            sent * transfer.demand.payload / transfer.demand.nbytes, "withdrawn")
        return left, sent

    def _halt(self) -> None:
        self.running = False
        self._attempt += 1
        self._in_flight = {}
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)

    def resume(self, plan: JobPlan | None = None) -> float:
        """Continue where the job was paused, or repeat the iteration if it was stopped.

        A job that has moved to other hosts gets its `plan` there; if its stages differ from those
        before, a paused job repeats the iteration as well. Return the seconds that this costs.
        """
        if plan is not None:
            self.plan = plan
            self.lower_bound_s = min(self.lower_bound_s, plan.lower_bound())
        return self._begin()

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
        demands = ((transfer, self.graph.demands[k])
                   for transfer, (_, k) in self._in_flight.items())
        return {transfer: demand for transfer, demand in demands
                if demand is not None
                and not np.array_equal(demand.hops["link"], transfer.demand.hops["link"])}


class StageProcess(JobProcess):
    """Runs a job stage by stage: each iteration begins when all stages of the previous one end."""

    _progress: Progress

    def _begin_iteration(self, paused: Progress | None = None) -> None:
        """Start the stages that have no parents, or continue all that were paused."""
        if paused is not None:
            self._go_on(paused)
            return
        self.graph = self.plan.graph(self.iteration)
        dag = self.graph.dag
        self._progress = Progress.of(self.graph)
        for stage, parents in enumerate(dag.after):
            if not parents:
                self._start(stage)

    def _start(self, stage: int) -> None:
        """Wait for the stage's release and its computation, then send its coflow."""
        spec = self.graph.stages[stage]
        wait = max(self.arrival_s + spec.release_s - self._env.now, 0.0) + spec.compute_s
        demand = self.graph.demands[stage]
        if wait > 0 or demand is None:
            self._compute(stage, wait)
        else:
            self._send((self.iteration, stage), demand)

    def _compute(self, stage: int, wait: float) -> None:
        self._progress.computing[stage] = self._env.now + wait
        self._env.timeout(wait).callbacks.append(partial(self._computed, stage, self._attempt))

    def _computed(self, stage: int, attempt: int, _: simpy.Event) -> None:
        if attempt != self._attempt:
            return
        del self._progress.computing[stage]
        demand = self.graph.demands[stage]
        if demand is None:
            self._ready(stage, None, self._env.now)
        else:
            self._send((self.iteration, stage), demand)

    def _arrived(self, at: _At, transfer: CoflowEvent) -> None:
        self._ready(at[1], transfer, transfer.finish_s)

    def _ready(self, stage: int, transfer: CoflowEvent | None, finish: float) -> None:
        """Complete a stage whose own work ended at `finish`, unless another stage holds it.

        Stages that only this one held are completed as well, and so on. This is a loop, because
        chains of such stages may be too long for recursion.
        """
        progress = self._progress
        progress.held[stage] = transfer, finish
        ready = [] if progress.holders[stage] else [stage]
        for each in ready:  # the list grows in the loop
            ready += self._end_stage(progress, each, *progress.held.pop(each))
        if not progress.left:
            self._end_iteration()
            if not self.done:
                self._begin_iteration()

    def _end_stage(self, progress: Progress, stage: int, transfer: CoflowEvent | None,
                   finish: float) -> list[int]:
        """Complete a stage; return the finished stages that only this one still held."""
        finish = max(finish, progress.held_until[stage])
        if transfer is not None:
            self._complete(CompletedCoflow(self.iteration, self.graph.stages, stage, transfer,
                                           finish))
        self.finish_s = max(self.finish_s, finish)
        progress.left -= 1
        for child in self.graph.dag.children[stage]:
            progress.blockers[child] -= 1
            if not progress.blockers[child]:
                self._start(child)
        released = []
        for other in self.graph.dag.held[stage]:
            progress.holders[other] -= 1
            progress.held_until[other] = max(progress.held_until[other], finish)
            if not progress.holders[other] and other in progress.held:
                released.append(other)
        return released

    def pause(self) -> None:
        """Stop the job so that `resume` continues within the current iteration.

        Stages that are done stay done. The others continue with the bytes left of their flows, or
        the seconds left of their computation.
        """
        progress, now = self._progress, self._env.now
        progress.spent_s = self.in_iteration_s
        progress.paused = {stage: max(until - now, 0.0)
                           for stage, until in progress.computing.items()}
        progress.computing = {}
        for transfer, (_, stage) in self._in_flight.items():
            left, sent = self._withdraw(transfer)
            demand = transfer.demand
            progress.paused[stage] = left, demand.nbytes
            progress.sent_bytes += sent * (demand.payload / demand.nbytes if demand.nbytes else 0.0)
            progress.sent_on_wire += sent
        self._halt()

    def _go_on(self, progress: Progress) -> None:
        """Continue the current iteration where it was paused."""
        before, self.graph = progress.graph, self.plan.graph(self.iteration)
        self._progress, progress.graph = progress, self.graph
        paused, progress.paused = progress.paused, {}
        for stage, left in paused.items():
            if isinstance(left, float):
                self._compute(stage, left)
            elif (demand := self.graph.demands[stage]) is not None:
                self._send((self.iteration, stage),
                           demand.with_left(*left, self.plan.network.usable))
            else:  # it sends inside a server now, for which its computation takes longer
                more_s = self.graph.stages[stage].compute_s - before.stages[stage].compute_s
                nbytes, of_bytes = left
                share = float(nbytes.sum()) / of_bytes if of_bytes else 0.0
                self._compute(stage, max(more_s, 0.0) * share)


class OperationProcess(JobProcess):
    """Runs a job operation by operation; see `netsim.operations.Operations`.

    An operation begins when all that it waits for is complete; a computation also waits for its
    turn on its rank's stream.
    """

    _lists: OperationLists
    _left: dict[int, int]  #: by iteration: how many operations are not complete
    _blockers: dict[int, list[int]]  #: and for how many others each one waits
    _ready_now: deque[_At]
    #: For each busy stream: since when it computes, the iteration and the operation.
    _busy: dict[int, tuple[float, int, int]]
    _due: set[int]  #: streams that may begin their next computation at the end of this instant
    #: For each stream, a heap of (earliest begin, iteration, operation). If computations run in
    #: list order whatever their earliest begin, the first entry is 0.
    _waiting: dict[int, list[tuple[float, int, int]]]

    def _begin_iteration(self, paused: Progress | None = None) -> None:
        """Begin, or repeat, the first iteration that is not complete, and those that overlap it."""
        self.graph = self.plan.graph(self.iteration)
        self._lists = self.graph.lists
        self._recorder.operations_begun(self.graph.operations)
        self._busy, self._due, self._waiting, self._left, self._blockers = {}, set(), {}, {}, {}
        blockers = self._open(self.iteration, self._lists.blockers_first)
        self._ready_now = deque(
            (self.iteration, k) for k, count in enumerate(blockers) if not count)
        self._go_through()

    def _open(self, iteration: int, blockers: list[int]) -> list[int]:
        """Make the state of an iteration before its first operation begins."""
        self._left[iteration] = len(blockers)
        self._blockers[iteration] = blockers.copy()
        return self._blockers[iteration]

    def _go_through(self) -> None:
        """Start all operations that can begin now, and those that follow from their completion."""
        begun: dict[float, list[_At]] = {}
        while self._ready_now:
            at = self._ready_now.popleft()
            turn = self._lists.turn[at[1]]
            if turn < 0 or self._lists.in_order:
                self._start_at(at, begun)
            else:
                since_s = 0.0 if self.graph.operations.turns == "number" else self._env.now
                heappush(self._waiting.setdefault(turn, []), (since_s, *at))
                self._ask_for_turn(turn)
        self._end_together(begun)

    def _ask_for_turn(self, turn: int) -> None:
        """Give a stream to its next computation after all events of this instant."""
        if not self._due:
            call_at(self._env, self._env.now, partial(self._give_turns, self._attempt), DECISIONS)
        self._due.add(turn)

    def _give_turns(self, attempt: int, _: Any) -> None:
        if attempt != self._attempt:
            return
        due = sorted(self._due)
        begun: dict[float, list[_At]] = {}
        self._due.clear()
        for turn in due:
            waiting = self._waiting.get(turn)
            if waiting and turn not in self._busy:
                _, iteration, k = heappop(waiting)
                self._busy[turn] = self._env.now, iteration, k
                self._start_at((iteration, k), begun)
        self._end_together(begun)
        self._go_through()

    def _end_together(self, begun: dict[float, list[_At]]) -> None:
        """Wait for the ends of computations that have begun, grouped by their duration."""
        for seconds, operations in begun.items():
            call_at(self._env, self._env.now + seconds,
                    partial(self._computed_all, operations, self._env.now, self._attempt))

    def _start_at(self, at: _At, begun: dict[float, list[_At]]) -> None:
        """Start an operation; a computation joins those with the same duration."""
        seconds = float(self.plan.graph(at[0]).operations.compute_s[at[1]])
        if seconds:
            begun.setdefault(seconds, []).append(at)
        else:
            self._computed_one(at, self._env.now)

    def _computed_all(self, operations: list[_At], begun_s: float, attempt: int, _: Any) -> None:
        """Continue after computations that ended at the same time."""
        if attempt != self._attempt:
            return
        for at in operations:
            self._computed_one(at, begun_s)
        self._go_through()

    def _computed_one(self, at: _At, begun_s: float) -> None:
        """Continue after a computation: give its stream to the next one, and send its coflow."""
        k = at[1]
        sends = self._lists.sends[k]
        if self._lists.turn[k] >= 0 and k not in self._lists.held:
            self._end_turn(at, begun_s)
        if sends < 0:
            self._completed_one(at, self._env.now)
        else:
            self._send(at, self.plan.graph(at[0]).routed[sends])

    def _end_turn(self, at: _At, begun_s: float) -> None:
        """Record a computation, and give its stream to the next one."""
        iteration, k = at
        self._recorder.computed(self, self.graph.operations, iteration, k, begun_s, self._env.now)
        if not self._lists.in_order:
            del self._busy[self._lists.turn[k]]
            self._ask_for_turn(self._lists.turn[k])

    def _arrived(self, at: _At, transfer: CoflowEvent) -> None:
        (iteration, k), graph = at, self.graph
        self._complete(CompletedCoflow(iteration, graph.stages, graph.places[k], transfer,
                                       transfer.finish_s, graph.copies[k]))
        self._completed_one(at, transfer.finish_s)
        self._go_through()

    def _completed_one(self, at: _At, finish_s: float) -> None:
        """Complete an operation: others no longer wait for it."""
        iteration, k = at
        self.finish_s = max(self.finish_s, finish_s)
        for held in self._lists.holders.get(k, ()):
            self._end_turn((iteration, held), self._busy[self._lists.turn[held]][0])
        self._unblock(iteration, self._lists.children[k])
        if self._lists.children_next[k] and iteration + 1 < self.plan.spec.iterations:
            if iteration + 1 not in self._left:
                self._open(iteration + 1, self._lists.blockers)
            self._unblock(iteration + 1, self._lists.children_next[k])
        self._left[iteration] -= 1
        while self._left.get(self.iteration) == 0:
            del self._left[self.iteration], self._blockers[self.iteration]
            self._end_iteration()

    def _unblock(self, iteration: int, operations: Iterable[int]) -> None:
        blockers = self._blockers[iteration]
        for k in operations:
            blockers[k] -= 1
            if not blockers[k]:
                self._ready_now.append((iteration, k))

    def stuck(self) -> list[str]:
        """Describe the ranks that hold a stream while they wait for ranks that cannot get one."""
        if not self.running:
            return []
        made, said = self.graph.operations, list[str]()
        waiting = {(iteration, k) for heap in self._waiting.values()
                   for _, iteration, k in heap}
        for turn, (since_s, iteration, k) in sorted(self._busy.items()):
            until = k if made.until is None else made.until[k]
            first, last = made.after.first[until:until + 2]
            said += [f"rank {turn // len(made.streams)}: {made.name_of(k)!r} waits since "
                     f"{since_s:g} s for {made.name_of(other)!r} of rank {made.rank[other]}, whose "
                     "turn it is not" for other in made.after.others[first:last]
                     if (iteration, other) in waiting]
        return said


def process_of(job: JobSpec, *args: Any, **named: Any) -> JobProcess:
    """Make the process of a job; see `JobProcess`."""
    return (OperationProcess if has_operations(job) else StageProcess)(*args, **named)
