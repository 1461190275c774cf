"""Plots of networks; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from netsim.base.arrays import Floats
from netsim.base.units import format_rate
from netsim.network.describe import host_layers
from netsim.plots.style import (
    COLOURS,
    INK,
    colour_bar,
    drawable,
    name_axes,
    new_axes,
    require_matplotlib,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Places = dict[Any, tuple[float, float]]

_GREY = "#8c8c8c"
_THIN, _THICK = 0.4, 2.6
_LABELLED = 16  # most nodes of a row that are named; more names would not be legible
_READABLE = 64  # most hosts of which nodes and links can be told apart
_CELLS = 400  # most rows and columns of a matrix; more could not be seen
_LEAST = 0.055  # least distance of labels of a matrix, as a share of its side
_LARGE = 500  # number of nodes from which networkx needs SciPy for its layout


def topology_picture(graph: nx.DiGraph, layers: Mapping[Any, int] | None = None,
                     ax: Axes | None = None) -> Axes:
    """Draw a network: its nodes and links or, if they are too many, a matrix of its links.

    Hosts are at the bottom and switches above, by their distance from hosts.

    Lines are as wide as the capacity of links is high. Switches that connect only hosts, such as
    those inside servers, are drawn below the hosts; a switch that connects the others of its
    layer is drawn above them. Without switches, hosts form a circle, or are placed near their
    neighbours if they have more than two.

    Of more than 64 hosts, a node stands for all hosts of a switch, such as all GPUs of a server,
    and for all switches that connect only these, such as their NICs; lines are as wide as for one.
    If more than 64 of these nodes are left, a matrix is drawn.

    In a matrix, a dot is a link from the node of its row to the node of its column, the darker the
    higher its capacity. Nodes stand in the order of their rows, with lines between rows.

    Parameters
    ----------
    graph : networkx.DiGraph
        The network, as `netsim.Topology.to_networkx` returns it. The two links of a pair of nodes
        are drawn as one line.
    layers : mapping, optional
        Layer of each node, 0 for hosts; by default the distance from hosts.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib(ax)
    layers = host_layers(graph) if layers is None else layers
    layered = any(layers.values())
    rows = _rows(graph, layers)
    counts = dict.fromkeys(graph, 1)
    if sum(layer == 0 for layer in layers.values()) > _READABLE:
        graph, rows, counts = _merged(graph, rows)
        if sum(row == 0 for row in rows.values()) > _READABLE:
            return _matrix(graph, rows, counts, ax)
    places = _in_rows(graph, rows) if layered else _flat(graph)
    if ax is None:
        layers_above = len(set(rows.values())) - 1
        ax = new_axes(1.6 + 1.2 * layers_above, 7.0) if layered else new_axes(4.5, 4.5)
    widths = _draw_links(ax, graph, places)
    every = sorted(set(rows.values()))
    for row in every:
        _draw_nodes(ax, {node: counts[node] for node in graph if rows[node] == row}, places, row,
                    layered, between=layered and row in every[1:-1])
    _explain(ax, widths, layered)
    ax.set_title(drawable(graph.name or ""), fontsize=9, color=INK, pad=22 if layered else 12)
    ax.axis("off")
    return ax


def _merged(graph: nx.DiGraph, rows: Mapping[Any, int]
            ) -> tuple[nx.DiGraph, dict[Any, int], dict[Any, int]]:
    """Merge hosts with the same neighbours, or of one server, and the switches of these alone.

    Return the merged graph, with the row of each node and the number of nodes that it stands for.
    """
    into: dict[Any, Any] = {}

    def merge(row: int, key: Callable[[Any], Any]) -> None:
        first: dict[Any, Any] = {}
        for node in graph:
            if rows[node] == row:
                into[node] = first.setdefault(key(node), node)

    def neighbours(node: Any, side: Callable[[int], bool]) -> frozenset[Any]:
        return frozenset(into.get(other, other) for other in graph.adj[node] if side(rows[other]))

    def of_host(node: Any) -> Any:
        return neighbours(node, lambda row: row < 0) or neighbours(node, bool) or node

    def of_switch(node: Any) -> Any:
        below = neighbours(node, lambda row: row < rows[node])
        return below if len(below) == 1 else node

    merge(0, of_host)
    for row in sorted({*rows.values()} - {0}):
        merge(row, of_switch if row > 0 else lambda node: node)
    left = nx.DiGraph(name=graph.name)
    left.add_nodes_from(dict.fromkeys(into[node] for node in graph))
    for start, end, capacity in graph.edges.data("capacity"):
        pair = into[start], into[end]
        most = max(capacity, left.edges[pair]["capacity"] if left.has_edge(*pair) else 0.0)
        left.add_edge(*pair, capacity=most)
    return left, {node: rows[node] for node in left}, Counter(into[node] for node in graph)


