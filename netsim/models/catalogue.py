"""Neural networks to train, on any number of GPUs: the nine of Table I of A-SRPT.

What is published of them is in ``catalogue.toml``, with the formulas by which times and
activations are derived of it.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from netsim.checks import check_whole
from netsim.errors import InputError, UnknownNameError
from netsim.models import ModelStage, ParallelModel
from netsim.plain import plain_numbers
from netsim.reading import read_text
from netsim.units import parse_bytes

__all__ = ["describe_models", "make_model", "models_for", "parallel_models"]

#: Of a network's operations: backward, for each forward.
_BACKWARD = 2.0


def parallel_models() -> dict[str, int]:
    """Return the names of the catalogue's models, and how many GPUs each needs at least.

    These are as many as it has stages at least, so that each stage's state, see the file, fits into
    a GPU's memory.

    Examples
    --------
    >>> parallel_models()["vgg19"], parallel_models()["gpt-6.7b"]
    (1, 2)
    """
    return {name: _least_stages(facts) for name, facts in _read()["models"].items()}


def describe_models() -> dict[str, str]:
    """Return a line on each model.

    Examples
    --------
    >>> describe_models()["gpt-6.7b"]
    '6.7 billion parameters, 32 layers; on 2 GPUs or more'
    """
    least = parallel_models()
    return {name: f"{_in_words(facts['parameters'])} parameters, {facts['layers']} layers; "
                  f"on {least[name]} GPU{'s' if least[name] > 1 else ''} or more"
            for name, facts in _read()["models"].items()}


def _in_words(number: float) -> str:
    return f"{number / 1e9:g} billion" if number >= 1e9 else f"{number / 1e6:g} million"


@cache
def models_for(gpus: int) -> tuple[ParallelModel, ...]:
    """Return all models of the catalogue that can be trained on so many GPUs, in its order.

    There are some for each number: the small ones can be trained on any.

    Parameters
    ----------
    gpus : int

    Raises
    ------
    InputError
        If it is not a whole number of at least 1.
    """
    check_whole(gpus, "gpus", 1)
    return tuple(make_model(name, gpus) for name, least in parallel_models().items()
                 if least <= gpus)


@plain_numbers
def make_model(name: str, gpus: int, *, stages: int | None = None, **options: Any
               ) -> ParallelModel:
    """Return a model of the catalogue, trained on so many GPUs.

    Layers and GPUs are split into stages as evenly as they can be: two stages differ by at most
    one layer, and by at most one replica. Each iteration trains the model's batch per replica that
    a stage has on average.

    Parameters
    ----------
    name : str
        One of `parallel_models`.
    gpus : int
    stages : int, optional
        Of the pipeline; as few as a GPU's memory allows if not given, which is plain data
        parallelism where that is one.
    **options
        As for `ParallelModel`, such as ``allreduce="tree"`` or ``micro_batches=8``.

    Raises
    ------
    UnknownNameError
        If there is no such model.
    InputError
        If the stages are more than the GPUs or the layers, or fewer than memory allows; or an
        option has a value that is not allowed.

    Examples
    --------
    >>> [stage.replicas for stage in make_model("gpt-6.7b", gpus=5).stages]
    [2, 3]
    """
    facts = _read()["models"].get(name)
    if facts is None:
        raise UnknownNameError("model", name, _read()["models"])
    check_whole(gpus, "gpus", 1)
    least = _least_stages(facts)
    if stages is None:
        if gpus < least:
            raise InputError(f"model {name!r} needs at least {least} GPUs to fit into their "
                             f"memory, not {gpus}")
        stages = least
    check_whole(stages, f"stages of model {name!r} on {gpus} GPUs", least,
                max(min(gpus, facts["layers"]), least))
    if gpus < stages:
        raise InputError(f"model {name!r} of {stages} stages needs as many GPUs, not {gpus}")
    return ParallelModel(_stages(facts, gpus, stages), name=name, **options)


def _stages(facts: dict[str, Any], gpus: int, count: int) -> list[ModelStage]:
    """Return the stages, by the formulas of the file."""
    layers, replicas = _split(facts["layers"], count), _split(gpus, count)
    flops = facts.get("forward_flops") or 2 * facts["parameters"] * facts["tokens"]
    numbers = facts.get("numbers") or facts["tokens"] * facts["width"]
    each, samples = facts["bytes_per_number"], facts["batch"] * gpus / count
    found = []
    for number, (part, k) in enumerate(zip(layers, replicas, strict=True)):
        share, mine = part / facts["layers"], samples / k
        forward_s = flops * share * mine / _read()["gpu"]["flops"]
        found.append(ModelStage(
            k, forward_s, _BACKWARD * forward_s,
            in_bytes=each * numbers * mine if number > 0 else 0.0,
            out_bytes=each * numbers * mine if number < count - 1 else 0.0,
            param_bytes=each * facts["parameters"] * share))
    return found


def _split(whole: int, parts: int) -> list[int]:
    """Return whole numbers that add up to one, and differ by at most 1."""
    return [whole * (part + 1) // parts - whole * part // parts for part in range(parts)]


def _least_stages(facts: dict[str, Any]) -> int:
    """Return the fewest stages of which the largest fits into a GPU's memory."""
    gpu = _read()["gpu"]
    state = facts["parameters"] * gpu["state_per_parameter"] / facts["layers"]
    return math.ceil(facts["layers"] / math.floor(parse_bytes(gpu["memory"]) / state))


@cache
def _read() -> dict[str, Any]:
    path = Path(__file__).with_name("catalogue.toml")
    return tomllib.loads(read_text(path))
