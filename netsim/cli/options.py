"""Options that several commands take, and their output, with control characters escaped."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.base.display import unwatched
from netsim.base.files import confined
from netsim.cli.completion import named, setting_to_one
from netsim.errors import InputError, OutputError, SpecError
from netsim.text import visible

if TYPE_CHECKING:
    import pandas as pd

    from netsim.experiment_file.experiment import Experiment


# --- output --------------------------------------------------------------------------------

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo(message: object, *, err: bool = False) -> None:
    """Print lines of text, with characters that are not printable escaped."""
    click.echo(visible(message, lines=True), err=err)


def echo_json(found: pd.DataFrame | dict[str, Any]) -> None:
    """Print JSON: a list with an object for each row of a table, or one object."""
    click.echo(json.dumps(found, indent=1, default=str) if isinstance(found, dict) else
               found.to_json(orient="records", indent=1, double_precision=15))


def echo_pairs(pairs: Mapping[str, object], margin: str = "") -> None:
    """Print names and what belongs to them, in two columns."""
    width = max(map(len, pairs))
    for name, text in pairs.items():
        echo(f"{margin}{name:<{width}}  {visible(str(text))}")


# --- options -------------------------------------------------------------------------------

#: Most digits of a seed; Python itself refuses to read numbers of some thousands of digits.
_MOST_DIGITS = 999

#: Endings of files in a folder of results that other commands or options have made.
_MADE = (".png", ".pdf", ".svg", ".html", "trace.json")

#: Exit code if some of several runs have failed.
EXIT_FAILED = 1

FORMAT = click.option("--format", metavar="NAME", shell_complete=named("formats"),
                      help="Format of the file, if its suffix does not show it; see netsim list "
                           "formats.")

EXPERIMENT = click.argument("experiment", shell_complete=named("experiments", suffixes=(".toml",)))

SET = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                   help="Set an option of the format, as in megabyte=1MiB.")

PLUGINS = click.option("--plugins/--no-plugins", default=True, show_default=True,
                       help="--no-plugins is for files that you do not trust: files may then not "
                            "name code to load (module:Class), or files outside their folder.")


def _check_plot(ctx: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """Check before the work that a picture can be written."""
    if path is not None and not ctx.resilient_parsing:
        check_picture_file(path, "--plot")
    return path


def plot_option(what: str) -> Callable[[Any], Any]:
    """Make the option ``--plot``, to draw something in a file."""
    return click.option("--plot", type=click.Path(), metavar="FILE", callback=_check_plot,
                        help=f"Draw {what} as a .png, .pdf or .svg.")


def _hush(ctx: click.Context, option: click.Parameter, quiet: bool) -> bool:
    if quiet:
        ctx.with_resource(unwatched())
    return quiet


def quiet_option(text: str) -> Callable[[Any], Any]:
    """Make the option ``--quiet``, which turns off progress reports."""
    return click.option("--quiet", is_flag=True, callback=_hush, help=text)


def _check_format(ctx: click.Context, option: click.Parameter, format: str) -> str:
    """Refuse a format that cannot be written here, before the run."""
    if format not in (None, "csv"):  # None while a shell completes the command
        from netsim.results.store import check_format

        check_format(format)
    return format


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `run` and `compare` have in common."""
    for option in reversed((
        EXPERIMENT,
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     shell_complete=setting_to_one,
                     help="Replace a setting of the file, as in network.capacity=40Gbps."),
        click.option("--seed", type=click.IntRange(min=0), help="Same as --set seed=N."),
        click.option("--out", type=click.Path(), metavar="FOLDER",
                     help="Write the results to this folder, and replace earlier results there. "
                          "By default runs/<name>-<hash>."),
        click.option("--format", type=click.Choice(("csv", "parquet")), default="csv",
                     show_default=True, callback=_check_format,
                     help="Format of the tables of runs; parquet needs the extra parquet."),
        quiet_option("Print only the folder of the results."),
        PLUGINS,
    )):
        command = option(command)
    return command


