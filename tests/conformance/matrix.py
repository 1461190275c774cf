"""The docs' tables of what goes with what, from `netsim.simulation.needs`.

``python -m tests.conformance.matrix`` writes it into `docs/matrix.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

from netsim.edge.registry import TRANSPORTS
from netsim.engine.registry import EXECUTIONS
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.needs import NEEDS, needs_of, places_of
from netsim.simulation.run_spec import NOT_FOR

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"


def table(what, registry, target):
    """A table in Markdown: a row for equal policies, with the cases that they do not take."""
    rows = NEEDS[target]
    equal = {}
    for name in registry:
        policy = registry.make(name, {})
        if registry is not SCHEDULERS or target in places_of(policy):
            needs = needs_of(policy, target, registry.kind)
            refused = dict.fromkeys(case for need in needs for case in rows[need].cases)
            equal.setdefault("; ".join(refused), []).append(f"`{name}`")
    lines = [f"| {what} | does not take |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {refused or '-'} |" for refused, names in equal.items()]
    return "\n".join(lines)


def needs(target):
    """A table in Markdown: what policies may need, and why they need it."""
    lines = ["| need | because |", "|---|---|"]
    lines += [f"| `{name}` | {need.because} |" for name, need in NEEDS[target].items()]
    return "\n".join(lines)


def arguments():
    """A table in Markdown: a row per reason why arguments and keys are not for what runs."""
    on = {}
    for target, reasons in NOT_FOR.items():
        for reason in dict.fromkeys(reasons.values()):
            names = ", ".join(f"`{name}`" for name, why in reasons.items() if why == reason)
            on.setdefault((names, reason.format(transport="constant")), []).append(target)
    lines = ["| on | not | because |", "|---|---|---|"]
    lines += [f"| {', '.join(targets)} | {names} | {reason} |"
              for (names, reason), targets in on.items()]
    return "\n".join(lines)


TABLES = {
    "executions": lambda: table("execution", EXECUTIONS, "cluster"),
    "schedulers": lambda: table("scheduler", SCHEDULERS, "cluster"),
    "placements": lambda: table("placement", PLACEMENTS, "cluster"),
    "needs": lambda: needs("cluster"),
    "edge": lambda: table("scheduler", SCHEDULERS, "edge-cloud"),
    "transports": lambda: table("transport", TRANSPORTS, "edge-cloud"),
    "edge_needs": lambda: needs("edge-cloud"),
    "arguments": arguments,
}

_BLOCK = re.compile(r"(<!-- (\w+): written by tests/conformance/matrix.py -->\n).*?(<!-- end -->)",
                    re.DOTALL)


def written(page):
    """A page with its tables as they are to be."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
