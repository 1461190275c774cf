"""Time cases on switches with and without latency, in turn.

``python tests/bench/with_latency.py trace-* poisson-10k`` prints CPU seconds of both, the least of
some rounds each, and their ratio.
"""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent))

import cases
from reference import cpu_of

import netsim

#: What is measured by default: each way on which the fabric runs coflows.
DEFAULT = ("at-once-10k", "poisson-100k", "two-stages-10k", "trace-parrot", "trace-parrot-10ms",
           "trace-aalo", "trace-own-compiled", "trace-maxmin-per-coflow", "facebook-sebf")


def slow_switch() -> netsim.Topology:
    """Return the switch of most cases, with a latency and an overhead."""
    return netsim.big_switch(cases.HOSTS, "10Gbps", latency="1us", overhead="5us")


@click.command()
@click.argument("patterns", nargs=-1)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
def main(patterns: tuple[str, ...], rounds: int) -> None:
    """Time the cases that match PATTERNS; those that are on another network are alike in both."""
    print(f"{'case':<26} {'without':>9} {'with':>9} {'ratio':>6}")
    for name in cases.CASES:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns or DEFAULT):
            continue
        calls = []
        for make in (cases.switch, slow_switch):
            plain, cases.switch = cases.switch, make
            calls.append(cases.CASES[name].build(False)[0])
            cases.switch = plain
        for call in calls:
            call()  # compiles
        without, slow = (min(each) for each in zip(*(
            [cpu_of(call)[0] for call in calls] for _ in range(rounds)), strict=True))
        print(f"{name:<26} {without:>8.2f}s {slow:>8.2f}s {slow / without:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
