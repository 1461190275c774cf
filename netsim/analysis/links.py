"""How busy links were, and for how long something waited for a full one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.network import Topology
    from netsim.results.result import Result
    from netsim.workload import Workload

__all__ = ["coflows_at_bottleneck", "link_utilisation", "load_of", "makespan",
           "share_at_bottleneck", "utilised"]

#: Relative to its capacity: a link that carries this much less is full.
_FULL = 1e-6

Floats = NDArray[np.float64]


def load_of(links: pd.DataFrame) -> pd.Series:
    """Return how far links were utilised in rows of `Result.links`, from 0 to 1."""
    most = links["capacity"] * (links["end_s"] - links["start_s"])
    # The last bytes of a flow may come with less time than they take, by rounding.
    return (links["bytes"] / most.where(most > 0)).clip(upper=1).fillna(0.0)


def utilised(result: Result) -> pd.DataFrame:
    """Return the rows of `Result.links` and how far each link was utilised in them.

    Returns
    -------
    DataFrame
        `Result.links` and the columns ``seconds``, the length of the interval, and ``load``,
        from 0 to 1: the part of the capacity that the link then had that it carried.

    Raises
    ------
    InputError
        If links were not recorded.
    """
    links = result.links.copy()
    links["seconds"] = links["end_s"] - links["start_s"]
    links["load"] = load_of(links)
    return links


def link_utilisation(result: Result) -> pd.DataFrame:
    """Return how far, and for how long, each link was used.

    Times are shares of the makespan, from the first arrival to the last completion, or to
    where the run was stopped. Capacities are those that the links had in the run, events
    included.

    Parameters
    ----------
    result : Result
        With links recorded.

    Returns
    -------
    DataFrame
        One row per link, idle ones too, with the columns

        link, bytes
            Its name, and what it has carried.
        utilisation
            The mean over the makespan of what it carried over its capacity.
        busy, full
            The share of time in which it carried anything, and in which it was a bottleneck:
            all that it could carry, but for 1e-6 of it.
        peak
            The largest part of its capacity that it carried.

    Raises
    ------
    InputError
        If links were not recorded.

    Examples
    --------
    >>> import netsim
    >>> result = netsim.simulate("parrot-fig2", "parrot-fig2", record=["links"])
    >>> netsim.link_utilisation(result).round(3)
            link       bytes  utilisation   busy   full  peak
    0   egress-0  28000000.0        1.000  1.000  1.000   1.0
    1   egress-1  22000000.0        0.786  0.786  0.786   1.0
    2  ingress-0  25000000.0        0.893  1.000  0.786   1.0
    3  ingress-1  25000000.0        0.893  1.000  0.786   1.0
    """
    links = utilised(result)
    links["carried"] = links["load"] * links["seconds"]
    links["full"] = links["seconds"].where(links["load"] >= 1 - _FULL, 0.0)
    grouped = links.groupby("link", observed=False)
    sums = grouped[["bytes", "carried", "seconds", "full"]].sum()
    span = makespan(result)
    return pd.DataFrame({
        "link": sums.index.astype(str), "bytes": sums["bytes"].to_numpy(),
        "utilisation": sums["carried"].to_numpy() / span,
        "busy": sums["seconds"].to_numpy() / span, "full": sums["full"].to_numpy() / span,
        "peak": grouped["load"].max().fillna(0.0).to_numpy()})


def share_at_bottleneck(result: Result) -> float:
    """Return the share of the makespan in which at least one link was full.

    Parameters
    ----------
    result : Result
        With links recorded.

    Raises
    ------
    InputError
        If links were not recorded.
    """
    full = _full(utilised(result))
    return _covered(full["start_s"].to_numpy(), full["end_s"].to_numpy()) / makespan(result)


def coflows_at_bottleneck(result: Result, network: Topology | str | Path,
                          workload: Workload | str | Path) -> pd.DataFrame:
    """Return the completed coflows with the share of their time at a bottleneck.

    That is the share of a coflow's life, from when it was valid to its finish, in which at least
    one of the links that its flows cross was full, with whosever bytes: in the rest nothing
    but the policy kept all its flows from being faster. A link counts throughout, also once
    the coflow's own flows on it have ended.

    Parameters
    ----------
    result : Result
        With coflows and links recorded.
    network, workload
        What was simulated: they say which links a coflow crosses.

    Returns
    -------
    DataFrame
        `Result.coflows` and the column ``at_bottleneck``; NaN for a coflow that took no time.

    Raises
    ------
    InputError
        If coflows or links were not recorded, or the coflows are not those of the workload.
    """
    from netsim.analysis.emitted import emitted

    coflows, shares = result.coflows, np.empty(len(result.coflows))
    full = _full(utilised(result))
    spells = {link: _spells(rows) for link, rows in full.groupby(full["link"].cat.codes)}
    crossed = {(each.job, each.iteration, each.stage): each.demand.loads["link"].tolist()
               for each in emitted(network, workload, result.run["seed"])}
    columns = [coflows[name].tolist() for name in ("job", "iteration", "stage", "valid_s",
                                                   "finish_s")]
    for row, (job, iteration, stage, valid, finish) in enumerate(zip(*columns, strict=True)):
        if (job, iteration, stage) not in crossed:
            raise InputError(f"the result has a coflow {stage!r} of job {job} in iteration "
                             f"{iteration}, and the workload has not: is it another one?")
        links = crossed[job, iteration, stage]
        shares[row] = _share([spells[link] for link in links if link in spells], valid, finish)
    return coflows.assign(at_bottleneck=shares)


def makespan(result: Result) -> float:
    """Return the seconds from the first arrival to the last completion or recorded movement."""
    jobs = result.jobs
    last = jobs["finish_s"].max() if "links" not in result.recorded or result.links.empty else (
        np.fmax(jobs["finish_s"].max(), result.links["end_s"].max()))
    span = float(last - jobs["arrival_s"].min())
    return span if span > 0 else float("nan")


def _full(links: pd.DataFrame) -> pd.DataFrame:
    return links[links["load"] >= 1 - _FULL]


def _spells(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return when a link was full, intervals that meet made one: starts and ends."""
    start, end = rows["start_s"].to_numpy(), rows["end_s"].to_numpy()
    new = np.concatenate(([True], start[1:] > end[:-1]))
    return start[new], end[np.concatenate((new[1:], [True]))]


def _share(spells: list[tuple[Floats, Floats]], start: float, end: float) -> float:
    """Return the share of an interval in which at least one link was full."""
    if not end > start:
        return float("nan")
    parts = []
    for starts, ends in spells:
        within = slice(np.searchsorted(ends, start, "right"), np.searchsorted(starts, end))
        parts.append((starts[within], ends[within]))
    if not parts:
        return 0.0
    starts, ends = (np.concatenate(each).clip(start, end) for each in zip(*parts, strict=True))
    return _covered(starts, ends) / (end - start)


def _covered(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(np.concatenate(([-np.inf], ends)))[:-1]
    return float(np.maximum(ends - np.maximum(starts, reached), 0.0).sum())
