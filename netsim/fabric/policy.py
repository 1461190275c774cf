"""The allocator of a fabric: its events, how it is asked, in Python or as a rule, and checked.

`RuleRunner` holds the arrays that a compiled rule reads and writes. `AheadRunner` asks a Python
policy that keeps coflows in step, at coflow events ahead of the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.compiling import Direct
from netsim.base.display import telling_for
from netsim.base.lazy import simpy
from netsim.errors import AllocationError
from netsim.fabric.allocation import (
    Allocation,
    Event,
    PriorityService,
    as_event,
    kinds_of,
    not_once,
)
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Alarm
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels import proportional, rules
from netsim.fabric.kernels.rules import NO_ORDER, RAISED, SOUND, UNSOUND, UNUSED
from netsim.fabric.rule import STRETCH, Rule
from netsim.fabric.rule_code import compiled_rule
from netsim.fabric.running import JobLabel, Running
from netsim.fabric.view import FabricView
from netsim.network import Topology

# --- what an allocation must not be --------------------------------------------------------

#: How many times in a row a policy may ask to be woken while flows have rates but no byte moves.
_MOST_VAIN = 1000

#: How many times in a row it may ask to be woken while no flow has a rate and nothing else is due.
_MOST_IDLE = 100_000


class AllocationChecker:
    """Checks the answers of an allocator, and makes errors that name it."""

    def __init__(self, env: simpy.Environment, network: Topology, allocator: Allocator,
                 table: FlowTable, alarm: Alarm) -> None:
        self._env, self._network, self._table, self._alarm = env, network, table, alarm
        self._name = allocator.title
        self._vain = 0
        self._left_then = b""
        self._idle = 0
        self._left_idle = b""
        self.asked_s = float(env.now)  #: when the policy was last asked

    @property
    def _now(self) -> float:
        """The time of the last decision if that is ahead of the clock; otherwise now."""
        return max(self._env.now, self.asked_s)

    def refuse(self, what: str) -> AllocationError:
        """Return an error that names the allocator, its fault and the time."""
        return AllocationError(f"allocator {self._name} at t = {self._now:g} s {what}")

    def check(self, allocation: Allocation, view: FabricView) -> None:
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


def weigh(table: FlowTable, allocation: Allocation, flows: int) -> str | None:
    """Set the weights of an allocation; return a description of what is wrong, if anything.

    There are `flows` unfinished flows.
    """
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
    light, heavy = (table.set_weights(given) if name == "weights" else table.split_weights(given))
    table.sharing.decide(allocation.decisions == "flow")
    if heavy > _MOST_RATIO * light:
        return (f"returned weights from {light:g} to {heavy:g}; the largest must not exceed "
                f"{_MOST_RATIO:g} times the least")
    return None


# --- a compiled rule at work ---------------------------------------------------------------

_decide = Direct(rules.decide)


class RuleError(Exception):
    """A fault of a rule; the fabric's error names the policy."""


