"""Parameter server: workers push gradients to servers, and pull parameters from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_whole
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns.base import check_flows
from netsim.plain import plain_numbers
from netsim.workload import Flows, Stage

__all__ = ["ParameterServer"]


@plain_numbers
@dataclass(frozen=True)
class ParameterServer:
    """Parameter server: push from every worker to every server, then pull.

    Ranks 0 .. W-1 are the workers, the last P the servers.

    Parameters
    ----------
    servers : int, optional
        P, the number of servers; by default half of the ranks.
    sizes : {"uniform", "split"}
        ``"uniform"``: flow sizes are uniform in (0, nbytes], drawn independently for push and pull
        (Parrot, Section 6.1). ``"split"``: nbytes is the model's size, split evenly over the
        servers, so that each flow has nbytes/P.
    """

    servers: int | None = None
    sizes: str = "uniform"

    def __post_init__(self) -> None:
        if self.sizes not in ("uniform", "split"):
            raise UnknownNameError("sizes", self.sizes, ("uniform", "split"))
        if self.servers is not None:
            check_whole(self.servers, "servers", 1)

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return push and pull; see `Pattern.stages`."""
        servers = ranks // 2 if self.servers is None else self.servers
        workers = ranks - servers
        if workers < 1 or servers < 1:
            raise InputError(f"{ranks} ranks cannot be workers and {servers} parameter servers")
        check_flows(ranks, 2 * workers * servers)
        worker = np.repeat(np.arange(workers), servers)
        server = workers + np.tile(np.arange(servers), workers)
        push = Flows(worker, server, self._draw(workers * servers, servers, nbytes, rng))
        pull = Flows(server, worker, self._draw(workers * servers, servers, nbytes, rng))
        return Stage("push", push), Stage("pull", pull, after=("push",))

    def _draw(self, flows: int, servers: int, nbytes: float, rng: np.random.Generator
              ) -> NDArray[np.float64]:
        if self.sizes == "split":
            return np.full(flows, nbytes / servers)
        return nbytes * (1 - rng.random(flows))
