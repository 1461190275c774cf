"""The process that runs a job whose ranks compute, and whose iterations may overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

from netsim.errors import InputError
from netsim.fabric.clock import DECISIONS, call_at
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import OperationGraph, OperationLists
from netsim.jobs.process import CompletedCoflow, JobProcess

#: An operation of an iteration.
_At = tuple[int, int]


@dataclass(slots=True)
class _Turns:
    """The streams of ranks: which computation each runs, and which ones wait for it."""

    #: For each busy stream: since when it computes, the iteration and the operation.
    busy: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    #: Streams that may begin their next computation at the end of this instant.
    due: set[int] = field(default_factory=set)
    #: For each stream, a heap of (earliest begin, iteration, operation). If computations run in
    #: list order whatever their earliest begin, the first entry is 0.
    waiting: dict[int, list[tuple[float, int, int]]] = field(default_factory=dict)


class RankProcess(JobProcess):
    """Runs a job operation by operation; see `netsim.operations.Operations`.

    An operation begins when all that it waits for is complete; a computation also waits for its
    turn on its rank's stream.
    """

    graph: OperationGraph  # type: ignore[assignment]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._lists: OperationLists
        self._turns = _Turns()
        self._left: dict[int, int] = {}
        self._blockers: dict[int, list[int]] = {}
        self._ready_now: deque[_At] = deque()
        self._in_flight: dict[CoflowEvent, _At] = {}

    # --- operations -------------------------------------------------------------------------

    def _begin_iteration(self) -> None:
        """Begin, or repeat, the first iteration that is not complete."""
        self.graph = self.plan.graph(self.iteration)
        self._lists = self.graph.lists
        self._began_s = self._env.now
        self._recorder.operations_begun(self.graph.operations)
        self._turns, self._left, self._blockers = _Turns(), {}, {}
        blockers = self._open(self.iteration, self._lists.blockers_first)
        self._ready_now.extend((self.iteration, k) for k, count in enumerate(blockers) if not count)
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
                heappush(self._turns.waiting.setdefault(turn, []), (since_s, *at))
                self._ask_for_turn(turn)
        self._end_together(begun)

    def _ask_for_turn(self, turn: int) -> None:
        """Give a stream to its next computation after all events of this instant."""
        if not self._turns.due:
            call_at(self._env, self._env.now, partial(self._give_turns, self._attempt), DECISIONS)
        self._turns.due.add(turn)

    def _give_turns(self, attempt: int, _: Any) -> None:
        if attempt != self._attempt:
            return
        due = sorted(self._turns.due)
        begun: dict[float, list[_At]] = {}
        self._turns.due.clear()
        for turn in due:
            waiting = self._turns.waiting.get(turn)
            if waiting and turn not in self._turns.busy:
                _, iteration, k = heappop(waiting)
                self._turns.busy[turn] = self._env.now, iteration, k
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
        seconds = self._lists.compute_s[at[1]]
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
        iteration, k = at
        sends = self._lists.sends[k]
        if self._lists.turn[k] >= 0 and k not in self._lists.held:
            self._end_turn(at, begun_s)
        if sends < 0:
            self._completed_one(at, self._env.now)
            return
        order = iteration * len(self._lists.turn) + k
        transfer = self._fabric.submit(self.index, self.graph.routed[sends], order, self._sent_all)
        self._in_flight[transfer] = at
        self._recorder.coflow_begun(self, iteration, k)

    def _end_turn(self, at: _At, begun_s: float) -> None:
        """Record a computation, and give its stream to the next one."""
        iteration, k = at
        self._recorder.computed(self, self.graph.operations, iteration, k, begun_s, self._env.now)
        if not self._lists.in_order:
            del self._turns.busy[self._lists.turn[k]]
            self._ask_for_turn(self._lists.turn[k])

    def _sent_all(self, transfer: CoflowEvent) -> None:
        """Continue after a coflow."""
        at = self._in_flight.pop(transfer, None)
        if at is None:
            return  # a coflow without bytes of an iteration that was stopped at this instant
        iteration, k = at
        if not self.start_s <= transfer.start_s:
            self.start_s = transfer.start_s
        graph = self.graph
        self._completed.append(CompletedCoflow(iteration, graph.stages, graph.places[k], transfer,
                                               transfer.finish_s, graph.copies[k]))
        self._recorder.coflow_ended(self, iteration, k, transfer)
        self._completed_one(at, transfer.finish_s)
        self._go_through()

    def _completed_one(self, at: _At, finish_s: float) -> None:
        """Complete an operation: others no longer wait for it."""
        iteration, k = at
        self.finish_s = max(self.finish_s, finish_s)
        for held in self._lists.holders.get(k, ()):
            self._end_turn((iteration, held), self._turns.busy[self._lists.turn[held]][0])
        self._unblock(iteration, self._lists.children[k])
        if self._lists.children_next[k] and iteration + 1 < self.plan.spec.iterations:
            if iteration + 1 not in self._left:
                self._open(iteration + 1, self._lists.blockers)
            self._unblock(iteration + 1, self._lists.children_next[k])
        self._left[iteration] -= 1
        while self._left.get(self.iteration) == 0:
            self._end_iteration()

    def _unblock(self, iteration: int, operations: Iterable[int]) -> None:
        blockers = self._blockers[iteration]
        for k in operations:
            blockers[k] -= 1
            if not blockers[k]:
                self._ready_now.append((iteration, k))

    def _end_iteration(self) -> None:
        del self._left[self.iteration], self._blockers[self.iteration]
        if not self._may_go_back:
            self._tell_before(self.iteration + 1)
        self._made += 1
        self._made_s += self.in_iteration_s
        self._began_s = self._env.now
        self.iteration += 1
        if self.iteration == self.plan.spec.iterations:
            self._finish()

    def stuck(self) -> list[str]:
        """Describe the ranks that hold a stream while they wait for ranks that cannot get one."""
        if not self.running:
            return []
        made, said = self.graph.operations, list[str]()
        waiting = {(iteration, k) for heap in self._turns.waiting.values()
                   for _, iteration, k in heap}
        for turn, (since_s, iteration, k) in sorted(self._turns.busy.items()):
            until = k if made.until is None else made.until[k]
            first, last = made.after.first[until:until + 2]
            said += [f"rank {turn // len(made.streams)}: {made.name_of(k)!r} waits since "
                     f"{since_s:g} s for {made.name_of(other)!r} of rank {made.rank[other]}, whose "
                     "turn it is not" for other in made.after.others[first:last]
                     if (iteration, other) in waiting]
        return said

    # --- faults -------------------------------------------------------------------------------

    def place_of(self, transfer: CoflowEvent) -> tuple[int, int]:
        """Return the iteration and the operation whose coflow is in flight."""
        return self._in_flight[transfer]

    def stop(self, back: bool = False) -> float:
        """Stop the job, which then repeats all incomplete iterations; see `JobProcess`."""
        sent = sum(self._withdraw(transfer)[1] for transfer in self._in_flight)
        lost_s = self._env.now - (self._resumed.at_s if back else self._began_s)
        if back:
            self.iteration = self._resumed.iteration
        lost = [done for done in self._completed if done.iteration >= self.iteration]
        self._drop(lost)
        self.lost_bytes += sent + sum(done.transfer.demand.nbytes for done in lost)
        self._completed = [done for done in self._completed if done.iteration < self.iteration]
        self._in_flight.clear()
        self.lost_s += lost_s
        self.restarts += 1
        self._halt()
        return lost_s

    def pause(self) -> None:
        """Raise an error: the progress of ranks cannot be kept."""
        raise InputError("jobs whose ranks compute cannot be paused within an iteration")

    def rerouted(self) -> dict[CoflowEvent, RoutedCoflow]:
        """Recompute the routes; return the active coflows whose routes change, with new ones."""
        if not hasattr(self, "plan"):
            return {}
        self.plan.reroute()
        if not self.running:
            return {}
        self.graph = self.plan.graph(self.iteration)
        return self._on_new_routes(
            (transfer, self.graph.demands[k]) for transfer, (_, k) in self._in_flight.items())
