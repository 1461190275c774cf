"""Variance decomposition of a full factorial experiment by factors and their interactions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError


def explained_variance(values: ArrayLike, factors: Sequence[str]
                       ) -> dict[tuple[str, ...], float]:
    """Split the variance of a full factorial experiment by factors and their interactions.

    Shares are the sums of squares of an analysis of variance over their total: main effects of
    single factors, effects of two factors beyond their main effects, and so on. They sum to 1, or
    to 0 if all values are equal; they are NaN if a value is. `values` has an axis for each factor.
    If values are logarithms, factors with multiplicative effects do not interact.
    """
    cube = np.asarray(values, dtype=np.float64)
    if cube.ndim != len(factors) or not cube.size:
        raise InputError("values must have an axis for each of the factors "
                         f"{', '.join(factors)}, and at least one value, not shape {cube.shape}")
    groups = [which for count in range(1, cube.ndim + 1)
              for which in combinations(range(cube.ndim), count)]
    squares = {which: _mean_square(cube, which) for which in groups}
    # With equal values, the squares are rounding errors, which must not be split.
    total = sum(squares.values()) if np.ptp(cube) else math.inf
    return {tuple(factors[axis] for axis in which): square / total
            for which, square in squares.items()}


def _mean_square(cube: NDArray[np.float64], which: Sequence[int]) -> float:
    """The mean square of the joint effect of some axes, beyond the effects of fewer of them."""
    effects = cube
    for axis in range(cube.ndim):
        mean = effects.mean(axis=axis, keepdims=True)
        effects = effects - mean if axis in which else mean
    return float((effects ** 2).mean())
