"""Output of commands with control characters escaped, as names may contain any text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from netsim.text import visible

if TYPE_CHECKING:
    import pandas as pd

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo(message: object, *, err: bool = False) -> None:
    """Print lines of text, with characters that are not printable escaped."""
    click.echo(visible(message, lines=True), err=err)


def echo_json(found: pd.DataFrame | dict[str, Any]) -> None:
    """Print JSON: a list with an object for each row of a table, or one object."""
    click.echo(json.dumps(found, indent=1, default=str) if isinstance(found, dict) else
               found.to_json(orient="records", indent=1, double_precision=15))
