"""Uneven loads of experts for jobs from traces: what all-to-alls send, and which ranks are busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.units import Quantity, parse_bytes
from netsim.base.values import as_whole, check_options, convert, known_names, refused
from netsim.errors import InputError
from netsim.llm.expert_load import ExpertLoad
from netsim.llm.experts import LayerTokens, capped, spread
from netsim.traces.training.rank_trace import Exchange, RankNode, RankTrace


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceExpertLoad(ExpertLoad):
    """How tokens spread over the experts of a job whose trace says only how many bytes are sent.

    All-to-alls in a group of expert parallelism carry tokens to experts and back in turn. The k-th
    pair of them in an iteration has a draw of its own, or the k-th layer of the file, which begins
    anew after its last one. Computation that waits for the first of a pair, and that the second
    waits for, is that of experts.

    Parameters
    ----------
    zipf, dirichlet, file, capacity_factor, seed
        As for `netsim.llm.ExpertLoad`. Iterations do not differ.
    experts : int
        Number of experts of a layer, of the job with all its ranks.
    token_bytes : quantity
        Bytes of a token: the width of the model times those of an activation.
    top_k : int
        Number of experts per token.

    Raises
    ------
    InputError
        If values are invalid or contradict each other.
    """

    experts: int
    token_bytes: Quantity
    top_k: int = 1
    _known: dict[Any, tuple[Exchange, Exchange]] = field(
        init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        ExpertLoad.__post_init__(self)
        convert(self, "expert_load", experts=partial(as_whole, least=1),
                token_bytes=partial(parse_bytes, strict=True))
        convert(self, "expert_load", top_k=partial(as_whole, least=1, most=self.experts))
        if self.per_iteration or self.period > 1:
            raise InputError("expert_load: a job from a trace repeats one iteration; loads of "
                             "iterations cannot differ", "expert_load")

    @classmethod
    def of(cls, value: Any, what: str) -> TraceExpertLoad:
        """Convert a load, or a table of its parameters."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise refused(what, "a table such as {zipf = 1.2, experts = 64, token_bytes = 8192}",
                          value)
        check_options(cls, value, what)
        return cls(**value)

    def on_rank(self, trace: RankTrace, group: tuple[int, ...]) -> RankTrace:
        """Return the trace of a rank with the load of its group of expert parallelism."""
        found = list(trace.nodes)
        sent = [k for k, node in enumerate(found)
                if node.collective == "all-to-all" and node.members == group]
        if len(sent) % 2:
            raise trace.refuse(f"{len(sent)} all-to-alls of the group of its experts; those with "
                               "tokens to experts and back take turns")
        place = group.index(trace.rank)
        for pair, (there, back) in enumerate(zip(sent[::2], sent[1::2], strict=True)):
            exchanges = self._exchanges(trace, found[there], pair)
            for at, exchange in zip((there, back), exchanges, strict=True):
                found[at] = replace(found[at], exchange=exchange)
            for at in _between(found, there, back):
                found[at] = replace(found[at], seconds=float(
                    found[at].seconds * exchanges[0].work[place]))
        return replace(trace, nodes=tuple(found))

    def _exchanges(self, trace: RankTrace, node: RankNode, pair: int) -> tuple[Exchange, Exchange]:
        """Return what ranks send to experts and back, which all ranks of groups alike share."""
        key = pair, node.payload, len(node.members)
        if key not in self._known:
            ranks, size = len(node.members), int(self.token_bytes)
            if self.experts % ranks:
                raise InputError(f"expert_load: experts, {self.experts}, is not a multiple of the "
                                 f"{ranks} ranks of a group", "expert_load")
            tokens, rest = divmod(node.payload, size * self.top_k)
            if rest:
                raise trace.refuse(f"{node} sends {node.payload} bytes, which are not whole tokens "
                                   f"of {size} bytes to {self.top_k} experts each")
            routed = spread(self._shares_of(pair), tokens, self.top_k, ranks)
            made = LayerTokens(routed, capped(routed, self.capacity_factor))
            between = made.between() * size
            counts = int(routed.sum()), int(routed.sum() - made.kept.sum())
            work = made.work()
            self._known[key] = Exchange(between, work, counts), Exchange(between.T, work)
        return self._known[key]

    def _shares_of(self, pair: int) -> NDArray[np.float64]:
        if layers := self.layers:
            found = self.shares(self.experts, layers[pair % len(layers)])
            if len(found) != self.experts:
                raise InputError(f"expert_load: {self.file} has {len(found)} experts, not "
                                 f"{self.experts}", "expert_load")
            return found
        return self.shares(self.experts, pair)


def _between(nodes: list[RankNode], first: int, last: int) -> list[int]:
    """Find the computations that wait for one node, and that another one waits for, by place."""
    waiting, awaited = {nodes[first].id}, {*nodes[last].after}
    window = range(first + 1, last)
    for at in window:
        if waiting.intersection(nodes[at].after):
            waiting.add(nodes[at].id)
    found = []
    for at in reversed(window):
        if nodes[at].id in awaited:
            awaited.update(nodes[at].after)
            if nodes[at].id in waiting and nodes[at].kind == "compute":
                found.append(at)
    return found
