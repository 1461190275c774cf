"""Views built by hand, for unit tests of allocators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from netsim.base.units import Quantity, parse_rate
from netsim.base.values import known_names, refuse_set
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.allocation import Information
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.fabric.running import JobLabel, Running
from netsim.fabric.view import FabricView
from netsim.network import Topology
from netsim.workload import Flows, IterationProfile

#: Progress of a coflow: the fraction that every flow has sent, or the bytes that each has sent.
Sent = float | Sequence[float]

_PER_JOB = {"arrival_s": "arrival", "attained": "attained", "completed": "completed",
            "predicted_s": "predicted", "ahead_s": "ahead", "longest_s": "longest",
            "gpus": "gpus", "per_gamma": "per_gamma"}


@known_names
def make_view(network: Topology, coflows: Sequence[Sequence[tuple[int, int, float]]], *,
              sent: Sequence[Sent] | None = None, jobs: Sequence[int] | None = None,
              valid_s: Sequence[float] | None = None, now: float | None = None,
              weight: Sequence[float] | None = None, deadline_s: Sequence[float] | None = None,
              capacity: Mapping[str | int, Quantity] | None = None,
              arrival_s: Sequence[float] | None = None, attained: Sequence[float] | None = None,
              completed: Sequence[int] | None = None, ahead_s: Sequence[float] | None = None,
              longest_s: Sequence[float] | None = None,
              predicted_s: Sequence[float] | None = None, gpus: Sequence[float] | None = None,
              per_gamma: Sequence[float] | None = None,
              profiles: Sequence[IterationProfile] | None = None,
              job_id: Sequence[int] | None = None, job_name: Sequence[str] | None = None,
              job_group: Sequence[int | str | None] | None = None,
              running: Sequence[Sequence[int]] | None = None,
              information: Information = "clairvoyant", sees_running: bool = True) -> FabricView:
    """Build by hand the view that an allocator would see.

    As on the fabric, the view leaves out flows without bytes, flows that are complete, and loopback
    flows that use no link.

    Parameters
    ----------
    network : Topology
        The network whose links flows use.
    coflows : sequence of sequences of (src, dst, nbytes)
        Active coflows in order of (valid time, job). Each must have bytes left to send.
    sent : sequence, optional
        Progress of each coflow: a fraction in [0, 1) that every flow has sent, or a sequence with
        the bytes that each flow has sent. By default 0.
    jobs : sequence of int, optional
        The job of each coflow; jobs are numbered by arrival. By default coflow c is of job c.
    valid_s : sequence of float, optional
        Instant at which each coflow became valid. By default 0.
    now : float, optional
        The current instant. By default, the instant at which the last coflow became valid.
    weight : sequence of float, optional
        Weight of each coflow: that of its job times that of its stage. By default 1.
    deadline_s : sequence of float, optional
        Instant by which each coflow should finish. By default inf, that is, no deadline.
    capacity : mapping of link to quantity, optional
        Current capacity, by name or number, of the links whose capacity has changed; 0 for a failed
        link.
    arrival_s, attained, completed, ahead_s, longest_s, predicted_s, gpus, per_gamma : sequence, \
