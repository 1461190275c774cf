"""How kernels are compiled: when they are first called, and cached from then on."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core import event

from netsim.reading import read_bytes
from netsim.watching import watched

__all__ = ["compiled", "in_place", "summing", "tell_once_by"]

# Numba's own types do not name all that it takes.
_CONFIG: Any = numba.config
_NJIT: Any = njit

#: Whether this process has said that it compiles; and the file of the first of several that does.
_said = False
_told: Path | None = None


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, and cache it on disk.

    Division is NumPy's (x/0 is inf), without Python's check.
    """
    return _compiled(kernel)


def in_place(kernel: Callable[..., Any]) -> Any:
    """As `compiled`, for a kernel that makes no arrays, nor calls one that does.

    It does not count references to those that it gets, which takes longer than many a loop.
    """
    return _compiled(kernel, _nrt=False)


def summing(kernel: Callable[..., Any]) -> Any:
    """As `in_place`, for a kernel that may add up in any order, so several at a time."""
    return _compiled(kernel, _nrt=False, fastmath={"reassoc", "nsz", "contract"})


def _compiled(kernel: Callable[..., Any], **options: Any) -> Any:
    # What only other kernels call needs no way in from Python, which takes long to compile.
    private = kernel.__name__.startswith("_")
    dispatcher = _NJIT(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=private,
                       **options)(kernel)
    with suppress(RuntimeError), _cached_with_its_callees():  # no folder can be written to
        dispatcher.enable_caching()
        dispatcher._cache.save_overload = _if_there_is_room(dispatcher._cache.save_overload)
    return dispatcher


class _Teller(event.Listener):
    """Says that kernels are compiled, which takes long, when the first one is."""

    def on_start(self, event: Any) -> None:
        """Say it once, and of netsim's own kernels only."""
        global _said
        kernel = event.data["dispatcher"].py_func
        if _said or not kernel.__module__.startswith("netsim.") or not watched():
            return
        _said = True
        if _told is not None:
            try:
                _told.touch(exist_ok=False)
            except OSError:  # another process was first
                return
        sys.stderr.write("netsim: compiling, once; this may take half a minute\n")
        sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """Say nothing."""


event.register("numba:compile", _Teller())


def tell_once_by(path: Path) -> None:
    """Have only one of several processes say that it compiles: the one that makes a file."""
    global _told
    _told = path


def _if_there_is_room(save: Callable[..., None]) -> Callable[..., None]:
    """Return a function that keeps what was compiled unless the disk is full, or read-only."""
    def save_if_possible(*compiled: Any) -> None:
        with suppress(OSError):
            save(*compiled)

    return save_if_possible


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
    for path in [here / "ties.py", *(path for part in ("fabric", "parallel")
                                     for path in sorted((here / part).rglob("*.py")))]:
        digest.update(read_bytes(path))
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path("~/.cache/netsim").expanduser())
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
