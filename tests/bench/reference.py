"""What speed is measured against, in the same run: times alone say more of a machine's hour."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numba
import numpy as np
import simpy

__all__ = ["REFERENCES", "cpu_of"]


def cpu_of(call: Callable[[], object]) -> tuple[float, object]:
    """Return the CPU seconds of a call, children included, and what it returns."""
    before = time.process_time() + _children()
    found = call()
    return time.process_time() + _children() - before, found


def _children() -> float:
    import resource
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _plain() -> None:
    """1,000 flows at once on 128 ports, max-min fair, as one would first write it in Numba."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 128, 1000), rng.integers(128, 256, 1000)
    end = maxmin_to_the_end(src, dst, 10 ** rng.uniform(6, 9, 1000), np.full(256, 1.25e9))
    assert math.isfinite(end)


@numba.njit(cache=True)
def maxmin_to_the_end(src, dst, left, capacity):
    """Return when the last flow ends, rates being decided anew by progressive filling each time."""
    rate = np.empty(len(left))
    now = 0.0
    while True:
        free = capacity.copy()
        wants = np.zeros(len(capacity))
        for f in range(len(left)):
            rate[f] = -1.0
            if left[f] > 0.0:
                wants[src[f]] += 1.0
                wants[dst[f]] += 1.0
        while wants.max() > 0.0:
            full = -1
            for link in range(len(capacity)):
                if wants[link] > 0.0 and (full < 0
                                          or free[link] * wants[full] < free[full] * wants[link]):
                    full = link
            level = free[full] / wants[full]
            for f in range(len(left)):
                if left[f] > 0.0 and rate[f] < 0.0 and (src[f] == full or dst[f] == full):
                    rate[f] = level
                    for link in (src[f], dst[f]):
                        free[link] -= level
                        wants[link] -= 1.0
        dt = np.inf
        for f in range(len(left)):
            if left[f] > 0.0:
                dt = min(dt, left[f] / rate[f])
        if dt == np.inf:
            return now
        now += dt
        for f in range(len(left)):
            if left[f] > 0.0:
                left[f] = left[f] - rate[f] * dt if left[f] > rate[f] * dt * (1 + 1e-12) else 0.0


def _simpy() -> None:
    """50,000 events of 50 processes: what Python and SimPy take alone."""
    env = simpy.Environment(0.0)

    def process():
        for _ in range(1000):
            yield env.timeout(1.0)

    for _ in range(50):
        env.process(process())
    env.run()


#: By name: what a case may be measured beside.
REFERENCES = {"plain": _plain, "simpy": _simpy}
