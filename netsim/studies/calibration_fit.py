"""Fits parameters of networks to measured times: what is fitted, to what, and how.

`Alone` computes the times of a collective alone on a network, as a run gives them if flows spread
over all paths; flows that meet are simulated.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, NetsimWarning
from netsim.jobs.patterns import make_pattern
from netsim.network import Topology
from netsim.network.wire import Protocol, messages_of
from netsim.simulation.simulation import simulate
from netsim.traces.measured import Measurement
from netsim.workload import JobSpec, Stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The most protocols that are fitted: NCCL has three, and two algorithms for each.
_MOST_PROTOCOLS = 4

#: The fewest points that a protocol is fitted to; how many limits of sizes are tried, on how many
#: points of each measurement.
_FEWEST, _LIMITS, _ENOUGH = 4, 24, 40

#: Residuals (of logarithms) beyond this count less.
_OUTLIER = 0.1

#: The part of its effect that a parameter must have to itself in order to be determined; and the
#: largest standard error of a logarithm, or relative one of a time.
_APART, _UNSURE = 1e-3, 0.3

#: By how much measured times may be shorter than the network's full rates allow, as clocks differ;
#: which part of the points may be even shorter; and how many ECMP keys stand for all paths.
FAST_ENOUGH, MANY, KEYS = 1.02, 0.9, 16

#: Times below this, in seconds, are 0: fits end beside their bounds.
_LEAST = 1e-12


# --- what is fitted ------------------------------------------------------------------------
class LinkKind(NamedTuple):
    """Links of one kind, such as those between GPUs and the switch of their server."""

    name: str
    patterns: tuple[str, ...]  #: that match the names of these links


def kinds_of(network: Topology) -> tuple[list[LinkKind], Ints]:
    """Group links by the names of their ends, without numbers; return the kind of each link."""
    stems = [tuple(re.sub(r"[\d.]*\d", "*", end) for end in name.split("->"))
             for name in network.link_names]
    labels = [" - ".join(sorted(set(stem))) if len(stem) > 1 else "ports" for stem in stems]
    names = list(dict.fromkeys(labels))
    patterns = {name: tuple(dict.fromkeys("->".join(stem) for stem, label in
                                          zip(stems, labels, strict=True) if label == name))
                for name in names}
    return ([LinkKind(name, patterns[name]) for name in names],
            np.array([names.index(label) for label in labels]))


@dataclass(frozen=True)
class Parameters:
    """The values of all parameters, in seconds and fractions."""

    upto: Floats  #: limits of the sizes of messages, between protocols
    launch: Floats  #: by protocol
    part: Floats  #: efficiency by protocol
    efficiency: Floats  #: by kind of link
    overhead: float
    latency: Floats  #: by kind of link

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols of a network."""
        limits = [*self.upto.tolist(), math.inf]
        return [Protocol(*each) for each in
                zip(self.launch.tolist(), self.part.tolist(), limits, strict=True)]

    def rounded(self) -> Parameters:
        """Round to four digits, as in files."""
        def four(values: Floats) -> Floats:
            return np.array([float(f"{value:.4g}") if value > _LEAST else 0.0 for value in values],
                            np.float64)

        return Parameters(four(self.upto), four(self.launch), four(self.part),
                          four(self.efficiency), float(four(np.array([self.overhead]))[0]),
                          four(self.latency))


class Key(NamedTuple):
    """A parameter that is fitted: a field of `Parameters`, and which of its values."""

    field: str
    at: int


# --- times of collectives ------------------------------------------------------------------
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
class Alone:
    """Computes the times of a collective alone on a network, as a run would give them."""

    phases: Sequence[_Phase]
    nbytes: Floats

    @classmethod
    def of(cls, stages: Sequence[Stage], nbytes: Floats, network: Topology, hosts: Ints,
           kind: Ints, kinds: int) -> Alone:
        """Route the flows of some stages, which are those of a size of one byte."""
        return cls([_phase(stage, network, hosts, kind, kinds) for stage in stages], nbytes)

    def times(self, given: Parameters) -> Floats:
        """Compute the times of all sizes."""
        found = np.zeros(len(self.nbytes))
        for phase in self.phases:
            size = self.nbytes[:, None] * phase.message
            if not phase.continues:
                found += given.launch[np.searchsorted(given.upto, size.max(axis=1))]
            found += phase.steps * given.overhead + sum(
                times * float((hops @ given.latency).max()) for hops, times in phase.hops)
            wire = self.nbytes[:, None] / given.part[np.searchsorted(given.upto, size)]
            found += (wire @ phase.loads.T / given.efficiency[phase.kind]).max(axis=1)
        return found


