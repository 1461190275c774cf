"""Completion in a shell: names, keys and files, without importing the objects that they name.

Importing netsim's registries would take a second at each press of the key. The names are therefore
read from the source of the registries, from catalogues and from the folders of ready-made files.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from netsim.base.files import read_text

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_PACKAGE = Path(__file__).parent.parent

#: Kinds of names: the files of netsim and the variables to which their registries are assigned.
_REGISTRIES = {
    "allocators": [("allocators/registry.py", "ALLOCATORS")],
    "schedulers": [("schedulers/registry.py", "SCHEDULERS")],
    "placements": [("placements/registry.py", "PLACEMENTS")],
    "executions": [("engine/registry.py", "EXECUTIONS")],
    "transports": [("edge/registry.py", "TRANSPORTS")],
    "predictors": [("predictors/registry.py", "PREDICTORS")],
    "patterns": [("jobs/patterns/__init__.py", "PATTERNS")],
    "formats": [("traces/formats.py", "KNOWN"),
                ("traces/cluster/readers.py", "GPU_TRACES"),
                ("edge/files.py", "EDGE_FORMATS")],
    "kinds of networks": [("network/files.py", "TOPOLOGIES"), ("edge/files.py", "EDGE_KINDS")],
    "mappings": [("models/mapping/__init__.py", "MAPPINGS")],
    "public traces": [("traces/library.py", "PUBLIC_TRACES")],
}

#: Kinds of names that are keys of a catalogue: its file, and its table, if not the whole file.
_CATALOGUES = {"models": ("models/catalogue.toml", "models"),
               "llms": ("llm/catalogue.toml", "models"), "gpus": ("models/gpus.toml", "")}

#: Kinds of names that are those of ready-made files: the folder, and whether it is of experiments.
_READY_MADE = {"networks": ("topologies", False), "experiments": ("workloads", True),
               "jobs": ("workloads", False)}

#: Kinds that `netsim list` shows under one name.
_TOGETHER = {"topologies": ("kinds of networks", "networks"), "workloads": ("jobs", "experiments")}

#: Reproductions that belong to no paper.
_STUDIES = ("accuracy-allreduce", "accuracy-htsim", "accuracy-m3", "inter-job", "joint-study",
            "joint-systems", "llm-neighbours", "preemption-recurrent", "preemption-tiresias")

#: Kinds of pictures of runs, comparisons and sweeps.
_PICTURES = ("bars", "cdf", "classes", "gantt", "gpus", "scatter", "slowdown", "sweep", "timeline",
             "usage", "utilisation")

#: Endings of files of networks, and of workloads.
NETWORK_FILES = (".toml", ".graphml", ".gml", ".json", ".topo", ".txt", ".xml", ".yaml", ".yml")
WORKLOAD_FILES = (".toml", ".json", ".csv", ".txt", ".parquet", ".cm", ".et", ".swf", ".gz")

#: Keys of an experiment whose values are names.
_VALUES = {"allocator": "allocators", "scheduler": "schedulers", "placement": "placements",
           "execution": "executions", "transport": "transports", "network": "networks",
           "network.kind": "kinds of networks", "workload": "jobs",
           "workload.format": "formats", "workload.pattern": "patterns", "workload.llm": "llms"}


# --- names -----------------------------------------------------------------------------------


def names_of(kind: str) -> list[str]:
    """List the names of a kind, sorted; an unknown kind has none."""
    if kind in _TOGETHER:
        return sorted({name for each in _TOGETHER[kind] for name in names_of(each)})
    if kind in _REGISTRIES:
        return sorted({name for file, variable in _REGISTRIES[kind]
                       for name in _registered(file, variable)})
    if kind in _CATALOGUES:
        file, table = _CATALOGUES[kind]
        found = tomllib.loads(read_text(_PACKAGE / file))
        return sorted(found[table] if table else found)
    if kind in _READY_MADE:
        return sorted({path.stem for path in _ready_made(*_READY_MADE[kind])})
    return sorted(_reproductions()) if kind == "reproductions" else []


def _registered(file: str, variable: str) -> Iterator[str]:
    """Yield the names in a registry: keys of its dictionaries, without its aliases."""
    for statement in ast.parse(read_text(_PACKAGE / file)).body:
        targets = (statement.targets if isinstance(statement, ast.Assign) else
                   [statement.target] if isinstance(statement, ast.AnnAssign) else [])
        if any(isinstance(each, ast.Name) and each.id == variable for each in targets):
            made: Any = statement.value  # type: ignore[attr-defined]
            tables = [made] if isinstance(made, ast.Dict) else [
                *made.args, *(each.value for each in made.keywords if each.arg == "presets")]
            for table in tables:
                if isinstance(table, ast.Dict):
                    yield from (key.value for key in table.keys
                                if isinstance(key, ast.Constant) and isinstance(key.value, str))


def _ready_made(folder: str, experiments: bool) -> Iterator[Path]:
    """Yield the ready-made files of a folder, installed or in a checkout."""
    installed = _PACKAGE / folder
    for path in (installed if installed.is_dir() else _PACKAGE.parent / folder).iterdir():
        if path.suffix == ".toml":
            if ("workload" in tomllib.loads(read_text(path))) == experiments:
                yield path
        elif path.suffix == ".json" and not experiments:
            yield path


def _reproductions() -> Iterator[str]:
    yield from _STUDIES
    for path in (_PACKAGE / "reproductions" / "papers").glob("*.toml"):
        yield path.stem
        for setting in tomllib.loads(read_text(path))["settings"]:
            yield f"{path.stem}-{setting}"


def _keys(experiment: str | None) -> Iterator[str]:
    """Yield the keys of experiments: those of the templates, and those of a file."""
    for path in sorted((_PACKAGE / "experiment_file").glob("template-*.toml")):
        table = ""
        for line in read_text(path).splitlines():
            if heading := re.match(r"#?\[([a-z_.]+)\]", line):
                table = f"{heading[1]}."
            elif re.match(r"#?\[\[", line):
                table = "events.0."
            elif key := re.match(r"#?([a-z_0-9]+) = ", line):
                yield table + key[1]
    try:
        yield from _flat(tomllib.loads(read_text(experiment or "")), "")
    except (OSError, ValueError, RecursionError):  # it is a name, or not finished yet
        return


def _flat(table: dict[str, Any], before: str) -> Iterator[str]:
    for key, value in table.items():
        yield before + key
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")


# --- completers ------------------------------------------------------------------------------


def named(*kinds: str, suffixes: tuple[str, ...] = ()) -> Completer:
    """Make a completer of one name, or of a file with one of some suffixes."""
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str
                 ) -> list[CompletionItem]:
        found = _beginning(incomplete, (name for kind in kinds for name in names_of(kind)))
        if suffixes and "/" not in incomplete:
            found += [CompletionItem(name) for name in sorted(os.listdir())
                      if name.startswith(incomplete) and name.endswith(suffixes)]
        if suffixes and not found:
            return [CompletionItem(incomplete, type="file")]  # the shell does that
        return found

    return complete


def listed(kind: str) -> Completer:
    """Make a completer of names that are separated by commas."""
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str
                 ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return _beginning(last, names_of(kind), before + comma)

    return complete


def of_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a name of the kind that is given before it."""
    return _beginning(incomplete, names_of(str(ctx.params.get("kind"))))


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a folder."""
    return [CompletionItem(incomplete, type="dir")]


def pictures(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the kind of a picture."""
    return _beginning(incomplete, _PICTURES)


