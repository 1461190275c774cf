"""Results of benchmarks as the table of docs/performance.md."""

import runpy
from pathlib import Path

PAGE = Path(__file__).parent / "bench" / "page.py"


def test_a_table_for_the_page():
    """A ratio of 41 to the plain loop is 41 * 0.16 = 6.6 s in a quiet hour."""
    found = {"facebook-aalo": ("plain", 12.96, 41.04, 4.5),
             "trace-parrot": ("simpy", 0.57, 11, 2.5),
             "at-once-1k": ("plain", 0.00812, 0.0521, 0.02)}
    assert runpy.run_path(str(PAGE))["markdown"]({
        name: {"cpu_s": seconds, "reference": beside, "ratio": ratio, "target_s": target}
        for name, (beside, seconds, ratio, target) in found.items()}).splitlines() == [
            "| case | CPU seconds | ratio | in a quiet hour | target |",
            "| --- | ---: | ---: | ---: | ---: |",
            "| `facebook-aalo` | 13 | 41 | 6.6 | 4.5 |",
            "| `trace-parrot` | 0.57 | 11 |  | 2.5 |",
            "| `at-once-1k` | 0.0081 | 0.052 | 0.0083 | 0.02 |"]
