"""Fits the latency, overhead and efficiency of a network to measured times.

Of each measurement, every third size is held out: it enters no fit. To the others, parameters are
fitted by least squares of the logarithms of predicted over measured times, with less weight for
outliers. For a collective alone on the network, `_Alone` computes the times that a run would give;
flows that meet are simulated. The predictions that users see are all simulated, on the network as
it is written.
"""

from __future__ import annotations

import math
import re
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
from netsim.base.files import atomic_write
from netsim.base.lazy import pd
from netsim.errors import InputError, MissingExtraError
from netsim.jobs.patterns import make_pattern
from netsim.network import Topology
from netsim.network.files import make_network, network_description, read_network
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

#: The part of its effect that a parameter must have to itself in order to be determined.
_APART = 1e-3

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
    ptr, links = network.routes(hosts[flows.src], hosts[flows.dst], np.arange(len(flows)))
    owner = np.repeat(np.arange(len(flows)), np.diff(ptr))
    message, of_class = np.unique(flows.nbytes / messages_of(len(flows), stage.steps),
                                  return_inverse=True)
    loads = np.zeros((network.links, len(message)))
    np.add.at(loads, (links, of_class[owner]), flows.nbytes[owner] / network.capacity[links])
    rows: Floats = np.unique(np.column_stack((kind, loads))[loads.any(axis=1)], axis=0)
    hops = np.zeros((len(flows), kinds))
    np.add.at(hops, (owner, kind[links]), 1)
    steps = stage.steps or ((np.arange(len(flows)), 1),)
    return _Phase(rows[:, 1:], rows[:, 0].astype(np.int64), message,
                  sum(times for _, times in steps),
                  tuple((np.unique(hops[sent], axis=0), times) for sent, times in steps),
                  stage.continues)


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
    across = measured.per_server if measured.servers.max() > 0 else 1
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
    """Return the host of each rank: ranks of a server are GPUs of one server, in order."""
    servers, machines = measured.servers, network.gpu_servers
    if machines is None:
        hosts = np.arange(len(servers))
    else:
        place = np.array([int((servers[:k] == server).sum()) for k, server in enumerate(servers)])
        if measured.collective != "flows" and place.max() >= machines.gpus:
            raise InputError(f"{measured.source}: {place.max() + 1} ranks are on one server; those "
                             f"of network {network.name!r} have {machines.gpus} GPUs", "network")
        hosts = (np.arange(len(servers)) if measured.collective == "flows" else
                 servers * machines.gpus + place)
    if hosts.max() >= network.hosts:
        raise InputError(f"{measured.source}: {len(servers)} ranks on {servers.max() + 1} servers "
                         f"need host {hosts.max()}; network {network.name!r} has "
                         f"{network.hosts} hosts", "network")
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
    """Begin with the network's own values, and launches as long as the shortest times."""
    wire, count = network.wire, len(upto) + 1
    # Flows may be so long that their software does not show.
    seconds = min(1e-6 if each.measured.collective == "flows" else
                  float(each.measured.seconds.min()) for each in points)
    mean = np.bincount(kind, minlength=kinds)
    return _Parameters(
        np.array(upto), seconds * np.linspace(0.8, 2.0, count),
        np.ones(count),
        np.bincount(kind, wire.efficiency, kinds) / mean, wire.overhead,
        np.bincount(kind, wire.latency, kinds) / mean)


def _candidates(protocols: int, kinds: int) -> list[_Key]:
    """List all parameters in order of preference: of equal effects, the first one is fitted."""
    return [*(_Key("launch", k) for k in range(protocols)),
            *(_Key("efficiency", k) for k in reversed(range(kinds))),
            *(_Key("part", k) for k in range(protocols - 1)),
            _Key("overhead", 0), *(_Key("latency", k) for k in range(kinds))]