class RuleRunner:
    """Calls a compiled rule for the coflows in a table."""

    def __init__(self, rule: Rule, table: FlowTable) -> None:
        self.rule = rule
        #: What kernels call; None if they ask Python instead.
        self._compiled = None if rule is _UNASKED else compiled_rule(rule)
        self._table = table
        queues = max(rule.queues, 1)
        primary, backfill = kinds_of("queues" if rule.gives == "queues" else "madd", rule.leftover)
        self._form = np.zeros(1, rules.RULE)
        for name, value in {
                "most": float(rule.gives == "order"), "by_place": rule.gives != "shares",
                "stretch": STRETCH[rule.stretch], "by_job": rule.ties == "job",
                "merges": rule.rounding, "primary": primary, "backfill": backfill,
                "queues": queues, "notes": len(rule.notes)}.items():
            self._form[name] = value
        self._reads = np.zeros(1, rules.READS)
        for name in ("now", *rule.reads):
            self._reads[name] = True
        initial = math.inf, *[0.0] * queues, *[math.nan] * len(rule.notes), *rule.options.values()
        self._scalars = np.array([initial, initial], np.float64)
        self._shared = proportional.new_shared_links(0, 0, 0)
        self._loads: NDArray[Any] | None = None
        self._make_room()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loads": None}  # a copied table has its own

    def forget(self) -> None:
        """Forget the active coflows: their rows may belong to others now."""
        self._loads = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep what the rule saw last within this context, so that it decides as it did."""
        self._reads, reads = np.zeros(1, rules.READS), self._reads
        try:
            yield
        finally:
            self._reads = reads

    def _make_room(self) -> None:
        """Allocate arrays with one place per row; columns that the rule does not read are NaN."""
        size = len(self._table.rows)
        self._coflows = _unknown(size, rules.COFLOWS)
        self._jobs = _unknown(len(self._table.jobs), rules.JOBS)
        self._values, self._lists = np.empty((7, size)), np.empty((4, size), np.int64)

    def state(self) -> rules.RuleState:
        """Return the rule for kernels, with room for all rows of the table."""
        if len(self._table.rows) > len(self._coflows) or len(self._table.jobs) > len(self._jobs):
            before = self._coflows, self._jobs, self._values, self._lists
            self._make_room()
            after = self._coflows, self._jobs, self._values, self._lists
            for old, new in zip(before, after, strict=True):
                new[..., :old.shape[-1]] = old  # the decision stays in force
        return rules.RuleState(self._compiled, self._form, self._reads, self._coflows, self._jobs,
                               self._values, self._lists, self._scalars)

    def engine(self, check: bool) -> proportional.ProportionalState:
        """Return the engine for the event loop."""
        state, table = self.state(), self._table
        self._form["check"] = check
        rows, loads, links = len(self._coflows), table.loads, len(table.capacity)
        if (self._loads is not loads or len(self._shared.coflows) < rows
                or len(self._shared.links) < links):  # rows have moved, or there are more
            self._loads = loads
            self._shared = proportional.new_shared_links(rows, len(loads), links)
        return proportional.ProportionalState(state, self._shared, table.used)

    def ask(self, now: float) -> None:
        """Ask the rule; see `kernels.rules.decide`.

        A `RuleError` says that the rule fails, or writes an invalid answer.
        """
        table = self._table
        if self.rule.needs_gammas:
            table.refresh()
        # The clock of an environment of the user's may say a whole number.
        wrong = _decide(None, self.state(), table.coflows, table.jobs, float(now))
        if fault := self.fault(wrong) or self.unused():
            raise RuleError(fault)

    def unused(self) -> str:
        """Describe fields that a rule has written but that its form ignores; "" if none."""
        rule, order = self.rule, self._output
        lost = []
        if rule.gives in ("weights", "flows") and np.isfinite(order.limit).any():
            lost.append(("limit", "an order, shares or queues"))
        if not rule.in_step and (order.share.any() or (
                rule.gives == "order" and (order.most < 1).any())):
            lost.append(("share or most", "shares, or an order of which nothing is left over"))
        for name, what in lost:
            return (f"has a rule ({rule.place}) that has written {name}, which goes with {what}, "
                    f"but it gives {rule.gives}"
                    + (f" with leftover={rule.leftover!r}" if rule.leftover != "none" else ""))
        return ""

    def answer(self, now: float) -> bool:
        """Prepare the loop's next decision; the loop itself calls rules, but no Python policy."""
        raise NotImplementedError

    def fault(self, link: int) -> str:
        """Describe the fault of the rule that a kernel has found; "" if it has found none."""
        if link == rules.SOUND:
            return ""
        if link == rules.RAISED:
            return self._raised()
        return self.wrong() if link == rules.UNSOUND else self.unused()

    def _raised(self) -> str:
        """Call the rule again as the kernel has called it, for its exception."""
        count = len(self._table.coflows)
        try:
            assert self._compiled is not None
            self._compiled.call(self._coflows[:count], self._jobs, float(self._form["told"][0]),
                                self._output)
        except IndexError:
            return ("has a rule that reads or writes beyond its arrays, of "
                    f"{count} coflows ({self.rule.place})")
        except Exception as error:
            return f"has a rule that raised {error!r} ({self.rule.place})"
        return f"has a rule that raised an exception, but not again ({self.rule.place})"

    # --- what it has said -----------------------------------------------------------

    @property
    def _output(self) -> rules.RuleOutput:
        """What the rule has written for the active coflows, as `rules.output_of` gives it."""
        count, written = len(self._table.coflows), self._scalars[rules.WRITTEN]
        key, tie, share, most, weight, _, limit = self._values[:, :count]
        notes = 1 + max(self.rule.queues, 1)
        options = notes + len(self.rule.notes)
        return rules.RuleOutput(key, tie, share, most, weight, self._lists[rules.QUEUE][:count],
                                limit, written[1:notes], written[:1], written[notes:options],
                                written[options:])

    @property
    def _sequence(self) -> NDArray[np.int64]:
        """The active coflows, in the order of the last decision."""
        return self._lists[rules.SEQUENCE][:len(self._table.coflows)]

    @property
    def limit(self) -> NDArray[np.float64]:
        """Bytes sent at which each coflow's rule is called again. Shape (active coflows,)."""
        return self._values[rules.LIMIT][:len(self._table.coflows)]

    @property
    def shares(self) -> NDArray[np.float64]:
        """The shares of the last decision. Shape (active coflows,)."""
        return self._values[rules.SHARE][:len(self._table.coflows)]

    def given(self, link: int) -> NDArray[Any]:
        """The part of the answer that has a fault: an order, or shares."""
        return self._sequence if link == rules.NO_ORDER else self.shares

    @property
    def note(self) -> Mapping[str, float] | None:
        """The values that the rule has written for its last decision, without unwritten ones."""
        kinds = self.rule.notes
        return {name: kind(value) for (name, kind), value in zip(
            kinds.items(), self._output.note.tolist(), strict=True)
            if not math.isnan(value)} or None if kinds else None

    def allocation(self) -> Allocation:
        """Return the last decision in the form in which a Python policy would return it.

        Shares or a service that follow from an order come with that order, which is all that the
        rule itself has decided.
        """
        allocation = self._allocation()
        if self.rule.gives == "order" and allocation.order is None:
            allocation.order = self._sequence.copy()
        return allocation

    def _allocation(self) -> Allocation:
        rule, order = self.rule, self._output
        asks_at: dict[str, Any] = {"revisit_at": self.wake_at, "note": self.note}
        if rule.in_step and self._is_plain(order):
            return Allocation(order=self._sequence.copy(), **asks_at)
        if rule.in_step:
            self.forget()
            engine, table = self.engine(True), self._table
            proportional.update(engine.shared, table.coflows, table.loads, table.capacity)
            proportional.share_out(engine, len(table.coflows))
            return Allocation(shares=self.shares.copy(), **asks_at)
        if rule.gives == "weights":
            return Allocation(coflow_weights=order.weight.copy(), **asks_at)
        sequence = self._sequence.copy()
        if rule.gives == "order" and np.isinf(order.limit).all():
            return Allocation(order=sequence, leftover=rule.leftover, **asks_at)
        return Allocation(service=self._service(sequence, order), **asks_at)

    def _is_plain(self, order: rules.RuleOutput) -> bool:
        """Whether the answer is an order and nothing else."""
        return (self.rule.gives == "order" and self.rule.stretch == "none"
                and not order.share.any() and bool((order.most == 1).all()))

    @property
    def wake_at(self) -> float:
        """The latest time at which the rule must be called again, in seconds; inf if none."""
        return float(self._scalars[rules.WRITTEN, 0])

    def _service(self, sequence: NDArray[np.int64], order: rules.RuleOutput) -> PriorityService:
        rule = self.rule
        if rule.gives == "flows":
            return PriorityService(sequence, backfill="greedy", by_size=True)
        limit, queue = order.limit.copy(), order.queue.copy()
        if rule.gives == "order":
            return PriorityService(sequence, primary="madd", backfill=rule.leftover, limit=limit)
        return PriorityService(sequence[np.argsort(queue[sequence], kind="stable")],
                               primary="queues", backfill=rule.leftover, queue=queue,
                               queue_shares=order.part.copy(), limit=limit)

    def wrong(self) -> str:
        """Describe the fault in the rule's last answer."""
        field, at = int(self._form["field"][0]), int(self._form["place"][0])
        name = rules.RuleOutput._fields[field]
        value = self._output[field][at].item()
        if name == "wake_at":
            return f"has a rule ({self.rule.place}) that asks to be woken at {value!r} s, which " \
                   "is not after now"
        return (f"has a rule ({self.rule.place}) that has written {value!r} as {name}[{at}]; "
                + _ALLOWED[name])


