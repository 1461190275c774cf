"""Compiled construction of a coflow's rows from its flows and their routes."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import FLOW, HOP, LEAST_BYTES, LOAD

__all__ = ["bind"]


@compiled
def bind(src, dst, nbytes, ptr, links, capacity):
    """Return the FLOW, HOP and LOAD rows of a coflow.

    Flows without bytes (less than `LEAST_BYTES`) or without links are left out. Loads are in
    order of their links.

    Parameters
    ----------
    src, dst, nbytes : ndarray, shape (flows,)
        Hosts and bytes.
    ptr, links : ndarray of int
        The links that each flow crosses, in compressed rows.
    capacity : ndarray of float, shape (links of the network,)
        Only its length counts.
    """
    load_on = np.zeros(len(capacity))
    flow_count = 0
    hop_count = 0
    for f in range(len(nbytes)):
        if nbytes[f] >= LEAST_BYTES and ptr[f + 1] > ptr[f]:
            flow_count += 1
            hop_count += ptr[f + 1] - ptr[f]
            for h in range(ptr[f], ptr[f + 1]):
                load_on[links[h]] += nbytes[f]
    slot_of = np.empty(len(capacity), np.int64)
    load_count = 0
    for link in range(len(capacity)):
        if load_on[link] > 0.0:
            slot_of[link] = load_count
            load_count += 1
    loads = np.zeros(load_count, LOAD)
    for link in range(len(capacity)):
        if load_on[link] > 0.0:
            loads[slot_of[link]].link = link
            loads[slot_of[link]].nbytes = load_on[link]

    rows = np.zeros(flow_count, FLOW)
    hops = np.zeros(hop_count, HOP)
    i = 0
    hop = 0
    for f in range(len(nbytes)):
        if not (nbytes[f] >= LEAST_BYTES and ptr[f + 1] > ptr[f]):
            continue
        row = rows[i]
        row.size = nbytes[f]
        row.remaining = nbytes[f]
        row.finish = np.inf
        row.weight = 1.0
        row.hop = hop
        row.hops = ptr[f + 1] - ptr[f]
        row.src = src[f]
        row.dst = dst[f]
        row.index = f
        i += 1
        for h in range(ptr[f], ptr[f + 1]):
            hops[hop].link = links[h]
            hops[hop].slot = slot_of[links[h]]
            hop += 1
    return rows, hops, loads