def _phase(stage: Stage, network: Topology, hosts: Ints, kind: Ints, kinds: int) -> _Phase:
    flows = stage.flows
    assert flows is not None
    message, of_class = np.unique(flows.nbytes / messages_of(len(flows), stage.steps),
                                  return_inverse=True)
    loads = np.zeros((network.links, len(message)))
    src, dst, first = hosts[flows.src], hosts[flows.dst], np.arange(len(flows))
    routes = [network.routes(src, dst, first + key * len(flows)) for key in range(KEYS)]
    for ptr, links in routes:
        owner = np.repeat(np.arange(len(flows)), np.diff(ptr))
        np.add.at(loads, (links, of_class[owner]),
                  flows.nbytes[owner] / network.capacity[links] / KEYS)
    rows: Floats = np.unique(np.column_stack((kind, loads))[loads.any(axis=1)], axis=0)
    hops = np.zeros((len(flows), kinds))
    np.add.at(hops, (owner, kind[links]), 1)
    steps = stage.steps or ((np.arange(len(flows)), 1),)
    return _Phase(rows[:, 1:], rows[:, 0].astype(np.int64), message,
                  sum(times for _, times in steps),
                  tuple((np.unique(hops[sent], axis=0), times) for sent, times in steps),
                  stage.continues, any(not np.array_equal(links, routes[0][1])
                                       for _, links in routes))


# --- the stages of a measurement -----------------------------------------------------------
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
    elif algorithm == "ring" and across > 1 and measured.collective not in ("broadcast", "reduce"):
        pattern |= {"rings": across, "group": across}
    if measured.pairs is not None:
        pattern["pairs"] = measured.pairs
    return pattern


def stages_of(measured: Measurement, algorithm: str, nbytes: float) -> tuple[Stage, ...]:
    made = make_pattern(pattern_of(measured, algorithm))
    return made.stages(measured.ranks, nbytes, np.random.default_rng(0))


def hosts_of(measured: Measurement, network: Topology) -> Ints:
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
                "servers are taken for its first hosts, in order"), stacklevel=4)
    else:
        place = np.array([int((servers[:k] == server).sum()) for k, server in enumerate(servers)])
        if measured.collective != "flows" and place.max() >= machines.gpus:
            raise InputError(f"{measured.source}: {place.max() + 1} ranks are on one server; those "
                             f"of network {network.name!r} have {machines.gpus} GPUs", "network")
        hosts = (np.arange(len(servers)) if measured.collective == "flows" else
                 servers * machines.gpus + place)
    if hosts.max() >= network.hosts:
        raise InputError(f"{measured.source}: {len(servers)} ranks on {servers.max() + 1} servers "
                         f"need {hosts.max() + 1} hosts; network {network.name!r} has "
                         f"{network.hosts}", "network")
    return hosts


#: Jobs begin so many times the longest measured time apart, so that they do not meet.
_GAP = 20


@dataclass(frozen=True)
class Points:
    """The points of a measurement, and how their times are computed for a fit."""

    measured: Measurement
    hosts: Ints
    algorithm: str
    times: Callable[[Parameters], Floats]
    held_out: NDArray[np.bool_]

    def thinned(self) -> Points:
        """Keep at most `_ENOUGH` points for the choice of limits, all those that are fitted."""
        known = np.flatnonzero(~self.held_out)
        known = known[np.argsort(self.measured.nbytes[known], kind="stable")]
        kept = known[np.unique(np.linspace(0, len(known) - 1, _ENOUGH).astype(int))]
        given, times = self.measured, self.times
        return replace(self, measured=replace(given, nbytes=given.nbytes[kept],
                                              seconds=given.seconds[kept]),
                       times=lambda parameters: times(parameters)[kept],
                       held_out=self.held_out[kept])

    def messages(self) -> Floats:
        """Return the largest message of each point."""
        if self.measured.collective == "flows":
            return self.measured.nbytes
        stages = stages_of(self.measured, self.algorithm, 1.0)
        largest = max(float((stage.flows.nbytes / messages_of(len(stage.flows), stage.steps)).max())
                      for stage in stages if stage.flows is not None)
        return self.measured.nbytes * largest

    def jobs(self, first: int, begin_s: float) -> list[JobSpec]:
        """Make a job per point, one after the other but for flows, from an instant on."""
        given = self.measured
        if given.begin_s is not None and given.pairs is not None:
            return [JobSpec(first + k, begin_s + begin, hosts=self.hosts[list(pair)].tolist(),
                            stages=[Stage("flow", [(0, 1, nbytes)])])
                    for k, (begin, pair, nbytes) in enumerate(
                        zip(given.begin_s, given.pairs, given.nbytes, strict=True))]
        apart = _GAP * float(given.seconds.max())
        return [JobSpec(first + k, begin_s + k * apart, hosts=self.hosts.tolist(),
                        stages=stages_of(given, self.algorithm, nbytes))
                for k, nbytes in enumerate(given.nbytes.tolist())]

    def simulated(self, network: Topology) -> Floats:
        """Simulate all points, on an otherwise empty network."""
        done = simulate(network, self.jobs(0, 0.0), allocator="maxmin", record=("jobs",))
        return done.jobs.sort_values("job")["jct_s"].to_numpy(np.float64)


