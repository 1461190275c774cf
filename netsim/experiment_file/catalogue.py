"""The names of all policies, formats, networks and so on, with their summaries and options."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from typing import Any

from netsim import network, traces
from netsim.allocators import ALLOCATORS
from netsim.base.plugins import Registry
from netsim.edge.files import EDGE_CLOUDS, EDGE_FORMATS, EDGE_JOBS, EDGE_KINDS
from netsim.edge.registry import TRANSPORTS
from netsim.engine.registry import EXECUTIONS
from netsim.errors import InputError, MissingExtraError, UnknownNameError
from netsim.jobs.patterns import PATTERNS
from netsim.llm import LLMS
from netsim.models.catalogue import MODELS
from netsim.models.gpus import gpu_summaries
from netsim.network import TOPOLOGIES
from netsim.placements.registry import PLACEMENTS
from netsim.predictors import PREDICTORS
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.needs import places_of
from netsim.traces import FORMATS

Summaries = dict[str, str]

#: Kind -> its registries, by the prefix of their summaries.
REGISTRIES: dict[str, dict[str, Registry]] = {
    "allocators": {"": ALLOCATORS},
    "schedulers": {"": SCHEDULERS},
    "placements": {"": PLACEMENTS},
    "executions": {"": EXECUTIONS},
    "transports": {"": TRANSPORTS},
    "predictors": {"": PREDICTORS},
    "patterns": {"": PATTERNS},
    "formats": {"": FORMATS, "of edge-clouds: ": EDGE_FORMATS},
    "models": {"": MODELS},
    "gpus": {},
    "llms": {"": LLMS},
    "topologies": {"kind: ": TOPOLOGIES, "kind of edge-cloud: ": EDGE_KINDS},
    "workloads": {},
}


def _experiments() -> Summaries:
    from netsim.experiment_file.load import ready_made_experiments  # slow and rarely needed

    return ready_made_experiments()


#: Kind -> functions that list ready-made descriptions, by the prefix of their summaries.
_READY_MADE: dict[str, dict[str, Callable[[], Summaries]]] = {
    "gpus": {"": gpu_summaries},
    "topologies": {"": network.ready_made, "edge-cloud: ": EDGE_CLOUDS.ready_made},
    "workloads": {"": traces.ready_made, "of edge-clouds: ": EDGE_JOBS.ready_made,
                  "experiment: ": _experiments},
}

CATALOGUES = tuple(REGISTRIES)

#: The singular of kinds that do not simply lose their last letter.
_ONE_OF = {"topologies": "topology"}

#: Parameters whose docstring refers to those of another class or function, up to its full stop.
_REFERENCE = re.compile(
    r"^(\w+(?:, \w+)*)( : .*)?\n    (?:As for|See) `([\w.]+)`\.( ?)", re.MULTILINE)

#: Parameters in a docstring: names, type and text.
_ENTRY = re.compile(r"^(\w+(?:, \w+)*)( : .*)?((?:\n+    .*)+)", re.MULTILINE)

#: Comments of fields, before them or at the end of their line.
_COMMENT = re.compile(r"((?:^ +#: .*\n)*)^ +(\w+): [^#\n]*(?:#: (.*))?$", re.MULTILINE)

#: The default of an option that must be given.
REQUIRED = "(to be given)"


def _where(registry: Registry, name: str) -> str:
    """The place where a scheduler runs, unless it runs everywhere; ``""`` for other policies."""
    if registry is not SCHEDULERS:
        return ""
    try:
        places = places_of(registry.make(name, {}))
    except MissingExtraError as error:
        return f"({error}) "
    return f"on {places[0]}s: " if len(places) == 1 else ""


def _other_names(registry: Registry, name: str) -> str:
    """The aliases of a policy, to follow its summary; ``""`` if there are none."""
    aliases = [alias for alias, own in registry.aliases.items() if own == name]
    return f" (also named {', '.join(aliases)})" if aliases else ""


def _summary(registry: Registry, name: str) -> str:
    """The summary of another package's plug-in, or the reason why it cannot be used."""
    try:
        return _where(registry, name) + registry.help(name)
    except InputError as error:
        return f"cannot be used: {error}"


