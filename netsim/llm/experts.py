"""How many tokens each rank sends to each expert, if routers prefer some experts.

Routers of all ranks prefer the same experts. A rank sends whole tokens to each expert, and an
expert gets a token at most once. A capacity drops tokens as in Megatron-Core: on the rank that
would send them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.errors import InputError
from netsim.llm.setup import TrainingSetup

if TYPE_CHECKING:
    import pandas as pd


def spread(shares: Floats, tokens: int, top_k: int, senders: int) -> Ints:
    """Spread the choices of each sender's tokens over experts; shape (senders, experts).

    Each sender makes ``tokens * top_k`` choices. Of each expert it gets the exact number rounded
    down or up, such that the sum over senders is rounded down or up as well: systematic sampling,
    with a start per sender.

    >>> spread(np.array([2.0, 1.0, 1.0]), tokens=6, top_k=1, senders=2)
    array([[3, 1, 2],
           [3, 2, 1]])
    """
    bounds = np.cumsum(_limited(shares, 1 / top_k)) * (tokens * top_k)
    bounds[-1] = tokens * top_k
    starts = (np.arange(senders) + 0.5) / senders
    # Sums are off by their rounding, which must not give an expert one token twice.
    found = np.floor(np.round(bounds + starts[:, None], 9)).astype(np.int64)
    found[:, 1:] -= found[:, :-1].copy()
    return found


def _limited(shares: Floats, most: float) -> Floats:
    """Scale shares to a sum of 1, with none above `most`; others take what is above, in proportion.

    An expert that all tokens choose cannot get more.
    """
    full, shares = np.zeros(len(shares), bool), shares / shares.max()
    while True:
        free = np.where(full, 0.0, shares)
        if not free.any():  # only experts that nobody prefers are left
            free = np.where(full, 0.0, 1.0)
        left = 1 - most * full.sum()
        scaled = np.where(full, most, free / max(free.sum(), 1e-300) * left)
        above = scaled > most * (1 + 1e-12)
        if not above.any():
            return scaled
        full |= above


def capped(routed: Ints, capacity_factor: float | None) -> Ints:
    """Return the tokens that senders keep, at most a multiple of the mean over experts."""
    if capacity_factor is None:
        return routed
    # Rounding must not add a token to a capacity that is a whole number.
    capacity = np.ceil(min(capacity_factor, routed.shape[1]) * routed[0].sum() / routed.shape[1]
                       - 1e-9)
    return np.minimum(routed, int(capacity))


class LayerTokens(NamedTuple):
    """The tokens that each rank of an expert group sends to each expert; shape (ranks, experts)."""

    routed: Ints
    kept: Ints  #: without those that are dropped

    def between(self) -> Ints:
        """Return the tokens that each rank sends to each; shape (ranks, ranks)."""
        ranks = len(self.kept)
        return self.kept.reshape(ranks, ranks, -1).sum(axis=2)

    def work(self) -> Floats:
        """Return the tokens that each rank computes, as multiples of those of an even load."""
        return self.between().sum(axis=0) / max(self.routed[0].sum(), 1)


@lru_cache(maxsize=1024)
def tokens_of(setup: TrainingSetup, layer: int, iteration: int = 0) -> LayerTokens:
    """Compute the tokens of a layer's experts in one micro-batch of a group with an uneven load."""
    load, model = setup.expert_load, setup.model
    assert load is not None
    tokens = setup.tokens // (setup.tp if setup.sequence_parallel else 1)
    routed = spread(load.shares(model.experts, layer, iteration), tokens, model.top_k, setup.ep)
    return LayerTokens(routed, capped(routed, load.capacity_factor))


def totals(setup: TrainingSetup, iteration: int) -> tuple[int, int]:
    """Count the tokens that are routed in an iteration of all ranks, and those dropped."""
    table = expert_tokens(setup, iteration)
    return int(table["routed"].sum()), int(table["dropped"].sum())


def expert_tokens(setup: TrainingSetup, iteration: int = 0) -> pd.DataFrame:
    """Tabulate the tokens of each expert in an iteration, over all ranks and micro-batches.

    Parameters
    ----------
    setup : TrainingSetup
        With an ``expert_load``.
    iteration : int

    Returns
    -------
    pandas.DataFrame
        A row per layer and expert: ``layer``, ``expert``, ``rank`` in its group of expert
        parallelism, and tokens: ``routed``, ``dropped`` and ``kept``, their difference. A token
        counts once per expert that it chooses.

    Raises
    ------
    InputError
        If the setup has no ``expert_load``.
    """
    import pandas as pd

    if setup.expert_load is None:
        raise InputError("expert_tokens needs a setup with expert_load", "expert_load")
    model = setup.model
    times = setup.world // setup.pp // setup.ep * setup.micro_batches
    experts = np.arange(model.experts)
    parts = []
    for layer in range(model.dense_first, model.layers):
        routed, kept = (times * each.sum(axis=0) for each in tokens_of(setup, layer, iteration))
        parts.append(pd.DataFrame({
            "layer": layer, "expert": experts, "rank": experts // (model.experts // setup.ep),
            "routed": routed, "dropped": routed - kept, "kept": kept}))
    return pd.concat(parts, ignore_index=True)
