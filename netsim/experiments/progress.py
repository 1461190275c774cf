"""A progress bar on a terminal, and silence without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["show_progress"]


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
        return
    if callable(progress):
        yield progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)
