"""Variations of a case that must not change an allocator's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netsim.testing.cases import Case, with_capacity


def rename_hosts(case: Case, names: Sequence[int]) -> Case:
    """Renumber the hosts of a big switch, with their ports: host h becomes ``names[h]``."""
    hosts = case.network.hosts
    link = [*names, *(hosts + name for name in names)]
    capacity = case.network.capacity.copy()
    capacity[link] = case.network.capacity
    return replace(
        case, network=with_capacity(case.network, capacity),
        coflows=tuple(tuple((names[src], names[dst], nbytes) for src, dst, nbytes in flows)
                      for flows in case.coflows),
        capacity={link[old]: value for old, value in case.capacity.items()},
        running=tuple(tuple(names[host] for host in hosts) for hosts in case.running))


def reorder_flows(case: Case, orders: Sequence[Sequence[int]]) -> tuple[Case, list[int]]:
    """List the flows of coflow c in the order ``orders[c]``.

    The result has also the index in the old view of each flow of the new one.
    """
    sent = case.bytes_sent()
    other = replace(
        case, coflows=tuple(tuple(flows[f] for f in order)
                            for flows, order in zip(case.coflows, orders, strict=True)),
        sent=tuple(tuple(sent[c][f] for f in order) if isinstance(case.sent[c], tuple)
                   else case.sent[c] for c, order in enumerate(orders)))
    old = {flow: place for place, flow in enumerate(case.open_flows())}
    return other, [old[c, orders[c][f]] for c, f in other.open_flows()]


def renumber_jobs(case: Case, numbers: Sequence[int]) -> Case:
    """Give job j the number ``numbers[j]``, in increasing order; add idle jobs for the gaps."""
    def spread(values: Sequence, idle: Sequence) -> tuple:
        found = list(idle)
        for number, value in zip(numbers, values, strict=True):
            found[number] = value
        return tuple(found)

    count = numbers[-1] + 1
    # An idle job arrives together with the next job that is not idle.
    arrival = [min(at for at, number in zip(case.arrival_s, numbers, strict=True)
                   if number >= place) for place in range(count)]
    return replace(case, jobs=tuple(numbers[job] for job in case.jobs), arrival_s=tuple(arrival),
                   attained=spread(case.attained, [4096.0] * count),
                   completed=spread(case.completed, [1] * count),
                   ahead_s=spread(case.ahead_s, [0.5] * count),
                   predicted_s=spread(case.predicted_s, [0.5] * count),
                   running=spread(case.running, [()] * count),
                   job_group=spread(case.job_group, [None] * count))


def scale_time(case: Case, factor: float) -> Case:
    """Measure time in units `factor` times as long, so that rates are `factor` times as large."""
    return replace(
        case, network=with_capacity(case.network, factor * case.network.capacity),
        capacity={link: factor * value for link, value in case.capacity.items()},
        now=case.now / factor, **{name: tuple(at / factor for at in getattr(case, name))
                                  for name in ("valid_s", "arrival_s", "ahead_s", "predicted_s",
                                               "deadline_s")})


def scale_bytes(case: Case, factor: float) -> Case:
    """Measure bytes in units of 1/factor, so that sizes and rates are `factor` times as large."""
    return replace(
        case, network=with_capacity(case.network, factor * case.network.capacity),
        capacity={link: factor * value for link, value in case.capacity.items()},
        coflows=tuple(tuple((src, dst, factor * nbytes) for src, dst, nbytes in flows)
                      for flows in case.coflows),
        sent=tuple(part if isinstance(part, float) else tuple(factor * each for each in part)
                   for part in case.sent),
        attained=tuple(factor * nbytes for nbytes in case.attained))


def more_unsent(case: Case, factors: Sequence[float]) -> Case:
    """Multiply the bytes that each flow has yet to send by the flow's factor."""
    sent = case.bytes_sent()
    coflows = [list(flows) for flows in case.coflows]
    for (c, f), factor in zip(case.open_flows(), factors, strict=True):
        src, dst, nbytes = coflows[c][f]
        coflows[c][f] = src, dst, sent[c][f] + factor * (nbytes - sent[c][f])
    return replace(case, coflows=tuple(map(tuple, coflows)), sent=sent)


def more_ahead(case: Case, seconds: float, name: str = "ahead_s") -> Case:
    """Give each job more coflows to send later; the first job gets most of them."""
    changed: dict[str, Any] = {name: tuple(ahead + seconds / (1 + job)
                                           for job, ahead in enumerate(getattr(case, name)))}
    return replace(case, **changed)
