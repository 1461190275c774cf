"""``netsim reproduce``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.base.lazy import pd
from netsim.cli.completion import named
from netsim.cli.options import EXIT_FAILED, JSON, check_picture_file, echo, echo_json, seeds_of
from netsim.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from netsim.reproductions.ledger import Paper, Statement
    from netsim.reproductions.reproduction import Reproduced


@click.command()
@click.argument("name", required=False, shell_complete=named("reproductions"))
@click.option("--list", "listed", is_flag=True, help="List all papers and reproductions.")
@click.option("--rows", is_flag=True,
              help="List what the paper says, statement by statement, with the values that were "
                   "measured and the verdicts; without NAME, of all papers. Nothing is run.")
@click.option("--row", "ids", multiple=True, metavar="ID",
              help="Run only what this statement of the paper needs. May be given several times.")
@click.option("--seeds", metavar="N",
              help="Number of seeds, or a list of seeds, as in 3,5,8; by default as many as the "
                   "reproduction is meant to have, mostly 10.")
@click.option("--trace", type=click.Path(), metavar="FILE",
              help="The real trace. By default, a trace is drawn with the same characteristics. "
                   "For accuracy-..., the folder with the published table to compare with.")
@click.option("-j", "--workers", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of processes.")
@click.option("--resume/--no-resume", default=True, show_default=True,
              help="Keep existing runs, or remove them and start again.")
@click.option("--out", type=click.Path(), metavar="FOLDER",
              help="Folder of the runs and results; by default reproductions/<name>. Those of a "
                   "paper are in folders within it.")
@click.option("--keep", is_flag=True,
              help="Also replace the values that netsim ships with the new ones.")
@click.option("--page", type=click.Path(), metavar="FILE",
              help="Also write the tables into a Markdown page, at the places that it has for "
                   "them.")
@JSON
@click.pass_context
def reproduce(ctx: click.Context, name: str | None, listed: bool, rows: bool,
              ids: tuple[str, ...], as_json: bool, page: str | None, out: str | None,
              **options: Any) -> None:
    """Reproduce a paper, or a figure, and check what it says.

    NAME is a paper (parrot, sjf-bco, a-srpt, a-online), of which all settings run, or one of the
    reproductions that --list shows. A second call computes only the runs that are missing. The exit
    code is 1 if a run failed.
    """
    from netsim.reproductions import PAPERS

    if rows:
        _print_rows({name: _paper(name)} if name else PAPERS, as_json, page)
        return
    if listed or name is None:
        _print_names(as_json)
        return
    if ids:
        failed = [_run_row(_paper(name), each, as_json, out, **options) for each in ids]
    elif name in PAPERS:
        # Not all settings are made from a trace.
        failed = [_run(each, as_json, page, Path(out or "reproductions") / each,
                       **options | ({} if found.takes_trace else {"trace": None}))
                  for each, found in PAPERS[name].reproductions.items()]
    else:
        failed = [_run(name, as_json, page, Path(out or f"reproductions/{name}"), **options)]
    ctx.exit(EXIT_FAILED if any(failed) else 0)


def _paper(name: str) -> Paper:
    from netsim.reproductions import PAPERS

    if name not in PAPERS:
        raise UnknownNameError("paper", name, PAPERS)
    return PAPERS[name]


def _print_names(as_json: bool) -> None:
    from netsim.reproductions import PAPERS, REPRODUCTIONS

    titles = {name: paper.title for name, paper in PAPERS.items()}
    titles |= {each.name: each.title for each in REPRODUCTIONS.values()}
    if as_json:
        echo_json(titles)
        return
    for each, title in titles.items():
        echo(f"{each:<22}  {title}")


def _print_rows(papers: Mapping[str, Paper], as_json: bool, page: str | None) -> None:
    """Print all statements of papers, with their measured values and verdicts."""
    from netsim.cli.printing import print_table
    from netsim.reproductions.ledger import statements

    found = list(statements(papers))
    if page is not None:
        from netsim.reproductions.drawings import fill_page

        for paper in papers.values():
            for setting, table in paper.tables().items():
                fill_page(page, setting, {"rows": table})
    if as_json:
        echo_json(pd.DataFrame(found))
        return
    print_table({"id": [row["id"] for row in found], "says": [row["says"] for row in found],
                 "measured": [row["measured"] for row in found],
                 "verdict": [row["verdict"] for row in found]}, texts=4)


def _run(name: str, as_json: bool, page: str | None, folder: Path, *, seeds: str | None,
         trace: str | None, workers: int, resume: bool, keep: bool) -> bool:
    """Run a reproduction, and print its claims; return whether a run failed."""
    from netsim.plots.bars import save_plot
    from netsim.reproductions import find_reproduction
    from netsim.reproductions.drawings import fill_page

    found = find_reproduction(name)
    figure = folder / f"{name}.pdf"
    for path in (figure, figure.with_suffix(".png")):
        check_picture_file(path, "--out")
    done = found.run(seeds=seeds_of(seeds) if seeds else found.seeds, trace=trace,
                     workers=workers, folder=folder, resume=resume, progress=True)
    if len(done.table):
        _print_claims(done, as_json)
        ax = done.draw()
        for path in (figure, figure.with_suffix(".png")):
            save_plot(ax, path)
        if not as_json:
            echo(f"results: {folder}\npicture: {figure}")
        if keep:
            echo(f"kept: {_keep(name, done, trace)}")
        if page is not None:
            shown = done.claims[["claim", "paper", "measured", "verdict"]]
            fill_page(page, name, {"claims": shown, **done.tables})
    return _tell_failures(done)


def _keep(name: str, done: Reproduced, trace: str | None) -> Path:
    """Replace the runs that netsim ships; return their file."""
    from netsim.reproductions import PAPERS

    for paper in PAPERS.values():
        if name in paper.reproductions:
            return paper.keep(name.removeprefix(f"{paper.name}-"), done.table,
                              Path(trace).name if trace else "")
    raise InputError(f"--keep is for reproductions of papers, and {name} is of none")


def _run_row(paper: Paper, identity: str, as_json: bool, out: str | None, *, seeds: str | None,
             trace: str | None, workers: int, resume: bool, keep: bool) -> bool:
    """Run the runs that a statement needs, and print the verdict; return whether a run failed."""
    row: Statement | None = paper.row(identity)
    if row is None:
        raise UnknownNameError(f"row of {paper.name}", identity, [row.id for row in paper.rows])
    if keep:
        raise InputError("--keep needs all runs of a reproduction; leave out --row")
    if row.measure is None:
        echo(f"{row.id}: {row.text}: {paper.outcome(row).verdict}: {row.withheld or row.scope}")
        return False
    found = replace(paper.reproductions[f"{paper.name}-{row.setting}"], claims=(row.claim,))
    done = found.run(seeds=seeds_of(seeds) if seeds else found.seeds, trace=trace,
                     workers=workers, folder=Path(out or "reproductions") / found.name,
                     resume=resume, progress=True, places=row.measure.selected())
    _print_claims(done, as_json)
    return _tell_failures(done)


def _print_claims(done: Reproduced, as_json: bool) -> None:
    from netsim.cli.printing import print_claims

    (echo_json if as_json else print_claims)(done.claims)


def _tell_failures(done: Reproduced) -> bool:
    from netsim.cli.printing import print_failures

    if done.sweep is None:
        return False
    print_failures(done.sweep)
    return bool(len(done.sweep.failures))
