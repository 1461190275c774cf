"""The program of a rank of a pipeline stage: its computations and messages in an iteration.

All ranks of a stage do the same, each in its own groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from netsim.llm.passes import (
    Bucket,
    Pass,
    Unit,
    buckets_of,
    cost_of,
    passes_of,
    shards_of,
    units_of,
)
from netsim.llm.setup import TrainingSetup

#: Marks of the steps of the previous iteration that later steps wait for.
_OPTIMIZER, _GATHERED = "optimizer", "gathered"


class TokensOf(NamedTuple):
    """The tokens of a layer, on their way to experts or back to the ranks that sent them."""

    layer: int
    back: bool


class RankStep(NamedTuple):
    """A step of a rank: a computation, or the rank's part in a communication."""

    stream: str  #: steps of one stream run one after the other
    kind: str  #: ``"compute"``, the name of a collective, or ``"send"``
    name: str
    seconds: float
    group: str  #: the kind of group that communicates; ``"world"`` for all ranks
    payload: int  #: bytes of the whole buffer
    after: tuple[int, ...]  #: places, in the list of steps, of those that it waits for
    after_previous: tuple[int, ...]  #: likewise, in the previous iteration
    #: Sends that it waits for: stage, and name of the step.
    receives: tuple[tuple[int, str], ...] = ()
    peer: int = -1  #: the stage that a send goes to
    #: Whose tokens decide about bytes or seconds, if experts have an uneven load.
    tokens: TokensOf | None = None


def rank_program(setup: TrainingSetup, stage: int) -> list[RankStep]:
    """Return the steps of a rank of a pipeline stage, in the order in which it issues them.

    Places of steps in the previous iteration refer to the same list.
    """
    return _ProgramBuilder(setup, stage).program()


