"""All-reduce inside groups, then across them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.collectives import direct, rings
from netsim.collectives.messages import Round

__all__ = ["all_reduce"]

_WAYS = {"ring": rings, "direct": direct}


def all_reduce(n: int, group: int, inner: str, outer: str) -> list[list[Round]]:
    """Make three phases: reduce-scatter inside groups, all-reduce across, all-gather inside.

    Part l of the data belongs to the position with index l in each group, and is divided into one
    piece per group: group a has piece l G + a, where G is the number of groups. Phases without
    steps are left out.
    """
    inside, across = _WAYS[inner], _WAYS[outer]
    groups = n // group
    phases: list[list[Round]] = [[], [], []]
    if group > 1:
        phases[0] = [_inside(each, n, group) for each in inside.reduce_scatter(group)]
        phases[2] = [_inside(each, n, group) for each in inside.all_gather(group)]
    if groups > 1:
        phases[1] = [_across(each, n, group) for each in
                     (*across.reduce_scatter(groups), *across.all_gather(groups))]
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
