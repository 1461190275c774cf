"""Recording of links and decisions, and access to all recorded tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.base.lazy import pd
from netsim.base.values import as_choice, as_collection
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.loop import AT_DECISIONS, AT_ENDS, NEVER
from netsim.network import Topology
from netsim.results.lazy_table import Columns, LazyTable, SpilledNotes, SpillingTable
from netsim.results.tables import DTYPES, RECORDS, WITH_WIRE, link_rows

_SORT_BY = {"coflows": ("coflow", "valid_s"), "flows": ("coflow", "flow"),
            "computations": ("start_s", "job", "rank", "iteration", "finish_s", "stream")}

#: Numbers of buffered rows, and of buffered decisions, at which they are packed into arrays.
MOST_NOTED, _MOST_DECISIONS = 1 << 17, 1 << 13


class LinkRecorder:
    """Records links and decisions, if asked to; an `Observer` of the fabric.

    `record` and `beside` are names from `RECORDS`; see `Recorder`. Links of the fabric that are not
    on the network are not recorded. With `on_wire`, coflows and flows have the columns for bytes
    and times on the wire even if links have no latency, packets or overhead.
    """

    def __init__(self, record: Sequence[str], network: Topology,
                 beside: Sequence[str] = (), on_wire: bool = False) -> None:
        for name in as_collection(record, "record", str, "names"):
            as_choice(name, "record", RECORDS)
        dtypes = WITH_WIRE if on_wire or not network.wire.ideal else DTYPES
        self._rows = {name: SpillingTable(dtypes[name]) for name in RECORDS
                      if name in (*record, *beside) and name != "jobs"}
        self._pause = (AT_ENDS if "links" in record
                       else NEVER if {"decisions", "links"}.isdisjoint(self._rows)
                       else AT_DECISIONS)
        self._capacity = network.usable.copy()
        self._derived = {}
        if "flows" in self._rows:  # as a network may have to look for names
            self._derived["flows"] = named_ends(network.host_names)
        if (network.wire.efficiency < 1).any():
            self._derived["links"] = {"line_rate": partial(_line_rate, network.wire.efficiency)}
        self._decisions: list[tuple[float, int, int, int]] = []
        self._noted_by_policy: list[dict[str, float]] = []
        if "decisions" in self._rows:
            self._notes = SpilledNotes()
        self._moves: list[tuple[float, float, Floats]] = []
        self._most_moves = max(MOST_NOTED // max(network.links, 1), 1)

    @property
    def watches_fabric(self) -> bool:
        """Whether the fabric has to report events."""
        return not {"decisions", "flows", "links"}.isdisjoint(self._rows)

    @property
    def tells_coflows_at_most(self) -> bool:
        """Whether nothing but jobs and coflows is recorded."""
        return {"coflows"}.issuperset(self._rows)

    @property
    def pause(self) -> int:
        """When the event loop pauses for the recorder, as for `Observer`.

        Whenever rates change, if the user asked for links. At decisions, if only the timeline needs
        links, or if decisions are recorded. Otherwise never.
        """
        return self._pause

    @property
    def carries(self) -> bool:
        """Whether the bytes of each link are needed."""
        return "links" in self._rows

    def flows_finished(self, transfer: Any, flows: NDArray[Any]) -> None:
        """Do nothing: flows are not recorded here."""

    def decided(self, now: float, table: FlowTable,
                note: Callable[[], Mapping[str, float] | None]) -> None:
        """Record a decision and the values that the policy inferred."""
        if "decisions" in self._rows:
            self._decisions.append((now, *table.active()))
            self._noted_by_policy.append(dict(note() or {}))
            if len(self._decisions) == _MOST_DECISIONS:
                self._pack_decisions()

    def moved(self, start: float, now: float, carried: Floats) -> None:
        """Record the bytes that each link carried between two instants; the array is kept."""
        if "links" in self._rows:
            self._moves.append((start, now, carried[:len(self._capacity)]))
            if len(self._moves) == self._most_moves:
                self._pack_moves()

    def set_capacity(self, link: int, capacity: float) -> None:
        """Record the capacity of a link from now on, in bytes per second."""
        self._pack_moves()
        self._capacity[link] = capacity

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_decisions()
        self._pack_moves()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy, which shares the rows of the past."""
        self.pack()
        other = memo[id(self)] = copy(self)
        other.__dict__.update(deepcopy(self.__dict__, memo))
        return other

    def _pack_decisions(self) -> None:
        """Move buffered decisions to their table."""
        if self._decisions:
            self._rows["decisions"].extend(np.array(self._decisions, DTYPES["decisions"]))
            self._notes.extend(self._noted_by_policy)
            self._decisions, self._noted_by_policy = [], []

    def _pack_moves(self) -> None:
        """Move buffered transfers to the table of links."""
        if self._moves:
            self._rows["links"].extend(link_rows(self._moves, self._capacity))
            self._moves = []

    def tables(self, link_names: Sequence[str]) -> dict[str, LazyTable | None]:
        """Return all tables but that of jobs, by name; see `table`."""
        return {name: self.table(name, link_names) for name in RECORDS if name != "jobs"}

    def table(self, name: str, link_names: Sequence[str]) -> LazyTable | None:
        """Return a table, or None if it was not recorded; call `pack` first."""
        if name not in self._rows:
            return None
        return LazyTable(copy(self._rows[name]), _SORT_BY.get(name, ()),
                         self._conversions(name, link_names),
                         self._notes.columns() if name == "decisions" else {},
                         self._derived.get(name))

    def _conversions(self, name: str, link_names: Sequence[str]
                     ) -> dict[str, Callable[[NDArray[Any]], Any]]:
        """The functions that convert the columns of a table for users, by column."""
        return {"link": partial(categories, link_names)} if name == "links" else {}


def named_ends(host_names: Sequence[str]) -> dict[str, Callable[[Columns], Any]]:
    """Make functions that add the names of hosts to a table of flows, if hosts have names."""
    return {f"{end}_name": partial(_named, end, host_names)
            for end in ("src", "dst") if host_names}


def _named(end: str, host_names: Sequence[str], columns: Columns) -> Any:
    return categories(host_names, columns[end])


def _line_rate(efficiency: Floats, columns: Columns) -> Floats:
    """Compute the line rates of links from the capacity that flows can use."""
    rate: Floats = columns["capacity"] / efficiency[columns["link"]]
    return rate


def categories(names: Sequence[str], codes: NDArray[Any]) -> Any:
    """Make a categorical pandas column from codes and names."""
    return pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(names))
