"""All-reduce inside groups, then across them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.collectives.direct import direct_all_gather, direct_reduce_scatter
from netsim.collectives.messages import Round
from netsim.collectives.rings import ring_all_gather, ring_reduce_scatter

#: Reduce-scatter and all-gather, by algorithm.
_WAYS = {"ring": (ring_reduce_scatter, ring_all_gather),
         "direct": (direct_reduce_scatter, direct_all_gather)}


def hierarchical_all_reduce(n: int, group: int, inner: str, outer: str) -> list[list[Round]]:
    """Make three phases: reduce-scatter inside groups, all-reduce across, all-gather inside.

    Part l of the data belongs to the position with index l in each group, and is divided into one
    piece per group: group a has piece l G + a, where G is the number of groups. Phases without
    steps are left out.
    """
    scatter_inside, gather_inside = _WAYS[inner]
    scatter_across, gather_across = _WAYS[outer]
    groups = n // group
    phases: list[list[Round]] = [[], [], []]
    if group > 1:
        phases[0] = [_inside(each, n, group) for each in scatter_inside(group)]
        phases[2] = [_inside(each, n, group) for each in gather_inside(group)]
    if groups > 1:
        phases[1] = [_across(each, n, group) for each in
                     (*scatter_across(groups), *gather_across(groups))]
    return [phase for phase in phases if phase]


def _inside(each: Round, n: int, group: int) -> Round:
    """Make a round in which all groups do what one group does with its parts, at the same time."""
    groups = n // group
    begin = group * np.repeat(np.arange(groups), len(each.src))
    return replace(
        each, src=begin + np.tile(each.src, groups), dst=begin + np.tile(each.dst, groups),
        first=np.tile(each.first * groups, groups), count=np.tile(each.count * groups, groups),
        wrap=n, shift=each.shift * groups)


def _across(each: Round, n: int, group: int) -> Round:
    """Make a round in which the positions of each index exchange their pieces across groups.

    All indices do so at the same time.
    """
    groups = n // group
    index = np.tile(np.arange(group), len(each.src))
    src, dst, first, count = (np.repeat(array, group)
                              for array in (each.src, each.dst, each.first, each.count))
    order = np.lexsort((dst, index, src))
    made = replace(each, src=src * group + index, dst=dst * group + index, first=first,
                   count=count, wrap=groups, base=index * groups)
    assert isinstance(made.base, np.ndarray)
    return replace(made, src=made.src[order], dst=made.dst[order], first=first[order],
                   count=count[order], base=made.base[order])
