"""Which GPUs a job gets: placements.

A placement says in two steps which GPUs a job may have at all, and which of these, once enough of
them are free. Both are pure. What GPUs have been promised so far, their *load*, is the sum of what
the jobs that got them were expected to take; it does not fall when these end. Loads that differ by
rounding alone tie, as `netsim.ties` has it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_whole, is_number
from netsim.cluster.cluster import Cluster
from netsim.cluster.slices import is_sliced, keep_together, split_replica_error
from netsim.errors import AllocationError, InputError
from netsim.models.mapping import can_hold
from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.ties import EQUAL, rank
from netsim.workload import JobSpec

__all__ = ["FirstFit", "LeastBusyServers", "LeastLoaded", "Placement", "RandomChoice", "Room",
           "first_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

@runtime_checkable
class Placement(Protocol):
    """How to choose GPUs.

    It keeps the slices of a replica on one server, as `first_of` does, or says that it does not:
    ``keeps_slices = False``. One that is not for all clusters and jobs declares what it needs in
    ``needs``, or has ``suits(context)``; see `netsim.engine.view.Scheduler`.

    One that goes by free GPUs alone may have ``pick(cluster, job, free, free_on)``, besides, which
    queues ask instead: of the GPUs that are free, and their numbers on servers, it returns a job's;
    None if they will not do, or are too few.
    """

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """Return the GPUs that a job may have, those first that win ties.

        Parameters
        ----------
        cluster : Cluster
        job : JobSpec
            Needs ``job.ranks`` GPUs.
        load : ndarray of float, shape (GPUs,)
            What each has been promised to jobs so far.
        """

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Return ``job.ranks`` of some GPUs of the scope, in whose order they are given.

        The first is of rank 0, and so on. None if these will not do, and the job is to wait.
        """


def first_of(cluster: Cluster, job: JobSpec, gpus: Ints) -> Ints | None:
    """Return as many of some GPUs as a job needs, the first ones that will do.

    Parameters
    ----------
    cluster : Cluster
    job : JobSpec
    gpus : ndarray of int
        At least ``job.ranks``, in order of preference.

    Returns
    -------
    ndarray of int, shape (job.ranks,), or None
        In order of ranks, slices of a replica on one server; None if there is no such choice.
    """
    if job.model is None or not is_sliced(job.model):
        return gpus[:job.ranks]
    places = keep_together(job.model, cluster.server_of[gpus])
    return None if places is None else gpus[places]


@dataclass(frozen=True)
class _All:
    """A placement for which any GPU will do."""

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """Return all."""
        return np.arange(cluster.total)


@dataclass(frozen=True)
class FirstFit(_All):
    """The first GPUs that are free, server by server: FF."""

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Return the first ones."""
        return first_of(cluster, job, candidates)


def _least(cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
    order = rank(load[candidates])
    wanted = order if is_sliced(job.model) else order[:job.ranks]
    return first_of(cluster, job, candidates[wanted])


@dataclass(frozen=True)
class LeastLoaded(_All):
    """The GPUs promised least so far: Algorithm 2 of SJF-BCO (FA-FFP), and LS."""

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Return those with the least load."""
        return _least(cluster, job, candidates, load)