def held_out_of(measured: Measurement) -> NDArray[np.bool_]:
    """Mask every third size."""
    _, place = np.unique(measured.nbytes, return_inverse=True)
    if measured.collective == "flows":
        place = np.argsort(np.argsort(measured.nbytes, kind="stable"))
    if place.max() < 2:
        raise InputError(f"{measured.source}: {measured.collective} of {measured.ranks} ranks has "
                         f"{place.max() + 1} sizes; a fit needs three, one of which is held out",
                         "measured")
    found: NDArray[np.bool_] = place % 3 == 2
    return found


# --- the fit -------------------------------------------------------------------------------
class _Fit:
    """Fits parameters to points, of which some are known to be determined."""

    def __init__(self, points: Sequence[Points], start: Parameters, keys: Sequence[Key]
                 ) -> None:
        self.points, self.start, self.keys = points, start, list(keys)
        self.measured = np.concatenate([each.measured.seconds[~each.held_out] for each in points])

    def residuals(self, given: Parameters) -> Floats:
        """Compute log(predicted / measured) of all points that are not held out."""
        times = np.concatenate([each.times(given)[~each.held_out] for each in self.points])
        found: Floats = np.log(np.maximum(times, 1e-12) / self.measured)
        return found

    def with_values(self, values: Floats, keys: Sequence[Key] | None = None) -> Parameters:
        """Return the start with other values: microseconds, and logarithms of fractions."""
        fields: dict[str, Any] = {}
        for (name, at), value in zip(self.keys if keys is None else keys, values, strict=True):
            own = np.array(fields.get(name, getattr(self.start, name)), np.float64)
            own.reshape(-1)[at] = math.exp(value) if name in _FRACTIONS else value * 1e-6
            fields[name] = float(own) if name == "overhead" else own
        return replace(self.start, **fields)

    def sure(self, found: Parameters) -> list[Key]:
        """Select the parameters whose standard errors are small."""
        values = np.array([math.log(value) if key.field in _FRACTIONS else value * 1e6
                           for key in self.keys for value in
                           [float(np.reshape(getattr(found, key.field), -1)[key.at])]])
        base = self.residuals(found)
        step = np.maximum(np.abs(values) * 1e-4, 1e-6)
        effects = np.column_stack([
            (base - self.residuals(self.with_values(values - step * (np.arange(len(values)) == k))))
            / step[k] for k in range(len(values))])
        free = max(len(base) - len(values), 1)
        spread = np.minimum(np.abs(base), _OUTLIER)
        errors = np.sqrt(np.diag(np.linalg.pinv(effects.T @ effects)) * (spread @ spread) / free)
        allowed = [_UNSURE * (1 if key.field in _FRACTIONS else max(value, 1e-3))
                   for key, value in zip(self.keys, values, strict=True)]
        return [key for key, error, most in zip(self.keys, errors, allowed, strict=True)
                if error <= most]

    def begin(self, keys: Sequence[Key]) -> Floats:
        """Return where a fit begins, as `with_values` takes it."""
        return np.array([_BEGIN[name] if name in _BEGIN else 1e6 * self.start.launch[at]
                         for name, at in keys])

    def run(self) -> tuple[float, Parameters]:
        """Return the cost of the best values, and the parameters."""
        from scipy.optimize import least_squares

        fractions = np.array([key.field in _FRACTIONS for key in self.keys])
        low, high = np.where(fractions, -12.0, 0.0), np.where(fractions, 0.0, np.inf)
        found = least_squares(lambda values: self.residuals(self.with_values(values)),
                              self.begin(self.keys),
                              bounds=(low, high), loss="soft_l1", f_scale=_OUTLIER,
                              x_scale="jac")
        return float(found.cost), self.with_values(found.x)


#: Fields that are fractions, in (0, 1].
_FRACTIONS = ("part", "efficiency")

#: Where a fit begins, as `_Fit.with_values` takes it; launches begin with those of `_start`.
_BEGIN = {"efficiency": math.log(0.7), "part": math.log(0.5), "overhead": 0.1, "latency": 0.1}


