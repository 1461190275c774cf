"""Detect whether a person sees the output, so that long operations report progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_quiet = False


def watched() -> bool:
    """Whether a person sees what is written to standard error."""
    return on_terminal() or in_notebook()


def is_quiet() -> bool:
    """Whether nothing is reported: see `unwatched`."""
    return _quiet


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
