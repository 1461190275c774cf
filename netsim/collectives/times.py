"""Times of a collective on an idle switch, counted from its messages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.messages import Round, Schedule
from netsim.collectives.parts import Sizes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def stepwise_s(schedule: Schedule, sizes: Sizes, rate: float, latency: float = 0.0,
               overhead: float = 0.0) -> float:
    """Compute the time of a collective in steps, alone on a non-blocking switch.

    A step takes the overhead, then as long as its fullest port sends or receives, and then the
    latency of a path. With G_s the bytes of the fullest port in step s, and sigma steps:

        T = sigma (latency + overhead) + sum over s of G_s / rate

    Parameters
    ----------
    schedule : Schedule
    sizes : Sizes
        The sizes of its pieces.
    rate : float
        Rate of each port in each direction, in bytes per second.
    latency, overhead : float
        Latency of every path, and overhead of every step, in seconds.

    Returns
    -------
    float
        Seconds; 0 for a single rank.
    """
    fullest = sum(times * nbytes for nbytes, times in port_bytes(schedule, sizes))
    return schedule.steps * (latency + overhead) + fullest / rate


def aggregated_s(schedule: Schedule, sizes: Sizes, rate: float, latency: float = 0.0,
                 overhead: float = 0.0) -> float:
    """Compute the time like `stepwise_s`, but with each phase as one coflow instead of steps.

    A phase takes as long as the port that sends or receives most over all steps of the phase. With
    sigma steps in all:

        T = sigma (latency + overhead) + sum over phases of max over ports of (port's bytes) / rate

    This assumes rates that end each phase as early as its fullest port allows. Max-min fairness may
    take longer if flows of a phase have different sizes, as in a double tree.

    The time is at most that of `stepwise_s`, because the largest sum is at most the sum of the
    largest values. The two are equal if and only if, in each phase, one port is the fullest in
    every step.
    """
    fullest = 0.0
    for phase, edges in enumerate(schedule.edges):
        nbytes = schedule.phase_bytes(phase, sizes)
        fullest += max(float(np.bincount(end, nbytes).max()) for end in (edges.src, edges.dst))
    return schedule.steps * (latency + overhead) + fullest / rate


def port_bytes(schedule: Schedule, sizes: Sizes) -> Iterator[tuple[float, int]]:
    """Yield the bytes of the fullest port of a step, and the number of such steps in a row.

    A port is one direction of a position: sending or receiving.
    """
    for each in schedule.rounds:
        if each.alike(sizes):
            yield _fullest(each, sizes, 0), each.times
        else:
            for repetition in range(each.times):
                yield _fullest(each, sizes, repetition), 1


def _fullest(each: Round, sizes: Sizes, repetition: int) -> float:
    nbytes = each.nbytes(sizes, repetition)
    return max(float(np.bincount(end, nbytes).max()) for end in (each.src, each.dst))
