"""The graph of a job: its replicas, and the bytes that they exchange (A-SRPT, Section IV)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.base.lazy import nx
from netsim.models import ModelStage, ParallelModel, allreduce_edges

Floats = NDArray[np.float64]


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


def block_weights(model: ParallelModel) -> tuple[Floats, NDArray[np.int64]]:
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
