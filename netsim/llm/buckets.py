"""Buckets: gradients that are reduced together, and parameters that are gathered together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from netsim.llm.setup import TrainingSetup
from netsim.llm.units import Tensor, units_of

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
        return _padded(tensors, limit, edp if expert else setup.dp * setup.cp,
                       setup.model.tied and setup.pp > 1)
    return _closed_after(tensors, limit)


def _closed_after(tensors: Sequence[Tensor], limit: float) -> list[Bucket]:
    """Close a bucket when it has reached the limit."""
    made: list[Bucket] = []
    own: list[Tensor] = []
    count = 0
    for tensor in tensors:
        own.append(tensor)
        count += tensor.elements
        if count >= limit:
            made.append(_bucket(count, own))
            own, count = [], 0
    return [*made, _bucket(count, own)] if own else made


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


def _padded(tensors: Sequence[Tensor], limit: float, group: int, apart: bool) -> list[Bucket]:
    """Close a bucket when it has reached the limit, with Megatron's padding.

    With `apart`, the word embedding and its copy have their own bucket.
    """
    multiple = math.lcm(group, _BUCKET_MULTIPLE)
    made: list[Bucket] = []
    own: list[Tensor] = []
    begin = at = 0
    for tensor in tensors:
        alone = apart and tensor.name in ("word", "output")
        at = _up(at, _TENSOR_MULTIPLE)
        if alone and own:
            end = _up(at, multiple)
            made.append(_bucket(end - begin, own))
            own, begin, at = [], end, end
        own.append(tensor)
        at += tensor.elements
        if alone or at - begin >= limit:
            end = _up(at, multiple)
            made.append(_bucket(end - begin, own))
            own, begin, at = [], end, end
    return [*made, _bucket(_up(at, multiple) - begin, own)] if own else made


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
