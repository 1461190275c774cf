"""Crux's choice of paths: jobs whose GPUs compute most for each second of communication go first.

Cao et al., "Crux: GPU-Efficient Communication Scheduling for Deep Learning Training" (SIGCOMM'24),
Section 4.1. The allocator `netsim.allocators.crux` has its priorities.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netsim.allocators.crux import priorities
from netsim.base.arrays import Ints
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.jobs.cassini import alone_on
from netsim.jobs.fitting import all_fitted
from netsim.jobs.graph import IterationAlone
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.network.graph import GraphTopology
from netsim.traces.formats import as_workload
from netsim.workload import Workload

#: Keys by which the equal-cost paths between two hosts are found, as Crux probes source ports.
_KEYS = np.arange(64)

#: Decimals to which utilisations are compared.
_DECIMALS = 9


@known_names
def choose_paths(network: Topology | str | Path, workload: Workload | str | Path, *, seed: int = 0
                 ) -> Topology:
    """Return a network on which each pair of hosts of a job has a path that is not congested.

    Jobs choose in order of falling GPU intensity, each for its pairs in order of falling bytes. Of
    the equal-cost paths that 64 keys of ECMP find, a pair takes the one whose busiest link is used
    least by pairs that have chosen; if several are equal, the second busiest link decides, and so
    on. A pair that several jobs use has the path of the first, and no other: if a link of it fails,
    its flows wait.

    Parameters
    ----------
    network : Topology, str or path
        One with ``routing="ecmp"``, and without paths of its own.
    workload : Workload, str or path
        Jobs whose iterations are alike.
    seed : int
        That of the run, by which jobs without hosts get some.

    Raises
    ------
    InputError
        If the network chooses paths in another way than by ECMP, or has paths of its own.
    """
    network = as_network(network)
    if not (isinstance(network, GraphTopology) and network.routing == "ecmp"
            and network.given is None):
        raise InputError(f"network {network.name!r} must choose among paths by routing = \"ecmp\", "
                         "without paths of its own", "network")
    workload = all_fitted(as_workload(workload, seed), network, seed)
    iterations = alone_on(network, workload, seed)
    intensity, _ = priorities([each.profile(max(spec.ranks, 1), network.usable)
                               for spec, each in zip(workload, iterations, strict=True)])
    used = np.zeros(network.links)
    paths: dict[tuple[int, int], tuple[int, ...]] = {}
    for job in np.argsort(-intensity, kind="stable").tolist():
        for pair, rate in _rates(iterations[job]):
            if pair not in paths:
                paths[pair] = min(_equal_paths(network, *pair), key=lambda path: np.sort(
                    used[list(path)].round(_DECIMALS))[::-1].tolist())
            own = list(paths[pair])
            used[own] += rate / network.usable[own]
    return network.with_paths(paths)


def _rates(iteration: IterationAlone) -> Iterator[tuple[tuple[int, int], float]]:
    """The pairs of hosts of a job and the mean rate between them, the largest first."""
    sent: dict[tuple[int, int], float] = {}
    times = np.bincount(iteration.which, minlength=len(iteration.routed)).tolist()
    for demand, often in zip(iteration.routed, times, strict=True):
        for src, dst, nbytes in demand.flows[["src", "dst", "size"]].tolist():
            sent[src, dst] = sent.get((src, dst), 0.0) + often * nbytes
    for pair in sorted(sent, key=lambda pair: (-sent[pair], pair)):
        yield pair, sent[pair] / iteration.period_s


def _equal_paths(network: Topology, src: int, dst: int) -> list[tuple[int, ...]]:
    """The links of the different paths of flows between two hosts."""
    def all_to(host: int) -> Ints:
        return np.full(len(_KEYS), host)

    ptr, links = network.routes(all_to(src), all_to(dst), _KEYS)
    return [*dict.fromkeys(tuple(path.tolist()) for path in np.split(links, ptr[1:-1]))]
