"""Where SimGrid is installed, flows end when they end there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = Path(__file__).parent / "bench" / "beside_simgrid.py"


def test_ends_of_flows():
    """100 and 1,000 flows at once, and 1,000 Poisson ones: to 1e-9 of each flow's duration.

    On a switch; and 500 of either kind on a fat-tree.
    """
    done = subprocess.run([sys.executable, str(BESIDE), "--smoke", "at-once-*", "poisson-10k",
                           "tree-*"],
                          text=True, capture_output=True)
    if done.returncode == os.EX_UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("at-once-1k", "at-once-10k", "poisson-10k",
                                               "tree-at-once-5k", "tree-poisson-5k"))
