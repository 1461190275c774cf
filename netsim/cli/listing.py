"""``netsim list``."""

from __future__ import annotations

from typing import Any

import click

from netsim.cli.completion import of_kind
from netsim.cli.echo import JSON, echo, echo_json
from netsim.errors import UnknownNameError

KINDS = {
    "allocators": "which bandwidth each flow gets",
    "schedulers": "which job starts when, on GPUs or at the edge",
    "placements": "which GPUs a job gets",
    "executions": "how the jobs of a cluster run once they are placed",
    "transports": "how data reaches the workers of an edge-cloud",
    "predictors": "how long jobs will run",
    "patterns": "what the ranks of a job send to each other",
    "formats": "files of workloads",
    "models": "neural networks that jobs train",
    "gpus": "kinds of GPUs on which they compute",
    "llms": "large language models, whose training is generated",
    "topologies": "kinds of networks, and ready-made ones",
    "workloads": "ready-made workloads and experiments",
}


class _Kind(click.Choice[str]):
    """A kind of things; an unknown one is refused like every other unknown name."""

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> str:
        if value not in KINDS:
            raise UnknownNameError("kind", value, KINDS)
        return str(value)


@click.command("list")
@click.argument("kind", type=_Kind(KINDS), metavar="[KIND]", required=False)
@click.argument("name", required=False, shell_complete=of_kind)
@JSON
def listing(kind: str | None, name: str | None, as_json: bool) -> None:
    """List kinds of things, names of a kind, or options of a name."""
    from netsim.cli.options import find_own_modules

    find_own_modules()
    found: dict[str, Any] = KINDS
    if kind is not None:
        from netsim.experiment_file.catalogue import catalogue, details

        found = catalogue(kind) if name is None else details(kind, name)
    if as_json:
        echo_json(found)
    elif name is None:
        _table(found)
    else:
        _describe(found)


def _describe(found: dict[str, Any]) -> None:
    """Print the summary of a name, its options with their defaults, and its documentation."""
    echo(f"{found['name']}: {found['summary']}")
    if found.get("options"):
        echo("\noptions, and their defaults:")
        _table(found["options"], "  ")
    if found.get("doc"):
        echo(f"\n{found['doc']}")


def _table(rows: dict[str, Any], margin: str = "") -> None:
    """Print names and their descriptions, in two columns."""
    from netsim.text import visible

    width = max(map(len, rows))
    for name, text in rows.items():
        echo(f"{margin}{name:<{width}}  {visible(str(text))}")
