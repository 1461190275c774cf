"""What goes with what: the table that the tests hold all policies to, and that the docs show.

``python -m tests.conformance.matrix`` writes it into `docs/matrix.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

from netsim.engine.registry import EXECUTIONS
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS
from netsim.schedulers.registry import SCHEDULERS

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"

#: What a policy may need, and what is said where it is not so.
REASONS = {
    "rings": "is no ring: ",
    "known": "what an iteration takes is known of models, and of the pattern 'ring-all-reduce'",
    "whole": "as coflows all of it is sent, and the factor must be 1",
    "alike": "servers must have equally many GPUs each",
    "at 0": "this scheduler plans jobs that are all there at 0",
    "history": "has nothing to learn from",
    "own": "chooses GPUs itself",
    "lasting": "has no plan for jobs that lose a server",
    "no links": "an event changes links, which jobs use where execution = \"fabric\"",
    "cloud": "needs a cloud",
    "workers": "the scheduler uses the edge alone",
    "room": "storage is too small",
    "constant": "is for schedulers of chunks",
}

#: Columns of the tables: what some do not take, and which needs it goes against.
ON_CLUSTERS = {
    "models of several stages, slices, experts, trees": {"rings"},
    "other patterns, stages written out": {"rings", "known"},
    "`allreduce_factor` other than 1": {"rings", "whole"},
    "servers with different numbers of GPUs": {"alike"},
    "jobs that come later": {"at 0"},
    "no history": {"history"},
    "a `placement`": {"own"},
    "servers that fail, with `restart`": {"lasting"},
    "`events` of links": {"no links"},
}
ON_THE_EDGE = {
    "no cloud": {"cloud"},
    "a type of workers that no server has": {"workers"},
    "servers that are full": {"room"},
    "a `transport` other than `constant`": {"constant"},
}

_PREDICTS, _PLANS = {"known", "alike", "history"}, {"rings", "at 0", "own", "lasting"}

#: What those need that do not take everything.
OF_SCHEDULERS = {
    "a-srpt": _PREDICTS | {"own"}, "a-srpt-perfect": {"known", "alike", "own"},
    "ff": _PLANS, "ls": _PLANS, "rand": _PLANS, "sjf-bco": _PLANS,
    "spjf": _PREDICTS, "spwf": _PREDICTS, "wcs-duration": _PREDICTS, "wcs-workload": _PREDICTS,
}
OF_PLACEMENTS = {"mapped": {"known", "alike"}}
OF_EXECUTIONS = {"asrpt": {"known", "alike", "no links"}, "fabric": {"whole"},
                 "rar-contention": {"rings", "no links"}}
OF_EDGE_SCHEDULERS = {"a-online-e": {"workers", "room"}, "batch": {"constant"},
                      "cloud-only": {"cloud"}, "srtf": {"workers", "constant"},
                      "tiresias-l": {"workers", "constant"}}


def table(what, names, needs, columns):
    """A table in Markdown: a row per policy, a column per thing that some of them do not take."""
    shown = {title: against for title, against in columns.items()
             if any(needs.get(name, set()) & against for name in names)}
    lines = [f"| {what} | {' | '.join(shown)} |", "|---" * (len(shown) + 1) + "|"]
    for name in names:
        cells = ["no" if needs.get(name, set()) & against else "yes" for against in shown.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {
    "executions": lambda: table("execution", EXECUTIONS, OF_EXECUTIONS, ON_CLUSTERS),
    "schedulers": lambda: table("scheduler", SCHEDULERS, OF_SCHEDULERS, ON_CLUSTERS),
    "placements": lambda: table("placement", PLACEMENTS, OF_PLACEMENTS, ON_CLUSTERS),
    "edge": lambda: table("scheduler", EDGE_SCHEDULERS, OF_EDGE_SCHEDULERS, ON_THE_EDGE),
}

_BLOCK = re.compile(r"(<!-- (\w+): written by tests/conformance/matrix.py -->\n).*?(<!-- end -->)",
                    re.DOTALL)


def written(page):
    """A page with its tables as they are to be."""
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
