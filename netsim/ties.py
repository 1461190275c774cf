"""Comparison of floats within a tolerance, so that rounding errors do not affect schedules.

Numbers that are mathematically equal differ in their last digits if they were summed in different
orders. All code that orders jobs, coflows, chunks or servers by such numbers uses these functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["EQUAL", "ROUNDING", "below", "equal", "is_now", "merge_equal", "rank", "reached"]

#: Tolerance for equality, relative to the smaller magnitude.
EQUAL = 1e-9

#: Relative error of the clock of a run, within which instants are one.
ROUNDING = 1e-12


def equal(a: Any, b: Any) -> bool:
    """Whether two numbers are equal within 1e-9 of the smaller magnitude.

    Zero and the infinities are equal to themselves only. Fractions may be compared as well.
    """
    return bool(a == b or abs(a - b) <= EQUAL * min(abs(a), abs(b)) < np.inf)


def below(a: Any, b: Any) -> bool:
    """Whether `a` is less than `b`, and not `equal` to it."""
    return bool(a < b and not equal(a, b))


def is_now(instants: Any, now: float) -> Any:
    """Whether instants are one with `now`, up to the rounding of the clock; inf and NaN are not."""
    return abs(instants - now) <= ROUNDING * now


def rank(keys: ArrayLike) -> NDArray[np.int64]:
    """Return the indices that sort keys in ascending order, where `equal` keys keep their order.

    Keys are sorted exactly. Within each run of sorted keys whose neighbours are `equal`, the given
    order is then restored. Keys should therefore be given in the order that breaks ties, such as
    (arrival, id). A run may be wider than 1e-9, so that the result is a total order, unlike sorting
    by `below`.

    >>> rank([0.3, 0.1 + 0.2, 0.2]).tolist(), rank([0.1 + 0.2, 0.3, 0.2]).tolist()
    ([2, 0, 1], [2, 0, 1])
    """
    values = np.asarray(keys, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    merged = _merge(values, order)
    return order if merged is values else np.argsort(merged, kind="stable")


def merge_equal(keys: ArrayLike) -> NDArray[np.float64]:
    """Replace each key by the least key of its run of equal keys, as `rank` defines runs.

    Keys that do not change can be merged once, and then be compared exactly.
    """
    values = np.asarray(keys, dtype=np.float64)
    return _merge(values, np.argsort(values, kind="stable"))


def _merge(values: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return `values` themselves if no run has several entries, else as `merge_equal`."""
    low, high = values[order][:-1], values[order][1:]
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf; 1e308 + 1e308
        scale = np.minimum(np.abs(low), np.abs(high))
        apart = high - low > EQUAL * np.where(np.isinf(scale), 0.0, scale)
    if np.all(apart | (low == high)):
        return values
    first = np.concatenate(([True], apart))[:len(order)]
    merged = np.empty_like(values)
    merged[order] = values[order][first][np.cumsum(first) - 1]
    return merged


def reached(amount: float, thresholds: Sequence[float], slack: float = 0.0) -> int:
    """Count the thresholds, in ascending order, that are less than an amount, or `equal` to it.

    `slack` is an additional absolute tolerance, for amounts with errors beyond rounding.
    """
    return bisect_right(thresholds, amount * (1 + EQUAL) + slack)
