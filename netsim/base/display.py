"""What people are shown: the progress of long work, what is being compiled, and plots."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- who looks on --------------------------------------------------------------------------

_quiet = False


def watched() -> bool:
    """Whether a person sees what is written to standard error."""
    return on_terminal() or in_notebook()


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    return not _quiet and sys.stderr is not None and sys.stderr.isatty()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return not _quiet and getattr(shell, "kernel", None) is not None


@contextmanager
def unwatched() -> Iterator[None]:
    """Suppress progress reports in this context."""
    global _quiet
    before, _quiet = _quiet, True
    try:
        yield
    finally:
        _quiet = before


# --- what is being compiled ----------------------------------------------------------------

#: The environment variable that silences these reports.
QUIET = "NETSIM_QUIET"

#: A pause of this many seconds ends what is reported as one compilation.
_PAUSE = 1.0

#: What this process compiles for, in messages.
_FOR: ContextVar[str] = ContextVar("compiled_for", default="")

#: The file by which several processes agree on the one that reports.
_marker: Path | None = None


@dataclass
class _Compilation:
    """Kernels that are compiled one after the other."""

    began: float
    shown: bool
    open: int = 0
    count: int = 0
    last: float = 0.0
    timer: threading.Timer | None = None


_now: _Compilation | None = None


@contextmanager
def telling_for(what: str) -> Iterator[None]:
    """Name in messages what kernels are compiled for meanwhile, as in ``"allocator sebf"``."""
    before = _FOR.set(what)  # what is compiled afterwards is not for it
    try:
        yield
    finally:
        _FOR.reset(before)


def tell_once_by(path: Path) -> None:
    """Make only one of several processes report compilations: the one that creates `path`."""
    global _marker
    _marker = path


def begun() -> None:
    """Report that a kernel is compiled, if it is the first for a while."""
    global _now
    now = _now  # a timer may end it at any time
    if now is None:
        now = _now = _Compilation(time.perf_counter(), _may_tell())
        if now.shown:
            what = _FOR.get()
            _say(f"netsim: compiling{' for ' * bool(what)}{what}, once; this takes about 30 s\n")
    now.open += 1
    if now.timer is not None:
        now.timer.cancel()


def ended() -> None:
    """Count a compiled kernel; the end is reported if no other one follows."""
    now = _now
    if now is None:
        return
    now.open -= 1
    now.count += 1
    now.last = time.perf_counter()
    if now.shown and watched():
        _say(f"\rnetsim: {_done(now)}")
    if now.open == 0:
        now.timer = threading.Timer(_PAUSE, flush, [now])
        now.timer.daemon = True
        now.timer.start()


def flush(which: _Compilation | None = None) -> None:
    """Report what was compiled, unless that has been reported; or another one than `which` runs."""
    global _now
    if which is not None and which is not _now:
        return
    done, _now = _now, None
    if done is not None and done.shown and done.count:
        _say(f"{chr(13) * watched()}netsim: {_done(done)}\n")


atexit.register(flush)


def _done(made: _Compilation) -> str:
    return f"compiled {made.count} functions in {made.last - made.began:.0f} s"


def _may_tell() -> bool:
    if _quiet or sys.stderr is None or os.environ.get(QUIET, "") not in ("", "0"):
        return False
    if _marker is not None:
        try:
            _marker.touch(exist_ok=False)
        except OSError:  # another process was first
            return False
    return True


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


# --- plots ---------------------------------------------------------------------------------
def draw(thing: Any, kind: str | None, what: str, of: str | None = None, ax: Axes | None = None,
         **more: Any) -> Axes:
    """Draw a result, a comparison, a sweep, a network or a workload.

    See `netsim.plots.pictures.draw_picture`. Plots are imported by name when one is drawn, as
    pandas imports its plotting backend: plots depend on what they draw, which must not depend on
    plots.
    """
    axes: Axes = import_module("netsim.plots.pictures").draw_picture(
        thing, kind, what, of, ax, **more)
    return axes
