"""What a rank of a transformer holds and runs: tensors, passes, and buckets of gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from netsim.llm.setup import TrainingSetup


# --- parts ---------------------------------------------------------------------------------
class Tensor(NamedTuple):
    """A parameter tensor of a rank."""

    unit: str
    name: str
    elements: int
    expert: bool = False  #: of routed experts, whose gradients are reduced in another group
    shared: bool = False  #: the same on all ranks of a group of tensor parallelism


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a virtual stage, such as the attention block of a layer."""

    name: str  #: such as ``"3.attn"``
    kind: str  #: ``"embed"``, ``"attn"``, ``"dense"``, ``"experts"`` or ``"head"``
    gather: str  #: label of what ZeRO 3 gathers together: a layer, ``"embed"`` or ``"head"``
    tensors: tuple[Tensor, ...]
    layer: int = -1  #: of experts


@lru_cache(maxsize=256)
def units_of(setup: TrainingSetup, virtual: int) -> tuple[Unit, ...]:
    """Return the units of a virtual stage, in forward order."""
    model, count = setup.model, setup.model.layers // setup.virtual_stages
    made = []
    if virtual == 0:
        made.append(_embed(setup))
    for layer in range(virtual * count, (virtual + 1) * count):
        made.append(_attention(setup, layer))
        made.append(_mlp(setup, layer) if model.is_dense(layer) else _experts(setup, layer))
    if virtual == setup.virtual_stages - 1:
        made.append(_head(setup))
    return tuple(made)


