"""Slices of a replica are on one server: which GPUs keep them together, and which do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.models import ParallelModel

__all__ = ["is_sliced", "keep_together", "split_replica_error"]

Ints = NDArray[np.int64]


def is_sliced(model: ParallelModel | None) -> bool:
    """Say whether replicas of a model are in several slices."""
    return model is not None and any(stage.slices > 1 for stage in model.stages)


def keep_together(model: ParallelModel, servers: ArrayLike) -> Ints | None:
    """Return which GPUs a model takes of those that are offered, the first ones that will do.

    A replica of t slices takes the t GPUs of one server that are there soonest in the order of the
    offer; the largest replicas choose first. As numbers of slices divide one another, a model finds
    its place wherever there is one, see `netsim.models.mapping.can_hold`.

    Parameters
    ----------
    model : ParallelModel
    servers : array_like of int, shape (GPUs,)
        The server of each GPU that is offered, in order.

    Returns
    -------
    ndarray of int, shape (model.gpus,), or None
        Places in the offer, in order of ranks; None if not all replicas find one.

    Examples
    --------
    A replica of two slices passes over the one GPU of server 0, which the other one takes.

    >>> from netsim import ModelStage, ParallelModel
    >>> model = ParallelModel([ModelStage(slices=2), ModelStage()])
    >>> keep_together(model, [0, 1, 1, 2])
    array([1, 2, 0])
    """
    offered = np.asarray(servers, dtype=np.int64)
    left = np.arange(len(offered))
    taken: list[Ints] = [np.empty(0, np.int64)] * len(model.stages)
    for size in sorted({stage.slices for stage in model.stages}, reverse=True):
        own = [number for number, stage in enumerate(model.stages) if stage.slices == size]
        need = sum(model.stages[number].replicas for number in own)
        # The groups of `size` GPUs of a server, in the order in which they are complete.
        by_server = left[np.argsort(offered[left], kind="stable")]
        first = np.searchsorted(offered[by_server], offered[by_server])
        place = np.arange(len(by_server)) - first
        ends = np.flatnonzero(place % size == size - 1)
        ends = ends[np.argsort(by_server[ends])][:need]
        if len(ends) < need:
            return None
        groups = by_server[ends[:, None] + np.arange(1 - size, 1)]
        left = np.setdiff1d(left, groups)
        for number in own:
            count = model.stages[number].replicas
            taken[number], groups = groups[:count].ravel(), groups[count:]
    return np.concatenate(taken)


def split_replica_error(model: ParallelModel | None, servers: ArrayLike) -> str | None:
    """Say whose slices are not together on some servers, one for each rank; None if all are.

    Replicas of a stage are alike, so that it does not matter in which order they are listed.
    """
    if model is None or not is_sliced(model):
        return None
    places, first = np.asarray(servers), 0
    for number, stage in enumerate(model.stages):
        own = places[first:first + stage.gpus]
        first += stage.gpus
        if (np.unique(own, return_counts=True)[1] % stage.slices).any():
            return (f"replicas of stage {number} of model {model.name!r} have {stage.slices} "
                    f"slices each, all on one server, but its GPUs are on the servers "
                    f"{own.tolist()}")
    return None
