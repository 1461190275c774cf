"""Tables of the state at an instant: active coflows and flows, and loads of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.flow_table import FlowTable
from netsim.network import Topology
from netsim.recording.link_recorder import named_ends

if TYPE_CHECKING:
    import pandas as pd


def active_coflows(table: FlowTable, numbers: NDArray[np.int64], names: list[str],
                   jobs: NDArray[np.int64]) -> pd.DataFrame:
    """Tabulate the active coflows; see `netsim.Fabric.active`.

    `numbers` and `names` have the ids and the stages of the coflows in `table`, in order, and
    `jobs` has the ids of all jobs.
    """
    import pandas as pd

    table.refresh()
    rows, (_, owner) = table.coflows, table.open_flows()
    with np.errstate(invalid="ignore"):  # of one that has sent all, on a dead link
        gamma = rows["gamma"] * rows["left"]
    return _ended_left_out(table, pd.DataFrame({
        "coflow": numbers, "job": jobs[rows["job"]], "stage": names,
        "valid_s": rows["valid"].copy(),
        "start_s": np.where(rows["start"] < 0, np.nan, rows["start"]),
        "bytes": rows["total"].copy(), "left_bytes": table.bytes_left(),
        "rate": np.bincount(owner, table.flow_rates(), len(rows)),
        "flows": rows["open"].copy(), "gamma_s": gamma,
        "deadline_s": np.where(np.isfinite(rows["deadline"]), rows["deadline"], np.nan)}))


def _ended_left_out(table: FlowTable, frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out coflows that have sent all bytes, which is only noticed at the next observation."""
    return frame[table.coflows["open"] > 0].reset_index(drop=True)


def active_flows(table: FlowTable, numbers: NDArray[np.int64], jobs: NDArray[np.int64],
                 network: Topology) -> pd.DataFrame:
    """Tabulate the unfinished flows; see `netsim.Fabric.flows` and `active_coflows`."""
    import pandas as pd

    index, owner = table.open_flows()
    flows, rows = table.flows[index], table.coflows
    ends = {end: flows[end].astype("i8") for end in ("src", "dst")}
    names = {name: made(ends) for name, made in named_ends(network.host_names).items()}
    return pd.DataFrame({
        "coflow": numbers[owner], "job": jobs[rows["job"][owner]],
        "flow": flows["index"].astype("i8"), **ends,
        "bytes": flows["size"], "left_bytes": flows["remaining"] * rows["left"][owner],
        "rate": table.flow_rates(), **names})


def links_now(table: FlowTable, network: Topology) -> pd.DataFrame:
    """Tabulate the links of the network; see `netsim.Fabric.links`."""
    import pandas as pd

    index, _ = table.open_flows()
    hops, rates = table.flows["hops"][index], table.flow_rates()
    first = table.flows["hop"][index]
    at = np.repeat(first - np.cumsum(hops) + hops, hops) + np.arange(hops.sum())
    crossed = table.hops["link"][at]
    capacity = table.capacity[:network.links]
    rate, flows = (np.bincount(crossed, each, len(table.capacity))[:network.links]
                   for each in (np.repeat(rates, hops), None))
    with np.errstate(invalid="ignore"):
        used = np.where(capacity > 0, rate / capacity, np.nan)
    return pd.DataFrame({
        "link": np.array(network.link_names), "capacity": capacity.copy(), "rate": rate,
        "utilisation": used, "flows": flows})
