"""How busy the workers of an edge-cloud are, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError
from netsim.units import Quantity, parse_seconds

if TYPE_CHECKING:
    import pandas as pd

    from netsim.experiments.result import Result

__all__ = ["edge_utilisation"]


def edge_utilisation(result: Result, slot: Quantity = "1h") -> pd.DataFrame:
    """Return the share of the edge workers' time, in each slot, in which they trained.

    Parameters
    ----------
    result : Result
        Of a run on a `netsim.EdgeCloud`.
    slot : quantity
        The length of a slot; the first one begins at time 0.

    Returns
    -------
    DataFrame
        One row per slot up to the last completion: slot_s (its beginning), utilisation, from 0
        to 1.

    Raises
    ------
    InputError
        If it is a run of something else, or has no workers.
    """
    import pandas as pd

    if result.training is None or result.workers is None or not len(result.workers):
        raise InputError("edge_utilisation is of runs on a netsim.EdgeCloud with workers")
    length = parse_seconds(slot, "slot", strict=True)
    edges = np.arange(int(np.ceil(result.jobs["finish_s"].max() / length)) + 1) * length
    edge = result.training[result.training["server"] >= 0]
    # Busy time up to each instant: of those who have begun, less what lies behind it.
    start, end = np.sort(edge["start_s"].to_numpy()), np.sort(edge["end_s"].to_numpy())
    busy = _elapsed(start, edges) - _elapsed(end, edges)
    share = np.diff(busy) / (length * len(result.workers))
    return pd.DataFrame({"slot_s": edges[:-1], "utilisation": np.clip(share, 0.0, 1.0)})


def _elapsed(since: np.ndarray, instants: np.ndarray) -> np.ndarray:
    """Return the sum of what has passed at each instant since each of these before it."""
    total = np.concatenate(([0.0], np.cumsum(since)))
    count = np.searchsorted(since, instants, "right")
    passed: np.ndarray = count * instants - total[count]
    return passed