def overrides(settings: tuple[str, ...], seed: int | None) -> list[str]:
    """Turn the settings of the command line into overrides of the file."""
    return [*settings, *([] if seed is None else [f"seed={seed}"])]


def find_own_modules() -> None:
    """Add the current folder to the path, so that ``"module:Class"`` is found there."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


@contextmanager
def with_plugins(plugins: bool, *files: str | None) -> Iterator[None]:
    """Enable user-defined modules; or, without `plugins`, refuse code and files elsewhere.

    `files` are those that the user names; further files may be read from their folders.
    """
    from netsim.base.plugins import without_code

    if plugins:
        find_own_modules()
        yield
        return
    named = [Path(file) for file in files if file is not None]
    with without_code(), confined(*(path.parent for path in named), files=named):
        yield


def prepared(experiment: str, changes: list[str], out: str | None, *, single: bool,
             plugins: bool) -> tuple[Experiment, str | Path]:
    """Load an experiment, reduced to a single run if `single`, and choose its results' folder."""
    from netsim.experiment_file.experiment import default_folder
    from netsim.experiment_file.load import load_experiment
    from netsim.results.store import check_writable

    if plugins:
        find_own_modules()
    loaded = load_experiment(experiment, changes, plugins=plugins, single=single)
    folder = out or default_folder(loaded)
    check_writable(folder)
    tell_replaced(folder, "--out")
    return loaded, folder


def tell_replaced(path: str | Path, option: str) -> None:
    """Announce that a file or a folder of results is about to be replaced, if there is one.

    `option` is the option or argument that names another place.
    """
    existing = Path(path)
    try:
        if not existing.is_dir():
            if existing.exists():
                echo(f"note: {path} exists, and is replaced; give another {option} to keep it",
                     err=True)
            return
        files = sorted(each.relative_to(existing).as_posix() for each in existing.rglob("*"))
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error
    made = [name for name in files if name.endswith(_MADE)]
    if files:
        echo(f"note: {path} holds earlier results, which are replaced at the end of the run"
             f"{' and, with them, ' if made else ''}{', '.join(made)}; stop it and give another "
             f"{option} to keep them", err=True)


def check_picture_file(path: str | Path, option: str) -> None:
    """Check before the work that a picture can be written, and say if it replaces a file."""
    from netsim.plots.bars import check_plottable

    check_plottable(path)
    tell_replaced(path, option)


def seeds_of(given: str) -> int | list[int]:
    """Parse ``--seeds``: a number of seeds, or a list of them."""
    from netsim.base.units import is_digits

    parts = [part.strip() for part in given.split(",")]
    if not all(is_digits(part, _MOST_DIGITS) for part in parts):
        raise InputError(f"--seeds must be a number, or a list such as 3,5,8, not {given!r}")
    return int(given) if len(parts) == 1 else [int(part) for part in parts]


def split_at_commas(values: str) -> list[str]:
    """Split text at commas, except those within brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not (depth or quote):
            parts.append("")
        else:
            parts[-1] += letter
    if not all(map(str.strip, parts)):
        raise SpecError([f"{values!r} has a value that is empty"])
    return [part.strip() for part in parts]


def settings_of(settings: tuple[str, ...], where: str = "", what: str = "a setting"
                ) -> dict[str, Any]:
    """Parse the options of ``--set``, or of another option, which `where` and `what` name."""
    from netsim.base.units import parse_value

    options = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise InputError(f"{where}{setting!r} is not {what}; write it as KEY=VALUE")
        options[name] = parse_value(value)
    return options


def format_options(settings: tuple[str, ...], format: str | None = None) -> dict[str, Any]:
    """Parse the options of ``--set``, and check that some format has them."""
    from netsim.base.values import as_choice
    from netsim.traces import FORMATS, format_of

    options = settings_of(settings)
    formats = {*FORMATS, *([] if format is None else [format])}
    known = {option for name in formats for option in format_of(name).options}
    for name in options:
        as_choice(name, "option", known, "settings")
    return options
