"""Results of `run` as the table of docs/performance.md."""

from __future__ import annotations

from typing import Any

__all__ = ["markdown"]


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """Return results as a Markdown table."""
    rows = [("case", "CPU seconds", "target"), ("---", "---:", "---:")]
    rows += [(f"`{name}`", _short(found["cpu_s"]), f"{found['target_s']:g}")
             for name, found in results.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _short(value: float) -> str:
    """Return a number in two digits, or in as many as it has before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
