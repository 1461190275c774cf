"""Labels of policies and of varied values, in the rows and columns of tables."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.checks import refuse_set
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.fabric.allocator import Allocator
from netsim.plugins import labelled, parse_named, parse_policy
from netsim.schedulers.registry import SCHEDULERS
from netsim.text import bare_names

#: Arguments of `netsim.make_allocator`.
Policy = str | Mapping[str, Any] | Allocator | type[Allocator]


def label_of(policy: Policy) -> str:
    """Label an allocator or preset by its name and the options that differ from its defaults."""
    allocator = make_allocator(policy)
    options = ALLOCATORS.to_dict(allocator)
    name = options.pop("name")
    given = policy.get("name") if isinstance(policy, Mapping) else policy
    if isinstance(given, str) and given in ALLOCATORS.presets:
        name, usual = given, ALLOCATORS.options(given)
    else:
        parameters = inspect.signature(type(allocator)).parameters
        usual = {option: parameter.default for option, parameter in parameters.items()}
    changed = [f"{option}={value}" for option, value in options.items()
               if option in usual and repr(value) != repr(usual[option])]
    # An allocator that is not a dataclass does not know its options.
    table = parse_named(policy) if isinstance(policy, str) else policy
    if isinstance(table, Mapping):
        changed += [f"{option}={value}" for option, value in table.items()
                    if option != "name" and option not in options]
    return f"{name} ({', '.join(changed)})" if changed else str(name)


def policy_label(kind: str, given: Any) -> str:
    """Label an allocator by `label_of`, or another policy by its name and given options.

    `kind` is as in ``"allocator"``. A scheduler may be an instance or a class.
    """
    if kind == "allocator":
        return label_of(given)
    if kind == "scheduler" and not isinstance(given, str | Mapping):
        return str(SCHEDULERS.to_dict(given)["name"])
    name, options = parse_policy(given, kind)
    return labelled({"name": name} | options)


def label_in(given: Any, labels: Collection[str], what: str = "baseline") -> str:
    """Find the label of a policy, which is given by its label or by name and options.

    The label may lack the module of its class, which figures leave out. A policy may have any form
    that `policy_label` accepts. A string that is a label is always taken as the label. `what` names
    the policy in errors.
    """
    if isinstance(given, str) and given in labels:
        return given
    for kind in ("allocator", "scheduler"):
        with suppress(NetsimError):
            policy = parse_named(given) if isinstance(given, str) else given
            if (label := policy_label(kind, policy)) in labels:
                return label
    for label, name in bare_names(labels).items():
        if name == given:
            return label
    raise UnknownNameError(what, given, labels)


def is_label_in(given: Any, labels: Collection[str]) -> bool:
    """Whether `label_in` finds a policy."""
    try:
        label_in(given, labels)
    except UnknownNameError:
        return False
    return True


def by_label(name: str, values: Any, label: Callable[[Any], Any]) -> dict[Any, Any]:
    """Label the values of a varied setting: by the keys of a mapping, or else by `label`."""
    pairs = (list(values.items()) if isinstance(values, Mapping) else
             [(label(value), value) for value in values])
    if not pairs:
        raise InputError(f"{name}: there are no values to vary it over")
    found = dict(pairs)
    if len(found) < len(pairs):
        labels = [each for each, _ in pairs]
        twice = next(each for each in labels if labels.count(each) > 1)
        raise InputError(f"{name}: two of the values have one label, {twice!r}; leave one out, or "
                         "give a mapping with a label for each")
    return found


def policies_by_label(policies: Any, kind: str) -> dict[str, Any]:
    """Label the allocators or schedulers of a comparison; see `by_label`."""
    refuse_set(policies, f"{kind}s")
    if isinstance(policies, str) or not isinstance(policies, Sequence | Mapping):
        raise InputError(f"{kind}s must be a list or a mapping, not {policies!r}")
    found = by_label(kind, policies, partial(policy_label, kind))
    return {str(label): policy for label, policy in found.items()}


def as_cell(value: Any) -> Any:
    """Convert a value to a cell of a table: plain values unchanged, others to JSON."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, default=str)
