"""Ctrl-C within kernels."""

from __future__ import annotations


def check_signals() -> None:
    """Let Python handle signals that have arrived; if that raises, leave all kernels unfinished.

    Python itself does so only between two of its own instructions. For loops of kernels that may
    take long; a check takes as long as a few additions.
    """
