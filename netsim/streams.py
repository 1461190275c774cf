"""Named random streams: independent generators per purpose, derived from one seed."""

from __future__ import annotations

from zlib import crc32

import numpy as np

__all__ = ["stream"]


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the random generator for one purpose under one seed.

    The stream depends only on the seed, the purpose and the key, so that an additional purpose or
    job does not change the draws of others.

    Parameters
    ----------
    seed : int
        The seed of the run or of the workload.
    purpose : str
        The purpose of the draws, such as ``"placement"``.
    *key : int
        Numbers that select a sub-stream, such as a job's id.
    """
    root = np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), *key))
    return np.random.default_rng(root)
