"""Times of trace viewers: whole nanoseconds, written as microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def nanoseconds(seconds: ArrayLike) -> NDArray[np.int64]:
    """Convert times from seconds to whole nanoseconds."""
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


def microseconds(times: NDArray[np.int64]) -> list[Any]:
    """Convert whole nanoseconds to microseconds that a viewer converts back without loss.

    Perfetto multiplies by 1000 and truncates. The nearest float would sometimes give a nanosecond
    less, so that adjacent spans would overlap and be dropped; such values are rounded up.
    """
    near = times / 1000
    less = (near * 1000).astype(np.int64) < times
    found: list[Any] = np.where(less, np.nextafter(near, np.inf), near).tolist()
    return found
