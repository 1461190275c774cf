"""Placement by server, with a mapping of replicas to servers: A-SRPT, Section IV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import about, as_choice, as_whole, convert, same
from netsim.cluster.cluster import Cluster, server_kind
from netsim.cluster.context import RunContext
from netsim.cluster.ring import has_model, keep_together, model_of
from netsim.errors import InputError
from netsim.jobs.plan import traffic_of
from netsim.models import ParallelModel
from netsim.models.mapping import MAPPINGS, Mapped, Mapper, can_hold, heavy_edge_ranks
from netsim.placements import kernels
from netsim.placements.placement import AnyGpu
from netsim.workload import JobSpec

#: Orders in which servers give their free GPUs until a job has enough: by number; those with most
#: free GPUs first ("consolidated"); those with fewest first ("fragmentation-aware").
SERVER_RULES = ("index", "most", "least")
_RULES = {"index": kernels.INDEX, "most": kernels.MOST, "least": kernels.LEAST}

#: A number larger than any number of free GPUs.
_MANY = np.iinfo(np.int64).max


class MappingCache:
    """Maps jobs to the free GPUs of a cluster with equal servers, remembering mappings."""

    # A fork may share it, as what is remembered does not depend on the run.
    __deepcopy__ = same

    def __init__(self, cluster: Cluster, mapping: str = "heavy-edge", seed: int = 0) -> None:
        self.cluster, kind = cluster, server_kind(cluster)
        self._ranks: dict[tuple[Any, ...], Ints] = {}
        self._map: Callable[[ParallelModel, tuple[int, ...]], Mapped] = Mapper(kind)
        if mapping != "heavy-edge":
            given = MAPPINGS.resolve(mapping)
            self._map = cache(lambda model, counts: given(model, list(counts), kind, seed))

    def counts(self, free_on: Ints, need: int, rule: str) -> tuple[list[int], list[int]] | None:
        """Choose servers, and how many GPUs to take from each; None if too few are free.

        `rule` is the order of servers; see `MappedPlacement`.
        """
        servers, counts = np.empty((2, len(free_on)), np.int64)
        taken = kernels.take_servers(free_on, need, _RULES[rule], servers, counts)
        return (servers[:taken].tolist(), counts[:taken].tolist()) if taken else None

    def map(self, model: ParallelModel, free_on: Ints, rule: str
            ) -> tuple[list[int], Mapped] | None:
        """Choose servers and map a model to them; None if no servers can hold it now."""
        if model.gpus == 1:  # most jobs have a single GPU
            server = _first(free_on, rule)
            return ([server], self._map(model, (1,))) if free_on[server] else None
        chosen = self.counts(free_on, model.gpus, rule)
        if chosen is not None and model.sliced and not can_hold(model, chosen[1]):
            chosen = self._whole(model, free_on, rule)
        if chosen is None:
            return None
        servers, counts = chosen
        return servers, self._map(model, tuple(counts))

    def ranks(self, job: JobSpec, free: Bools, free_on: Ints, rule: str) -> Ints | None:
        """Choose the GPU of each rank of a job without a model, as mapped by Heavy-Edge.

        The ranks on a server get its first free GPUs, in order. None if the servers cannot hold the
        job now.
        """
        chosen = self.counts(free_on, job.ranks, rule)
        if chosen is None:
            return None
        servers, counts = chosen
        key = job.operations or tuple(job.stages), tuple(counts)
        if key not in self._ranks:
            self._ranks[key] = heavy_edge_ranks(traffic_of(job), counts)
        server_of = self._ranks[key]
        found = np.empty(job.ranks, np.int64)
        for place, (server, count) in enumerate(zip(servers, counts, strict=True)):
            first, end = self.cluster.first[server:server + 2]
            found[server_of == place] = first + np.flatnonzero(free[first:end])[:count]
        return found

    def _whole(self, model: ParallelModel, free_on: Ints, rule: str
               ) -> tuple[list[int], list[int]] | None:
        """Choose servers and counts as `counts` does, skipping GPUs that slices do not fit on."""
        order = _in_order(free_on, rule)
        offered = np.repeat(order, free_on[order])
        places = keep_together(model, offered)
        if places is None:
            return None
        given = np.bincount(offered[places], minlength=len(free_on))[order]
        return order[given > 0].tolist(), given[given > 0].tolist()

    def gpus(self, free: Bools, servers: Sequence[int], placement: Ints) -> Ints:
        """The GPUs of a mapping in order of ranks: the first free ones of each server."""
        first = self.cluster.first
        if placement.size == 1 and placement[0, 0] == 1:
            start = int(first[servers[0]])
            return np.array([start + int(free[start:first[servers[0] + 1]].argmax())])
        found = np.empty(int(placement.sum()), np.int64)
        kernels.place_ranks(free, first, np.array(servers), placement, found,
                            np.empty(placement.shape[1], np.int64))
        return found


def _in_order(free_on: Ints, rule: str) -> Ints:
    """The servers with free GPUs in the order of a rule; ties go by number."""
    servers = np.flatnonzero(free_on)
    if rule == "index":
        return servers
    free = free_on[servers]
    return servers[np.argsort(free if rule == "least" else -free, kind="stable")]


def _first(free_on: Ints, rule: str) -> int:
    """The first server of `_in_order`; an arbitrary one if none has free GPUs."""
    if rule == "most":
        return int(free_on.argmax())
    if rule == "index":
        return int((free_on > 0).argmax())
    return int(np.where(free_on > 0, free_on, _MANY).argmin())


@dataclass(frozen=True)
class MappedPlacement(AnyGpu):
    """Take free GPUs server by server, and map replicas to these servers.

    It supports models and rings on clusters whose servers are all alike. For jobs with explicit
    stages, and for jobs with ranks that compute, it maps ranks by the bytes that they exchange.

    Parameters
    ----------
    servers : {"index", "most", "least"}
        Order of servers: by number, most free GPUs first, or fewest first.
    mapping : str
        A name from `netsim.models.mapping.MAPPINGS`, or ``"module:function"``.
    seed : int
        Seed of random mapping.

    Raises
    ------
    InputError
        If there is no such rule or mapping, or the seed is not a non-negative integer.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"known traffic", "equal servers"})

    servers: str = "index"
    mapping: str = "heavy-edge"
    seed: int = 0
    _caches: dict[Cluster, MappingCache] = field(default_factory=dict, init=False, repr=False,
                                                  compare=False)

    def __post_init__(self) -> None:
        convert(self, servers=partial(as_choice, choices=SERVER_RULES), seed=as_whole)
        with about("mapping"):
            MAPPINGS.resolve(self.mapping)

    def suits(self, context: RunContext) -> None:
        """Check that the mapping supports all jobs; only Heavy-Edge maps jobs without a model."""
        for job in context.jobs if self.mapping != "heavy-edge" else ():
            if not has_model(job):
                raise InputError(f"mapping {self.mapping!r} is of replicas, of which job {job.id} "
                                 "has none; 'heavy-edge' maps its ranks", "mapping")

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Map a job to GPUs; None if the candidates cannot hold it."""
        free = np.zeros(cluster.total, np.bool_)
        free[candidates] = True
        return self.pick(cluster, job, free,
                         np.add.reduceat(free, cluster.first[:-1], dtype=np.int64))

    def pick(self, cluster: Cluster, job: JobSpec, free: Bools, free_on: Ints) -> Ints | None:
        """Map a job to free GPUs; see `Placement` for ``pick``."""
        if cluster not in self._caches:
            self._caches[cluster] = MappingCache(cluster, self.mapping, self.seed)
        mappings = self._caches[cluster]
        if not has_model(job):
            return mappings.ranks(job, free, free_on, self.servers)
        found = mappings.map(model_of(job), free_on, self.servers)
        return None if found is None else mappings.gpus(free, found[0], found[1].placement)
