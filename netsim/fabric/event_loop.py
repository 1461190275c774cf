"""Runs the compiled event loop on the table, and reports each pause to its observers."""

from __future__ import annotations

import copy
import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.base.compiling import Direct
from netsim.fabric.allocation import PriorityService
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels import flow_order, max_min, priority, proportional
from netsim.fabric.kernels.flow_order_state import FlowOrderState
from netsim.fabric.kernels.loop import (
    ASKS,
    BREATHES,
    FULL,
    HELD,
    HELD_FOR,
    NEVER,
    PAUSED,
    POLICY,
    REACHES_LIMIT,
    REDO,
    SHOWS,
    WAITS,
    Tables,
)
from netsim.fabric.kernels.max_min_state import MaxMinState
from netsim.fabric.kernels.priority_state import PriorityState
from netsim.fabric.kernels.proportional import ProportionalState
from netsim.fabric.kernels.rules import RuleState
from netsim.fabric.records import COFLOW, LOOP, NO_COFLOWS, REPORTED
from netsim.fabric.rule_code import RuleRunner

#: How many coflows may be admitted before those that have completed meanwhile are removed.
_AHEAD = 1024

#: The least room for completed coflows that have not been reported yet.
_DONE = 512

# Type checkers want the names themselves.
_named_tuple: Any = namedtuple

#: The columns of the loop's state, by name.
_LoopState = _named_tuple("_LoopState", LOOP.names)


_NOTHING = np.empty(0)

#: The loop of each kind of engine.
_LOOPS = {MaxMinState: Direct(max_min.run), PriorityState: Direct(priority.run),
          FlowOrderState: Direct(flow_order.run),
          ProportionalState: Direct(proportional.run)}

_run_ahead, _serve_by = Direct(proportional.run_ahead), Direct(priority.serve_by)

#: After this many steps times rows of coflows and flows, a kernel returns for Python to handle
#: signals: within half a second.
_WORK = 40_000_000


def ignore(*_: Any) -> None:
    """Do nothing."""


