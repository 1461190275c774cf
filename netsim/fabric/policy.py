"""The allocator of a fabric: the events it gets, and how it is asked, in Python or as a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netsim.announcing import telling_for
from netsim.errors import AllocationError
from netsim.fabric.allocation import Allocation, Event, as_event
from netsim.fabric.allocation_checker import AllocationChecker
from netsim.fabric.allocator import Allocator
from netsim.fabric.asking import Asking
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.rules import SOUND, UNSOUND, UNUSED
from netsim.fabric.labels import JobLabel
from netsim.fabric.ruling import RuleError, Ruling
from netsim.fabric.running import Running
from netsim.fabric.view import FabricView

_ALWAYS = int(Event.CAPACITY | Event.REVISIT | Event.JOB)

#: Events after which a policy is asked, whatever its last answer.
_AFRESH = int(Event.COFLOW_VALID | Event.COFLOW_DONE | Event.REVISIT | Event.JOB)


class Policy:
    """Asks an allocator for the rates of the flows in a table."""

    def __init__(self, allocator: Allocator, table: FlowTable, running: Running,
                 referee: AllocationChecker, job_of: Callable[[int], Any] = JobLabel) -> None:
        self.allocator, self.referee = allocator, referee
        self.title = f"allocator {allocator.title}"  #: in messages
        self._table, self._running, self._job_of = table, running, job_of
        self.hears = int(as_event(allocator.wakes_on)) | _ALWAYS  #: the events on which it is asked
        self.sees_running = allocator.sees_running
        self.answer: Allocation | None = None  #: the last; None for a rule in the loop
        rule = allocator.compiled_rule
        with telling_for(self.title):
            self._ruling = None if rule is None else Ruling(rule, table)
        #: The rule that the event loop asks, if the policy is one that gives an order, shares or
        #: queues.
        self.in_loop = self._ruling if rule is not None and rule.in_loop else None
        may_be_asked_ahead = (rule is None and allocator.asked_ahead and not self.sees_running
                              and self.hears & Event.COFLOW == Event.COFLOW)
        #: Asks the policy from the event loop, if it may be asked ahead of the clock.
        self.ahead = Asking(table, self._ask_ahead) if may_be_asked_ahead else None

    def view(self, table: FlowTable, now: float, happened: int) -> FabricView:
        """Return the allocator's view of a table."""
        return FabricView(table, now, self.allocator.information, Event(happened),
                          self._running if self.sees_running else None, self.title,
                          self._job_of)

    def stands(self, happened: int) -> bool:
        """Whether the last answer of the policy stands, because only capacities have changed.

        Rates, and shares of a policy in Python, which may exceed these capacities, do not stand.
        Nor do weights of flows, some of which may have ended since.
        """
        asks = _AFRESH | self.hears & Event.FLOW_DONE
        if happened & asks or not happened & Event.CAPACITY:
            return False
        if self.in_loop is not None:
            return self.in_loop.rule.gives != "shares"
        answer = self.answer
        return (answer is not None and answer.rates is None and answer.shares is None
                and np.ndim(0 if answer.weights is None else answer.weights) == 0)

    def ask(self, now: float, happened: int) -> Allocation:
        """Return the allocator's answer, after checking its form."""
        self.referee.asked_s = now
        if self._ruling is None:
            view = self.view(self._table, now, happened)
            try:
                self.answer = self.allocator.allocate(view)
            except AllocationError as error:  # of an answer that contradicts itself
                raise self.referee.refuse(f"cannot answer: {error}") from error
            self.referee.check(self.answer, view)
            return self.answer
        try:
            self._ruling.ask(now)
        except RuleError as error:
            raise self.referee.refuse(str(error)) from error
        self.answer = self._ruling.allocation()
        return self.answer

    def _ask_ahead(self, now: float) -> Allocation:
        return self.ask(now, Event.COFLOW_VALID | Event.COFLOW_DONE)

    def fault(self, ruling: Ruling, link: int) -> AllocationError | None:
        """Make the error for a fault that the event loop has found; None without one."""
        if link == SOUND:
            return None
        if link in (UNSOUND, UNUSED):
            return self.referee.refuse(ruling.wrong() if link == UNSOUND else ruling.unused())
        return self.referee.infeasible(ruling.given(link), link)

    def note(self) -> Mapping[str, float] | None:
        """The values that the policy inferred for its last decision."""
        if self._ruling is not None:
            return self._ruling.note
        return None if self.answer is None else self.answer.note
