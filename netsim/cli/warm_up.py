"""``netsim warm-up``."""

from __future__ import annotations

import time

import click

from netsim.cli.completion import named
from netsim.cli.echo import echo
from netsim.cli.options import quiet_option


@click.command("warm-up")
@click.argument("allocators", nargs=-1, metavar="[ALLOCATOR]...",
                shell_complete=named("allocators"))
@click.option("-j", "--workers", type=click.IntRange(min=1),
              help="Number of processes; by default as many as there are cores.")
@quiet_option("Print nothing.")
def warm_up_command(allocators: tuple[str, ...], workers: int | None, quiet: bool) -> None:
    """Compile what allocators need, so that runs begin at once.

    Without names, for all allocators. What was compiled is kept for this version of netsim.
    """
    from netsim.kernel_folder import cache_folder
    from netsim.studies.warm_up import warm_up

    began = time.monotonic()
    done = warm_up(allocators or None, workers=workers, progress=not quiet)
    if not quiet:
        took = f"in {time.monotonic() - began:.0f} s; kept in {cache_folder()}"
        echo(f"compiled for {', '.join(done)}, {took}" if done else
             f"everything was compiled already; kept in {cache_folder()}")
