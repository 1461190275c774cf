"""Mappings that look at no edges: references for those that do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound, per_iteration
from netsim.models.mapping.mapped import Mapped, check_counts
from netsim.models.servers import ServerKind
from netsim.streams import stream

__all__ = ["mapped_as", "random_mapping", "round_robin_mapping"]


def random_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                   seed: int | None = 0) -> Mapped:
    """Return a mapping in which each replica is on a GPU picked at random, with its slices.

    Replicas of more slices pick first. They pick among the places for so many slices that servers
    have left: all splits of a stage without slices are as likely as by shuffling its replicas.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server gives.
    server : ServerKind
    seed : int, optional
        The same mapping for the same seed; 0 if not given.

    Raises
    ------
    InputError
        As `check_counts` does.
    """
    rng = stream(seed or 0, "random-mapping")

    def pick(places: np.ndarray, _: int) -> int:
        return int(rng.choice(len(places), p=places / places.sum()))

    return _in_turn(model, counts, server, pick)


def round_robin_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                        seed: int | None = None) -> Mapped:
    """Return the mapping that deals replicas to servers in turn, but for those that are full.

    Replicas of more slices are dealt first; else by stage.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server gives.
    server : ServerKind
    seed : int, optional
        Without effect: nothing is random.

    Raises
    ------
    InputError
        As `check_counts` does.
    """
    def pick(places: np.ndarray, last: int) -> int:
        turns = (last + 1 + np.arange(len(places))) % len(places)
        return int(turns[places[turns] > 0][0])

    return _in_turn(model, counts, server, pick)


def _in_turn(model: ParallelModel, counts: Sequence[int], server: ServerKind,
             pick: Callable[[np.ndarray, int], int]) -> Mapped:
    """Place replicas one by one where `pick` says, given places and the last server, -1 at first.

    Those of most slices come first. So the rest can always be placed, as sizes divide one another.
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
    """Return a placement with what an iteration takes on it.

    Raises
    ------
    InputError
        If it is no placement of the model.
    """
    alpha = per_iteration(model, placement, server)
    placement.setflags(write=False)
    return Mapped(placement, alpha, min(alpha, alpha_min_bound(model, server)))
