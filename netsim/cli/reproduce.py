"""``netsim reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import EXIT_FAILED, seeds_of

__all__ = ["reproduce"]


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List all reproductions.")
@click.option("--seeds", metavar="N", default="10", show_default=True,
              help="Number of seeds, or a list of seeds, as in 3,5,8.")
@click.option("--trace", type=click.Path(), metavar="FILE",
              help="The real trace. By default, a trace is drawn with the same characteristics. "
                   "For accuracy-..., the folder with the published table to compare with.")
@click.option("-j", "--workers", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of processes.")
@click.option("--resume/--no-resume", default=True, show_default=True,
              help="Keep existing runs, or remove them and start again.")
@click.option("--out", type=click.Path(), metavar="FOLDER",
              help="Folder of the runs and results; by default reproductions/<name>.")
@click.option("--page", type=click.Path(), metavar="FILE",
              help="Also write the tables into a Markdown page, at the places that it has for "
                   "them.")
@JSON
@click.pass_context
def reproduce(ctx: click.Context, name: str | None, listed: bool, seeds: str, trace: str | None,
              workers: int, resume: bool, out: str | None, page: str | None,
              as_json: bool) -> None:
    """Reproduce a figure of a paper, and check the paper's claims.

    A second call computes only the runs that are missing. The exit code is 1 if a run failed.
    """
    from netsim.cli.sweep_tables import print_claims, print_failures
    from netsim.plots.bars import check_plottable, save_plot
    from netsim.reproductions import REPRODUCTIONS, find_reproduction
    from netsim.reproductions.page import fill_page

    if listed or name is None:
        titles = {each.name: each.title for each in REPRODUCTIONS.values()}
        if as_json:
            echo_json(titles)
        else:
            for each, title in titles.items():
                echo(f"{each:<22}  {title}")
        return
    found = find_reproduction(name)
    folder = Path(out or f"reproductions/{name}")
    figure = folder / f"{name}.pdf"
    check_plottable(figure)
    done = found.run(seeds=seeds_of(seeds), trace=trace, workers=workers, folder=folder,
                     resume=resume, progress=True)
    if done.sweep is not None:
        print_failures(done.sweep)
    if len(done.table):
        if as_json:
            echo_json(done.claims)
        else:
            print_claims(done.claims)
        ax = done.draw()
        for path in (figure, figure.with_suffix(".png")):
            save_plot(ax, path)
        if not as_json:
            echo(f"results: {folder}\npicture: {figure}")
        if page is not None:
            shown = done.claims[["claim", "paper", "measured", "verdict"]]
            fill_page(page, name, {"claims": shown, **done.tables})
    failed = done.sweep is not None and len(done.sweep.failures)
    ctx.exit(EXIT_FAILED if failed else 0)
