"""``netsim plot``."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.echo import echo

__all__ = ["plot"]


@click.command()
@click.argument("folder", type=click.Path())
@click.option("--kind", metavar="KIND",
              help="Of a run: timeline (by default), gantt, cdf, slowdown, utilisation; on a "
                   "cluster also gpus, usage. Of a comparison: bars (by default), cdf, classes, "
                   "slowdown, timeline, utilisation, on a cluster also usage. "
                   "Of a sweep: bars (by default), sweep, cdf, scatter.")
@click.option("--of", metavar="WHAT",
              help="What a cdf is of: jct (by default) or cct. What utilisation is of: links (by "
                   "default, if there are any) or workers of an edge-cloud. What the usage in a "
                   "comparison is of: GPUs held (by default) or running. Of a sweep's bars, "
                   "lines and dots the metric: over_lower_bound (by default), jct_total_s, "
                   "jct_p95_s, ...")
@click.option("--x", metavar="KEY",
              help="Of a sweep's lines and dots, the varied setting along the axis.")
@click.option("--y", metavar="KEY", help="Of a sweep's dots, the setting up the other axis.")
@click.option("--hue", metavar="KEY",
              help="Of a sweep, the varied setting that colours stand for; the policy by default.")
@click.option("--col", metavar="KEY",
              help="Of a sweep, the varied setting whose values have a panel each, side by side.")
@click.option("--row", metavar="KEY", help="The same, one below the other.")
@click.option("--style", metavar="KEY",
              help="Of a sweep's lines, the varied setting that dashes stand for.")
@click.option("--out", "files", multiple=True, type=click.Path(), metavar="FILE",
              help="A .pdf, .png or .svg; any number of times. FOLDER/KIND.pdf by default.")
def plot(folder: str, kind: str | None, of: str | None, files: tuple[str, ...],
         **roles: str | None) -> None:
    """Draw the results in FOLDER, of a run, a comparison or a sweep."""
    from netsim.plots.bars import check_plottable, save_plot
    from netsim.plots.pictures import PICTURES, check_picture, draw_picture, roles_given
    from netsim.studies.folders import kind_of_folder, load_folder

    what = kind_of_folder(folder)
    name, _ = check_picture(kind, what, of)
    roles_given(what, roles)
    for path in (outs := files or (str(Path(folder) / f"{kind or name}.pdf"),)):
        check_plottable(path)
    picture = PICTURES[what][name]
    results = load_folder(folder, tables=(*picture.of.values(), *picture.also))
    ax = draw_picture(results, kind, what, of, **roles)
    for path in outs:
        save_plot(ax, path)
        echo(f"picture: {path}")
