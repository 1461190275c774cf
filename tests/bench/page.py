"""Results of `run` as the table of docs/performance.md."""

from __future__ import annotations

from typing import Any

__all__ = ["markdown"]

#: CPU seconds of a reference in a quiet hour.
_QUIET_S = {"plain": 0.16}


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """Return results as a Markdown table.

    The fourth column is the ratio times the CPU seconds of the plain loop in a quiet hour; cases
    beside SimPy have none.
    """
    rows = [("case", "CPU seconds", "ratio", "in a quiet hour", "target"),
            ("---", *["---:"] * 4)]
    for name, found in results.items():
        quiet = _QUIET_S.get(found["reference"])
        rows.append((f"`{name}`", _short(found["cpu_s"]), _short(found["ratio"]),
                     "" if quiet is None else _short(found["ratio"] * quiet),
                     f"{found['target_s']:g}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _short(value: float) -> str:
    """Return a number in two digits, or in as many as it has before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
