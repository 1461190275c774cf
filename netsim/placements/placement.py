"""Placements, which choose the GPUs of a job.

A placement answers two questions, without side effects: which GPUs a job may use at all, and which
of these to take once enough of them are free. The *load* of a GPU is the work that it has been
promised so far: the sum of the estimated times of all jobs that got it, including those that have
ended. Loads that differ only by rounding tie; see `netsim.ties`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.streams import stream
from netsim.base.values import as_number, as_whole, convert, known_names
from netsim.cluster.cluster import Cluster
from netsim.cluster.ring import is_sliced, keep_together, split_replica_error
from netsim.errors import AllocationError
from netsim.models.mapping import can_hold
from netsim.ties import EQUAL, rank
from netsim.workload import JobSpec


@runtime_checkable
class Placement(Protocol):
    """A policy that chooses GPUs.

    A placement must keep the slices of a replica on one server, as `first_of` does, unless it
    declares ``keeps_slices = False``. A placement that does not support all clusters and jobs
    declares what it needs in ``needs``, or has ``suits(context)``, which is called before a run and
    raises an `InputError`; see `netsim.engine.view.Scheduler`.

    A placement that finds GPUs for any job without slices as long as enough are free declares
    ``refuses = False``, so that schedulers can count free GPUs instead of trying to place a job. If
    its refusals of jobs without slices depend only on numbers of GPUs, it declares
    ``refuses_by_size = True``. Among jobs that need equally many GPUs, schedulers then try only the
    first.

    A placement that depends on free GPUs alone may also have ``pick(cluster, job, free, free_on)``,
    which is then called instead of the other methods. Given the mask of free GPUs and their number
    on each server, it returns the GPUs of a job, or None if they are too few or do not suit.

    A placement in which jobs share something besides GPUs also has ``trial()``. This returns a
    placement that takes its own earlier choices into account, and places jobs one after another.
    """

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """Return the GPUs that a job may use, in the order in which ties are broken.

        Parameters
        ----------
        cluster : Cluster
        job : JobSpec
            The job, which needs ``job.ranks`` GPUs.
        load : ndarray of float, shape (GPUs,)
            Seconds of work that each GPU has been promised so far.
        """

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose ``job.ranks`` GPUs from candidates, which are in the order of the scope.

        The GPUs are returned in order of ranks. None means that the candidates do not suit, so that
        the job has to wait.
        """


def first_of(cluster: Cluster, job: JobSpec, gpus: Ints) -> Ints | None:
    """Choose the first suitable GPUs for a job.

    Parameters
    ----------
    cluster : Cluster
    job : JobSpec
    gpus : ndarray of int
        At least ``job.ranks`` GPUs, in order of preference.

    Returns
    -------
    ndarray of int, shape (job.ranks,), or None
        GPUs in order of ranks, with all slices of a replica on one server; None if that is not
        possible.
    """
    if job.model is None or not is_sliced(job.model):
        return gpus[:job.ranks]
    places = keep_together(job.model, cluster.server_of[gpus])
    return None if places is None else gpus[places]


@dataclass(frozen=True)
class AnyGpu:
    """Base of placements that may use any GPU."""

    refuses: ClassVar[bool] = False

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """All GPUs."""
        return np.arange(cluster.total)


@dataclass(frozen=True)
class FirstFit(AnyGpu):
    """The first free GPUs, server by server: FF."""

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose the first candidates that suit."""
        return first_of(cluster, job, candidates)


def _least(cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
    """Choose the candidates with the least load that suit."""
    order = rank(load[candidates])
    wanted = order if is_sliced(job.model) else order[:job.ranks]
    return first_of(cluster, job, candidates[wanted])


@dataclass(frozen=True)
class LeastLoaded(AnyGpu):
    """The GPUs with the least load: Algorithm 2 of SJF-BCO (FA-FFP), and LS."""

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose the candidates with the least load."""
        return _least(cluster, job, candidates, load)


@known_names
@dataclass(frozen=True)
class LeastBusyServers:
    """The least loaded GPUs of the least loaded servers: Algorithm 3 of SJF-BCO (LBSGF).

    Parameters
    ----------
    lam : float
        Least ratio of the number of GPUs of these servers to the number that the job needs. More
        servers are used if these could not hold the job's slices.

    Raises
    ------
    InputError
        If `lam` is less than 1.
    """

    refuses_by_size: ClassVar[bool] = True

    lam: float = 1.0

    def __post_init__(self) -> None:
        convert(self, lam=partial(as_number, least=1))

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """The GPUs of the servers with the least load per GPU, as many as `lam` requires."""
        busy = np.add.reduceat(load, cluster.first[:-1]) / cluster.gpus
        servers = rank(busy)
        need = self.lam * job.ranks * (1 - EQUAL)  # tolerant of rounding
        enough = int(np.searchsorted(np.cumsum(cluster.gpus[servers]), need)) + 1
        if job.model is not None and is_sliced(job.model):
            while enough < len(servers) and not can_hold(job.model,
                                                         cluster.gpus[servers[:enough]].tolist()):
                enough += 1
        return np.concatenate([np.arange(cluster.first[server], cluster.first[server + 1])
                               for server in servers[:enough]])

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose the candidates with the least load."""
        return _least(cluster, job, candidates, load)


@dataclass(frozen=True)
class RandomChoice(AnyGpu):
    """Random GPUs: RAND.

    Parameters
    ----------
    seed : int
        Seed of the choices.

    Raises
    ------
    InputError
        If the seed is not a non-negative integer.
    """

    seed: int = 0
    _rng: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        convert(self, seed=as_whole)
        object.__setattr__(self, "_rng", stream(self.seed, "random placement"))

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose a random subset of the candidates."""
        if is_sliced(job.model):
            return first_of(cluster, job, self._rng.permutation(candidates))
        return np.sort(self._rng.choice(candidates, job.ranks, replace=False))


