"""The process that runs a job on the fabric, from event to event."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import StageGraph
from netsim.jobs.plan import JobPlan
from netsim.workload import Stage

__all__ = ["JobProcess", "JobRecorder"]


class JobRecorder(Protocol):
    """Records the progress of jobs."""

    def coflow_finished(self, job: JobProcess, stage: int, transfer: CoflowEvent, finish: float
                        ) -> None:
        """Record the completion of a stage's coflow, at `finish` seconds."""

    def coflow_begun(self, job: JobProcess, stage: int) -> None:
        """Hear of a coflow that is submitted."""

    def coflow_ended(self, job: JobProcess, stage: int, transfer: CoflowEvent | None) -> None:
        """Hear of the completion of a stage at once; `coflow_finished` follows when it is final."""

    def job_finished(self, job: JobProcess) -> None:
        """Record the completion of a job."""

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Record that the fabric runs a job by itself.

        `stages` are in the order of the chain, and `places` are their positions in the job.
        """


class JobProcess:
    """Runs a job, iteration by iteration and stage by stage.

    A job whose stages form a chain is handed over to the fabric, which runs it by itself; this
    process then only knows its lower bound. This is not done if something depends on the end of the
    job, such as an allocator that sees which jobs run, as the fabric does not report when a job
    ends. Whoever makes the process calls `arrive` when it is time.

    Parameters
    ----------
    env : simpy.Environment
    fabric : FabricProcess
    index : int
        The job's position in order of (arrival, id).
    arrival_s : float
        The arrival time of the job.
    recorder : JobRecorder
    waited_for : bool
        Whether another process waits for the job's end, or may stop or reroute the job.
    may_run : callable, optional
        Called with the job's hosts on arrival; if it returns False, the job waits for `resume`.

    Attributes
    ----------
    arrival_s, finish_s : float
        Arrival, and the exact end of the last stage completed so far; seconds.
    start_s : float
        When the job first sent a byte; NaN before.
    iteration : int
        The current iteration, from 0; after the end, the number of iterations.
    done : bool
        Whether the job has completed.
    lower_bound_s : float
        The least possible JCT; NaN before the job arrives. After a move to other hosts, the least
        of the bounds on all hosts so far.
    running : bool
        Whether the job has arrived, is not done, and is not stopped.
    restarts : int
        Number of times that the job was stopped and had to repeat an iteration.
    lost_s, lost_bytes : float
        Seconds spent in iterations that were repeated, and bytes sent in them.
    plan, graph : JobPlan, StageGraph
        The job's plan, and the stages of the current iteration; only while the job runs.
    """

    plan: JobPlan
    graph: StageGraph

    def __init__(self, env: simpy.Environment, fabric: FabricProcess, index: int, arrival_s: float,
                 recorder: JobRecorder, waited_for: bool = False,
                 may_run: Callable[[NDArray[np.int64]], bool] | None = None) -> None:
        self.index = index
        self.arrival_s = arrival_s
        self.start_s = math.nan
        self.finish_s = arrival_s
        self.iteration = 0
        self.done = False
        self.lower_bound_s = math.nan
        self.running = False
        self.restarts, self.lost_s, self.lost_bytes = 0, 0.0, 0.0
        self._env = env
        self._fabric = fabric
        self._recorder = recorder
        self._waited_for = waited_for or fabric.allocator.sees_running
        self._may_run = may_run
        self._attempt, self._began_s = 0, math.nan
        self._sending: dict[int, CoflowEvent] = {}
        self._completed: list[tuple[int, CoflowEvent, float]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> JobProcess:
        """Copy the process, unless nothing more will happen to it."""
        if self.over:
            return self
        other = memo[id(self)] = copy(self)
        other.__dict__.update(deepcopy(self.__dict__, memo))
        return other

    @property
    def over(self) -> bool:
        """Whether it does nothing any more: the job has ended, or the fabric runs it by itself."""
        return not hasattr(self, "_env")

    def _leave(self) -> None:
        """Forget the run, which this process must not keep in memory, nor its copies."""
        del self.plan, self._env, self._fabric, self._recorder, self._may_run

    def arrive(self, plan: JobPlan, _: simpy.Event | None = None) -> None:
        """Let the job arrive now: it begins, unless it has to wait for its hosts."""
        self.plan = plan
        self.lower_bound_s = self.plan.lower_bound()
        if self._may_run is not None and not self._may_run(self.hosts):
            return
        if not (self._waited_for or self.plan.spec.redraw) and (
                graph := self.plan.graph(0)).is_chain():
            self._announce()
            self._run_as_chain(graph)
        else:
            self._begin()

    def _announce(self) -> None:
        """Tell the fabric the remaining communication, for job-clairvoyant allocators.

        Where that takes no drawing, in any case: the run may get such an allocator later.
        """
        if self._fabric.allocator.information == "job-clairvoyant" or not self.plan.spec.redraw:
            self._fabric.table.jobs[self.index]["ahead"] = self.plan.communication_s(
                self.iteration)

    def _begin(self) -> None:
        """Start the current iteration from its beginning."""
        self._announce()
        if self._fabric.allocator.sees_running:
            self._fabric.running.begin(self.index, self.hosts)
        self.running = True
        self._begin_iteration()

    # --- faults of hosts and links --------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the job has arrived and waits for `resume`."""
        return not self.over and hasattr(self, "plan") and not self.running

    def stage_of(self, transfer: CoflowEvent) -> int:
        """Return the stage whose coflow is in flight."""
        return next(stage for stage, each in self._sending.items() if each is transfer)

    @property
    def hosts(self) -> NDArray[np.int64]:
        """The hosts of the job's ranks; available while it runs or waits."""
        return self.plan.hosts[:self.plan.spec.ranks]

    def stop(self) -> None:
        """Stop the job and discard its progress in the current iteration, which `resume` repeats.

        Coflows that have ended since the last observation, unnoticed, are discarded as well.
        """
        for transfer in self._sending.values():
            if len(transfer.demand.flows):
                left = self._fabric.withdraw(transfer)
                self.lost_bytes += max(transfer.demand.nbytes - float(left.sum()), 0.0)
                self.start_s = float(np.fmin(self.start_s, transfer.start_s))
        sent = [transfer for _, transfer, _ in self._completed]
        sent += [transfer for transfer, _ in self._held.values() if transfer is not None]
        self.lost_bytes += sum(transfer.demand.nbytes for transfer in sent)
        self.lost_s += self._env.now - self._began_s
        self.restarts += 1
        self.running = False
        self._attempt += 1
        self._sending, self._completed = {}, []
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)

    def resume(self, plan: JobPlan | None = None) -> None:
        """Run from the beginning of the iteration in which the job was stopped, or from the first.

        Parameters
        ----------
        plan : JobPlan, optional
            The plan on other hosts, if the job has moved.
        """
        if plan is not None:
            self.plan = plan
            self.lower_bound_s = min(self.lower_bound_s, plan.lower_bound())
        self._begin()

    def rerouted(self) -> dict[CoflowEvent, RoutedCoflow]:
        """Recompute the routes; return the active coflows whose routes change, with new ones."""
        if not hasattr(self, "plan"):
            return {}
        self.plan.reroute()
        if not self.running:
            return {}
        self.graph = self.plan.graph(self.iteration)
        demands = {transfer: self.graph.demands[stage]
                   for stage, transfer in self._sending.items()}
        return {transfer: demand for transfer, demand in demands.items()
                if demand is not None
                and not np.array_equal(demand.hops["link"], transfer.demand.hops["link"])}

    # --- stages ---------------------------------------------------------------------------

    def _run_as_chain(self, graph: StageGraph) -> None:
        """Hand the job over to the fabric; this process does nothing afterwards."""
        stages = [graph.stages[k] for k in graph.dag.sequence]
        demands = [demand for k in graph.dag.sequence if (demand := graph.demands[k]) is not None]
        wait = max(self.arrival_s + stages[0].release_s - self._env.now, 0.0)
        self._recorder.chain_begun(self.index, stages, graph.dag.sequence)
        self._fabric.run_chain(
            self.index, demands, [stage.compute_s for stage in stages],
            self.plan.spec.iterations * len(stages),
            self._env.now + (wait + stages[0].compute_s))
        self._leave()

    def _begin_iteration(self) -> None:
        """Begin the current iteration: start the stages that have no parents."""
        self.graph = self.plan.graph(self.iteration)
        self._began_s = self._env.now
        dag = self.graph.dag
        self._left = len(dag.after)
        self._blockers = list(map(len, dag.after))
        self._holders = list(map(len, dag.finishes_before))
        self._held: dict[int, tuple[CoflowEvent | None, float]] = {}
        self._held_until = [0.0] * self._left
        for stage, stages in enumerate(dag.after):
            if not stages:
                self._start(stage)

    def _start(self, stage: int) -> None:
        """Wait for the stage's release and its computation, then emit its coflow."""
        spec = self.graph.stages[stage]
        wait = max(self.arrival_s + spec.release_s - self._env.now, 0.0) + spec.compute_s
        if wait > 0 or self.graph.demands[stage] is None:
            self._env.timeout(wait).callbacks.append(
                partial(self._computed, stage, self._attempt))
        else:
            self._emit(stage)

    def _computed(self, stage: int, attempt: int, _: simpy.Event) -> None:
        if attempt != self._attempt:
            return
        if self.graph.demands[stage] is None:
            self._ready(stage, None, self._env.now)
        else:
            self._emit(stage)

    def _emit(self, stage: int) -> None:
        demand = self.graph.demands[stage]
        assert demand is not None
        order = self.iteration * len(self.graph.stages) + self.graph.dag.order[stage]
        self._sending[stage] = self._fabric.submit(self.index, demand, order,
                                                   partial(self._sent, stage))
        self._recorder.coflow_begun(self, stage)

    def _sent(self, stage: int, transfer: CoflowEvent) -> None:
        if self._sending.pop(stage, None) is not transfer:
            return  # a coflow without bytes of an iteration that was stopped at this instant
        if not self.start_s <= transfer.start_s:
            self.start_s = transfer.start_s
        self._ready(stage, transfer, transfer.finish_s)

    def _ready(self, stage: int, transfer: CoflowEvent | None, finish: float) -> None:
        """Complete a stage whose own work ended at `finish`, unless another stage holds it.

        Stages that only this one held are completed as well, and so on; iteratively, as chains of
        such stages may be too long for recursion.
        """
        self._held[stage] = transfer, finish
        ready = [] if self._holders[stage] else [stage]
        for each in ready:  # the list grows in the loop
            ready += self._complete(each, *self._held.pop(each))
        if not self._left:
            self._end_iteration()

    def _complete(self, stage: int, transfer: CoflowEvent | None, finish: float) -> list[int]:
        """Complete a stage; return the finished stages that only this one still held."""
        finish = max(finish, self._held_until[stage])
        if transfer is not None:
            self._completed.append((stage, transfer, finish))
        self._recorder.coflow_ended(self, stage, transfer)
        self.finish_s = max(self.finish_s, finish)
        self._left -= 1
        for child in self.graph.dag.children[stage]:
            self._blockers[child] -= 1
            if not self._blockers[child]:
                self._start(child)
        released = []
        for other in self.graph.dag.held[stage]:
            self._holders[other] -= 1
            self._held_until[other] = max(self._held_until[other], finish)
            if not self._holders[other] and other in self._held:
                released.append(other)
        return released

    def tell(self) -> None:
        """Record the coflows completed in this iteration, which will not be repeated."""
        completed, self._completed = self._completed, []
        for each in completed:
            self._recorder.coflow_finished(self, *each)

    def _end_iteration(self) -> None:
        self.tell()
        self.iteration += 1
        if self.iteration < self.plan.spec.iterations:
            self._begin_iteration()
            return
        self.done, self.running = True, False
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)
        self._recorder.job_finished(self)
        self._leave()
        del self.graph
