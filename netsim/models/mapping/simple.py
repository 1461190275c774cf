"""Mappings that ignore the bytes exchanged, as baselines for those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound, per_iteration
from netsim.models.mapping.mapped import Mapped, check_counts
from netsim.models.servers import ServerKind
from netsim.streams import stream


def random_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                   seed: int | None = 0) -> Mapped:
    """Map each replica to a random server, with all its slices.

    Replicas with more slices are mapped first. The probability of a server is proportional to the
    number of replicas of this size that it still has room for; without slices, this is equivalent
    to shuffling the replicas over the GPUs.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server provides.
    server : ServerKind
    seed : int, optional
        Seed of the draws; 0 if not given.

    Raises
    ------
    InputError
        As `check_counts` does.
    """
    rng = stream(seed or 0, "random-mapping")

    def pick(places: np.ndarray, _: int) -> int:
        return int(rng.choice(len(places), p=places / places.sum()))

    return _map_in_turn(model, counts, server, pick)


def round_robin_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                        seed: int | None = None) -> Mapped:
    """Map replicas to servers in turn, skipping servers that are full.

    Replicas with more slices are mapped first, and otherwise in order of stages.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server provides.
    server : ServerKind
    seed : int, optional
        No effect, as nothing is random.

    Raises
    ------
    InputError
        As `check_counts` does.
    """
    def pick(places: np.ndarray, last: int) -> int:
        turns = (last + 1 + np.arange(len(places))) % len(places)
        return int(turns[places[turns] > 0][0])

    return _map_in_turn(model, counts, server, pick)


def _map_in_turn(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                 pick: Callable[[np.ndarray, int], int]) -> Mapped:
    """Map replicas one by one to the server that `pick` chooses.

    `pick` gets the number of replicas that each server has room for, and the previous server (-1 at
    first). Replicas with the most slices come first; as sizes divide one another, the others always
    fit.
    """
    room = np.array(check_counts(model, counts, server), dtype=np.int64)
    placement = np.zeros((len(room), len(model.stages)), dtype=np.int64)
    last = -1
    for number in sorted(range(len(model.stages)), key=lambda s: -model.stages[s].slices):
        stage = model.stages[number]
        for _ in range(stage.replicas):
            last = pick(room // stage.slices, last)
            placement[last, number] += stage.slices
            room[last] -= stage.slices
    return mapped_as(model, placement, server)


def mapped_as(model: ParallelModel, placement: np.ndarray, server: ServerKind) -> Mapped:
    """Make a `Mapped` of a placement by computing its iteration time and bound."""
    alpha = per_iteration(model, placement, server)
    placement.setflags(write=False)
    return Mapped(placement, alpha, min(alpha, alpha_min_bound(model, server)))