class Room:
    """The free GPUs at an instant, from which jobs are placed one after another.

    `load` and `estimates` are in seconds; see `netsim.engine.view.ClusterView`. The given arrays
    are copied before they change.
    """

    def __init__(self, cluster: Cluster, jobs: Sequence[JobSpec], placement: Placement,
                 free: Bools, free_on: Ints, load: Floats, estimates: Floats) -> None:
        self._cluster, self._jobs = cluster, jobs
        self._placement = placement.trial() if hasattr(placement, "trial") else placement
        self._free, self._free_on, self._load = free, free_on, load
        self._estimates = estimates
        self._own = False
        self._pick = getattr(self._placement, "pick", None)

    def place(self, job: int) -> Ints | None:
        """Take the GPUs that the placement chooses for a job; None if it chooses none."""
        spec = self._jobs[job]
        gpus = self._found(spec)
        if gpus is None:
            return None
        gpus = self._checked(gpus, spec)
        self._make_own()
        self._free[gpus] = False
        np.subtract.at(self._free_on, self._cluster.server_of[gpus], 1)
        self._load[gpus] += self._estimates[job]
        return gpus

    def fits(self, job: int) -> bool:
        """Whether the placement finds GPUs for a job; none are taken."""
        return self._found(self._jobs[job]) is not None

    def _found(self, spec: JobSpec) -> Any:
        """Ask the placement for the GPUs of a job, unchecked."""
        return (self._chosen(spec) if self._pick is None else
                self._pick(self._cluster, spec, self._free, self._free_on))

    def take(self, gpus: Ints) -> None:
        """Take GPUs, so that other jobs do not get them."""
        self._make_own()
        taken = gpus[self._free[gpus]]
        self._free[taken] = False
        np.subtract.at(self._free_on, self._cluster.server_of[taken], 1)

    def _make_own(self) -> None:
        """Copy the given arrays, which must not be changed."""
        if not self._own:
            self._free, self._free_on = self._free.copy(), self._free_on.copy()
            self._load, self._own = self._load.copy(), True

    def _chosen(self, spec: JobSpec) -> Any:
        """Ask the placement to choose from the free GPUs of its scope; None if they are too few."""
        scope = self._placement.scope(self._cluster, spec, self._load)
        try:
            candidates = np.asarray(scope)[self._free[scope]]
        except (IndexError, TypeError, ValueError):
            raise self._refused("scope", scope) from None
        if len(candidates) < spec.ranks:
            return None
        return self._placement.choose(self._cluster, spec, candidates, self._load)

    def _checked(self, gpus: Any, job: JobSpec) -> Ints:
        """Check the GPUs that a placement has chosen, and convert them to an array."""
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
        """Make the error for an answer that is not an array of suitable GPUs."""
        return AllocationError(
            f"placement {type(self._placement).__name__}: {method} must return GPUs as an array of "
            f"numbers below {len(self._free)}, as many as the job has ranks, each once, and free "
            f"where it chooses, not {reprlib.repr(gpus)}")


@dataclass(frozen=True)
class Consolidated(AnyGpu):
    """GPUs of as few servers as could hold the job if all of their GPUs were free, or none.

    A job waits rather than be spread over more servers. GPUs are taken from the server with the
    fewest free GPUs that has enough for the rest of the job. If there is none, all are taken from
    the server with the most free GPUs, and so on. Ties go to the lower number.
    """

    refuses: ClassVar[bool] = True
    refuses_by_size: ClassVar[bool] = True

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Ints | None:
        """Choose the candidates on the fewest servers; None if they do not suffice."""
        free = np.bincount(cluster.server_of[candidates], minlength=cluster.servers)
        taken: list[Ints] = []
        need = job.ranks
        for _ in range(_servers_needed(cluster, job)):
            enough = np.flatnonzero(free >= need)
            server = (enough[np.argmin(free[enough])] if need > 0 and len(enough) else
                      np.argmax(free))
            taken.append(candidates[cluster.server_of[candidates] == server])
            free[server] = 0
            need -= len(taken[-1])
            if need <= 0 and (found := first_of(cluster, job, np.concatenate(taken))) is not None:
                return found
        return None


def _servers_needed(cluster: Cluster, job: JobSpec) -> int:
    """Count the servers on which a job fits if all of their GPUs are free, the largest ones."""
    largest = np.argsort(-cluster.gpus, kind="stable")
    count = int(np.searchsorted(np.cumsum(cluster.gpus[largest]), job.ranks)) + 1
    if job.model is not None and is_sliced(job.model):
        while count < cluster.servers and first_of(cluster, job, np.flatnonzero(np.isin(
                cluster.server_of, largest[:count]))) is None:
            count += 1
    return count
