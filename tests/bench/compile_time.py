"""CPU seconds of compiling: the first demo, all kernels, a user's rule; with nothing cached."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

import netsim

sys.path.insert(0, str(Path(__file__).parent))

from reference import cpu_of

#: A rule of a user's own, unlike all built-in ones.
RULE = """
import netsim

@netsim.compiled(information="agnostic")
def rule(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = jobs[coflows[c].job].attained ** 0.5 * coflows[c].width
"""


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure all, each in a new process with an empty cache."""
    if context.invoked_subcommand is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        demo = [sys.executable, "-m", "netsim", "compare", "demo", "--out", f"{folder}/demo",
                "--plot", f"{folder}/demo.png"]
        for name, words in (("the first demo", demo), ("all", [sys.executable, __file__, "all"])):
            new = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/{name}"}
            first, again = (cpu_of(lambda words=words, new=new: subprocess.run(
                words, check=True, env=new, stdout=subprocess.DEVNULL))[0] for _ in range(2))
            print(f"{name}: {first:.0f} CPU s, once compiled {again:.1f}")
        Path(folder, "mine.py").write_text(RULE)
        new = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/rules", "PYTHONPATH": os.pathsep.join(
            [folder, *filter(None, [os.environ.get("PYTHONPATH")])])}
        for name, policy in (("the fabric, with lccf", "lccf"), ("a rule", "mine:rule"),
                             ("a rule that is cached", "mine:rule")):
            words = [sys.executable, __file__, "first", policy]
            took = subprocess.run(words, check=True, env=new, capture_output=True, text=True)
            print(f"{name}: {took.stdout.strip()} CPU s beside the import of netsim")


@main.command()
@click.argument("allocator")
def first(allocator: str) -> None:
    """Print the CPU seconds that the first run in a process takes, beside importing netsim."""
    network, began = netsim.big_switch(4, "1Gbps"), time.process_time()
    netsim.simulate(network, [netsim.JobSpec(k, hosts=range(4), iterations=2, stages=[
        netsim.Stage("push", [(0, 1, "1MB"), (1, 2, "2MB")]),
        netsim.Stage("pull", [(2, 1, "1MB")], after=["push"])]) for k in range(2)],
        allocator=allocator)
    print(f"{time.process_time() - began:.2f}")


@main.command("all")
def compile_all() -> None:
    """Run every allocator on jobs of one coflow and of chains, and the small cases."""
    from cases import CASES

    network = netsim.big_switch(4, "1Gbps")
    stages = [netsim.Stage("push", [(0, 1, "1MB"), (1, 2, "2MB")]),
              netsim.Stage("pull", [(2, 1, "1MB")])]
    for name in netsim.ALLOCATORS:
        for count in (1, 2):
            jobs = [netsim.JobSpec(k, 0.001 * k, hosts=range(4), stages=stages[:count])
                    for k in range(4)]
            netsim.simulate(network, jobs, allocator=name)
    for name, case in CASES.items():
        if name not in ("import", "help"):
            case.build(True)[0]()


if __name__ == "__main__":
    main()
