"""Uneven loads of experts for jobs from traces: what all-to-alls send, and which ranks are busy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, NamedTuple

from netsim.base.arrays import Floats
from netsim.base.units import Quantity, parse_bytes
from netsim.base.values import as_whole, convert, known_names, optional
from netsim.errors import InputError, TraceError
from netsim.llm.expert_load import ExpertLoad
from netsim.llm.experts import LayerTokens, capped, spread
from netsim.traces.training.rank_trace import Exchange, RankNode, RankTrace
from netsim.traces.training.simai_file import COLUMNS, SimaiFile


class LayerLoads(NamedTuple):
    """The loads of a file of SimAI, by number of the layer and column of it (`COLUMNS`)."""

    exchanges: dict[tuple[int, int], Exchange]  #: of its all-to-alls
    work: dict[tuple[int, int], Exchange]  #: of its computations: what brings their tokens


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceExpertLoad(ExpertLoad):
    """How tokens spread over the experts of a job whose trace says only how many bytes are sent.

    All-to-alls in a group of expert parallelism carry tokens to experts and back in turn. Each
    layer has a draw of its own, or a layer of the file, which begins anew after its last one.
    SimAI's files name the passes of a layer. In other traces, the second half of an iteration's
    pairs mirrors the first, because backward passes go through the layers in reverse; with a file,
    passes through its layers take turns. Computation that waits for the first of a pair, and that
    the second waits for, is that of experts.

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
    _known: dict[tuple[int, int, int, bool], tuple[Exchange, Exchange]] = field(
        init=False, default_factory=dict, repr=False, compare=False)

    _GIVEN: ClassVar[str] = "a table such as {zipf = 1.2, experts = 64, token_bytes = 8192}"

    def __post_init__(self) -> None:
        ExpertLoad.__post_init__(self)
        convert(self, "expert_load", experts=partial(as_whole, least=1),
                token_bytes=partial(parse_bytes, strict=True))
        convert(self, "expert_load", top_k=partial(as_whole, least=1, most=self.experts))
        if self.per_iteration or self.period > 1:
            raise InputError("expert_load: a job from a trace repeats one iteration; loads of "
                             "iterations cannot differ", "expert_load")

    def on_rank(self, trace: RankTrace, group: tuple[int, ...]) -> RankTrace:
        """Return the trace of a rank with the load of its group of expert parallelism."""
        found = list(trace.nodes)
        sent = [k for k, node in enumerate(found)
                if node.collective == "all-to-all" and node.members == group]
        if not sent:
            return trace
        if len(sent) % 2:
            raise trace.refuse(f"{len(sent)} all-to-alls of the group of its experts; those with "
                               "tokens to experts and back take turns")
        place, pairs = group.index(trace.rank), len(sent) // 2
        layers = min(len(self.layers) or pairs, -(-pairs // 2))
        for pair, (there, back) in enumerate(zip(sent[::2], sent[1::2], strict=True)):
            turn, layer = divmod(pair, layers)
            backward = bool(turn % 2)
            exchanges = self._exchanges(
                layers - 1 - layer if backward else layer,
                (found[there].payload, found[back].payload), len(group), backward=backward,
                refuse=partial(_of_node, trace, found[there]))
            for at, exchange in zip((there, back), exchanges, strict=True):
                found[at] = replace(found[at], exchange=exchange)
            for at in _between(found, there, back):
                found[at] = replace(found[at], seconds=float(
                    found[at].seconds * exchanges[0].work[place]))
        return replace(trace, nodes=tuple(found))

    def on_layers(self, file: SimaiFile, ranks: int) -> LayerLoads:
        """Find the loads of a file of SimAI, in groups of so many ranks."""
        columns = [[number for number, layer in enumerate(file.layers)
                    if layer.steps[k].kind == "all-to-all" and layer.steps[k].group == "ep"]
                   for k in range(len(COLUMNS))]
        sent = columns[0]
        if not any(columns):
            raise TraceError("expert_load: there are no all-to-alls of experts (ALLTOALL_EP)",
                             file.path)
        if not sent or len(sent) % 2 or columns[1:] != [sent, []]:
            counts = ", ".join(f"{name}: {len(each)}"
                               for name, each in zip(COLUMNS, columns, strict=True))
            raise TraceError("expert_load: all-to-alls of experts (ALLTOALL_EP) must take turns, "
                             "with tokens there and back, and be those of the same layers in "
                             f"{COLUMNS[0]} and in {COLUMNS[1]}; there are, {counts}", file.path)
        if ranks == 1:
            raise TraceError("expert_load needs groups of experts, and ep is 1", file.path)
        made, before = LayerLoads({}, {}), -1
        for pair, (a, b) in enumerate(zip(sent[::2], sent[1::2], strict=True)):
            for column, (first, last) in enumerate(((a, b), (b, a))):
                made.exchanges[first, column], made.exchanges[last, column] = self._exchanges(
                    pair, (file.layers[first].steps[column].nbytes,
                           file.layers[last].steps[column].nbytes), ranks, backward=column == 1,
                    refuse=partial(_of_layer, file, first))
            work, begin = made.exchanges[a, 0], a + 1
            while begin - 1 > before and file.layers[begin - 1].name == file.layers[b].name:
                begin -= 1  # AICB writes all computation of experts into the first line of several
            made.work.update({(number, 0): work for number in range(begin, b + 1)})
            made.work.update({(number, 1): work for number in range(min(begin, a), b)})
            made.work.update({(number, 2): work for number in range(begin, b + 1)})
            before = b
        return made

    def _exchanges(self, layer: int, payloads: tuple[int, int], ranks: int, *, backward: bool,
                   refuse: Callable[[str], TraceError]) -> tuple[Exchange, Exchange]:
        """Return what ranks send to experts and back, which all ranks of groups alike share.

        The tokens count on their first way only, not on that of their gradients.
        """
        key = layer, payloads[0], ranks, backward
        if payloads[0] != payloads[1]:
            raise refuse(f"sends {payloads[0]} bytes to experts, and the all-to-all that brings "
                         f"tokens back {payloads[1]}")
        if key not in self._known:
            size = int(self.token_bytes)
            if self.experts % ranks:
                raise InputError(f"expert_load: experts, {self.experts}, is not a multiple of the "
                                 f"{ranks} ranks of a group", "expert_load")
            tokens, rest = divmod(payloads[0], size * self.top_k)
            if rest:
                raise refuse(f"sends {payloads[0]} bytes, which are not whole tokens of {size} "
                             f"bytes to {self.top_k} experts each")
            routed = spread(self._shares_of(layer), tokens, self.top_k, ranks)
            made = LayerTokens(routed, capped(routed, self.capacity_factor))
            between, work = made.between() * size, made.work()
            counts = int(routed.sum()), int(routed.sum() - made.kept.sum())
            self._known[key] = (Exchange(between, work, (0, 0) if backward else counts),
                                Exchange(between.T, work))
        return self._known[key]

    def _shares_of(self, layer: int) -> Floats:
        if layers := self.layers:
            found = self.shares(self.experts, layers[layer % len(layers)])
            if len(found) != self.experts:
                raise InputError(f"expert_load: {self.file} has {len(found)} experts, not "
                                 f"{self.experts}", "expert_load")
            return found
        return self.shares(self.experts, layer)


def _of_node(trace: RankTrace, node: RankNode, problem: str) -> TraceError:
    return trace.refuse(f"{node} {problem}")


def _of_layer(file: SimaiFile, number: int, problem: str) -> TraceError:
    return TraceError(f"layer {number} ({file.layers[number].name}) {problem}", file.path)


def load_of(given: object, seed: int) -> TraceExpertLoad | None:
    """Convert a reader's option to a load, with this seed unless it has its own."""
    load = optional(TraceExpertLoad.of)(given, "expert_load")
    return None if load is None else load.seeded(seed)


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
