"""``netsim predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from netsim.cli.completion import WORKLOAD_FILES, listed, named
from netsim.cli.echo import JSON, echo, echo_json
from netsim.cli.options import (
    FORMAT,
    PLUGINS,
    SET,
    check_picture_file,
    format_options,
    quiet_option,
    split_at_commas,
    with_plugins,
)

if TYPE_CHECKING:
    import pandas as pd

    from netsim.predictors import Evaluation


@click.command()
@click.argument("workload", shell_complete=named("jobs", suffixes=WORKLOAD_FILES))
@click.option("--predictor", "predictors", multiple=True, metavar="NAME,...",
              shell_complete=listed("predictors"),
              default=("random-forest,mean,median",), show_default=True,
              help="Predictors to compare. Options follow a colon, as in mean:scope=user. A "
                   "predictor may also be module:Class.")
@click.option("--train", type=float, default=0.8, show_default=True, metavar="SHARE",
              help="Train on this fraction of the jobs, in order of arrival.")
@click.option("--plot", "path", type=click.Path(), metavar="FILE",
              help="Draw the errors as a .png, .pdf or .svg.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random parts of the "
                                                         "workload.")
@quiet_option("Show no progress.")
@FORMAT
@SET
@JSON
@PLUGINS
def predict(workload: str, predictors: tuple[str, ...], train: float, path: str | None,
            seed: int | None, quiet: bool, format: str | None, settings: tuple[str, ...],
            as_json: bool, plugins: bool) -> None:
    """Compare predictors of the numbers of iterations of jobs.

    They learn from the groups and users of the first jobs of WORKLOAD, and predict the others.
    """
    from netsim.errors import InputError
    from netsim.plots.bars import save_plot
    from netsim.predictors import evaluate, make_predictor
    from netsim.simulation.progress import show_progress
    from netsim.traces import format_of, read_workload

    if path is not None:
        check_picture_file(path, "--plot")
    if not 0 < train < 1:
        raise InputError(f"--train must be between 0 and 1, not {train:g}")
    with with_plugins(plugins, workload):
        made = [make_predictor(name) for each in predictors for name in split_at_commas(each)]
        options = format_options(settings, format)
        if format is not None and "train" in format_of(format).options:
            options = {"train": train} | options
        jobs = read_workload(workload, format=format, seed=seed, **options)
    evaluations = []
    for predictor in made:
        with show_progress(not quiet, 1, label=f"fits {predictor.name}") as report:
            evaluations.append(evaluate(predictor, jobs, train, report))
    if as_json:
        echo_json(_table(evaluations))
    else:
        _print(evaluations)
    if path is not None:
        from netsim.plots.prediction import error_histogram

        save_plot(error_histogram({each.predictor: each.histogram() for each in evaluations}),
                  path)
        if not as_json:
            echo(f"picture: {path}")


def _table(evaluations: list[Evaluation]) -> pd.DataFrame:
    """Make a row for each predictor."""
    import pandas as pd

    names = ("predictor", "trained_on", "unseen", "mae", "within_5_percent", "fit_s", "predict_s")
    return pd.DataFrame([{"jobs": len(each.iterations)} | {name: getattr(each, name)
                                                           for name in names}
                         for each in evaluations])


def _print(evaluations: list[Evaluation]) -> None:
    from netsim.cli.tables import print_table
    from netsim.plots.style import three_figures
    from netsim.units import format_seconds

    first = evaluations[0]
    echo(f"{len(first.iterations):,} jobs after {first.trained_on:,} to learn from; "
               f"{first.unseen:.1%} of groups never seen\n")
    print_table({
        "predictor": [each.predictor for each in evaluations],
        "MAE\n(iterations)": [three_figures(each.mae) for each in evaluations],
        "within\n5 %": [f"{each.within_5_percent:.1%}" for each in evaluations],
        "fit": [format_seconds(each.fit_s) for each in evaluations],
        "predict": [format_seconds(each.predict_s) for each in evaluations]})
