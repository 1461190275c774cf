"""How a run's allocator shared leftover bandwidth, and on which events it decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.fabric.allocation import Allocation, Event, as_event

if TYPE_CHECKING:
    from netsim.fabric.fabric_process import FabricProcess


def _given_by(answer: Allocation | None) -> str:
    """Return the word for leftover bandwidth that an allocation itself gives; empty if none."""
    if answer is None:
        return ""
    if answer.service is not None:
        return answer.service.backfill
    return "none" if answer.order is not None else ""


def leftover_of(fabric: FabricProcess) -> dict[str, str]:
    """Describe how an allocator shares leftover bandwidth, and on which events it decides.

    ``"leftover"``, such as ``"maxmin to flows"``, is the value of `Allocator.leftover`, or else
    that of an allocation by an order or a service, followed by whether the bandwidth goes to single
    flows, or to coflows whose flows keep equal progress; it is empty if unknown. ``"decides_per"``
    is ``"flow"`` if rates change when a flow ends, else ``"coflow"``. Both describe the last
    allocation; without one, the dict is empty.
    """
    if not fabric.decisions:
        return {}
    answer, allocator = fabric.answer, fabric.allocator
    how = str(allocator.leftover) or _given_by(answer)
    if answer is None:  # a rule that the event loop asks
        rule = allocator.compiled_rule
        in_step = rule is None or rule.in_step
        shared_again = not in_step
    else:
        in_step = answer.in_step
        shared_again = not in_step and answer.rates is None and answer.decisions == "flow"
    to = "coflows" if in_step else "flows"
    return {"leftover": how if how in ("", "none") else f"{how} to {to}",
            "decides_per": ("flow" if shared_again or as_event(allocator.wakes_on) & Event.FLOW_DONE
                            else "coflow")}
