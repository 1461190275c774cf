"""The argument and the result of mappings: counts of GPUs, and mapped models."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A mapping of a job's replicas to servers, with its iteration time.

    Attributes
    ----------
    placement : ndarray of int, shape (servers, stages)
        Number of GPUs of each server that work on each stage; read-only. Servers are in the order
        of the given counts.
    alpha_s : float
        Time of an iteration, in seconds (Eq. 7).
    bound_s : float
        Lower bound on the time of an iteration of all mappings to the same counts; equal to
        `alpha_s` if this mapping is known to be optimal.
    status : str
        ``"optimal"``; ``"time limit"`` if the solver was stopped; ``"heuristic"`` if none was used.
    """

    placement: NDArray[np.int64]
    alpha_s: float
    bound_s: float
    status: str = "heuristic"

    __repr__ = brief

    @property
    def gap(self) -> float:
        """The most by which alpha can exceed that of the best mapping, relative to alpha."""
        return max(0.0, 1 - self.bound_s / self.alpha_s) if self.alpha_s else 0.0


def check_counts(model: ParallelModel, counts: Sequence[int], server: ServerKind
                 ) -> tuple[int, ...]:
    """Check the numbers of GPUs that servers provide for a job, and return them as a tuple.

    They add up to the GPUs of the model, are from 1 to the GPUs of a server, and can hold all
    replicas (`can_hold`).
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
    """Whether servers that provide `counts` GPUs can hold each replica's slices on one server.

    The condition is, for each number of slices t, that all replicas of at least t slices fit into
    the groups of t GPUs on the servers, ``sum(count // t)``. This is sufficient: as numbers of
    slices divide one another, larger replicas that are placed first occupy whole groups of any
    smaller size, wherever they are placed.

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