_ALLOWED = {"key": "it must be a number", "tie": "it must be a number",
            "limit": "it must be a number of bytes",
            "share": "it must be finite and not negative", "most": "it must be from 0 to 1",
            "weight": "it must be finite and more than 0",
            "queue": "it must be the number of one of the rule's queues, from 0",
            "part": "parts are from 0 to 1, and add up to 1 at most"}


def _unknown(size: int, kind: np.dtype[Any]) -> NDArray[Any]:
    rows = np.zeros(size, kind)
    for name in kind.names or ():
        rows[name] = np.nan if kind[name].kind == "f" else -1
    return rows


# --- a Python policy, ahead of the clock ---------------------------------------------------
def _none(coflows: object, jobs: object, now: float, order: object) -> None:
    """Stand in for a compiled rule; `AheadRunner.answer` asks the policy instead."""


#: In place of the rule of a policy that is asked in Python.
_UNASKED = Rule(_none)


class AheadRunner(RuleRunner):
    """Stores the answers of a Python policy where the event loop expects those of a compiled rule.

    ``ask(now)`` must return the policy's answer, checked.
    """

    def __init__(self, table: FlowTable, ask: Callable[[float], Allocation]) -> None:
        super().__init__(_UNASKED, table)
        self._ask = ask
        #: An answer that does not keep coflows in step, so that the event loop must stop.
        self.pending: Allocation | None = None
        self._given: Allocation | None = None

    def answer(self, now: float) -> bool:
        """Ask the policy for the next decision; return whether the event loop can apply it."""
        allocation = self._ask(now)
        if allocation.in_step:
            self.take(allocation)
            return True
        self.pending = allocation
        return False

    def take(self, allocation: Allocation) -> None:
        """Store an answer that keeps coflows in step, for the next decision."""
        self._given = allocation

    def engine(self, check: bool) -> proportional.ProportionalState:
        """Return the engine as `RuleRunner.engine` does, with the stored answer, if any, in it."""
        engine, given = super().engine(check), self._given
        if given is None:
            return engine
        self._given = None
        count, values = len(self._table.coflows), self._values
        sequence = self._lists[rules.SEQUENCE]
        self._scalars[rules.WRITTEN, 0] = given.revisit_at
        values[rules.LIMIT, :count] = np.inf
        if given.shares is not None:
            values[rules.SHARE, :count], values[rules.MOST, :count] = given.shares, 0.0
            sequence[:count] = np.arange(count)
        else:
            assert given.order is not None
            values[rules.SHARE, :count], values[rules.MOST, :count] = 0.0, 1.0
            sequence[:count] = given.order
        self._form["answered"] = 1
        return engine


