"""Rings of placed jobs: who sends to whom, how much, and what takes time besides.

`netsim.cluster.contention` has what iterations take by the formulas of SJF-BCO.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from netsim.brief import brief
from netsim.checks import check_whole
from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel
from netsim.units import Quantity, parse_bytes, parse_rate, parse_seconds
from netsim.workload import Flows, JobSpec, Stage

__all__ = ["RingLayout", "model_of", "ring_stages"]


@dataclass(frozen=True, slots=True)
class RingLayout:
    """A ring all-reduce among the workers of a placed job (spec, Section 8).

    Worker i sends to worker i + 1, the last to the first. As workers stand in order of server and
    GPU, each server is entered once and left once.

    Parameters
    ----------
    workers : iterable of (int, int)
        The server and the GPU of each worker, in any order.

    Attributes
    ----------
    workers : tuple of (int, int)
        In the order of the ring.

    Raises
    ------
    InputError
        If there is no worker, two are on one GPU, or a number is negative.

    Examples
    --------
    >>> ring = RingLayout([(0, 0), (2, 1), (0, 1), (1, 3)])
    >>> ring.servers, ring.edges, ring.edges_inside
    ((0, 1, 2), ((0, 1), (1, 2), (2, 0)), 1)
    >>> ring.bytes_per_edge(12e6)
    18000000.0
    """

    workers: tuple[tuple[int, int], ...]

    __repr__ = brief

    def __init__(self, workers: Iterable[tuple[int, int]]) -> None:
        try:
            given = [(server, gpu) for server, gpu in workers]
        except (TypeError, ValueError):
            raise InputError("workers must be a list of pairs (server, gpu), not "
                             f"{workers!r}") from None
        for server, gpu in given:
            check_whole(server, "workers: a server")
            check_whole(gpu, "workers: a GPU")
        ordered = sorted((int(server), int(gpu)) for server, gpu in given)
        if not ordered:
            raise InputError("a ring has at least one worker; workers is empty")
        for one, other in pairwise(ordered):
            if one == other:
                raise InputError(f"workers: two are on GPU {one[1]} of server {one[0]}; "
                                 "a GPU has one worker")
        object.__setattr__(self, "workers", tuple(ordered))

    @property
    def size(self) -> int:
        """The number of workers, w."""
        return len(self.workers)

    @property
    def servers(self) -> tuple[int, ...]:
        """The servers, each once, in the order of the ring."""
        return tuple(dict.fromkeys(server for server, _ in self.workers))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The edges from one server to another; none if there is one server only."""
        servers = self.servers
        if len(servers) == 1:
            return ()
        return (*pairwise(servers), (servers[-1], servers[0]))

    @property
    def edges_inside(self) -> int:
        """The number of edges inside servers; a worker alone has none."""
        return 0 if self.size == 1 else self.size - len(self.edges)

    @property
    def steps(self) -> int:
        """The steps of an all-reduce, 2(w-1)."""
        return 2 * (self.size - 1)

    def bytes_per_step(self, nbytes: float) -> float:
        """Return what each edge carries in a step, m/w, of gradients of m bytes."""
        return nbytes / self.size

    def bytes_per_edge(self, nbytes: float) -> float:
        """Return what each edge carries in an all-reduce, 2m(w-1)/w, of gradients of m bytes."""
        return 2 * self.bytes_reduced(nbytes)

    def bytes_reduced(self, nbytes: float) -> float:
        """Return what each worker adds up in an all-reduce, m(w-1)/w, of gradients of m bytes."""
        return nbytes * (self.size - 1) / self.size


def ring_stages(ring: RingLayout, nbytes: Quantity, *, compute_s: Quantity = 0.0,
                server_s: Quantity = 0.0, reduction: Quantity = math.inf,
                intra: Quantity = math.inf, stepwise: bool = False) -> tuple[Stage, ...]:
    """Return an iteration of a placed job as stages for `netsim.JobSpec` (spec, Section 8).

    First the computation, c + xi2 (servers) + m(w-1)/w/C; then a coflow with 2m(w-1)/w bytes on
    each edge between servers. A job on one server has no flows: its exchange, 2m(w-1)/w/b_i, is
    part of the computation. Ranks are places in ``ring.servers``, which are thus the job's hosts::

        JobSpec(0, stages=ring_stages(ring, "40MB"), hosts=ring.servers,
                ranks=len(ring.servers))

    Parameters
    ----------
    ring : RingLayout
    nbytes : quantity
        The gradients, m.
    compute_s : quantity
        Seconds of forward and backward pass, c.
    server_s : quantity
        Seconds of overhead per server that the job uses, xi2; gamma is that times the servers.
    reduction : quantity
        Bytes per second that a worker adds up, C; inf if that takes no time.
    intra : quantity
        Bytes per second between GPUs of a server, b_i; inf if that takes no time.
    stepwise : bool
        Emit the 2(w-1) steps of m/w bytes one after the other instead of one coflow with their
        sum. It takes as long where rates are constant.

    Returns
    -------
    tuple of Stage

    Raises
    ------
    InputError
        If a quantity is negative, or a speed is 0.

    Examples
    --------
    >>> stage, = ring_stages(RingLayout([(0, 0), (1, 0)]), 8e6, compute_s="10ms", reduction=1e9)
    >>> stage.compute_s, list(stage.flows)[0].nbytes
    (0.014, 8000000.0)
    """
    m = parse_bytes(nbytes, "nbytes")
    computation = (parse_seconds(compute_s, "compute_s")
                   + parse_seconds(server_s, "server_s") * len(ring.servers)
                   + ring.bytes_reduced(m) / _speed(reduction, "reduction"))
    inside = _speed(intra, "intra")
    if not ring.edges:
        return (Stage("all-reduce", compute_s=computation + ring.bytes_per_edge(m) / inside),)
    steps = ring.steps if stepwise else 1
    flows = _between_servers(
        ring, ring.bytes_per_step(m) if stepwise else ring.bytes_per_edge(m))
    names = [f"step-{step}" for step in range(steps)] if stepwise else ["all-reduce"]
    return tuple(Stage(name, flows, compute_s=0.0 if step else computation,
                       after=names[max(step - 1, 0):step]) for step, name in enumerate(names))


def _speed(value: Quantity, what: str) -> float:
    """Return bytes per second; inf is one, too."""
    return math.inf if value == math.inf else parse_rate(value, what, strict=True)


def _between_servers(ring: RingLayout, nbytes: float) -> Flows:
    """Return a flow for each edge between servers; ranks are places in ``ring.servers``."""
    rank = np.arange(len(ring.edges))
    return Flows(rank, (rank + 1) % len(rank), np.full(len(rank), nbytes))


def model_of(job: JobSpec) -> ParallelModel:
    """Return what a job trains; a ring of workers is one stage with as many replicas.

    Raises
    ------
    InputError
        If it is neither a model nor a ring.
    """
    if job.model is not None:
        return job.model
    pattern = job.pattern.get("name") if isinstance(job.pattern, dict) else job.pattern
    if pattern != "ring-all-reduce":
        said = "explicit stages" if pattern is None else f"the pattern {pattern!r}"
        raise InputError(f"job {job.id} has {said}: what an iteration takes is known of models, "
                         "and of the pattern 'ring-all-reduce'")
    return _ring(job.ranks, job.compute_s, job.nbytes)


@lru_cache(maxsize=4096)
def _ring(ranks: int, compute_s: float, nbytes: float) -> ParallelModel:
    return ParallelModel([ModelStage(ranks, backward_s=compute_s, param_bytes=nbytes)], name="ring")
