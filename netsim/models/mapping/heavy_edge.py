"""Heavy-Edge, which maps replicas that exchange much to the same server (A-SRPT, Section IV).

It works on the graph of a job: its replicas, and the bytes that they exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import nx
from netsim.base.streams import stream
from netsim.base.values import same
from netsim.models import ModelStage, ParallelModel, allreduce_edges
from netsim.models.iteration_time import alpha_max, alpha_min_bound, stage_terms
from netsim.models.kernels import heavy_edge_of, per_iteration_of
from netsim.models.mapping.simple import Mapped, can_hold, check_counts
from netsim.models.servers import ServerKind


# --- the graph of a job --------------------------------------------------------------------
def job_graph(model: ParallelModel) -> nx.Graph:
    """Build the graph of the bytes that the GPUs of a model exchange.

    Vertices are numbered consecutively by stage, replica and slice. The weight of an edge is the
    number of bytes per iteration in both directions together:

    - between all replicas of consecutive stages, ``2 d^in_s / k_(s-1)``, divided equally between
      their slices;
    - along the rings or trees in which the replicas of a stage all-reduce, between corresponding
      slices; see `allreduce_edges`;
    - between the slices of a replica, which all-reduce ``slice_bytes``;
    - between all groups of experts of a stage, ``2 expert_bytes/(k-1)``.

    Parameters
    ----------
    model : ParallelModel

    Returns
    -------
    networkx.Graph
        Vertices have the attributes ``stage``, ``replica`` and ``slice``; edges have ``weight``,
        which is greater than 0.

    Examples
    --------
    >>> from netsim import ModelStage, ParallelModel
    >>> model = ParallelModel([ModelStage(2, out_bytes=6, param_bytes=5),
    ...                        ModelStage(1, in_bytes=12)])
    >>> list(job_graph(model).edges.data("weight"))
    [(0, 1, 5.0), (0, 2, 12.0), (1, 2, 12.0)]
    """
    graph = nx.Graph(name=model.name)
    members = []  # the vertices of each replica of each stage
    for number, stage in enumerate(model.stages):
        first = len(graph)
        for replica in range(stage.replicas):
            for part in range(stage.slices):
                graph.add_node(len(graph), stage=number, replica=replica, slice=part)
        members.append(np.arange(first, len(graph)).reshape(stage.replicas, stage.slices).tolist())
        _add_within(graph, stage, members[-1], model.allreduce)
    for (before, behind), stage in zip(pairwise(members), model.stages[1:], strict=True):
        parts = len(before[0]) * len(behind[0])
        for one in before:
            for other in behind:
                for u in one:
                    for v in other:
                        _add(graph, u, v, 2 * stage.in_bytes / len(before) / parts)
    return graph


def _add_within(graph: nx.Graph, stage: ModelStage, members: list[list[int]], allreduce: str
                ) -> None:
    """Add the edges between vertices of one stage."""
    k = stage.replicas
    for one, other, share in allreduce_edges(k, allreduce):
        for u, v in zip(members[one], members[other], strict=True):
            _add(graph, u, v, share * stage.param_bytes / stage.slices)
    for mine in members:
        for one, other, share in allreduce_edges(stage.slices, allreduce):
            _add(graph, mine[one], mine[other], share * stage.slice_bytes)
    if stage.expert_bytes:
        for one in range(k):
            for other in range(one + 1, k):
                _add(graph, members[one][0], members[other][0], 2 * stage.expert_bytes / (k - 1))


def _add(graph: nx.Graph, u: int, v: int, weight: float) -> None:
    if weight > 0:
        had = graph.edges[u, v]["weight"] if graph.has_edge(u, v) else 0.0
        graph.add_edge(u, v, weight=had + weight)


def block_weights(model: ParallelModel) -> tuple[Floats, Ints]:
    """Build `job_graph` as an array, with the slices of each replica merged into one block.

    Returns the bytes between blocks (symmetric, 0 where there is no edge), and the GPUs of each
    block.
    """
    replicas = [stage.replicas for stage in model.stages]
    first = np.concatenate(([0], np.cumsum(replicas))).tolist()
    weight = np.zeros((first[-1], first[-1]))
    for number, stage in enumerate(model.stages):
        k, start, end = stage.replicas, first[number], first[number + 1]
        if stage.expert_bytes:
            weight[start:end, start:end] = 2 * stage.expert_bytes / (k - 1)
        if stage.param_bytes:
            for one, other, share in allreduce_edges(k, model.allreduce):
                weight[start + one, start + other] += share * stage.param_bytes
                weight[start + other, start + one] = weight[start + one, start + other]
        if number:
            before = first[number - 1]
            between = 2 * stage.in_bytes / (start - before)
            weight[before:start, start:end] = between
            weight[start:end, before:start] = between
    np.fill_diagonal(weight, 0.0)
    return weight, np.repeat([stage.slices for stage in model.stages], replicas).astype(np.int64)


# --- Heavy-Edge ----------------------------------------------------------------------------
class _Facts(NamedTuple):
    """Properties of a model that do not depend on the counts."""

    weight: Floats
    size: Ints
    kinds: Ints
    stage: Ints
    priority: Ints
    terms: Floats
    bound_s: float


class Mapper:
    """Maps models by Heavy-Edge to servers of one kind, and caches the results.

    Servers are filled one after the other, in descending order of their counts, with ties in the
    given order:

    - A server with several GPUs first gets the two ends of the heaviest edge between unmapped
      replicas. Then, until it is full, it gets the unmapped replica with the heaviest edge to any
      of its own.
    - A server with one GPU gets the replica whose edges to unmapped replicas have the least sum. So
      does a server where no edge fits, for its first replica.
    - The last server gets all remaining replicas.

    Weights that differ by at most 1e-9 relative are equal, and ties go to the lowest vertex.

    All slices of a replica are mapped to the same server. A replica is a candidate only if the
    others still fit after it is mapped.

    Parameters
    ----------
    server : ServerKind
    seed : int, optional
        If given, replicas without an edge to decide are taken in a random order, which depends
        only on the seed and the number of replicas; otherwise, the lowest is taken first.

    Examples
    --------
    >>> from netsim import make_model
    >>> mapper = Mapper(ServerKind(4, "10Gbps"))
    >>> mapper(make_model("gpt-6.7b", 6), [2, 4]).placement.tolist()
    [[0, 2], [3, 1]]
    """

    #: It only remembers what depends on nothing else.
    __deepcopy__ = same

    def __init__(self, server: ServerKind, seed: int | None = None) -> None:
        self.server, self._seed = server, seed
        self._facts: dict[ParallelModel, _Facts] = {}
        self._found: dict[tuple[ParallelModel, tuple[int, ...]], Mapped] = {}
        self._extremes: dict[ParallelModel, tuple[float, float]] = {}

    def __call__(self, model: ParallelModel, counts: Sequence[int]) -> Mapped:
        """Map a model to servers that provide `counts` GPUs."""
        try:
            falling = tuple(sorted(counts, reverse=True))
            found = self._found.get((model, falling))
        except TypeError:  # check_counts raises the error below
            found = None
        if found is None:
            falling = tuple(sorted(check_counts(model, counts, self.server), reverse=True))
            found = self._found[model, falling] = self._map(model, falling)
        if tuple(counts) == falling:
            return found
        placement = np.empty_like(found.placement)
        placement[_descending(counts)] = found.placement
        placement.setflags(write=False)
        return Mapped(placement, found.alpha_s, found.bound_s)

    def extremes(self, model: ParallelModel) -> tuple[float, float]:
        """Return alpha_max and alpha~_min of a model, in seconds.

        alpha~_min is alpha of Heavy-Edge on as few servers as possible, `consolidated_counts`. It
        is not a lower bound, as Heavy-Edge may be better on other counts; see `alpha_min_bound`.

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
        """Return the server of each vertex of `job_graph`, as an index into `counts`.

        Raises
        ------
        InputError
            As `check_counts` does.
        """
        given = check_counts(model, counts, self.server)
        order = _descending(given)
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
    """Map a model by Heavy-Edge; see `Mapper`, which also caches results.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server provides.
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


def heavy_edge_ranks(traffic: Floats, counts: Sequence[int]) -> Ints:
    """Map the ranks of a job by Heavy-Edge, given the bytes that each two of them exchange.

    `traffic` is symmetric, and 0 on the diagonal. Returns the server of each rank, as an index into
    `counts`; see `Mapper`.
    """
    ranks, order = len(traffic), _descending(counts)
    one_each = np.ones(ranks, np.int64)
    return order[heavy_edge_of(
        np.array(traffic, np.float64), one_each, one_each[:1],
        np.asarray(counts, np.int64)[order], np.arange(ranks))]


def consolidated_counts(model: ParallelModel, server: ServerKind) -> tuple[int, ...]:
    """The counts of as few servers as can hold a job: all but the last one are full.

    If these cannot hold its slices, replicas are assigned first-fit instead, those with the most
    slices first.
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


def _descending(counts: Sequence[int]) -> Ints:
    """Sort servers in descending order of counts, with ties in order; return their indices."""
    return np.argsort(-np.asarray(counts, dtype=np.int64), kind="stable")