def _said(row: int, counts: Mapping[Any, int], nodes: int) -> str:
    """Say how many hosts or switches the nodes of a row stand for, and how many each."""
    total = sum(counts.values())
    noun = "host" if row == 0 else "switch"
    plural = noun if total == 1 else "hosts" if row == 0 else "switches"
    each = set(counts.values())
    return f"{total:,} {plural}" + (f"\n({nodes:,} x {each.pop()})"
                                   if len(each) == 1 and 1 < nodes < total else "")


def _matrix(graph: nx.DiGraph, rows: Mapping[Any, int], counts: Mapping[Any, int],
            ax: Axes | None) -> Axes:
    """Draw the capacities of links as a matrix, several nodes to a cell if there are many."""
    from matplotlib.colors import LogNorm

    ax = new_axes(4.6, 4.6) if ax is None else ax
    nodes = sorted(graph, key=rows.__getitem__)  # stable: in the order of the network
    scale = min(1.0, _CELLS / len(nodes))
    place = {node: int(index * scale) for index, node in enumerate(nodes)}
    cells = np.full((place[nodes[-1]] + 1,) * 2, np.nan)
    for start, end, capacity in graph.edges.data("capacity"):
        at = place[start], place[end]
        cells[at] = np.fmax(cells[at], 8e-9 * capacity)
    low, high = np.nanmin(cells), np.nanmax(cells)
    extent = (0, len(nodes), len(nodes), 0)
    image = ax.imshow(cells, cmap="Blues", norm=LogNorm(low / 4, high * 1.01), extent=extent,
                      interpolation="nearest")
    of_rows = {row: {node: counts[node] for node in nodes if rows[node] == row}
               for row in sorted(set(rows.values()))}
    edges = np.concatenate(([0], np.cumsum(list(map(len, of_rows.values())))))
    for edge in edges[1:-1]:
        ax.axhline(edge, color=INK, linewidth=0.4)
        ax.axvline(edge, color=INK, linewidth=0.4)
    middles = (edges[:-1] + edges[1:]) / 2
    names = [_said(row, own, len(own)) for row, own in of_rows.items()]
    spots = _apart(middles, _LEAST * len(nodes), len(nodes))
    ax.set_xticks(spots, names, rotation=45, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_yticks(spots, names, fontsize=7)
    ax.tick_params(length=0, labelcolor=INK)
    name_axes(ax, "to", "from")
    bar = colour_bar(image, [ax], fraction=0.04, pad=0.02)
    bar.set_label("capacity (Gbps)", fontsize=7.5, color=INK)
    bar.ax.minorticks_off()
    rates = np.unique(cells[~np.isnan(cells)])
    shown = rates if len(rates) <= 4 else rates[[0, -1]]
    bar.set_ticks(list(shown), labels=[f"{rate:.4g}" for rate in shown])
    bar.ax.set_ylim(low / 1.2, high * 1.01)
    ax.set_title(drawable(graph.name or ""), fontsize=9, color=INK, pad=8)
    return ax


def _apart(places: Floats, least: float, end: float) -> list[float]:
    """Move places apart, in order and as little as possible, so that neighbours are `least` apart.

    None is moved beyond `end`.
    """
    moved = [float(place) for place in places]
    for index in range(1, len(moved)):
        moved[index] = max(moved[index], moved[index - 1] + least)
    limit = float(end)
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - least
    return moved


def _rows(graph: nx.DiGraph, layers: Mapping[Any, int]) -> dict[Any, int]:
    """The row of each node: its layer, with the exceptions that `topology_picture` names."""
    beside = {node: [other for other in graph.adj[node] if layers[other] == layers[node]]
              for node in graph if layers[node]}
    joined = any(layers[other] for node in beside for other in graph.adj[node])
    rows = dict(layers)
    for node, others in beside.items():
        if joined and not any(layers[other] for other in graph.adj[node]):
            rows[node] = -1
        elif others and all(len(beside[other]) < len(others) for other in others):
            rows[node] += 1
    return rows


def _in_rows(graph: nx.DiGraph, rows: Mapping[Any, int]) -> Places:
    """Spread each row over the width, ordering nodes by the mean position of their neighbours."""
    places: Places = {}
    for row in (0, *sorted(set(rows.values()) - {0})):
        nodes = [node for node in graph if rows[node] == row]
        if row:
            nodes.sort(key=lambda node: _mean([places[other][0] for other in graph.adj[node]
                                               if other in places]))
        for place, node in enumerate(nodes):
            places[node] = (place + 0.5) / len(nodes), float(row)
    return places


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _flat(graph: nx.DiGraph) -> Places:
    """Place nodes on a circle or, in small dense graphs, so that neighbours are close together."""
    degree = max(dict(graph.out_degree).values(), default=0)
    if degree <= 2 or len(graph) >= _LARGE:
        turns = {node: 2 * math.pi * place / len(graph) for place, node in enumerate(graph)}
        return {node: (math.sin(turn), math.cos(turn)) for node, turn in turns.items()}
    around = nx.circular_layout(graph)  # a fixed start makes the layout reproducible
    return {node: (float(x), float(y)) for node, (x, y) in nx.spring_layout(
        graph.to_undirected(), pos=around, iterations=300, weight=None).items()}


def _draw_links(ax: Axes, graph: nx.DiGraph, places: Places) -> dict[float, float]:
    """Draw a line per pair of neighbours; return the line widths by capacity."""
    from matplotlib.collections import LineCollection

    number = {node: place for place, node in enumerate(graph)}
    pairs: dict[tuple[Any, ...], float] = {}
    for start, end, capacity in graph.edges.data("capacity"):
        pair = tuple(sorted((start, end), key=number.__getitem__))  # the same in every process
        pairs[pair] = max(pairs.get(pair, 0.0), capacity)
    widths = _widths(sorted(set(pairs.values())))
    ax.add_collection(LineCollection([[places[node] for node in pair] for pair in pairs],
                                     linewidths=[widths[rate] for rate in pairs.values()],
                                     colors=_GREY, alpha=0.45 if len(pairs) > 200 else 0.8,
                                     zorder=1))
    return widths


def _widths(rates: list[float]) -> dict[float, float]:
    """Map each capacity to a line width, on a logarithmic scale."""
    if len(rates) < 2:
        return dict.fromkeys(rates, (_THIN + _THICK) / 3)
    span = math.log(rates[-1] / rates[0])
    return {rate: _THIN + (_THICK - _THIN) * math.log(rate / rates[0]) / span for rate in rates}


def _draw_nodes(ax: Axes, nodes: Mapping[Any, int], places: Places, row: int, layered: bool, *,
                between: bool) -> None:
    """Draw the nodes of a row, with their names, or numbers of hosts or switches, if there are few.

    With rows above and below, names stand where links are apart: beside the nodes and further down.
    """
    from matplotlib.patheffects import withStroke

    size = min(60.0, max(4.0, 1800.0 / len(nodes)))
    ax.scatter([places[node][0] for node in nodes], [places[node][1] for node in nodes], s=size,
               marker="s" if row else "o", color=COLOURS[row % len(COLOURS)],
               edgecolors="white", linewidths=0.3, zorder=2)
    halo = [withStroke(linewidth=1.8, foreground="white")]  # to be legible on links
    if len(nodes) <= _LABELLED:
        below = layered and row <= 0
        beside = between and len(nodes) <= 8
        offset = (6, -1) if beside else (0, -6 if below else 6)
        for node in nodes:
            one = nodes[node] == 1
            ax.annotate(drawable(node) if one else _said(row, {node: nodes[node]}, 1),
                        places[node], offset,
                        fontsize=7.5, textcoords="offset points", ha="left" if beside else "center",
                        va="top" if beside or below else "bottom", color=INK, path_effects=halo,
                        rotation=0 if len(nodes) <= 8 else 35)
    elif layered:
        ax.annotate(_said(row, nodes, len(nodes)), (1.01, row), va="center", fontsize=7.5,
                    color=INK, annotation_clip=False)


def _explain(ax: Axes, widths: dict[float, float], named_below: bool) -> None:
    """Add a legend of line widths: all capacities, or only the extremes if there are many.

    It is further down where names are below the lowest row.
    """
    from matplotlib.lines import Line2D

    rates = sorted(widths)
    shown = rates if len(rates) <= 4 else [rates[0], rates[-1]]
    lines = [Line2D([], [], color=_GREY, linewidth=widths[rate], label=format_rate(rate))
             for rate in shown]
    if lines:
        ax.legend(handles=lines, loc="upper center", ncols=len(lines), frameon=False, fontsize=7.5,
                  bbox_to_anchor=(0.5, -0.12 if named_below else 0), labelcolor=INK)
