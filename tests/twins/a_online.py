"""Readable version of A_online as in the paper, one chunk and one event at a time.

Tests compare the compiled version in `netsim.edge.kernels` with it. Numbers may be fractions: all
arithmetic is then exact, except for tolerances within which values or instants count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from netsim.ties import ROUNDING, equal, merge_equal

#: An int, a float or a fraction.
Number = Any

_FOREVER = float("inf")


@dataclass(eq=False)
class Piece:
    """A chunk."""

    task: int  #: index of its job
    weight: Number  #: D p0
    share: Number  #: 1 / D
    left: Number  #: training time that remains
    ready: Number  #: instant at which its data is there
    worker: int | None = None  #: None in the cloud
    alpha: Number = 0  #: Q when the worker was chosen
    t_star: Number = 0  #: the start planned then
    #: Maximal intervals [start, end] of its training.
    spans: list[list[Number]] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """A job: its arrival r, chunks D, times p0 and p1, and delays to workers and the cloud.

    `delays` maps each worker of its type, in order, to the delay.
    """

    arrival: Number
    chunks: int
    p0: Number
    p1: Number
    delays: dict[int, Number]
    cloud_delay: Number


def _by(instant: Number, now: Number) -> bool:
    """Whether an instant has come, up to rounding."""
    return bool(instant <= now * (1 + ROUNDING))


def train(queue: Sequence[Piece], now: Number, until: Number) -> None:
    """Train on one worker from `now` to `until` by HAPRF; its queue is in order of dispatch."""
    while not _by(until, now):
        unfinished = [piece for piece in queue if piece.left > 0]
        at_hand = [piece for piece in unfinished if _by(piece.ready, now)]
        # A chunk that becomes ready later may preempt then; min keeps the order among equals.
        stop = min([until, *(piece.ready for piece in unfinished if not _by(piece.ready, now))])
        if at_hand:
            first = min(at_hand, key=lambda piece: piece.weight)
            if _by(now + first.left, stop):
                stop, first.left = now + first.left, 0
            else:
                first.left -= stop - now
            if first.spans and _by(now, first.spans[-1][1]):
                first.spans[-1][1] = stop
            else:
                first.spans.append([now, stop])
        elif stop == _FOREVER:
            return
        now = stop


def calculate_q(queue: Sequence[Piece], now: Number, delay: Number, p: Number, chunks: int,
                weight: Number) -> tuple[Number, Number]:
    """Compute Q of Eq. 5 and the planned start t* of a new chunk on one worker."""
    later = [copy(piece) for piece in queue]
    for piece in later:
        piece.spans = []
    train(later, now, now + delay)
    ahead = sum(piece.left for piece in later if piece.weight <= weight)
    harm = sum(piece.share for piece in later if piece.weight > weight and piece.left > 0)
    return (delay + ahead + p) / chunks + p * harm, now + delay + ahead


def a_online(tasks: Sequence[Task], workers: int, cloud: bool,
             number: Callable[[int], Number] = float) -> list[Piece]:
    """Run A_online; return the chunks of all jobs in order of dispatch, after their training.

    Tasks are in order of arrival. `number` is the type of numbers: `fractions.Fraction` for exact
    results, or float.
    """
    weights = _weights(tasks)
    queues: list[list[Piece]] = [[] for _ in range(workers)]
    pieces: list[Piece] = []
    clock = number(0)
    for place, task in enumerate(tasks):
        for queue in queues:
            train(queue, clock, task.arrival)
        clock = task.arrival
        at_edge = False
        for _ in range(task.chunks):
            weight = weights[place]
            piece = Piece(place, weight, number(1) / task.chunks, task.p0, clock)
            offers: list[tuple[Number, ...]] = [
                (*calculate_q(queues[worker], clock, delay, task.p0, task.chunks, weight),
                 worker, delay) for worker, delay in task.delays.items()]
            if cloud:
                p = task.p0 if at_edge else task.p1
                offers.append(((task.cloud_delay + p) / task.chunks, clock + task.cloud_delay,
                               None, task.cloud_delay))
            least = min(q for q, *_ in offers)
            piece.alpha, piece.t_star, piece.worker, delay = next(
                each for each in offers if equal(each[0], least))
            piece.ready = clock + delay
            pieces.append(piece)
            if piece.worker is None:
                piece.left, piece.spans = 0, [[piece.ready, piece.ready + p]]
            else:
                queues[piece.worker].append(piece)
                at_edge = True
    for queue in queues:
        train(queue, clock, _FOREVER)
    return pieces


def _weights(tasks: Sequence[Task]) -> list[float]:
    """Compute D p0 of each job, with equal values merged among jobs with the same workers."""
    weights = [0.0] * len(tasks)
    for workers in {tuple(task.delays): None for task in tasks}:
        alike = [place for place, task in enumerate(tasks) if tuple(task.delays) == workers]
        merged = merge_equal([float(tasks[place].chunks * tasks[place].p0) for place in alike])
        for place, weight in zip(alike, merged.tolist(), strict=True):
            weights[place] = weight
    return weights
