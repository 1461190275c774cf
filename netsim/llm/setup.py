"""How a transformer is trained: parallelism, batches and overlap, with checks of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from netsim.base.brief import brief
from netsim.base.units import parse_seconds
from netsim.base.values import (
    as_choice,
    as_flag,
    as_list,
    as_share,
    as_whole,
    convert,
    known_names,
    optional,
    refused,
    same,
)
from netsim.errors import InputError
from netsim.llm.expert_load import ExpertLoad
from netsim.llm.transformer import Transformer
from netsim.models.gpus import as_flops, gpu_of

#: The orders in which ranks are numbered; the first name changes fastest.
ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")

#: Most passes of a layer on a rank in an iteration; more are mistakes, and would not fit in memory.
_MOST_LAYERS = 10**8



def _peak_flops(value: Any, what: str) -> float:
    return as_flops(gpu_of(value).flops if isinstance(value, str) else value, what)


def _forward_s(value: Any, what: str) -> tuple[float, ...]:
    given = as_list(value, what, object, "durations")
    if len(given) != 3:
        raise refused(what, "three durations, of attention, MLP and head", value)
    return tuple(parse_seconds(each, what) for each in given)


_CONVERTERS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("tp", "cp", "ep", "dp", "pp", "vpp", "micro_batch", "global_batch",
                     "dtype_bytes", "grad_bytes", "allgather_bucket_size"),
                    partial(as_whole, least=1)),
    **dict.fromkeys(("group", "bucket_size"), optional(partial(as_whole, least=1))),
    **dict.fromkeys(("vocab_multiple", "prefetch"), as_whole), "zero": partial(as_whole, most=3),
    **{name: partial(as_choice, choices=choices) for name, choices in (
        ("schedule", ("gpipe", "1f1b", "interleaved")), ("tensors", ("fused", "split")),
        ("bucket_stages", ("first", "all")), ("recompute", ("none", "selective", "full")),
        ("order", ORDERS))},
    **dict.fromkeys(("sequence_parallel", "overlap_grad_reduce", "overlap_param_gather",
                     "tp_overlap", "pp_overlap", "step_barrier"), as_flag),
    "peak_flops": _peak_flops, "utilisation": as_share, "forward_s": optional(_forward_s),
    "optimizer_s": parse_seconds, "expert_load": optional(ExpertLoad.of)}


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """How a transformer is trained.

    Parameters
    ----------
    model : Transformer
    tp, cp, ep, dp, pp : int
        Degrees of tensor, context, expert, data and pipeline parallelism. There are ``tp cp dp pp``
        ranks, and `ep` must divide ``dp cp``.
    vpp : int
        Chunks of layers on each stage of an interleaved pipeline.
    micro_batch, global_batch : int
        Number of sequences in a micro-batch, and in an iteration.
    schedule : {"1f1b", "gpipe", "interleaved"}
        Order of the forward and backward passes of a stage of the pipeline.
    group : int, optional
        Number of micro-batches that an interleaved pipeline processes as a group; `pp` by default.
    sequence_parallel : bool
        Whether norms and dropout are divided among the ranks of tensor parallelism.
    zero : {0, 1, 2, 3}
        0: all-reduce of gradients. 1: Megatron's distributed optimizer. 2, 3: DeepSpeed's ZeRO.
    dtype_bytes, grad_bytes : int
        Bytes of a parameter or activation, and of a gradient as it is reduced.
    vocab_multiple : int
        The vocabulary is padded to a multiple of ``vocab_multiple tp``; 0 means no padding.
    tensors : {"fused", "split"}
        Whether the weights of Q, K and V are one tensor, and those of gate and up another, as in
        Megatron (``"fused"``); or all of them are separate tensors.
    bucket_size : int, optional
        Elements of a bucket of gradients; by default ``max(40e6, 1e6 dp)``, or 5e8 with `zero` 2
        and 3.
    bucket_stages : {"first", "all"}
        Whether only the first virtual stage, or all of them, may have several buckets.
    allgather_bucket_size : int
        Elements that `zero` 2 gathers at a time.
    overlap_grad_reduce : bool
        Whether gradients are reduced bucket by bucket during the last backward passes.
    overlap_param_gather : bool
        With `zero` 1: whether parameters are gathered during the next forward passes.
    prefetch : int
        With `zero` 3: number of units, such as attention blocks, that are gathered ahead.
    tp_overlap, pp_overlap : bool
        Whether tensor parallelism communicates during backward computation, and whether pipeline
        stages continue while they send.
    recompute : {"none", "selective", "full"}
        What backward passes recompute: nothing, the core of attention, or whole layers.
    order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}
        How ranks are numbered; the first name changes fastest.
    peak_flops, utilisation : float
        Operations per second of a GPU, and the share of them that is reached. `peak_flops` may
        also be the name of a GPU, such as ``"h100"`` (`netsim.models.gpus.GPUS`).
    forward_s : sequence of three quantities, optional
        Forward time of an attention block, an MLP block and the head, per micro-batch, instead of
        times computed from operations. Backward takes twice as long.
    optimizer_s : quantity
        Time of the optimizer's step.
    step_barrier : bool
        Whether all ranks wait for each other before the optimizer.
    expert_load : ExpertLoad or mapping, optional
        How tokens spread over experts, or the parameters of that; by default evenly. See
        `netsim.llm.ExpertLoad`.

    Raises
    ------
    InputError
        If values are invalid or contradict each other; the message lists all problems.
    """

    model: Transformer
    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    vpp: int = 1
    micro_batch: int = 1
    global_batch: int = 1
    schedule: str = "1f1b"
    group: int | None = None
    sequence_parallel: bool = False
    zero: int = 0
    dtype_bytes: int = 2
    grad_bytes: int = 4
    vocab_multiple: int = 128
    tensors: str = "fused"
    bucket_size: int | None = None
    bucket_stages: str = "first"
    allgather_bucket_size: int = 500_000_000
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = False
    prefetch: int = 1
    tp_overlap: bool = False
    pp_overlap: bool = True
    recompute: str = "none"
    order: str = ORDERS[0]
    peak_flops: float = 312e12
    utilisation: float = 0.5
    forward_s: tuple[float, float, float] | None = None
    optimizer_s: float = 0.0
    step_barrier: bool = True
    expert_load: ExpertLoad | None = None

    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        convert(self, "llm", **_CONVERTERS)
        if problems := list(self._problems()):
            raise InputError(f"llm: {'; '.join(text for _, text in problems)}", problems[0][0])

    # --- what does not fit ----------------------------------------------------------------

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Yield what does not fit, each with an option that is to blame."""
        model, tp = self.model, self.tp
        if (size := self.world // self.pp * self.micro_batches * model.layers) > _MOST_LAYERS:
            yield ("global_batch",
                   f"an iteration has {size:,} passes of a layer on a rank, more than "
                   f"{_MOST_LAYERS:,}")
        for name, value, *factors in (
                ("global_batch", self.global_batch, "micro_batch", "dp"),
                ("layers", model.layers, "pp", "vpp"),
                ("heads", model.heads, "tp"), ("kv_heads", model.kv_heads, "tp"),
                ("ffn", model.ffn, "tp"), ("moe_ffn", model.moe_ffn, "tp"),
                ("shared_ffn", model.shared_ffn, "tp"),
                ("the padded vocabulary", self.padded_vocab, "tp"),
                ("sequence", model.sequence, "cp"), ("experts", model.experts, "ep"),
                ("dp x cp", self.dp * self.cp, "ep")):
            if value % math.prod(own := [getattr(self, each) for each in factors]):
                terms = [" x ".join(factors), " x ".join(f"{each:,}" for each in own),
                         f"{math.prod(own):,}"]
                yield (next(each for each in reversed(factors) if getattr(self, each) > 1),
                       f"{name}, {value:,}, is not a multiple of "
                       f"{' = '.join(dict.fromkeys(terms))}")
        if (self.sequence_parallel and not model.sequence % self.cp
                and (model.sequence // self.cp) % tp):
            yield ("tp",
                   f"with sequence_parallel, sequence/cp, {model.sequence // self.cp:,}, must be a "
                   f"multiple of tp = {tp}")
        yield from self._problems_of_experts()
        yield from self._problems_of_pipelines()
        yield from self._problems_of_zero()

    def _problems_of_experts(self) -> Iterator[tuple[str, str]]:
        load = self.expert_load
        if not self.model.experts:
            if self.ep > 1:
                yield "ep", f"ep = {self.ep} needs a model with experts"
            if load is not None:
                yield "expert_load", "expert_load needs a model with experts"
            return
        if load is not None and (problem := load.problem_of(
                self.model.experts, range(self.model.dense_first, self.model.layers))):
            yield "expert_load", problem
        if self.tp > 1 and not self.sequence_parallel:
            yield "tp", "experts with tp > 1 need sequence_parallel, as in Megatron"
        if self.forward_s is not None and self.model.shared_ffn:
            yield "forward_s", "forward_s has no time for shared experts"
        if (self.pp > 1 and not self.order.endswith("pp")
                and self.dp * self.cp // self.ep != self.dp):
            yield ("order",
                   f"experts with pp > 1 and dp cp/ep = {self.dp * self.cp // self.ep} other than "
                   f"dp = {self.dp} need an order that ends in pp, not {self.order!r}")

    def _problems_of_pipelines(self) -> Iterator[tuple[str, str]]:
        if (self.schedule == "interleaved") != (self.vpp > 1):
            yield ("schedule",
                   f"schedule must be 'interleaved' exactly if vpp > 1; it is {self.schedule!r}, "
                   f"and vpp = {self.vpp}")
        if self.vpp > 1 and self.pp == 1:
            yield "vpp", f"vpp = {self.vpp} needs pp > 1"
        elif self.vpp > 1:
            group, batches = self.group_size, self.micro_batches
            if not self.pp <= group <= batches:
                yield ("group",
                       f"group must be from pp = {self.pp} to the number of micro-batches, "
                       f"{batches}, not {group}")
            elif 0 < batches % group < self.pp:
                yield ("group",
                       f"the last group has {batches % group} of {batches} micro-batches, fewer "
                       f"than pp = {self.pp}; group is {group}")
        elif self.group is not None:
            yield "group", "group is for schedule = 'interleaved'"

    def _problems_of_zero(self) -> Iterator[tuple[str, str]]:
        if self.zero >= 2:
            if self.pp > 1:
                yield "zero", f"zero = {self.zero} and pp > 1 are incompatible, as in DeepSpeed"
            if self.model.experts:
                yield "zero", f"zero = {self.zero} is not for models with experts"
            if not self.overlap_grad_reduce:
                yield "zero", f"zero = {self.zero} needs overlap_grad_reduce"
        if self.overlap_param_gather and self.zero != 1:
            yield "overlap_param_gather", f"overlap_param_gather needs zero = 1, not {self.zero}"

    # --- what follows -----------------------------------------------------------------------

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches of each replica in an iteration."""
        return self.global_batch // (self.micro_batch * self.dp)

    @property
    def group_size(self) -> int:
        """Number of micro-batches that an interleaved pipeline processes as a group."""
        return self.group or self.pp

    @property
    def virtual_stages(self) -> int:
        """Number of parts into which layers are divided: `pp` times `vpp`."""
        return self.pp * self.vpp

    @property
    def padded_vocab(self) -> int:
        """Size of the vocabulary after padding."""
        multiple = self.vocab_multiple * self.tp
        return -(-self.model.vocab // multiple) * multiple if multiple else self.model.vocab

    @property
    def tokens(self) -> int:
        """Number of tokens of a micro-batch on a rank of context parallelism."""
        return self.micro_batch * self.model.sequence // self.cp

    @property
    def activation_bytes(self) -> int:
        """Bytes of the activations between two layers, over all ranks of a tensor group."""
        return self.tokens * self.model.hidden * self.dtype_bytes

    @property
    def bucket_limit(self) -> int:
        """Number of elements in a bucket of gradients."""
        usual = 500_000_000 if self.zero >= 2 else max(40_000_000, 1_000_000 * self.dp)
        return self.bucket_size or usual
