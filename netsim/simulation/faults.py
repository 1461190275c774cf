"""Faults during a run: capacities change, flows take other routes, jobs lose their hosts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.units import is_digits
from netsim.errors import InputError
from netsim.fabric.clock import LOSSES, CoflowEvent, call_at, call_last
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow, WithoutProcess
from netsim.jobs.stragglers import factors_of
from netsim.network import GraphTopology, Topology
from netsim.network.live import LiveNetwork, live_network, moves_flows, parts_of
from netsim.results.link_recorder import LinkRecorder
from netsim.simulation.events import Change, FaultEvent, changes_of

if TYPE_CHECKING:
    from netsim.cluster.cluster import Cluster
    from netsim.engine.as_coflows import CoflowExecution
    from netsim.engine.engine import Engine

#: The most names in a message.
_MOST_NAMED = 5


class JobHost:
    """What happens to jobs when links and hosts fail and are repaired; by default, they wait."""

    def rerouted(self) -> Mapping[CoflowEvent, RoutedCoflow]:
        """Recompute routes; return the active coflows with changed routes, and these routes."""
        raise NotImplementedError

    def rerouted_without_process(self) -> WithoutProcess:
        """Return the coflows, on their current routes, of the jobs that have no process."""
        return WithoutProcess()

    def lose(self, host: int, restart: bool) -> None:
        """Start no more jobs or iterations on a host."""

    def stop(self, host: int) -> None:
        """Stop the jobs that run on a host."""

    def repair(self, host: int) -> None:
        """Allow jobs and iterations on a host to start again."""


class Faults:
    """The fault events of a run on a network, or on the network of a cluster."""

    def __init__(self, events: Sequence[FaultEvent | Mapping[str, Any]],
                 where: Topology | Cluster) -> None:
        self.where = where
        network: Any = getattr(where, "network", where)  # that of a cluster
        self.given: Topology = network
        self._changes = changes_of(events, where) if len(events) else []
        #: Whether an event stops jobs, all of which then need processes.
        self.restarts = any(change.restart for change in self._changes)
        #: The largest capacity that each link of `parts` has during the run, in bytes per second,
        #: for lower bounds; inf for links that flows may avoid, as routes are then not known.
        self.most_capacity = network.usable_parts
        for change in self._changes:
            for link, capacity in change.capacity.items():
                self.most_capacity[link] = max(self.most_capacity[link], capacity)
        self.network = network  #: on which flows are routed, around dead links if they can be
        if any(moves_flows(network, change.capacity) for change in self._changes):
            self._go_live()

    @cached_property
    def parts(self) -> Topology:
        """The network whose links events change: `given`, or its single links if it has trunks."""
        return parts_of(self.given)

    @property
    def changing(self) -> Ints:
        """The links whose capacities events change."""
        return np.array([link for change in self._changes for link in change.capacity], np.int64)

    @property
    def touch_jobs(self) -> bool:
        """Whether events stop or reroute jobs, so that those of several coflows need processes."""
        return self.restarts or isinstance(self.network, LiveNetwork)

    def begin(self, env: Any, keeper: JobHost, fabric: FabricProcess | None = None,
              recorder: LinkRecorder | None = None,
              tell: Callable[[Mapping[str, float]], None] | None = None,
              seen: Callable[[float], float] | None = None) -> None:
        """Schedule all events, each before the jobs that arrive at the same instant.

        `fabric` and `recorder` are given if jobs use links. `tell` is called with the new
        capacities of links, by their names. `seen` maps the time of an event to the
        time at which the run notices it.
        """
        self._env, self._keeper, self._fabric, self._recorder = env, keeper, fabric, recorder
        self._tell, self._seen = tell, seen
        for change in self._changes:
            call_at(env, self._seen_at(change), partial(self._happen, change))

    def _seen_at(self, change: Change) -> float:
        return change.at if self._seen is None else self._seen(change.at)

    def goes_live(self, change: Change) -> bool:
        """Whether a change is the first that may change routes; if so, prepare for rerouting.

        From then on, `network` routes flows around dead links.
        """
        live = (not isinstance(self.network, LiveNetwork)
                and moves_flows(self.given, change.capacity))
        if live:
            self._go_live()
        return live

    def _go_live(self) -> None:
        """Route around dead links; from then on, paths are not known beforehand."""
        assert isinstance(self.given, GraphTopology)
        self.network = live_network(self.given)
        unknown = np.ones(len(self.most_capacity), np.bool_)
        unknown[:self.given.links] = self.given.avoidable
        self.most_capacity[unknown] = math.inf

    def apply(self, change: Change) -> None:
        """Apply a change now, or when the run notices it."""
        self.most_capacity[list(change.capacity)] = np.maximum(
            self.most_capacity[list(change.capacity)], list(change.capacity.values()))
        if (at := self._seen_at(change)) > self._env.now:
            call_at(self._env, at, partial(self._happen, change))
        else:
            self._happen(change)

    def _happen(self, change: Change, _: Any = None) -> None:
        fabric, recorder, keeper = self._fabric, self._recorder, self._keeper
        if fabric is not None and recorder is not None:
            capacities = change.capacity
            if isinstance(self.network, LiveNetwork):
                capacities = self.network.with_trunks(capacities, fabric.table.capacity)
            fabric.set_capacities(capacities)
            for link, capacity in capacities.items():
                if link < self.given.links:
                    recorder.set_capacity(link, capacity)
            self._reroute(keeper, fabric)
        if change.host is not None and change.kind == "fail":
            keeper.lose(change.host, change.restart)
            if change.restart:
                # Work that ends at this instant is not lost.
                stop = partial(call_last, self._env, partial(self._stop, change.host), LOSSES)
                call_at(self._env, self._env.now, stop, LOSSES)
        if change.host is not None and change.kind == "repair":
            keeper.repair(change.host)
        if fabric is not None and self._tell is not None:
            names = self.parts.link_names
            self._tell({names[link]: capacity for link, capacity in change.capacity.items()})

    def _stop(self, host: int, _: Any) -> None:
        self._keeper.stop(host)

    def _reroute(self, keeper: JobHost, fabric: FabricProcess) -> None:
        dead = np.flatnonzero(fabric.table.capacity == 0)
        if not isinstance(self.network, LiveNetwork) or not self.network.set_dead(dead):
            return
        fabric.reroute(keeper.rerouted(), keeper.rerouted_without_process())


def problems_on(network: Topology, given: Any, cluster: Cluster | None = None
                ) -> list[tuple[str, str]]:
    """List what is wrong with an experiment's events or stragglers, as keys and messages.

    Stragglers are a mapping, events a sequence. With a cluster, hosts are its servers.
    """
    problems = []
    if isinstance(given, Mapping):
        for host, factor in given.items():
            try:
                count, numbers_of = ((network.hosts, network.hosts_at) if cluster is None else
                                     (cluster.servers, cluster.server))
                factors_of(hosts_of({host: factor}), count, numbers_of)
            except InputError as error:
                problems.append((host, str(error).removeprefix("stragglers: ")))
        return problems
    for index, event in enumerate(given):
        try:
            changes_of([event.model_dump()], cluster or network)
        except InputError as error:
            key = next(key for key in ("link", "host", "switch") if getattr(event, key) is not None)
            problems.append((f"{index}.{key}", str(error)))
    return problems


def hosts_of(stragglers: Mapping[str, float]) -> dict[Any, float]:
    """Convert the keys of `stragglers`, which are strings in a file, to numbers of hosts."""
    return {int(host) if is_digits(host) else host: factor for host, factor in stragglers.items()}


class JobsOnServers(JobHost):
    """Jobs that the engine of a cluster places.

    If hosts are GPUs, the failure of a host takes down its server. `on_fabric` is given if jobs run
    as coflows.
    """

    def __init__(self, engine: Engine, cluster: Cluster,
                 on_fabric: CoflowExecution | None = None) -> None:
        self._engine, self._cluster, self._on_fabric = engine, cluster, on_fabric
        self._lost: set[int] = set()

    def rerouted(self) -> Mapping[CoflowEvent, RoutedCoflow]:
        """Reroute the jobs on the fabric, and states in transit."""
        return {} if self._on_fabric is None else self._on_fabric.rerouted()

    def lose(self, host: int, restart: bool) -> None:
        """Give no more GPUs of a server to jobs."""
        server = self._cluster.server_at(host)
        if not self._lost_on(server):
            self._engine.lose(server)
        self._lost.add(host)

    def stop(self, host: int) -> None:
        """Stop the jobs that have GPUs of a server, and put them back into the queue."""
        self._engine.evict(self._cluster.server_at(host))

    def repair(self, host: int) -> None:
        """Give GPUs of a server to jobs again, once all of its hosts are repaired."""
        self._lost.discard(host)
        server = self._cluster.server_at(host)
        if not self._lost_on(server):
            self._engine.repair(server)

    def _lost_on(self, server: int) -> bool:
        return any(self._cluster.server_at(host) == server for host in self._lost)


def dead_links(fabric: FabricProcess) -> list[str]:
    """Describe the dead links that pending coflows need; empty if there are none."""
    table = fabric.table
    pending = table.coflows[table.coflows["open"] > 0]
    used = np.concatenate([np.empty(0, np.int64), *(
        table.loads["link"][row["load"]:][:row["loads"]] for row in pending)])
    dead = [link for link in np.unique(used).tolist() if table.capacity[link] == 0]
    names = fabric.network.link_names
    return [f"dead links: {listed(repr(names[link]) for link in dead)}"] if dead else []


def listed(names: Iterable[str]) -> str:
    """Join names for a message, shortened if there are many."""
    all_of_them = list(names)
    more = len(all_of_them) - _MOST_NAMED
    return ", ".join(all_of_them[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
