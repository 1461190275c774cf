"""Recording of the coflows of a user's processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.network import Topology
from netsim.recording.link_recorder import LinkRecorder, categories
from netsim.recording.tables import DTYPES, OF_OTHERS, WITH_WIRE, Coflows, describe, packed
from netsim.results.lazy_table import LazyTable
from netsim.results.spill import SpillingTable
from netsim.scripting.coflow import Coflow

if TYPE_CHECKING:
    import pandas as pd

#: How many coflows that have ended are kept as objects at most: many make Python's garbage
#: collector slow.
_MOST_ENDED = 512


class ScriptRecorder(LinkRecorder):
    """Records coflows, flows, links and decisions, if asked to; see `LinkRecorder`."""

    def __init__(self, record: Sequence[str], network: Topology) -> None:
        super().__init__(record, network)
        self._of_coflows = DTYPES if network.wire.ideal else WITH_WIRE
        self.done = 0  #: the number of completed coflows
        self._keeps_coflows = not {"coflows", "flows"}.isdisjoint(self._rows)
        self._ended: list[tuple[Coflow, bytes]] = []
        self._sent: dict[CoflowEvent, bytes] = {}
        self._names: dict[str, int] = {}

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Keep the flows of a completed coflow until `completed` is called for it."""
        if "flows" in self._rows:
            self._sent[transfer] = flows.tobytes()

    def completed(self, coflow: Coflow) -> None:
        """Record a coflow that has completed."""
        self.done += 1
        if self._keeps_coflows:
            self._ended.append((coflow, self._sent.pop(coflow, b"")))
            if len(self._ended) == _MOST_ENDED:
                self._pack_ended()

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_ended()
        super().pack()

    def _pack_ended(self) -> None:
        """Move buffered coflows, and their flows, to their tables."""
        ended, self._ended = self._ended, []
        if ended:
            coflows = self._rows_of([coflow for coflow, _ in ended])
            if "coflows" in self._rows:
                self._rows["coflows"].extend(packed(coflows.rows, self._rows["coflows"].dtype))
            if "flows" in self._rows:
                flows = coflows.flow_rows([sent for _, sent in ended])
                self._rows["flows"].extend(packed(flows, self._rows["flows"].dtype))

    def frame_of(self, coflows: Sequence[Coflow]) -> pd.DataFrame:
        """Return a table of coflows that have not completed; unknown times are NaN."""
        rows = SpillingTable(self._of_coflows["coflows"])
        rows.extend(packed(self._rows_of(coflows).rows, rows.dtype))
        return LazyTable(rows, (), self._conversions("coflows", ())).frame()

    def other_coflows(self, coflows: Sequence[Coflow]) -> pd.DataFrame | None:
        """Return a table of cancelled coflows; None if coflows are not recorded."""
        if "coflows" not in self._rows:
            return None
        import pandas as pd

        rows = [(coflow.number, coflow.job, 0, coflow.name, coflow.valid_s, coflow.start_s,
                 coflow.ended_s, coflow.sent, "withdrawn") for coflow in coflows]
        return pd.DataFrame(rows, columns=["coflow", *OF_OTHERS]).astype(
            {"coflow": "i8", **OF_OTHERS})

    def _rows_of(self, coflows: Sequence[Coflow]) -> Coflows:
        rows = np.empty(len(coflows), WITH_WIRE["coflows"])
        rows["coflow"] = [coflow.number for coflow in coflows]
        rows["job"] = [coflow.job for coflow in coflows]
        rows["iteration"] = 0
        rows["stage"] = [self._names.setdefault(coflow.name, len(self._names))
                         for coflow in coflows]
        for name in ("valid_s", "begin_s", "start_s", "sent_s", "finish_s"):
            rows[name] = [getattr(coflow, name) for coflow in coflows]
        rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
        if len(coflows):
            describe([coflow.demand for coflow in coflows], rows)
        return Coflows(rows)

    def _conversions(self, name: str, link_names: Sequence[str]
                     ) -> dict[str, Callable[[NDArray[Any]], Any]]:
        if name != "coflows":
            return super()._conversions(name, link_names)
        return {"stage": partial(categories, list(self._names)),
                "deadline_s": lambda values: np.where(np.isfinite(values), values, np.nan)}
