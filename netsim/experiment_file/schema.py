"""The JSON schema of experiment files, from pydantic's models, registries and docstrings.

A table whose key chooses one of several things, as ``name`` does in ``[allocator]``, takes the
options of that thing. Its schema refers to all things twice: ``anyOf``, which always holds, is
where editors look for what they complete; ``then`` says, for each choice, what the table may hold.
So messages name the key that is wrong, and a user's own ``"module:Class"`` may have any options.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from netsim.allocators import ALLOCATORS
from netsim.base.limits import LIMITS
from netsim.base.plugins import Registry
from netsim.base.units import UNITS, Quantity
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.edge.files import EDGE_KINDS
from netsim.edge.registry import TRANSPORTS
from netsim.engine.preemption import Preemption
from netsim.engine.registry import EXECUTIONS
from netsim.errors import InputError
from netsim.experiment_file import sources, tables
from netsim.experiment_file.catalogue import REGISTRIES, described
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.ranges import Points
from netsim.experiment_file.values import quantity_schema
from netsim.jobs.patterns import PATTERNS
from netsim.network import TOPOLOGIES
from netsim.network.wired import wired
from netsim.placements.registry import PLACEMENTS
from netsim.predictors import PREDICTORS
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.events import FaultEvent
from netsim.traces import FORMATS, format_of
from netsim.traces.generators import poisson_resample

Schema = dict[str, Any]

#: The models of tables, each with the classes and functions whose parameters its keys are.
_TABLES: dict[type[BaseModel], tuple[Any, ...]] = {
    Experiment: (), sources.ClusterTable: (Cluster,), tables.EventTable: (FaultEvent,),
    tables.PreemptionTable: (Preemption,), tables.CompareTable: (), tables.SweepTable: (),
    sources.NetworkTable: (), sources.EdgeCloudTable: (), sources.PartTable: ()}

#: Policies that are given by a name or by a table, by the model of the table or the key.
_POLICIES = {"AllocatorTable": ALLOCATORS, "SchedulerTable": SCHEDULERS,
             "PlacementTable": PLACEMENTS, "ExecutionTable": EXECUTIONS,
             "TransportTable": TRANSPORTS, "pattern": PATTERNS, "predictor": PREDICTORS}

#: What has more about options than the functions that a registry names.
_MORE_ABOUT: dict[Registry, list[Any]] = {TOPOLOGIES: [wired], EDGE_KINDS: [EdgeCloud]}

#: Keys of tables that only those things take that read a file.
_OF_FILES = ("file", "sha256")

_OWN_CODE = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"

#: The definitions of quantities, by base unit; "" if the unit depends on other options.
_QUANTITIES = {"s": "duration", "B": "size", "B/s": "rate", "": "quantity"}

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "string"}

#: Types in docstrings, for parameters without annotations.
_WORDS = {"int": int, "float": float, "str": str, "quantity": Quantity, "mapping": Mapping,
          "sequence": Sequence}

#: Words that tell the unit of a quantity.
_UNIT_WORDS = re.compile(r"(?P<rate>\brate|capacit|bandwidth)|(?P<size>\bbytes\b|storage)"
                         r"|(?P<time>second|\btime|interval|_s$)", re.IGNORECASE)

#: The first sentence of a text; a sign such as "8, ..." or "_ . + -" does not end it.
_SENTENCE = re.compile(r".*?[^.]\.(?= [A-Z`]|$)|.*")


def schema() -> Schema:
    """Make the JSON schema of experiment files, of draft 2020-12.

    Names of plug-ins that other packages install are included.
    """
    found = Experiment.model_json_schema()
    defs = found.pop("$defs")
    for model, others in _TABLES.items():
        _describe(found if model is Experiment else defs[model.__name__], described(model, *others))
    for name, registry in _POLICIES.items():
        _add_policies(defs, name, registry)
    _add_sources(defs)
    _add_workloads(defs, found["properties"])
    points = {name: each.default for name, each in inspect.signature(Points).parameters.items()}
    defs["SweepTable"]["properties"]["points"]["anyOf"] = [
        {"type": "integer", "minimum": 1}, _closed(_options_of(points, Points))]
    for unit, name in _QUANTITIES.items():
        defs[name] = quantity_schema(unit)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Experiment file of netsim", **found, "$defs": dict(sorted(defs.items()))}


# --- tables with fixed keys ----------------------------------------------------------------
def _describe(table: Schema, known: Mapping[str, tuple[str, str]]) -> None:
    """Reduce pydantic's schema of a table to what TOML can express, and describe its keys."""
    del table["title"]
    table["description"] = _line(table["description"])
    for name, given in table["properties"].items():
        told, text = known.get(name, ("", ""))
        own = {key: value for key, value in _without_null(given).items() if key != "title"}
        default = own.pop("default", None)
        if own == {"type": "string"} and (choices := _choices(told)):
            own = {"enum": choices}
        if isinstance(default, dict):
            default = default.get("name")  # of a policy
        table["properties"][name] = _property(own, "" if "$ref" in own else text, default)


