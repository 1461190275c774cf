"""Readable version of Heavy-Edge on the graph of a job, to test the compiled one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import networkx as nx

from netsim.models import ParallelModel
from netsim.models.kernels import EQUAL
from netsim.models.mapping import job_graph


def heavy_edge_reference(model: ParallelModel, counts: Sequence[int]) -> list[int]:
    """Map the vertices of `job_graph` to servers; ties go to the lowest vertex.

    The GPUs that servers give, `counts`, must add up to those of the model, and be able to hold its
    slices.
    """
    graph = job_graph(model)
    whole = [[] for _ in range(sum(stage.replicas for stage in model.stages))]  # type: ignore[var-annotated]
    replica = -1
    for vertex, part in graph.nodes.data("slice"):
        replica += part == 0
        whole[replica].append(vertex)
    blocks = _merged(graph, whole)
    left = set(blocks)
    order = sorted(range(len(counts)), key=lambda server: -counts[server])
    found = [-1] * len(graph)
    for place, server in enumerate(order):
        later = [counts[other] for other in order[place + 1:]]
        for block in _of_server(blocks, left, counts[server], later):
            for vertex in whole[block]:
                found[vertex] = server
    return found


def _merged(graph: nx.Graph, whole: Sequence[Sequence[int]]) -> nx.Graph:
    """Merge the slices of each replica into one vertex of the graph."""
    block_of = {vertex: block for block, mine in enumerate(whole) for vertex in mine}
    merged = nx.Graph()
    for block, mine in enumerate(whole):
        merged.add_node(block, size=len(mine))
    for u, v, weight in graph.edges.data("weight"):
        one, other = block_of[u], block_of[v]
        if one != other:
            had = merged.edges[one, other]["weight"] if merged.has_edge(one, other) else 0.0
            merged.add_edge(one, other, weight=had + weight)
    return merged


def _of_server(blocks: nx.Graph, left: set[int], count: int, later: Sequence[int]) -> list[int]:
    """Choose the blocks of a server, remove them from those that are left, and return them."""
    size = blocks.nodes.data("size")

    def fits(*taken: int) -> bool:
        rest = sorted(size[block] for block in left - set(taken))
        return packs(tuple(rest), (count - sum(size[block] for block in taken), *later))

    if not later:
        mine = sorted(left)
    else:
        edges = [((u, v), weight) for u, v, weight in blocks.edges.data("weight")
                 if {u, v} <= left and count > 1 and fits(u, v)]
        mine = sorted(_heaviest(edges))
        if not mine:
            weights = [((v,), -sum(blocks.edges[u, v]["weight"] for u in blocks[v] if u in left))
                       for v in sorted(left) if fits(v)]
            mine = list(_heaviest(weights))
    left -= set(mine)
    count -= sum(size[block] for block in mine)
    while count > 0:
        reached = [((v,), max((blocks.edges[u, v]["weight"] for u in blocks[v] if u in mine),
                              default=0.0)) for v in sorted(left) if fits(v)]
        block, = _heaviest(reached)
        left.remove(block)
        mine.append(block)
        count -= size[block]
    return mine


def _heaviest(weights: Iterable[tuple[tuple[int, ...], float]]) -> tuple[int, ...]:
    """Find the lowest entry among those with the largest weight, up to rounding."""
    known = list(weights)
    most = max((weight for _, weight in known), default=0.0)
    return min((tuple(sorted(which)) for which, weight in known
                if weight >= most - EQUAL * abs(most)), default=())


@lru_cache(maxsize=4096)
def packs(sizes: tuple[int, ...], rooms: tuple[int, ...]) -> bool:
    """Whether items of some sizes, in ascending order, fit into rooms; found by trying."""
    if min(rooms) < 0:
        return False
    if not sizes or sizes[-1] == 1:
        return sum(rooms) >= sum(sizes)
    return any(room >= sizes[-1]
               and packs(sizes[:-1], (*rooms[:at], room - sizes[-1], *rooms[at + 1:]))
               for at, room in enumerate(rooms))
