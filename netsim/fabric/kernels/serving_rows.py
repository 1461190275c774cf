"""What `serving` works on: a copy of the unfinished flows in service order, with their slots."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST, ROUNDINGS

__all__ = ["ENDED", "IDLE", "WANTS", "copy_rows", "write_back"]

#: A link of a coflow: it has ``load`` bytes to send, which were ``known`` when last added up, at
#: ``used`` bytes per second, ``held`` of them within its queue's share. ``open`` of its flows
#: ``members[first:first + listed]`` have not ended. While the coflow is filled, ``left`` bytes per
#: second and ``waiting`` flows are left.
_SLOT = np.dtype([("load", "f8"), ("known", "f8"), ("used", "f8"), ("held", "f8"), ("left", "f8"),
                  ("link", "i4"), ("first", "i4"), ("listed", "i4"), ("open", "i4"),
                  ("waiting", "i4")], align=True)

#: A coflow in service order: where its flows, slots and runs begin, and their numbers; the bytes
#: that it has left, how fast it sends them, how fast within its queue's share, how few it may
#: have left before it is to stop; whether it is ``thinner`` than when it got that.
_COFLOW = np.dtype([("flow", "i8"), ("flows", "i8"), ("slot", "i8"), ("slots", "i8"),
                    ("run", "i8"), ("runs", "i8"), ("left", "f8"), ("speed", "f8"),
                    ("held", "f8"), ("limit", "f8"), ("row", "i8"), ("queue", "i8"),
                    ("thinner", "i8")], align=True)

#: Flows ``first`` to ``stop`` that follow one another in a coflow's list and have one last
#: ``slot``; ``busy`` if some of them may have a rate, ``holds`` if within the share of a
#: queue.
_RUN = np.dtype([("first", "i4"), ("stop", "i4"), ("slot", "i4"), ("busy", "i2"),
                 ("holds", "i2")], align=True)

#: What a flow is to a filling, unless it is the step in which it last got its rate there.
ENDED, IDLE, WANTS = -2, -1, 0


@compiled
def copy_rows(coflows, flows, hops, loads, rule):
    """Return the coflows in service order, their slots, and their unfinished flows.

    Returns
    -------
    served, slots : ndarray of _COFLOW, _SLOT
        The last slot is no link: it fills up the paths of flows that cross fewer than others.
    senders : tuple of ndarray
        Per flow: bytes left, rate, bytes at which it has ended, place of its coflow in the
        order, position in `flows`, slots that it crosses, rate within its queue's share.
    runs : ndarray of _RUN
    fillings : pair of tuples of ndarray
        For each of two fillings: how many of the flows on each slot want more; whether the slot
        has room; and of each flow whether it has `ENDED`, is `IDLE`, `WANTS`, or else the
        step in which it last got its rate.
    members : tuple of ndarray
        The flows on each slot, one after the other; the other slots that each crosses.
    """
    order, _, _, queue, _, limit = rule
    served = np.zeros(len(order), _COFLOW)
    count = 0
    slot_count = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        served[k].row = order[k]
        served[k].queue = queue[order[k]]
        served[k].thinner = 1
        # A few roundings late, so that what is left says by then that it has been reached.
        served[k].limit = row.total * (1.0 - ROUNDINGS) - limit[order[k]]
        served[k].flow = count
        served[k].slot = slot_count
        served[k].flows = row.open
        served[k].slots = row.loads
        count += row.open
        slot_count += row.loads
    slots = np.zeros(slot_count + 1, _SLOT)
    left = np.empty(count)
    floor = np.empty(count)
    place = np.empty(count, np.int32)
    index = np.empty(count, np.int64)
    longest = 1
    i = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        for s in range(row.loads):
            slots[served[k].slot + s].link = loads[row.load + s].link
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                left[i] = flows[f].remaining
                floor[i] = DUST * flows[f].size
                place[i] = k
                index[i] = f
                served[k].left += left[i]
                longest = max(longest, flows[f].hops)
                i += 1
    path, runs = _paths(flows, hops, served, slots, place, index, longest)
    senders = (left, np.zeros(count), floor, place, index, path, np.zeros(count))
    fillings = (_filling(slot_count, count), _filling(slot_count, count))
    return served, slots, senders, runs, fillings, _members(slots, path)


@compiled
def _filling(slot_count, count):
    room = np.zeros(slot_count + 1, np.bool_)
    room[slot_count] = True
    return np.zeros(slot_count + 1, np.int32), room, np.full(count, IDLE, np.int32)


@compiled
def _paths(flows, hops, served, slots, place, index, longest):
    """Return the slots that each flow crosses, and the runs of flows with one last slot."""
    count = len(index)
    path = np.full((count, longest), len(slots) - 1, np.uint32)
    runs = np.zeros(count, _RUN)
    found = 0
    for i in range(count):
        flow = flows[index[i]]
        coflow = served[place[i]]
        for h in range(flow.hops):
            path[i, h] = coflow.slot + hops[flow.hop + h].slot
        last = path[i, flow.hops - 1]
        if i == coflow.flow or runs[found - 1].slot != last:
            if i == coflow.flow:
                coflow.run = found
            runs[found].first = i
            runs[found].slot = last
            found += 1
            coflow.runs = found - coflow.run
        runs[found - 1].stop = i + 1
    return path, runs[:found].copy()


@compiled
def _members(slots, path):
    """Return the flows on each slot, and the other slots that each of them crosses."""
    count, longest = path.shape
    nowhere = len(slots) - 1
    for i in range(count):
        for h in range(longest):
            slots[path[i, h]].listed += 1
    slots[nowhere].listed = 0
    first = 0
    for s in range(len(slots)):
        slots[s].first = first
        first += slots[s].listed
    # Unsigned: a place in an array that may be negative costs a check each time.
    members = np.empty(first, np.uint32)
    others = np.full((first, max(longest - 1, 1)), nowhere, np.uint32)
    for i in range(count):
        for h in range(longest):
            if path[i, h] == nowhere:
                continue
            slot = slots[path[i, h]]
            m = slot.first + slot.open
            slot.open += 1
            members[m] = i
            for g in range(longest - 1):
                others[m, g] = path[i, g if g < h else g + 1]
    return members, others


@compiled
def write_back(coflows, flows, served, senders, now):
    left, rate, _, place, index, _, _ = senders
    for k in range(len(served)):
        row = coflows[served[k].row]
        row.base = 0.0
        row.finish = row.last
        row.fresh = 0
    for i in range(len(left)):
        flow = flows[index[i]]
        flow.remaining = left[i]
        if left[i] > 0.0:
            row = coflows[served[place[i]].row]
            flow.rate = rate[i]
            flow.finish = now + left[i] / rate[i] if rate[i] > 0.0 else np.inf
            row.base += left[i]
            row.finish = max(row.finish, flow.finish)
