"""What commands print, but for tables: without control characters, whatever things are called."""

from __future__ import annotations

import click

from netsim.text import visible

__all__ = ["echo"]


def echo(message: object, *, err: bool = False) -> None:
    """Print a line, or several, with all else that is not printable escaped.

    Parameters
    ----------
    message : object
        Its string is printed.
    err : bool
        On standard error.
    """
    click.echo(visible(message, lines=True), err=err)
