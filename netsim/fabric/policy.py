"""The allocator of a fabric: how it is asked, in Python or as a rule, and its answers checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.display import telling_for
from netsim.base.lazy import simpy
from netsim.errors import AllocationError
from netsim.fabric.allocation import Allocation, Event, as_event, not_once
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Alarm
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.rules import NO_ORDER, SOUND
from netsim.fabric.rule_code import AheadRunner, RuleError, RuleRunner
from netsim.fabric.running import Running
from netsim.fabric.view import FabricView
from netsim.network import Topology

#: How many times in a row a policy may ask to be woken while flows have rates but no byte moves.
_MOST_VAIN = 1000

#: How many times in a row it may ask to be woken while no flow has a rate and nothing else is due.
_MOST_IDLE = 100_000

_ALWAYS = int(Event.CAPACITY | Event.REVISIT | Event.JOB)

#: Events after which a policy is asked, whatever its last answer.
_AFRESH = int(Event.COFLOW_VALID | Event.COFLOW_DONE | Event.REVISIT | Event.JOB)


class PolicyRunner:
    """Asks an allocator for the rates of the flows in a table, and checks its answers."""

    def __init__(self, env: simpy.Environment, network: Topology, allocator: Allocator,
                 table: FlowTable, alarm: Alarm, running: Running | None,
                 job_of: Callable[[int], Any]) -> None:
        self._env, self._network, self._table, self._alarm = env, network, table, alarm
        self.allocator, self._job_of = allocator, job_of
        self.title = f"allocator {allocator.title}"  #: in messages
        #: The events on which it is asked.
        self.wake_mask = int(as_event(allocator.wakes_on)) | _ALWAYS
        self.sees_running, self._running = running is not None, running
        self.asked_s = float(env.now)  #: when it was last asked, in seconds
        self._vain = self._idle = 0
        self._left_then = self._left_idle = b""
        self.answer: Allocation | None = None  #: the last; None for a rule in the loop
        rule = allocator.compiled_rule
        self._runner: RuleRunner | None = None
        if rule is not None:
            with telling_for(self.title):
                self._runner = RuleRunner(rule, table)
        #: The rule that the event loop asks, if the policy is one that gives an order, shares or
        #: queues.
        self.in_loop = self._runner if rule is not None and rule.in_loop else None
        may_be_asked_ahead = (rule is None and allocator.asked_ahead and not self.sees_running
                              and self.wake_mask & Event.COFLOW == Event.COFLOW)
        #: Asks the policy from the event loop, if it may be asked ahead of the clock.
        self.ahead = AheadRunner(table, self._ask_ahead) if may_be_asked_ahead else None

    def view(self, table: FlowTable, now: float, happened: int) -> FabricView:
        """Return the allocator's view of a table."""
        return FabricView(table, now, self.allocator.information, Event(happened),
                          self._running, self.title, self._job_of)

    def stands(self, happened: int) -> bool:
        """Whether the last answer of the policy stands, because only capacities have changed.

        Rates, and shares of a policy in Python, which may exceed these capacities, do not stand.
        Nor do weights of flows, some of which may have ended since.
        """
        asks = _AFRESH | self.wake_mask & Event.FLOW_DONE
        if happened & asks or not happened & Event.CAPACITY:
            return False
        if self.in_loop is not None:
            return self.in_loop.rule.gives != "shares"
        answer = self.answer
        return (answer is not None and answer.rates is None and answer.shares is None
                and np.ndim(0 if answer.weights is None else answer.weights) == 0)

    def ask(self, now: float, happened: int) -> Allocation:
        """Return the allocator's answer, after checking its form."""
        self.asked_s = now
        if self._runner is None:
            view = self.view(self._table, now, happened)
            try:
                self.answer = self.allocator.allocate(view)
            except AllocationError as error:  # of an answer that contradicts itself
                raise self.refuse(f"cannot answer: {error}") from error
            self._check(self.answer, view)
            return self.answer
        try:
            self._runner.ask(now)
        except RuleError as error:
            raise self.refuse(str(error)) from error
        self.answer = self._runner.allocation()
        return self.answer

    def _ask_ahead(self, now: float) -> Allocation:
        return self.ask(now, Event.COFLOW_VALID | Event.COFLOW_DONE)

    def fault(self, runner: RuleRunner, link: int) -> AllocationError | None:
        """Make the error for a fault that the event loop has found; None without one."""
        if link == SOUND:
            return None
        if said := runner.fault(link):
            return self.refuse(said)
        return self.infeasible(runner.given(link), link)

    def note(self) -> Mapping[str, float] | None:
        """The values that the policy inferred for its last decision."""
        if self._runner is not None:
            return self._runner.note
        return None if self.answer is None else self.answer.note

    # --- what an answer must not be --------------------------------------------------

    @property
    def _now(self) -> float:
        """The time of the last decision if that is ahead of the clock; otherwise now."""
        return max(self._env.now, self.asked_s)

    def refuse(self, what: str) -> AllocationError:
        """Return an error that names the allocator, its fault and the time."""
        return AllocationError(f"{self.title} at t = {self._now:g} s {what}")

    def _check(self, allocation: Allocation, view: FabricView) -> None:
        """Raise an error unless the answer is an allocation that this policy may give now."""
        if not isinstance(allocation, Allocation):
            raise self.refuse(f"returned {type(allocation).__name__}, not an Allocation")
        at = allocation.revisit_at
        if not (isinstance(at, float | int) and at > self._now):
            raise self.refuse(f"asks to be woken at {at!r} s, which is not after now, "
                              f"{self._now!r} s")
        if view.uses_sizes(allocation):
            raise self.refuse("returned shares or MADD, which use sizes, but it declares that "
                              'it is agnostic')
        if misfit := allocation.misfit(len(view), view.flows):
            raise self.refuse(misfit)

    def infeasible(self, given: NDArray[Any], link: int) -> AllocationError:
        """Make the error for an overloaded link, or for invalid values if `link` is negative.

        These are an order if `link` is `NO_ORDER`, and else rates, shares or weights.
        """
        if link == NO_ORDER:
            return self.refuse(not_once(given))
        if link < 0:
            bad = given[~(np.isfinite(given) & (given >= 0))][0]
            return self.refuse(f"returned {bad!r}; rates, shares and weights must be "
                               "finite and not negative")
        return self.refuse(
            f"overloads link {self._network.link_names[link]!r}: it would carry "
            f"{self._table.used[link]:.6g} of {self._table.capacity[link]:.6g} bytes/s")

    def see_progress(self, asked: bool, next_end: float) -> bool:
        """Raise an error if no byte moves although the policy asks to be woken again and again.

        Return whether waking the policy is pointless: all coflows need dead links, and no event is
        due.
        """
        self._vain = self._vain + 1 if asked else 0
        if asked and next_end == math.inf == self._table.next_arrival and self._alarm.alone:
            self._table.refresh()
            self._see_idleness()
            return bool(np.isinf(self._table.coflows["gamma"]).all())
        self._idle = 0
        if self._vain % _MOST_VAIN or not asked:
            return False
        left, self._left_then = self._left_then, self._table.bytes_left().tobytes()
        if self._left_then == left and next_end < math.inf:
            raise self.refuse(f"has asked to be woken {_MOST_VAIN} times in a row, so soon that "
                              "rates of its own did not move a byte")
        return False

    def _see_idleness(self) -> None:
        """Raise an error if a policy lets no coflow send, and asks to be woken without end."""
        self._idle += 1
        if self._idle == 1:
            self._left_idle = self._table.bytes_left().tobytes()
        elif self._idle > _MOST_IDLE:
            if self._table.bytes_left().tobytes() == self._left_idle:
                raise self.refuse(f"has asked to be woken {_MOST_IDLE:,} times in a row and lets "
                                  "nobody move, and nothing else will happen")
            self._idle = 0


