"""Slices of replicas, which must be on one server: choosing GPUs that keep them together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.models import ParallelModel

Ints = NDArray[np.int64]


def is_sliced(model: ParallelModel | None) -> bool:
    """Whether replicas of a model consist of several slices."""
    return model is not None and model.sliced


def keep_together(model: ParallelModel, servers: ArrayLike) -> Ints | None:
    """Choose GPUs for a model from offered ones, so that slices of a replica share a server.

    `servers` has the server of each offered GPU, in order of preference. A replica of t slices
    takes the first t GPUs in the offer that share a server. The replicas with most slices choose
    first. Of any two numbers of slices, one divides the other, so this finds a choice whenever
    there is one; see `netsim.models.mapping.can_hold`. Returns indices into `servers`, in order of
    ranks; None if a replica does not fit.
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
    """Describe a replica whose slices are on different servers, given the server of each rank.

    The result is None if there is no such replica. Replicas of a stage are alike, so their order
    does not matter.
    """
    if model is None or not is_sliced(model):
        return None
    places, first = np.asarray(servers), 0
    for number, stage in enumerate(model.stages):
        own = places[first:first + stage.gpus]
        first += stage.gpus
        if (np.unique(own, return_counts=True)[1] % stage.slices).any():
            return (f"replicas of stage {number} of model {model.name!r} have {stage.slices} "
                    f"slices each, which must be on one server, but its GPUs are on the servers "
                    f"{own.tolist()}")
    return None
