"""Weights of flows and coflows, by which links are shared, and checks of them."""

from __future__ import annotations

import numpy as np

from netsim.fabric.allocation import Allocation
from netsim.fabric.flow_table import FlowTable

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
