"""Fits the latency, overhead and efficiency of a network to measured times.

Of each measurement, every third size is held out: it enters no fit. To the others, parameters are
fitted by least squares of the logarithms of predicted over measured times, with less weight for
outliers; see `netsim.studies.calibration_fit`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from netsim._version import __version__
from netsim.base.brief import brief
from netsim.base.files import atomic_write
from netsim.base.lazy import pd
from netsim.base.units import format_size
from netsim.base.values import known_names
from netsim.errors import InputError, MissingExtraError
from netsim.network import Topology
from netsim.network.files import make_network, network_description
from netsim.studies.calibration_fit import candidates_of, crossed_by, find_limits, fit_all
from netsim.studies.calibration_points import (
    CollectivePoints,
    Key,
    Links,
    Parameters,
    Points,
    pattern_of,
    points_of,
)
from netsim.traces.measured import Measurement, read_measured

#: Bounds of the bands of sizes in reports, in bytes.
BANDS = (2**16, 2**20, 2**26)

#: Options of a network that are fitted as a whole, or that an efficiency includes.
_REPLACED = ("overhead", "protocols", "packet", "profile")


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
        or as a fraction, whether the data determine it (``determined``), and if so, roughly, its
        ``standard_error``.
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
    """Return options as a file has them: whole paths, and launches with their unit."""
    found = {name: str(value.resolve()) if isinstance(value, Path) else value
             for name, value in options.items() if value is not None}
    return found | {"protocols": [{**each, "launch": f"{each['launch']}s"}
                                  for each in options["protocols"]]}


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
    links = Links(_made(description))
    points = [points_of(part, links, algorithm) for part in found]
    collectives = [each for each in points if isinstance(each, CollectivePoints)]
    # Flows are simulated for each fit.
    upto = find_limits(collectives) if len(collectives) == len(points) else []
    _, fitted, errors = fit_all(points, upto, final=True)
    fitted, crossed = fitted.rounded(), crossed_by(points)
    options = description | _options(description, links, fitted, errors, crossed)
    return Calibration(
        options, _rows(points, fitted), _table(fitted, errors, links, crossed),
        {f"{each.measured.collective} of {each.measured.ranks} ranks":
         pattern_of(each.measured, each.algorithm) for each in collectives})


def _options(description: Mapping[str, Any], links: Links, fitted: Parameters,
             errors: Mapping[Key, float], crossed: Sequence[int]) -> dict[str, Any]:
    """Return the options of the network that change; those of other kinds keep their values."""
    options: dict[str, Any] = {"protocols": [
        {"launch": each.launch, "efficiency": each.efficiency,
         **({"upto": each.upto} if each.upto < math.inf else {})} for each in fitted.protocols]}
    for name in ("latency", "efficiency"):
        values, before = getattr(fitted, name), description.get(name)
        own = getattr(links.network.wire, name)
        changed = [k for k in crossed if (own[links.kind == k] != values[k]).any()]
        if changed:
            options[name] = ({} if before is None else dict(before) if isinstance(before, Mapping)
                             else {"*": before}) | links.by_pattern(values, changed)
    if Key("overhead", 0) in errors:
        options["overhead"] = float(fitted.overhead[0])
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


def _table(fitted: Parameters, errors: Mapping[Key, float], links: Links, crossed: Sequence[int]
           ) -> pd.DataFrame:
    """List all parameters of what was crossed; those that are not fitted are not determined."""
    sizes = [f"messages up to {format_size(limit)}" for limit in fitted.upto]
    sizes.append("larger messages" if sizes else "all messages")
    rows = []
    for key in candidates_of(len(fitted.launch), crossed):
        of = (links.kinds[key.at] if key.field in ("latency", "efficiency") else
              "each step" if key.field == "overhead" else sizes[key.at])
        rows.append({"parameter": "efficiency" if key.field == "part" else key.field, "of": of,
                     "value": fitted[key], "determined": key in errors,
                     "standard_error": errors.get(key, math.nan)})
    return pd.DataFrame(rows)
