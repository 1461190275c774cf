"""Compilation of kernels with Numba, when they are first called, and caching on disk."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core import event

from netsim.compiled_kernel import CompiledKernel, check_signals
from netsim.kernel_cache import tell_not_kept
from netsim.reading import read_bytes
from netsim.watching import watched

__all__ = ["Direct", "addressed", "cache_folder", "check_signals", "compiled", "in_place",
           "inlined", "summing", "tell_once_by"]

# Numba's type hints do not cover all arguments used here.
_CONFIG: Any = numba.config
_NJIT: Any = njit

#: Whether this process has announced that it compiles; and the file by which several processes
#: agree on the one that does.
_announced = False
_marker: Path | None = None


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, and cache it on disk.

    Division by zero follows NumPy: x/0 is inf, and no exception is raised.
    """
    # Said, as a kernel without would hand that down to those that it calls.
    return _compiled(kernel, _nrt=True)


def in_place(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no arrays, without counting references to its arguments.

    Counting would take longer than the loops of many kernels. It may call a kernel that is
    `compiled`, which counts references to the arrays that it makes, but take no arrays from it.
    """
    return _compiled(kernel, _nrt=False)


def addressed(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does a kernel that is called by its address; see `address_of`."""
    return _compiled(kernel, _nrt=False, no_cpython_wrapper=True)


def inlined(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel only as part of its callers.

    For kernels with one caller, and for short ones: Numba compiles a called kernel again with each
    of its callers.
    """
    return _NJIT(error_model="numpy", inline="always")(kernel)


def summing(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does, and allow sums in any order, so that loops can be vectorised."""
    return _compiled(kernel, _nrt=False, fastmath={"reassoc", "nsz", "contract"})


def _compiled(kernel: Callable[..., Any], **options: Any) -> Any:
    made: Any = CompiledKernel(kernel, targetoptions={
        "nopython": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options})
    with _cached_with_its_callees():
        try:
            made.enable_caching()
        except RuntimeError:  # the folder cannot be made, or written to
            tell_not_kept(_CONFIG.CACHE_DIR)
    return made


class Direct:
    """Calls a compiled kernel without Numba's check of the types of all arguments.

    For named tuples of arrays, this check would take longer than many kernels.

    Parameters
    ----------
    kernel : callable
        A compiled kernel.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._entries: dict[Any, Callable[..., Any]] = {}

    def __call__(self, kind: Any, *args: Any) -> Any:
        """Call the kernel.

        Parameters
        ----------
        kind : hashable
            A label of the argument types. Calls with equal labels must have arguments of exactly
            the same types, whether float or int, and only contiguous arrays.
        *args
            The arguments of the kernel.
        """
        entry = self._entries.get(kind)
        if entry is not None:
            return entry(*args)
        returned = self.kernel(*args)
        self._entries[kind] = self.kernel.get_overload(tuple(map(numba.typeof, args)))
        return returned


class _Compilation(event.Listener):
    """Tells the user that kernels are compiled, which takes long, when the first one is."""

    def on_start(self, event: Any) -> None:
        """Write a message, once, and for kernels of netsim only."""
        global _announced
        kernel = event.data["dispatcher"].py_func
        if _announced or not (kernel.__module__ or "").startswith("netsim.") or not watched():
            return
        _announced = True
        if _marker is not None:
            try:
                _marker.touch(exist_ok=False)
            except OSError:  # another process was first
                return
        sys.stderr.write("netsim: compiling, once; this may take a minute or two\n")
        sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


event.register("numba:compile", _Compilation())


def tell_once_by(path: Path) -> None:
    """Let only one of several processes announce that it compiles: the one that creates `path`."""
    global _marker
    _marker = path


@contextmanager
def _cached_with_its_callees() -> Iterator[None]:
    """Make Numba cache in a folder whose name depends on the sources of kernels.

    Numba itself checks only a kernel's own file to see whether a cached kernel is out of date, but
    kernels call kernels of other files.
    """
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = _folder(before)
    try:
        yield
    finally:
        _CONFIG.CACHE_DIR = before


def cache_folder() -> Path:
    """Return the cache folder of this version of netsim."""
    return Path(_folder(_CONFIG.CACHE_DIR))


@cache
def _folder(base: str) -> str:
    """Return the cache folder below `base`, or below a default one if `base` is empty."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    rooms = (here / room for room in ("edge", "fabric", "models"))
    alone = ("compiled_kernel.py", "compiling.py", "kernel_cache.py", "ties.py",
             "jobs/longest_path.py", "placements/kernels.py", "schedulers/kernels.py")
    for path in [*(here / name for name in alone),
                 *(path for room in rooms for path in sorted(room.rglob("*.py")))]:
        digest.update(read_bytes(path))
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path("~/.cache/netsim").expanduser())
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
