"""Whether a person is watching: then what takes long says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["in_notebook", "on_terminal", "unwatched", "watched"]

_quiet = False


def watched() -> bool:
    """Say whether a person sees what is written to standard error."""
    return on_terminal() or in_notebook()


def on_terminal() -> bool:
    """Say whether standard error is a terminal."""
    return not _quiet and sys.stderr is not None and sys.stderr.isatty()


def in_notebook() -> bool:
    """Say whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return not _quiet and getattr(shell, "kernel", None) is not None


@contextmanager
def unwatched() -> Iterator[None]:
    """Say nothing in here, as nobody wants to hear it."""
    global _quiet
    before, _quiet = _quiet, True
    try:
        yield
    finally:
        _quiet = before