def _fit_all(points: Sequence[_Points], network: Topology, kind: Ints, kinds: int,
             upto: Sequence[float] = ()) -> tuple[float, float, _Parameters, list[_Key]]:
    """Fit all parameters, given the limits between protocols.

    Returns Schwarz's criterion, the cost, the parameters, and those that are determined.
    """
    candidates = _candidates(len(upto) + 1, kinds)
    fit = _Fit(points, _start(points, network, kind, kinds, upto), ())
    fit.keys = _determined(fit, candidates)
    cost, found = fit.run()
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
@dataclass(frozen=True)
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
        A row per parameter: ``parameter``, ``of`` which links or sizes, its ``value`` in seconds or
        as a fraction, and whether the data determine it (``determined``); others keep the
        network's own value.
    """

    description: Mapping[str, Any]
    rows: pd.DataFrame
    parameters: pd.DataFrame

    @cached_property
    def network(self) -> Topology:
        """The network with the fitted values."""
        options = {**self.description}
        return make_network(options.pop("kind"), **options)

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

    def write(self, path: str | Path) -> None:
        """Write the network as a TOML file that experiments can name, with the origin of values."""
        import tomli_w

        lines = [f"Fitted by netsim {__version__} to measured times; error of the held-out third: "
                 f"{self.held_out_error:.1%}.",
                 *dict.fromkeys(f"{row.file}: {row.collective} of {row.ranks} ranks by "
                                f"{row.algorithm}" for row in self.rows.itertuples()),
                 *(f"Not determined: {row.parameter} of {row.of}" for row in
                   self.parameters[~self.parameters["determined"]].itertuples())]
        text = "".join(f"# {line}\n" for line in lines)
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(text + "\n" + tomli_w.dumps(_plain(self.description)),
                                 encoding="utf-8")


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value.resolve()) if isinstance(value, Path) else value
            for name, value in options.items() if value is not None}


def _error(rows: pd.DataFrame) -> float:
    off = np.abs(np.log(rows["ratio"].to_numpy()))
    return float(np.expm1(off.mean())) if len(off) else math.nan


def _band(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    out, fitted = rows[rows["held_out"]], rows[~rows["held_out"]]
    off = np.abs(np.log(out["ratio"].to_numpy()))
    return {"sizes": name, "fitted": len(fitted), "held_out": len(out),
            "fitted_error": _error(fitted), "held_out_error": _error(out),
            "worst": float(np.expm1(off.max(initial=0.0))) if len(out) else math.nan}


def calibrate(measured: str | Path | Measurement | Iterable[str | Path | Measurement],
              network: str | Path, *, collective: str | None = None,
              algorithm: str | None = None) -> Calibration:
    """Fit the latency, overhead and efficiency of a network to measured times.

    For each kind of link, such as those between GPUs and NICs, an efficiency and a latency are
    fitted, if the data determine them; for the network, the overhead of a step, and one to three
    `netsim.network.Protocol` by the size of messages. Every third size of each measurement is held
    out. A measured collective has the ranks of a server on one server of the network, if this
    defines servers, and otherwise rank r on host r; nothing else uses the network.

    Parameters
    ----------
    measured : path, Measurement, or iterable of them
        What was measured; see `netsim.traces.measured.read_measured`.
    network : str or path
        The name or file of a network of the same shape; see `netsim.read_network`.
    collective : str, optional
        What outputs of nccl-tests are about, if they do not say so.
    algorithm : str, optional
        The algorithm of all collectives; by default the usual one, or else the first one that is
        fast enough: for an all-reduce, ring, double tree, or hierarchical with overlapping phases.
        A ring has a channel per GPU of a server.

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
    path, description = network_description(network)
    made = read_network(path)
    kinds, kind = _kinds(made)
    given = [measured] if isinstance(measured, str | Path | Measurement) else [*measured]
    found = [part for each in given for part in (
        [each] if isinstance(each, Measurement) else read_measured(each, collective=collective))]
    if not found:
        raise InputError("calibrate: there is nothing measured", "measured")
    points = [_with_algorithm(each, made, kinds, kind, algorithm) for each in found]
    upto = ([] if any(each.measured.collective == "flows" for each in points)
            else _find_limits(points, made, kind, len(kinds)))  # flows are simulated for each fit
    _, _, fitted, keys = _fit_all(points, made, kind, len(kinds), upto)
    fitted = fitted.rounded()
    options = description | _options(description, fitted, keys, kinds)
    done = make_network(options["kind"], **{name: value for name, value in options.items()
                                            if name != "kind"})
    return Calibration(options, _rows(points, done), _table(fitted, keys, kinds))


