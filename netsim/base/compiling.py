"""Compilation of kernels with Numba, when they are first called, and caching on disk.

Kernels are plain functions of arrays. Numba is imported with the first one that is called: most
commands, and most mistakes, need none. With ``NUMBA_DISABLE_JIT=1`` kernels stay what they are, so
that a debugger can step through them; results are the same.
"""

from __future__ import annotations

import atexit
import gc
import glob
import hashlib
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base import display
from netsim.base.files import atomic_write, cache_folder
from netsim.errors import NetsimWarning, OutputError

#: What all kernels are compiled with. Division by zero follows NumPy: x/0 is inf.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}


#: The dispatchers of all kernels that Python has called.
_kernels: list[Any] = []

#: How often each of them has been compiled, and stored with a digest.
_sealed: dict[Any, int] = {}

#: Held by the thread that changes settings, of Numba and of Python, which all threads share.
_settings = threading.RLock()


def enabled() -> bool:
    """Whether kernels are compiled at all, as Numba's environment variables or its file say."""
    import numba

    config: Any = numba.config
    return not config.DISABLE_JIT


def _with_room(function: Any) -> Any:
    """Let a function reserve room for the variables of all that it calls.

    Python gets this memory in small pieces, and returns each at once. When a loop of Numba's
    happens to call at the end of one, that takes 5 % of the time to compile.
    """
    function.__code__ = function.__code__.replace(co_stacksize=100_000)
    return function


