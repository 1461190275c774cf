"""What a policy gives to the building blocks of a view: checked before compiled code uses it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import AllocationError


def whole_numbers(values: ArrayLike) -> NDArray[np.int64]:
    """Convert an order to an array of whole numbers."""
    try:
        array = np.ascontiguousarray(values)
        with np.errstate(invalid="ignore"):  # of NaN, which is refused below
            whole = np.ascontiguousarray(array, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise AllocationError(f"an order must be whole numbers: {error}") from error
    if array.dtype.kind == "f" and not np.array_equal(array, whole):
        raise AllocationError(f"an order must be whole numbers, such as np.argsort gives, "
                              f"not {array!r}")
    return whole


def indices(values: ArrayLike, count: int) -> NDArray[np.int64]:
    """Convert an order of some of `count` coflows or flows to an array."""
    order = whole_numbers(values)
    if order.ndim != 1 or (order.size and (order.min() < 0 or order.max() >= count)):
        raise AllocationError(f"an order must have numbers from 0 to {count - 1}, such as "
                              f"np.argsort gives, not {order!r}")
    return order


def not_once(order: NDArray[np.int64]) -> str:
    """Describe an order that does not name each coflow once; empty if it does."""
    if np.array_equal(np.sort(order), np.arange(len(order))):
        return ""
    return (f"returned {order.tolist()}; an order must name each of {len(order)} coflows once, as "
            "np.argsort does")


def numbers(name: str, values: ArrayLike, count: int) -> NDArray[np.float64]:
    """Convert `count` values, called `name` in errors, to an array."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AllocationError(f"{name} must be numbers: {error}") from error
    if array.shape != (count,):
        raise AllocationError(f"{name} must be {count} numbers, not {array!r}")
    return array
