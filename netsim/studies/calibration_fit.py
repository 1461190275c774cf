"""Fits parameters of networks to measured times: which are determined, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from netsim.base.arrays import Floats
from netsim.studies.calibration_points import CollectivePoints, Key, Parameters, Points

#: The most protocols that are fitted: NCCL has three, and two algorithms for each.
_MOST_PROTOCOLS = 4

#: The fewest points that a protocol is fitted to; how many limits of sizes are tried.
_FEWEST, _LIMITS = 4, 24

#: Residuals (of logarithms) beyond this count less.
_OUTLIER = 0.1

#: The part of its effect that a parameter must have to itself in order to be determined; its
#: largest standard error over its value; and the least value that counts, in seconds.
_APART, _UNSURE, _SHORT = 1e-3, 0.3, 1e-9

#: Fields that are fractions, in (0, 1].
_FRACTIONS = ("part", "efficiency")

#: Where a fit begins, as `_Fit.with_values` takes it; launches begin with those of `_start`.
_BEGIN = {"efficiency": math.log(0.7), "part": math.log(0.5), "overhead": 0.1, "latency": 0.1}


class _Fit:
    """Fits parameters to points, of which some are known to be determined."""

    def __init__(self, points: Sequence[Points], start: Parameters) -> None:
        self.points, self.start, self.keys = points, start, list[Key]()
        self.measured = np.concatenate([each.measured.seconds[~each.held_out] for each in points])

    def residuals(self, given: Parameters) -> Floats:
        """Compute log(predicted / measured) of all points that are not held out."""
        times = np.concatenate([each.times(given)[~each.held_out] for each in self.points])
        found: Floats = np.log(np.maximum(times, 1e-12) / self.measured)
        return found

    def with_values(self, values: Floats, keys: Sequence[Key] | None = None) -> Parameters:
        """Return the start with other values: microseconds, and logarithms of fractions."""
        found = deepcopy(self.start)
        for (name, at), value in zip(self.keys if keys is None else keys, values, strict=True):
            getattr(found, name)[at] = math.exp(value) if name in _FRACTIONS else value * 1e-6
        return found

    def errors(self, found: Parameters) -> dict[Key, float]:
        """Estimate the standard error of each parameter."""
        scale = np.array([found[key] if key.field in _FRACTIONS else 1e-6 for key in self.keys])
        values = np.array([math.log(found[key]) if key.field in _FRACTIONS else found[key] * 1e6
                           for key in self.keys])
        base = self.residuals(found)
        step = np.maximum(np.abs(values) * 1e-4, 1e-6)
        fractions = np.array([key.field in _FRACTIONS for key in self.keys])
        step = np.where(fractions | (values >= step), step, -step)  # no time is below 0
        effects = np.column_stack([
            (base - self.residuals(self.with_values(values - step * (np.arange(len(values)) == k))))
            / step[k] for k in range(len(values))])
        free = max(len(base) - len(values), 1)
        spread = np.minimum(np.abs(base), _OUTLIER)
        errors = np.sqrt(np.diag(np.linalg.pinv(effects.T @ effects)) * (spread @ spread) / free)
        return dict(zip(self.keys, (errors * scale).tolist(), strict=True))

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


def _start(points: Sequence[Points], upto: Sequence[float]) -> Parameters:
    """Begin at full rates, with launches as long as the shortest times."""
    seconds = min(each.launch_s for each in points)
    return replace(Parameters.ideal(len(points[0].links.kinds), upto),
                   launch=seconds * np.linspace(0.8, 2.0, len(upto) + 1))


def crossed_by(points: Iterable[Points]) -> list[int]:
    """Return the kinds of links that any points cross."""
    return sorted(set[int]().union(*(each.crossed for each in points)))


def candidates_of(protocols: int, crossed: Sequence[int]) -> list[Key]:
    """List all parameters in order of preference: of equal effects, the first one is fitted."""
    return [*(Key("launch", k) for k in range(protocols)),
            *(Key("efficiency", k) for k in reversed(crossed)),
            *(Key("part", k) for k in range(protocols - 1)),
            Key("overhead", 0), *(Key("latency", k) for k in crossed)]


def fit_all(points: Sequence[Points], upto: Sequence[float] = (), final: bool = False
            ) -> tuple[float, Parameters, dict[Key, float]]:
    """Fit all parameters, given the limits between protocols.

    Returns Schwarz's criterion and the parameters. If it is the `final` fit, those of which the
    points say too little are not determined; it also returns the standard errors of the others.
    """
    fit = _Fit(points, _start(points, upto))
    fit.keys = _determined(fit, candidates_of(len(upto) + 1, crossed_by(points)))
    cost, found = fit.run()
    errors: dict[Key, float] = {}
    if final:
        fit.keys = [key for key, error in fit.errors(found).items()
                    if error <= _UNSURE * max(found[key], _SHORT)]
        if Key("launch", 0) not in fit.keys:
            fit.start.launch[0] = 0.0
        cost, found = fit.run()
        errors = fit.errors(found)
        for k in range(1, len(upto) + 1):  # one that does not show is as long as the one before
            if Key("launch", k) not in errors:
                found.launch[k] = found.launch[k - 1]
    n = len(fit.measured)
    criterion = (n * math.log(max(cost / n, 1e-12))
                 + (len(fit.keys) + len(upto)) * math.log(n))
    return criterion, found, errors


def find_limits(points: Sequence[CollectivePoints]) -> list[float]:
    """Choose the limits between protocols: add one after the other while the criterion falls.

    Each time, all limits move to where the criterion is lowest.
    """
    thin = [each.thinned() for each in points]
    sizes = np.sort(np.concatenate([each.messages for each in thin]))
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
                tried.append((fit_all(thin, upto)[0], upto))
        return min(tried)

    chosen: list[float] = []
    least = fit_all(thin)[0]
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
