"""Measured points on a network, and how their times follow from parameters of the network.

Collectives take the times of a run in which they are alone, if flows spread over all paths; flows
that may meet are simulated.
"""

from __future__ import annotations

import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.errors import InputError, NetsimWarning
from netsim.jobs.patterns import make_pattern
from netsim.network import Topology
from netsim.network.wire import Protocol, messages_of
from netsim.network.wired import wired
from netsim.simulation.simulation import simulate
from netsim.traces.measured import Measurement
from netsim.workload import JobSpec, Stage

#: The algorithms that are tried, the usual one first. A barrier has no bytes.
ALGORITHMS = {"all-reduce": ("ring", "double-tree", "hierarchical"), "all-gather": ("ring",),
              "reduce-scatter": ("ring",), "broadcast": ("ring", "tree"),
              "reduce": ("ring", "tree"), "all-to-all": ("direct",), "send-recv": ("direct",)}

#: By how much measured times may be shorter than the network's full rates allow, as clocks differ;
#: which part of the points may be even shorter; and how many ECMP keys stand for all paths.
_FAST_ENOUGH, _MANY, _KEYS = 1.02, 0.9, 16

#: On how many points of each collective limits between protocols are tried.
_ENOUGH = 40

#: Times below this, in seconds, are 0: fits end beside their bounds.
_LEAST = 1e-12


# --- parameters, and the links that they are about -----------------------------------------
class Key(NamedTuple):
    """A parameter: a field of `Parameters`, and which of its values."""

    field: str
    at: int


@dataclass(frozen=True)
class Parameters:
    """The values of all parameters, in seconds and fractions."""

    upto: Floats  #: limits of the sizes of messages, between protocols
    launch: Floats  #: by protocol
    part: Floats  #: efficiency by protocol
    efficiency: Floats  #: by kind of link
    overhead: Floats  #: of each step, one value
    latency: Floats  #: by kind of link

    @classmethod
    def ideal(cls, kinds: int, upto: Sequence[float] = ()) -> Parameters:
        """Return full rates and no delays."""
        ways = len(upto) + 1
        return cls(np.array(upto), np.zeros(ways), np.ones(ways), np.ones(kinds),
                   np.zeros(1), np.zeros(kinds))

    def __getitem__(self, key: Key) -> float:
        return float(getattr(self, key.field)[key.at])

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols of a network."""
        limits = [*self.upto.tolist(), math.inf]
        return [Protocol(*each) for each in
                zip(self.launch.tolist(), self.part.tolist(), limits, strict=True)]

    def rounded(self) -> Parameters:
        """Round to four digits, as in files."""
        return Parameters(*(np.array([float(f"{each:.4g}") if each > _LEAST else 0.0
                                      for each in values]) for values in vars(self).values()))


class Links:
    """The links of a network by their kind, such as those between GPUs and NICs."""

    def __init__(self, network: Topology) -> None:
        self.network = network
        stems = [tuple(re.sub(r"[\d.]*\d", "*", end) for end in name.split("->"))
                 for name in network.link_names]
        labels = [" - ".join(sorted(set(stem))) if len(stem) > 1 else "ports" for stem in stems]
        self.kinds = list(dict.fromkeys(labels))
        self.kind = np.array([self.kinds.index(label) for label in labels])  # of each link
        self._patterns = dict(zip(map("->".join, stems), self.kind.tolist(), strict=True))

    def by_pattern(self, values: Floats, chosen: Iterable[int] | None = None) -> dict[str, float]:
        """Return the values of all or some kinds by patterns of the names of links."""
        which = range(len(values)) if chosen is None else chosen
        return {pattern: float(values[k]) for k in which
                for pattern, kind in self._patterns.items() if kind == k}

    def with_values(self, given: Parameters) -> Topology:
        """Set all parameters of the network, and return it."""
        return wired(self.network, latency=self.by_pattern(given.latency),
                     efficiency=self.by_pattern(given.efficiency), overhead=given.overhead[0],
                     protocols=given.protocols)

    def routes(self, src: Ints, dst: Ints) -> list[tuple[Ints, Ints]]:
        """Route flows with each of several ECMP keys, which stand for all paths."""
        first = np.arange(len(src))
        return [self.network.routes(src, dst, first + key * len(src)) for key in range(_KEYS)]


# --- points --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Points(ABC):
    """The points of a measurement: base of those of collectives, and of flows."""

    measured: Measurement
    links: Links
    held_out: Bools  #: every third size
    algorithm: str  #: of a collective, or ""

    @property
    @abstractmethod
    def crossed(self) -> set[int]:
        """The kinds of links that flows cross."""

    @property
    @abstractmethod
    def launch_s(self) -> float:
        """With which launch a fit begins."""

    @abstractmethod
    def times(self, given: Parameters) -> Floats:
        """Compute the times of all points."""


class FlowPoints(Points):
    """Flows that may meet, which are simulated on a network of their own."""

    @property
    def crossed(self) -> set[int]:
        src, dst = np.array(self.measured.pairs).T
        return {int(kind) for _, links in self.links.routes(src, dst)
                for kind in np.unique(self.links.kind[links])}

    @property
    def launch_s(self) -> float:
        return 1e-6  # flows may be so long that their software does not show

    def times(self, given: Parameters) -> Floats:
        known = self.measured
        assert known.pairs is not None
        assert known.begin_s is not None
        jobs = [JobSpec(k, begin, hosts=pair, stages=[Stage("flow", [(0, 1, nbytes)])])
                for k, (begin, pair, nbytes) in enumerate(
                    zip(known.begin_s, known.pairs, known.nbytes, strict=True))]
        done = simulate(self.links.with_values(given), jobs, allocator="maxmin", record=("jobs",))
        return done.jobs.sort_values("job")["jct_s"].to_numpy(np.float64)


class _Phase(NamedTuple):
    """A coflow of a collective, per byte of the collective's size."""

    loads: Floats  #: seconds per byte on the fullest links, by class of messages; (rows, classes)
    kind: Ints  #: of these links
    message: Floats  #: bytes of a message, by class
    steps: int
    hops: tuple[tuple[Floats, int], ...]  #: hops by kind of the paths in steps, how many steps
    continues: bool
    spreads: bool  #: over several paths


