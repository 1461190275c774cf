"""Fits jobs to a network: names of hosts become numbers, and collectives learn its properties.

A workload does not depend on a network; here it meets one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Ints
from netsim.collectives import NcclCosts, SwitchCosts
from netsim.errors import InputError, NetsimWarning
from netsim.jobs.patterns import Collective, make_pattern
from netsim.jobs.plan import place_randomly, with_drawn_ranks
from netsim.network import Topology
from netsim.workload import JobSpec, Workload
from netsim.workload.columns import Columns
from netsim.workload.job import JobColumns

if TYPE_CHECKING:
    import pandas as pd


# --- what collectives need to know ---------------------------------------------------------
def costs_on(network: Topology, hosts: Sequence[int] | Ints, algorithm: str,
             servers: int | None = None, inside: float | None = None) -> NcclCosts | SwitchCosts:
    """Compute the costs by which the rule ``"auto"`` or ``"fastest"`` chooses on a network.

    By default, the servers of the ranks are counted on the network; if this does not define
    servers, each host counts as one. If hosts are servers rather than GPUs, `inside` is the rate
    inside a server, in bytes per second.
    """
    machines, places = network.gpu_servers, np.asarray(hosts, np.int64)
    if algorithm == "fastest" or machines is None:
        ports = np.unique(np.concatenate([network.links_of(int(host))
                                          for host in np.unique(places)]))
        rate = float(network.usable[ports].min())
        if algorithm == "fastest":
            return SwitchCosts(rate, _longest_s(network, places), network.wire.overhead)
        own = len(np.unique(places)) if servers is None else servers
        if inside is not None:
            rate = inside if own == 1 else min(inside, rate)
        return NcclCosts(rate, servers=own)
    own = len(np.unique(machines.server_of(places))) if servers is None else servers
    efficiency = network.wire.efficiency[_links_of_first_gpu(network, int(places[0]))]
    nvlink = machines.nvlink * float(efficiency[0])
    nics = machines.nic * machines.nics * float(efficiency[1])
    return NcclCosts(nvlink if own == 1 else min(nvlink, nics), servers=own,
                     generation=machines.generation)


def _links_of_first_gpu(network: Topology, host: int) -> list[int]:
    """Return the NVLink of the first GPU of a host's server, and the link of its first NIC."""
    assert network.gpu_servers is not None
    server = host // network.gpu_servers.gpus
    of_nic = network.links_of_switch(f"nic-{server}.0").tolist()
    up = next(link for link in of_nic
              if network.link_names[link].startswith(f"nic-{server}.0->rail-"))
    return [network.link(f"gpu-{server}.0->server-{server}"), up]


def _longest_s(network: Topology, hosts: Ints) -> float:
    """Return the largest latency of a path between some hosts, in seconds."""
    if not network.wire.latency.any():
        return 0.0
    longest, hosts = 0.0, np.unique(hosts)
    for host in hosts.tolist():
        ptr, links = network.routes(np.full_like(hosts, host), hosts, np.zeros_like(hosts))
        longest = max(longest, float(network.wire.latency_of(ptr, links).max()))
    return longest


def groups_on(network: Topology, hosts: Sequence[int] | Ints, order: Sequence[int] | None,
              hosts_are_servers: bool = False) -> dict[str, Any]:
    """Find the ``group`` of a hierarchical collective, the ranks of each server, as an option.

    If no order is given, ranks of a server follow each other: the options include ``order`` if this
    is not the order of ranks. With `hosts_are_servers`, the network need not define servers.
    """
    on = np.asarray(hosts, np.int64)
    if not hosts_are_servers:
        if network.gpu_servers is None:
            raise InputError(f"hierarchical: network {network.name!r} does not say which hosts are "
                             "on one server, as netsim.gpu_cluster does; give group")
        on = network.gpu_servers.server_of(on)
    found: dict[str, Any] = {}
    places = np.arange(len(on)) if order is None else np.array(order, np.int64)
    if order is None and (np.diff(on) < 0).any():
        places = np.argsort(on, kind="stable")
        found["order"] = places.tolist()
    on = on[places]
    first = np.flatnonzero(np.diff(on, prepend=-1))
    sizes = np.diff(first, append=len(on))
    if len(np.unique(sizes)) > 1 or len(np.unique(on[first])) < len(first):
        raise InputError("hierarchical: servers must have equally many ranks, which follow each "
                         f"other in the order, not {sizes.tolist()[:8]} of the servers "
                         f"{on[first].tolist()[:8]}; give group")
    return {**found, "group": int(sizes[0])}