@plain_numbers
@dataclass(frozen=True)
class LeastBusyServers:
    """The GPUs promised least on the servers promised least: Algorithm 3 of SJF-BCO (LBSGF).

    Parameters
    ----------
    lam : float
        So many times as many GPUs as a job needs the servers have together, at least. They are more
        where they could not hold its slices.

    Raises
    ------
    InputError
        If `lam` is less than 1.
    """

    lam: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.lam) and 1 <= self.lam < float("inf")):
            raise InputError(f"lam must be a number of at least 1, not {self.lam!r}")

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """Return the GPUs of the first servers, by load per GPU, that have `lam` times enough."""
        busy = np.add.reduceat(load, cluster.first[:-1]) / cluster.gpus
        servers = rank(busy)
        need = self.lam * job.ranks * (1 - EQUAL)  # whole, but for rounding, is enough
        enough = int(np.searchsorted(np.cumsum(cluster.gpus[servers]), need)) + 1
        if job.model is not None and is_sliced(job.model):
            while enough < len(servers) and not can_hold(job.model,
                                                         cluster.gpus[servers[:enough]].tolist()):
                enough += 1
        return np.concatenate([np.arange(cluster.first[server], cluster.first[server + 1])
                               for server in servers[:enough]])

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Return those with the least load."""
        return _least(cluster, job, candidates, load)


@dataclass(frozen=True)
class RandomChoice(_All):
    """Any GPUs, at random: RAND.

    Parameters
    ----------
    seed : int

    Raises
    ------
    InputError
        If it is no whole number of at least 0.
    """

    seed: int = 0
    _rng: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_whole(self.seed, "seed")
        object.__setattr__(self, "_rng", stream(self.seed, "random placement"))

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Return a random subset."""
        if is_sliced(job.model):
            return first_of(cluster, job, self._rng.permutation(candidates))
        return np.sort(self._rng.choice(candidates, job.ranks, replace=False))



class Room:
    """What there is to give away at an instant, and who takes it.

    Parameters
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
    placement : Placement
    free : ndarray of bool, shape (GPUs,)
        Which GPUs nobody has.
    free_on : ndarray of int, shape (servers,)
        How many of each server.
    load, estimates : ndarray of float, shape (GPUs,) and (jobs,)
        What GPUs have been promised, and what jobs are expected to take.
    """

    def __init__(self, cluster: Cluster, jobs: Sequence[JobSpec], placement: Placement,
                 free: NDArray[np.bool_], free_on: Ints, load: Floats, estimates: Floats) -> None:
        self._cluster, self._jobs, self._placement = cluster, jobs, placement
        self._free, self._free_on, self._load = free, free_on, load
        self._estimates = estimates
        self._own = False
        self._pick = getattr(placement, "pick", None)

    def place(self, job: int) -> Ints | None:
        """Take the GPUs that the placement gives a job; None, and nothing, if too few are free."""
        spec = self._jobs[job]
        gpus = (self._chosen(spec) if self._pick is None else
                self._pick(self._cluster, spec, self._free, self._free_on))
        if gpus is None:
            return None
        gpus = self._checked(gpus, spec)
        if not self._own:  # what was given is others' to read
            self._free, self._free_on = self._free.copy(), self._free_on.copy()
            self._load, self._own = self._load.copy(), True
        self._free[gpus] = False
        np.subtract.at(self._free_on, self._cluster.server_of[gpus], 1)
        self._load[gpus] += self._estimates[job]
        return gpus

    def _chosen(self, spec: JobSpec) -> Any:
        """Return what the placement chooses of the free GPUs of its scope, if they are enough."""
        scope = self._placement.scope(self._cluster, spec, self._load)
        try:
            candidates = np.asarray(scope)[self._free[scope]]
        except (IndexError, TypeError, ValueError):
            raise self._refused("scope", scope) from None
        if len(candidates) < spec.ranks:
            return None
        return self._placement.choose(self._cluster, spec, candidates, self._load)

    def _checked(self, gpus: Any, job: JobSpec) -> Ints:
        """Return what a placement gives as an array, or refuse it."""
        given = np.asarray(gpus)
        if not (given.dtype.kind in "iu" and given.ndim == 1 and len(given) == job.ranks
                and given.min() >= 0 and given.max() < len(self._free)
                and self._free[given].all() and len(set(given.tolist())) == job.ranks):
            raise self._refused("choose", gpus)
        if fault := split_replica_error(job.model, self._cluster.server_of[given]):
            raise AllocationError(
                f"placement {type(self._placement).__name__}, for job {job.id}: {fault}; choose "
                "by netsim.placements.placement.first_of, or declare keeps_slices = False")
        return given

    def _refused(self, method: str, gpus: Any) -> AllocationError:
        return AllocationError(
            f"placement {type(self._placement).__name__}: {method} must return GPUs as an array of "
            f"numbers below {len(self._free)}, as many as the job has ranks, each once, and free "
            f"where it chooses, not {reprlib.repr(gpus)}")
