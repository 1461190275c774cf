"""Servers whose GPUs are the hosts of a network, and routes through the GPUs of a server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.network.routing import Ints

__all__ = ["GpuServers"]


@dataclass(frozen=True)
class GpuServers:
    """The servers of a network whose hosts are GPUs, which are numbered server by server.

    Attributes
    ----------
    gpus : int
        GPUs of each server: host s * gpus + r is GPU r of server s.
    nvlink : float
        Rate of a GPU's NVLink port, in bytes per second.
    nic, nics : float, int
        Rate of a NIC, in bytes per second, and how many a server has.
    rails : int
        NIC k of each server is on rail k % rails.
    generation : str
        Of the GPUs; see `netsim.collectives.NcclCosts`.
    """

    gpus: int
    nvlink: float
    nic: float
    nics: int
    rails: int
    generation: str

    def server_of(self, hosts: Ints) -> Ints:
        """Return the server of each of some hosts."""
        return hosts // self.gpus

    def relays(self, src: Ints, dst: Ints) -> Ints:
        """Return the GPUs over which flows reach the rail of their destination.

        That is the GPU of the source's server which has the same place in it as the destination;
        the source itself if the rail is its own, or the server.
        """
        near = self.server_of(src) == self.server_of(dst)
        direct = near | (self._rail_of(src) == self._rail_of(dst))
        return np.where(direct, src, self.server_of(src) * self.gpus + dst % self.gpus)

    def _rail_of(self, hosts: Ints) -> Ints:
        return hosts % self.gpus // (self.gpus // self.nics) % self.rails
