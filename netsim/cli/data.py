"""``netsim data``."""

from __future__ import annotations

from dataclasses import asdict

import click

from netsim.cli.completion import named
from netsim.cli.echo import JSON, echo, echo_json


@click.group()
def data() -> None:
    """List and fetch public traces and tables. They are not part of netsim."""


@data.command("list")
@JSON
def list_data(as_json: bool) -> None:
    """List the public traces and tables, with source, licence and digest."""
    from netsim.traces.public import PUBLIC_TRACES

    if as_json:
        echo_json({name: asdict(trace) for name, trace in PUBLIC_TRACES.items()})
        return
    width = max(map(len, PUBLIC_TRACES))
    for name, trace in PUBLIC_TRACES.items():
        echo(f"{name:<{width}}  {trace.file}, {trace.summary}")
        for label, value in (("source", trace.url), ("licence", trace.licence),
                             ("sha256", trace.sha256)):
            echo(f"{'':<{width}}  {label:<7}  {value}")


@data.command()
@click.argument("name", shell_complete=named("public traces"))
@click.option("--to", "folder", type=click.Path(), metavar="FOLDER",
              help="Write the files to this folder; by default the user's cache.")
@click.option("--from", "source", metavar="URL",
              help="Mirror: the URL of a folder that has the files under the same names.")
def fetch(name: str, folder: str | None, source: str | None) -> None:
    """Download a public trace or a set of tables, and print its path.

    What is there already is not downloaded again. Files are accepted only with the digest in
    netsim data list. Needs the extra data.
    """
    from netsim.traces.public import fetch as fetched

    echo(fetched(name, folder, source=source))
