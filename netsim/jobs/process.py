"""One running job, from event to event."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric import Fabric
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import StageGraph
from netsim.jobs.plan import JobPlan
from netsim.workload import Stage

__all__ = ["JobProcess", "JobRecorder"]


class JobRecorder(Protocol):
    """Is told what a job does, for records."""

    def coflow_finished(self, job: JobProcess, stage: int, transfer: CoflowEvent, finish: float
                        ) -> None:
        """Take note of a coflow that has completed, and when."""

    def job_finished(self, job: JobProcess) -> None:
        """Take note of a job that has completed."""

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Take note of a job that is left to the fabric: its stages, in line, and their places."""


class JobProcess:
    """Runs a job: iteration after iteration, stage after stage.

    A job whose stages follow each other is left to the fabric, which goes through them by itself:
    then only its lower bound is known here. Not so where its end matters, to who waits for it or
    to an allocator that is told which jobs run: the fabric does not know when a job ends.

    Parameters
    ----------
    env : simpy.Environment
    fabric : Fabric
    index : int
        The job's number by (arrival, id).
    make_plan : callable returning JobPlan
        Called with `index` when the job arrives, so that memory grows with the jobs that run.
    recorder : JobRecorder
    waited_for : bool
        Whether somebody waits for its end, or may stop it or have it take other routes.
    may_run : callable, optional
        Asked with its hosts on arrival; if it may not, it waits for `resume`.

    Attributes
    ----------
    arrival_s, finish_s : float
        `finish_s` is the true end of its last stage so far.
    start_s : float
        When it first sent a byte; NaN before.
    iteration : int
        The iteration that it is in, from 0; in the end, how many there were.
    done : bool
        Whether it has completed.
    lower_bound_s : float
        Its least possible JCT; NaN before it arrives. Once it has moved to other hosts, the least
        of those on either.
    running : bool
        Whether it has arrived, is not done, and is not stopped.
    restarts : int
        How often it was stopped in an iteration, to start over with it.
    lost_s, lost_bytes : float
        Seconds that it was in iterations that it has started over, and what it sent in them.
    plan, graph : JobPlan, StageGraph
        What it does, and the iteration that it is in; only while it runs.
    """

    plan: JobPlan
    graph: StageGraph

    def __init__(self, env: simpy.Environment, fabric: Fabric, index: int, arrival_s: float,
                 make_plan: Callable[[int], JobPlan], recorder: JobRecorder,
                 waited_for: bool = False,
                 may_run: Callable[[NDArray[np.int64]], bool] = lambda hosts: True) -> None:
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
        self._make_plan = make_plan
        self._recorder = recorder
        self._waited_for = waited_for or fabric.allocator.sees_running
        self._may_run = may_run
        self._attempt, self._began_s = 0, math.nan
        self._sending: dict[int, CoflowEvent] = {}
        self._completed: list[tuple[int, CoflowEvent, float]] = []
        env.timeout(max(arrival_s - env.now, 0.0)).callbacks.append(self._arrive)

    def _arrive(self, _: simpy.Event) -> None:
        self.plan = self._make_plan(self.index)
        self.lower_bound_s = self.plan.lower_bound()
        if not self._may_run(self.hosts):
            return
        if not (self._waited_for or self.plan.spec.redraw) and (
                graph := self.plan.graph(0)).is_chain():
            self._foretell()
            self._run_as_line(graph)
        else:
            self._begin()

    def _foretell(self) -> None:
        """Let the fabric know what is to come, for allocators that may."""
        if self._fabric.allocator.information == "job-clairvoyant":
            self._fabric.table.jobs[self.index]["ahead"] = self.plan.communication_s(
                self.iteration)

    def _begin(self) -> None:
        """Run from the beginning of the iteration that it is in."""
        self._foretell()
        if self._fabric.allocator.sees_running:
            self._fabric.running.begin(self.index, self.hosts)
        self.running = True
        self._iterate()

    # --- what befalls its hosts and links -------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether it has arrived and waits for `resume`."""
        return hasattr(self, "plan") and not self.running

    @property
    def hosts(self) -> NDArray[np.int64]:
        """Those of its ranks, while it runs or waits."""
        return self.plan.hosts[:self.plan.spec.ranks]

    def stop(self) -> None:
        """Stop, and forget what it has done in its iteration; `resume` starts that over.

        What has ended unnoticed, between two observations, is forgotten as well.
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
        """Run on from the beginning of the iteration in which it was stopped, or from the first.

        Parameters
        ----------
        plan : JobPlan, optional
            What it does on other hosts, if it has moved.
        """
        if plan is not None:
            self.plan = plan
            self.lower_bound_s = min(self.lower_bound_s, plan.lower_bound())
        self._begin()

    def rerouted(self) -> dict[CoflowEvent, RoutedCoflow]:
        """Take the routes that the network has now; return what that changes of what it sends."""
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

    def _run_as_line(self, graph: StageGraph) -> None:
        """Leave it to the fabric: nothing of this process is needed any more."""
        stages = [graph.stages[k] for k in graph.dag.sequence]
        demands = [demand for k in graph.dag.sequence if (demand := graph.demands[k]) is not None]
        wait = max(self.arrival_s + stages[0].release_s - self._env.now, 0.0)
        self._recorder.chain_begun(self.index, stages, graph.dag.sequence)
        self._fabric.run_chain(
            self.index, demands, [stage.compute_s for stage in stages],
            self.plan.spec.iterations * len(stages),
            self._env.now + (wait + stages[0].compute_s))
        del self.plan

    def _iterate(self) -> None:
        """Start the stages of the iteration that wait for no other."""
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

    def _sent(self, stage: int, transfer: CoflowEvent) -> None:
        if self._sending.pop(stage, None) is not transfer:
            return  # one without bytes, of an iteration that was stopped at that instant
        if not self.start_s <= transfer.start_s:
            self.start_s = transfer.start_s
        self._ready(stage, transfer, transfer.finish_s)

    def _ready(self, stage: int, transfer: CoflowEvent | None, finish: float) -> None:
        """Complete a stage whose own work ended at `finish`, unless another holds it.

        Then those that only it held, and so on: a list, for the line may be a long one.
        """
        self._held[stage] = transfer, finish
        ready = [] if self._holders[stage] else [stage]
        for each in ready:  # which grows
            ready += self._complete(each, *self._held.pop(each))
        if not self._left:
            self._end_iteration()

    def _complete(self, stage: int, transfer: CoflowEvent | None, finish: float) -> list[int]:
        """Complete a stage; return the stages that were held for nothing else."""
        finish = max(finish, self._held_until[stage])
        if transfer is not None:
            self._completed.append((stage, transfer, finish))
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
        """Have recorded what has completed in this iteration, which counts now."""
        completed, self._completed = self._completed, []
        for each in completed:
            self._recorder.coflow_finished(self, *each)

    def _end_iteration(self) -> None:
        self.tell()
        self.iteration += 1
        if self.iteration < self.plan.spec.iterations:
            self._iterate()
            return
        self.done, self.running = True, False
        if self._fabric.allocator.sees_running:
            self._fabric.running.end(self.index)
        self._recorder.job_finished(self)
        del self.plan, self.graph