@dataclass(frozen=True)
class CollectivePoints(Points):
    """A collective alone on the network, by some algorithm."""

    phases: Sequence[_Phase]

    @property
    def crossed(self) -> set[int]:
        return {kind for phase in self.phases for kind in phase.kind.tolist()}

    @property
    def launch_s(self) -> float:
        return float(self.measured.seconds[~self.held_out].min())

    @property
    def messages(self) -> Floats:
        """The largest message of each point."""
        return self.measured.nbytes * max(float(phase.message.max()) for phase in self.phases)

    def times(self, given: Parameters) -> Floats:
        nbytes = self.measured.nbytes[:, None]
        found = np.zeros(len(nbytes))
        for phase in self.phases:
            size = nbytes * phase.message
            if not phase.continues:
                found += given.launch[np.searchsorted(given.upto, size.max(axis=1))]
            found += phase.steps * given.overhead[0] + sum(
                times * float((hops @ given.latency).max()) for hops, times in phase.hops)
            wire = nbytes / given.part[np.searchsorted(given.upto, size)]
            found += (wire @ phase.loads.T / given.efficiency[phase.kind]).max(axis=1)
        return found

    def thinned(self) -> CollectivePoints:
        """Keep some points for the choice of limits, all of them fitted."""
        known = np.flatnonzero(~self.held_out)
        known = known[np.argsort(self.measured.nbytes[known], kind="stable")]
        kept = known[np.unique(np.linspace(0, len(known) - 1, _ENOUGH).astype(int))]
        return replace(self, held_out=self.held_out[kept], measured=replace(
            self.measured, nbytes=self.measured.nbytes[kept], seconds=self.measured.seconds[kept]))


def _phase(stage: Stage, links: Links, hosts: Ints) -> _Phase:
    """Route the flows of a stage, which is that of a size of one byte."""
    flows = stage.flows
    assert flows is not None
    message, of_class = np.unique(flows.nbytes / messages_of(len(flows), stage.steps),
                                  return_inverse=True)
    loads = np.zeros((links.network.links, len(message)))
    routes = links.routes(hosts[flows.src], hosts[flows.dst])
    for ptr, path in routes:
        owner = np.repeat(np.arange(len(flows)), np.diff(ptr))
        np.add.at(loads, (path, of_class[owner]),
                  flows.nbytes[owner] / links.network.capacity[path] / len(routes))
    rows: Floats = np.unique(np.column_stack((links.kind, loads))[loads.any(axis=1)], axis=0)
    hops = np.zeros((len(flows), len(links.kinds)))
    np.add.at(hops, (owner, links.kind[path]), 1)
    steps = stage.steps or ((np.arange(len(flows)), 1),)
    return _Phase(rows[:, 1:], rows[:, 0].astype(np.int64), message,
                  sum(times for _, times in steps),
                  tuple((np.unique(hops[sent], axis=0), times) for sent, times in steps),
                  stage.continues, any(not np.array_equal(path, routes[0][1])
                                       for _, path in routes))


