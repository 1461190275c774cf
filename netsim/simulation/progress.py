"""A progress bar on a terminal, a line in a notebook, and silence where nobody is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from netsim.text import visible
from netsim.watching import in_notebook, on_terminal

__all__ = ["show_progress", "show_runs"]

#: Seconds between two updates of a line.
_REFRESH_S = 0.2


@contextmanager
def show_progress(progress: bool | Callable[[int, int], None], total: int,
                  label: str = "coflows") -> Iterator[Callable[[int, int], None]]:
    """Give a function to report progress to: ``report(done, total)``.

    Parameters
    ----------
    progress : bool or callable
        Whether to draw a bar on standard error, if a person is watching; or the function to
        report to.
    total : int
        How much there is to do.
    label : str
        What is counted.
    """
    if not progress:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    else:
        with _bar(label, total) as draw:
            yield lambda done, total: draw(done, total, "")


@contextmanager
def show_runs(progress: bool | Callable[[int, int, int], None], total: int, done: int
              ) -> Iterator[Callable[[bool], None]]:
    """Give a function to tell of each run that has ended, and whether it failed.

    Parameters
    ----------
    progress : bool or callable
        Whether to draw a bar on standard error, if a person is watching, with runs done, failed,
        rate and time left; or the function to call with the runs done, failed, and in total.
    total, done : int
        How many there are, and how many were there before.
    """
    if not progress:
        yield lambda failure: None
    elif callable(progress):
        yield _count(done, lambda done, failed: progress(done, failed, total))
    else:
        with _bar("runs", total) as draw:
            started, before = time.monotonic(), done

            def tell(done: int, failed: int) -> None:
                rate = (done + failed - before) / max(time.monotonic() - started, 1e-9)
                draw(done + failed, total, f"{failed} failed, {rate:.2g} runs/s")

            draw(done, total, "")
            yield _count(done, tell)


def _count(done: int, tell: Callable[[int, int], None]) -> Callable[[bool], None]:
    failed = 0

    def report(failure: bool) -> None:
        nonlocal done, failed
        done, failed = done + (not failure), failed + failure
        tell(done, failed)

    return report


@contextmanager
def _bar(label: str, total: int) -> Iterator[Callable[[int, int, str], None]]:
    if on_terminal():
        with _drawn(label, total) as draw:
            yield draw
    elif in_notebook():
        with _written(label) as draw:
            yield draw
    else:
        yield lambda done, total, note: None


@contextmanager
def _written(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Give a function that writes one line over and over; it is gone at the end."""
    written_s, length = -_REFRESH_S, 0

    def write(text: str) -> None:
        nonlocal length
        sys.stderr.write("\r" + text.ljust(length))
        sys.stderr.flush()
        length = len(text)

    def draw(done: int, total: int, note: str) -> None:
        nonlocal written_s
        if time.monotonic() >= written_s + _REFRESH_S:
            written_s = time.monotonic()
            write(f"{label} {done:,}/{total:,}  {note}".rstrip())

    try:
        yield draw
    finally:
        write("")
        write("\r")


@contextmanager
def _drawn(label: str, total: int) -> Iterator[Callable[[int, int, str], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                  TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn(),
                  console=Console(stderr=True, emoji=False), transient=True) as bar:
        task = bar.add_task(visible(label), total=total, note="")
        yield lambda done, total, note: bar.update(task, completed=done, total=total, note=note)
