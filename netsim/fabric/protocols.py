"""What the fabric asks of others: who is told what happens, and who knows coflows beforehand."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.allocation import Allocation
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow

__all__ = ["Observer", "Source"]


class Observer(Protocol):
    """Is told what happens on the fabric, for records; see `Fabric`.

    Attributes
    ----------
    follows_rates : bool
        Whether `moved` must not span the end of a flow, so that rates are constant within.
    follows_decisions : bool
        Whether `decided` and `moved` are called for every decision, also where jobs take turns.
    follows_standing : bool
        Whether also while an allocation is persistent, as if the policy were asked again. Sums of
        bytes are then rounded in another way.
    """

    @property
    def follows_rates(self) -> bool: ...

    @property
    def follows_decisions(self) -> bool: ...

    @property
    def follows_standing(self) -> bool: ...

    def decided(self, now: float, table: FlowTable, allocation: Allocation) -> None:
        """Record a decision."""

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Record the bytes that each link carried between two instants.

        The array is the observer's to keep.
        """

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Record a completed coflow's FLOW rows; in step, they have ``remaining > 0``."""


class Source(Protocol):
    """Knows beforehand when coflows become valid, each the only one of its job; see `Fabric`."""

    def more(self) -> RoutedCoflow | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each has something to send.
        """
