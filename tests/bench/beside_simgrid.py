"""Run flows in netsim and in SimGrid, in turn, and hold them to the same times.

Both share max-min, so that every flow must end at the same time: to 1e-9 of how long it took,
which is stricter than of when it ended. CPU seconds are the least of some rounds, of the
simulation alone: neither has its input read or built in them, netsim has its tables of results.
SimGrid runs with its default for updating flows, Lazy, and with Full, which here is faster.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import netsim

sys.path.insert(0, str(Path(__file__).parent))

from cases import Instance, at_once, poisson, switch, tree
from reference import cpu_of

INSTANCES = {"at-once-1k": (switch, at_once, 1_000), "at-once-10k": (switch, at_once, 10_000),
             "poisson-10k": (switch, poisson, 10_000), "poisson-100k": (switch, poisson, 100_000),
             "tree-at-once-5k": (tree, at_once, 5_000), "tree-poisson-5k": (tree, poisson, 5_000)}

#: By how much of its duration the end of a flow may differ.
TOLERANCE = 1e-9

#: How SimGrid may update flows.
MODES = "Lazy", "Full"

#: Rounds are run until SimGrid has taken so many CPU seconds in each mode.
_WORTH = 3.0

_PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="network" routing="Full">
{}
</zone>
</platform>
"""


@click.command()
@click.argument("patterns", nargs=-1)
@click.option("--smoke", is_flag=True, help="A tenth of the flows, and one round.")
def main(patterns: tuple[str, ...], smoke: bool) -> None:
    """Compare the instances that match PATTERNS, all if there are none.

    Fails if any flow's end differs; exits with 69 where there is no SimGrid.
    """
    chosen = [name for name in INSTANCES
              if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not chosen:
        raise click.UsageError(f"no instance matches {' '.join(patterns)}; choose from: "
                               + ", ".join(INSTANCES))
    version = simgrid_version()
    if version is None:
        print("SimGrid's headers or g++ are missing. On Debian: apt install libsimgrid-dev g++",
              file=sys.stderr)
        sys.exit(os.EX_UNAVAILABLE)
    table = Table("instance", title=f"netsim beside {version}")
    for title in ("flows", "netsim CPU s", *(f"{mode} CPU s" for mode in MODES),
                  *(f"{mode} / netsim" for mode in MODES), "difference"):
        table.add_column(title, justify="right")
    apart = []
    with tempfile.TemporaryDirectory() as folder:
        in_simgrid = build_simgrid(Path(folder))
        for name in chosen:
            print(f"{name} ...", file=sys.stderr, flush=True)
            build, make, count = INSTANCES[name]
            network, instance = build(), make(count // 10 if smoke else count)
            ours, theirs, difference = compare(network, instance, in_simgrid,
                                               0.0 if smoke else _WORTH)
            table.add_row(name, f"{len(instance.src):,}", f"{ours:.3g}",
                          *(f"{seconds:.3g}" for seconds in theirs),
                          *(f"{seconds / ours:.3g}" for seconds in theirs), f"{difference:.1e}")
            if not difference <= TOLERANCE:
                apart.append(name)
    Console(width=116).print(table)
    if apart:
        sys.exit(f"ends of flows differ by more than {TOLERANCE:g}: {', '.join(apart)}")


def compare(network: netsim.Topology, instance: Instance,
            in_simgrid: Callable[[str, Instance, str], tuple[float, np.ndarray]],
            worth: float) -> tuple[float, list[float], float]:
    """Return netsim's and SimGrid's CPU seconds, and the largest difference of a flow's end."""
    run = in_netsim(network, instance)
    ends, platform = run()[1], platform_of(network, instance)  # what is compiled is compiled now
    ours, theirs, difference = [], [], 0.0
    while not theirs or min(map(sum, zip(*theirs, strict=True))) < worth:
        theirs.append([])
        for mode in MODES:
            ours.append(run()[0])
            seconds, others = in_simgrid(platform, instance, mode)
            theirs[-1].append(seconds)
            apart = np.abs(others - ends) / (ends - instance.start_s)
            difference = max(difference, float(apart.max()))
    return min(ours), [*map(min, zip(*theirs, strict=True))], difference


def in_netsim(network: netsim.Topology, instance: Instance
              ) -> Callable[[], tuple[float, np.ndarray]]:
    """Return what runs an instance, for its CPU seconds and the ends of its flows."""
    jobs = instance.jobs()
    table, key = ("flows", "flow") if instance.together else ("jobs", "job")

    def run() -> tuple[float, np.ndarray]:
        seconds, result = cpu_of(lambda: netsim.simulate(network, jobs, allocator="maxmin",
                                                         record=[table]))
        return seconds, getattr(result, table).sort_values(key)["finish_s"].to_numpy()
    return run


def build_simgrid(folder: Path) -> Callable[[str, Instance, str], tuple[float, np.ndarray]]:
    """Compile the program for SimGrid; return what runs an instance on a platform."""
    program, file = folder / "simgrid_flows", folder / "platform.xml"
    subprocess.run(["g++", "-std=c++17", "-O2", Path(__file__).with_name("simgrid_flows.cpp"),
                    "-o", program, "-lsimgrid"], check=True)

    def run(platform: str, instance: Instance, mode: str) -> tuple[float, np.ndarray]:
        file.write_text(platform)
        columns = instance.start_s, instance.src, instance.dst, instance.nbytes
        flows = "".join(f"{start:.17g} {src} {dst} {nbytes:.0f}\n"
                        for start, src, dst, nbytes in zip(*columns, strict=True))
        seconds, *ends = subprocess.run([program, file, f"--cfg=network/optim:{mode}"],
                                        input=flows, check=True, text=True,
                                        stdout=subprocess.PIPE).stdout.split()
        return float(seconds), np.array(ends, float)
    return run


def platform_of(network: netsim.Topology, instance: Instance) -> str:
    """Return a network as SimGrid reads it, with the routes that an instance takes."""
    hosts = [f'<host id="{host}" speed="1Gf"/>' for host in range(network.hosts)]
    links = [f'<link id="l{link}" bandwidth="{capacity:.17g}Bps" latency="0s"/>'
             for link, capacity in enumerate(network.capacity)]
    routes = []
    for src, dst in sorted(set(zip(instance.src.tolist(), instance.dst.tolist(), strict=True))):
        crossed = "".join(f'<link_ctn id="l{link}"/>' for link in network.route(src, dst))
        routes.append(f'<route src="{src}" dst="{dst}" symmetrical="NO">{crossed}</route>')
    return _PLATFORM.format("\n".join(hosts + links + routes))


def simgrid_version() -> str | None:
    """Return what SimGrid calls itself, or nothing where it or the compiler is missing."""
    if not shutil.which("g++"):
        return None
    macros = subprocess.run(["g++", "-x", "c++", "-E", "-dM", "-"], text=True, capture_output=True,
                            input="#include <simgrid/version.h>").stdout
    found = re.search(r'SIMGRID_VERSION_STRING "(.*)"', macros)
    return found and found[1]


if __name__ == "__main__":
    main()