# --- the points of a measurement -----------------------------------------------------------
def points_of(measured: Measurement, links: Links, algorithm: str | None = None) -> Points:
    """Make the points of a measurement.

    A collective has the first algorithm that is fast enough at full rates, or the fastest one.
    """
    if measured.begin_s is not None:
        _check_hosts(measured, measured.ranks, links.network)
        place = np.argsort(np.argsort(measured.nbytes, kind="stable"))
        return FlowPoints(measured, deepcopy(links), _every_third(measured, place), "")
    if measured.collective not in ALGORITHMS:
        raise InputError(f"{measured.source}: a network cannot be fitted to times of "
                         f"{measured.collective!r}, but to those of {', '.join(ALGORITHMS)}; "
                         "a barrier has no bytes", "measured")
    held_out = _every_third(measured, np.unique(measured.nbytes, return_inverse=True)[1])
    hosts = _hosts_of(measured, links.network)
    tried: list[tuple[float, CollectivePoints]] = []
    for name in ALGORITHMS[measured.collective] if algorithm is None else (algorithm,):
        if name == "hierarchical" and algorithm is None and (
                measured.per_server in (1, measured.ranks)):
            continue
        stages = make_pattern(pattern_of(measured, name)).stages(
            measured.ranks, 1.0, np.random.default_rng(0))
        points = CollectivePoints(measured, links, held_out, name,
                                  [_phase(stage, links, hosts) for stage in stages])
        at_best = points.times(Parameters.ideal(len(links.kinds))) / measured.seconds
        tried.append((float(np.quantile(at_best[~held_out], _MANY)), points))
    least = min(slowest for slowest, _ in tried)
    points = next(points for slowest, points in tried if slowest <= max(least, _FAST_ENOUGH))
    _warn(points, least)
    return points


def pattern_of(measured: Measurement, algorithm: str) -> dict[str, Any]:
    """Describe a collective with one coflow, as NCCL pipelines its steps.

    A ring is one per GPU of a server, each leaving the server through another one.
    """
    pattern: dict[str, Any] = {"name": measured.collective, "algorithm": algorithm,
                               "form": "aggregate"}
    counts = np.bincount(measured.servers)
    across = int(counts[0]) if len(counts) > 1 and (counts == counts[0]).all() else 1
    if algorithm == "hierarchical":
        pattern |= {"group": measured.per_server, "overlap": True}
    elif algorithm == "ring" and across > 1:
        pattern |= {"rings": across, "group": across}
    if measured.pairs is not None:
        pattern["pairs"] = measured.pairs
    return pattern


def _warn(points: CollectivePoints, least: float) -> None:
    """Warn if times hold in few runs, or may be those of another network."""
    measured, network = points.measured, points.links.network
    if any(phase.spreads for phase in points.phases):
        warnings.warn(NetsimWarning(
            f"network {network.name!r} has several paths for flows of this {measured.collective}: "
            "its times are predicted for flows that spread over them; in a run each flow takes "
            'one, and collisions make it slower, unless routing = "spray"'), stacklevel=5)
    if least > 1 / _MANY:
        warnings.warn(NetsimWarning(
            f"{measured.source}: {measured.collective} of {measured.ranks} ranks was measured "
            f"{least:.2g} times as fast as the rates of network {network.name!r} allow: is it of "
            "the right shape?"), stacklevel=5)


def _hosts_of(measured: Measurement, network: Topology) -> Ints:
    """Return the host of each rank: ranks of a server are GPUs of one server, in order.

    Libraries keep the ranks of a server together, whatever their numbers.
    """
    servers, machines = measured.servers, network.gpu_servers
    if measured.pairs is None:
        servers = np.sort(servers)
    if machines is None:
        hosts = np.arange(len(servers))
        if servers.max() > 0 and measured.per_server > 1:
            warnings.warn(NetsimWarning(
                f"{measured.source}: network {network.name!r} does not say which hosts are on one "
                f"server, as a gpu-cluster does; its {len(servers)} ranks on {servers.max() + 1} "
                "servers are taken for its first hosts, in order"), stacklevel=5)
    else:
        place = np.array([int((servers[:k] == server).sum()) for k, server in enumerate(servers)])
        if place.max() >= machines.gpus:
            raise InputError(f"{measured.source}: {place.max() + 1} ranks are on one server; those "
                             f"of network {network.name!r} have {machines.gpus} GPUs", "network")
        hosts = servers * machines.gpus + place
    _check_hosts(measured, int(hosts.max()) + 1, network)
    return hosts


def _check_hosts(measured: Measurement, needed: int, network: Topology) -> None:
    if needed > network.hosts:
        raise InputError(f"{measured.source}: {measured.ranks} ranks on "
                         f"{measured.servers.max() + 1} servers need {needed} hosts; network "
                         f"{network.name!r} has {network.hosts}", "network")


def _every_third(measured: Measurement, place: Ints) -> Bools:
    """Mask every third size, given the place of each point's size among all sizes."""
    if place.max() < 2:
        raise InputError(f"{measured.source}: {measured.collective} of {measured.ranks} ranks has "
                         f"{place.max() + 1} sizes; a fit needs three, one of which is held out",
                         "measured")
    found: Bools = place % 3 == 2
    return found