def setting_to_one(ctx: click.Context, param: click.Parameter, incomplete: str
                   ) -> list[CompletionItem]:
    """Complete ``KEY=VALUE``: a key of the experiment, and a value that is a name."""
    return _setting(ctx, incomplete, "")


def setting_to_several(ctx: click.Context, param: click.Parameter, incomplete: str
                       ) -> list[CompletionItem]:
    """Complete ``KEY=VALUE,VALUE``."""
    return _setting(ctx, incomplete, ",")


def _setting(ctx: click.Context, incomplete: str, comma: str) -> list[CompletionItem]:
    key, equals, value = incomplete.partition("=")
    if not equals:
        keys = dict.fromkeys(_keys(_experiment(ctx)))
        return _beginning(key, (f"{each}=" for each in keys))
    before = value[:value.rfind(",") + 1] if comma else ""
    names = names_of(_VALUES.get(key.removesuffix(".name"), ""))
    return _beginning(value[len(before):], names, f"{key}={before}")


def _experiment(ctx: click.Context) -> str | None:
    """The experiment, which may be among the unparsed words if an option lacks its value."""
    given: str | None = ctx.params.get("experiment") or next(iter(ctx.args), None)
    return given


def _beginning(incomplete: str, names: Iterable[str], before: str = "") -> list[CompletionItem]:
    """The names that begin with some letters, each after the text that stands before them."""
    return [CompletionItem(before + name) for name in names if name.startswith(incomplete)]


# --- shells ----------------------------------------------------------------------------------


@add_completion_class
class Bash(BashComplete):
    """Completion in bash, which takes ``KEY=VALUE`` and ``NAME:OPTION`` for several words."""

    name = "bash"
    # After a key and its sign the value follows, without a space.
    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value); [[ $value == *= ]] && compopt -o nospace")
    _before = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the incomplete one, and that one, put together again."""
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in [*args, incomplete]:
            if words and (word[:1] in ("=", ":") or words[-1][-1:] in ("=", ":")):
                words[-1] += word
            else:
                words.append(word)
        *args, incomplete = words
        # Bash replaces only what follows the last of these.
        self._before = incomplete[:max(map(incomplete.rfind, "=:")) + 1]
        return args, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Write a line for the script, with the text for bash to insert."""
        return f"{item.type},{item.value.removeprefix(self._before)}"
