"""Named random streams: one seed, one independent generator per purpose."""

from __future__ import annotations

from zlib import crc32

import numpy as np

__all__ = ["stream"]


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the generator for one purpose under one seed.

    The stream depends on the seed, the purpose and the key alone, so that a new
    purpose, or one more job, never shifts the draws of another.

    Parameters
    ----------
    seed : int
        The seed of the run or of the workload.
    purpose : str
        What is drawn, such as ``"placement"``.
    *key : int
        A sub-stream, such as a job's id.
    """
    root = np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), *key))
    return np.random.default_rng(root)