# --- jobs ----------------------------------------------------------------------------------

Settle = Callable[[JobSpec, Collective], Collective]


def fitted(spec: JobSpec, network: Topology, seed: int = 0) -> JobSpec:
    """Fit a job to a network: number its hosts, after checking them, and complete its pattern.

    A job without hosts is completed for the hosts on which `seed` will place it.
    """
    _warn_of_numbers([spec.hosts or ()], network)
    return settled(_numbered(spec, network), _on_hosts(network, seed))


def all_fitted(workload: Workload, network: Topology, seed: int = 0) -> Workload:
    """Call `fitted` for all jobs; tuples of hosts that jobs share are looked up once."""
    jobs = workload.jobs
    if isinstance(jobs, JobColumns):
        named = jobs.columns.hosts
        _warn_of_numbers([named] if named else [jobs.columns.src, jobs.columns.dst], network)
        columns = _fitted_columns(jobs, network)
        return workload if columns is jobs else replace(workload, jobs=columns)
    known: dict[int, Sequence[int | str] | None] = {}
    found = []
    _warn_of_numbers((job.hosts or () for job in jobs), network)
    for job in jobs:
        if job.hosts is None or id(job.hosts) not in known:
            found.append(_numbered(job, network))
            known[id(job.hosts)] = found[-1].hosts
        else:
            hosts = known[id(job.hosts)]
            found.append(job if hosts is job.hosts else replace(job, hosts=hosts))
    return _with_jobs(workload, found, _on_hosts(network, seed))


def all_settled(workload: Workload, settle: Settle) -> Workload:
    """Return a workload in which all patterns are complete; see `settled`."""
    jobs = workload.jobs
    return workload if isinstance(jobs, JobColumns) else _with_jobs(workload, jobs, settle)


def fitted_pattern(pattern: Collective, network: Topology, hosts: Sequence[int] | Ints,
                   inside: float | None = None) -> Collective:
    """Complete a collective, given the network and the host of each rank.

    ``"hierarchical"`` gets the ranks of each server as its groups, and ``"auto"`` and ``"fastest"``
    get their costs from `costs_on`. If hosts are servers rather than GPUs, `inside` is the rate
    inside a server, in bytes per second.
    """
    if pattern.leaves_open == "group":
        return replace(pattern, **groups_on(network, hosts, pattern.order, inside is not None))
    return replace(pattern, costs=costs_on(network, hosts, pattern.algorithm, inside=inside))


def chosen_algorithms(jobs: Sequence[Any]) -> dict[str, list[str]]:
    """Return the columns ``algorithm`` and ``why``, if a rule or a network chose some algorithm.

    The values are empty for jobs whose algorithm was not chosen in this way.
    """
    if isinstance(jobs, JobColumns):
        return {}
    known: dict[int, Collective | None] = {}
    titles, reasons = [], []
    for job in jobs:
        pattern = getattr(job, "pattern", None)
        if id(pattern) not in known:
            made = None if pattern is None else make_pattern(pattern)
            known[id(pattern)] = made if isinstance(made, Collective) and made.is_chosen else None
        made = known[id(pattern)]
        titles.append("" if made is None else made.title(job.ranks, job.nbytes))
        choice = None if made is None else made.choice(job.ranks, job.nbytes)
        reasons.append("" if choice is None or not choice.times_s else choice.why)
    return {"algorithm": titles, "why": reasons} if any(titles) else {}


def with_algorithms(workload: Workload, table: pd.DataFrame) -> Iterator[JobSpec]:
    """Yield the jobs of a workload, not yet fitted, with the algorithms that a table of jobs names.

    The table has the columns of `chosen_algorithms`, if there are any.
    """
    titles = table["algorithm"].tolist() if "algorithm" in table else [""] * len(workload)
    for job, title in zip(workload, titles, strict=True):
        made = make_pattern(job.pattern) if title else None  # type: ignore[arg-type]
        yield replace(job, pattern=made.by(title)) if isinstance(made, Collective) else job


def _on_hosts(network: Topology, seed: int) -> Settle:
    def settle(job: JobSpec, pattern: Collective) -> Collective:
        hosts = place_randomly(job, network, seed)[:job.ranks]
        return fitted_pattern(pattern, network, hosts)

    return settle


