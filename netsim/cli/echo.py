"""Output of commands with control characters escaped, as names may contain any text."""

from __future__ import annotations

import click

from netsim.text import visible

__all__ = ["echo"]


def echo(message: object, *, err: bool = False) -> None:
    """Print lines of text, with characters that are not printable escaped.

    Parameters
    ----------
    message : object
        Its string is printed.
    err : bool
        On standard error.
    """
    click.echo(visible(message, lines=True), err=err)
