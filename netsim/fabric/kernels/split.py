"""Compiled equal split: each link divides what it has left by its number of flows."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST


@compiled
def split(coflows, flows, hops, order, ends, capacity, left, rates):
    """Give the flows of each batch of coflows the smallest equal part among their links.

    A flow's part is the minimum of left/n over its links, where n is the number of flows of the
    batch on the link. Flows that need a full link get nothing and do not count. This is one pass:
    what a flow cannot use of its part stays on the link, for the next batch.

    `ends` has the end of each batch in `order`. Parts are added to `rates`, one per unfinished
    flow, and subtracted from `left`, in bytes per second.
    """
    offset = np.zeros(len(coflows) + 1, np.int64)
    for c in range(len(coflows)):
        offset[c + 1] = offset[c] + coflows[c].open
    wanting = np.empty(offset[-1], np.int64)
    place = np.empty(offset[-1], np.int64)
    part = np.empty(offset[-1])
    wanted = np.zeros(len(capacity), np.int64)
    start = 0
    for end in ends:
        count = 0
        for c in order[start:end]:
            row = coflows[c]
            i = offset[c]
            for f in range(row.flow, row.flow + row.flows):
                flow = flows[f]
                if flow.remaining <= 0.0:
                    continue
                room = True
                for h in range(flow.hop, flow.hop + flow.hops):
                    room &= left[hops[h].link] > DUST * capacity[hops[h].link]
                if room:
                    wanting[count] = f
                    place[count] = i
                    count += 1
                    for h in range(flow.hop, flow.hop + flow.hops):
                        wanted[hops[h].link] += 1
                i += 1
        for n in range(count):
            flow = flows[wanting[n]]
            part[n] = np.inf
            for h in range(flow.hop, flow.hop + flow.hops):
                part[n] = min(part[n], left[hops[h].link] / wanted[hops[h].link])
        for n in range(count):
            flow = flows[wanting[n]]
            rates[place[n]] += part[n]
            for h in range(flow.hop, flow.hop + flow.hops):
                left[hops[h].link] -= part[n]
                wanted[hops[h].link] = 0
        start = end
