"""What the fabric needs from others: observers of events, and sources of coflows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow

__all__ = ["Observer", "Source"]


class Observer(Protocol):
    """Is told what happens on the fabric, to record it; see `FabricProcess`. Changes nothing.

    Attributes
    ----------
    pause : int
        When the event loop pauses for it; see `netsim.fabric.kernels.loop`. With ``AT_ENDS``, rates
        are constant between two calls of `moved`. With ``AT_ENDS`` or ``AT_DECISIONS``, `decided`
        is called for every decision, including those that the fabric makes by itself.
    carries : bool
        Whether `moved` needs the bytes of each link.
    """

    @property
    def pause(self) -> int: ...

    @property
    def carries(self) -> bool: ...

    def decided(self, now: float, table: FlowTable,
                note: Callable[[], Mapping[str, float] | None]) -> None:
        """Record a decision; `note` returns the values that the policy inferred."""

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Record the bytes that each link carried between two times.

        The observer may keep the array, which is empty unless `carries` is set.
        """

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Record a completed coflow's FLOW rows; if it was in step, ``remaining`` is above 0."""


class Source(Protocol):
    """Knows beforehand when coflows become valid; each is the only coflow of its job."""

    def more(self) -> RoutedCoflow | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each coflow has bytes to send.
        """