def catalogue(kind: str) -> Summaries:
    """Map each name of a kind of `CATALOGUES` to a one-line summary.

    Summaries of other packages' plug-ins name the package. ``"topologies"`` has kinds of networks
    and ready-made ones, ``"workloads"`` ready-made workloads and experiments.
    """
    if kind not in REGISTRIES:
        raise UnknownNameError("catalogue", kind, CATALOGUES)
    lines = {name: beginning + _where(registry, name) + registry.help(name)
             + _other_names(registry, name)
             for beginning, registry in REGISTRIES[kind].items()
             for name in (*registry, *registry.presets)}
    lines |= {name: f"{beginning}of package {each.package}: {_summary(registry, name)}"
              for beginning, registry in REGISTRIES[kind].items()
              for name, each in registry.installed.items()}
    return lines | {name: beginning + line
                    for beginning, ready_made in _READY_MADE.get(kind, {}).items()
                    for name, line in ready_made().items()}


def details(kind: str, name: str) -> dict[str, Any]:
    """Describe a named policy, format, network or the like: ``kind``, ``name`` and ``summary``.

    The name may be an alias, or ``"module:attribute"``. If the thing takes options, the result also
    has ``options``, with the default of each (`REQUIRED` if it has none), and ``doc``, the
    docstring without its summary, in which references to parameters of other classes or functions
    are replaced by their text.
    """
    known = catalogue(kind)
    registries = REGISTRIES[kind].values()
    found = next((each for each in registries if name in each.names or name in each.installed),
                 next(iter(registries)) if ":" in name and registries else None)
    if found is None:
        if name not in known:
            raise UnknownNameError(_ONE_OF.get(kind, kind.removesuffix("s")), name, known)
        return {"kind": kind, "name": name, "summary": known[name]}
    options = {option: REQUIRED if default is inspect.Parameter.empty else default
               for option, default in found.options(name).items()}
    return {"kind": kind, "name": name, "summary": known.get(name, found.help(name)),
            "options": options,
            "doc": _written_out(found.resolve(name)).partition("\n")[2].strip()}


def _written_out(described: Any) -> str:
    """Write a docstring with the text of parameters in place of references to it."""
    def entries(reference: re.Match[str]) -> str:
        names, own_type, target, more = reference.groups(default="")
        known = _parameters(_referred(described, target))
        if not all(name in known for name in names.split(", ")):
            return reference[0]
        parts = [(", ".join(same), own_type or type, text)
                 for (type, text), same in groupby(names.split(", "), lambda name: known[name])]
        return "\n".join(map("".join, parts)) + ("\n    " if more else "")

    return _REFERENCE.sub(entries, inspect.getdoc(described) or "")


def _referred(described: Any, target: str) -> Any:
    """Find the object of a reference, in the docstring's module or by its full name; or None."""
    for place in (f"{described.__module__}:{target}", target):
        with suppress(ImportError, AttributeError, ValueError):
            return pkgutil.resolve_name(place)
    return None


def described(*things: Any) -> dict[str, tuple[str, str]]:
    """Map the parameters and fields of classes and functions to their types and meanings.

    What several of them, or the bases of a class, describe is as in the first; a type is "" if only
    a comment at the field describes it.
    """
    found: dict[str, tuple[str, str]] = {}
    for thing in things:
        for each in getattr(thing, "__mro__", [thing]):
            found = _commented(each) | _parameters(each) | found
    return found


def _commented(described: Any) -> dict[str, tuple[str, str]]:
    """Map each field of a class of netsim with a comment to no type and the comment."""
    if not (inspect.isclass(described) and described.__module__.startswith("netsim.")):
        return {}
    return {name: ("", re.sub(r"^ *#: ", "", before, flags=re.MULTILINE) or after)
            for before, name, after in _COMMENT.findall(inspect.getsource(described))
            if before or after}


def _parameters(described: Any) -> dict[str, tuple[str, str]]:
    """Map each parameter in the docstring of a class or function to its type and its text."""
    if described is None:
        return {}
    sections = re.split(r"^(\w+)\n-{4,}\n", _written_out(described), flags=re.MULTILINE)
    # Parameters come later, as they count where attributes have the same names.
    return {name: (type, text)
            for heading, section in sorted(zip(sections[1::2], sections[2::2], strict=True))
            if heading in ("Attributes", "Parameters")
            for names, type, text in _ENTRY.findall(section) for name in names.split(", ")}
