"""Named random streams: independent generators per purpose, derived from one seed."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Make the random generator for one purpose, such as ``"placement"``, under one seed.

    It depends only on the seed, the purpose and the key, such as a job's id, so that an additional
    purpose or job does not change the draws of others.
    """
    return np.random.default_rng(_root(seed, purpose, *key))


def seed_of(seed: int, purpose: str, *key: int) -> int:
    """A seed below 2^32 for a component that makes its own random generators; see `stream`."""
    return int(_root(seed, purpose, *key).generate_state(1)[0])


def _root(seed: int, purpose: str, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), *key))
