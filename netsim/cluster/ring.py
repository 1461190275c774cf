"""Rings of placed jobs: their edges between servers, the bytes on them, and their stages.

For iteration times by the formulas of SJF-BCO, see `netsim.cluster.contention`. At the end: slices
of replicas, which must be on one server.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Ints
from netsim.base.brief import brief
from netsim.base.units import Quantity, parse_bytes, parse_rate, parse_seconds
from netsim.base.values import about, as_whole
from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel
from netsim.workload import Flows, JobSpec, Stage


@dataclass(frozen=True, slots=True)
class RingLayout:
    """A ring all-reduce among the workers of a placed job.

    Worker i sends to worker i + 1, and the last to the first. Workers are in order of server and
    GPU, so that the ring enters and leaves each server once.

    Parameters
    ----------
    workers : iterable of (int, int)
        The server and the GPU of each worker, in any order.

    Attributes
    ----------
    workers : tuple of (int, int)
        Workers in the order of the ring.

    Raises
    ------
    InputError
        If there is no worker, two workers have the same GPU, or a number is negative.

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
                             f"{workers!r}", "workers") from None
        with about("workers"):
            ordered = sorted((as_whole(server, "workers: a server"),
                              as_whole(gpu, "workers: a GPU")) for server, gpu in given)
        if not ordered:
            raise InputError("a ring has at least one worker; workers is empty", "workers")
        for one, other in pairwise(ordered):
            if one == other:
                raise InputError(f"workers: two are on GPU {one[1]} of server {one[0]}; "
                                 "a GPU has one worker", "workers")
        object.__setattr__(self, "workers", tuple(ordered))

    @property
    def size(self) -> int:
        """Number of workers, w."""
        return len(self.workers)

    @property
    def servers(self) -> tuple[int, ...]:
        """Distinct servers, in the order of the ring."""
        return tuple(dict.fromkeys(server for server, _ in self.workers))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Edges between different servers; none if there is one server only."""
        servers = self.servers
        if len(servers) == 1:
            return ()
        return (*pairwise(servers), (servers[-1], servers[0]))

    @property
    def edges_inside(self) -> int:
        """Number of edges inside servers; 0 for a single worker."""
        return 0 if self.size == 1 else self.size - len(self.edges)

    @property
    def steps(self) -> int:
        """Number of steps of an all-reduce, 2(w-1)."""
        return 2 * (self.size - 1)

    def bytes_per_step(self, nbytes: float) -> float:
        """Return the bytes on each edge in one step, m/w for m bytes of gradients."""
        return nbytes / self.size

    def bytes_per_edge(self, nbytes: float) -> float:
        """Return the bytes on each edge in an all-reduce, 2m(w-1)/w for m bytes of gradients."""
        return 2 * self.bytes_reduced(nbytes)

    def bytes_reduced(self, nbytes: float) -> float:
        """Return the bytes that each worker adds up, m(w-1)/w for m bytes of gradients."""
        return nbytes * (self.size - 1) / self.size


def ring_stages(ring: RingLayout, nbytes: Quantity, *, compute_s: Quantity = 0.0,
                server_s: Quantity = 0.0, reduction: Quantity = math.inf,
                intra: Quantity = math.inf, stepwise: bool = False) -> tuple[Stage, ...]:
    """Return the stages of an iteration of a placed ring, for `netsim.JobSpec`.

    With w workers, computation takes c + xi2 s + m(w-1)/w/C seconds, where s is the number of
    servers. A coflow with 2m(w-1)/w bytes on each edge between servers follows. On one server there
    are no flows: the time to exchange, 2m(w-1)/w/b_i, is part of the computation. Ranks are indices
    into ``ring.servers``, which are the hosts of the job::

        JobSpec(0, stages=ring_stages(ring, "40MB"), hosts=ring.servers,
                ranks=len(ring.servers))

    Parameters
    ----------
    ring : RingLayout
    nbytes : quantity
        Bytes of gradients, m.
    compute_s : quantity
        Time of forward and backward pass, c.
    server_s : quantity
        Overhead in each iteration for each server that the job uses, xi2.
    reduction : quantity
        Rate at which a worker adds up gradients, C; inf if adding takes no time.
    intra : quantity
        Rate between GPUs of the same server, b_i; inf if such traffic takes no time.
    stepwise : bool
        Whether to emit the 2(w-1) steps of m/w bytes as successive coflows instead of one coflow
        with their sum. Both take equally long at constant rates.

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
                   + ring.bytes_reduced(m) / as_speed(reduction, "reduction"))
    inside = as_speed(intra, "intra")
    if not ring.edges:
        return (Stage("all-reduce", compute_s=computation + ring.bytes_per_edge(m) / inside),)
    steps = ring.steps if stepwise else 1
    flows = _between_servers(
        ring, ring.bytes_per_step(m) if stepwise else ring.bytes_per_edge(m))
    names = [f"step-{step}" for step in range(steps)] if stepwise else ["all-reduce"]
    return tuple(Stage(name, flows, compute_s=0.0 if step else computation,
                       after=names[max(step - 1, 0):step]) for step, name in enumerate(names))


