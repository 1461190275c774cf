"""Faults during a run: capacities change, flows take other routes, jobs lose their hosts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.engine.as_coflows import CoflowExecution
from netsim.engine.engine import Engine
from netsim.errors import InputError
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric import Fabric
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.process import JobProcess
from netsim.jobs.stragglers import factors_of
from netsim.network import GraphTopology, Topology
from netsim.network.live import LiveNetwork
from netsim.recording.recorder import Recorder
from netsim.simulation.events import Change, FaultEvent, after_all_else, changes_of

__all__ = [
    "Faults",
    "JobHost",
    "JobsOnHosts",
    "JobsOnServers",
    "dead_links",
    "hosts_of",
    "listed",
    "problems_on",
]

#: How many names a message has at most.
_MOST_NAMED = 5


class JobHost(Protocol):
    """Has the jobs of a run, and is told what befalls their hosts."""

    def processes(self) -> Iterable[JobProcess]:
        """Return the jobs that send, or may."""

    def lose(self, host: int, restart: bool) -> None:
        """Let nothing begin on a host from now on."""

    def stop(self, host: int) -> None:
        """Stop what runs on a host."""

    def repair(self, host: int) -> None:
        """Let things begin again on a host."""


class Faults:
    """What is to happen to a network, and to those on it.

    Parameters
    ----------
    events : sequence of FaultEvent or mapping
    network : Topology

    Attributes
    ----------
    network : Topology
        For flows to be routed on: one that goes round dead links, where some die that can be
        gone round.
    most_capacity : ndarray of float, shape (links,)
        The most that each link ever has, in bytes per second, for lower bounds; inf where flows
        may go another way, since nobody knows beforehand what they will cross.
    restarts : bool
        Whether jobs are ever stopped.

    Raises
    ------
    InputError
        If one is no event, or of a link or a host that there is not.
    """

    def __init__(self, events: Sequence[FaultEvent | Mapping[str, Any]], network: Topology
                 ) -> None:
        self._changes = changes_of(events, network)
        self.restarts = any(change.restart for change in self._changes)
        self.most_capacity = network.capacity.copy()
        for change in self._changes:
            for link, capacity in change.capacity.items():
                self.most_capacity[link] = max(self.most_capacity[link], capacity)
        dying = [link for change in self._changes for link, capacity in change.capacity.items()
                 if capacity == 0]
        self.network = network
        if isinstance(network, GraphTopology) and network.avoidable[dying].any():
            self.network = LiveNetwork(network)
            self.most_capacity[network.avoidable] = math.inf

    @property
    def touch_jobs(self) -> bool:
        """Whether jobs are stopped or take other routes, so that none may be left to the fabric."""
        return self.restarts or isinstance(self.network, LiveNetwork)

    def begin(self, env: Any, keeper: JobHost, fabric: Fabric | None = None,
              recorder: Recorder | None = None,
              seen: Callable[[float], float] = lambda at: at) -> None:
        """See that everything happens at its instant, before jobs arrive at it.

        Parameters
        ----------
        env : simpy.Environment
        keeper : JobHost
        fabric, recorder : Fabric, Recorder, optional
            Of runs in which jobs use links.
        seen : callable
            Returns when something that happens at an instant makes itself felt.
        """
        for change in self._changes:
            env.timeout(seen(change.at)).callbacks.append(
                partial(self._happen, change, env, keeper, fabric, recorder))

    def _happen(self, change: Change, env: Any, keeper: JobHost, fabric: Fabric | None,
                recorder: Recorder | None, _: Any) -> None:
        if fabric is not None and recorder is not None:
            for link, capacity in change.capacity.items():
                fabric.set_capacity(link, capacity)
                recorder.set_capacity(link, capacity)
            self._reroute(keeper, fabric)
        if change.host is not None and change.kind == "fail":
            keeper.lose(change.host, change.restart)
            if change.restart:
                # What ends at this instant has ended, and is not lost.
                after_all_else(env, partial(keeper.stop, change.host))
        if change.host is not None and change.kind == "repair":
            keeper.repair(change.host)

    def _reroute(self, keeper: JobHost, fabric: Fabric) -> None:
        dead = np.flatnonzero(fabric.table.capacity == 0)
        if not isinstance(self.network, LiveNetwork) or not self.network.set_dead(dead):
            return
        demands: dict[CoflowEvent, RoutedCoflow] = {}
        for job in keeper.processes():
            demands |= job.rerouted()
        if demands:
            fabric.reroute(demands)


def problems_on(network: Topology, given: Any) -> list[tuple[str, str]]:
    """Return what is wrong on a network with the events or stragglers of an experiment, by key.

    Parameters
    ----------
    network : Topology
    given : sequence of EventTable, or mapping of str to float
    """
    problems = []
    if isinstance(given, Mapping):
        for host, factor in given.items():
            try:
                factors_of(hosts_of({host: factor}), network.hosts)
            except InputError as error:
                problems.append((host, str(error).removeprefix("stragglers: ")))
        return problems
    for index, event in enumerate(given):
        try:
            changes_of([event.model_dump()], network)
        except InputError as error:
            problems.append((f"{index}.{'link' if event.host is None else 'host'}", str(error)))
    return problems


def hosts_of(stragglers: Mapping[str, float]) -> dict[Any, float]:
    """Return factors by the numbers of hosts, which are strings in a file."""
    return {int(host) if host.isdecimal() else host: factor for host, factor in stragglers.items()}


class JobsOnHosts:
    """Jobs that stay on their hosts, and wait for them; a `JobHost`.

    Attributes
    ----------
    jobs : list of JobProcess
        Those that are no lines.
    """

    def __init__(self) -> None:
        self.jobs: list[JobProcess] = []
        self._lost: dict[int, None] = {}

    def may_run(self, hosts: NDArray[np.int64]) -> bool:
        """Whether none of some hosts is lost."""
        return self._lost.keys().isdisjoint(hosts.tolist())

    def processes(self) -> Iterable[JobProcess]:
        """Return all jobs; see `JobHost`."""
        return self.jobs

    def lose(self, host: int, restart: bool) -> None:
        """Let no job begin on a host from now on, if those on it are to restart."""
        if restart:
            self._lost[host] = None

    def stop(self, host: int) -> None:
        """Stop jobs that run on a host; if it is there again already, they start over."""
        for job in self.jobs:
            if job.running and host in job.hosts:
                job.stop()
                if self.may_run(job.hosts):
                    job.resume()

    def repair(self, host: int) -> None:
        """Let jobs go on that have waited for a host, and for no other."""
        self._lost.pop(host, None)
        for job in self.jobs:
            if job.waits and self.may_run(job.hosts):
                job.resume()

    def waiting(self) -> list[tuple[JobProcess, list[int]]]:
        """Return the jobs that wait, and for which hosts."""
        return [(job, [host for host in self._lost if host in job.hosts])
                for job in self.jobs if job.waits]


class JobsOnServers:
    """Jobs that a cluster's engine places, on the fabric or by a model; a `JobHost`.

    Parameters
    ----------
    engine : Engine
    on_fabric : CoflowExecution, optional
        If that is how they run.
    """

    def __init__(self, engine: Engine, on_fabric: CoflowExecution | None = None) -> None:
        self._engine, self._on_fabric = engine, on_fabric

    def processes(self) -> Iterable[JobProcess]:
        """Return the jobs on the fabric; see `JobHost`."""
        return () if self._on_fabric is None else self._on_fabric.processes.values()

    def lose(self, host: int, restart: bool) -> None:
        """Give nobody GPUs of a server from now on."""
        self._engine.lose(host)

    def stop(self, host: int) -> None:
        """Have jobs wait anew that have GPUs of a server."""
        self._engine.evict(host)

    def repair(self, host: int) -> None:
        """Give GPUs of a server again."""
        self._engine.repair(host)


def dead_links(fabric: Fabric) -> list[str]:
    """Return in words which dead links pending coflows need; nothing if they need none."""
    table = fabric.table
    pending = table.coflows[table.coflows["open"] > 0]
    used = np.concatenate([np.empty(0, np.int64), *(
        table.loads["link"][row["load"]:][:row["loads"]] for row in pending)])
    dead = [link for link in np.unique(used).tolist() if table.capacity[link] == 0]
    names = fabric.network.link_names
    return [f"dead links: {listed(repr(names[link]) for link in dead)}"] if dead else []


def listed(names: Iterable[str]) -> str:
    """Return names for a message, the first ones of many."""
    all_of_them = list(names)
    more = len(all_of_them) - _MOST_NAMED
    return ", ".join(all_of_them[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
