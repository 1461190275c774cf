"""A catalogue of neural networks to train on any number of GPUs: those of Table I of A-SRPT.

The published data is in ``catalogue.toml``, with the formulas by which compute times and
activations are derived from it.
"""

from __future__ import annotations

import math
import reprlib
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from netsim.checks import check_whole
from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel
from netsim.plain import known_names, plain_numbers
from netsim.plugins import Registry
from netsim.reading import read_text
from netsim.units import parse_bytes

__all__ = ["MODELS", "make_model", "models_for", "parallel_models"]

#: Operations of the backward pass per operation of the forward pass.
_BACKWARD = 2.0


@known_names
def parallel_models() -> dict[str, int]:
    """Return the least number of GPUs that each model of the catalogue needs, by its name.

    With fewer GPUs, and thus fewer stages, the state of a stage (see ``catalogue.toml``) would not
    fit into the memory of a GPU.

    Examples
    --------
    >>> parallel_models()["vgg19"], parallel_models()["gpt-6.7b"]
    (1, 2)
    """
    return {name: MODELS.resolve(name).least for name in MODELS}


@plain_numbers
def models_for(gpus: int) -> tuple[ParallelModel, ...]:
    """Make all models of the catalogue that can be trained on a number of GPUs.

    They are in the order of the catalogue. There is at least one, because the small models can be
    trained on any number of GPUs.

    Parameters
    ----------
    gpus : int
        Number of GPUs.

    Raises
    ------
    InputError
        If `gpus` is not a whole number of at least 1.
    """
    check_whole(gpus, "gpus", 1)  # which 20.0 is not, though a cache takes it for 20
    return _models_for(gpus)


@cache
def _models_for(gpus: int) -> tuple[ParallelModel, ...]:
    return tuple(make_model(name, gpus) for name, least in parallel_models().items()
                 if least <= gpus)


@plain_numbers
def make_model(name: str, gpus: int, *, stages: int | None = None, **options: Any
               ) -> ParallelModel:
    """Make a model that is trained on a number of GPUs.

    Layers and GPUs are divided into stages as evenly as possible: two stages differ by at most
    one layer, and by at most one replica. The batch of an iteration is the model's batch times the
    average number of replicas of a stage.

    Parameters
    ----------
    name : str
        A name of `MODELS`, or ``"module:function"`` of a user-defined function, which is called
        with the number of GPUs and the options, and returns a `ParallelModel`.
    gpus : int
        Number of GPUs.
    stages : int, optional
        Number of pipeline stages. By default as few as a GPU's memory allows; a single stage is
        plain data parallelism.
    **options
        As for `ParallelModel`, such as ``allreduce="tree"`` or ``micro_batches=8``.

    Raises
    ------
    UnknownNameError
        If there is no such model.
    InputError
        If there are more stages than GPUs or layers, or fewer than memory allows; or an option
        has an invalid value.

    Examples
    --------
    >>> [stage.replicas for stage in make_model("gpt-6.7b", gpus=5).stages]
    [2, 3]
    """
    if stages is not None:
        options["stages"] = stages
    made = MODELS.resolve(name)(gpus, **options)
    if not isinstance(made, ParallelModel):
        raise InputError(f"{name!r} is not a model: it must return a netsim.ParallelModel, not "
                         f"{reprlib.repr(made)}")
    return made


class _Published:
    """A model of the catalogue, which is called to make a `ParallelModel`."""

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self.name, self.facts = name, facts
        self.least = _least_stages(facts)
        self.__doc__ = (f"{_in_words(facts['parameters'])} parameters, {facts['layers']} layers; "
                        f"on {self.least} GPU{'s' if self.least > 1 else ''} or more")

    def __call__(self, gpus: int, *, stages: int | None = None, **options: Any) -> ParallelModel:
        check_whole(gpus, "gpus", 1)
        least, name = self.least, self.name
        if stages is None:
            if gpus < least:
                raise InputError(f"model {name!r} needs at least {least} GPUs to fit into their "
                                 f"memory, not {gpus}")
            stages = least
        check_whole(stages, f"stages of model {name!r} on {gpus} GPUs", least,
                    max(min(gpus, self.facts["layers"]), least))
        if gpus < stages:
            raise InputError(f"model {name!r} of {stages} stages needs at least {stages} GPUs, "
                             f"not {gpus}")
        return ParallelModel(_stages(self.facts, gpus, stages), name=name, **options)


def _in_words(number: float) -> str:
    return f"{number / 1e9:g} billion" if number >= 1e9 else f"{number / 1e6:g} million"


def _stages(facts: dict[str, Any], gpus: int, count: int) -> list[ModelStage]:
    """Make the stages of a model by the formulas in ``catalogue.toml``."""
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
    """Split a whole number into parts that differ by at most 1."""
    return [whole * (part + 1) // parts - whole * part // parts for part in range(parts)]


def _least_stages(facts: dict[str, Any]) -> int:
    """Return the least number of stages such that the largest fits into a GPU's memory."""
    gpu = _read()["gpu"]
    state = facts["parameters"] * gpu["state_per_parameter"] / facts["layers"]
    return math.ceil(facts["layers"] / math.floor(parse_bytes(gpu["memory"]) / state))


@cache
def _read() -> dict[str, Any]:
    path = Path(__file__).with_name("catalogue.toml")
    return tomllib.loads(read_text(path))


#: The models of the catalogue; each is called with a number of GPUs.
MODELS = Registry("model", {name: _Published(name, facts)
                            for name, facts in _read()["models"].items()})
