"""Moving bytes while coflows are served from flow end to flow end; see `serving`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import sooner

__all__ = ["advance", "crossing_in", "let_pass", "soonest"]


@inlined
def soonest(groups, moving, senders, runs):
    """Return in how many seconds the next flow ends; inf if no flow sends."""
    soonest = np.inf
    for k in moving:
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            if runs[r].busy:
                soonest = sooner(senders.left[runs[r].first:runs[r].stop],
                                 senders.rate[runs[r].first:runs[r].stop], soonest)
    return soonest


@in_place
def crossing_in(groups, moving):
    """Return in how many seconds the next sending coflow reaches its limit.

    A coflow that does not send has reached its limit if it is within `DUST` of it: the end of a
    flow at the same time leaves it there.
    """
    crossing = np.inf
    for k in moving:
        group = groups[k]
        if group.speed > 0.0:
            crossing = min(crossing, max(group.left - group.limit, 0.0) / group.speed)
        elif group.row >= 0 and group.left <= group.reached:
            crossing = 0.0
    return crossing


@inlined
def let_pass(groups, moving, link, links, traffic, dt, carried):
    """Move bytes of sending groups and their slots for `dt` seconds."""
    load, used, _ = traffic
    for k in moving:
        group = groups[k]
        group.left -= group.speed * dt
        for s in range(group.slot, group.slot + group.slots):
            load[s] -= used[s] * dt
        if len(carried):
            for s in range(group.slot, group.slot + group.slots):
                carried[links[link[s]]] += used[s] * dt


@in_place
def advance(senders, run, dt, slack):
    """Move bytes of the flows of a run for `dt` seconds; return how many end within the slack."""
    lefts, rates = senders.left[run.first:run.stop], senders.rate[run.first:run.stop]
    floors = senders.floor[run.first:run.stop]
    ended = 0
    for i in range(len(lefts)):
        lefts[i] -= rates[i] * dt
        ended += lefts[i] <= floors[i] + rates[i] * slack
    return ended