def _embed(setup: TrainingSetup) -> Unit:
    model = setup.model
    tensors = [Tensor("embed", "word", setup.padded_vocab * model.hidden // setup.tp)]
    if model.positions == "learned":
        tensors.append(Tensor("embed", "position", model.sequence * model.hidden))
    return Unit("embed", "embed", "embed", tuple(tensors))


def _head(setup: TrainingSetup) -> Unit:
    model = setup.model
    tensors = _norm(setup, "head", "final")
    if not model.tied or setup.pp > 1:
        tensors.append(Tensor("head", "output", setup.padded_vocab * model.hidden // setup.tp))
    return Unit("head", "head", "head", tuple(tensors))


def _norm(setup: TrainingSetup, unit: str, name: str) -> list[Tensor]:
    parts = ("weight", "bias") if setup.model.norm == "layer" else ("weight",)
    return [Tensor(unit, f"{name}.{part}", setup.model.hidden, shared=True) for part in parts]


def _linear(setup: TrainingSetup, unit: str, name: str, inner: int, outer: int, *,
            by_row: bool = False) -> list[Tensor]:
    """Return the tensors of a linear layer that is split by its outputs or, by row, its inputs.

    If it is split by row, all ranks have the whole bias.
    """
    made = [Tensor(unit, f"{name}.weight", inner * outer // setup.tp)]
    if setup.model.bias:
        made.append(Tensor(unit, f"{name}.bias", outer if by_row else outer // setup.tp,
                           shared=by_row))
    return made


def _attention(setup: TrainingSetup, layer: int) -> Unit:
    model, name = setup.model, f"{layer}.attn"
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    parts = [("qkv", q + 2 * kv)] if setup.tensors == "fused" else [("q", q), ("k", kv), ("v", kv)]
    tensors = _norm(setup, name, "norm1")
    for part, width in parts:
        tensors += _linear(setup, name, part, model.hidden, width)
    tensors += _linear(setup, name, "proj", q, model.hidden, by_row=True)
    return Unit(name, "attn", str(layer), tuple(tensors))


def _mlp_tensors(setup: TrainingSetup, unit: str, width: int, prefix: str = "") -> list[Tensor]:
    model, gated = setup.model, setup.model.mlp == "swiglu"
    parts = [("fc1", 2 * width if gated else width)]
    if gated and setup.tensors == "split":
        parts = [("gate", width), ("up", width)]
    made = []
    for part, outer in parts:
        made += _linear(setup, unit, prefix + part, model.hidden, outer)
    return made + _linear(setup, unit, f"{prefix}fc2", width, model.hidden, by_row=True)


def _mlp(setup: TrainingSetup, layer: int) -> Unit:
    name = f"{layer}.mlp"
    tensors = _norm(setup, name, "norm2") + _mlp_tensors(setup, name, setup.model.ffn)
    return Unit(name, "dense", str(layer), tuple(tensors))


def _experts(setup: TrainingSetup, layer: int) -> Unit:
    model, name = setup.model, f"{layer}.mlp"
    tensors = [*_norm(setup, name, "norm2"),
               Tensor(name, "router", model.hidden * model.experts, shared=True)]
    if model.shared_ffn:
        tensors += _mlp_tensors(setup, name, model.shared_ffn, "shared.")
    local, matrix = model.experts // setup.ep, model.hidden * model.moe_ffn // setup.tp
    for part, elements in (("fc1", (model.mlp_matrices - 1) * matrix), ("fc2", matrix)):
        tensors += [Tensor(name, f"expert{k}.{part}", elements, expert=True) for k in range(local)]
    return Unit(name, "experts", str(layer), tuple(tensors), layer)


class Cost(NamedTuple):
    """The operations of the forward pass of a unit on a rank, per micro-batch, and their seconds.

    `core` is the core of attention, `shared` are shared experts, and `main` is all else.
    """

    main: int
    core: int
    shared: int
    main_s: float
    core_s: float
    shared_s: float

    @property
    def flops(self) -> int:
        """Number of operations: the sum of `main`, `core` and `shared`."""
        return self.main + self.core + self.shared


def cost_of(setup: TrainingSetup, kind: str) -> Cost:
    """Compute the cost of a unit's forward pass, by kind; a multiply-add is two operations."""
    model, tokens, tp = setup.model, setup.tokens, setup.tp
    h, d = model.hidden, model.head_dim
    main = {"embed": 0,
            "attn": 2 * tokens * h * d * (2 * model.heads + 2 * model.kv_heads) // tp,
            "dense": 2 * tokens * model.mlp_matrices * h * model.ffn // tp,
            "experts": 2 * tokens * model.mlp_matrices * h * model.top_k * model.moe_ffn // tp,
            "head": 2 * tokens * h * setup.padded_vocab // tp}[kind]
    # Attention is causal: half of the scores count.
    core = 2 * tokens * model.sequence * model.heads * d // tp if kind == "attn" else 0
    shared = (2 * tokens * model.mlp_matrices * h * model.shared_ffn // tp
              if kind == "experts" else 0)
    if setup.forward_s is not None:
        attention, mlp, head = setup.forward_s
        given = {"embed": 0.0, "attn": attention, "dense": mlp, "experts": mlp, "head": head}
        return Cost(main, core, shared, given[kind], 0.0, 0.0)
    rate = setup.peak_flops * setup.utilisation
    return Cost(main, core, shared, main / rate, core / rate, shared / rate)


# --- passes --------------------------------------------------------------------------------
class Pass(NamedTuple):
    """A forward or backward pass of a micro-batch through a chunk of layers."""

    forward: bool
    batch: int
    chunk: int

    def __str__(self) -> str:
        return f"{'F' if self.forward else 'B'}{self.batch}.{self.chunk}"


def passes_of(setup: TrainingSetup, stage: int) -> list[Pass]:
    """List the passes of a stage, in order.

    ``F1.0`` stands for the forward pass of micro-batch 1 through chunk 0, ``B`` for backward:

    >>> from netsim.llm import make_transformer
    >>> setup = TrainingSetup(model=make_transformer("llama-7b"), pp=2, global_batch=3)
    >>> [" ".join(map(str, passes_of(setup, stage))) for stage in (0, 1)]
    ['F0.0 F1.0 B0.0 F2.0 B1.0 B2.0', 'F0.0 B0.0 F1.0 B1.0 F2.0 B2.0']
    """
    batches, chunks, later = setup.micro_batches, setup.vpp, setup.pp - stage - 1
    if setup.schedule == "interleaved":
        group = setup.group_size
        table = [(batch, chunk) for first in range(0, batches, group) for chunk in range(chunks)
                 for batch in range(first, min(first + group, batches))]
        warmup = 2 * later + (chunks - 1) * group
    else:
        table = [(batch, 0) for batch in range(batches)]
        warmup = batches if setup.schedule == "gpipe" else later
    forward = [Pass(True, batch, chunk) for batch, chunk in table]
    backward = [Pass(False, batch, chunks - 1 - chunk) for batch, chunk in table]
    warmup = min(warmup, len(table))
    mixed = [each for pair in zip(forward[warmup:], backward, strict=False) for each in pair]
    return [*forward[:warmup], *mixed, *backward[len(table) - warmup:]]


# --- buckets -------------------------------------------------------------------------------

#: Megatron's distributed optimizer begins tensors at multiples of this, and buckets at multiples
#: of the group's size and `_BUCKET_MULTIPLE`.
_TENSOR_MULTIPLE, _BUCKET_MULTIPLE = 64, 128


class Bucket(NamedTuple):
    """Tensors whose gradients are reduced together."""

    elements: int  #: with padding
    units: tuple[str, ...]  #: those with a tensor in the bucket


def buckets_of(setup: TrainingSetup, virtual: int, expert: bool) -> list[Bucket]:
    """Return the buckets of a virtual stage's dense or expert tensors, in order of reduction."""
    tensors = [tensor for unit in units_of(setup, virtual) for tensor in unit.tensors
               if tensor.expert == expert][::-1]
    limit: float = setup.bucket_limit
    if not setup.overlap_grad_reduce or (virtual > 0 and setup.bucket_stages == "first"):
        limit = math.inf
    if setup.zero >= 2:
        return _closed_before(tensors, limit)
    if setup.zero == 1:
        edp = setup.dp * setup.cp // setup.ep
        group = math.lcm(edp if expert else setup.dp * setup.cp, _BUCKET_MULTIPLE)
        return _closed_after(tensors, limit, _TENSOR_MULTIPLE, group,
                             apart=setup.model.tied and setup.pp > 1)
    return _closed_after(tensors, limit)


def _closed_before(tensors: Sequence[Tensor], limit: float) -> list[Bucket]:
    """Close a bucket before a tensor that would exceed the limit."""
    made: list[Bucket] = []
    own: list[Tensor] = []
    count = 0
    for tensor in tensors:
        if own and count + tensor.elements > limit:
            made.append(_bucket(count, own))
            own, count = [], 0
        own.append(tensor)
        count += tensor.elements
    return [*made, _bucket(count, own)] if own else made


def _closed_after(tensors: Sequence[Tensor], limit: float, of_tensors: int = 1,
                  of_buckets: int = 1, *, apart: bool = False) -> list[Bucket]:
    """Close a bucket when it has reached the limit.

    Tensors begin, and buckets end, at multiples of numbers. With `apart`, the word embedding and
    its copy have their own bucket.
    """
    made: list[Bucket] = []
    own: list[Tensor] = []
    begin = at = 0
    for tensor in tensors:
        alone = apart and tensor.name in ("word", "output")
        at = _up(at, of_tensors)
        if alone and own:
            end = _up(at, of_buckets)
            made.append(_bucket(end - begin, own))
            own, begin, at = [], end, end
        own.append(tensor)
        at += tensor.elements
        if alone or at - begin >= limit:
            end = _up(at, of_buckets)
            made.append(_bucket(end - begin, own))
            own, begin, at = [], end, end
    return [*made, _bucket(_up(at, of_buckets) - begin, own)] if own else made


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _bucket(elements: int, tensors: Sequence[Tensor]) -> Bucket:
    return Bucket(elements, tuple(dict.fromkeys(tensor.unit for tensor in tensors)))


def shards_of(setup: TrainingSetup) -> list[int]:
    """Return the number of elements of each part in which ZeRO 2 gathers the parameters."""
    total = sum(tensor.elements for unit in units_of(setup, 0) for tensor in unit.tensors)
    count = max(total // setup.allgather_bucket_size, 1)
    part = total // count
    return [_up(size, setup.dp * setup.cp)
            for size in [part] * (count - 1) + [total - (count - 1) * part]]
