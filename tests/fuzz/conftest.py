"""What the fuzz tests share: a guard for each, and a table of what came of the examples.

`make fuzz` runs 100,000 examples, `make fuzz EXAMPLES=1000` so many; without it each reader gets
a few, the same ones each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import EXAMPLES, Guard


@pytest.fixture
def guard(tmp_path: Path, record_property) -> Iterator[Guard]:
    """Return what runs the examples of a test, and counts them."""
    found = Guard(tmp_path)
    yield found
    record_property("examples", dict(found.counts))


def pytest_terminal_summary(terminalreporter) -> None:
    """Print how many examples each reader has had."""
    counts: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("", []):  # of setting up and taking down
        for name, value in getattr(report, "user_properties", []):
            if name == "examples" and report.when == "teardown":
                test = report.nodeid.rpartition("::")[2]
                reader = test.partition("[")[0] + test.partition("-")[1] + test.partition("-")[2]
                counts.setdefault(reader.rstrip("]"), Counter()).update(value)
    if not EXAMPLES or not counts:
        return
    terminalreporter.section("examples")
    for test, count in counts.items():
        terminalreporter.write_line(f"{sum(count.values()):>9,}  {test:<40} {dict(count)}")
    total = sum(sum(count.values()) for count in counts.values())
    terminalreporter.write_line(f"{total:>9,}  in total")
