"""``netsim report``."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.completion import folders
from netsim.cli.echo import echo
from netsim.cli.options import tell_replaced


@click.command()
@click.argument("folder", type=click.Path(), shell_complete=folders)
@click.option("--out", type=click.Path(), metavar="FILE",
              help="File to write; by default FOLDER/report.html.")
@click.option("--title", help="Title of the page; by default the name of the experiment.")
def report(folder: str, out: str | None, title: str | None) -> None:
    """Write the results in FOLDER as one HTML page.

    FOLDER is that of a run, a comparison, a sweep or a reproduction. The page needs no other file.
    In its figures you can hide policies, and zoom into timelines.
    """
    from netsim.plots.report import save_report
    from netsim.results.csv import read_csv
    from netsim.studies.folders import load_folder

    results = load_folder(folder)
    claims = Path(folder) / "claims.csv"
    target = out or Path(folder) / "report.html"
    tell_replaced(target, "--out")
    page = save_report(results, target,
                       read_csv(claims) if claims.is_file() else None, title)
    echo(f"report: {page}")