def _determined(fit: _Fit, candidates: Sequence[Key]) -> list[Key]:
    """Select the parameters whose effect on the points is not that of those before them."""
    values = fit.begin(candidates)
    at = fit.with_values(values, candidates)
    base = fit.residuals(at)
    chosen: list[Key] = []
    basis: list[Floats] = []
    for k, key in enumerate(candidates):
        moved = values.copy()
        moved[k] -= 1e-3  # of links with equal loads, the slowest counts
        effect = (base - fit.residuals(fit.with_values(moved, candidates))) * 1e3
        own = effect - sum((float(each @ effect) * each for each in basis),
                           start=np.zeros(len(effect)))
        size = float(np.linalg.norm(own))
        if size > _APART * float(np.linalg.norm(effect)):
            basis.append(own / size)
            if size > _APART * math.sqrt(len(own)):
                chosen.append(key)
    return chosen


def _start(points: Sequence[Points], network: Topology, kind: Ints, kinds: int,
           upto: Sequence[float]) -> Parameters:
    """Begin with the values of the network, and launches as long as the shortest times."""
    wire, count = network.wire, len(upto) + 1
    # Flows may be so long that their software does not show.
    seconds = min(1e-6 if each.measured.collective == "flows" else
                  float(each.measured.seconds[~each.held_out].min()) for each in points)
    mean = np.bincount(kind, minlength=kinds)
    return Parameters(
        np.array(upto), seconds * np.linspace(0.8, 2.0, count), np.ones(count),
        np.bincount(kind, wire.efficiency, kinds) / mean, wire.overhead,
        np.bincount(kind, wire.latency, kinds) / mean)


def candidates_of(protocols: int, kinds: int) -> list[Key]:
    """List all parameters in order of preference: of equal effects, the first one is fitted."""
    return [*(Key("launch", k) for k in range(protocols)),
            *(Key("efficiency", k) for k in reversed(range(kinds))),
            *(Key("part", k) for k in range(protocols - 1)),
            Key("overhead", 0), *(Key("latency", k) for k in range(kinds))]


def fit_all(points: Sequence[Points], network: Topology, kind: Ints, kinds: int,
            upto: Sequence[float] = (), final: bool = False
            ) -> tuple[float, Parameters, list[Key]]:
    """Fit all parameters, given the limits between protocols.

    If it is the `final` fit, those of which the points say too little are not determined. Returns
    Schwarz's criterion, the parameters, and those that are determined.
    """
    candidates = candidates_of(len(upto) + 1, kinds)
    fit = _Fit(points, _start(points, network, kind, kinds, upto), ())
    fit.keys = _determined(fit, candidates)
    cost, found = fit.run()
    if final:
        fit.keys = fit.sure(found)
        cost, found = fit.run()
        for k in range(1, len(upto) + 1):  # one that does not show is as long as the one before
            if Key("launch", k) not in fit.keys:
                found.launch[k] = found.launch[k - 1]
    n = len(fit.measured)
    criterion = (n * math.log(max(cost / n, 1e-12))
                 + (len(fit.keys) + len(upto)) * math.log(n))
    return criterion, found, fit.keys


def find_limits(points: Sequence[Points], network: Topology, kind: Ints, kinds: int
                 ) -> list[float]:
    """Choose the limits between protocols: add one after the other while the criterion falls.

    Each time, all limits move to where the criterion is lowest.
    """
    thin = [each.thinned() for each in points]
    sizes = np.sort(np.concatenate([each.messages() for each in thin]))
    between = np.unique(sizes)
    between = (between[1:] + between[:-1]) / 2
    between = between[np.unique(np.linspace(0, len(between) - 1, _LIMITS).astype(int))]

    def best_with(others: Sequence[float]) -> tuple[float, list[float]]:
        """Add the best limit to others."""
        tried = [(math.inf, [*others])]
        for limit in between.tolist():
            upto = sorted({*others, limit})
            counts = np.diff([0, *np.searchsorted(sizes, upto, "right"), len(sizes)])
            if len(upto) > len(others) and counts.min() >= _FEWEST:
                tried.append((fit_all(thin, network, kind, kinds, upto)[0], upto))
        return min(tried)

    chosen: list[float] = []
    least = fit_all(thin, network, kind, kinds)[0]
    while len(chosen) < _MOST_PROTOCOLS - 1:
        lower, upto = best_with(chosen)
        for limit in upto if len(upto) > 1 and lower < math.inf else ():
            moved = best_with([other for other in upto if other != limit])
            if moved[0] < lower:
                lower, upto = moved
        if lower >= least:
            break
        chosen, least = upto, lower
    return chosen