optional
        For each job: its arrival, the bytes of its completed coflows, and their number; the sum of
        gamma, in seconds, over the coflows that it has yet to emit; the largest gamma of the
        coflows that it has emitted; the prediction of `ahead_s`; its GPUs; and the seconds that it
        takes alone, computation included, for each second of `ahead_s`. By default 0; for
        `longest_s`, the largest gamma of the job's active coflows; for `gpus` and `per_gamma`, 1.
    profiles : sequence of netsim.workload.IterationProfile, optional
        For each job: what it computes and sends in an iteration, for `job_profile`; by default all
        are 0.
    job_id, job_name, job_group : sequence, optional
        For each job: its id, name and group. By default its number, ``""`` and None.
    running : sequence of sequences of int, optional
        For each job, hosts on which it runs in addition to those of its active flows. By default
        none, so that jobs without active flows do not run.
    information : {"agnostic", "clairvoyant", "predicted", "job-clairvoyant"}
        Information that the view gives; reading more is an `InputError`.
    sees_running : bool
        Whether the view tells which jobs run; see `netsim.Allocator.sees_running`.

    Returns
    -------
    FabricView

    Raises
    ------
    InputError
        If lengths differ, coflows are out of order, a flow has sent more than its size, or a
        coflow has nothing left to send.

    Examples
    --------
    >>> import netsim
    >>> from netsim.testing import make_view
    >>> view = make_view(netsim.big_switch(2, 100.0), [[(0, 1, 300.0)], [(0, 1, 100.0)]])
    >>> netsim.make_allocator("sebf").allocate(view).order
    array([1, 0])
    """
    if information not in get_args(Information):
        raise UnknownNameError("information", information, get_args(Information))
    refuse_set(coflows, "coflows")
    count = len(coflows)
    owner = [int(job) for job in _given("jobs", range(count) if jobs is None else jobs, count)]
    valid = _given("valid_s", valid_s, count)
    _check_order(valid, owner)
    now = float(max(valid)) if now is None else now
    if now < max(valid):
        raise InputError(f"now is {now!r}, before a coflow becomes valid at {max(valid)!r}")
    demands = [RoutedCoflow.of(Flows.of(flows), network, weight=float(weight_c))
               for flows, weight_c
               in zip(coflows, _given("weight", weight, count, 1.0), strict=True)]
    parts = [_parts_sent(c, flows, part) for c, (flows, part)
             in enumerate(zip(coflows, _given("sent", sent, count), strict=True))]

    per_job = {"arrival_s": arrival_s, "attained": attained, "completed": completed,
               "ahead_s": ahead_s, "longest_s": longest_s, "predicted_s": predicted_s,
               "gpus": gpus, "per_gamma": per_gamma, "profiles": profiles, "running": running,
               "job_id": job_id, "job_name": job_name, "job_group": job_group}
    table = _table(network, owner, valid, demands, per_job)
    table.coflows["deadline"] = _given("deadline_s", deadline_s, count, np.inf)
    _set_progress(table, demands, parts)
    for link, quantity in (capacity or {}).items():
        table.set_capacities({network.link(link): parse_rate(quantity, f"capacity of {link!r}")})
    where = _running(network, len(table.jobs), owner, coflows, running)
    jobs = range(len(table.jobs))
    labels = [JobLabel(*each) for each in zip(job_id or jobs, job_name or [""] * len(jobs),
                                              job_group or [None] * len(jobs), strict=True)]
    return FabricView(table, now, information, running=where if sees_running else None,
                      job_of=labels.__getitem__)


def _given(name: str, values: Sequence | None, count: int, default: float = 0.0) -> Sequence:
    """Check the length of an argument with a value per coflow, or use its default."""
    if values is None:
        return [default] * count
    refuse_set(values, name)
    if len(values) != count:
        raise InputError(f"{name} has {len(values)} values for {count} coflows")
    return values


def _check_order(valid: Sequence[float], owner: Sequence[int]) -> None:
    """Check that coflows are in order of (valid time, job)."""
    if not owner:
        raise InputError("a view has at least one coflow")
    if min(owner) < 0:
        raise InputError(f"jobs are numbered from 0, not {min(owner)}")
    keys = list(zip(valid, owner, strict=True))
    if keys != sorted(keys):
        raise InputError("coflows must be in order of (valid time, job), not "
                         + ", ".join(f"({at:g}, {job})" for at, job in keys))


def _table(network: Topology, owner: Sequence[int], valid: Sequence[float],
           demands: Sequence[RoutedCoflow], per_job: Mapping[str, Sequence | None]) -> FlowTable:
    """Make a table of coflows, with rows for all jobs."""
    given = {name: values for name, values in per_job.items() if values is not None}
    count = max([max(owner) + 1, *(len(values) for values in given.values())])
    table = FlowTable(network.usable, np.zeros(count))
    for job, at, demand in zip(owner, valid, demands, strict=True):
        table.add(demand, job, float(at))
    for name, values in given.items():
        if len(values) != count:
            raise InputError(f"{name} has {len(values)} values for {count} jobs")
        if name in _PER_JOB:
            table.jobs[_PER_JOB[name]] = values
    table.profiles.update(enumerate(IterationProfile(*each) for each in given.get("profiles", ())))
    if np.any(np.diff(table.jobs["arrival"]) < 0):
        raise InputError("jobs are numbered by arrival: arrival_s must not decrease")
    return table


def _running(network: Topology, jobs: int, owner: Sequence[int],
             coflows: Sequence[Sequence[tuple[int, int, float]]],
             given: Sequence[Sequence[int]] | None) -> Running:
    """The running jobs with their hosts: the given ones, and those of their flows."""
    hosts = [set(map(int, each)) for each in given or [()] * jobs]
    for job, flows in zip(owner, coflows, strict=True):
        hosts[job].update(host for src, dst, _ in flows for host in (src, dst))
    running = Running()
    for job, where in enumerate(hosts):
        if where and not 0 <= min(where) <= max(where) < network.hosts:
            raise InputError(f"job {job} runs on the hosts {sorted(where)}; network "
                             f"{network.name!r} has the hosts 0 to {network.hosts - 1}")
        if where:
            running.begin(job, sorted(where))
    return running


def _parts_sent(coflow: int, flows: Sequence[tuple[int, int, float]], sent: Sent
                ) -> float | list[float]:
    """Check the progress of a coflow; return it as floats."""
    part = float(sent) if np.ndim(sent) == 0 else [float(each) for each in sent]  # type: ignore
    if isinstance(part, float):
        if not 0 <= part < 1:
            raise InputError(f"coflow {coflow} has sent the fraction {part!r}; "
                             "it must be in [0, 1)")
        return part
    if len(part) != len(flows):
        raise InputError(f"sent of coflow {coflow} has {len(part)} values for {len(flows)} flows")
    for flow, (nbytes, (_, _, size)) in enumerate(zip(part, flows, strict=True)):
        if not 0 <= nbytes <= size:
            raise InputError(f"flow {flow} of coflow {coflow} has sent {nbytes!r} of its "
                             f"{size!r} bytes")
    return part


def _set_progress(table: FlowTable, demands: Sequence[RoutedCoflow],
              parts: Sequence[float | list[float]]) -> None:
    """Bring the rows of the table to the given progress."""
    if any(isinstance(part, list) for part in parts):
        # As on the fabric: a second at rates equal to the bytes sent.
        rates = [demand.flows["size"] * part if isinstance(part, float)
                 else np.take(part, demand.flows["index"])
                 for demand, part in zip(demands, parts, strict=True)]
        table.apply_rates(np.concatenate(rates), 0.0, False)
        table.advance(1.0, 1.0, 0.0)
    else:
        table.coflows["left"] = 1.0 - np.array(parts)
    for coflow, row in enumerate(table.coflows):
        if not row["open"]:
            raise InputError(f"coflow {coflow} has nothing left to send: it is complete, and "
                             "no allocator sees it")

