"""Compiled construction of coflows' rows from their flows and routes."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.heap import sort
from netsim.fabric.records import COFLOW, FLOW, HOP, LEAST_BYTES, LOAD


def bind(src, dst, nbytes, ptr, links, capacity, stops, payload=None, latency=None):
    """Return the COFLOW, FLOW, HOP and LOAD rows of some coflows before they have sent anything.

    Flow f crosses ``links[ptr[f]:ptr[f + 1]]``; flows are listed coflow by coflow, and `stops` has
    the index after the last flow of each. Flows without bytes (less than `LEAST_BYTES`) or without
    links are left out. Loads are in order of their links. The job and times of COFLOW rows are left
    for the caller to set. `payload` is the bytes of flows without headers, `nbytes` by default, and
    `latency` that of their paths, 0 by default.
    """
    payload = nbytes if payload is None else payload
    latency = np.zeros(len(nbytes)) if latency is None else latency
    coflows, rows = np.zeros(len(stops), COFLOW), np.zeros(len(nbytes), FLOW)
    hops, loads = np.zeros(len(links), HOP), np.zeros(len(links), LOAD)
    flow, hop, load = bind_rows(src, dst, nbytes, ptr, links, capacity, stops, coflows, rows, hops,
                                loads, np.zeros(len(capacity)),
                                np.empty(len(capacity), np.int64), np.empty(len(links), np.int64),
                                payload, latency)
    return coflows, rows[:flow], hops[:hop], loads[:load]


@in_place
def bind_rows(src, dst, nbytes, ptr, links, capacity, stops, coflows, rows, hops, loads, load_on,
              slot_of, used, payload, latency):
    """Write the rows of `bind`; return the numbers of flows, hops and loads.

    `load_on`, all zeros, and `slot_of`, with one entry per link of the network, and `used`, as long
    as `links`, are scratch space.
    """
    begin = 0
    flow = 0
    hop = 0
    load = 0
    for c in range(len(stops)):
        row = coflows[c]
        row.flow, row.hop, row.load = flow, hop, load
        row.loads = _load(begin, stops[c], nbytes, ptr, links, load_on, slot_of, used, loads[load:])
        load += row.loads
        row.arrives = -np.inf
        for f in range(begin, stops[c]):
            if ptr[f + 1] == ptr[f]:
                continue
            if not nbytes[f] >= LEAST_BYTES:
                row.arrives = max(row.arrives, latency[f])
                continue
            one = rows[flow]
            one.size = one.remaining = nbytes[f]
            one.finish = np.inf
            one.weight = 1.0
            one.payload, one.latency = payload[f], latency[f]
            one.hop = hop
            one.hops = ptr[f + 1] - ptr[f]
            one.src = src[f]
            one.dst = dst[f]
            one.index = f - begin
            flow += 1
            row.total += nbytes[f]
            row.payload += payload[f]
            row.reach = max(row.reach, latency[f])
            row.longest = max(row.longest, nbytes[f])
            row.max_hops = max(row.max_hops, ptr[f + 1] - ptr[f])
            for h in range(ptr[f], ptr[f + 1]):
                hops[hop].link = links[h]
                hops[hop].slot = slot_of[links[h]]
                hop += 1
        row.flows = row.open = flow - row.flow
        row.hops = hop - row.hop
        row.base = row.total
        row.gamma = row.nominal_gamma = _bottleneck(loads[row.load:load], capacity)
        row.start = -1.0
        row.finish = row.deadline = np.inf
        row.left = row.weight = 1.0
        row.fresh = 1
        begin = stops[c]
    return flow, hop, load


@inlined
def _load(begin, stop, nbytes, ptr, links, load_on, slot_of, used, loads):
    """Write the loads of one coflow and the slots of its links; return how many there are."""
    count = 0
    for f in range(begin, stop):
        if nbytes[f] >= LEAST_BYTES:
            for h in range(ptr[f], ptr[f + 1]):
                if load_on[links[h]] == 0.0:
                    used[count] = links[h]
                    count += 1
                load_on[links[h]] += nbytes[f]
    in_order = used[:count]
    sort(in_order)
    for slot in range(count):
        link = in_order[slot]
        slot_of[link] = slot
        loads[slot].link = link
        loads[slot].nbytes = load_on[link]
        load_on[link] = 0.0
    return count


@in_place
def _bottleneck(loads, capacity):
    """Return the effective bottleneck of LOAD rows: max over links of bytes/capacity (Eq. 26)."""
    longest = 0.0
    for load in loads:
        longest = max(longest, load.nbytes / capacity[load.link])
    return longest


@compiled
def bottlenecks(coflows, loads, capacity):
    """Return the effective bottleneck of each coflow's LOAD rows. Shape (coflows,)."""
    gammas = np.empty(len(coflows))
    for c in range(len(coflows)):
        row = coflows[c]
        gammas[c] = _bottleneck(loads[row.load:row.load + row.loads], capacity)
    return gammas
