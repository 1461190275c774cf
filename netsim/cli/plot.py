"""netsim plot and netsim report."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.completion import folders, pictures
from netsim.cli.options import check_picture_file, echo, tell_replaced


@click.command()
@click.argument("folder", type=click.Path(), shell_complete=folders)
@click.option("--kind", metavar="KIND", shell_complete=pictures,
              help="For a run: timeline (default), gantt, cdf, slowdown, utilisation, on a "
                   "cluster also gpus, usage. For a comparison: bars (default), cdf, classes, "
                   "slowdown, timeline, utilisation, on a cluster also usage. For a sweep: sweep "
                   "(lines, default if a number was varied), bars, cdf, scatter.")
@click.option("--of", metavar="WHAT",
              help="What to draw. For cdf: jct (default) or cct. For gantt: coflows (default), "
                   "ranks, or training on an edge-cloud. For utilisation: links (default, "
                   "if there are any) or workers of an edge-cloud. For usage: GPUs held (default) "
                   "or, in a comparison, running; or only jobs waiting. For timeline, one panel: "
                   "jobs, coflows, training or decisions. For bars, lines and dots of a sweep, the "
                   "metric: over_lower_bound (default), jct_total_s, jct_p95_s, ...")
@click.option("--between", nargs=2, metavar="TIME TIME",
              help="For pictures over time: the time to draw, as in 1s 2s.")
@click.option("--x", metavar="KEY",
              help="For lines and dots of a sweep: the varied setting on the x axis.")
@click.option("--y", metavar="KEY", help="For dots of a sweep: the setting on the y axis.")
@click.option("--hue", metavar="KEY",
              help="For a sweep: the varied setting that colours show; by default the policy.")
@click.option("--col", metavar="KEY",
              help="For a sweep: the varied setting with one panel for each value, side by side.")
@click.option("--row", metavar="KEY", help="Same as --col, with panels one below the other.")
@click.option("--style", metavar="KEY",
              help="For lines of a sweep: the varied setting that dashes show.")
@click.option("--out", "files", multiple=True, type=click.Path(), metavar="FILE",
              help="Write a .pdf, .png or .svg. May be given several times. By default "
                   "FOLDER/KIND.pdf, with the options --of, --x, ... in its name.")
def plot(folder: str, kind: str | None, of: str | None, files: tuple[str, ...],
         between: tuple[str, str] | None, **roles: str | None) -> None:
    """Draw the results in FOLDER, of a run, a comparison or a sweep."""
    from netsim.plots.bars import save_plot
    from netsim.plots.pictures import (
        PICTURES,
        check_picture,
        default_kind,
        draw_picture,
        roles_given,
    )
    from netsim.results.store import folder_names
    from netsim.studies.comparison import kind_of_folder, load_folder

    what = kind_of_folder(folder)
    if what == "sweep":  # its default depends on its numbers; loading it reads no table of a run
        kind = kind or default_kind(load_folder(folder), what)
    name, _ = check_picture(kind, what, of)
    given = roles_given(what, roles)
    # Pictures with other options have other names.
    title = " ".join([kind or name, *filter(None, [of]), *(between or ()),
                      *(f"{role}={key}" for role, key in given.items())])
    for path in (outs := files or (str(Path(folder) / f"{folder_names([title])[0]}.pdf"),)):
        check_picture_file(path, "--out")
    picture = PICTURES[what][name]
    results = load_folder(folder, tables=[*picture.of.values()])
    ax = draw_picture(results, kind, what, of, None, between=between, **roles)
    for path in outs:
        save_plot(ax, path)
        echo(f"picture: {path}")


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
    from netsim.base.tables import read_csv
    from netsim.plots.report import save_report
    from netsim.studies.comparison import load_folder

    results = load_folder(folder)
    claims = Path(folder) / "claims.csv"
    target = out or Path(folder) / "report.html"
    tell_replaced(target, "--out")
    page = save_report(results, target,
                       read_csv(claims) if claims.is_file() else None, title)
    echo(f"report: {page}")