# --- weights -------------------------------------------------------------------------------
#: Of weights that are further apart, the small ones would be lost in sums with the large ones.
_MOST_RATIO = 1e12


def weigh(table: FlowTable, allocation: Allocation) -> str | None:
    """Set the weights of an allocation; return a description of what is wrong, if anything."""
    flows = int(table.coflows["open"].sum())
    if allocation.coflow_weights is not None:
        given, wanted, name = allocation.coflow_weights, len(table.coflows), "coflow_weights"
        allowed = np.isfinite(given) & (given > 0)
    else:
        assert allocation.weights is not None
        given, wanted, name = allocation.weights, flows, "weights"
        if given.ndim == 0:  # if it stands for all, it may as well be 1
            given = np.full(flows, 1.0 if allocation.persistent else given)
        allowed = np.isfinite(given) & (given >= 0)
    if given.shape != (wanted,):
        return f"returned {name} of shape {given.shape}, not ({wanted},)"
    if not allowed.all():
        return (f"returned {given[~allowed][0]!r}; {name} must be finite and "
                + ("more than 0" if name == "coflow_weights" else "not negative"))
    light, heavy = table.set_weights(given, split=name == "coflow_weights")
    table.sharing.decide(allocation.decisions == "flow")
    if heavy > _MOST_RATIO * light:
        return (f"returned weights from {light:g} to {heavy:g}; the largest must not exceed "
                f"{_MOST_RATIO:g} times the least")
    return None
