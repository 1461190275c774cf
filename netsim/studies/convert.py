"""Conversion of workloads to explicit ones, with drawn patterns and placed ranks, and to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim import traces
from netsim.errors import InputError
from netsim.jobs.fitting import all_fitted
from netsim.jobs.plan import draw_stages, place_randomly, with_drawn_ranks
from netsim.network import BigSwitch, Topology, read_network
from netsim.workload import JobSpec, Workload


def explicit(workload: Workload, network: Topology | None = None, seed: int = 0) -> Workload:
    """Return a workload with explicit stages instead of patterns, and with a host for each rank.

    On the same network, the returned workload runs exactly as `workload` does with the same `seed`.

    Parameters
    ----------
    workload : Workload
        Its seed is used to draw the sizes of patterns, as in a run.
    network : Topology, optional
        Network on which jobs without hosts are placed. If not given, they remain without hosts.
    seed : int
        Seed of the placement.

    Raises
    ------
    InputError
        If a job does not fit the network, or draws new flows in each of several iterations.
    """
    if network is not None:
        workload = all_fitted(workload, network, seed)
    jobs = [_placed(_drawn(job, workload.seed), network, seed) for job in workload]
    return Workload(jobs, workload.name, seed=workload.seed)


def _drawn(job: JobSpec, seed: int) -> JobSpec:
    job = with_drawn_ranks(job, seed)
    if job.stages or job.operations is not None:
        return job
    if job.redraw and job.iterations > 1:
        raise InputError(f"job {job.id} draws new flows in each of {job.iterations} iterations, "
                         "but explicit stages repeat the same flows")
    stages = draw_stages(job, seed, *([0] if job.redraw else []))
    return replace(job, stages=stages, pattern=None, model=None, nbytes=0.0, redraw=False)


def _placed(job: JobSpec, network: Topology | None, seed: int) -> JobSpec:
    if network is None:
        return job
    return replace(job, hosts=place_randomly(job, network, seed).tolist())


def convert(source: str | Path, target: str | Path, *, format: str | None = None,
            to: str | None = None, seed: int | None = None,
            network: Topology | str | Path | None = None, **options: Any) -> Workload:
    """Read a workload and write it in another format; see `netsim.traces.convert`.

    Patterns are replaced by explicit stages, and ranks are placed on hosts; see `explicit`.

    Parameters
    ----------
    source, target, format, to, **options
        As for `netsim.traces.convert`.
    seed : int, optional
        Seed of all random numbers of the workload, and of the placement.
    network : Topology, str or path, optional
        Network on which jobs without hosts are placed. If it is a big switch, a JSON file also
        describes it, for `netsim.read_network`.

    Raises
    ------
    InputError
        If the source or the network cannot be read, or the target format cannot represent the
        workload. Nothing is written.
    OutputError
        If the file cannot be written.
    """
    built = read_network(network) if isinstance(network, str | Path) else network
    return traces.convert(source, target, format=format, to=to, seed=seed,
                          prepare=lambda workload: explicit(workload, built, seed or 0),
                          network=None if built is None else _description(built), **options)


def _description(network: Topology) -> dict[str, Any]:
    """The keys of an instance that describe a network: its hosts, and the ports of a big switch."""
    keys: dict[str, Any] = {"hosts": network.hosts}
    if isinstance(network, BigSwitch):
        capacity = network.capacity.tolist()
        keys |= {"egress_capacity_bytes_per_s": capacity[:network.hosts],
                 "ingress_capacity_bytes_per_s": capacity[network.hosts:],
                 "loopback_uses_ports": network.loopback_uses_ports}
    return keys