class _ProgramBuilder:
    """Issues the steps of a rank.

    `_front` are the steps that must be complete before the rank continues. A blocking step waits
    for them and then replaces them.
    """

    def __init__(self, setup: TrainingSetup, stage: int) -> None:
        self._setup, self._stage = setup, stage
        self._steps: list[RankStep] = []
        self._front: set[int] = set()
        self._waits: set[str] = set()  # marks of the previous iteration, for the next blocking step
        self._receives: list[tuple[int, str]] = []  # for the next blocking step
        self._last: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        self._previous: dict[int, set[str]] = {}
        self._marks: dict[str, list[int]] = {}
        self._where = ""
        self._sizes = {"tp": setup.tp, "cp": setup.cp, "ep": setup.ep,
                       "dp-cp": setup.dp * setup.cp, "edp": setup.dp * setup.cp // setup.ep,
                       "world": setup.world, "embedding": setup.pp}
        self._passes = passes_of(setup, stage)
        self._chunks = [units_of(setup, chunk * setup.pp + stage) for chunk in range(setup.vpp)]
        self._uses = list(self._parts_in_order()) if setup.zero == 3 else []
        self._used = 0

    def program(self) -> list[RankStep]:
        """Return the steps of an iteration."""
        setup = self._setup
        self._waits = {_OPTIMIZER} if setup.overlap_param_gather else {_OPTIMIZER, _GATHERED}
        for use in range(min(setup.prefetch + 1, len(self._uses))):
            self._gather_use(use, (), (_OPTIMIZER,))
        for each in self._passes:
            self._pass(each)
        if not setup.overlap_grad_reduce:
            for each in self._passes:
                if self._is_last(each):
                    self._reduce_all(each)
        self._step()
        return list(self._resolved())

    def _resolved(self) -> Iterator[RankStep]:
        """Yield the steps, with the places of what they wait for in the previous iteration."""
        for place, step in enumerate(self._steps):
            marks = self._previous.get(place, set())
            previous = {k for mark in marks for k in self._marks.get(mark, ())}
            if self._firsts[step.stream] == place:
                previous.add(self._last[step.stream])
            yield step._replace(after_previous=tuple(sorted(previous)))

    # --- issuing ----------------------------------------------------------------------------

    def _issue(self, stream: str, kind: str, label: str, after: Iterable[int], *,
               seconds: float = 0.0, group: str = "", payload: int = 0, peer: int = -1,
               waits: Iterable[str] = (), receives: Iterable[tuple[int, str]] = (),
               tokens: TokensOf | None = None) -> int:
        """Issue a step that does not block, and return its place."""
        place, behind = len(self._steps), set(after)
        if stream in self._last:
            behind.add(self._last[stream])
        self._firsts.setdefault(stream, place)
        self._last[stream] = place
        self._previous[place] = set(waits)
        self._steps.append(RankStep(
            stream, kind, f"{self._where}/{label}", seconds, group, payload,
            tuple(sorted(behind)), (), tuple(receives), peer, tokens))
        return place

    def _block(self, stream: str, kind: str, label: str, *, seconds: float = 0.0, group: str = "",
               payload: int = 0, tokens: TokensOf | None = None) -> int:
        """Issue a step that the rank waits for."""
        place = self._issue(stream, kind, label, self._front, seconds=seconds, group=group,
                            payload=payload, waits=self._waits, receives=self._receives,
                            tokens=tokens)
        self._front, self._waits, self._receives = {place}, set(), []
        return place

    def _compute(self, seconds: float, tokens: TokensOf | None = None) -> int:
        return self._block("compute", "compute", "compute", seconds=seconds, tokens=tokens)

    def _exists(self, group: str) -> bool:
        """Whether a group has several ranks; a single rank sends nothing."""
        return self._sizes[group] > 1

    def _collective(self, stream: str, kind: str, payload: int, tokens: TokensOf | None = None
                    ) -> None:
        """Issue a blocking collective of tensor, context or expert parallelism."""
        if self._exists(stream):
            self._block(stream, kind, f"{stream} {kind}", group=stream, payload=payload,
                        tokens=tokens)

    # --- passes -----------------------------------------------------------------------------

    def _pass(self, each: Pass) -> None:
        setup = self._setup
        virtual = each.chunk * setup.pp + self._stage
        units = self._chunks[each.chunk]
        source = virtual - 1 if each.forward else virtual + 1
        if 0 <= source < setup.virtual_stages:
            sender = Pass(each.forward, each.batch, source // setup.pp)
            self._receives.append((source % setup.pp, f"{sender}/{_sent(each)}"))
        for _, own in _parts(units if each.forward else units[::-1]):
            self._begin_use()
            self._units(each, own)
            self._end_use()
        self._send(each, virtual + 1 if each.forward else virtual - 1)

    def _units(self, each: Pass, units: list[Unit]) -> None:
        for unit in units:
            self._where = f"{each}/{unit.name}"
            if each.forward:
                if each.batch == 0 and self._setup.overlap_param_gather:
                    self._waits.add(f"{_GATHERED} {unit.name}")
                self._forward(unit)
                continue
            if self._setup.recompute == "full" and unit.kind in ("dense", "experts"):
                for again in reversed(units):  # attention, and then the MLP
                    self._where = f"{each}/{again.name} again"
                    self._forward(again)
                self._where = f"{each}/{unit.name}"
            self._backward(unit)
            self._ready(each, unit)

    def _send(self, each: Pass, target: int) -> None:
        """Send the result of a pass to the next virtual stage, if there is one."""
        setup = self._setup
        if not 0 <= target < setup.virtual_stages:
            return
        self._where = str(each)
        nbytes = setup.activation_bytes // (setup.tp if setup.sequence_parallel else 1)
        stream = "pp-forward" if each.forward else "pp-backward"
        sent = self._issue(stream, "send", _sent(each), self._front, payload=nbytes, group="pp",
                           peer=target % setup.pp)
        if not setup.pp_overlap:
            self._front.add(sent)

    # --- units ------------------------------------------------------------------------------

    def _in(self) -> None:
        if self._setup.sequence_parallel:
            self._collective("tp", "all-gather", self._setup.activation_bytes)

    def _out(self) -> None:
        kind = "reduce-scatter" if self._setup.sequence_parallel else "all-reduce"
        self._collective("tp", kind, self._setup.activation_bytes)

    def _forward(self, unit: Unit) -> None:
        cost = cost_of(self._setup, unit.kind)
        if unit.kind == "embed":
            self._compute(0.0)
            self._out()
        elif unit.kind == "head":
            self._in()
            self._compute(cost.main_s)
            for _ in range(3):  # largest logit, own logit, sum of exponentials: fp32 per token
                self._collective("tp", "all-reduce", 4 * self._setup.tokens)
        elif unit.kind == "experts":
            if self._setup.model.shared_ffn:
                self._in()
                self._compute(cost.shared_s)
                self._out()
            self._experts(unit, cost.main_s)
        else:
            self._in()
            if unit.kind == "attn":
                self._collective("cp", "all-gather", self._kv_bytes)
            self._compute(cost.main_s + cost.core_s)
            self._out()

    def _experts(self, unit: Unit, seconds: float) -> None:
        """Send tokens to their experts, compute, and send the results back."""
        setup, there, back = self._setup, None, None
        if setup.expert_load is not None:
            there, back = TokensOf(unit.layer, False), TokensOf(unit.layer, True)
        split = setup.tp if setup.sequence_parallel else 1
        nbytes = setup.model.top_k * setup.tokens // split * setup.model.hidden * setup.dtype_bytes
        self._collective("ep", "all-to-all", nbytes, there)
        self._collective("tp", "all-gather", setup.tp * nbytes, there)
        self._compute(seconds, there)
        self._collective("tp", "reduce-scatter", setup.tp * nbytes, there)
        self._collective("ep", "all-to-all", nbytes, back)

    @property
    def _kv_bytes(self) -> int:
        """Bytes of the keys and values of all ranks of a context group."""
        setup, model = self._setup, self._setup.model
        return (setup.cp * 2 * setup.tokens * model.kv_heads * model.head_dim // setup.tp
                * setup.dtype_bytes)

    def _backward(self, unit: Unit) -> None:
        cost = cost_of(self._setup, unit.kind)
        if unit.kind == "experts":
            self._experts(unit, 2 * cost.main_s)
            if self._setup.model.shared_ffn:
                self._in()
                self._gradients(unit, cost.shared_s, cost.shared_s)
            return
        if unit.kind != "head":
            self._in()
        if unit.kind == "embed":
            self._compute(0.0)
            return
        if unit.kind == "attn":
            self._collective("cp", "all-gather", self._kv_bytes)
        half = cost.main_s + cost.core_s
        more = cost.core_s if self._setup.recompute == "selective" else 0.0
        self._gradients(unit, half + more, half)

    def _gradients(self, unit: Unit, input_s: float, weight_s: float) -> None:
        """Compute the gradients of the inputs, which are reduced, and those of the weights."""
        if self._setup.tp_overlap:
            self._overlapped_gradients(unit, input_s, weight_s)
            return
        self._in()  # Megatron gathers the input once more
        self._compute(input_s + weight_s)
        self._reduce_inputs(unit)

    def _reduce_inputs(self, unit: Unit) -> None:
        if unit.kind == "attn":
            self._collective("cp", "reduce-scatter", self._kv_bytes)
        self._out()

    def _overlapped_gradients(self, unit: Unit, input_s: float, weight_s: float) -> None:
        """Compute input gradients while gathering, and weight gradients while reducing."""
        begin = set(self._front)
        waits, receives = set(self._waits), list(self._receives)
        self._in()
        again = self._front - begin
        self._front, self._waits, self._receives = begin, waits, receives
        inputs = self._compute(input_s)
        self._reduce_inputs(unit)
        back = self._front - {inputs}
        weights = self._issue("compute", "compute", "compute", {inputs, *again}, seconds=weight_s)
        self._front = {weights, *back}

    # --- gradients, the step, and parameters --------------------------------------------------

    def _is_last(self, each: Pass) -> bool:
        return not each.forward and each.batch == self._setup.micro_batches - 1

    def _ready(self, each: Pass, unit: Unit) -> None:
        """Reduce the buckets that are complete once a unit's gradients are known."""
        setup = self._setup
        if setup.overlap_grad_reduce and (setup.zero >= 2 or self._is_last(each)):
            computed = self._last["compute"]
            for expert in (False, True):
                for k, bucket in enumerate(self._buckets(each, expert)):
                    if bucket.units[-1] == unit.name:
                        self._reduce(each, expert, k, bucket.elements, {computed})

    def _buckets(self, each: Pass, expert: bool) -> list[Bucket]:
        return buckets_of(self._setup, each.chunk * self._setup.pp + self._stage, expert)

    def _reduce_all(self, each: Pass) -> None:
        """Reduce all buckets of a virtual stage after the last pass."""
        for expert in (False, True):
            for k, bucket in enumerate(self._buckets(each, expert)):
                self._reduce(each, expert, k, bucket.elements, self._front)

    def _reduce(self, each: Pass, expert: bool, bucket: int, elements: int, after: set[int]
                ) -> None:
        group, prefix = ("edp", "e") if expert else ("dp-cp", "")
        if self._exists(group):
            kind = "reduce-scatter" if self._setup.zero else "all-reduce"
            self._where = f"{each}/bucket {bucket}"
            self._issue(f"{prefix}reduce", kind, f"{prefix}dp {kind}", after, group=group,
                        payload=elements * self._setup.grad_bytes)

    def _step(self) -> None:
        """Issue the steps from the last pass until the next iteration's parameters are ready."""
        setup = self._setup
        self._where = "step"
        self._front |= {self._last[stream] for stream in ("reduce", "ereduce")
                        if stream in self._last}
        units = [unit for units in self._chunks for unit in units]
        if setup.sequence_parallel and self._exists("tp"):
            shared = sum(tensor.elements for unit in units for tensor in unit.tensors
                         if tensor.shared)
            self._block("norm", "all-reduce", "norm all-reduce", group="tp",
                        payload=shared * setup.grad_bytes)
        if setup.model.tied and setup.pp > 1 and self._stage in (0, setup.pp - 1):
            self._block("embedding", "all-reduce", "embedding all-reduce", group="embedding",
                        payload=setup.padded_vocab * setup.model.hidden // setup.tp
                        * setup.grad_bytes)
        if setup.step_barrier and self._exists("world"):
            self._block("barrier", "barrier", "barrier", group="world")
        self._where = "optimizer"
        self._marks[_OPTIMIZER] = [self._compute(setup.optimizer_s)]
        self._gather_parameters()

    def _gather_parameters(self) -> None:
        """Gather the parameters after the optimizer step, with ZeRO 1 and 2."""
        setup = self._setup
        if setup.zero == 2:
            for k, elements in enumerate(shards_of(setup)):
                self._where = f"step/shard {k}"
                self._gather(False, elements, self._front, _GATHERED)
        for chunk in range(setup.vpp) if setup.zero == 1 else ():
            for expert in (False, True):
                buckets = buckets_of(setup, chunk * setup.pp + self._stage, expert)
                for k, bucket in reversed(list(enumerate(buckets))):
                    self._where = f"step/chunk {chunk} bucket {k}"
                    self._gather(expert, bucket.elements, self._front, _GATHERED,
                                 *(f"{_GATHERED} {unit}" for unit in bucket.units))

    def _gather(self, expert: bool, elements: int, after: Iterable[int], *marks: str,
                waits: Iterable[str] = ()) -> None:
        group, prefix = ("edp", "e") if expert else ("dp-cp", "")
        if self._exists(group):
            place = self._issue(f"{prefix}gather", "all-gather", f"{prefix}dp all-gather", after,
                                group=group, payload=elements * self._setup.dtype_bytes,
                                waits=waits)
            for mark in marks:
                self._marks.setdefault(mark, []).append(place)

    # --- ZeRO 3 -----------------------------------------------------------------------------

    def _parts_in_order(self) -> Iterator[tuple[str, int]]:
        """Yield the units that are gathered in all passes, in order: name and elements."""
        for each in self._passes:
            units = self._chunks[each.chunk]
            for part, own in _parts(units if each.forward else units[::-1]):
                yield f"{each}/{part}", sum(tensor.elements for unit in own
                                            for tensor in unit.tensors)

    def _gather_use(self, use: int, after: Iterable[int], waits: Iterable[str]) -> None:
        name, elements = self._uses[use]
        self._where = name
        self._gather(False, elements, after, f"use {use}", waits=waits)

    def _begin_use(self) -> None:
        self._front |= set(self._marks.get(f"use {self._used}", ()))

    def _end_use(self) -> None:
        if (ahead := self._used + 1 + self._setup.prefetch) < len(self._uses):
            self._gather_use(ahead, {self._last["compute"]}, ())
        self._used += 1


def _sent(each: Pass) -> str:
    return "pp-forward send" if each.forward else "pp-backward send"


def _parts(units: Iterable[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    """Group the units that ZeRO 3 gathers together."""
    for part, own in groupby(units, key=lambda unit: unit.gather):
        yield part, list(own)
