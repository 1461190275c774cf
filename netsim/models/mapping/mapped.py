"""What mappings are given and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.checks import check_sequence, check_whole
from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.servers import ServerKind

__all__ = ["Mapped", "can_hold", "check_counts"]


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Which replicas of a job are on which server, and what follows.

    Attributes
    ----------
    placement : ndarray of int, shape (servers, stages)
        GPUs of each server that work on each stage; not to be written to. Servers are in the order
        of the counts that were given.
    alpha_s : float
        What an iteration takes, in seconds (Eq. 7).
    bound_s : float
        No mapping to the same counts takes less; alpha itself if this one is known to be optimal.
    status : str
        "optimal"; "time limit" if the solver stopped before it knew; "heuristic" if nobody asked.
    """

    placement: NDArray[np.int64]
    alpha_s: float
    bound_s: float
    status: str = "heuristic"

    __repr__ = brief

    @property
    def gap(self) -> float:
        """What alpha may be above that of the best mapping, relative to alpha."""
        return max(0.0, 1 - self.bound_s / self.alpha_s) if self.alpha_s else 0.0


def check_counts(model: ParallelModel, counts: Sequence[int], server: ServerKind
                 ) -> tuple[int, ...]:
    """Return the GPUs that servers give a job, as a tuple, or refuse them.

    Raises
    ------
    InputError
        If they do not add up to those of the model, one is not from 1 to those of a server, or
        slices that must be on one server cannot be.
    """
    given = check_sequence(counts, int | np.integer, "counts", "whole numbers")
    for count in given:
        check_whole(count, "counts: GPUs of a server", 1, server.gpus)
    if sum(given) != model.gpus:
        raise InputError(f"counts {list(given)} add up to {sum(given)} GPUs, but model "
                         f"{model.name!r} has {model.gpus}")
    if not can_hold(model, given):
        sizes = sorted({stage.slices for stage in model.stages}, reverse=True)
        raise InputError(f"counts {list(given)} cannot hold model {model.name!r}: replicas of "
                         f"{' and '.join(map(str, sizes))} slices must be on one server each")
    return given


def can_hold(model: ParallelModel, counts: Sequence[int]) -> bool:
    """Say whether servers that give so many GPUs can hold all slices of each replica on one.

    A job waits for servers that can. There must be, for each number of slices t, places for t GPUs
    each, ``sum(count // t)``, for all replicas of at least t slices. That is enough: as numbers of
    slices divide one another, the larger ones, placed first, take from the places of the smaller
    ones just what they are large, wherever they are.

    Examples
    --------
    >>> from netsim import ModelStage, ParallelModel
    >>> model = ParallelModel([ModelStage(slices=2), ModelStage(slices=2)])
    >>> can_hold(model, [2, 2]), can_hold(model, [3, 1])
    (True, False)
    """
    sizes = {stage.slices for stage in model.stages}
    return all(sum(count // size * size for count in counts)
               >= sum(stage.gpus for stage in model.stages if stage.slices >= size)
               for size in sizes)
