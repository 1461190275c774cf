"""Queueing schedulers: first in, first out, and smallest or shortest job first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from netsim.engine.view import ClusterView
from netsim.errors import UnknownNameError
from netsim.plain import plain_numbers
from netsim.schedulers.in_order import InOrder, Ints, Keys

_BY = ("gpus", "service", "time")


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
        """Equal keys, so that jobs are in order of arrival."""
        return Keys()


@plain_numbers
@dataclass(frozen=True)
class SJF(InOrder):
    """A queue by GPUs, fewest first, or by remaining time or service; jobs keep their GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    by : {"gpus", "service", "time"}
        What makes a job small: its GPUs, its remaining time, or the product of both.

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
        return self.by != "gpus"

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The GPUs of jobs, their estimated remaining times, or the products."""
        gpus = 1 if self.by == "time" else view.ranks(jobs)
        left_s = 1.0 if self.by == "gpus" else view.remaining_s(jobs)
        return Keys(value=left_s * gpus)
