"""Parameters fitted to measured times: how they are fitted, and the file that holds them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.reading import read_text

Floats = NDArray[np.float64]

#: Most steps of Gauss-Newton, which needs fewer; and the relative change that ends them.
_STEPS, _SMALL = 100, 1e-12


def fit_times(terms: ArrayLike, measured: ArrayLike) -> Floats:
    """Fit a linear model of times, by least squares of the logarithms of simulated over measured.

    An error by a factor of 2 thus weighs the same at each size, and in either direction. `terms`,
    of shape (points, parameters), are the derivatives of each time by each parameter, which must
    not be negative; neither must the fitted parameters. The method is Gauss-Newton, from the least
    squares of relative errors.
    """
    rows, times = np.asarray(terms, np.float64), np.asarray(measured, np.float64)
    if np.linalg.matrix_rank(rows / times[:, None]) < rows.shape[1]:
        raise InputError(f"{len(times)} points do not determine {rows.shape[1]} parameters")
    found = _least_squares(rows / times[:, None], np.ones(len(times)))
    for _ in range(_STEPS):
        _refuse_negative(found)
        modelled = rows @ found
        step = _least_squares(rows / modelled[:, None], np.log(times / modelled))
        found = found + step
        if (np.abs(step) <= _SMALL * found).all():
            break
    _refuse_negative(found)
    return found


def _least_squares(rows: Floats, values: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(rows, values, rcond=None)[0], np.float64)


def _refuse_negative(parameters: Floats) -> None:
    if (parameters < 0).any():
        raise InputError(f"the fit gives a negative parameter: {parameters.tolist()}")


def at_odd_positions(count: int) -> NDArray[np.bool_]:
    """Mask the first, third, ... of some points."""
    return np.arange(count) % 2 == 0


def four_figures(value: float) -> float:
    """Round a parameter to four significant digits, as in the file."""
    return float(f"{value:.4g}")


@functools.cache
def _all_fitted() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    found: Mapping[str, Mapping[str, Mapping[str, float]]] = tomllib.loads(
        read_text(Path(__file__).with_name("fitted.toml")))
    return found


def fitted(name: str) -> Mapping[str, Mapping[str, float]]:
    """The parameters of a comparison in netsim's file of parameters, by their table."""
    return _all_fitted()[name]


def fitted_text(name: str, parameters: Mapping[str, Mapping[str, float]]) -> str:
    """Write the part of a comparison in the file of parameters."""
    lines = []
    for table, values in parameters.items():
        lines += [f"[{name}.{table}]", *(f"{key} = {value!r}" for key, value in values.items()), ""]
    return "\n".join(lines)