def _with_algorithm(measured: Measurement, network: Topology, kinds: Sequence[_Kind], kind: Ints,
                    algorithm: str | None) -> _Points:
    """Choose the first algorithm that is fast enough at full rates, or the fastest one."""
    hosts, held_out = _hosts(measured, network), _held_out(measured)
    if measured.collective == "flows":
        scratch = deepcopy(network)
        points = _Points(measured, hosts, "", lambda given: np.zeros(0), held_out)
        return replace(points, times=lambda given: points.simulated(
            _with_parameters(scratch, given, kinds)))
    tried: list[tuple[float, _Points]] = []
    for name in _ALGORITHMS[measured.collective] if algorithm is None else (algorithm,):
        if name == "hierarchical" and algorithm is None and (
                measured.per_server in (1, measured.ranks)):
            continue
        alone = _Alone.of(_stages(measured, name, 1.0), measured.nbytes, network, hosts, kind,
                          len(kinds))
        at_best = alone.times(_at_full_rates(len(kinds)))
        tried.append((float((at_best / measured.seconds).max()),
                      _Points(measured, hosts, name, alone.times, held_out)))
    least = min(slowest for slowest, _ in tried)
    return next(points for slowest, points in tried if slowest <= max(least, _FAST_ENOUGH))


#: How many times as long as measured the network's full rates may need, as clocks differ.
_FAST_ENOUGH = 1.02


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


def _options(description: Mapping[str, Any], fitted: _Parameters, keys: Sequence[_Key],
             kinds: Sequence[_Kind]) -> dict[str, Any]:
    """Return the options of the network that change; others keep their values."""
    options: dict[str, Any] = {"protocols": [
        {"launch": each.launch, "efficiency": each.efficiency,
         **({"upto": each.upto} if each.upto < math.inf else {})} for each in fitted.protocols]}
    for name in ("latency", "efficiency"):
        own = _by_pattern(getattr(fitted, name), kinds, [key.at for key in keys
                                                         if key.field == name])
        before = description.get(name)
        if own:
            options[name] = ({} if before is None else dict(before)
                             if isinstance(before, Mapping) else {"*": before}) | own
    if any(key.field == "overhead" for key in keys):
        options["overhead"] = fitted.overhead
    return options


def _rows(points: Sequence[_Points], network: Topology) -> pd.DataFrame:
    tables = []
    for each in points:
        given, predicted = each.measured, each.simulated(network)
        tables.append(pd.DataFrame({
            "file": given.source, "collective": given.collective, "ranks": given.ranks,
            "algorithm": each.algorithm, "bytes": given.nbytes, "measured_s": given.seconds,
            "predicted_s": predicted, "ratio": predicted / given.seconds,
            "held_out": each.held_out}))
    return pd.concat(tables, ignore_index=True)


def _table(fitted: _Parameters, keys: Sequence[_Key], kinds: Sequence[_Kind]) -> pd.DataFrame:
    """List all parameters; those that are not fitted are not determined."""
    rows = []
    for key in _candidates(len(fitted.launch), len(kinds)):
        of = {"overhead": "each step", "launch": f"protocol {key.at}",
              "part": f"protocol {key.at}"}.get(key.field) or kinds[key.at].name
        rows.append({"parameter": "efficiency" if key.field == "part" else key.field, "of": of,
                     "value": float(np.reshape(getattr(fitted, key.field), -1)[key.at]),
                     "determined": key in keys})
    return pd.DataFrame(rows)
