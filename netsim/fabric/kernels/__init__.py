"""Compiled kernels. They are compiled when first called, and cached from then on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit

__all__ = ["compiled"]

_CONFIG: Any = numba.config


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, and cache it on disk.

    Division is NumPy's (x/0 is inf), without Python's check.
    """
    with _cached_with_its_callees():
        return njit(cache=True, error_model="numpy")(kernel)


@contextmanager
def _cached_with_its_callees() -> Iterator[None]:
    """Have Numba cache in a folder of this version of all kernels.

    Numba looks only at a kernel's own file to see whether what it has cached is out of date, but
    kernels call those of other files.
    """
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = _folder(before)
    try:
        yield
    finally:
        _CONFIG.CACHE_DIR = before


@cache
def _folder(base: str) -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(here.parent.rglob("*.py")):
        digest.update(path.read_bytes())
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path.home() / ".cache" / "netsim")
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
