"""The order in which a pipeline stage runs its passes."""

from __future__ import annotations

from typing import NamedTuple

from netsim.llm.setup import TrainingSetup


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
