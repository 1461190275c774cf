"""How much of what differs each layer explains: variance, split by the factors of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError

__all__ = ["explained_variance"]


def explained_variance(values: ArrayLike, factors: Sequence[str]
                       ) -> dict[tuple[str, ...], float]:
    """Split the variance of a full factorial experiment by factors and their interactions.

    The sums of squares of an analysis of variance, over their total: what a factor does whatever
    the others are, what two do together beyond what each does alone, and so on.

    Parameters
    ----------
    values : array_like of float, shape (levels, ...)
        One for each combination of levels, an axis for each factor. Of logarithms, factors that
        multiply do not interact.
    factors : sequence of str
        The names of the axes.

    Returns
    -------
    dict
        Tuples of factors, those of one first, to shares. They add up to 1; to 0 if all values are
        the same. NaN if a value is.

    Raises
    ------
    InputError
        If there are not as many axes as factors, or there is no value.

    Examples
    --------
    What the second factor adds depends on the first, and goes both ways.

    >>> explained_variance([[1, 3], [4, 2]], ["a", "b"])
    {('a',): 0.2, ('b',): 0.0, ('a', 'b'): 0.8}
    """
    cube = np.asarray(values, dtype=np.float64)
    if cube.ndim != len(factors) or not cube.size:
        raise InputError("values must have an axis for each of the factors "
                         f"{', '.join(factors)}, and at least one value, not shape {cube.shape}")
    groups = [which for count in range(1, cube.ndim + 1)
              for which in combinations(range(cube.ndim), count)]
    squares = {which: _mean_square(cube, which) for which in groups}
    total = sum(squares.values()) if np.ptp(cube) else math.inf  # or rounding would be split
    return {tuple(factors[axis] for axis in which): square / total
            for which, square in squares.items()}


def _mean_square(cube: NDArray[np.float64], which: Sequence[int]) -> float:
    """Return that of the effects of some axes together, beyond those of fewer of them."""
    effects = cube
    for axis in range(cube.ndim):
        mean = effects.mean(axis=axis, keepdims=True)
        effects = effects - mean if axis in which else mean
    return float((effects ** 2).mean())
