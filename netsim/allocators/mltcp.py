"""MLTCP: flows that have sent more of their iteration are more aggressive.

Rajasekaran, Narang, Zabreyko, Ghobadi, "MLTCP: A Distributed Technique to Approximate Centralized
Flow Scheduling For Machine Learning" (HotNets'24).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from netsim.allocators.options import next_multiple
from netsim.base.units import LONG_INTERVAL, Quantity, parse_seconds
from netsim.base.values import as_number, convert, known_names, plain
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView


@known_names
@dataclass
class MLTCP(Allocator):
    """MLTCP: the weight of a flow on its links grows with the share of its bytes that it has sent.

    The weight of a flow is F(r) = slope * r + intercept, where r is the share of its bytes that it
    has sent. A job whose communication began earlier is ahead of others, gets more bandwidth, ends
    sooner, and is further ahead in the next iteration, until the jobs send in turn.

    Parameters
    ----------
    slope : float
        Growth of the weight from the first byte of a flow to the last; at least 0. With 0, rates
        are max-min fair.
    intercept : float
        Weight of a flow that has sent nothing; more than 0.
    interval : quantity
        Weights are updated at multiples of this time, and when coflows become valid or complete. An
        update is a decision, so a long coflow needs a longer interval; a tenth of the time for
        which a coflow sends is enough.

    Notes
    -----
    In the paper, F scales the growth of the congestion window, and so a flow's share of a full
    link. The bytes of an iteration are learned from gaps between acknowledgements. Here they are
    known, and a flow of each coflow is a connection of its own: in jobs with several coflows per
    iteration, r begins at 0 in each of them. The weights of jobs and stages are ignored.
    """

    slope: float = 1.75
    intercept: float = 0.25
    interval: Quantity = "10ms"

    information: ClassVar[Information] = "clairvoyant"
    wakes_on: ClassVar[Event] = Event.COFLOW
    leftover = "maxmin"
    work_conserving = True
    time_free = False  # weights are updated at an interval

    def __post_init__(self) -> None:
        convert(self, slope=partial(as_number, least=0), intercept=partial(as_number, above=0),
                interval=plain)
        self._interval = parse_seconds(self.interval, "interval", strict=True, usual=LONG_INTERVAL)

    def allocate(self, view: FabricView) -> Allocation:
        """Set the weights by which the fabric shares links; see `Allocator.allocate`."""
        sent = np.clip(view.flow_sent / view.flow_size, 0.0, 1.0)
        return Allocation(weights=self.slope * sent + self.intercept,
                          revisit_at=next_multiple(view.now, self._interval))
