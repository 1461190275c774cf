"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["experiment_options", "overrides"]


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what `run` and `compare` take alike."""
    for option in reversed((
        click.argument("experiment"),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     help="Replace a setting of the file, as in network.capacity=40Gbps."),
        click.option("--seed", type=click.IntRange(min=0), help="The same as --set seed=N."),
        click.option("--out", type=click.Path(), metavar="FOLDER",
                     help="Where the results go; runs/<name>-<hash> by default. "
                          "Earlier results there are replaced."),
        click.option("--quiet", is_flag=True,
                     help="Print the folder of the results and nothing else."),
    )):
        command = option(command)
    return command


def overrides(settings: tuple[str, ...], seed: int | None) -> list[str]:
    """Return all settings of the command line as overrides of the file."""
    return [*settings, *([] if seed is None else [f"seed={seed}"])]
