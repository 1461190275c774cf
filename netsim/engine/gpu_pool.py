"""The GPUs of a cluster during a run: the free ones, and the work promised to each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster

Ints = NDArray[np.int64]


class GpuPool:
    """The free and the lost GPUs of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.free = np.ones(cluster.total, np.bool_)  #: those of lost servers are not free
        self.free_on = cluster.gpus.copy()  #: number of free GPUs, by server
        self.idle = cluster.total  #: number of all free GPUs
        self.load = np.zeros(cluster.total)  #: seconds of work promised so far, by GPU
        self.lost: dict[int, None] = {}  #: servers that are lost at present

    def take(self, gpus: Ints) -> None:
        """Take free GPUs."""
        self._mark(gpus, -1)

    def give_back(self, gpus: Ints) -> None:
        """Free GPUs, except those of lost servers."""
        if self.lost:
            gpus = gpus[~np.isin(self._cluster.server_of[gpus], list(self.lost))]
        self._mark(gpus, 1)

    def lose(self, server: int) -> None:
        """Withdraw a server: its free GPUs are not given to jobs; jobs keep those they hold."""
        own = self._of(server)
        self._mark(own[self.free[own]], -1)
        self.lost[server] = None

    def repair(self, server: int, held: Ints) -> bool:
        """Make the GPUs of a server free again, except held ones; return whether it was lost."""
        if server not in self.lost:
            return False
        del self.lost[server]
        self._mark(np.setdiff1d(self._of(server), held), 1)
        return True

    def _of(self, server: int) -> Ints:
        return np.arange(self._cluster.first[server], self._cluster.first[server + 1])

    def _mark(self, gpus: Ints, sign: int) -> None:
        """Mark GPUs as free (sign 1) or as taken (sign -1)."""
        self.free[gpus] = sign > 0
        self.idle += sign * len(gpus)
        if len(gpus) == 1:
            self.free_on[self._cluster.server_of[gpus[0]]] += sign
        else:
            np.add.at(self.free_on, self._cluster.server_of[gpus], sign)


class Members:
    """A set of numbers as an array, in no particular order."""

    def __init__(self) -> None:
        self._numbers = np.zeros(16, np.int64)
        self._place: dict[int, int] = {}

    @property
    def array(self) -> Ints:
        """The members; read-only."""
        return read_only(self._numbers[:len(self._place)])

    def add(self, number: int) -> None:
        """Add a number that is not a member."""
        place = len(self._place)
        if place == len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros(place, np.int64)))
        self._numbers[place] = number
        self._place[number] = place

    def remove(self, number: int) -> None:
        """Remove a member; the last one takes its place."""
        place, last = self._place.pop(number), len(self._place)
        if place != last:
            moved = int(self._numbers[last])
            self._numbers[place] = moved
            self._place[moved] = place


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make a read-only view of an array."""
    view = array.view()
    view.setflags(write=False)
    return view
