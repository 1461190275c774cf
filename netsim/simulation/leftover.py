"""Who gets the bandwidth that is left over, and when rates are decided: what a run says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.fabric.allocation import Event

if TYPE_CHECKING:
    from netsim.fabric.fabric import Fabric

__all__ = ["leftover_of"]


def leftover_of(fabric: Fabric) -> dict[str, str]:
    """Say how an allocator gives away bandwidth left over, and which events it decides on.

    Returns
    -------
    dict
        With ``"leftover"``, such as ``"maxmin to flows"``: what `Allocator.leftover` says, and
        whether single flows get it or coflows whose flows stay in step; empty if it says nothing.
        And ``"decides_per"``, ``"flow"`` if rates change when a flow ends, else ``"coflow"``.
        Both as in its last answer; nothing if it was never asked.
    """
    answer, allocator = fabric.answer, fabric.allocator
    if answer is None:
        return {}
    how = str(allocator.leftover)
    to = "flows" if answer.shares is None else "coflows"
    shared_again = answer.rates is None and answer.shares is None
    return {"leftover": how if how in ("", "none") else f"{how} to {to}",
            "decides_per": ("flow" if shared_again or allocator.wakes_on & Event.FLOW_DONE
                            else "coflow")}
