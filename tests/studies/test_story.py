"""A user's story: flows of one's own, an allocator of a notebook, one figure, one report."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from netsim.studies.sweep_result import load_sweep
from tests.pairs import exhaustive

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")

ROOT = Path(__file__).parents[2]
STORY = ROOT / "tests" / "bench" / "story.py"

#: Runs the cells one after the other in `__main__`, as a notebook does; without a file.
NOTEBOOK = """
from pathlib import Path
flows_csv, folder, seeds = {flows!r}, Path({folder!r}), range(5)
for number, cell in enumerate({cells!r}):
    exec(compile(cell, f"<cell {{number}}>", "exec"), globals())
print(len(ax.figure.axes))
"""

#: Looks up the allocator of the notebook by the name that figures have, and by its class.
NAMES = """
mine = found["LeastAttained"]
assert len(mine) == 30 and mine.equals(found[LeastAttained])
assert mine.equals(found.where(allocator="LeastAttained").table)
assert set(found.ratios(baseline="LeastAttained")["baseline"]) == {"__main__:LeastAttained"}
assert ">LeastAttained<" in found.where(allocator=LeastAttained)._repr_html_()
compared = netsim.compare("parrot-fig2", "parrot-fig2", ["fifo", LeastAttained],
                          baseline=LeastAttained)
assert compared["LeastAttained"] is compared[LeastAttained]
assert len(compared.against("LeastAttained")) == len(compared.against(LeastAttained)) > 0
assert "LeastAttained" in str(compared) and "LeastAttained" in repr(compared)
assert "__main__" not in str(compared) + repr(compared) + compared._repr_html_()
"""


@exhaustive
def test_from_flows_to_a_report(tmp_path):
    """Two speeds, three intervals, four allocators and five seeds are 120 runs.

    The figure has a panel for each interval, a line for each allocator and a point for each speed.
    """
    text = STORY.read_text()
    assert len(text.splitlines()) < 40
    rng = np.random.default_rng(1)
    rows = [f"{job / 50},{job},{src},3,{int(10 ** rng.uniform(6, 9))}"
            for job in range(10) for src in range(3)]
    (tmp_path / "flows.csv").write_text("\n".join(("start_s,job,src,dst,bytes", *rows)))
    folder = tmp_path / "sweep"
    done = subprocess.run(
        [sys.executable, "-"], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, input=NOTEBOOK.format(
            flows=str(tmp_path / "flows.csv"), folder=str(folder),
            cells=[*re.split("# %%.*", text), NAMES]))
    assert done.returncode == 0, done.stderr
    found = load_sweep(folder)
    assert len(found.table) == 120 >= 100
    assert found.missing == 0
    intervals, speeds, policies = (found.grid[name] for name in (
        "observe_interval", "network", "allocator"))
    assert int(done.stdout.split()[-1]) >= len(intervals) == 3
    figure = (folder / "figure.svg").read_text()
    for interval in intervals:
        assert f"observe interval {re.sub('ms', ' ms', interval)}<" in figure
    assert all(f">{speed.removesuffix('Gbps')}<" in figure for speed in speeds)
    assert len(policies) == 4
    assert all(f">{policy.removeprefix('__main__:')}<" in figure for policy in policies)
    report = (folder / "report.html").read_text()
    assert "<h1>Own flows</h1>" in report
    assert all(policy.removeprefix("__main__:") in report for policy in policies)
    assert "__main__" not in report
    assert (found.means(["jct_mean_s"])["jct_mean_s_high"] > 0).all()
