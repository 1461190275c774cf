"""The uploads of chunks over the fabric of an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from netsim.edge.on_fabric.traffic import EdgeTraffic
from netsim.edge.setting import EdgeSetting, Floats, Ints
from netsim.fabric.coflow_event import CoflowEvent
from netsim.workload import Flows

#: The server of a limit that no upload has had yet.
_NONE = -2


class Uploads:
    """Uploads of chunks from the sites of their jobs; each chunk is ready when its own flow ends.

    `arrived` is called with a chunk and the server to which it has been uploaded, or `CLOUD`.
    """

    def __init__(self, setting: EdgeSetting, traffic: EdgeTraffic,
                 arrived: Callable[[int, int], None]) -> None:
        self._setting, self._traffic, self._arrived = setting, traffic, arrived
        # Of each limit: whether its upload is on its way, and to which server.
        self._going, self._server = np.empty(0, np.bool_), np.empty(0, np.int64)

    def send(self, job: int, chunks: Ints, server: Ints, delay: Floats) -> CoflowEvent:
        """Upload chunks of a job to servers, or to `CLOUD`, as one coflow.

        `delay` is the time that each upload takes at its highest rate, in seconds; if it is 0, the
        chunk arrives at once.
        """
        system, spec, traffic = self._setting.system, self._setting.jobs[job], self._traffic
        sent, limits = delay > 0, self._limits(chunks)
        traffic.set_uploads(limits, np.divide(
            spec.chunk_bytes, delay, out=np.ones(len(chunks)), where=sent))
        flows = Flows(np.full(len(chunks), system.site_host(spec.site)),
                      system.host_of(server), np.where(sent, spec.chunk_bytes, 0.0))
        self._going[limits[sent]], self._server[limits] = True, server
        return traffic.send(job, 0, traffic.demand(flows, limits), partial(self._sent, limits))

    def _limits(self, chunks: Ints) -> Ints:
        """Find a limit for each upload of chunks, adding limits for repeated uploads."""
        self._grow()
        limits = self._traffic.uploads_of(chunks)
        taken = self._server[limits] != _NONE
        if taken.any():
            limits[taken] = self._traffic.further_uploads_of(chunks[taken])
            self._grow()
        return limits

    def _grow(self) -> None:
        more = self._traffic.limits - len(self._going)
        if more:
            self._going = np.concatenate((self._going, np.zeros(more, np.bool_)))
            self._server = np.concatenate((self._server, np.full(more, _NONE)))

    def see(self, limits: Ints) -> None:
        """Report the uploads that have ended, given the limits of all flows still in transit."""
        self._grow()
        gone = self._going.copy()
        gone[limits] = False
        self._end(np.flatnonzero(gone))

    def _sent(self, limits: Ints, _: CoflowEvent) -> None:
        self._end(limits[self._going[limits]])

    def _end(self, limits: Ints) -> None:
        self._going[limits] = False
        for chunk, server in zip(self._traffic.decoded(limits)[0].tolist(),
                                 self._server[limits].tolist(), strict=True):
            self._arrived(chunk, server)

    def forget(self, chunks: Ints) -> None:
        """Stop reporting the uploads of the given chunks."""
        if self._going.any():
            going = np.flatnonzero(self._going)
            self._going[going[np.isin(self._traffic.decoded(going)[0], chunks)]] = False
