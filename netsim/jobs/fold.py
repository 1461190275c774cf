"""Simulates identical ranks only once, if the links that they use are identical as well.

Max-min fair rates depend on flows and links only. Suppose that flows and links fall into classes:
the flows of a class cross links of the same classes, and the links of a class are crossed by
equally many flows of each class. Then all flows of a class have the same rate at any time, and one
link of each class determines it. Colour refinement finds such classes: flows and links start with a
colour by their properties, and get new colours by the colours of what they meet, until the number
of colours no longer grows. Colours are hashes of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.fabric.kernels.binding import bind
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.network import Topology
from netsim.network.routing import expand, mix
from netsim.workload.operations import Programs

Hashes = NDArray[np.uint64]


class Crossing(NamedTuple):
    """The flows of all groups of all families, and the links that they cross."""

    family: Ints  #: of each flow
    group: Ints  #: of each flow; numbered consecutively over all families
    src: Ints  #: hosts
    dst: Ints
    payload: Floats  #: bytes without headers
    nbytes: Floats  #: bytes with headers
    latency: Floats  #: of the path, in seconds
    ptr: Ints  #: the paths of the flows, in compressed rows
    links: Ints

    @classmethod
    def of(cls, programs: Programs, network: Topology, hosts: Ints, keys: Ints) -> Crossing:
        """Route all flows; `keys` has the ECMP key of the first flow of each group."""
        families = programs.families
        groups = np.array([family.groups for family in families])
        each = np.array([len(family.flows) for family in families]) // groups
        family = np.repeat(np.arange(len(families)), groups * each)
        group = np.repeat(np.arange(groups.sum()), np.repeat(each, groups))
        first = np.cumsum(np.bincount(group)) - np.bincount(group)
        key = keys[group] + np.arange(len(group)) - first[group]
        src, dst, payload = (np.concatenate([getattr(family.flows, name) for family in families])
                             for name in ("src", "dst", "nbytes"))
        src, dst = hosts[src], hosts[dst]
        ptr, links = network.routes(src, dst, key)
        messages = np.array([each.messages for each in families])[family]
        return cls(family, group, src, dst, payload,
                   network.wire_bytes(payload, src, dst, key, ptr, links, messages),
                   network.wire.latency_of(ptr, links), ptr, links)

    @property
    def owner(self) -> Ints:
        """The flow of each entry of `links`."""
        return np.repeat(np.arange(len(self.src)), np.diff(self.ptr))


class _Classes(NamedTuple):
    """Classes of identical flows and links."""

    of_flow: Ints
    of_link: Ints  #: by entry of `Crossing.links`


def fold(programs: Programs, crossing: Crossing, network: Topology,
         coflow_of: Callable[[int], RoutedCoflow], taken: Bools) -> tuple[RoutedCoflow, ...] | None:
    """Make the coflow of one group of each family, which represents all groups of the family.

    `coflow_of` routes the first coflow of a family, given by its number. The result is None if the
    groups differ in their flows or links, or if a link is `taken`: other jobs use it, or it
    changes.
    """
    if taken[crossing.links].any():
        return None
    classes = _refined(crossing, network.usable)
    if not _groups_match(programs, classes.of_flow):
        return None
    if not _links_determine_rates(crossing, classes):
        return None
    first = np.full(int(classes.of_link.max(initial=-1)) + 1, network.links)
    np.minimum.at(first, classes.of_link, crossing.links)
    chosen = _chosen(crossing, classes.of_flow)
    return tuple(
        _on_first_links(crossing, [chosen[kind] for kind in kinds], first[classes.of_link],
                        network.usable, coflow_of(family))
        for family, kinds in enumerate(_kinds_of(programs, classes.of_flow)))


def _refined(crossing: Crossing, capacity: Floats) -> _Classes:
    """Refine classes until the flows and links of a class meet the same classes."""
    owner = crossing.owner
    used, link = np.unique(crossing.links, return_inverse=True)
    # Links at different places of a path must differ, such as a host's two ports in a ring.
    place = mix((np.arange(len(owner)) - crossing.ptr[owner]).view(np.uint64))
    of_links = mix(capacity[used].view(np.uint64))
    of_flows = np.zeros(len(crossing.src), np.uint64)
    for column in (crossing.family, crossing.payload, crossing.nbytes, crossing.latency):
        of_flows = mix(of_flows + column.view(np.uint64))
    flow, count = of_flows, 0
    while True:
        colour = mix(of_links + _sums(mix(flow[owner] + place), link, len(used)))
        flow = mix(of_flows + _sums(mix(colour[link] + place), owner, len(flow)))
        found, kind = np.unique(flow, return_inverse=True)
        if len(found) == count:
            return _Classes(kind, np.unique(colour, return_inverse=True)[1][link])
        count = len(found)


def _sums(values: Hashes, where: Ints, count: int) -> Hashes:
    """Sum values by index, as integers that wrap around."""
    found = np.zeros(count, np.uint64)
    np.add.at(found, where, values)
    return found


def _groups_match(programs: Programs, of_flow: Ints) -> bool:
    """Whether all groups of a family have flows of the same classes."""
    begin = 0
    for family in programs.families:
        own = np.sort(of_flow[begin:begin + len(family.flows)].reshape(family.groups, -1), axis=1)
        if (own != own[0]).any():
            return False
        begin += len(family.flows)
    return True


def _kinds_of(programs: Programs, of_flow: Ints) -> list[list[int]]:
    """Return the classes of the flows of each family."""
    stops = np.cumsum([len(family.flows) for family in programs.families])
    return [np.unique(of_flow[stop - len(family.flows):stop]).tolist()
            for stop, family in zip(stops.tolist(), programs.families, strict=True)]


def _links_determine_rates(crossing: Crossing, classes: _Classes) -> bool:
    """Whether one link of each class determines the rates.

    It does if each of the links that a class crosses is crossed by equally many of its flows, all
    of one group, and no path crosses two links of the same class.
    """
    owner, kinds = crossing.owner, int(classes.of_flow.max(initial=-1)) + 1
    on_path = owner * (int(classes.of_link.max(initial=-1)) + 1) + classes.of_link
    if len(np.unique(on_path)) < len(on_path):
        return False
    code = crossing.links * kinds + classes.of_flow[owner]
    order = np.lexsort((crossing.group[owner], code))
    code, group = code[order], crossing.group[owner][order]
    same = code[1:] == code[:-1]
    if (group[1:] != group[:-1])[same].any():
        return False
    found, counts = np.unique(code, return_counts=True)
    least, most = np.full(kinds, len(code)), np.zeros(kinds, np.int64)
    np.minimum.at(least, found % kinds, counts)
    np.maximum.at(most, found % kinds, counts)
    return bool((least >= most).all())


def _chosen(crossing: Crossing, of_flow: Ints) -> list[Ints]:
    """Return flows of each class that represent one of its links.

    They are those on the first link of the first flow. They are selected by their hosts, because
    flows of other classes between the same hosts have the same path.
    """
    order = np.lexsort((crossing.dst, crossing.src, of_flow))
    begins = np.searchsorted(of_flow[order], np.arange(int(of_flow.max(initial=-1)) + 2))
    begin_link = np.full(len(of_flow), -1)
    crosses = np.diff(crossing.ptr) > 0
    begin_link[crosses] = crossing.links[crossing.ptr[:-1][crosses]]
    chosen = []
    for begin, end in pairwise(begins.tolist()):
        own = order[begin:end]
        chosen.append(np.sort(own[begin_link[own] == begin_link[own[0]]]))
    return chosen


def _on_first_links(crossing: Crossing, chosen: Sequence[Ints], links: Ints,
                    capacity: Floats, whole: RoutedCoflow) -> RoutedCoflow:
    """Return the coflow of the chosen flows, on one link of each class."""
    flows = np.concatenate(chosen)
    _, entries = expand(crossing.ptr, flows)
    ptr = np.concatenate(([0], np.cumsum(np.diff(crossing.ptr)[flows])))
    parts = bind(crossing.src[flows], crossing.dst[flows], crossing.nbytes[flows], ptr,
                 links[entries], capacity, np.array([len(flows)]), crossing.payload[flows],
                 crossing.latency[flows])
    parts[0]["overhead"] = whole.overhead_s
    for array in parts:
        array.setflags(write=False)
    return replace(whole, coflows=parts[0], flows=parts[1], hops=parts[2], loads=parts[3],
                   stands_for=whole)
