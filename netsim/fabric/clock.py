"""The clock of a run, and the fabric's one alarm on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import heappush
from itertools import count
from types import FunctionType
from typing import Any

from netsim.base.lazy import simpy
from netsim.errors import InputError, closed_by, interruption_of
from netsim.fabric.allocator import Undecided
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
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(self._on_event)
        # SimPy would add a delay to now, and not every instant is a sum of that kind.
        heappush(self._env._queue, (max(self._at, self._env.now), _LATE,  # type: ignore[misc]
                                    next(self._env._eid), event))

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
