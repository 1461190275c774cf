"""Utilisation of links, and the share of time for which coflows were at a bottleneck."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.lazy import pd
from netsim.base.values import known_names
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.network import Topology
    from netsim.results.result import Result
    from netsim.workload import Workload

#: Share of its capacity that a full link may leave unused, for rounding.
_FULL = 1e-6


def load_of(links: pd.DataFrame) -> pd.Series:
    """The utilisation of links in rows of `Result.links`, from 0 to 1."""
    most = links["capacity"] * (links["end_s"] - links["start_s"])
    # By rounding, the last bytes of a flow may take slightly longer than their row.
    return (links["bytes"] / most.where(most > 0)).clip(upper=1).fillna(0.0)


def utilised(result: Result) -> pd.DataFrame:
    """Add columns to `Result.links`: the length ``seconds`` of each interval, and the ``load``.

    The load is the share of the link's capacity at that time that was used, from 0 to 1.
    """
    links = result.links.copy()
    links["seconds"] = links["end_s"] - links["start_s"]
    links["load"] = load_of(links)
    return links


@known_names
def link_utilisation(result: Result) -> pd.DataFrame:
    """Return the utilisation of each link, and the shares of time in which it was busy and full.

    Shares of time are relative to the makespan: the time from the first arrival to the last
    completion, or to the end of a stopped run. Utilisation takes changes of capacity into account.

    Parameters
    ----------
    result : Result
        A result with links recorded.

    Returns
    -------
    DataFrame
        A row per link, idle ones included, with the columns

        link, bytes
            Name of the link, and the bytes that it carried.
        utilisation
            Mean over the makespan of the share of its capacity that was used.
        busy, full
            Share of time in which the link carried anything, and in which it was a bottleneck:
            it carried all of its capacity up to a share of 1e-6.
        peak
            Largest share of its capacity that was used.
        of_line_rate
            The same as `utilisation`, but relative to the capacity before efficiency is applied;
            only if some link has an efficiency below 1.

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
    links["busy"] = links["seconds"].where(links["bytes"] > 0, 0.0)  # not where it had failed
    links["full"] = links["seconds"].where(links["load"] >= 1 - _FULL, 0.0)
    grouped = links.groupby("link", observed=False)
    sums = grouped[["bytes", "carried", "busy", "full"]].sum()
    span = makespan(result)
    more = {}
    if "line_rate" in links:
        part = (grouped["capacity"].max() / grouped["line_rate"].max()).fillna(1.0)
        more["of_line_rate"] = sums["carried"].to_numpy() / span * part.to_numpy()
    return pd.DataFrame({
        "link": sums.index.astype(str), "bytes": sums["bytes"].to_numpy(),
        "utilisation": sums["carried"].to_numpy() / span,
        "busy": sums["busy"].to_numpy() / span, "full": sums["full"].to_numpy() / span,
        "peak": grouped["load"].max().fillna(0.0).to_numpy(), **more})


@known_names
def share_at_bottleneck(result: Result) -> float:
    """Return the share of the makespan in which at least one link was full.

    Parameters
    ----------
    result : Result
        A result with links recorded.

    Raises
    ------
    InputError
        If links were not recorded.
    """
    full = _full(utilised(result))
    return _covered(full["start_s"].to_numpy(), full["end_s"].to_numpy()) / makespan(result)


@known_names
def coflows_at_bottleneck(result: Result, network: Topology | str | Path,
                          workload: Workload | str | Path) -> pd.DataFrame:
    """Return the completed coflows with the share of their time at a bottleneck.

    A coflow lives from the time at which it becomes valid to its finish. It is at a bottleneck
    while at least one of the links that its flows cross is full, no matter whose bytes fill the
    link. In the rest of its life, only the policy keeps its flows from being faster. A link counts
    for the whole life of the coflow, even after the coflow's flows on this link have ended.

    Parameters
    ----------
    result : Result
        A result with coflows and links recorded.
    network, workload
        The simulated network and workload, which determine the links that a coflow crosses.

    Returns
    -------
    DataFrame
        `Result.coflows` with the additional column ``at_bottleneck``; NaN for coflows that took
        no time.

    Raises
    ------
    InputError
        If coflows or links were not recorded, or the coflows are not those of the workload.
    """
    from netsim.analysis.bounds import emitted

    coflows, shares = result.coflows, np.empty(len(result.coflows))
    full = _full(utilised(result))
    intervals = {link: _full_intervals(rows) for link, rows in full.groupby(full["link"].cat.codes)}
    crossed = {(each.job, each.iteration, each.stage): each.demand.loads["link"].tolist()
               for each in emitted(network, workload, result.run["seed"])}
    columns = [coflows[name].tolist() for name in ("job", "iteration", "stage", "valid_s",
                                                   "finish_s")]
    for row, (job, iteration, stage, valid, finish) in enumerate(zip(*columns, strict=True)):
        if (job, iteration, stage) not in crossed:
            raise InputError(f"the result has a coflow {stage!r} of job {job} in iteration "
                             f"{iteration} that the workload lacks: is it another workload?")
        links = crossed[job, iteration, stage]
        shares[row] = _share([intervals[link] for link in links if link in intervals],
                             valid, finish)
    return coflows.assign(at_bottleneck=shares)


def makespan(result: Result) -> float:
    """The seconds from the first arrival to the last completion or recorded transfer."""
    jobs = result.jobs
    last = jobs["finish_s"].max() if "links" not in result.recorded or result.links.empty else (
        np.fmax(jobs["finish_s"].max(), result.links["end_s"].max()))
    span = float(last - jobs["arrival_s"].min())
    return span if span > 0 else float("nan")


def _full(links: pd.DataFrame) -> pd.DataFrame:
    """Select the rows in which a link is full."""
    return links[links["load"] >= 1 - _FULL]


def _full_intervals(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Starts and ends of the intervals in which a link was full; adjacent intervals are merged."""
    start, end = rows["start_s"].to_numpy(), rows["end_s"].to_numpy()
    new = np.concatenate(([True], start[1:] > end[:-1]))
    return start[new], end[np.concatenate((new[1:], [True]))]


def _share(intervals: list[tuple[Floats, Floats]], start: float, end: float) -> float:
    """The share of the time from start to end in which at least one link was full."""
    if not end > start:
        return float("nan")
    parts = []
    for starts, ends in intervals:
        within = slice(np.searchsorted(ends, start, "right"), np.searchsorted(starts, end))
        parts.append((starts[within], ends[within]))
    if not parts:
        return 0.0
    starts, ends = (np.concatenate(each).clip(start, end) for each in zip(*parts, strict=True))
    return _covered(starts, ends) / (end - start)


def _covered(starts: Floats, ends: Floats) -> float:
    """The length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(np.concatenate(([-np.inf], ends)))[:-1]
    return float(np.maximum(ends - np.maximum(starts, reached), 0.0).sum())
