"""Heavy-Edge: replicas that exchange much go to one server (A-SRPT, Section IV)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_max, alpha_min_bound, stage_terms
from netsim.models.kernels import heavy_edge_of, per_iteration_of
from netsim.models.mapping.graph import block_weights
from netsim.models.mapping.mapped import Mapped, can_hold, check_counts
from netsim.models.servers import ServerKind
from netsim.streams import stream

__all__ = ["Mapper", "consolidated_counts", "heavy_edge", "heavy_edge_servers"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Facts(NamedTuple):
    """What is known of a model, for any counts."""

    weight: Floats
    size: Ints
    kinds: Ints
    stage: Ints
    priority: Ints
    terms: Floats
    bound_s: float


class Mapper:
    """Heavy-Edge on servers of one kind, remembering what it has found.

    Servers are handled by falling count, ties in the order given. The first two replicas of each
    are the ends of the heaviest edge between replicas that have no server yet; then comes the one
    with the heaviest edge to those of the server. A server with one GPU gets the replica with the
    least edges, added up, to others that have none; the last server gets all that is left. Weights
    within 1e-9 of one another, relative, are equal, and ties go to the lowest vertex.

    All slices of a replica go to a server together; only those are looked at that leave places for
    the others.

    Parameters
    ----------
    server : ServerKind
    seed : int, optional
        Where no edge leads on, a replica is picked at random, and else the lowest one. It is the
        same replica each time for one seed.

    Examples
    --------
    >>> from netsim import make_model
    >>> mapper = Mapper(ServerKind(4, "10Gbps"))
    >>> mapper(make_model("gpt-6.7b", 6), [2, 4]).placement.tolist()
    [[0, 2], [3, 1]]
    """

    def __init__(self, server: ServerKind, seed: int | None = None) -> None:
        self.server, self._seed = server, seed
        self._facts: dict[ParallelModel, _Facts] = {}
        self._found: dict[tuple[ParallelModel, tuple[int, ...]], Mapped] = {}
        self._extremes: dict[ParallelModel, tuple[float, float]] = {}

    def __call__(self, model: ParallelModel, counts: Sequence[int]) -> Mapped:
        """Return the mapping of a model on servers that give so many GPUs each.

        Raises
        ------
        InputError
            As `check_counts` does.
        """
        try:
            falling = tuple(sorted(counts, reverse=True))
            found = self._found.get((model, falling))
        except TypeError:  # which is refused below
            found = None
        if found is None:
            falling = tuple(sorted(check_counts(model, counts, self.server), reverse=True))
            found = self._found[model, falling] = self._map(model, falling)
        if tuple(counts) == falling:
            return found
        placement = np.empty_like(found.placement)
        placement[_falling(counts)] = found.placement
        placement.setflags(write=False)
        return Mapped(placement, found.alpha_s, found.bound_s)

    def extremes(self, model: ParallelModel) -> tuple[float, float]:
        """Return alpha_max and alpha~_min of a model, in seconds.

        alpha~_min is that of Heavy-Edge on as few servers as there can be, `consolidated_counts`.
        It is no lower bound: on other counts Heavy-Edge may be luckier. See `alpha_min_bound`.

        Raises
        ------
        InputError
            If a replica has more slices than a server has GPUs.
        """
        found = self._extremes.get(model)
        if found is None:
            most = alpha_max(model, self.server)
            least = self(model, consolidated_counts(model, self.server)).alpha_s
            found = self._extremes[model] = most, least
        return found

    def servers(self, model: ParallelModel, counts: Sequence[int]) -> Ints:
        """Return the server of each vertex of `job_graph`, as a place in `counts`.

        Raises
        ------
        InputError
            As `check_counts` does.
        """
        given = check_counts(model, counts, self.server)
        order = _falling(given)
        facts = self._facts_of(model)
        of_block = heavy_edge_of(facts.weight, facts.size, facts.kinds,
                                 np.array(given, dtype=np.int64)[order], facts.priority)
        return np.repeat(order[of_block], facts.size)

    def _map(self, model: ParallelModel, counts: tuple[int, ...]) -> Mapped:
        facts = self._facts_of(model)
        server_of = heavy_edge_of(facts.weight, facts.size, facts.kinds,
                                  np.array(counts, dtype=np.int64), facts.priority)
        placement = np.zeros((len(counts), len(model.stages)), dtype=np.int64)
        np.add.at(placement, (server_of, facts.stage), facts.size)
        placement.setflags(write=False)
        alpha = per_iteration_of(placement, facts.terms, model.micro_batches,
                                 np.empty(len(model.stages)))
        return Mapped(placement, alpha, min(facts.bound_s, alpha))

    def _facts_of(self, model: ParallelModel) -> _Facts:
        facts = self._facts.get(model)
        if facts is None:
            weight, size = block_weights(model)
            replicas = [stage.replicas for stage in model.stages]
            priority = (np.arange(len(size)) if self._seed is None else
                        stream(self._seed, "heavy-edge").permutation(len(size)))
            facts = self._facts[model] = _Facts(
                weight, size, np.unique(size), np.repeat(np.arange(len(replicas)), replicas),
                priority, np.array(stage_terms(model, self.server)),
                alpha_min_bound(model, self.server))
        return facts


def heavy_edge(model: ParallelModel, counts: Sequence[int], server: ServerKind,
               seed: int | None = None) -> Mapped:
    """Return the mapping by Heavy-Edge; see `Mapper`, which also remembers.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server gives.
    server : ServerKind
    seed : int, optional
        See `Mapper`.

    Raises
    ------
    InputError
        As `check_counts` does.
    """
    return Mapper(server, seed)(model, counts)


def heavy_edge_servers(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                       seed: int | None = None) -> Ints:
    """Return the server of each vertex of `job_graph` by Heavy-Edge; see `Mapper.servers`."""
    return Mapper(server, seed).servers(model, counts)


def consolidated_counts(model: ParallelModel, server: ServerKind) -> tuple[int, ...]:
    """Return the counts of as few servers as hold a job: all full but for the last one.

    Where these cannot hold its slices, replicas are put, those of most slices first, on the first
    server that has room.

    Examples
    --------
    >>> from netsim import ModelStage, ParallelModel
    >>> consolidated_counts(ParallelModel([ModelStage(10)]), ServerKind(4))
    (4, 4, 2)
    >>> consolidated_counts(ParallelModel([ModelStage(2, slices=3)]), ServerKind(4))
    (3, 3)
    """
    full, rest = divmod(model.gpus, server.gpus)
    counts = [server.gpus] * full + [rest] * (rest > 0)
    if not can_hold(model, counts):
        counts = []
        for stage in sorted(model.stages, key=lambda stage: -stage.slices):
            for _ in range(stage.replicas):
                at = next((place for place, count in enumerate(counts)
                           if count + stage.slices <= server.gpus), len(counts))
                counts[at:at + 1] = [sum(counts[at:at + 1]) + stage.slices]
    return tuple(sorted(counts, reverse=True))


def _falling(counts: Sequence[int]) -> Ints:
    """Return the places of servers by falling count, ties in order."""
    return np.argsort(-np.asarray(counts, dtype=np.int64), kind="stable")
