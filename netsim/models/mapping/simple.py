"""Mapped models, and mappings that ignore the bytes exchanged: baselines for those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.brief import brief
from netsim.base.streams import stream
from netsim.base.values import about, as_list, as_whole
from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound, per_iteration
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

    placement: Ints
    alpha_s: float
    bound_s: float
    status: str = "heuristic"

    __repr__ = brief

    @property
    def gap(self) -> float:
        """The most by which alpha can exceed that of the best mapping, relative to alpha."""
        return max(0.0, 1 - self.bound_s / self.alpha_s) if self.alpha_s else 0.0


@about("counts")
def check_counts(model: ParallelModel, counts: Sequence[int], server: ServerKind
                 ) -> tuple[int, ...]:
    """Check the numbers of GPUs that servers provide for a job, and return them as a tuple.

    They add up to the GPUs of the model, are from 1 to the GPUs of a server, and can hold all
    replicas (`can_hold`).
    """
    given = as_list(counts, "counts", int, "whole numbers")
    for count in given:
        as_whole(count, "counts: GPUs of a server", 1, server.gpus)
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
