"""Fits the latency, overhead and efficiency of a network to measured times.

Of each measurement, every third size is held out: it enters no fit. To the others, parameters are
fitted by least squares of the logarithms of predicted over measured times, with less weight for
outliers; see `netsim.studies.calibration_fit`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.base.brief import brief
from netsim.base.files import atomic_write
from netsim.base.lazy import pd
from netsim.base.units import format_size
from netsim.base.values import known_names
from netsim.errors import InputError, MissingExtraError, NetsimWarning
from netsim.network import Topology
from netsim.network.files import make_network, network_description
from netsim.network.wired import wired
from netsim.studies.calibration_fit import (
    FAST_ENOUGH,
    KEYS,
    MANY,
    Alone,
    Key,
    LinkKind,
    Parameters,
    Points,
    candidates_of,
    find_limits,
    fit_all,
    held_out_of,
    hosts_of,
    kinds_of,
    pattern_of,
    stages_of,
)
from netsim.traces.measured import Measurement, read_measured

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Bounds of the bands of sizes in reports, in bytes.
BANDS = (2**16, 2**20, 2**26)

#: The algorithms that are tried, the usual one first.
_ALGORITHMS = {"all-reduce": ("ring", "double-tree", "hierarchical"), "all-gather": ("ring",),
               "reduce-scatter": ("ring",), "broadcast": ("ring", "tree"),
               "reduce": ("ring", "tree"), "all-to-all": ("direct",), "send-recv": ("direct",),
               "barrier": ("dissemination",)}


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
    kinds, kind = kinds_of(own)
    hosts = [hosts_of(part, own) for part in found]
    crossed = sorted({int(each) for part, at in zip(found, hosts, strict=True)
                      for each in kind[_links_of(part, at, own)]})
    made = wired(deepcopy(own), latency=_by_pattern(np.zeros(len(kinds)), kinds, crossed),
                 efficiency=_by_pattern(np.ones(len(kinds)), kinds, crossed))
    points = [_with_algorithm(each, at, made, kinds, kind, algorithm)
              for each, at in zip(found, hosts, strict=True)]
    upto = ([] if any(each.measured.collective == "flows" for each in points)
            else find_limits(points, made, kind, len(kinds)))  # flows are simulated for each fit
    _, fitted, keys = fit_all(points, made, kind, len(kinds), upto, final=True)
    fitted = fitted.rounded()
    options = description | _options(description, own, fitted, keys, kinds, kind, crossed)
    return Calibration(options, _rows(points, fitted), _table(fitted, keys, kinds, crossed), {
        f"{each.measured.collective} of {each.measured.ranks} ranks":
            pattern_of(each.measured, each.algorithm) for each in points if each.algorithm})


#: With how many of the next ranks each is taken to exchange bytes, to find the links in use.
_OTHERS = 64

#: Options of a network that are fitted as a whole, or that an efficiency includes.
_REPLACED = ("overhead", "protocols", "packet", "profile")


def _links_of(measured: Measurement, hosts: Ints, network: Topology) -> Ints:
    """Return the links that ranks of a measurement may cross."""
    if measured.collective == "flows" and measured.pairs is not None:
        src, dst = hosts[np.array(measured.pairs).T]
    else:
        # Kinds of links do not depend on which ranks talk to each other.
        src, dst = np.repeat(hosts, _OTHERS), np.concatenate(
            [np.roll(hosts, -step) for step in range(1, _OTHERS + 1)])
        dst = dst.reshape(_OTHERS, -1).T.ravel()
    return np.unique(np.concatenate([network.routes(src, dst, np.full(len(src), key))[1]
                                     for key in range(KEYS)]))


def _with_algorithm(measured: Measurement, hosts: Ints, network: Topology,
                    kinds: Sequence[LinkKind], kind: Ints, algorithm: str | None) -> Points:
    """Choose the first algorithm that is fast enough at full rates, or the fastest one."""
    held_out = held_out_of(measured)
    if measured.collective == "flows":
        scratch = deepcopy(network)
        points = Points(measured, hosts, "", lambda given: np.zeros(0), held_out)
        return replace(points, times=lambda given: points.simulated(
            _with_parameters(scratch, given, kinds)))
    tried: list[tuple[float, Points, bool]] = []
    for name in _ALGORITHMS[measured.collective] if algorithm is None else (algorithm,):
        if name == "hierarchical" and algorithm is None and (
                measured.per_server in (1, measured.ranks)):
            continue
        alone = Alone.of(stages_of(measured, name, 1.0), measured.nbytes, network, hosts, kind,
                         len(kinds))
        at_best = alone.times(_at_full_rates(len(kinds))) / measured.seconds
        tried.append((float(np.quantile(at_best[~held_out], MANY)),
                      Points(measured, hosts, name, alone.times, held_out),
                      any(phase.spreads for phase in alone.phases)))
    least = min(slowest for slowest, _, _ in tried)
    points, spreads = next((points, spreads) for slowest, points, spreads in tried
                           if slowest <= max(least, FAST_ENOUGH))
    if spreads:
        warnings.warn(NetsimWarning(
            f"network {network.name!r} has several paths for flows of this {measured.collective}: "
            "its times are predicted for flows that spread over them; in a run each flow takes "
            'one, and collisions make it slower, unless routing = "spray"'), stacklevel=3)
    if least > 1 / MANY:
        warnings.warn(NetsimWarning(
            f"{measured.source}: {measured.collective} of {measured.ranks} ranks was measured "
            f"{least:.2g} times as fast as the rates of network {network.name!r} allow: is it of "
            "the right shape?"), stacklevel=3)
    return points


def _at_full_rates(kinds: int) -> Parameters:
    none, one = np.zeros(1), np.ones(1)
    return Parameters(np.zeros(0), none, one, np.ones(kinds), 0.0, np.zeros(kinds))


def _with_parameters(network: Topology, given: Parameters, kinds: Sequence[LinkKind]) -> Topology:
    return wired(network, latency=_by_pattern(given.latency, kinds),
                 efficiency=_by_pattern(given.efficiency, kinds), overhead=given.overhead,
                 protocols=given.protocols)


def _by_pattern(values: Floats, kinds: Sequence[LinkKind], chosen: Iterable[int] | None = None
                ) -> dict[str, float]:
    which = range(len(kinds)) if chosen is None else chosen
    return {pattern: float(values[k]) for k in which for pattern in kinds[k].patterns}


def _options(description: Mapping[str, Any], own: Topology, fitted: Parameters,
             keys: Sequence[Key], kinds: Sequence[LinkKind], kind: Ints, crossed: Sequence[int]
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


def _rows(points: Sequence[Points], fitted: Parameters) -> pd.DataFrame:
    tables = []
    for each in points:
        given, predicted = each.measured, each.times(fitted)
        tables.append(pd.DataFrame({
            "file": given.source, "collective": given.collective, "ranks": given.ranks,
            "algorithm": each.algorithm, "bytes": given.nbytes, "measured_s": given.seconds,
            "predicted_s": predicted, "ratio": predicted / given.seconds,
            "held_out": each.held_out}))
    return pd.concat(tables, ignore_index=True)


def _table(fitted: Parameters, keys: Sequence[Key], kinds: Sequence[LinkKind],
           crossed: Sequence[int]) -> pd.DataFrame:
    """List all parameters of what was crossed; those that are not fitted are not determined."""
    sizes = [f"messages up to {format_size(limit)}" for limit in fitted.upto]
    sizes.append("larger messages" if sizes else "all messages")
    rows = []
    for key in candidates_of(len(fitted.launch), len(kinds)):
        of_kind = key.field in ("latency", "efficiency")
        if of_kind and key.at not in crossed:
            continue
        of = (kinds[key.at].name if of_kind else "each step" if key.field == "overhead" else
              sizes[key.at])
        rows.append({"parameter": "efficiency" if key.field == "part" else key.field, "of": of,
                     "value": float(np.reshape(getattr(fitted, key.field), -1)[key.at]),
                     "determined": key in keys})
    return pd.DataFrame(rows)
