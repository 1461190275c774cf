"""What the fabric asks of others: who is told what happens, and who knows coflows beforehand."""

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
    """Is told what happens on the fabric, for records; see `FabricProcess`. It changes nothing.

    Attributes
    ----------
    pause : int
        When the event loop pauses for it; see `netsim.fabric.kernels.loop`. With ``AT_ENDS``,
        rates are constant between two instants of `moved`; with ``AT_DECISIONS`` or that, `decided`
        is called for every decision, also for those that the fabric makes by itself.
    carries : bool
        Whether `moved` needs the bytes of each link.
    """

    @property
    def pause(self) -> int: ...

    @property
    def carries(self) -> bool: ...

    def decided(self, now: float, table: FlowTable,
                note: Callable[[], Mapping[str, float] | None]) -> None:
        """Record a decision, and what the policy inferred, which `note` returns."""

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Record the bytes that each link carried between two instants.

        The array is the observer's to keep; it is empty unless it `carries`.
        """

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Record a completed coflow's FLOW rows; in step, they have ``remaining > 0``."""


class Source(Protocol):
    """Knows beforehand when coflows become valid, each the only one of its job."""

    def more(self) -> RoutedCoflow | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each has something to send.
        """
