"""Arrays of flows, hops and loads, in which each coflow has a segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.progress import copy_in, copy_in_place, move, reroute
from netsim.fabric.records import FLOW, HOP, LOAD
from netsim.fabric.routed_coflow import RoutedCoflow

#: How many rows each has at first.
_LEAST = 256

#: Up to this size, arrays have several times the rows in use, so that few stops are for room.
_MANY = 16384


def _size(rows: int) -> int:
    """The number of rows to allocate for this number in use."""
    return max(_LEAST, 2 * rows, min(8 * rows, _MANY))


class FlowArrays:
    """Rows of flows, hops and loads; the used ones come first."""

    def __init__(self) -> None:
        #: Of FLOW, HOP and LOAD.
        self.arrays: tuple[NDArray[Any], ...] = tuple(
            np.zeros(_LEAST, kind) for kind in (FLOW, HOP, LOAD))
        self.used = np.zeros(3, np.int64)  #: rows of each array in use

    def copied(self, *live: NDArray[Any]) -> FlowArrays:
        """Return a copy with only the segments of the coflows in `live`, in the same places.

        Unused rows are not copied. Flows keep their places because a max-min sharing refers to
        them.
        """
        other = FlowArrays()
        other.used = self.used.copy()
        other.arrays = tuple(np.zeros(len(array), array.dtype) for array in self.arrays)
        for rows in live:
            copy_in_place(rows, self.arrays, other.arrays)
        return other

    def have_room(self, wanted: Sequence[int]) -> bool:
        """Whether the arrays have room for this number of flows, hops and loads."""
        (flows, hops, loads), used = self.arrays, self.used.tolist()
        return (wanted[0] <= len(flows) - used[0] and wanted[1] <= len(hops) - used[1]
                and wanted[2] <= len(loads) - used[2])

    def make_room(self, wanted: Sequence[int], *live: NDArray[Any]) -> None:
        """Move the segments of the coflows in `live` to new arrays of at least twice the size used.

        The `wanted` flows, hops and loads, which are about to be added, count as used.
        """
        old, self.used[:] = self.arrays, 0
        self.arrays = tuple(
            np.zeros(_size(more + sum(int(rows[name].sum()) for rows in live)), array.dtype)
            for array, name, more in zip(old, ("flows", "hops", "loads"), wanted, strict=True))
        for rows in live:
            move(rows, old, self.arrays, self.used)

    def reroute(self, rows: NDArray[Any], places: NDArray[np.int64], demands: RoutedCoflow
                ) -> int:
        """Reroute some coflows; there must be room. See `kernels.progress.reroute`."""
        changed: int = reroute(rows, places, self.arrays, self.used, demands.coflows,
                               (demands.flows, demands.hops, demands.loads))
        return changed

    def copy_in(self, rows: NDArray[Any], parts: tuple[NDArray[Any], ...]) -> None:
        """Append the flows, hops and loads of some coflows; see `kernels.progress.copy_in`."""
        copy_in(self.arrays, self.used, rows, parts)


def enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a larger copy of an array; the new part takes no memory until it is used."""
    larger = np.zeros(size, array.dtype)
    larger[:len(array)] = array
    return larger
