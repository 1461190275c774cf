"""Reference versions of kernels that make the rows of coflows and follow their flows.

Rows are dicts with the columns of `netsim.fabric.records`, in lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netsim.fabric.records import LEAST_BYTES

Rows = list[dict[str, Any]]


def bind(src: Sequence[int], dst: Sequence[int], nbytes: Sequence[float],
         paths: Sequence[Sequence[int]], capacity: Sequence[float], stops: Sequence[int],
         payload: Sequence[float], latency: Sequence[float]) -> tuple[Rows, Rows, Rows, Rows]:
    """Make the COFLOW, FLOW, HOP and LOAD rows of coflows that have sent nothing.

    `paths` has the links that each flow crosses, and `stops` the index after the last flow of each
    coflow. A flow that crosses no link is left out. So is one without bytes: it arrives after its
    latency.
    """
    coflows: Rows = []
    flows: Rows = []
    hops: Rows = []
    loads: Rows = []
    for begin, stop in zip([0, *stops[:-1]], stops, strict=True):
        crossing = [f for f in range(begin, stop) if len(paths[f])]
        sending = [f for f in crossing if nbytes[f] >= LEAST_BYTES]
        empty = [f for f in crossing if nbytes[f] < LEAST_BYTES]
        total = sum(nbytes[f] for f in sending)
        used = sorted({link for f in sending for link in paths[f]})
        load = [sum(nbytes[f] for f in sending for other in paths[f] if other == link)
                for link in used]
        gamma = max((x / capacity[link] if capacity[link] else math.inf
                     for link, x in zip(used, load, strict=True)), default=0.0)
        coflows.append({
            "flow": len(flows), "flows": len(sending), "open": len(sending),
            "hop": len(hops), "hops": sum(len(paths[f]) for f in sending),
            "load": len(loads), "loads": len(used),
            "total": total, "base": total, "payload": sum(payload[f] for f in sending),
            "longest": max((nbytes[f] for f in sending), default=0.0),
            "max_hops": max((len(paths[f]) for f in sending), default=0),
            "reach": max((latency[f] for f in sending), default=0.0),
            "arrives": max((latency[f] for f in empty), default=-math.inf),
            "gamma": gamma, "nominal_gamma": gamma, "left": 1.0, "weight": 1.0, "fresh": 1,
            "start": -1.0, "finish": math.inf, "deadline": math.inf})
        for f in sending:
            flows.append({"size": nbytes[f], "remaining": nbytes[f], "finish": math.inf,
                          "weight": 1.0, "payload": payload[f], "latency": latency[f],
                          "hop": len(hops), "hops": len(paths[f]), "src": src[f], "dst": dst[f],
                          "index": f - begin})
            hops += [{"link": link, "slot": used.index(link)} for link in paths[f]]
        loads += [{"link": link, "nbytes": x} for link, x in zip(used, load, strict=True)]
    return coflows, flows, hops, loads


def arrival(arrives: float, last: float, ends: Sequence[float], latency: Sequence[float]) -> float:
    """Compute when the last byte of a completed coflow arrives, in seconds.

    `arrives` is when the last of its messages without bytes does (-inf if it has none), and `last`
    when its last flow ended. `ends` and `latency` are those of its flows.
    """
    return max([arrives, last, *(end + late for end, late in zip(ends, latency, strict=True))])


def sent_over(path: Sequence[int], levels: Sequence[Sequence[float]],
              seconds: Sequence[float]) -> float:
    """Sum the bytes that a flow sends over a path, at the lowest level of its links.

    `levels` has, for each link, the bytes per second at each instant, which lasts `seconds`.
    """
    return sum(time * min(levels[link][at] for link in path) for at, time in enumerate(seconds))
