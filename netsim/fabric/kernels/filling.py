"""The filler: progressive filling of links, for `sharing`, `serving` and the blocks of the view.

All flows grow alike, in proportion to their weights; the link that is full first *freezes* its
flows; and so on with the rest. What comes of it is the *level* at which each link was full: a
flow's rate is its weight times the lowest level on its path, since levels only rise. A link is full
at left/yet, where ``yet`` is what its flows weigh that still grow, and ``left`` are the bytes per
second that there are for these.

Links fill in nearly the same order each time, so the last order is tried first. If it is wrong, or
there is none, a heap finds the lowest level.

What is filled is a NamedTuple of arrays, a *filling*: ``links`` with the places ``first`` to
``stop`` of each one's members, what each member weighs, its ``share``, and the ``others``, the
further links on its path; and, by link, ``yet``, ``left`` and the level, ``full_at``, inf until it
is full. Members are flows, or classes of these. The last link is none, and fills up paths that are
shorter than others. Each kind says how to take the members of a full link off the others: see
`register_release`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.heap import heap_up, sink

__all__ = ["ROUNDED", "freeze", "heap_of", "register_release", "release_all",
           "release_members", "sooner"]

#: Relative: what rounding may do to a level.
ROUNDED = 1e-11

#: Among so many links the next one is looked for first.
_NEXT = 4

_RELEASES: dict[type, Callable[..., Any]] = {}


def register_release(kind: type, release: Callable[..., Any]) -> None:
    """Register how `freeze` takes the members of a full link off their other links.

    Parameters
    ----------
    kind : type
        The NamedTuple of the filling.
    release : callable
        ``release(filling, link, level)``, not compiled yet: what grows on this link is frozen at
        this level now.
    """
    _RELEASES[kind] = release


def _release(filling, link, level):
    """Stand for the function of each kind of filling."""


# Inlined, as a call hands over each array of a filling one by one.
overload(_release, inline="always", strict=False)(
    lambda filling, *_: _RELEASES[filling.instance_class])


@in_place
def freeze(order, levels, grows, filling, late):
    """Freeze links until no flow grows.

    Parameters
    ----------
    order : ndarray of int
        The links in about the order in which they are to be frozen; or, if they come with least
        levels, a heap by these.
    levels : ndarray of float, shape (links,) or (0,)
    grows : float
        What all flows weigh that grow; inf if that is not known.
    filling : NamedTuple
        See above; ``yet`` and ``left`` are used up, and ``full_at`` is set.
    late : ndarray of int
        Room for links that come too late in the order.

    Returns
    -------
    speed : float
        The sum of the rates of all flows that have been frozen.
    highest : float
        The highest level.
    grows : float
        What the flows weigh that still grow at the end.
    count : int
        How many links come too late: flows of theirs were frozen at a higher level than theirs.
    """
    yet, left, full_at = filling.yet, filling.left, filling.full_at
    highest = speed = 0.0
    first = count = 0
    stop = len(order)
    while first < stop and grows > 0.0:
        if len(levels):
            link, stop = _lowest_of(order, levels, stop, yet, left)
        else:
            link, first = _next_of(order, first, yet, left)
        if link < 0:
            break
        level = max(left[link], 0.0) / yet[link]
        if len(levels) or level >= highest * (1.0 - ROUNDED):
            level = highest = max(highest, level)
        elif _is_late(filling, link, level):
            late[count] = link
            count += 1
        speed += yet[link] * level
        grows -= yet[link]
        _release(filling, link, level)
        full_at[link] = level
    return speed, highest, grows, count


@inlined
def _is_late(filling, link, level):
    """Whether flows of a link were frozen at a higher level than its own, and slow it down."""
    share, others, full_at = filling.share, filling.others, filling.full_at
    for m in range(filling.links[link].first, filling.links[link].stop):
        rate = np.inf
        for h in range(others.shape[1]):
            rate = min(rate, full_at[others[m, h]])
        if share[m] > 0.0 and level < rate * (1.0 - ROUNDED) and rate < np.inf:
            return True
    return False


@in_place
def _next_of(order, first, yet, left):
    """Return that of the next few links which has the lowest level, -1 if there is none.

    So a link may be later than guessed, or a little earlier. Those without flows that grow are
    passed over. Those from `first` on remain; the others are put before it in turn.
    """
    best = -1
    level = np.inf
    k = first
    while k < len(order) and k < first + _NEXT:
        link = order[k]
        if yet[link] <= 0.0:
            order[k], order[first] = order[first], link
            if best == first:
                best = k
            first += 1
        elif left[link] < level * yet[link]:
            level = left[link] / yet[link]
            best = k
        k += 1
    if best < 0:
        return -1, first
    link = order[best]
    order[best], order[first] = order[first], link
    return link, first + 1


@in_place
def _lowest_of(heap, levels, stop, yet, left):
    """Take the link with the lowest level off a heap; return it, -1 if none grows, and its end.

    Behind its end stand those that are off it, the last one first.
    """
    while stop > 0:
        link = heap[0]
        if yet[link] > 0.0:
            # Levels only rise as others fill, so that the lowest one known is the one to look at.
            level = max(left[link], 0.0) / yet[link]
            if level > levels[0]:
                levels[0] = level
                sink(levels, heap, 0, stop)
                continue
        stop -= 1
        levels[0], heap[0] = levels[stop], heap[stop]
        sink(levels, heap, 0, stop)
        heap[stop] = link
        if yet[link] > 0.0:
            return link, stop
    return -1, stop


@compiled
def heap_of(links, yet, left):
    """Return links as a heap by their levels, and the levels."""
    levels = left[links] / yet[links]
    heap_up(levels, links)
    return links, levels


@inlined
def release_members(first, stop, share, others, yet, left, full_at, level):
    """Take the members of a full link that grow off the other links on their paths.

    Parameters
    ----------
    first, stop : int
        Where the link's members are.
    share : ndarray of float, shape (members,)
        What each weighs.
    others : ndarray of int, shape (members, most links on a path - 1)
        The other links that each crosses.
    """
    if others.shape[1] == 1:
        # Those frozen already need no test: of their other link, which is full, no more is read.
        # Unsigned: a place that may be negative costs a check each time.
        for m in range(np.uint64(first), np.uint64(stop)):
            other = others[m, 0]
            yet[other] -= share[m]
            left[other] -= share[m] * level
        return
    for m in range(first, stop):
        grows = share[m] > 0.0
        for h in range(others.shape[1]):
            if full_at[others[m, h]] < np.inf:
                grows = False
                break
        if grows:
            for h in range(others.shape[1]):
                yet[others[m, h]] -= share[m]
                left[others[m, h]] -= share[m] * level


@in_place
def release_all(weights, yets, lefts, level):
    """Take the flows of a full link off all others: the compiler takes several at a time."""
    for m in range(len(weights)):
        yets[m] -= weights[m]
        lefts[m] -= weights[m] * level


@in_place
def sooner(lefts, rates, soonest):
    """Return in how many seconds the next of some ends, or another that is as soon or sooner.

    Slices count from 0, and the first loop has no branches: the compiler takes several at a time.
    """
    ends = 0
    for i in range(len(lefts)):
        ends += lefts[i] < soonest * rates[i]
    if ends:
        for i in range(len(lefts)):
            if lefts[i] < soonest * rates[i]:
                soonest = lefts[i] / rates[i]
    return soonest