def _with_jobs(workload: Workload, jobs: Sequence[JobSpec], settle: Settle) -> Workload:
    """Return a workload with other jobs, settled; the same object if nothing has changed.

    Patterns in which ranks compute are drawn.
    """
    known: dict[Any, Collective | None] = {}
    found = [settled(with_drawn_ranks(job, workload.seed), settle, known) for job in jobs]
    same = all(one is other for one, other in zip(found, workload.jobs, strict=True))
    return workload if same else replace(workload, jobs=found)


def settled(job: JobSpec, settle: Settle, known: dict[Any, Collective | None] | None = None
            ) -> JobSpec:
    """Complete the pattern of a job by `settle`, which gets the job and its incomplete collective.

    For many jobs, `known` caches which patterns are incomplete.
    """
    if job.pattern is None:
        return job
    known = {} if known is None else known
    pattern: Any = job.pattern
    key = repr(pattern) if isinstance(pattern, str | Mapping) else id(pattern)
    if key not in known:
        known[key] = _open_collective(job)
    made = known[key]
    if made is None:
        return job
    with _of_job(job.id):
        return replace(job, pattern=settle(job, made))


def _open_collective(job: JobSpec) -> Collective | None:
    """Return the pattern of a job if it is an incomplete collective."""
    assert job.pattern is not None
    try:
        made = make_pattern(job.pattern)
    except InputError:
        return None  # which is an error when its stages are drawn
    return made if isinstance(made, Collective) and made.leaves_open else None


def _numbered(spec: JobSpec, network: Topology) -> JobSpec:
    """Return a job with the numbers of its hosts, after checking that these exist."""
    if spec.hosts is None:
        if spec.ranks > network.hosts:
            raise InputError(f"job {spec.id} needs {spec.ranks} distinct hosts; network "
                             f"{network.name!r} has {network.hosts} hosts")
        return spec
    if spec.by_name:
        with _of_job(spec.id):
            return replace(spec, hosts=network.host_numbers(spec.hosts).tolist())
    for host in spec.hosts:
        if not isinstance(host, str) and host >= network.hosts:
            raise InputError(f"job {spec.id}: host {host} is out of range; "
                             f"{_hosts_of(network, host)}")
    return spec


def _warn_of_numbers(hosts: Iterable[Iterable[int | str]], network: Topology) -> None:
    """Warn if a host is given by a number that is also the name of another one."""
    wrong = network.misleading
    for host in chain.from_iterable(hosts) if wrong else ():
        if not isinstance(host, str) and host in wrong:
            warnings.warn(NetsimWarning(
                f"network {network.name!r}: {host} is taken for the host with this number, which "
                f"is named {network.host_names[host]!r}, and not for the node named {str(host)!r}; "
                f"name it {str(host)!r}, as a text, or read tables with endpoints = \"names\""),
                stacklevel=1)
            return


@contextmanager
def _of_job(job: int) -> Iterator[None]:
    """Name the job in errors about its hosts."""
    try:
        yield
    except InputError as error:
        raise InputError(f"job {job}: {error}") from None


def _hosts_of(network: Topology, wrong: int) -> str:
    """Describe the existing hosts for an error, and whether the wrong number is a host's name."""
    named = f"; one is named {str(wrong)!r}" if str(wrong) in network.host_names else ""
    return f"network {network.name!r} has {network.hosts} hosts, 0 to {network.hosts - 1}{named}"


def _fitted_columns(jobs: JobColumns, network: Topology) -> JobColumns:
    """Return jobs with the numbers of their hosts; an error names the first job with a bad one."""
    columns = jobs.columns
    if columns.hosts:
        numbers = np.zeros(len(columns.hosts), np.int64)
        for place, host in enumerate(columns.hosts):
            try:
                numbers[place] = network.host(host)
            except InputError as error:
                flow = int(np.argmax((columns.src == place) | (columns.dst == place)))
                raise InputError(f"job {_job_of(columns, flow)}: {error}") from None
        return JobColumns(columns._replace(src=numbers[columns.src], dst=numbers[columns.dst],
                                           hosts=()))
    if jobs.hosts > network.hosts:
        ends = np.maximum(columns.src, columns.dst)
        flow = int(np.argmax(ends >= network.hosts))
        raise InputError(f"job {_job_of(columns, flow)}: host {ends[flow]} is out of range; "
                         + _hosts_of(network, int(ends[flow])))
    return jobs


def _job_of(columns: Columns, flow: int) -> int:
    """Return the id of the job of a flow."""
    return int(columns.id[np.searchsorted(np.cumsum(columns.counts), flow, "right")])
