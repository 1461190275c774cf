"""The clock of a run, when events are noticed, the alarm, and coflows that processes wait for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from heapq import heappush
from itertools import count
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.lazy import simpy
from netsim.errors import InputError, closed_by, interruption_of
from netsim.fabric.allocator import Undecided
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.graphs import observed
from netsim.fabric.kernels.loop import NOTICE_SLACK
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.ties import is_now

#: SimPy's usual priority of events; then, at the same instant and after the fabric's alarms, jobs
#: that lose their hosts, decisions about jobs, and what comes after all else.
_NORMAL, LOSSES, DECISIONS, LAST = 1, 3, 4, 5


class Clock(simpy.Environment):
    """An environment that `copy.deepcopy` can copy together with netsim's own events.

    These events hold bound methods and plain data, so a copy shares nothing with the original.
    """

    def __getstate__(self) -> dict[str, Any]:
        for *_, event in self._queue:
            _refuse_what_a_user_waits_for(event)
        return self.__dict__ | {"_eid": next(self._eid)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Python has no copies of a `count` from 3.14 on.
        self.__dict__.update(state, _eid=count(state["_eid"]))

    def stopped(self) -> Clock:
        """Return a clock at the same time, without events."""
        return Clock(self.now)


def _refuse_what_a_user_waits_for(event: simpy.Event) -> None:
    """Refuse to copy an event that Python cannot copy, or that the copy would share unnoticed."""
    waiting = [getattr(each, "__self__", None) for each in event.callbacks or ()]
    for each in (event, *waiting):
        if isinstance(each, simpy.Process):
            raise InputError(f"process {each.name!r} is in the environment of the run, and Python "
                             "cannot copy a generator: a run with processes of a user's own "
                             "cannot be forked")
    for callback in event.callbacks or ():
        called = callback.func if isinstance(callback, partial) else callback
        if isinstance(called, FunctionType) and called.__closure__:
            raise InputError(f"an event in the environment of the run calls "
                             f"{called.__qualname__!r}, which keeps variables that a fork would "
                             "share with its origin; let it call a method of an object")


def call_at(env: simpy.Environment, at: float, act: Callable[[simpy.Event], None] | None = None,
            priority: int = _NORMAL) -> None:
    """Call a function with a SimPy event at a given time, or now if that time is over.

    Without a function, the event only keeps the fabric from running past that time.
    """
    event = simpy.Event(env)
    event._ok, event._value = True, None
    if act is not None:
        event.callbacks.append(act)
    # SimPy would add a delay to now, and not every instant is a sum of that kind.
    heappush(env._queue, (max(at, env.now), priority,  # type: ignore[misc]
                          next(env._eid), event))


def call_last(env: simpy.Environment, act: Callable[[simpy.Event], None], priority: int,
              event: simpy.Event) -> None:
    """Call a function with an event that happens now, once no later one is left at this instant.

    Instants that differ by rounding are one, so another event may still come a little later.
    """
    later = _next_later(env)
    if is_now(later, env.now):
        call_at(env, later, partial(call_last, env, act, priority), priority)
    else:
        act(event)


def _next_later(env: simpy.Environment) -> float:
    """Return the first time later than now at which an event happens; inf if there is none."""
    queue, later, places = env._queue, math.inf, [0]
    for place in places:  # the list grows: below an event in a heap are later ones only
        if place < len(queue):
            at = queue[place][0]
            if at > env.now:
                later = min(later, at)
            else:
                places += 2 * place + 1, 2 * place + 2
    return later


# --- when events are noticed ---------------------------------------------------------------
class HasClock(Protocol):
    """Anything with a time, such as SimPy's environment."""

    @property
    def now(self) -> float: ...


class Grid:
    """Computes when events are noticed: at multiples of `interval` seconds, at once if it is 0."""

    def __init__(self, interval: float, env: HasClock) -> None:
        self.interval = interval
        self._env = env

    def observed(self, at: float) -> float:
        """Return the time at which an event at `at` is noticed."""
        noticed: float = observed.py_func(at, self.interval, self._env.now)
        return noticed

    def slack(self) -> float:
        """Return by how many seconds an event may lie in the future and still count as due now."""
        return max(NOTICE_SLACK * self.interval, 4 * math.ulp(self._env.now))

    def due(self, at: float, since: float = -math.inf) -> float:
        """Return when to act on an event: at `at`, or, if that is over, at the next instant.

        A time is over if it is noticed no later than now or `since`.
        """
        now = max(self._env.now, since)
        if at < math.inf and self.observed(at) <= now:
            return max(now + self.interval, math.nextafter(now, math.inf))
        return at


