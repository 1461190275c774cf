"""A progress bar on a terminal, and silence without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from netsim.text import visible

__all__ = ["show_progress", "show_runs"]


@contextmanager
def show_progress(progress: bool | Callable[[int, int], None], total: int,
                  label: str = "coflows") -> Iterator[Callable[[int, int], None]]:
    """Give a function to report progress to: ``report(done, total)``.

    Parameters
    ----------
    progress : bool or callable
        Whether to draw a bar on standard error, if that is a terminal; or the function to
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
        Whether to draw a bar on standard error, if that is a terminal, with runs done, failed,
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
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, emoji=False)
    with Progress(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                  TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn(),
                  console=console,
                  transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(visible(label), total=total, note="")
        yield lambda done, total, note: bar.update(task, completed=done, total=total, note=note)