def _without_null(given: Schema) -> Schema:
    """Leave out null, which TOML does not have, from alternatives."""
    others = [each for each in given.get("anyOf", ()) if each != {"type": "null"}]
    rest = {key: value for key, value in given.items() if key != "anyOf"}
    return rest | (others[0] if len(others) == 1 else {"anyOf": others} if others else {})


def _property(type: Schema, text: str, default: Any) -> Schema:
    """The schema of a key: its meaning, its type, and its default if TOML can express it."""
    meaning = " ".join(filter(None, (_line(text), type.get("description"))))
    found = {"description": meaning} if meaning else {}
    found |= {key: value for key, value in type.items() if key != "description"}
    plain = isinstance(default, str | int | float | list | tuple) and default not in ((), [], "")
    # A meaning that names the default says how it depends on other keys.
    if plain and default != math.inf and "by default" not in text.lower():
        found["default"] = default
    return found


def _line(text: str) -> str:
    """The first sentence of a docstring or a comment, on one line."""
    found = _SENTENCE.match(" ".join(text.replace("``", "`").split()))
    assert found is not None
    sentence = re.sub("^[a-z]{2}", lambda first: first[0].capitalize(), found[0])
    return f"{sentence}." if sentence and sentence[-1] != "." else sentence


def _closed(properties: Schema, required: Sequence[str] = ()) -> Schema:
    """A table without other keys."""
    return {"type": "object", "properties": properties, "additionalProperties": False} | (
        {"required": list(required)} if required else {})


# --- options -------------------------------------------------------------------------------
def _options_of(defaults: Mapping[str, Any], *things: Any) -> Schema:
    """The schemas of options, which the docstrings and annotations of some things describe."""
    known = described(*things)
    hints: dict[str, Any] = {}
    for thing in things:
        for each in (thing, getattr(thing, "__init__", None)):
            with suppress(NameError, TypeError):
                hints = get_type_hints(each) | hints
    found = {}
    for name, default in defaults.items():
        told, text = known.get(name, ("", ""))
        own = ({"anyOf": [{"$ref": f"#/$defs/{name}"}]} if name in _POLICIES else
               _type_of(hints.get(name, Any), told, f"{text} {name}", default))
        found[name] = _property(own, text, default)
    return found


def _type_of(annotation: Any, told: str, text: str, default: Any) -> Schema:
    """The type of an option, by annotation and default, and type and meaning in the docstring."""
    words = set(re.findall(r"[a-z]+", told))
    if annotation in (Any, inspect.Parameter.empty):
        known = [_WORDS[word] for word in _WORDS if word in words]
        annotation = Union[tuple(known)] if known else Any  # noqa: UP007
    if words & {"quantity", "rate"} and annotation in (float, float | None):
        annotation = Quantity
    unit = "B/s" if "rate" in words else _unit_of(default) or _unit_in(text)
    found = _alternatives(annotation, _choices(told), _QUANTITIES[unit])
    if "/$defs/" in str(found):
        found["description"] = quantity_schema(unit)["description"]
    return found


def _unit_of(default: Any) -> str:
    """The base unit of a default, or of the first of several; "" if it has none."""
    first = default[0] if isinstance(default, list | tuple) and default else default
    name = re.sub(r"^[\d.]+\s*", "", first) if isinstance(first, str) else ""
    return next((unit for unit, known in UNITS.items() if name in known), "")


