"""The command ``netsim``: each command is a thin call of a public function.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from netsim._version import __version__
from netsim.cli.collective import collective
from netsim.cli.compare import compare
from netsim.cli.data import data
from netsim.cli.echo import echo
from netsim.cli.init import init
from netsim.cli.listing import listing
from netsim.cli.map import map_command
from netsim.cli.options import EXIT_FAILED
from netsim.cli.own_code import told_by_own_frames
from netsim.cli.plot import plot
from netsim.cli.predict import predict
from netsim.cli.report import report
from netsim.cli.reproduce import reproduce
from netsim.cli.run import run
from netsim.cli.sweep import sweep
from netsim.cli.topo import topo
from netsim.cli.trace import trace
from netsim.cli.warm_up import warm_up_command
from netsim.errors import NetsimError, NetsimWarning, interruption_of

_EXIT_INPUT, _EXIT_INTERRUPTED, _EXIT_TERMINATED = 2, 130, 143


class _Commands(click.Group):
    """A group of commands that turns errors of netsim, Ctrl-C and SIGTERM into exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings(), _terminable() as terminated:
                warnings.showwarning = _echo_warning
                return super().invoke(ctx)
        except NetsimError as error:
            notes = getattr(error, "__notes__", ())
            echo("\n".join((f"error: {getattr(error, 'command_line', error)}", *notes)), err=True)
            ctx.exit(_EXIT_INPUT)
        except BaseException as error:
            stop = interruption_of(error)
            if stop is None:
                if not isinstance(error, Exception) or (told := told_by_own_frames(error)) is None:
                    raise
                echo(f"error: {told}", err=True)
                ctx.exit(EXIT_FAILED)
            what = "terminated" if terminated else "interrupted"
            echo(f"{what}: {stop}" if str(stop) else what, err=True)
            ctx.exit(_EXIT_TERMINATED if terminated else _EXIT_INTERRUPTED)


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Treat SIGTERM like Ctrl-C in this context; yield a list that is empty until it arrives."""
    received: list[int] = []

    def terminate(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:  # cleaning up must not be interrupted in its turn
            raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not in the main thread
        yield received
        return
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, previous)


def _echo_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int,
                  file: TextIO | None = None, line: str | None = None) -> None:
    text = f"warning: {message}"
    if not issubclass(category, NetsimWarning):
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")
    echo(text, err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"],
                                              "max_content_width": 100})
@click.version_option(__version__, prog_name="netsim")
@click.option("--no-plugins", is_flag=True, envvar="NETSIM_NO_PLUGINS", show_envvar=True,
              help="Refuse plug-ins of other packages and code of your own, whatever the command; "
                   "and files elsewhere, where a command has this option.")
@click.pass_context
def main(context: click.Context, no_plugins: bool) -> None:
    """Simulate the network under distributed machine learning.

    \b
    netsim compare demo          run the ready-made comparison
    netsim init                  write an experiment file with every option
    netsim run experiment.toml   run it
    """
    if no_plugins:
        from netsim.plugins import without_code

        context.default_map = _without_plugins(main)
        context.with_resource(without_code())


def _without_plugins(command: click.Command) -> dict[str, Any]:
    """Make defaults that set `--no-plugins` for a command and for all commands below it."""
    below = getattr(command, "commands", {})
    return {"plugins": False, **{name: _without_plugins(each) for name, each in below.items()}}


for command in (run, compare, sweep, reproduce, plot, report, listing, init, topo, trace, data,
                predict, map_command, collective, warm_up_command):
    main.add_command(command)
