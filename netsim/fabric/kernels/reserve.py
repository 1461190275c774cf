"""Compiled sum of reserved shares."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled


@compiled
def link_shares(coflows, loads, shares, capacity):
    """Return the sum of the shares on each link, over the coflows with bytes to send on it.

    Only the length of `capacity` is used.
    """
    reserved = np.zeros(len(capacity))
    for c in range(len(coflows)):
        row = coflows[c]
        for k in range(row.load, row.load + row.loads):
            if loads[k].nbytes > 0.0:
                reserved[loads[k].link] += shares[c]
    return reserved
