"""What has a name can be found by it, says what it is, and stands in the tables of the docs.

The tables of policies are compared in `test_matrix.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from netsim.base.plugins import Registry
from netsim.experiment_file.catalogue import REGISTRIES, details
from netsim.predictors import PREDICTORS
from tests.conformance.test_matrix import ON_CLUSTERS
from tests.offenders import assert_none, check_each

DOCS = Path(__file__).parents[2] / "docs"


def all_registries() -> list[Registry]:
    return [registry for registries in REGISTRIES.values() for registry in registries.values()]


def named() -> list[tuple[Registry, str]]:
    return [(registry, name) for registry in all_registries() for name in registry.names]


def only(kind: str) -> Registry:
    """The registry of a kind; the first one, if edge-clouds have another."""
    return next(iter(REGISTRIES[kind].values()))


def test_each_name_is_found_and_explained() -> None:
    check_each(is_found_and_explained, named(), lambda given: f"{given[0].kind} {given[1]}")


def is_found_and_explained(given: tuple[Registry, str]) -> None:
    registry, name = given
    found = registry.resolve(name)
    assert callable(found)
    line = registry.help(name)
    assert 10 < len(line) < 120
    assert (line.endswith((".", "none")) or name in registry.presets
            or registry.kind in ("llm", "model"))
    options = registry.options(name)
    own = {option for option, each in inspect.signature(found).parameters.items()
           if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    assert set(options) == own
    assert set(registry.presets.get(name, {})) - {"name"} <= own


def test_options_are_listed_with_their_meaning() -> None:
    """Not by reference to another class, which ``netsim list`` cannot show."""
    assert_none(f"{kind} {name}" for kind, registries in REGISTRIES.items()
                for registry in registries.values() for name in registry.names
                if "As for" in details(kind, name)["doc"])


def test_options_of_another_class_have_its_text() -> None:
    """LS refers to FF, FF to SJF-BCO, and this to how plans are made."""
    doc = details("schedulers", "ls")["doc"]
    assert 'availability : {"idle", "queue"}\n    With ``"idle"``, a job waits until' in doc
    assert doc.index("horizon : int, optional\n") < doc.index("search : {") < doc.index("order : {")


def test_text_after_a_reference_is_kept() -> None:
    doc = details("allocators", "varys-deadline")["doc"]
    assert 'until then.\n    With ``"coflow"`` and greedy backfill, the\n' in doc


def test_no_name_has_two_meanings() -> None:
    check_each(has_one_meaning_for_each, all_registries(), repr)


def has_one_meaning_for_each(registry: Registry) -> None:
    assert len(set(registry.names)) == len(registry.names)
    assert set(registry.aliases.values()) <= set(registry)
    assert {table["name"] for table in registry.presets.values()} <= set(registry)


def rows_of(page: str, heading: str) -> list[tuple[list[str], list[str]]]:
    """The rows of the first table below a heading: the names in the first cell, and all cells."""
    section = (DOCS / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    table = re.search(r"^\|.*?(?=\n\n)", section, re.MULTILINE | re.DOTALL)
    assert table is not None, (page, heading)
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in table[0].splitlines()[2:]]
    return [(re.findall(r"`([\w-]+)`", row[0]), row) for row in cells]


@pytest.mark.parametrize(("page", "heading", "names"), [
    ("workloads.md", "## Patterns", only("patterns")),
    ("clusters.md", "## Schedulers", ON_CLUSTERS),
    ("clusters.md", "## Placements", only("placements")),
    ("clusters.md", "## Executions", only("executions")),
    ("predictors.md", "## Which predictors there are", only("predictors")),
])
def test_other_tables_have_each_name(page: str, heading: str, names: Iterable[str]) -> None:
    rows = rows_of(page, heading)
    assert sorted(name for found, _ in rows for name in found) == sorted(names)


def test_the_table_of_kinds_of_networks_has_each() -> None:
    page = (DOCS / "topologies.md").read_text(encoding="utf-8")
    first = page[page.index("| kind |"):].partition("\n\n")[0]
    kinds = [name for line in first.splitlines()[2:]
             for name in re.findall(r"`([\w-]+)`", line.split("|")[1])]
    assert sorted(kinds) == sorted(only("topologies"))


def test_the_table_of_predictors_has_their_options() -> None:
    for names, cells in rows_of("predictors.md", "## Which predictors there are"):
        for name in names:
            shown = set(re.findall(r"`(\w+)`(?=:| \((?!default))", cells[-1]))
            assert shown == set(PREDICTORS.options(name)), name