# --- the allocator of a fabric -------------------------------------------------------------

_ALWAYS = int(Event.CAPACITY | Event.REVISIT | Event.JOB)

#: Events after which a policy is asked, whatever its last answer.
_AFRESH = int(Event.COFLOW_VALID | Event.COFLOW_DONE | Event.REVISIT | Event.JOB)


class PolicyRunner:
    """Asks an allocator for the rates of the flows in a table."""

    def __init__(self, allocator: Allocator, table: FlowTable, running: Running | None,
                 checker: AllocationChecker, job_of: Callable[[int], Any] = JobLabel) -> None:
        self.allocator, self.checker = allocator, checker
        self.title = f"allocator {allocator.title}"  #: in messages
        self._table, self._job_of = table, job_of
        self.hears = int(as_event(allocator.wakes_on)) | _ALWAYS  #: the events on which it is asked
        self.sees_running = running is not None
        self._running = running
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
                              and self.hears & Event.COFLOW == Event.COFLOW)
        #: Asks the policy from the event loop, if it may be asked ahead of the clock.
        self.ahead = AheadRunner(table, self._ask_ahead) if may_be_asked_ahead else None

    def view(self, table: FlowTable, now: float, happened: int) -> FabricView:
        """Return the allocator's view of a table."""
        return FabricView(table, now, self.allocator.information, Event(happened),
                          self._running, self.title,
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
        self.checker.asked_s = now
        if self._runner is None:
            view = self.view(self._table, now, happened)
            try:
                self.answer = self.allocator.allocate(view)
            except AllocationError as error:  # of an answer that contradicts itself
                raise self.checker.refuse(f"cannot answer: {error}") from error
            self.checker.check(self.answer, view)
            return self.answer
        try:
            self._runner.ask(now)
        except RuleError as error:
            raise self.checker.refuse(str(error)) from error
        self.answer = self._runner.allocation()
        return self.answer

    def _ask_ahead(self, now: float) -> Allocation:
        return self.ask(now, Event.COFLOW_VALID | Event.COFLOW_DONE)

    def fault(self, runner: RuleRunner, link: int) -> AllocationError | None:
        """Make the error for a fault that the event loop has found; None without one."""
        if link == SOUND:
            return None
        if link in (UNSOUND, UNUSED, RAISED):
            return self.checker.refuse(runner.fault(link))
        return self.checker.infeasible(runner.given(link), link)

    def note(self) -> Mapping[str, float] | None:
        """The values that the policy inferred for its last decision."""
        if self._runner is not None:
            return self._runner.note
        return None if self.answer is None else self.answer.note
