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
def report(folder: str, out: str | None) -> None:
    """Write the sweep or reproduction in FOLDER as one self-contained HTML page."""
    from netsim.plots.report import save_report
    from netsim.results.csv import read_csv
    from netsim.studies.sweep_result import load_sweep

    sweep = load_sweep(folder)
    claims = Path(folder) / "claims.csv"
    page = save_report(sweep, out or Path(folder) / "report.html",
                       read_csv(claims) if claims.is_file() else None)
    echo(f"report: {page}")
