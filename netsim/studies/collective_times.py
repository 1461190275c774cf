"""The time of a collective on a network, size by size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.lazy import pd
from netsim.base.units import Quantity, parse_bytes
from netsim.base.values import Node, as_whole, known_names, refuse_set
from netsim.collectives import algorithms_of, bandwidths
from netsim.errors import InputError
from netsim.fabric.allocator import Allocator
from netsim.jobs.fitting import costs_on, fitted_pattern
from netsim.jobs.patterns import AllToAll, Collective, SendRecv, make_pattern
from netsim.network import Topology, read_network
from netsim.simulation.simulation import simulate
from netsim.workload import JobSpec

#: The most sizes of a range; more would be a mistake.
_MOST_SIZES = 1000


@known_names
def collective_times(collective: str, on: Topology | str | Path, ranks: int | None = None,
                     sizes: Iterable[Quantity] | Quantity | None = None, *,
                     algorithm: str | None = None, form: str = "steps",
                     hosts: Sequence[int | str] | None = None, servers: int | None = None,
                     costs: Mapping[str, Any] | None = None,
                     allocator: str | Mapping[str, Any] | Allocator = "maxmin",
                     **options: Any) -> pd.DataFrame:
    """Simulate a collective, alone on a network, for several sizes.

    Parameters
    ----------
    collective : str
        ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``, ``"broadcast"``, ``"reduce"``,
        ``"all-to-all"``, ``"send-recv"`` or ``"barrier"``.
    on : Topology, str or path
        The network, or the name or file of one; see `netsim.read_network`.
    ranks : int, optional
        The number of ranks; by default one per host.
    sizes : quantity or iterable of quantity, optional
        In bytes, as nccl-tests count them (see `netsim.collectives.schedule`); by default powers
        of 2 from 8 bytes to 1 GiB. Not used for a barrier, and for an all-to-all given by a matrix;
        these have a single row.
    algorithm : str, optional
        An algorithm of the pattern, a file with a program of MSCCL (``.xml``), or ``"auto"`` or
        ``"fastest"``; by default that of the pattern.
    form : {"steps", "messages", "aggregate"}
        See `netsim.jobs.patterns.Collective`.
    hosts : sequence of int or str, optional
        The host of each rank, by number or name; by default rank r is host r.
    servers : int, optional
        The number of servers of the ranks, for ``"auto"``; by default that of the network
        (`netsim.gpu_cluster`), or one per rank.
    costs : mapping, optional
        Parameters of ``"auto"`` or ``"fastest"``, instead of those that follow from the network.
        For ``"auto"``, the default is a rate: that of the slowest port of the hosts. If hosts are
        GPUs, it is the rate of NVLink for ranks on one server, and the smaller of this rate and the
        rate of all NICs of a server for ranks on several servers; the generation of the GPUs is
        used as well. For ``"fastest"``, the defaults are the rate of the slowest port, the largest
        latency of a path, and the overhead.
    allocator : str, mapping or Allocator
        As for `netsim.simulate`.
    **options
        Other options of the pattern, such as ``chunks`` or ``group``. The default group is the
        ranks of a server, if the network defines servers.

    Returns
    -------
    DataFrame
        A row per size: ``bytes``, ``algorithm``, ``time_s``; ``algbw`` and ``busbw`` in bytes per
        second (NaN where there are none); and ``why``, if a rule has chosen the algorithm.

    Raises
    ------
    NetsimError
        As `netsim.simulate` does, and if an option is invalid.

    Examples
    --------
    An all-reduce of n ranks on ports of B takes 2 (n - 1) S/(n B), and its busbw is B:

    >>> import netsim
    >>> table = netsim.collective_times("all-reduce", netsim.big_switch(8, "80Gbps"), 4, "1GB")
    >>> table[["bytes", "algorithm", "time_s", "busbw"]]
              bytes algorithm  time_s         busbw
    0  1.000000e+09      ring    0.15  1.000000e+10
    """
    algorithms_of(collective)
    network = on if isinstance(on, Topology) else read_network(on)
    ranks = network.hosts if ranks is None else ranks
    as_whole(ranks, "ranks", 1)
    places = _places(network, ranks, hosts)
    given = {"name": collective, "form": form, **options}
    if algorithm is not None:
        given["algorithm"] = algorithm
    if costs is not None:
        given["costs"] = costs
    elif algorithm == "auto" and servers is not None:
        given["costs"] = costs_on(network, places, algorithm, servers)
    pattern = make_pattern(given)
    assert isinstance(pattern, Collective)
    if pattern.leaves_open:
        pattern = fitted_pattern(pattern, network, places)
    rows = []
    for nbytes in _sizes(pattern, sizes):
        # Checked here, so that an error does not speak of a job.
        pattern.stages(ranks, nbytes, np.random.default_rng(0))
        choice = pattern.choice(ranks, nbytes)
        job = JobSpec(0, pattern=pattern, ranks=ranks, nbytes=nbytes, hosts=places)
        done = simulate(network, [job], allocator=allocator, record=("jobs",))
        time_s = float(done.jobs["jct_s"].iloc[0])
        found = bandwidths(collective, ranks, nbytes, time_s, matrix=_matrix(pattern),
                           pairs=pattern.pairs if isinstance(pattern, SendRecv) else None)
        rows.append({"bytes": nbytes, "algorithm": choice.algorithm, "time_s": time_s,
                     **found._asdict(),
                     **({"why": choice.why} if choice.algorithm != pattern.algorithm else {})})
    return pd.DataFrame(rows)


def sizes_between(first: Quantity, last: Quantity, factor: float = 2.0) -> list[float]:
    """List sizes from the first to the last one, each `factor` times the previous one.

    The last size is always included, even if the last step is smaller.
    """
    low, high = (parse_bytes(size, what, strict=True) for size, what in
                 ((first, "the first size"), (last, "the last size")))
    if high < low:
        raise InputError(f"the last size, {last!r}, must not be less than the first, {first!r}")
    if not (math.isfinite(factor) and factor > 1):
        raise InputError(f"the factor between sizes must be finite and above 1, not {factor!r}")
    count = int(math.log(high / low) / math.log(factor) * (1 + 1e-12) + 1e-9) + 1
    if count > _MOST_SIZES:
        raise InputError(f"from {first!r} to {last!r} by a factor of {factor!r} there are "
                         f"{count:,} sizes; there can be at most {_MOST_SIZES:,}")
    sizes = [low * factor ** k for k in range(count)]
    return sizes if math.isclose(sizes[-1], high) else [*sizes, high]


def _places(network: Topology, ranks: int, hosts: Sequence[Node] | None) -> list[int]:
    if hosts is not None:
        refuse_set(hosts, "hosts")
        if len(hosts) < ranks:
            raise InputError(f"{ranks:,} ranks need as many hosts, not {len(hosts):,}")
        return network.host_numbers(hosts[:ranks]).tolist()
    if ranks > network.hosts:
        raise InputError(f"{ranks:,} ranks need a host each; network {network.name!r} has "
                         f"{network.hosts:,}")
    return list(range(ranks))


def _matrix(pattern: Collective) -> Floats | None:
    return pattern.as_array() if isinstance(pattern, AllToAll) and pattern.matrix else None


def _sizes(pattern: Collective, given: Iterable[Quantity] | Quantity | None) -> list[float]:
    """Return the sizes to simulate; a single one if sizes have no meaning."""
    if pattern.collective == "barrier":
        return [0.0]
    if (matrix := _matrix(pattern)) is not None:
        return [float(matrix.sum(axis=1).max())]
    if given is None:
        return sizes_between("8B", "1GiB")
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    refuse_set(given, "sizes")
    return [parse_bytes(size, "size of the collective") for size in given]