# --- the alarm -----------------------------------------------------------------------------

#: After everything else at its instant, so that one decision sees all of an instant's events.
_LATE = 2


class Alarm:
    """An alarm that rings at the earliest of the times set since it last rang.

    A scheduled SimPy event cannot be cancelled. If it is later than a newly set time, an earlier
    event is scheduled as well; otherwise no event is added, so few are ever pending. If `ring`
    fails, the fabric has been left in the middle of an instant, and is closed.
    """

    def __init__(self, env: simpy.Environment, ring: Callable[[], None]) -> None:
        self._env = env
        self._ring = ring
        self._at = math.inf
        self._set: list[float] = []
        self._closed = ""  # why

    @property
    def alone(self) -> bool:
        """Whether the environment has no other event than this alarm."""
        return len(self._env._queue) == len(self._set)

    def set(self, at: float) -> None:
        """Ring at `at`, in seconds, unless the alarm rings earlier anyway."""
        self._at = min(self._at, at)
        self._arm()

    def _arm(self) -> None:
        if self._set and self._set[-1] <= self._at:
            return
        self._set.append(self._at)
        call_at(self._env, self._at, self._on_event, _LATE)

    def _on_event(self, _: simpy.Event) -> None:
        if self._set.pop() < self._at:
            if self._at < math.inf:
                self._arm()
            return
        self._at = math.inf
        self.check_open()
        with self.closing(Undecided):
            self._ring()

    @contextmanager
    def closing(self, *unless: type[Exception]) -> Iterator[None]:
        """Close the fabric if the body of this context fails with an error other than these."""
        try:
            yield
        except unless:
            raise
        except BaseException as error:
            self._closed = closed_by("fabric", interruption_of(error) or error, self._env.now,
                                     "Make a new environment, and a new fabric in it.")
            self.set(self._env.now)  # so that running the environment again is an error
            raise

    def check_open(self) -> None:
        """Raise an error if an earlier one has closed the fabric."""
        if self._closed:
            raise InputError(self._closed)


# --- coflows that processes wait for -------------------------------------------------------
class CoflowEvent(simpy.Event):
    """A submitted coflow: an event that fires when its completion is noticed.

    `done`, if given, is called with the coflow instead, which saves SimPy a step.
    """

    def __init__(self, env: simpy.Environment, job: int, order: int, demand: RoutedCoflow,
                 done: Callable[[CoflowEvent], None] | None = None) -> None:
        super().__init__(env)
        self._done = done
        self.job = job  #: numbered by (arrival, id)
        self.order = order  #: its place among the coflows of its job, which breaks ties
        self.demand = demand
        self.valid_s = float(env.now)  #: when its stage became valid
        self.begin_s = self.valid_s + demand.overhead_s  #: when it can send
        #: When its first byte was sent, its last byte was sent, and its last byte arrived; NaN
        #: until then.
        self.start_s = self.sent_s = self.finish_s = math.nan
        self.key = 0  #: of its row in the fabric's table, once it has one

    def complete_at_once(self) -> None:
        """Complete the coflow in a separate SimPy step.

        A long chain of coflows without bytes would otherwise exceed Python's recursion limit.
        """
        if self._done is not None:
            self.callbacks.append(self._done)
        self.succeed(self)

    def complete(self) -> None:
        """Fire the event, or call `done`."""
        if self._done is None:
            self.succeed(self)
        else:
            self._done(self)


