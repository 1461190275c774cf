"""Schedulers by remaining time, which preempt: SRTF and SRSF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from netsim.engine.view import ClusterView
from netsim.plain import plain_numbers
from netsim.schedulers.in_order import InOrder, Ints, Keys


@plain_numbers
@dataclass(frozen=True)
class SRTF(InOrder):
    """Shortest remaining time first, by estimates; SRPT of Schrage (1968) for jobs of many GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    clairvoyant: ClassVar[bool] = True

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The remaining times."""
        return Keys(value=view.remaining_s(jobs))


@plain_numbers
@dataclass(frozen=True)
class SRSF(InOrder):
    """Shortest remaining service first: remaining time times GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    clairvoyant: ClassVar[bool] = True

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The remaining service."""
        return Keys(value=view.remaining_s(jobs) * view.ranks(jobs))