class Kernel:
    """A function that Numba compiles at its first call, in Python or in another kernel.

    What Python calls is cached on disk. To other kernels, it looks like a function that Numba's own
    decorators return.
    """

    def __init__(self, function: Callable[..., Any], inline: str = "never", kept: bool = True,
                 once: bool = False, **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func, self.targetoptions, self._options = function, {"inline": inline}, options
        self._kept, self._once, self._called = kept, once, False

    def __call__(self, *args: Any) -> Any:
        if self._called:
            return self.dispatcher(*args)
        if not enabled():
            with np.errstate(all="ignore"):  # as in compiled code
                return self.py_func(*args)
        with compiling(self.py_func):
            result = self._call_first(*args)
        self._called = True
        return result

    @_with_room
    def _call_first(self, *args: Any) -> Any:
        try:
            return self.dispatcher(*args)
        except OSError as error:  # the compiled code cannot be stored
            tell_not_kept(str(error.filename2 or error.filename or cache_folder()),
                          error.strerror or str(error))
            self.dispatcher = _njit(self.py_func, **self._options)
            return self.dispatcher(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python looks for, but does not need
            raise AttributeError(name)
        return getattr(self._inner if name == "_numba_type_" else self.dispatcher, name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self.py_func.__qualname__
        made = _made, (self.py_func, {**self.targetoptions, "kept": self._kept,
                                      "once": self._once, **self._options})
        return made if "<locals>" in name else name  # others can be imported

    @cached_property
    def dispatcher(self) -> Any:
        """What Python calls."""
        make = partial(cached, make=_njit) if self._kept else _njit
        made = make(self.py_func, **self._options)
        _kernels.append(made)
        return made

    @cached_property
    def _inner(self) -> Any:
        """What kernels call, which needs no wrapper for Python, and no cache of its own."""
        if self.targetoptions["inline"] == "always":
            return _njit(self.py_func, inline="always")
        if self._once:
            _is_stored(self.py_func)  # the kernel that is compiled looks at its own files only
            return self.dispatcher
        return _njit(self.py_func, no_cpython_wrapper=True, **self._options)


def _made(function: Callable[..., Any], options: dict[str, Any]) -> Kernel:
    return Kernel(function, **options)


def _njit(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    decorator: Any = numba.njit  # whose type hints do not cover all options
    return decorator(**_OPTIONS, **options)(function)


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called; what Python calls is cached on disk."""
    return Kernel(kernel)


def in_place(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no arrays, without counting references to its arguments."""
    return Kernel(kernel, _nrt=False)


def anywhere(kernel: Callable[..., Any], kept: bool = True) -> Any:
    """Compile a kernel as `in_place` does, but only once for Python and for kernels.

    Unless `kept`, it is not cached on disk.
    """
    return Kernel(kernel, kept=kept, once=True, _nrt=False)


def inlined(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel only as part of its callers, for short ones."""
    return Kernel(kernel, "always")


class _Row(np.record):  # type: ignore[misc]
    """A row whose fields are read by name, as in compiled code, also those such as ``size``."""

    def __getattribute__(self, name: str) -> Any:
        fields = np.record.__getattribute__(self, "dtype").fields
        return self[name] if name in fields else np.record.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def row_type(fields: list[tuple[str, str]]) -> np.dtype[Any]:
    """Return the type of rows with these fields, which are read as ``rows[k].field``.

    Not compiled, too, so that kernels are also Python.
    """
    return np.dtype((_Row, np.dtype(fields, align=True)))


class Direct:
    """Calls a compiled kernel without Numba's check of the types of all arguments.

    For named tuples of arrays, this check takes longer than many kernels.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._entry: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the kernel.

        All calls must have exactly the same types, whether float or int, and only contiguous
        arrays: nothing checks it.
        """
        if self._entry is not None:
            try:
                return self._entry(*args)
            except TypeError as error:
                # Numba loses Ctrl-C that arrives while it takes a rule as an argument.
                if "_get_wrapper_address" in str(error):
                    raise KeyboardInterrupt from error
                raise
        returned = self.kernel(*args)
        if enabled():
            from numba import typeof

            self._entry = self.kernel.get_overload(tuple(map(typeof, args)))
        return returned


# --- while Numba compiles ------------------------------------------------------------------

#: Thresholds of Python's garbage collector meanwhile.
_RARELY = 1_000_000, 20, 100


@contextmanager
def compiling(function: Callable[..., Any]) -> Iterator[bool]:
    """Let Numba compile a function in this context, undisturbed by Ctrl-C and SIGTERM.

    These are handled at the end: half-compiled code could never be called. As Numba compiles what
    is called, its first execution is within this context, too. The user is told, unless the code is
    on disk, which the context says.
    """
    import numba

    config: Any = numba.config
    with _settings:
        stored = _is_stored(function)
        told = not stored and (function.__module__ or "").startswith("netsim.")
        before, level = gc.get_threshold(), config.OPT
        with _signals_held():
            if told:
                display.begun()
            if before[0]:
                gc.set_threshold(*_RARELY)
            # At Numba's level, 3, kernels take 1.15 times as long to compile, and as long to run.
            config.OPT = type(level)(1)
            try:
                yield stored
            finally:
                config.OPT = level
                gc.set_threshold(*before)
                if told:
                    display.ended()
        _seal_new()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Call the handlers of signals that arrive in this context at its end."""
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: each for number, each in found.items() if callable(each)}
    if not handlers or threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[Any, Any]] = []
    holds = True

    def hold(number: Any, frame: Any) -> None:
        if holds:
            pending.append((number, frame))
        else:  # a handler raised an exception while others were put back
            handlers[number](number, frame)

    def release() -> None:
        nonlocal holds
        holds = False
        for arrived, frame in pending:
            handlers[arrived](arrived, frame)

    # A stack calls everything, whatever a handler raises while it is being put back.
    with ExitStack() as stack:
        stack.callback(release)
        for number, handler in handlers.items():
            stack.callback(signal.signal, number, handler)
            signal.signal(number, hold)
        yield


# --- files ---------------------------------------------------------------------------------
def cached(function: Callable[..., Any], make: Callable[..., Any], **options: Any) -> Any:
    """Have Numba make compiled code of a function and keep it; see `cache_folder`.

    What cannot be stored is compiled again in the next process.
    """
    import numba

    config: Any = numba.config
    with _settings:
        before, folder = config.CACHE_DIR, cache_folder()
        try:
            # Else Numba would keep it beside the source, where changes of callees go unseen.
            folder.mkdir(parents=True, exist_ok=True)
            config.CACHE_DIR = str(folder)
            return make(function, cache=True, **options)
        except ImportError:  # it calls a function of a module that no file has
            return make(function, **options)
        except (RuntimeError, OSError) as error:
            tell_not_kept(str(folder), getattr(error, "strerror", None) or str(error))
            return make(function, **options)
        finally:
            config.CACHE_DIR = before


@cache
def tell_not_kept(path: str, reason: str) -> None:
    """Warn, once, that compiled kernels cannot be stored."""
    warnings.warn(NetsimWarning(
        f"compiled kernels cannot be stored in {path}: {reason}; each process compiles them again, "
        "which takes about 30 s, unless NUMBA_CACHE_DIR names another folder"), stacklevel=2)


def _files_of(function: Callable[..., Any]) -> Iterator[Path]:
    """Yield the files in which Numba keeps the compiled code of a function."""
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    yield from cache_folder().glob(
        f"*/{glob.escape(re.sub('[<>]', '', name))}-{function.__code__.co_firstlineno}.*.nb?")


def seal(function: Callable[..., Any]) -> None:
    """Store the digests of the files of a function: if damaged, machine code might do anything."""
    for path in _files_of(function):
        with suppress(OutputError), atomic_write(_sum_of(path)) as temporary:
            temporary.write_bytes(_digest(path))


@atexit.register
def _seal_new() -> None:
    """Seal what has been compiled since, for other kernels or for more types."""
    for kernel in _kernels:
        misses = kernel.stats.cache_misses.total()
        if misses > _sealed.get(kernel, 0):
            _sealed[kernel] = misses
            seal(kernel.py_func)


def _is_stored(function: Callable[..., Any]) -> bool:
    """Whether there are files of a function; damaged ones are removed."""
    files = [*_files_of(function)]
    with suppress(OSError):
        if all(_sum_of(path).exists() and _read(_sum_of(path)) == _digest(path)
               for path in files):
            return len(files) > 0
        for path in files:
            _sum_of(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    return False


def _sum_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _digest(path: Path) -> bytes:
    return hashlib.sha256(_read(path)).hexdigest().encode()


def _read(path: Path) -> bytes:
    return path.read_bytes()