class ActiveCoflows:
    """The submitted coflows of a fabric.

    A coflow first waits until its overhead is over. It is then active until it has sent its last
    byte, and in transit until that byte has arrived.
    """

    def __init__(self, table: FlowTable, env: simpy.Environment) -> None:
        self._table, self._env = table, env
        self._waiting: dict[CoflowEvent, None] = {}
        self._submitted: list[CoflowEvent] = []
        self.active: dict[int, CoflowEvent] = {}  #: by the keys of their rows
        self._on_their_way: dict[CoflowEvent, None] = {}

    def wait(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None]) -> None:
        """Hold a coflow during its overhead; call `begin` with it when the overhead is over."""
        self._waiting[transfer] = None
        call_at(self._env, transfer.begin_s, partial(self._begin, transfer, begin))

    def _begin(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None], _: Any) -> None:
        if _taken(self._waiting, transfer):
            begin(transfer)

    def submit(self, transfer: CoflowEvent) -> None:
        """Add a coflow that becomes active at the fabric's next decision."""
        self._submitted.append(transfer)

    def send_last(self, transfer: CoflowEvent, arrival: float) -> None:
        """Hold a coflow that has sent its last byte; complete it when that byte arrives."""
        self._on_their_way[transfer] = None
        call_at(self._env, arrival, partial(self._arrive, transfer))

    def _arrive(self, transfer: CoflowEvent, _: Any) -> None:
        if _taken(self._on_their_way, transfer):
            transfer.complete()

    def has_sent_all(self, transfer: CoflowEvent, table: FlowTable) -> bool:
        """Whether a coflow has sent its last byte, according to a table that is up to date."""
        rows = table.coflows
        return transfer in self._on_their_way or bool(
            (rows["open"][rows["key"] == transfer.key] == 0).any())

    def admit(self, now: float) -> None:
        """Activate the submitted coflows and others that are valid, in order of (job, order)."""
        table = self._table
        for transfer in self._in_order():
            table.admit(now, transfer.job)
            transfer.key = table.add(transfer.demand, transfer.job, transfer.begin_s,
                                     transfer.order)
            self.active[transfer.key] = transfer
        self._submitted.clear()

    def _in_order(self) -> list[CoflowEvent]:
        return sorted(self._submitted, key=lambda transfer: (transfer.job, transfer.order))

    def all_in(self, table: FlowTable) -> list[CoflowEvent | None]:
        """Add the submitted coflows to a copy of the table; return all its active coflows in order.

        Coflows that no process has submitted are None.
        """
        active = [self.active.get(key) for key in table.coflows["key"].tolist()]
        for transfer in self._in_order():
            table.add(transfer.demand, transfer.job, transfer.begin_s, transfer.order)
            active.append(transfer)
        return active

    def withdraw(self, transfer: CoflowEvent) -> Floats:
        """Remove a coflow that is not complete; return the bytes left of each flow.

        Sets its `start_s` if it is active. Bytes that are still in transit are lost.
        """
        if _taken(self._on_their_way, transfer):
            return np.zeros(len(transfer.demand.flows))
        if transfer.key not in self.active:
            if not _taken(self._waiting, transfer):
                self._submitted.remove(transfer)
            return np.array(transfer.demand.flows["size"])
        del self.active[transfer.key]
        rows = self._table.coflows
        start = float(rows["start"][rows["key"] == transfer.key][0])
        transfer.start_s = math.nan if start < 0 else start
        return self._table.withdraw(transfer.key)

    def reroute(self, demands: Mapping[CoflowEvent, RoutedCoflow]) -> None:
        """Move active coflows to the links of the given demands, which have the same flows."""
        for transfer, demand in demands.items():
            if transfer in self._on_their_way:
                continue
            # In records as in the view, its gamma is as of the time when it became valid.
            transfer.demand = replace(demand, gamma=transfer.demand.gamma)
            if transfer.key in self.active:
                self._table.reroute(transfer.key, demand)

    def all(self) -> list[CoflowEvent]:
        """Return all coflows that are not complete."""
        return [*self._waiting, *self._submitted, *self.active.values(), *self._on_their_way]

    def waiting(self) -> list[tuple[int, float, float]]:
        """Return job, valid time and deadline of coflows that are neither active nor complete."""
        return [(each.job, each.valid_s, each.valid_s + each.demand.deadline_s)
                for each in (*self._waiting, *self._submitted, *self._on_their_way)]


def _taken(transfers: dict[CoflowEvent, None], transfer: CoflowEvent) -> bool:
    """Remove a coflow from a collection; return whether it was there."""
    found = transfer in transfers
    transfers.pop(transfer, None)
    return found
