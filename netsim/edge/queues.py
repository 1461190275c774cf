"""The queues of chunks of edge workers, as schedulers see them."""

from __future__ import annotations

import numpy as np

from netsim.edge import kernels
from netsim.edge.setting import EdgeSetting, Floats, Ints, with_room


class Queues:
    """The chunks that have been dispatched to each edge worker and have not finished.

    Times are the estimates that schedulers use; with constant delays and rates, they are exact. A
    transport keeps them up to date.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        workers = setting.system.total
        #: The chunks of each worker in the order of HAPRF: by `weight`, then in order of dispatch.
        #: Entries beyond `count` are unused.
        self.queue: Ints = np.zeros((workers, 16), np.int64)
        self.count: Ints = np.zeros(workers, np.int64)
        #: The instant up to which each worker has been simulated, in seconds.
        self.clock: Floats = np.zeros(workers)
        #: Seconds of training that each chunk has left, and the instant at which its data arrives.
        self.left: Floats = np.zeros(setting.total)
        self.ready: Floats = np.full(setting.total, np.inf)
        self._weigh(setting)

    def _weigh(self, setting: EdgeSetting) -> None:
        #: D p0 and 1 / D of each chunk's job; see `EdgeJob`.
        self.weight: Floats = np.repeat(setting.weight_s, setting.chunks)
        self.share: Floats = np.repeat(1 / setting.chunks, setting.chunks)

    def make_room(self, setting: EdgeSetting, place: int) -> None:
        """Make room for the chunks of a job that has been inserted in the setting."""
        self.left = with_room(self.left, setting.chunks_of(place), 0.0)
        self.ready = with_room(self.ready, setting.chunks_of(place), np.inf)
        self._weigh(setting)

    def insert(self, chunks: Ints, workers: Ints, ready: Floats, left: float) -> None:
        """Add chunks, in order of dispatch, to the queues of their workers."""
        if not len(chunks):
            return
        self.left[chunks], self.ready[chunks] = left, ready
        longest = int((self.count + np.bincount(workers, minlength=len(self.count))).max())
        if longest > self.queue.shape[1]:
            wider = np.zeros((len(self.queue), 2 * longest), np.int64)
            wider[:, :self.queue.shape[1]] = self.queue
            self.queue = wider
        kernels.insert(chunks, workers, self.queue, self.count, self.weight)

    def remove(self, chunk: int, worker: int) -> None:
        """Remove a chunk from the queue of its worker."""
        row, count = self.queue[worker], int(self.count[worker])
        place = int(np.flatnonzero(row[:count] == chunk)[0])
        row[place:count - 1] = row[place + 1:count].copy()
        self.count[worker] -= 1
