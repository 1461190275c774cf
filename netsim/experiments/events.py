"""What happens to a run from outside: links change their capacities, and it is ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from netsim.checks import check_sequence
from netsim.errors import InputError
from netsim.network import Topology
from netsim.units import Quantity, parse_rate, parse_seconds

__all__ = ["CapacityEvent", "changes_of", "end_at"]

#: After all else at its instant, the fabric's decision included.
_LAST = 3


@dataclass(frozen=True)
class CapacityEvent:
    """A link's capacity changes during a run: degradation, failure (0) or repair.

    Parameters
    ----------
    at : quantity
        When: ``"5s"``, or seconds.
    link : str or int
        Name or id.
    capacity : quantity
        From then on: ``"1Gbps"``, or bytes per second. 0 is a failure.
    """

    at: Quantity
    link: str | int
    capacity: Quantity


def changes_of(events: Sequence[CapacityEvent | Mapping[str, Any]], network: Topology
               ) -> list[tuple[float, int, float]]:
    """Return events as (seconds, link id, bytes per second), in order of time.

    Raises
    ------
    InputError
        If one is no event, or of a link that there is not.
    """
    given = check_sequence(events, CapacityEvent | Mapping, "events", "CapacityEvent or mappings")
    return sorted((_resolve(event, network) for event in given), key=lambda change: change[0])


def _resolve(event: CapacityEvent | Mapping[str, Any], network: Topology
             ) -> tuple[float, int, float]:
    """Return an event as (seconds, link id, bytes per second)."""
    if isinstance(event, Mapping):
        try:
            event = CapacityEvent(**event)
        except TypeError:
            raise InputError("a capacity event has the keys at, link and capacity, not "
                             + ", ".join(map(str, event))) from None  # type: ignore[arg-type]
    return (parse_seconds(event.at, "event: at"), network.link(event.link),
            parse_rate(event.capacity, "event: capacity"))


def end_at(env: simpy.Environment, limit: float) -> None:
    """See that a fabric does not run ahead of the end, even if it decides right then."""
    end = simpy.Event(env)
    end._ok, end._value = True, None
    env.schedule(end, _LAST, limit - env.now)  # type: ignore[arg-type]
