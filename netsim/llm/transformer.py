"""Transformers: their shape, and ready-made ones by name."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from netsim.base.brief import brief
from netsim.base.files import read_text
from netsim.base.plugins import Registry, parse_policy
from netsim.base.values import (
    as_choice,
    as_flag,
    as_whole,
    check_options,
    convert,
    known_names,
    refused,
    same,
)
from netsim.errors import InputError

_count = partial(as_whole, least=1)


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """The shape of a decoder-only transformer.

    Parameters
    ----------
    layers, hidden, ffn, heads, vocab, sequence : int
        Number of layers, width, width of the MLP, attention heads, size of the vocabulary, and
        tokens of a sequence.
    kv_heads, head_dim : int, optional
        Heads of keys and values, fewer than `heads` with grouped-query attention, and the width of
        a head; by default `heads` and ``hidden / heads``.
    mlp : {"gelu", "swiglu"}
        MLPs of two or of three matrices.
    norm : {"layer", "rms"}
        Norms with a weight and a bias, or with a weight only.
    bias : bool
        Whether linear layers have a bias; the output layer, the router and routed experts have
        none.
    positions : {"rope", "learned"}
        Position embeddings without parameters (``"rope"``) or with parameters.
    tied : bool
        Whether the output layer and the word embedding are the same matrix.
    experts, top_k, moe_ffn, shared_ffn : int
        A mixture of experts: number of experts, number of experts per token, width of each, and
        total width of the shared experts. All are 0 if the model has no experts.
    dense_first : int
        Number of layers at the start that have the dense MLP.

    Raises
    ------
    InputError
        If a value is invalid.

    Examples
    --------
    >>> make_transformer("llama-7b").parameters
    6738415616
    """

    layers: int
    hidden: int
    ffn: int
    heads: int
    vocab: int
    sequence: int
    kv_heads: int = 0
    head_dim: int = 0
    mlp: str = "gelu"
    norm: str = "layer"
    bias: bool = False
    positions: str = "rope"
    tied: bool = False
    experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0
    shared_ffn: int = 0
    dense_first: int = 0

    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        of_experts = "top_k", "moe_ffn", "shared_ffn", "dense_first"
        convert(self, "transformer", layers=_count, hidden=_count, ffn=_count, heads=_count,
                vocab=_count, sequence=_count, bias=as_flag, tied=as_flag,
                mlp=partial(as_choice, choices=("gelu", "swiglu")),
                norm=partial(as_choice, choices=("layer", "rms")),
                positions=partial(as_choice, choices=("rope", "learned")),
                **dict.fromkeys(("kv_heads", "head_dim", "experts", *of_experts), as_whole))
        if not self.head_dim and self.hidden % self.heads:
            raise InputError(f"transformer: hidden, {self.hidden}, is not a multiple of the "
                             f"{self.heads} heads; give head_dim", "hidden")
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "head_dim", self.head_dim or self.hidden // self.heads)
        if self.heads % self.kv_heads:
            raise InputError(f"transformer: heads, {self.heads}, must be a multiple of kv_heads, "
                             f"{self.kv_heads}", "kv_heads")
        if self.experts:
            convert(self, "transformer", top_k=partial(_count, most=self.experts), moe_ffn=_count,
                    dense_first=partial(as_whole, most=self.layers))
        for name in of_experts:
            if getattr(self, name) and not self.experts:
                raise InputError(f"transformer: {name} is for a mixture of experts, and there are "
                                 "no experts", name)

    @property
    def mlp_matrices(self) -> int:
        """Number of matrices of an MLP."""
        return 3 if self.mlp == "swiglu" else 2

    def is_dense(self, layer: int) -> bool:
        """Whether a layer has the dense MLP."""
        return not self.experts or layer < self.dense_first

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self._parameters(self.experts)

    @property
    def active_parameters(self) -> int:
        """Number of parameters that a token uses: `top_k` experts, and the whole router."""
        return self._parameters(self.top_k)

    def _parameters(self, experts: int) -> int:
        h, norm = self.hidden, self.hidden * (2 if self.norm == "layer" else 1)
        qkv, out = (self.heads + 2 * self.kv_heads) * self.head_dim, self.heads * self.head_dim
        attention = norm + h * qkv + out * h + (qkv + h if self.bias else 0)
        moe = (norm + h * self.experts + experts * self.mlp_matrices * h * self.moe_ffn
               + (self._dense(self.shared_ffn) if self.shared_ffn else 0))
        mlps = sum(norm + self._dense(self.ffn) if self.is_dense(layer) else moe
                   for layer in range(self.layers))
        embedding = self.vocab * h + (self.sequence * h if self.positions == "learned" else 0)
        return (self.layers * attention + mlps + embedding + norm
                + (0 if self.tied else self.vocab * h))

    def _dense(self, width: int) -> int:
        """Return the parameters of a dense MLP of the given width, without its norm."""
        n, h = self.mlp_matrices, self.hidden
        return n * h * width + ((n - 1) * width + h if self.bias else 0)


class _PublishedTransformer:
    """A transformer of the catalogue; call it to make the transformer, with changes if wanted."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts, model = facts, Transformer(**facts)
        active = f", {_billions(model.active_parameters)} active" if model.experts else ""
        self.__doc__ = (f"{_billions(model.parameters)} parameters{active}; {model.layers} layers, "
                        f"width {model.hidden}, sequences of {model.sequence}")
        usual = inspect.signature(Transformer)
        self.__signature__ = usual.replace(parameters=[
            each.replace(default=facts.get(name, each.default))
            for name, each in usual.parameters.items()])

    def __call__(self, **changes: Any) -> Transformer:
        return Transformer(**{**self.facts, **changes})


def _billions(number: int) -> str:
    return f"{number / 1e9:.1f} billion"


def _catalogue() -> dict[str, dict[str, Any]]:
    table = tomllib.loads(read_text(Path(__file__).with_name("catalogue.toml")))
    return {name: table["forms"][model["form"]] | {key: value for key, value in model.items()
                                                   if key != "form"}
            for name, model in table["models"].items()}


#: Ready-made transformers; each is called with parameters that differ.
LLMS = Registry("llm", {name: _PublishedTransformer(facts)
                        for name, facts in _catalogue().items()},
                accepts=lambda made: isinstance(made, Transformer),
                refusal="is not a netsim.llm.Transformer")


def make_transformer(model: str | Mapping[str, Any] | Transformer, **changes: Any) -> Transformer:
    """Make a transformer by name, or from its parameters.

    Parameters
    ----------
    model : str, mapping or Transformer
        A name of `LLMS`; the parameters of a `Transformer`; or a ``name`` and the parameters in
        which it differs from that transformer.
    **changes
        Parameters that replace those of `model`.

    Raises
    ------
    UnknownNameError
        If there is no such transformer or parameter.
    InputError
        If a value is invalid.

    Examples
    --------
    >>> make_transformer("llama-7b", sequence=4096) == make_transformer("llama2-7b")
    True
    """
    if isinstance(model, Transformer):
        return replace(model, **changes)
    if not isinstance(model, str | Mapping):
        raise refused("model", "a name, a mapping or a Transformer", model)
    if isinstance(model, Mapping) and "name" not in model:
        given = {**model, **changes}
        check_options(Transformer, given, "transformer")
        return Transformer(**given)
    name, given = parse_policy(model, "model")
    made: Transformer = LLMS.make(name, given | changes)
    return made
