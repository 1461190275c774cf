"""The command ``netsim``, whose commands call public functions, and errors of the user's own code.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import click

from netsim._version import __version__
from netsim.cli.estimate import calibrate, collective, map_command, predict
from netsim.cli.look import data, init, listing, schema, topo, trace, warm_up_command
from netsim.cli.options import EXIT_FAILED, echo
from netsim.cli.plot import plot, report
from netsim.cli.reproduce import reproduce
from netsim.cli.run import compare, run
from netsim.cli.sweep import sweep
from netsim.errors import NetsimError, NetsimWarning, causes_of, described, interruption_of

# --- errors of the user's own code ---------------------------------------------------------

#: Packages through which calls reach the user's code, or which it calls.
_OTHERS = frozenset((
    "__main__", "click", "cloudpickle", "gymnasium", "joblib", "llvmlite", "loky", "matplotlib",
    "netsim", "networkx", "numba", "numpy", "pandas", "PIL", "pyarrow", "pydantic", "rich", "scipy",
    "simpy", "sklearn", "tomli_w", *sys.stdlib_module_names))


def told_by_own_frames(error: BaseException) -> str | None:
    """Describe an error that the user's own code has raised: who, when, what and where.

    None if no frame belongs to such code, so that the error is one of netsim itself.
    """
    for cause in causes_of(error):  # SimPy raises a copy of it
        own = [(frame, line) for frame, line in traceback.walk_tb(cause.__traceback__)
               if frame.f_globals.get("__name__", "").partition(".")[0] not in _OTHERS]
        if own:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            lines = traceback.format_list(traceback.StackSummary.extract(iter(own)))
            what = described(cause).removesuffix(notes)
            return f"{_who([frame for frame, _ in own])}: {what}\n{''.join(lines).rstrip()}{notes}"
    return None


def _who(frames: Sequence[FrameType]) -> str:
    """Name the policy, or else the function, to which the first frame belongs, and its time."""
    from netsim.allocators import ALLOCATORS
    from netsim.base.units import format_seconds
    from netsim.placements.registry import PLACEMENTS
    from netsim.schedulers.registry import SCHEDULERS

    first = frames[0]
    policy = first.f_locals.get("self")
    kind = next((registry.kind for registry in (ALLOCATORS, SCHEDULERS, PLACEMENTS)
                 if policy is not None and registry.takes(policy)), None)
    who = (f"{first.f_globals['__name__']}:{first.f_code.co_qualname}" if kind is None else
           f"{kind} {type(policy).__qualname__}")
    now = next((value.now for value in first.f_locals.values() if _has_time(value)), None)
    return who if now is None else f"{who} at {format_seconds(now)} of the simulation"


def _has_time(value: Any) -> bool:
    """Whether a value is a view of netsim, which knows the time."""
    return type(value).__module__.startswith("netsim.") and isinstance(
        getattr(value, "now", None), int | float)


# --- the command ---------------------------------------------------------------------------

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
        from netsim.base.plugins import without_code

        context.default_map = _without_plugins(main)
        context.with_resource(without_code())


def _without_plugins(command: click.Command) -> dict[str, Any]:
    """Make defaults that set `--no-plugins` for a command and for all commands below it."""
    below = getattr(command, "commands", {})
    return {"plugins": False, **{name: _without_plugins(each) for name, each in below.items()}}


for command in (run, compare, sweep, reproduce, plot, report, listing, init, schema, topo, trace,
                data, predict, map_command, collective, calibrate, warm_up_command):
    main.add_command(command)