class EventLoop:
    """Runs from event to event in compiled code, ahead of the clock.

    The loop is *held* if SimPy has an event before the loop's next event. It later resumes from
    exactly this state. If the fabric changes before that, the engine's state is written back to the
    rows of the table.

    `completed` is called with the COFLOW rows of completed coflows, and all FLOW rows;
    ``watch(start, now, carried, decisions)`` after bytes have moved or the rule has decided, by
    pauses as `pause` says (see `kernels.loop`). With `carries`, the bytes of each link are counted.
    """

    def __init__(self, table: FlowTable, interval: float, pause: int, carries: bool,
                 completed: Callable[[NDArray[Any], NDArray[Any]], None],
                 watch: Callable[[float, float, Floats, int], None]) -> None:
        self._table = table
        self.interval, self._pause = interval, pause  #: the observe interval in seconds
        self._carries = carries
        self._completed, self._watch = completed, watch
        self._loop = np.zeros(1, LOOP)
        self._finished = np.empty(0, np.int64)
        self._done = np.empty(_DONE, COFLOW)
        self._held: Any = None
        self._rule: RuleState | None = None  # whose kernel resumes, though it is not asked
        #: `stepwise` holds the loop at each arrival, start and completion of a coflow, and at each
        #: decision; `shows` says that it is held for that, `asks` that it stopped as coflows had
        #: completed or the requested time was over.
        self.stepwise = self.shows = self.asks = False
        self.now = 0.0  #: the time up to which bytes have been moved

    # --- the ways of an allocation into force ----------------------------------------

    # Each starts at `now`, or resumes the loop if it is held. It stops before `bound`, when the
    # fabric itself must act, and is held before `until`, the next event of SimPy.

    def share(self, now: float, until: float, bound: float) -> None:
        """Share links max-min fairly, by weight, until a coflow completes."""
        engine = self._held
        if not self._resumes(until, bound):
            engine = self._table.begin_sharing(NO_COFLOWS)
            self._begin(now, until, bound)
        self._run(engine, NO_COFLOWS)

    def share_all(self, now: float, until: float) -> bool:
        """Share links as `share` does, at weight 1, and go on when coflows complete or come.

        Return whether the loop stopped only for lack of room, and should start again.
        """
        table = self._table
        pending, engine = table.pending, self._held
        if not self._resumes(until, math.inf):
            table.make_room_for_graphs(now, _AHEAD)
            engine = table.begin_sharing(pending)
            self._begin(now, until, math.inf, admits_arrivals=True)
        table.make_room(len(table.graphs.running))  # for one more coflow of each chain
        why = self._run(engine, pending)
        table.set_pending(pending[int(self._loop["admitted"][0]):])
        self._loop["admitted"] = 0
        return why == FULL

    def serve(self, service: PriorityService, now: float, until: float) -> None:
        """Serve coflows in order until a coflow completes."""
        table = self._table
        engine, why = self._held, REDO
        if not self._resumes(until, math.inf):
            table.suspend_sharing()
            self._begin(now, until, math.inf)
        while why == REDO:
            if engine is None:
                engine = table.serving.begin(table.coflows, table.flow_arrays.arrays,
                                             table.capacity, service, self.interval)
            why, engine = self._run(engine, NO_COFLOWS), None
            if why == REDO:  # a new copy pays
                table.serving.suspend()

    def follow_rule(self, runner: RuleRunner, now: float, until: float, bound: float, check: bool,
                    decides: bool) -> None:
        """Have a rule decide now, unless its last decision still holds, and again at coflow events.

        A Python policy in place of a rule is asked ahead of the clock.
        """
        table, serves = self._table, not runner.rule.in_step
        if serves:  # bytes move to that instant within the loop, as to any other
            until, bound = min(until, bound), math.inf
        if not self._resumes(until, bound):
            if serves:
                table.suspend_sharing()
            self._begin(now, until, bound, admits_arrivals=True, removes_finished=True,
                        simultaneous=not serves, decides=decides)
            runner.forget()
        held, why = self._held, FULL
        while why == FULL or (why == POLICY and runner.answer(self.now)):
            if why == FULL:
                table.make_room_for_graphs(self.now)
            if serves:
                engine = held or table.serving.for_rule()
                why, held = self._run(engine, NO_COFLOWS, runner.state()), None
            else:
                why = self._run(runner.engine(check), NO_COFLOWS)
        self._report_removed()

    def advance_sharing(self, now: float, until: float) -> None:
        """Move bytes at the current rates until a given time, while links are shared."""
        self._begin(now, math.inf, math.inf, advance_only=True, simultaneous=True)
        self._loop["observed_at"] = until
        self._run(self._table.sharing.current, NO_COFLOWS)

    def advance_to(self, now: float) -> None:
        """Resume the loop, which is held, until an instant before its next event, and stop.

        The rates in force are then in the rows, and `limit_at` holds for these rates.
        """
        self._resumes(math.inf, math.inf)
        self._loop["advance_only"] = self._loop["simultaneous"] = True
        self._loop["observed_at"] = now
        self.ended = 0
        self._run(self._held, NO_COFLOWS, self._rule)
        self.limit_at = float(self._loop["limit_at"][0])

    # --- the loop --------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the loop can be resumed; the rows are then out of date."""
        return self._held is not None

    @property
    def admits(self) -> bool:
        """Whether the loop itself activates the coflows of graphs."""
        return bool(self._loop["admits_arrivals"][0])

    def follow_table(self) -> None:
        """Stay held after coflows have been added to the table, which may have moved its arrays."""
        if isinstance(self._held, MaxMinState):
            self._held = self._table.sharing.current

    def flush(self) -> None:
        """Write the engine's state back to the rows; the loop can then no longer be resumed."""
        if self._resumes(math.inf, -math.inf):
            self._run(self._held, NO_COFLOWS, self._rule)

    def table_at(self, start: float, now: float, slack: float) -> FlowTable:
        """Return a copy of the table with rows that are up to date at `now`.

        If the loop is not held, bytes have been moved until `start`. Flows that end up to `slack`
        after `now` count as ended.
        """
        arrays = self._table.graphs.arrays  # which nothing changes that is done with the copy
        table, loop, engine = copy.deepcopy((self._table, self._loop, self._held),
                                            {id(arrays): arrays})
        if engine is not None:
            loop["bound"] = -math.inf
            self._call(engine, NO_COFLOWS, table, loop, self._carried(), self._rule)
        if now > start and len(table.coflows):
            if table.sharing.current is not None:
                EventLoop(table, self.interval, NEVER, False, ignore, ignore).advance_sharing(
                    start, now)
            else:
                table.advance(now - start, now, slack)
        table.flush()
        return table

    def _resumes(self, until: float, bound: float) -> bool:
        """Return whether the loop is held; if so, set how far it may run."""
        if self.held:
            loop = self._loop
            loop["until"], loop["bound"], loop["stepwise"] = until, bound, self.stepwise
            if loop["admits_arrivals"]:
                loop["due"] = self._table.graphs.next_due  # graphs may have begun
        return self.held

    def _begin(self, now: float, until: float, bound: float, *, admits_arrivals: bool = False,
               removes_finished: bool = False, advance_only: bool = False,
               simultaneous: bool = False, decides: bool = False) -> None:
        table = self._table
        self.now = now
        self._loop[0] = _LoopState(
            now=now, dt=0.0, end=now, limit_at=np.inf, until=until, interval=self.interval,
            observed_at=now, due=table.graphs.next_due if admits_arrivals else np.inf,
            reported_until=now, pause=self._pause, count=len(table.coflows),
            key=table.last_key + 1, admitted=0, idle=0, removed=0, ended=0, decisions=0,
            finished=0, admits_arrivals=admits_arrivals, removes_finished=removes_finished,
            advance_only=advance_only, simultaneous=simultaneous, decides=decides, reason=WAITS,
            link=-1, bound=bound, shows=not advance_only, stepwise=self.stepwise, steps=0)
        self.ended = 0  #: flows that have ended since the loop began

    def _run(self, engine: Any, pending: NDArray[Any], rule: RuleState | None = None) -> int:
        """Run until the loop has to stop, or is held; return the reason.

        Coflows in `pending` may join, besides those of graphs. `rule` is given if coflows are
        served, flow by flow, in the order of a rule; in step, it is the engine itself.
        """
        if (size := len(self._table.rows)) > len(self._finished):  # one entry per row
            self._finished = np.empty(size, np.int64)
            if size > len(self._done):
                self._done = np.empty(size, COFLOW)
        while True:
            carried = self._carried()
            engine = self._call(engine, pending, self._table, self._loop, carried, rule)
            why = self._report(carried)
            if why != PAUSED:
                self._held = engine if why in HELD_FOR else None
                self._rule, self.shows, self.asks = rule, why == SHOWS, why == ASKS
                if isinstance(engine, PriorityState):  # it knows which coflows have come and gone
                    self._table.serving.current = engine
                return why
            self._table.graphs.resume_parked()
            if self.admits:
                self._loop["due"] = self._table.graphs.next_due

    def _call(self, engine: Any, pending: NDArray[Any], table: FlowTable, loop: NDArray[Any],
              carried: Floats, rule: RuleState | None = None) -> Any:
        """Call the kernel; return the engine."""
        rows, jobs, arrays, used = table.kernel_view
        tables = Tables(rows, jobs, arrays, used, table.graphs.kernel_view, pending, self._finished,
                        self._done, table.capacity, carried)
        steps = 1 + _WORK // (len(rows) + int(table.flow_arrays.used[0]))
        run = _LOOPS[type(engine)]
        if isinstance(engine, ProportionalState) and engine.rule.function is None:
            run = _run_ahead
        while True:
            loop["steps"] = steps
            if rule is None:
                run(engine, loop, tables)
            else:
                new = _serve_by(rule, engine, loop, tables)
                engine = engine if new is None else PriorityState(*new)
            if loop["reason"][0] != BREATHES:
                return engine

    def _carried(self) -> Floats:
        return np.zeros(len(self._table.capacity)) if self._carries else _NOTHING

    def _report(self, carried: Floats) -> int:
        """Update the table, recorder and fabric; return why the loop stopped."""
        table, loop = self._table, self._loop
        start = self.now
        ran = _LoopState._make(loop.item())
        #: The next flow ends at `end`, which is `now` if the fabric or a policy has to act. The
        #: rule's allocation overloads `link`; for negative values, see `kernels.rules`.
        self.now, self.end, self.link, why = ran.now, ran.end, ran.link, ran.reason
        #: When the next coflow reaches its limit of sent bytes.
        self.limit_at = ran.limit_at if why in (WAITS, REACHES_LIMIT) else math.inf
        self.ended += ran.ended
        if ran.admits_arrivals:
            table.graphs.next_due = ran.due
            table.set_active(ran.count, ran.key - 1, ran.idle)
        # Stops of these two kinds are frequent; completions are reported in batches.
        if ran.removed and why not in (POLICY, PAUSED):
            self._report_removed()
        loop["idle"] = loop["ended"] = loop["decisions"] = 0
        if ran.admits_arrivals and not ran.removes_finished and why in (HELD, SHOWS):
            self._report_completed()
        if self.now > start or ran.decisions:
            self._watch(start, self.now, carried, ran.decisions)
        return int(why)

    def _report_removed(self) -> None:
        """Report completed coflows that the loop has removed from the rows."""
        if removed := int(self._loop["removed"][0]):
            self._completed(self._done[:removed].copy(), self._table.flows)
            self._loop["removed"] = 0

    def _report_completed(self) -> None:
        """Report completed coflows that are still in the rows."""
        rows = self._table.coflows
        completed = np.flatnonzero((rows["open"] == 0) & (rows["waited"] != REPORTED))
        if len(completed):
            self._completed(rows[completed], self._table.flows)
            rows["waited"][completed] = REPORTED
