"""Which GPUs a job gets, given how much time each has been promised so far; SJF-BCO, Section 5.

A *picker* says in two steps: which GPUs a job may have at all, and which of these, once enough of
them are idle. Both are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster

__all__ = ["FirstFit", "LeastBusyServers", "LeastLoaded", "Picker", "RandomChoice"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Picker(Protocol):
    """How to choose GPUs."""

    def scope(self, cluster: Cluster, load: Floats, count: int) -> Ints:
        """Return the GPUs that a job of so many may have, those first that win ties.

        Parameters
        ----------
        cluster : Cluster
        load : ndarray of float, shape (GPUs,)
            What each has been promised to jobs so far.
        count : int
        """

    def choose(self, candidates: Ints, load: Floats, count: int) -> Ints:
        """Return so many of some GPUs of the scope, in whose order they are given."""


def _least(candidates: Ints, load: Floats, count: int) -> Ints:
    return candidates[np.argsort(load[candidates], kind="stable")[:count]]


@dataclass(frozen=True)
class FirstFit:
    """The first ones: FF."""

    def scope(self, cluster: Cluster, load: Floats, count: int) -> Ints:
        """Return all."""
        return np.arange(cluster.total)

    def choose(self, candidates: Ints, load: Floats, count: int) -> Ints:
        """Return the first ones."""
        return candidates[:count]


@dataclass(frozen=True)
class LeastLoaded:
    """Those with the least load, wherever they are: Algorithm 2 (FA-FFP), and LS."""

    def scope(self, cluster: Cluster, load: Floats, count: int) -> Ints:
        """Return all."""
        return np.arange(cluster.total)

    def choose(self, candidates: Ints, load: Floats, count: int) -> Ints:
        """Return those with the least load."""
        return _least(candidates, load, count)


@dataclass(frozen=True)
class LeastBusyServers:
    """Those with the least load on the servers with the least: Algorithm 3 (LBSGF).

    Parameters
    ----------
    lam : float
        So many times as many GPUs as a job needs the servers have together, at least.
    """

    lam: float = 1.0

    def scope(self, cluster: Cluster, load: Floats, count: int) -> Ints:
        """Return the GPUs of the first servers, by load per GPU, that have `lam` times enough."""
        busy = np.add.reduceat(load, cluster.first[:-1]) / cluster.gpus
        servers = np.argsort(busy, kind="stable")
        enough = int(np.searchsorted(np.cumsum(cluster.gpus[servers]), self.lam * count)) + 1
        return np.concatenate([np.arange(cluster.first[server], cluster.first[server + 1])
                               for server in servers[:enough]])

    def choose(self, candidates: Ints, load: Floats, count: int) -> Ints:
        """Return those with the least load."""
        return _least(candidates, load, count)


@dataclass(frozen=True)
class RandomChoice:
    """Any: RAND.

    Parameters
    ----------
    rng : Generator
    """

    rng: np.random.Generator

    def scope(self, cluster: Cluster, load: Floats, count: int) -> Ints:
        """Return all."""
        return np.arange(cluster.total)

    def choose(self, candidates: Ints, load: Floats, count: int) -> Ints:
        """Return a random subset."""
        return np.sort(self.rng.choice(candidates, count, replace=False))
