"""Queueing schedulers: first in, first out, and smallest or shortest job first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from netsim.engine.view import ClusterView
from netsim.errors import UnknownNameError
from netsim.plain import plain_numbers
from netsim.schedulers.in_order import InOrder, Ints, Keys

__all__ = ["FIFO", "SJF"]

_BY = ("gpus", "time")


@plain_numbers
@dataclass(frozen=True)
class FIFO(InOrder):
    """A queue in order of arrival; jobs keep their GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    """

    preempts: ClassVar[bool] = False

    backfill: bool = False

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """Return equal keys: jobs are in order of arrival."""
        return Keys()


@plain_numbers
@dataclass(frozen=True)
class SJF(InOrder):
    """A queue by GPUs, fewest first, or by remaining time; jobs keep their GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    by : {"gpus", "time"}
        What makes a job small.

    Raises
    ------
    UnknownNameError
        If there is no such `by`.
    """

    preempts: ClassVar[bool] = False

    backfill: bool = False
    by: str = "gpus"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in _BY:
            raise UnknownNameError("size of a job by which SJF orders", self.by, _BY)

    @property
    def clairvoyant(self) -> bool:
        """Whether it uses the iterations that jobs will make."""
        return self.by == "time"

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """Return the GPUs of jobs, or their estimated remaining times."""
        if self.by == "time":
            return Keys(value=view.remaining_s(jobs))
        return Keys(value=view.ranks(jobs))
