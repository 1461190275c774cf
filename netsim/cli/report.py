"""``netsim report``."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.echo import echo

__all__ = ["report"]


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--out", type=click.Path(), metavar="FILE",
              help="FOLDER/report.html by default.")
@click.option("--title", help="By default the experiment's name.")
def report(folder: str, out: str | None, title: str | None) -> None:
    """Write the run, comparison, sweep or reproduction in FOLDER as one self-contained HTML page.

    Policies can be hidden in its figures, and timelines zoomed.
    """
    from netsim.plots.report import save_report
    from netsim.results.csv import read_csv
    from netsim.studies.folders import load_folder

    results = load_folder(folder)
    claims = Path(folder) / "claims.csv"
    page = save_report(results, out or Path(folder) / "report.html",
                       read_csv(claims) if claims.is_file() else None, title)
    echo(f"report: {page}")
