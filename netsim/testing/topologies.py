"""Check that a network keeps the promises that flows rely on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.base.arrays import Ints
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.network import Topology, from_networkx, read_network
from netsim.testing.trial import BrokenPromise, Promise, Trial, check_each, chosen, noted

#: Keys of flows that are tried for each pair of hosts: ECMP may route them differently.
_KEYS = (0, 1, 2**40 + 7)

_MISMATCH = "has a graph that does not match its links"


@known_names
def check_topology(network: Topology | str | Path | Callable[[], Topology], *,
                   symmetric: bool = False, promises: Iterable[str] | None = None,
                   pairs: int = 400, seed: int = 0) -> None:
    """Check that a network keeps its promises.

    The links must have distinct names and finite, positive capacities. `to_networkx` must return
    the links with their ends, and `from_networkx` must build the same links from that graph. There
    must be a route from any host to any other host, which does not use a link twice. From a host to
    itself there must be no route or, if ``loopback_uses_ports`` is set, a route out of the host and
    back. A flow (src, dst, key) must always get the same route, whatever other
    flows are routed with it.

    Parameters
    ----------
    network : Topology, str, path or class
        A network, an argument of `netsim.read_network`, or a callable without arguments that
        returns a network.
    symmetric : bool
        Whether each link must have a reverse link of the same capacity.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    pairs : int
        Largest number of pairs of hosts to check. If there are more, pairs are drawn at random.
    seed : int
        Seed of these draws.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the network and the promise, with the first link
        or pair of hosts that shows it. Exceptions of the network itself propagate, with a note.

    Examples
    --------
    >>> import netsim
    >>> from netsim.testing import check_topology
    >>> check_topology(netsim.leaf_spine(2, 2, 2), symmetric=True)
    """
    given: Any = read_network(network) if isinstance(network, str | Path) else network
    given = given() if callable(given) else given
    if not isinstance(given, Topology):
        raise AssertionError(f"{given!r} is not a network: it must derive from netsim.Topology")
    check_each([_Trial(given, symmetric, pairs, seed)], chosen(PROMISES, promises))


@dataclass(frozen=True)
class _Trial(Trial):
    """A network under test."""

    network: Topology
    symmetric: bool
    pairs: int
    seed: int

    @property
    def subject(self) -> str:
        return f"network {self.network.name!r}"

    @property
    def example(self) -> str:
        return f"of {self.network!r}"

    @cached_property
    def graph(self) -> nx.Graph:
        """The network as a graph."""
        try:
            graph = self.network.to_networkx()
        except NotImplementedError:
            raise BrokenPromise(self, "has no to_networkx",
                                "the ends of its links are unknown") from None
        if not isinstance(graph, nx.DiGraph):
            raise BrokenPromise(self, _MISMATCH,
                                f"to_networkx returned {graph!r}, not a DiGraph")
        return graph

    @cached_property
    def ends(self) -> list[tuple[Hashable, Hashable]]:
        """The nodes that each link leads from and to."""
        found = {str(edge.get("name")): (start, end, edge.get("capacity"))
                 for start, end, edge in self.graph.edges(data=True)}
        names = self.network.link_names
        if len(found) != self.graph.number_of_edges() or set(found) != set(names):
            raise BrokenPromise(self, _MISMATCH, "edges are named "
                                f"{sorted(found)}, and links {sorted(names)}")
        for name, capacity in zip(names, self.network.capacity, strict=True):
            if found[name][2] != capacity:
                raise BrokenPromise(self, _MISMATCH,
                                    f"edge {name!r} has the capacity {found[name][2]!r}, and the "
                                    f"link {capacity!r}")
        return [found[name][:2] for name in names]

    @cached_property
    def hosts(self) -> list[Hashable]:
        """The node of each host."""
        nodes = [node for node, marks in self.graph.nodes(data=True) if marks.get("host")]
        if nodes != list(self.graph)[:self.network.hosts]:
            raise BrokenPromise(self, _MISMATCH,
                                f"its first {self.network.hosts} nodes must be the hosts, with "
                                f"host=True; the hosts are {nodes}")
        return nodes

    @cached_property
    def flows(self) -> tuple[Ints, Ints, Ints]:
        """Sources, destinations and keys of the flows to route."""
        hosts = self.network.hosts
        rng = np.random.default_rng(self.seed)
        which = (np.arange(hosts * hosts) if hosts * hosts <= self.pairs else
                 np.sort(rng.integers(hosts * hosts, size=self.pairs)))
        src, dst = (np.repeat(each, len(_KEYS)) for each in np.divmod(which, hosts))
        return src, dst, np.tile(np.array(_KEYS), len(which))

    @cached_property
    def routes(self) -> list[list[int]]:
        """The links of each flow."""
        return self.ask(*self.flows)

    def ask(self, src: Ints, dst: Ints, key: Ints) -> list[list[int]]:
        """Ask for the routes of flows, as lists of links.

        BrokenPromise is raised if the answer is not in compressed rows.
        """
        with noted(f"of {self.network!r}, asked for routes from {src.tolist()[:9]} to "
                   f"{dst.tolist()[:9]}"):
            answer: Any = self.network.routes(src, dst, key)
        try:
            ptr, links = map(np.asarray, answer)
            sound = (ptr.shape == (len(src) + 1,) and ptr.dtype.kind in "iu"
                     and (links.dtype.kind in "iu" or not links.size) and ptr[0] == 0
                     and links.shape == (ptr[-1],) and not (np.diff(ptr) < 0).any())
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise BrokenPromise(self, "does not return routes in compressed rows",
                                f"for {len(src)} flows, routes returned {answer!r}")
        return [links[ptr[flow]:ptr[flow + 1]].tolist() for flow in range(len(src))]

    def each(self) -> Iterator[tuple[int, int, str, list[int]]]:
        """Yield source, destination, a description of the flow, and its links."""
        for src, dst, key, links in zip(*map(np.ndarray.tolist, self.flows), self.routes,
                                        strict=True):
            yield src, dst, f"from host {src} to {dst}, key {key}, it takes links {links}", links


def _has_bad_links(trial: _Trial) -> str | None:
    network = trial.network
    capacity = np.asarray(network.capacity)
    if capacity.shape != (network.links,):
        return f"there are {network.links} names, and capacities of shape {capacity.shape}"
    for name, rate in zip(network.link_names, capacity.tolist(), strict=True):
        if not (np.isfinite(rate) and rate > 0):
            return f"link {name!r} has the capacity {rate!r}"
    (name, count), = Counter(network.link_names).most_common(1) or [("", 0)]
    return f"{name!r} names {count}" if count > 1 else None


def _has_other_graph(trial: _Trial) -> str | None:
    trial.ends, trial.hosts  # noqa: B018
    return None


def _fails_round_trip(trial: _Trial) -> str | None:
    network = trial.network
    try:
        again = from_networkx(trial.graph, loopback_uses_ports=network.loopback_uses_ports)
    except InputError as error:
        return str(error)
    if again.hosts != network.hosts:
        return f"from_networkx finds {again.hosts} hosts"
    links = [dict(zip(each.link_names, each.capacity.tolist(), strict=True))
             for each in (again, network)]
    return None if links[0] == links[1] else f"from_networkx makes the links {links[0]}"


def _has_unknown_links(trial: _Trial) -> str | None:
    for _, _, text, links in trial.each():
        if not all(0 <= link < trial.network.links for link in links):
            return f"{text}, of {trial.network.links}"
    return None


def _has_no_route(trial: _Trial) -> str | None:
    for src, dst, text, links in trial.each():
        wanted = src != dst or trial.network.loopback_uses_ports
        if bool(links) != wanted:
            why = "" if src != dst else (", and loopback_uses_ports is "
                                         f"{trial.network.loopback_uses_ports}")
            return f"{text}{why}"
    return None


def _has_broken_route(trial: _Trial) -> str | None:
    for src, dst, text, links in trial.each():
        at = trial.hosts[src]
        for link in links:
            if not 0 <= link < trial.network.links:
                break  # a fault of another kind
            start, end = trial.ends[link]
            if start != at:
                return f"{text}, of which link {link} begins at {start!r}, and not at {at!r}"
            at = end
        if links and at != trial.hosts[dst]:
            return f"{text}, which end at {at!r}, and not at {trial.hosts[dst]!r}"
    return None


def _repeats_link(trial: _Trial) -> str | None:
    for _, _, text, links in trial.each():
        if len(set(links)) < len(links):
            return text
    return None


def _is_not_deterministic(trial: _Trial) -> str | None:
    src, dst, key = trial.flows
    order = np.random.default_rng(trial.seed).permutation(len(src))
    mixed = trial.ask(src[order], dst[order], key[order])
    for place, links in zip(order.tolist(), mixed, strict=True):
        if links != trial.routes[place]:
            return _other_route(trial, place, links, "asked for in another order")
    for place in range(0, len(src), max(1, len(src) // 50)):
        alone, = trial.ask(*(each[place:place + 1] for each in trial.flows))
        if alone != trial.routes[place]:
            return _other_route(trial, place, alone, "asked for alone")
    return None


def _other_route(trial: _Trial, place: int, links: list[int], how: str) -> str:
    src, dst, key = (int(each[place]) for each in trial.flows)
    return (f"from host {src} to {dst}, key {key}, it takes links {links} {how}, and not "
            f"{trial.routes[place]}")


def _is_one_way(trial: _Trial) -> str | None:
    if not trial.symmetric:
        return None
    kinds = [(*ends, rate) for ends, rate in zip(trial.ends, trial.network.capacity.tolist(),
                                                 strict=True)]
    counts = Counter(kinds)
    for name, (start, end, rate) in zip(trial.network.link_names, kinds, strict=True):
        if counts[start, end, rate] != counts[end, start, rate]:
            return f"link {name!r} of {rate:g} bytes/s has no reverse link of that capacity"
    return None


PROMISES: dict[str, Promise[_Trial]] = {
    "valid-links": Promise("has invalid links", _has_bad_links),
    "graph-matches": Promise(_MISMATCH, _has_other_graph),
    "round-trip": Promise("does not survive a round trip through networkx", _fails_round_trip),
    "known-links": Promise("takes links that do not exist", _has_unknown_links),
    "routes-exist": Promise("lacks a route, or has one that is not needed", _has_no_route),
    "routes-lead-there": Promise(
        "takes links that do not lead to the destination",
        _has_broken_route),
    "no-link-twice": Promise("takes a link twice", _repeats_link),
    "deterministic": Promise("is not deterministic", _is_not_deterministic),
    "symmetric": Promise("is not symmetric", _is_one_way),
}