def _unit_in(text: str) -> str:
    """The base unit that the meaning of an option mentions first; "" if it mentions none."""
    found = _UNIT_WORDS.search(text)
    return "" if found is None else {"rate": "B/s", "size": "B", "time": "s"}[str(found.lastgroup)]


def _alternatives(annotation: Any, choices: Sequence[Any], quantity: str) -> Schema:
    """The types of a union; those that TOML cannot express are left out."""
    kinds = list(get_args(annotation) if get_origin(annotation) in (Union, UnionType)
                 else [annotation])
    found: list[Schema] = []
    if {str, int, float} <= {*kinds}:
        found = [{"$ref": f"#/$defs/{quantity}"}, *([{"enum": choices}] if choices else [])]
        kinds = [kind for kind in kinds if kind not in (str, int, float)]
    for kind in kinds:
        own = _alternative(kind, choices, quantity)
        if own is not None and own not in found:
            found.append(own)
    if len(found) == 1 and "$ref" not in found[0]:
        return found[0]
    return {"anyOf": found} if found else {}


def _alternative(kind: Any, choices: Sequence[Any], quantity: str) -> Schema | None:
    """One type of a union."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if kind in _SCALARS:
        own = [each for each in choices if type(each) is kind]
        return {"enum": own} if own else {"type": _SCALARS[kind]}
    if not isinstance(origin, type):
        return None
    if is_dataclass(origin) or issubclass(origin, Mapping):  # a table of parameters
        values = _alternatives(args[1], (), quantity) if args else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    if issubclass(origin, Iterable):
        items = _alternatives(args[0], (), quantity) if args else {}
        return {"type": "array"} | ({"items": items} if items else {})
    return {"type": "string"} if issubclass(origin, PathLike) else None


def _choices(told: str) -> list[Any]:
    """The values that a type in a docstring lists: ``{"jobs", "coflows"}``, ``int or "all"``."""
    listed = ", ".join(re.findall(r"\{([^}]*)\}", told)) or ", ".join(re.findall(r'"[^"]*"', told))
    return list(ast.literal_eval(f"[{listed}]"))


# --- things with options, by name ----------------------------------------------------------
def _things(registry: Registry) -> dict[str, list[str]]:
    """The names of a registry that mean the same thing, by the first of them."""
    found: dict[str, list[str]] = {}
    by_thing: dict[int, str] = {}
    for name in (*registry.names, *registry.installed):
        with suppress(InputError):  # an installed plug-in cannot be loaded
            first = by_thing.setdefault(id(registry.resolve(name)), name)
            found.setdefault(first, []).append(name)
    return found


def _thing(registry: Registry, name: str, own: Sequence[str]) -> Schema:
    """The table of one thing; keys in `own` are described by the table around it."""
    made, more = registry.resolve(name), _MORE_ABOUT.get(registry, [])
    options = registry.options(name)
    if registry is FORMATS:
        form = format_of(name)
        options = ({"file": inspect.Parameter.empty} if form.needs_file else {}) | form.defaults
        more = [] if form.keywords is None else [form.keywords]
    required = [option for option, default in options.items()
                if default is inspect.Parameter.empty]
    free = {option: default for option, default in options.items() if option not in own}
    shared = {each: True for each in own if each not in _OF_FILES or "file" in options}
    return {"description": _line(registry.help(name)),
            **_closed(shared | _options_of(free, made, *more), required)}


def _choose(table: Schema, key: str, cases: Mapping[str, list[str]], prefix: str) -> None:
    """Add to a table: which definition holds for which names, the values of a key."""
    names = [name for each in cases.values() for name in each]
    text = table["properties"].get(key, {}).get("description", "Its name, or `module:Class`.")
    table["properties"][key] = {
        "description": text,
        "anyOf": [{"enum": names}, {"type": "string", "pattern": f"^{_OWN_CODE}$"}]}
    refs = {first: {"$ref": f"#/$defs/{prefix}-{first}"} for first in cases}
    table["anyOf"] = [*table.get("anyOf", ()), *refs.values(), {}]
    table["if"] = {"required": [key]}
    table["then"] = {"allOf": [
        {"if": {"properties": {key: {"enum": names}}}, "then": refs[first]}
        for first, names in cases.items()]}


def _add_policies(defs: Schema, name: str, registry: Registry) -> None:
    """Define a kind of policies, given by a name with options or by a table."""
    prefix = name.removesuffix("Table").lower()
    cases = _things(registry)
    names = [each for known in cases.values() for each in known]
    for first in cases:
        own = _thing(registry, first, ["name"])
        options = "|".join(option for option in own["properties"] if option != "name")
        own["type"] = ["string", "object"]
        own["pattern"] = rf"^[\w.-]+(:\s*({options})\s*=.*)*$" if options else r"^[\w.-]+$"
        defs[f"{prefix}-{first}"] = own
    text = defs.get(name, {}).get("description", f"A {prefix}, by its name.")
    table: Schema = {
        "description": _line(text), "type": ["string", "object"], "anyOf": [{"enum": names}],
        "pattern": rf"^({'|'.join(names)}|{_OWN_CODE})(:[^:]*=.*)?$",
        "required": ["name"], "properties": {}}
    _choose(table, "name", cases, prefix)
    for case, known in zip(table["then"]["allOf"], cases.values(), strict=True):
        case["if"]["pattern"] = f"^({'|'.join(known)})(:|$)"  # of a text
    defs[name] = table


# --- tables with a name, a file, or a kind -------------------------------------------------
def _add_sources(defs: Schema) -> None:
    """Complete the tables of networks and edge-clouds."""
    defs["NetworkTable"]["properties"]["limits"] = _limits()
    _add_kinds(defs, "NetworkTable", "kind", "network", [TOPOLOGIES])
    _add_kinds(defs, "EdgeCloudTable", "kind", "edge-cloud", [EDGE_KINDS])


def _add_workloads(defs: Schema, keys: Schema) -> None:
    """Complete the table of a workload, and the list of several."""
    known = described(poisson_resample)
    own = defs["PartTable"]["properties"]
    own["limits"] = _limits()
    for name, option, kind in (("poisson_jobs", "jobs", int),
                               ("poisson_mean", "mean_interarrival", Quantity)):
        text = known[option][1]
        own[name] = _property(_type_of(kind, "", text, None), text, None)
    part = _add_kinds(defs, "PartTable", "format", "format",
                      REGISTRIES["formats"].values())
    part["properties"] |= {"llm": defs["format-llm"]["properties"]["model"],
                           "pattern": {"$ref": "#/$defs/pattern"}}
    defs["WorkloadTable"] = {"description": _line(defs["WorkloadTable"]["description"]),
                             "type": "object", "allOf": [{"$ref": "#/$defs/PartTable"}],
                             "properties": {key: {"not": {}} for key in ("arrival", "id_offset")}}
    both = [{"$ref": "#/$defs/WorkloadTable"}, {"$ref": "#/$defs/WorkloadList"}]
    defs["WorkloadList"] = {"description": _line(defs["WorkloadList"]["description"]),
                            "type": "array", "minItems": 1, "items": {"$ref": "#/$defs/PartTable"}}
    keys["workload"] = {
        "description": keys["workload"]["description"], "anyOf": [*both, {}],
        "if": {"type": "array"}, "then": both[1], "else": both[0]}


def _limits() -> Schema:
    """The key ``limits`` of networks and workloads."""
    return {"description": "Numbers that replace limits on what a file may ask for.", **_closed(
        {name: {"description": f"Most {limit.what}.", "type": "integer", "minimum": 1,
                "default": limit.most} for name, limit in LIMITS.items()})}


def _add_kinds(defs: Schema, name: str, key: str, prefix: str, registries: Iterable[Registry]
               ) -> Schema:
    """Complete an open table; return what holds for one without a kind or a format."""
    table = defs[name]
    del table["additionalProperties"]
    own = list(table["properties"])
    cases: dict[str, list[str]] = {}
    for registry in registries:
        for first, names in _things(registry).items():
            cases[first] = names
            defs[f"{prefix}-{first}"] = _thing(registry, first, own)
    _choose(table, key, cases, prefix)
    every = dict.fromkeys((option for first in cases
                           for option in defs[f"{prefix}-{first}"]["properties"]), True)
    table["else"] = _closed(every)
    return table["else"]


def schema_text() -> str:
    """The schema as JSON, with lists and tables of plain values on a line."""
    text = json.dumps(schema(), indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r"[\[{]\n[^\[\]{}]*[\]}]", lambda few: re.sub(r"\n *", " ", few[0]), text)
