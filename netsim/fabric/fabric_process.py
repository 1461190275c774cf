"""The fabric: the SimPy process that moves all flows of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.base.display import telling_for
from netsim.base.lazy import simpy
from netsim.fabric.allocation import Allocation, Event, PriorityService
from netsim.fabric.allocator import Allocator, Undecided
from netsim.fabric.clock import LAST, ActiveCoflows, Alarm, CoflowEvent, Grid, call_at
from netsim.fabric.event_loop import EventLoop, ignore
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.graphs import IterationSteps
from netsim.fabric.kernels.graphs import arrive
from netsim.fabric.kernels.loop import AT_ENDS, NEVER
from netsim.fabric.kernels.rules import SOUND
from netsim.fabric.policy import PolicyRunner, weigh
from netsim.fabric.records import REPORTED
from netsim.fabric.routed_coflow import RoutedCoflow, Source, WithoutProcess
from netsim.fabric.rule_code import RuleError, RuleRunner
from netsim.fabric.running import JobLabel, Running
from netsim.fabric.view import FabricView
from netsim.network import Topology

# Plain integers: or-ing enum members costs more than SimPy's step.
_COFLOW_VALID, _COFLOW_DONE, _FLOW_DONE, _CAPACITY, _REVISIT, _JOB = map(int, (
    Event.COFLOW_VALID, Event.COFLOW_DONE, Event.FLOW_DONE, Event.CAPACITY, Event.REVISIT,
    Event.JOB))


class Observer(Protocol):
    """Is told what happens on the fabric, to record it; see `FabricProcess`. Changes nothing."""

    @property
    def pause(self) -> int:
        """When the event loop pauses for it; see `netsim.fabric.kernels.loop`.

        With ``AT_ENDS``, rates are constant between two calls of `moved`. With ``AT_ENDS`` or
        ``AT_DECISIONS``, `decided` is called for every decision, including those that the fabric
        makes by itself.
        """
        ...

    @property
    def carries(self) -> bool:
        """Whether `moved` needs the bytes of each link."""
        ...

    def decided(self, now: float, table: FlowTable,
                note: Callable[[], Mapping[str, float] | None]) -> None:
        """Record a decision; `note` returns the values that the policy inferred."""

    def moved(self, start: float, now: float, carried: Floats) -> None:
        """Record the bytes that each link carried between two times.

        The observer may keep the array, which is empty unless `carries` is set.
        """

    def flows_finished(self, transfer: Any, flows: NDArray[Any]) -> None:
        """Record the FLOW rows of a completed coflow, given its `CoflowEvent`.

        If it was in step, ``remaining`` is above 0.
        """


class FabricProcess:
    """Moves the bytes of all active coflows at the rates that the allocator sets.

    The allocator is asked once per time at which at least one of the events in its `wakes_on`
    happened. With an observe interval, decisions are made, and completions noticed, at its
    multiples only, if something happened since the last one. The source provides coflows that
    become valid at times known beforehand, besides the submitted ones.

    `completed` is called with the COFLOW rows of completed coflows that come from graphs or from
    the source, and with all FLOW rows; `ended` with the number and the end of a job of operations,
    when that is noticed. `job_of` takes the number of a job, and returns an object with its id,
    name and group.
    """

    #: If `stepwise`, called at every arrival, start and completion of a coflow and every decision,
    #: after all processing at that instant. It may change the run.
    notify: Callable[[], None] | None = None

    def __init__(self, env: simpy.Environment, network: Topology, allocator: Allocator,
                 job_arrivals: Any, *, observe_interval: float = 0.0, check: bool = True,
                 observer: Observer | None = None, source: Source | None = None,
                 completed: Callable[[NDArray[Any], NDArray[Any]], None] | None = None,
                 ended: Callable[[int, float], None] | None = None,
                 job_of: Callable[[int], Any] = JobLabel) -> None:
        #: `decisions` includes those for which the previous answer still held.
        self.network, self.decisions = network, 0
        self.table = FlowTable(network.usable, job_arrivals)
        #: The submitted coflows that are not complete.
        self.in_flight = ActiveCoflows(self.table, env)
        self._env, self._check, self._job_of = env, check, job_of
        self._grid = Grid(observe_interval, env)
        self._alarm = Alarm(env, self._on_alarm)
        self.check_open, self.closing = self._alarm.check_open, self._alarm.closing
        self._take(allocator)
        self._arrived_by = -math.inf
        self._report_completed, self._report_ended = completed or ignore, ended or ignore
        self._completed = self._see_arrivals if network.wire.timed else self._report_completed
        self._observer = observer
        self._pause = NEVER if observer is None else observer.pause
        self._carries = observer is not None and observer.carries
        self._loop = EventLoop(self.table, observe_interval, self._pause, self._carries,
                               self._completed, self._watch)
        self._source = source
        self._happened, self._called, self._shows = 0, False, False
        self._moved_to = env.now
        self._finished, self._completing = 0, False
        self._next = self._notify_at = self._due = math.inf
        self._expect()
        if self.table.next_arrival <= env.now:
            self._happen(_COFLOW_VALID)
        self._set_alarm()

    @property
    def stepwise(self) -> bool:
        """Whether to call `notify`; may be changed at any time, and changes no result."""
        return self._loop.stepwise

    @stepwise.setter
    def stepwise(self, value: bool) -> None:
        self._loop.stepwise = value

    # --- what jobs call --------------------------------------------------------------

    def submit(self, job: int, demand: RoutedCoflow, order: int = 0,
               done: Callable[[CoflowEvent], None] | None = None) -> CoflowEvent:
        """Make a coflow valid now; return the event of its completion, see `CoflowEvent`."""
        return self.send(CoflowEvent(self._env, job, order, demand, done))

    def send(self, transfer: CoflowEvent) -> CoflowEvent:
        """Submit a coflow whose event exists already; return the event."""
        if transfer.begin_s > self._env.now:
            self.in_flight.wait(transfer, self._begin)
        else:
            self._begin(transfer)
        return transfer

    def _begin(self, transfer: CoflowEvent) -> None:
        """Start the flows of a coflow, or its messages without bytes if it has no flows."""
        if len(transfer.demand.flows):
            self.in_flight.submit(transfer)
            self._happen(_COFLOW_VALID)
            return
        self.table.jobs["completed"][transfer.job] += 1
        transfer.start_s = transfer.sent_s = transfer.begin_s
        transfer.finish_s = transfer.begin_s + transfer.demand.empty_until_s
        if transfer.finish_s > self._env.now:  # which no observation notices
            self.in_flight.send_last(transfer, transfer.finish_s)
        else:
            transfer.complete_at_once()
        self.pass_empty()

    def pass_empty(self) -> None:
        """Ask for a decision now: the start and end of a coflow without bytes are events."""
        self._shows = True
        self._happen(_COFLOW_VALID | _COFLOW_DONE)

    def interrupt(self) -> None:
        """Move bytes until now, and decide again."""
        self.advance_to_now()
        self._happen(_COFLOW_DONE)

    def withdraw(self, transfer: CoflowEvent) -> Floats:
        """Remove a coflow that is not complete; return the bytes left of each flow."""
        if transfer.key in self.in_flight.active:
            self.interrupt()
        return self.in_flight.withdraw(transfer)

    def run_graph(self, job: int, coflows: Sequence[RoutedCoflow], steps: IterationSteps,
                  iterations: int, wait_s: float = 0.0) -> None:
        """Run the iterations of a job, without a process that waits for its coflows.

        The first iteration begins `wait_s` seconds from now. In each, operations send the
        `coflows` by number, or a chain sends them in order. Each must have bytes to send.
        """
        valid = self.table.run_graph(job, coflows, steps, iterations, self._env.now, wait_s)
        self._loop.follow_table()
        if valid <= self._env.now:
            self._happen(_COFLOW_VALID)
        self._await(valid)
        self._await_ends()

    def set_capacities(self, capacity: Mapping[int, float]) -> None:
        """Set capacities of links from now on, in bytes per second; 0 means a failed link.

        This is an event only if an unfinished flow crosses one of the links. The policy's order
        then stands, unless such a link fails or is repaired, so that other coflows can move.
        """
        self.advance_to_now()
        event, in_use = 0, self.table.links_in_use()
        for link, rate in capacity.items():
            if in_use[link]:
                lives = self.table.capacity[link] > 0 and rate > 0
                event |= _CAPACITY if lives else _CAPACITY | _REVISIT
        self.table.set_capacities(capacity)
        self._adapt(event)

    def reroute(self, demands: Mapping[CoflowEvent, RoutedCoflow], moved: WithoutProcess) -> None:
        """Reroute coflows, and jobs without a process, with the same flows."""
        self.advance_to_now()
        self.in_flight.reroute(demands)
        if self.table.reroute_without_process(moved) or demands:
            self._adapt(_CAPACITY | _REVISIT)

    def set_allocator(self, allocator: Allocator) -> None:
        """Replace the policy; the new one decides at once."""
        self.advance_to_now()
        self.table.suspend_engines()
        self._take(allocator)
        self._adapt(_CAPACITY | _REVISIT)

    def _take(self, allocator: Allocator) -> None:
        """Let an allocator decide from now on, of which no answer is in force."""
        self._runs_ahead = self._persistent = self._serves = False
        self._service: PriorityService | None = None  # of the answer in force
        self._runner: RuleRunner | None = None  # the rule that the event loop asks
        self._revisit_at = self._asks_at = math.inf
        self.allocator = allocator
        self.policy = PolicyRunner(
            self._env, self.network, allocator, self.table, self._alarm,
            self.running if allocator.sees_running else None, self._job_of)

    @property
    def observe_interval(self) -> float:
        """The observe interval in seconds."""
        return self._grid.interval

    def set_observe_interval(self, interval: float) -> None:
        """Notice events at multiples of another interval from now on."""
        self.advance_to_now()
        self.table.suspend_engines()
        self._grid.interval = self._loop.interval = interval
        self._adapt(_CAPACITY | _REVISIT)

    def _adapt(self, event: int) -> None:
        """Reduce rates to what links now carry, and decide again if there is an event."""
        self._next = self._next_event(*self.table.throttle(self._env.now)[:2])
        self._happen(event)

    @property
    def ahead(self) -> float:
        """The time up to which bytes have been moved, or now if that is later."""
        return max(self._moved_to, self._env.now)

    def close(self) -> None:
        """Drop all references, which form cycles that Python would only free much later."""
        if vars(self):  # else it has been closed before
            vars(self.policy).clear()
            vars(self).clear()

    def look(self) -> tuple[FlowTable, list[CoflowEvent | None]]:
        """Return a copy of the table as of now, and its coflows; the run is not affected.

        Coflows of graphs or from the source are None. Coflows submitted at this instant are
        included, without rates yet.
        """
        table = self._loop.table_at(self._moved_to, self._env.now, self._grid.slack())
        return table, self.in_flight.all_in(table)

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""
        table, _ = self.look()
        table.remove_finished()  # though that is not noticed yet
        return self.policy.view(table, self._env.now, self._happened)

    def pending(self) -> list[tuple[int, float, float]]:
        """Return job, validity and deadline of coflows that are not complete, the oldest first."""
        rows = self.table.coflows[self.table.coflows["open"] > 0]
        return [*zip(*(rows[name].tolist() for name in ("job", "valid", "deadline")),
                     strict=True), *self.in_flight.waiting()]

    # --- the clock -------------------------------------------------------------------

    @cached_property
    def running(self) -> Running:
        """The jobs that run, where an allocator sees them."""
        return Running(self._see_jobs)

    def _see_jobs(self) -> None:
        if self.policy.sees_running:
            self._happen(_JOB)

    def _happen(self, event: int) -> None:
        self._happened |= event
        if not self._completing:
            self._wake(self._env.now)

    def _wake(self, at: float) -> None:
        """Set the alarm for `at`, or the observation instant after it, unless it is earlier."""
        self._called = True
        self._alarm.set(self._grid.observed(at))

    def _on_alarm(self) -> None:
        """Do what is due: call `notify`, resume the event loop, or process the events of now."""
        with telling_for(self.policy.title):
            if self._notify_at <= self._env.now:
                self._notify()
            elif not self._called and self._env.now < self._due:
                self._set_alarm()
            elif not self._called and self._loop.held and not self._must_act():
                self._run_ahead()  # the fabric has not changed since the loop was held
                if self._serves:  # a coflow may reach its limit now
                    self._revisit_at = min(self._asks_at, self._loop.limit_at)
                self._set_alarm()
            else:
                self._act()

    def _see_arrivals(self, done: NDArray[Any], flows: NDArray[Any]) -> None:
        """Report completed coflows of graphs and the source; the run lasts until they arrive."""
        self._arrived_by = max(self._arrived_by, float(done["arrives"].max()))
        self._report_completed(done, flows)

    def _must_act(self) -> bool:
        """Whether the policy is due to be asked, or a coflow that the loop does not activate."""
        now, table = self._env.now, self.table
        return not self._persistent and (
            self._revisit_at <= now + self._grid.slack()
            or now >= (table.next_pending if self._loop.admits else table.next_arrival))

    def _notify(self) -> None:
        """Call `notify`; leave anything else that is due now to a separate event."""
        self._notify_at = math.inf
        if self._loop.shows:  # it was held before it knew its next event
            self._due = self._env.now
        self._alarm.set(self._env.now)
        if self.notify is not None:
            self.notify()

    def _act(self) -> None:
        """Move bytes until now, report to jobs what has completed, and decide again."""
        self._called = False
        if (ahead := self.policy.ahead) is not None and ahead.pending is not None:
            allocation, ahead.pending = ahead.pending, None
            self._shows = True
            self._put_in_force(allocation)
            self._end_acting()
            return
        self.advance_to_now()
        if self._finished:
            self._shows = True
            # Jobs answer a completion at this same instant; decide after they all have. At the
            # rates in force, nothing more ends by now.
            self._next = math.inf
            self._completing = True
            try:
                self._complete()
            finally:
                self._completing = False
            if self._env.peek() <= self._env.now:
                self._wake(self._env.now)
                return
        if self.table.next_arrival <= self._env.now:
            self._happened |= _COFLOW_VALID
        if self._revisit_at <= self._env.now + self._grid.slack():
            self._happened |= _REVISIT
        if self._happened & self.policy.wake_mask:
            self._decide()
        elif self._runs_ahead and self._happened & _FLOW_DONE and not self._rows_stand():
            if self._run_ahead():  # a coflow has reached its limit as the flow ended
                self._happened = _FLOW_DONE | _REVISIT
                self._decide()
        elif self._happened:
            self._next = self._next_event(*self.table.next_finishes())
        self._end_acting()

    def _end_acting(self) -> None:
        if self._shows and self.stepwise:
            self._notify_at = self._env.now
        self._shows = False
        self._set_alarm()

    def _rows_stand(self) -> bool:
        """Whether links are shared at coflow events only, with rates stored in the rows alone."""
        return (self.policy.answer is not None and self.policy.answer.decisions == "coflow"
                and self.table.sharing.current is None)

    def _set_alarm(self) -> None:
        """Set the alarm for the next time at which something is known to be due."""
        self._due = math.inf
        if (at := min(self._next, self._revisit_at)) < math.inf:
            self._due = self._grid.observed(at)
        self._await(self.table.next_arrival)
        self._await_ends()
        if self._due == math.inf:
            self._await(self._arrived_by)
        if (at := min(self._due, self._notify_at)) < math.inf:
            self._alarm.set(at)

    def _await_ends(self) -> None:
        """Report the ends of jobs of operations when all else that happens then is known."""
        for job, finish, noticed in self.table.graphs.take_ended():
            call_at(self._env, noticed, partial(self._end_graph, job, finish), LAST)

    def _end_graph(self, job: int, finish: float, _: Any) -> None:
        self._report_ended(job, finish)

    def _await(self, arrival: float) -> None:
        """Set the alarm for when a coflow becomes valid, unless something is due before."""
        if self._env.now < arrival < math.inf:
            self._due = min(self._due, max(self._grid.observed(arrival), arrival))
            self._alarm.set(self._due)

    def _expect(self) -> None:
        """Get the next coflows from the source, once the previous ones have been taken."""
        if self._source is not None and self.table.next_pending == math.inf:
            pending = self._source.more()
            if pending is None:
                self._source = None
            else:
                self.table.expect(pending)

    # --- bytes -----------------------------------------------------------------------

    def advance_to_now(self) -> None:
        """Move bytes until now, and count the coflows that have finished."""
        shares, flows, now = self.table.sharing.current is not None, 0, self._env.now
        if self._loop.held and self._serves:
            self._loop.advance_to(now)
            self._revisit_at = min(self._revisit_at, self._asks_at, self._loop.limit_at)
            flows = self._loop.ended
        self._flush()
        start = self._moved_to
        self._moved_to = max(start, now)
        slack = self._grid.slack()
        # If the event loop stopped now to ask, it has moved these bytes already.
        moved = (shares or self._serves) and self._loop.asks and self._loop.now == now
        # What a decision has sped up may end in no time at all.
        if not len(self.table.coflows) or (not moved and now <= start and self._next > now + slack):
            return
        if shares and not moved:
            self._loop.advance_sharing(start, now)
            flows = self._loop.ended
        if shares or moved:
            self._finished = int(np.count_nonzero(self.table.coflows["open"] == 0))
        else:
            self._finished, flows = self._move_rows(start, now, slack)
        self._happened |= _FLOW_DONE if flows else 0

    def _move_rows(self, start: float, now: float, slack: float) -> tuple[int, int]:
        """Move bytes at the rates in the rows; return how many coflows and flows have ended.

        Flows that end up to `slack` after `now` count as ended.
        """
        table, observer = self.table, self._observer
        if table.in_step:
            # From end to end, as the event loop does, so that both have the same roundings.
            while self._next < now and start < (end := table.next_end_after(start)) < now:
                self._move_in_step(start, end, 4 * math.ulp(end))
                start = end
            return self._move_in_step(start, now, slack)
        if observer is not None and now > start:
            begin = start
            while self._pause == AT_ENDS and (end := table.next_end_after(begin)) < now:
                observer.moved(begin, end, table.carried(begin, end))
                begin = end
            observer.moved(begin, now, table.carried(begin, now))
        return table.advance(max(now - start, 0.0), now, slack)

    def _move_in_step(self, start: float, now: float, slack: float) -> tuple[int, int]:
        carried = np.zeros(len(self.table.capacity) if self._carries else 0)
        done = self.table.advance(max(now - start, 0.0), now, slack, carried)
        if self._observer is not None and now > start:
            self._observer.moved(start, now, carried)
        return done

    def _complete(self) -> None:
        self._finished = 0
        rows = self.table.remove_finished()
        arrive(rows, self.table.flows)
        mine, active = [], self.in_flight.active
        names = ("key", "start", "last", "arrives") if active else ()
        columns = [rows[name].tolist() for name in names]
        for k, (key, *times) in enumerate(zip(*columns, strict=True)):
            if (transfer := active.pop(key, None)) is None:
                continue
            mine.append(k)
            transfer.start_s, transfer.sent_s, transfer.finish_s = times
            if self._observer is not None:
                self._observer.flows_finished(transfer, self.table.flows_of(rows[k]))
            if (at := self._grid.observed(transfer.finish_s)) > self._env.now:
                self.in_flight.send_last(transfer, at)
            else:
                transfer.complete()
        if len(mine) < len(rows):
            alone = np.delete(rows, mine) if mine else rows
            self.table.graphs.follow(alone, self._env.now, self._grid.interval)
            if len(unreported := alone[alone["waited"] != REPORTED]):
                self._completed(unreported, self.table.flows)
        # A standing decision has already gone on past ends of coflows that no process waits for.
        carried_on = (self._persistent and not self._rows_stand()
                      and not rows["waited"][rows["waited"] != REPORTED].any())
        self._happened |= _FLOW_DONE if carried_on else _COFLOW_DONE

    # --- decisions -------------------------------------------------------------------

    def _decide(self) -> None:
        now = self._env.now
        self._admit()
        happened, self._happened = self._happened, 0
        hopeless = self.policy.see_progress(happened == _REVISIT, self._next)
        self._next = self._revisit_at = self._asks_at = math.inf
        if hopeless or not len(self.table.coflows):
            return
        self.policy.asked_s, self._shows = now, True
        stands = self.policy.stands(happened)
        if self.policy.in_loop is not None:
            if not stands:
                self._follow_rule(self.policy.in_loop)
                return
            with self.policy.in_loop.held():
                self._follow_rule(self.policy.in_loop, only_now=True)
            return
        if self._persistent:
            self.decisions += 1
            if self._observer is not None:
                self._observer.decided(now, self.table, self.policy.note)
            assert self.policy.answer is not None
            self.table.sharing.decide(self.policy.answer.decisions == "flow")
            self._run_ahead()
            return
        if stands and self.policy.answer is not None:
            self._put_in_force(self.policy.answer)
            return
        try:
            answer = self.policy.ask(now, happened)
        except Undecided:
            self._happened = happened
            self._wake(now)
            raise
        self._put_in_force(answer)

    def _admit(self) -> None:
        """Activate the coflows that have become valid, in order of (job, stage)."""
        self.in_flight.admit(self._env.now)
        while self.table.next_arrival <= self._env.now:
            self.table.admit(self._env.now)
            self._expect()

    def _put_in_force(self, allocation: Allocation) -> None:
        now = self._env.now
        self._runs_ahead = not allocation.in_step and allocation.rates is None
        self._service, self._runner = allocation.service, None
        self._serves = allocation.service is not None
        if allocation.in_step and self.policy.ahead is not None:
            self.policy.ahead.take(allocation)
            self._follow_rule(self.policy.ahead)
            return
        self.decisions += 1
        if self._observer is not None:  # before flows end ahead of the clock
            self._observer.decided(now, self.table, self.policy.note)
        self._asks_at = self._grid.due(allocation.revisit_at)
        self._revisit_at = self._asks_at
        self._persistent = allocation.persistent and self._asks_at == math.inf
        if self._runs_ahead:
            if self._service is None and (wrong := weigh(self.table, allocation)):
                raise self.policy.refuse(wrong)
            self._run_ahead()
            return
        table, check = self.table, self._check
        given: Any = None
        if allocation.shares is not None:
            given, found = allocation.shares, table.apply_shares(allocation.shares, now, check)
        elif allocation.order is not None:
            given, found = allocation.order, table.apply_order(allocation.order, now)
        else:
            assert allocation.rates is not None
            given, found = allocation.rates, table.apply_rates(allocation.rates, now, check)
        next_flow, next_coflow, link = found
        if link != SOUND:
            raise self.policy.infeasible(given, link)
        self._next = self._next_event(next_flow, next_coflow)

    def _follow_rule(self, runner: RuleRunner, decides: bool = True, only_now: bool = False
                     ) -> None:
        """Apply the decisions of a rule, ahead of the clock until another SimPy event is due.

        If the event loop is held, it is resumed. Unless the rule `decides` now, its last decision
        still holds. With `only_now`, the loop does not run ahead.
        """
        loop, serves = self._loop, not runner.rule.in_step
        until = math.nextafter(self._env.now, math.inf) if only_now else self._until()
        if not loop.held:
            self._runs_ahead = self._serves = serves
            self._runner, self._service = runner, None
            if not serves:
                self.table.begin_in_step()
        try:
            loop.follow_rule(runner, self._env.now, until, self.table.next_pending, self._check,
                             decides)
        except RuleError as error:
            self.policy.asked_s = loop.now
            raise self.policy.refuse(str(error)) from error
        self.policy.asked_s = loop.now
        if (fault := self.policy.fault(runner, loop.link)) is not None:
            raise fault
        self._expect_next(loop.end)
        self._revisit_at = self._asks_at = self._grid.due(
            runner.wake_at if serves else loop.limit_at, loop.now)
        if serves:
            self._revisit_at = min(self._asks_at, self._grid.due(loop.limit_at))

    def _next_event(self, next_flow: float, next_coflow: float) -> float:
        return next_flow if self._runs_ahead or self.policy.wake_mask & _FLOW_DONE else next_coflow

    def _run_ahead(self) -> bool:
        """Run with the allocation in force, ahead of the clock until another event is due.

        Return whether a coflow has already reached its limit.
        """
        self._happened = 0
        now, loop = self._env.now, self._loop
        if self._persistent:
            if not len(self.table.coflows) and self.table.next_arrival == math.inf:
                return False  # nothing is left that could end
            again = True
            while again and (loop.held or self.table.coflows["open"].all()):
                again = loop.share_all(now, self._until())
                now = loop.now
                self._expect()
            # Coflows that have completed meanwhile must still be reported.
            stops = not (loop.held or self.table.coflows["open"].all())
            self._expect_next(loop.now if stops else loop.end)
            return False
        if self._runner is not None:
            self._follow_rule(self._runner, decides=False)
            return loop.limit_at <= now
        arrival = self.table.next_arrival
        stop = min(self._asks_at, arrival if arrival > now else math.inf)
        if self._service is None:
            loop.share(now, self._until(), stop)
        else:
            loop.serve(self._service, now, min(self._until(), stop))
            self._revisit_at = min(self._asks_at, self._grid.due(loop.limit_at))
        self._expect_next(loop.end)
        return loop.limit_at <= now

    def _until(self) -> float:
        """Return the time of SimPy's next event, if later than now."""
        return max(self._env.peek(), math.nextafter(self._env.now, math.inf))

    def _expect_next(self, end: float) -> None:
        """Set when the next flow ends; if the loop is held to show an event, call `notify` then."""
        self._next = end
        if self._loop.shows:
            self._notify_at = self._loop.now

    def _flush(self) -> None:
        """Write the held event loop back to the rows, before the fabric changes."""
        if self._loop.held:
            self._loop.flush()
            self._revisit_at = min(self._asks_at, self._loop.limit_at)

    def _watch(self, start: float, now: float, carried: Floats, decisions: int) -> None:
        """Count the decisions of the event loop; report them and moved bytes to the observer."""
        self._moved_to = now
        self.decisions += decisions
        if self._observer is None:
            return
        if now > start:
            self._observer.moved(start, now, carried)
        if decisions and self._pause != NEVER:
            self._observer.decided(now, self.table, self.policy.note)
