"""Compilation of kernels with Numba, when they are first called, and caching on disk."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit, types
from numba.core import event

from netsim.reading import read_bytes
from netsim.watching import watched

__all__ = ["Direct", "cache_folder", "compiled", "in_place", "inlined", "inner",
           "summing", "tell_once_by"]

# Numba's type hints do not cover all arguments used here.
_CONFIG: Any = numba.config
_NJIT: Any = njit

#: Thresholds of Python's garbage collector while kernels are compiled.
_RARELY = 50_000, 20, 100

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


def inner(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does a kernel that only other kernels call.

    It needs no Python wrapper, which takes long to compile. Kernels whose names begin with an
    underscore have none either.
    """
    return _compiled(kernel, wrapped=False, _nrt=False)


def inlined(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel only as part of its callers.

    For kernels with one caller, and for short ones: Numba compiles a called kernel again with each
    of its callers.
    """
    return _NJIT(error_model="numpy", inline="always")(kernel)


def summing(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does, and allow sums in any order, so that loops can be vectorised."""
    return _compiled(kernel, _nrt=False, fastmath={"reassoc", "nsz", "contract"})


def _compiled(kernel: Callable[..., Any], *, wrapped: bool = True, **options: Any) -> Any:
    wrapped &= not kernel.__name__.startswith("_")
    dispatcher = _NJIT(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=not wrapped,
                       **options)(kernel)
    dispatcher.get_call_template = _for_any_value(dispatcher.get_call_template)
    if not wrapped:  # if Python calls it, Numba would crash
        dispatcher._insert = _ignore
        dispatcher._compile_for_args = _refusing(kernel)
    with suppress(RuntimeError), _cached_with_its_callees():  # raised if no folder is writable
        dispatcher.enable_caching()
        dispatcher._cache.save_overload = _ignoring_os_errors(dispatcher._cache.save_overload)
    return dispatcher


def _ignore(*_: Any) -> None:
    """Do not list what Python cannot call among what it can."""


def _refusing(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function to be called in place of a kernel without a Python wrapper."""
    def refuse(*_args: Any, **_keywords: Any) -> Any:
        raise TypeError(f"{kernel.__module__}.{kernel.__name__} is called by other kernels only, "
                        "and has no Python wrapper; see netsim.compiling.inner")

    return refuse


def _for_any_value(get_call_template: Callable[..., Any]) -> Callable[..., Any]:
    """Have a kernel compiled once for its callers among kernels, whatever constants they hand over.

    Signed integers are handed over as int64.
    """
    def widest(kind: Any) -> Any:
        kind = types.unliteral(kind)
        return types.int64 if kind in types.signed_domain else kind

    def resolve(args: Any, keywords: Any) -> Any:
        return get_call_template(tuple(map(widest, args)),
                                 {name: widest(kind) for name, kind in keywords.items()})

    return resolve


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
    """Tells the user that kernels are compiled, which takes long, when the first one is.

    Meanwhile, Python looks for cycles of garbage more rarely, which would be a sixth of the time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._thresholds = gc.get_threshold()

    def on_start(self, event: Any) -> None:
        """Look for garbage rarely."""
        if self._depth == 0:
            self._thresholds = gc.get_threshold()
            if self._thresholds[0]:
                gc.set_threshold(*_RARELY)
        self._depth += 1
        self._announce(event)

    def on_end(self, event: Any) -> None:
        """Look for garbage as before."""
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._thresholds)

    def _announce(self, event: Any) -> None:
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


event.register("numba:compile", _Compilation())


def tell_once_by(path: Path) -> None:
    """Let only one of several processes announce that it compiles: the one that creates `path`."""
    global _marker
    _marker = path


def _ignoring_os_errors(save: Callable[..., None]) -> Callable[..., None]:
    """Wrap a function that saves a kernel to ignore errors, such as of a full disk."""
    def save_if_possible(*compiled: Any) -> None:
        with suppress(OSError):
            save(*compiled)

    return save_if_possible


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
    alone = ("compiling.py", "ties.py", "schedulers/kernels.py", "jobs/longest_path.py")
    for path in [*(here / name for name in alone),
                 *(path for room in rooms for path in sorted(room.rglob("*.py")))]:
        digest.update(read_bytes(path))
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path("~/.cache/netsim").expanduser())
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
