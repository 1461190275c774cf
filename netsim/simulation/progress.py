"""Progress reports: a bar on a terminal, a line in a notebook, nothing in other output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from netsim.base.display import in_notebook, on_terminal
from netsim.base.values import as_flag
from netsim.text import visible

#: Seconds between two updates of a line.
_REFRESH_S = 0.2


def check_progress(progress: Any) -> None:
    """Check that `progress` is true, false or None, or a function."""
    if progress is not None and not callable(progress):
        as_flag(progress, "progress, unless it is a function,")


@contextmanager
def show_progress(progress: bool | Callable[[int, int], None], total: int,
                  label: str = "coflows") -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``report(done, total)`` that shows the progress of a run.

    If `progress` is true, a bar is drawn on standard error if that is a terminal or a notebook; a
    function is called instead. `label` names the items, in the plural.
    """
    check_progress(progress)
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
    """Yield a function ``report(failed)`` to call after each run; it shows the progress.

    A bar has the numbers of runs done and failed, their rate and the time left; see
    `show_progress`. A function is called with the numbers of runs done, failed, and in total.
    `done` counts the runs that had been done before.
    """
    check_progress(progress)
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
    """Yield a function that overwrites a status line, which is removed at the end."""
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

    console = Console(stderr=True, emoji=False)
    bar = Progress(TextColumn("{task.description}", markup=False), BarColumn(),
                   MofNCompleteColumn(), TextColumn("{task.fields[note]}", markup=False),
                   TimeRemainingColumn(), console=console, transient=True)
    try:  # Ctrl-C may come while the bar starts or stops: `with` would leave the cursor hidden
        bar.start()
        task = bar.add_task(visible(label), total=total, note="")
        yield lambda done, total, note: bar.update(task, completed=done, total=total, note=note)
    finally:
        try:
            bar.stop()
        finally:
            console.show_cursor()
