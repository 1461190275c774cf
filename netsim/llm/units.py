"""The parts of a transformer on a rank: their tensors, and their computation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from netsim.llm.setup import TrainingSetup


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
    return Unit(name, "experts", str(layer), tuple(tensors))


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
