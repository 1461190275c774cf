"""What each pair of links has in common, if there are few links and short paths.

With a table of sums of weights, a fill takes all flows of a full link off the others at once. If
weights are not all 1, sums pick up rounding errors as flows come and go. Classes are therefore
counted as well, which shows where nothing is left, and the sums are recomputed now and then.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined

#: A table of weights that are not all 1 is summed up again after `_OFTEN` changes, or sooner, once
#: changes times the largest weight exceed `_TRACES` times the least: at each change, rounding may
#: leave 1e-16 of a heavy weight, which has to stay below 1e-9 of a light one.
_OFTEN = 1024
_TRACES = 5e6


@in_place
def cross(parts, c, by):
    """Count a class that has come (`by` = 1) or gone (`by` = -1)."""
    link, other = _ends(parts, c)
    for here, there in ((link, other), (other, link)):
        parts.pairs[here, there] += by
        if parts.pairs[here, there] == 0:
            parts.common[here, there] = 0.0


@in_place
def enter(parts, c, weight):
    """Add a weight, which may be negative, to the common weight of the links of a class."""
    link, other = _ends(parts, c)
    _add(parts, link, other, weight)
    _add(parts, other, link, weight)
    parts.state[0].changed += 1


@in_place
def _ends(parts, c):
    """Return the two links of a class; if it crosses only one, the other is the dummy."""
    wide = parts.path.shape[1] > 1
    return parts.path[c, 0], parts.path[c, 1] if wide else np.uint32(len(parts.links) - 1)


@in_place
def _add(parts, link, other, weight):
    parts.common[link, other] += weight
    row = parts.links[link]
    row.low = min(row.low, other)
    row.high = max(row.high, other + 1)


@inlined
def split_anew(parts, coflows):
    """Split each coflow's weight among its unfinished flows again, if some have ended."""
    row = parts.state[0]
    for c in range(len(coflows)):
        coflow = coflows[c]
        if coflow.thinner and coflow.open > 0:
            coflow.thinner = 0
            before = parts.units[coflow.unit]
            parts.units[coflow.unit] = coflow.split / coflow.open
            row.stale = 1
            see_weight(row, parts.units[coflow.unit])
            if len(parts.common):
                _enter_all(parts, coflow, parts.units[coflow.unit] - before)


@in_place
def see_weight(row, weight):
    """Record a weight in use."""
    row.light = min(row.light, weight)
    row.heavy = max(row.heavy, weight)


@inlined
def _enter_all(parts, coflow, more):
    """Add `more` to the weight of each unfinished flow of a coflow."""
    common, cells = parts.common, parts.cells[coflow.flow:coflow.flow + coflow.open]
    for k in range(len(cells)):
        link, other = cells[k].link, cells[k].other
        common[link, other] += more
        common[other, link] += more
    parts.state[0].changed += 1


@inlined
def add_cell(parts, coflow, f, k):
    """Give a flow of a coflow, its `k`-th unfinished one, a cell."""
    c = parts.place_of[parts.senders[f].number]
    cell = parts.cells[coflow.flow + k]
    cell.link, cell.other = _ends(parts, c)
    cell.flow = f - coflow.flow
    parts.senders[f].cell = k


@inlined
def drop_cell(parts, coflow, f):
    """Drop the cell of a flow that is about to end; the coflow's last cell takes its place."""
    cells = parts.cells[coflow.flow:coflow.flow + coflow.open]
    k = parts.senders[f].cell
    cells[k] = cells[coflow.open - 1]
    parts.senders[coflow.flow + cells[k].flow].cell = k


@inlined
def take_sums(parts, unfrozen, count):
    """Write the weight wanted on each link to `unfrozen`, and the number of classes to `count`."""
    row = parts.state[0]
    if row.changed >= _OFTEN or row.changed * row.heavy > _TRACES * row.light:
        sum_up(parts)
    links, common = parts.links, parts.common
    two_sided = True
    for link in range(len(common)):
        count[link] = links[link].stop - links[link].first
        unfrozen[link] = 0.0
        two_sided &= links[link].low > link or links[link].high <= link
    for link in range(len(common)):
        wants = common[link, links[link].low:links[link].high]
        if not two_sided:
            unfrozen[link] = _sum_of(wants)
        elif links[link].low > link:  # one row says it of both
            unfrozen[link] = _sum_of(wants)
            _add_to(unfrozen[links[link].low:links[link].high], wants)
    unfrozen[len(common) - 1] = 0.0


@inlined
def _add_to(sums, wants):
    for m in range(len(wants)):
        sums[m] += wants[m]


@in_place
def _sum_of(wants):
    """Sum four values at a time, since compilers may not reorder a sum by themselves."""
    one = two = three = four = 0.0
    for m in range(0, len(wants) - 3, 4):
        one += wants[m]
        two += wants[m + 1]
        three += wants[m + 2]
        four += wants[m + 3]
    for m in range(len(wants) - len(wants) % 4, len(wants)):
        one += wants[m]
    return (one + two) + (three + four)


@in_place
def sum_up(parts):
    """Recompute the sums of all that classes want, and count the classes."""
    row = parts.state[0]
    if not len(parts.common):
        return
    for link in range(len(parts.common)):
        for other in range(len(parts.common)):
            parts.common[link, other] = 0.0
            parts.pairs[link, other] = 0
    row.light, row.heavy = np.inf, 0.0
    for c in range(row.classes):
        see_weight(row, parts.units[parts.unit_of[c]])
        cross(parts, c, 1)
        enter(parts, c, parts.units[parts.unit_of[c]] * parts.classes[c].flows)
    row.changed = 0
