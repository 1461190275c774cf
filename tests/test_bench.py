"""Results of benchmarks as the table of docs/performance.md."""

import runpy
from pathlib import Path

PAGE = Path(__file__).parent / "bench" / "page.py"


def test_a_table_for_the_page():
    """Seconds have two digits."""
    found = {"facebook-aalo": (12.96, 4.5), "trace-parrot": (0.57, 2.5),
             "at-once-1k": (0.00812, 0.02)}
    assert runpy.run_path(str(PAGE))["markdown"]({
        name: {"cpu_s": seconds, "target_s": target}
        for name, (seconds, target) in found.items()}).splitlines() == [
            "| case | CPU seconds | target |",
            "| --- | ---: | ---: |",
            "| `facebook-aalo` | 13 | 4.5 |",
            "| `trace-parrot` | 0.57 | 2.5 |",
            "| `at-once-1k` | 0.0081 | 0.02 |"]
