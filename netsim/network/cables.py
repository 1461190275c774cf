"""Networks of cables with a rate and a latency each, as files of other simulators describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.network.given import Paths
from netsim.network.graph import GraphTopology
from netsim.network.spray import sprayed
from netsim.network.wire import Wire


class Cable(NamedTuple):
    """Two links between two nodes, given by number."""

    start: int
    end: int
    rate: float  #: of each link, in bytes per second
    there: float = 0.0  #: latency from `start` to `end`, in seconds
    back: float = 0.0  #: latency from `end` to `start`


def cabled(name: str, nodes: Sequence[str], hosts: int, cables: Sequence[Cable], *,
           routing: str = "ecmp", paths: Paths | None = None, relay: bool = True,
           loopback_uses_ports: bool = False,
           layers: Mapping[Any, str] | None = None) -> GraphTopology:
    """Make a network of cables between `nodes`, of which the first are the hosts.

    Several cables between the same nodes become parallel links, ``a->b``, ``a->b#2`` and so on. For
    `layers`, see `SprayedNetwork`; for the other options, `from_networkx`.
    """
    rows: list[tuple[int, int, float, float]] = []
    for start, end, rate, there, back in cables:
        if start == end:
            raise InputError(f"network {name!r}: a cable leads from {nodes[start]!r} to itself")
        rows += (start, end, rate, there), (end, start, rate, back)
    rows.sort(key=lambda row: row[0])  # stable: links of a node stay in order
    seen: Counter[tuple[int, int]] = Counter()
    names = []
    for start, end, _, _ in rows:
        seen[start, end] += 1
        place = seen[start, end]
        names.append(f"{nodes[start]}->{nodes[end]}" + (f"#{place}" if place > 1 else ""))
    made = GraphTopology(name, nodes, hosts, [row[:2] for row in rows], [row[2] for row in rows],
                         names, routing=routing, paths=paths, relay=relay,
                         loopback_uses_ports=loopback_uses_ports)
    made.set_wire(Wire(made.links, np.array([row[3] for row in rows]), link_names=tuple(names)))
    return sprayed(made, routing, layers or {})
