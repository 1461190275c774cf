"""Fits the latency, overhead and efficiency of a network to measured times.

Of each measurement, every third size is held out: it enters no fit. To the others, parameters are
fitted by least squares of the logarithms of predicted over measured times, with less weight for
outliers. For a collective alone on the network, `_Alone` computes the times that a run gives, if
flows spread over all paths; flows that meet are simulated.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.base.brief import brief
from netsim.base.files import atomic_write
from netsim.base.lazy import pd
from netsim.base.units import format_size
from netsim.base.values import known_names
from netsim.errors import InputError, MissingExtraError, NetsimWarning
from netsim.jobs.patterns import make_pattern
from netsim.network import Topology
from netsim.network.files import make_network, network_description
from netsim.network.wire import Protocol, messages_of
from netsim.network.wired import wired
from netsim.simulation.simulation import simulate
from netsim.traces.measured import Measurement, read_measured
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
_FAST_ENOUGH, _MANY, _KEYS = 1.02, 0.9, 16

#: Times below this, in seconds, are 0: fits end beside their bounds.
_LEAST = 1e-12

#: Bounds of the bands of sizes in reports, in bytes.
BANDS = (2**16, 2**20, 2**26)


# --- what is fitted ------------------------------------------------------------------------
class _Kind(NamedTuple):
    """Links of one kind, such as those between GPUs and the switch of their server."""

    name: str
    patterns: tuple[str, ...]  #: that match the names of these links


def _kinds(network: Topology) -> tuple[list[_Kind], Ints]:
    """Group links by the names of their ends, without numbers; return the kind of each link."""
    stems = [tuple(re.sub(r"[\d.]*\d", "*", end) for end in name.split("->"))
             for name in network.link_names]
    labels = [" - ".join(sorted(set(stem))) if len(stem) > 1 else "ports" for stem in stems]
    names = list(dict.fromkeys(labels))
    patterns = {name: tuple(dict.fromkeys("->".join(stem) for stem, label in
                                          zip(stems, labels, strict=True) if label == name))
                for name in names}
    return ([_Kind(name, patterns[name]) for name in names],
            np.array([names.index(label) for label in labels]))


@dataclass(frozen=True)
class _Parameters:
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

    def rounded(self) -> _Parameters:
        """Round to four digits, as in files."""
        def four(values: Floats) -> Floats:
            return np.array([float(f"{value:.4g}") if value > _LEAST else 0.0 for value in values],
                            np.float64)

        return _Parameters(four(self.upto), four(self.launch), four(self.part),
                           four(self.efficiency), float(four(np.array([self.overhead]))[0]),
                           four(self.latency))


class _Key(NamedTuple):
    """A parameter that is fitted: a field of `_Parameters`, and which of its values."""

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
class _Alone:
    """Computes the times of a collective alone on a network, as a run would give them."""

    phases: Sequence[_Phase]
    nbytes: Floats

    @classmethod
    def of(cls, stages: Sequence[Stage], nbytes: Floats, network: Topology, hosts: Ints,
           kind: Ints, kinds: int) -> _Alone:
        """Route the flows of some stages, which are those of a size of one byte."""
        return cls([_phase(stage, network, hosts, kind, kinds) for stage in stages], nbytes)

    def times(self, given: _Parameters) -> Floats:
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
    routes = [network.routes(src, dst, first + key * len(flows)) for key in range(_KEYS)]
    for ptr, links in routes:
        owner = np.repeat(np.arange(len(flows)), np.diff(ptr))
        np.add.at(loads, (links, of_class[owner]),
                  flows.nbytes[owner] / network.capacity[links] / _KEYS)
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
#: The algorithms that are tried, the usual one first.
_ALGORITHMS = {"all-reduce": ("ring", "double-tree", "hierarchical"), "all-gather": ("ring",),
               "reduce-scatter": ("ring",), "broadcast": ("ring", "tree"),
               "reduce": ("ring", "tree"), "all-to-all": ("direct",), "send-recv": ("direct",),
               "barrier": ("dissemination",)}


def _pattern(measured: Measurement, algorithm: str) -> dict[str, Any]:
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


def _stages(measured: Measurement, algorithm: str, nbytes: float) -> tuple[Stage, ...]:
    made = make_pattern(_pattern(measured, algorithm))
    return made.stages(measured.ranks, nbytes, np.random.default_rng(0))


def _hosts(measured: Measurement, network: Topology) -> Ints:
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
                "servers are taken for its first hosts, in order"), stacklevel=2)
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


@dataclass(frozen=True)
class _Points:
    """The points of a measurement, and how their times are computed for a fit."""

    measured: Measurement
    hosts: Ints
    algorithm: str
    times: Callable[[_Parameters], Floats]
    held_out: NDArray[np.bool_]

    def thinned(self) -> _Points:
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
        stages = _stages(self.measured, self.algorithm, 1.0)
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
        apart = _APART_TIMES * float(given.seconds.max())
        return [JobSpec(first + k, begin_s + k * apart, hosts=self.hosts.tolist(),
                        stages=_stages(given, self.algorithm, nbytes))
                for k, nbytes in enumerate(given.nbytes.tolist())]

    def simulated(self, network: Topology) -> Floats:
        """Simulate all points, on an otherwise empty network."""
        done = simulate(network, self.jobs(0, 0.0), allocator="maxmin", record=("jobs",))
        return done.jobs.sort_values("job")["jct_s"].to_numpy(np.float64)


#: Jobs begin so many times the longest measured time apart, so that they do not meet.
_APART_TIMES = 20


def _held_out(measured: Measurement) -> NDArray[np.bool_]:
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

    def __init__(self, points: Sequence[_Points], start: _Parameters, keys: Sequence[_Key]
                 ) -> None:
        self.points, self.start, self.keys = points, start, list(keys)
        self.measured = np.concatenate([each.measured.seconds[~each.held_out] for each in points])

    def residuals(self, given: _Parameters) -> Floats:
        """Compute log(predicted / measured) of all points that are not held out."""
        times = np.concatenate([each.times(given)[~each.held_out] for each in self.points])
        found: Floats = np.log(np.maximum(times, 1e-12) / self.measured)
        return found

    def with_values(self, values: Floats, keys: Sequence[_Key] | None = None) -> _Parameters:
        """Return the start with other values: microseconds, and logarithms of fractions."""
        fields: dict[str, Any] = {}
        for (name, at), value in zip(self.keys if keys is None else keys, values, strict=True):
            own = np.array(fields.get(name, getattr(self.start, name)), np.float64)
            own.reshape(-1)[at] = math.exp(value) if name in _FRACTIONS else value * 1e-6
            fields[name] = float(own) if name == "overhead" else own
        return replace(self.start, **fields)

    def sure(self, found: _Parameters) -> list[_Key]:
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

    def begin(self, keys: Sequence[_Key]) -> Floats:
        """Return where a fit begins, as `with_values` takes it."""
        return np.array([_BEGIN[name] if name in _BEGIN else 1e6 * self.start.launch[at]
                         for name, at in keys])

    def run(self) -> tuple[float, _Parameters]:
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


def _determined(fit: _Fit, candidates: Sequence[_Key]) -> list[_Key]:
    """Select the parameters whose effect on the points is not that of those before them."""
    values = fit.begin(candidates)
    at = fit.with_values(values, candidates)
    base = fit.residuals(at)
    chosen: list[_Key] = []
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


def _start(points: Sequence[_Points], network: Topology, kind: Ints, kinds: int,
           upto: Sequence[float]) -> _Parameters:
    """Begin with the values of the network, and launches as long as the shortest times."""
    wire, count = network.wire, len(upto) + 1
    # Flows may be so long that their software does not show.
    seconds = min(1e-6 if each.measured.collective == "flows" else
                  float(each.measured.seconds[~each.held_out].min()) for each in points)
    mean = np.bincount(kind, minlength=kinds)
    return _Parameters(
        np.array(upto), seconds * np.linspace(0.8, 2.0, count), np.ones(count),
        np.bincount(kind, wire.efficiency, kinds) / mean, wire.overhead,
        np.bincount(kind, wire.latency, kinds) / mean)


def _candidates(protocols: int, kinds: int) -> list[_Key]:
    """List all parameters in order of preference: of equal effects, the first one is fitted."""
    return [*(_Key("launch", k) for k in range(protocols)),
            *(_Key("efficiency", k) for k in reversed(range(kinds))),
            *(_Key("part", k) for k in range(protocols - 1)),
            _Key("overhead", 0), *(_Key("latency", k) for k in range(kinds))]


def _fit_all(points: Sequence[_Points], network: Topology, kind: Ints, kinds: int,
             upto: Sequence[float] = (), final: bool = False
             ) -> tuple[float, float, _Parameters, list[_Key]]:
    """Fit all parameters, given the limits between protocols.

    If it is the `final` fit, those of which the points say too little are not determined. Returns
    Schwarz's criterion, the cost, the parameters, and those that are determined.
    """
    candidates = _candidates(len(upto) + 1, kinds)
    fit = _Fit(points, _start(points, network, kind, kinds, upto), ())
    fit.keys = _determined(fit, candidates)
    cost, found = fit.run()
    if final:
        fit.keys = fit.sure(found)
        cost, found = fit.run()
        for k in range(1, len(upto) + 1):  # one that does not show is as long as the one before
            if _Key("launch", k) not in fit.keys:
                found.launch[k] = found.launch[k - 1]
    n = len(fit.measured)
    criterion = (n * math.log(max(cost / n, 1e-12))
                 + (len(fit.keys) + len(upto)) * math.log(n))
    return criterion, cost, found, fit.keys


def _find_limits(points: Sequence[_Points], network: Topology, kind: Ints, kinds: int
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
                tried.append((_fit_all(thin, network, kind, kinds, upto)[0], upto))
        return min(tried)

    chosen: list[float] = []
    least = _fit_all(thin, network, kind, kinds)[0]
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


# --- calibration ---------------------------------------------------------------------------
@known_names
@dataclass(frozen=True, repr=False)
class Calibration:
    """A network that is fitted to measured times; see `calibrate`.

    Attributes
    ----------
    description : dict
        The ``kind`` of the network, and its options with the fitted values.
    rows : DataFrame
        A row per point: ``file``, ``collective``, ``ranks``, ``algorithm``, ``bytes``,
        ``measured_s``, ``predicted_s``, ``ratio`` of the latter two, and ``held_out``.
    parameters : DataFrame
        A row per parameter: ``parameter``, ``of`` which links or messages, its ``value`` in seconds
        or as a fraction, and whether the data determine it (``determined``).
    patterns : dict
        The pattern with which each collective was fitted, by its name and ranks.
    """

    description: Mapping[str, Any]
    rows: pd.DataFrame
    parameters: pd.DataFrame
    patterns: Mapping[str, Mapping[str, Any]]

    __repr__ = brief

    @cached_property
    def network(self) -> Topology:
        """The network with the fitted values."""
        return _made(self.description)

    @property
    def held_out_error(self) -> float:
        """The error of what was held out: the geometric mean of ratios, either way, less one."""
        return _error(self.rows[self.rows["held_out"]])

    @property
    def errors(self) -> pd.DataFrame:
        """Errors by bands of size, and in total, of what was fitted and held out.

        Columns: ``sizes``, ``fitted`` and ``held_out`` points, ``fitted_error``,
        ``held_out_error``, both as `held_out_error`, and ``worst``: the worst ratio of what was
        held out, either way, less one.
        """
        place = np.searchsorted(BANDS, self.rows["bytes"].to_numpy())
        names = ["up to 64 KiB", "64 KiB to 1 MiB", "1 to 64 MiB", "above 64 MiB"]
        bands = [(name, self.rows[place == k]) for k, name in enumerate(names)]
        return pd.DataFrame([_band(name, rows) for name, rows in (*bands, ("all", self.rows))
                             if len(rows)])

    def save(self, path: str | Path) -> None:
        """Write the network as a TOML file that experiments can name, with the origin of values."""
        import tomli_w

        lines = [f"Fitted by netsim {__version__} to measured times; error of the held-out third: "
                 f"{self.held_out_error:.1%}.",
                 *dict.fromkeys(self.rows["file"]),
                 *(f"{name}: {inline(pattern)}"
                   for name, pattern in self.patterns.items()),
                 *(f"Not determined: {name} of {of}" for name, of in self._left())]
        text = "".join(f"# {line}\n" for line in lines)
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(text + "\n" + tomli_w.dumps(_plain(self.description)),
                                 encoding="utf-8")

    def _left(self) -> list[tuple[str, str]]:
        left = self.parameters[~self.parameters["determined"]]
        return [*zip(left["parameter"], left["of"], strict=True)]


def inline(pattern: Mapping[str, Any]) -> str:
    """Write a pattern in one line, as in an experiment file."""
    fields = (f"{name} = {json.dumps(value)}" for name, value in pattern.items())
    return f"pattern = {{ {', '.join(fields)} }}"


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value.resolve()) if isinstance(value, Path) else value
            for name, value in options.items() if value is not None}


def _made(description: Mapping[str, Any]) -> Topology:
    options = {**description}
    return make_network(options.pop("kind"), **options)


def _error(rows: pd.DataFrame) -> float:
    off = np.abs(np.log(rows["ratio"].to_numpy()))
    return float(np.expm1(off.mean())) if len(off) else math.nan


def _band(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    out, fitted = rows[rows["held_out"]], rows[~rows["held_out"]]
    off = np.abs(np.log(out["ratio"].to_numpy()))
    return {"sizes": name, "fitted": len(fitted), "held_out": len(out),
            "fitted_error": _error(fitted), "held_out_error": _error(out),
            "worst": float(np.expm1(off.max(initial=0.0))) if len(out) else math.nan}


@known_names
def calibrate(measured: str | Path | Measurement | Iterable[str | Path | Measurement],
              network: str | Path, *, collective: str | None = None, ranks: int | None = None,
              per_server: int | None = None, algorithm: str | None = None) -> Calibration:
    """Fit the latency, overhead and efficiency of a network to measured times.

    For each kind of link that a measurement crosses, such as those between GPUs and NICs, an
    efficiency and a latency are fitted, if the data determine them; for the network, the overhead
    of a step, and one to four `netsim.network.Protocol` by the size of messages. What the data do
    not determine is 1 or 0, whatever the network says; other kinds of links keep their values.
    Efficiencies include headers of packets. Every third size of each measurement is held out. A
    measured collective has the ranks of a server on one server of the network, if this defines
    servers, and otherwise rank r on host r; nothing else uses the network.

    Parameters
    ----------
    measured : path, Measurement, or iterable of them
        What was measured; see `netsim.traces.measured.read_measured`.
    network : str or path
        The name or file of a network of the same shape; see `netsim.read_network`.
    collective, ranks, per_server
        See `netsim.traces.measured.read_measured`.
    algorithm : str, optional
        The algorithm of all collectives; by default the usual one, or else the first one that is
        fast enough: for an all-reduce, a ring per GPU of a server, a double tree, or hierarchical
        with overlapping phases.

    Raises
    ------
    TraceError
        If a file cannot be read.
    InputError
        If the network has too few hosts or GPUs, or a measurement less than three sizes.
    MissingExtraError
        If scipy is not installed.
    """
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy", "fit")
    _, description = network_description(network)
    given = [measured] if isinstance(measured, str | Path | Measurement) else [*measured]
    found = [part for each in given for part in (
        [each] if isinstance(each, Measurement) else
        read_measured(each, collective=collective, ranks=ranks, per_server=per_server))]
    if not found:
        raise InputError("calibrate: there is nothing measured", "measured")
    for name in _REPLACED:
        description.pop(name, None)
    own = _made(description)
    kinds, kind = _kinds(own)
    crossed = sorted({int(each) for part in found for each in kind[_links_of(part, own)]})
    made = wired(deepcopy(own), latency=_by_pattern(np.zeros(len(kinds)), kinds, crossed),
                 efficiency=_by_pattern(np.ones(len(kinds)), kinds, crossed))
    points = [_with_algorithm(each, made, kinds, kind, algorithm) for each in found]
    upto = ([] if any(each.measured.collective == "flows" for each in points)
            else _find_limits(points, made, kind, len(kinds)))  # flows are simulated for each fit
    _, _, fitted, keys = _fit_all(points, made, kind, len(kinds), upto, final=True)
    fitted = fitted.rounded()
    options = description | _options(description, own, fitted, keys, kinds, kind, crossed)
    return Calibration(options, _rows(points, fitted), _table(fitted, keys, kinds, crossed), {
        f"{each.measured.collective} of {each.measured.ranks} ranks":
            _pattern(each.measured, each.algorithm) for each in points if each.algorithm})


#: Options of a network that are fitted as a whole, or that an efficiency includes.
_REPLACED = ("overhead", "protocols", "packet", "profile")


def _links_of(measured: Measurement, network: Topology) -> Ints:
    """Return the links that ranks of a measurement may cross."""
    hosts = _hosts(measured, network)
    if measured.collective == "flows" and measured.pairs is not None:
        src, dst = hosts[np.array(measured.pairs).T]
    else:
        src, dst = (hosts[ends] for ends in np.nonzero(~np.eye(len(hosts), dtype=np.bool_)))
    return np.unique(np.concatenate([network.routes(src, dst, np.full(len(src), key))[1]
                                     for key in range(_KEYS)]))


def _with_algorithm(measured: Measurement, network: Topology, kinds: Sequence[_Kind], kind: Ints,
                    algorithm: str | None) -> _Points:
    """Choose the first algorithm that is fast enough at full rates, or the fastest one."""
    hosts, held_out = _hosts(measured, network), _held_out(measured)
    if measured.collective == "flows":
        scratch = deepcopy(network)
        points = _Points(measured, hosts, "", lambda given: np.zeros(0), held_out)
        return replace(points, times=lambda given: points.simulated(
            _with_parameters(scratch, given, kinds)))
    tried: list[tuple[float, _Points, bool]] = []
    for name in _ALGORITHMS[measured.collective] if algorithm is None else (algorithm,):
        if name == "hierarchical" and algorithm is None and (
                measured.per_server in (1, measured.ranks)):
            continue
        alone = _Alone.of(_stages(measured, name, 1.0), measured.nbytes, network, hosts, kind,
                          len(kinds))
        at_best = alone.times(_at_full_rates(len(kinds))) / measured.seconds
        tried.append((float(np.quantile(at_best[~held_out], _MANY)),
                      _Points(measured, hosts, name, alone.times, held_out),
                      any(phase.spreads for phase in alone.phases)))
    least = min(slowest for slowest, _, _ in tried)
    points, spreads = next((points, spreads) for slowest, points, spreads in tried
                           if slowest <= max(least, _FAST_ENOUGH))
    if spreads:
        warnings.warn(NetsimWarning(
            f"network {network.name!r} has several paths for flows of this {measured.collective}: "
            "its times are predicted for flows that spread over them; in a run each flow takes "
            'one, and collisions make it slower, unless routing = "spray"'), stacklevel=3)
    if least > 1 / _MANY:
        warnings.warn(NetsimWarning(
            f"{measured.source}: {measured.collective} of {measured.ranks} ranks was measured "
            f"{least:.2g} times as fast as the rates of network {network.name!r} allow: is it of "
            "the right shape?"), stacklevel=3)
    return points


def _at_full_rates(kinds: int) -> _Parameters:
    none, one = np.zeros(1), np.ones(1)
    return _Parameters(np.zeros(0), none, one, np.ones(kinds), 0.0, np.zeros(kinds))


def _with_parameters(network: Topology, given: _Parameters, kinds: Sequence[_Kind]) -> Topology:
    return wired(network, latency=_by_pattern(given.latency, kinds),
                 efficiency=_by_pattern(given.efficiency, kinds), overhead=given.overhead,
                 protocols=given.protocols)


def _by_pattern(values: Floats, kinds: Sequence[_Kind], chosen: Iterable[int] | None = None
                ) -> dict[str, float]:
    which = range(len(kinds)) if chosen is None else chosen
    return {pattern: float(values[k]) for k in which for pattern in kinds[k].patterns}


def _options(description: Mapping[str, Any], own: Topology, fitted: _Parameters,
             keys: Sequence[_Key], kinds: Sequence[_Kind], kind: Ints, crossed: Sequence[int]
             ) -> dict[str, Any]:
    """Return the options of the network that change; those of other kinds keep their values."""
    options: dict[str, Any] = {"protocols": [
        {"launch": each.launch, "efficiency": each.efficiency,
         **({"upto": each.upto} if each.upto < math.inf else {})} for each in fitted.protocols]}
    for name in ("latency", "efficiency"):
        values, before = getattr(fitted, name), description.get(name)
        changed = [k for k in crossed if (getattr(own.wire, name)[kind == k] != values[k]).any()]
        if changed:
            options[name] = ({} if before is None else dict(before) if isinstance(before, Mapping)
                             else {"*": before}) | _by_pattern(values, kinds, changed)
    if any(key.field == "overhead" for key in keys):
        options["overhead"] = fitted.overhead
    return options


def _rows(points: Sequence[_Points], fitted: _Parameters) -> pd.DataFrame:
    tables = []
    for each in points:
        given, predicted = each.measured, each.times(fitted)
        tables.append(pd.DataFrame({
            "file": given.source, "collective": given.collective, "ranks": given.ranks,
            "algorithm": each.algorithm, "bytes": given.nbytes, "measured_s": given.seconds,
            "predicted_s": predicted, "ratio": predicted / given.seconds,
            "held_out": each.held_out}))
    return pd.concat(tables, ignore_index=True)


def _table(fitted: _Parameters, keys: Sequence[_Key], kinds: Sequence[_Kind],
           crossed: Sequence[int]) -> pd.DataFrame:
    """List all parameters of what was crossed; those that are not fitted are not determined."""
    sizes = [f"messages up to {format_size(limit)}" for limit in fitted.upto]
    sizes.append("larger messages" if sizes else "all messages")
    rows = []
    for key in _candidates(len(fitted.launch), len(kinds)):
        of_kind = key.field in ("latency", "efficiency")
        if of_kind and key.at not in crossed:
            continue
        of = (kinds[key.at].name if of_kind else "each step" if key.field == "overhead" else
              sizes[key.at])
        rows.append({"parameter": "efficiency" if key.field == "part" else key.field, "of": of,
                     "value": float(np.reshape(getattr(fitted, key.field), -1)[key.at]),
                     "determined": key in keys})
    return pd.DataFrame(rows)