def as_speed(value: Quantity, what: str) -> float:
    """Parse a rate in bytes per second, which may be inf."""
    return math.inf if value == math.inf else parse_rate(value, what, strict=True)


def _between_servers(ring: RingLayout, nbytes: float) -> Flows:
    """Make a flow for each edge between servers; ranks are indices into ``ring.servers``."""
    rank = np.arange(len(ring.edges))
    return Flows(rank, (rank + 1) % len(rank), np.full(len(rank), nbytes))


def has_model(job: JobSpec) -> bool:
    """Whether a job has a model, or is a ring of workers, so that `model_of` supports it."""
    return job.model is not None or _pattern_of(job) == "ring-all-reduce"


def _pattern_of(job: JobSpec) -> object:
    """The name of a job's pattern, if it has one."""
    return job.pattern.get("name") if isinstance(job.pattern, dict) else job.pattern


def kind_of(job: JobSpec) -> str:
    """Describe the communication pattern of a job, for an error message."""
    if job.operations is not None:
        return "ranks that compute"
    if job.stages:
        return "explicit stages"
    return (f"the pattern {_pattern_of(job)!r}" if job.model is None
            else f"the model {job.model.name!r}")


def model_of(job: JobSpec) -> ParallelModel:
    """The model that a job trains; a ring of workers is one stage with a replica per worker."""
    if job.model is not None:
        return job.model
    if not has_model(job):
        raise InputError(f"job {job.id} has {kind_of(job)}: the time of an iteration is known "
                         "only for models, and for the pattern 'ring-all-reduce'")
    return _ring(job.ranks, job.compute_s, job.nbytes)


@lru_cache(maxsize=4096)
def _ring(ranks: int, compute_s: float, nbytes: float) -> ParallelModel:
    """Make the model of a ring."""
    return ParallelModel([ModelStage(ranks, backward_s=compute_s, param_bytes=nbytes)], name="ring")


# --- slices --------------------------------------------------------------------------------
def is_sliced(model: ParallelModel | None) -> bool:
    """Whether replicas of a model consist of several slices."""
    return model is not None and model.sliced


def keep_together(model: ParallelModel, servers: ArrayLike) -> Ints | None:
    """Choose GPUs for a model from offered ones, so that slices of a replica share a server.

    `servers` has the server of each offered GPU, in order of preference. A replica of t slices
    takes the first t GPUs in the offer that share a server. The replicas with most slices choose
    first. Of any two numbers of slices, one divides the other, so this finds a choice whenever
    there is one; see `netsim.models.mapping.can_hold`. Returns indices into `servers`, in order of
    ranks; None if a replica does not fit.
    """
    offered = np.asarray(servers, dtype=np.int64)
    left = np.arange(len(offered))
    taken: list[Ints] = [np.empty(0, np.int64)] * len(model.stages)
    for size in sorted({stage.slices for stage in model.stages}, reverse=True):
        own = [number for number, stage in enumerate(model.stages) if stage.slices == size]
        need = sum(model.stages[number].replicas for number in own)
        # The groups of `size` GPUs of a server, in the order in which they are complete.
        by_server = left[np.argsort(offered[left], kind="stable")]
        first = np.searchsorted(offered[by_server], offered[by_server])
        place = np.arange(len(by_server)) - first
        ends = np.flatnonzero(place % size == size - 1)
        ends = ends[np.argsort(by_server[ends])][:need]
        if len(ends) < need:
            return None
        groups = by_server[ends[:, None] + np.arange(1 - size, 1)]
        left = np.setdiff1d(left, groups)
        for number in own:
            count = model.stages[number].replicas
            taken[number], groups = groups[:count].ravel(), groups[count:]
    return np.concatenate(taken)


def split_replica_error(model: ParallelModel | None, servers: ArrayLike) -> str | None:
    """Describe a replica whose slices are on different servers, given the server of each rank.

    The result is None if there is no such replica. Replicas of a stage are alike, so their order
    does not matter.
    """
    if model is None or not is_sliced(model):
        return None
    places, first = np.asarray(servers), 0
    for number, stage in enumerate(model.stages):
        own = places[first:first + stage.gpus]
        first += stage.gpus
        if (np.unique(own, return_counts=True)[1] % stage.slices).any():
            return (f"replicas of stage {number} of model {model.name!r} have {stage.slices} "
                    f"slices each, which must be on one server, but its GPUs are on the servers "
                    f"{own.tolist()}")
    return None
