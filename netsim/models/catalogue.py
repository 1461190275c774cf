"""A catalogue of neural networks to train on any number of GPUs: those of Table I of A-SRPT.

The published data is in ``catalogue.toml``, with the formulas by which compute times and
activations are derived from it and from the GPU.
"""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from netsim.base.files import read_text
from netsim.base.plugins import Registry
from netsim.base.units import format_bytes
from netsim.base.values import about, as_whole, known_names, plain
from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel
from netsim.models.gpus import Gpu, gpu_of

#: Operations of the backward pass per operation of the forward pass.
BACKWARD = 2.0

#: The GPU of models for which none is named.
GPU = "a100"


@known_names
def parallel_models(gpu: str | Mapping[str, Any] | Gpu = GPU) -> dict[str, int]:
    """Return the least number of GPUs that each model of the catalogue needs, by its name.

    With fewer GPUs, and thus fewer stages, the state of a stage (see ``catalogue.toml``) would not
    fit into the memory of a GPU. A model of which not even one layer fits is left out.

    Parameters
    ----------
    gpu : str, mapping or Gpu
        The kind of GPU: a name of `netsim.models.gpus.GPUS`, or parameters of
        `netsim.models.gpus.Gpu`.

    Raises
    ------
    InputError
        If there is no such GPU.

    Examples
    --------
    >>> parallel_models()["gpt-6.7b"], parallel_models("v100")["gpt-6.7b"]
    (2, 4)
    """
    kind = gpu_of(gpu)
    found = {name: MODELS.resolve(name).least_stages(kind) for name in MODELS}
    return {name: least for name, least in found.items() if least is not None}


@known_names
def models_for(gpus: int, gpu: str | Mapping[str, Any] | Gpu = GPU) -> tuple[ParallelModel, ...]:
    """Make all models of the catalogue that can be trained on a number of GPUs.

    They are in the order of the catalogue.

    Parameters
    ----------
    gpus : int
        Number of GPUs.
    gpu : str, mapping or Gpu
        The kind of GPU, as for `parallel_models`.

    Raises
    ------
    InputError
        If `gpus` is not a whole number of at least 1, or there is no such GPU.
    """
    # A cache takes 20.0 for 20.
    return _models_for(as_whole(gpus, "gpus", 1), gpu_of(gpu))


@cache
def _models_for(gpus: int, gpu: Gpu) -> tuple[ParallelModel, ...]:
    return tuple(make_model(name, gpus, gpu=gpu) for name, least in parallel_models(gpu).items()
                 if least <= gpus)


@known_names
def make_model(name: str, gpus: int, *, stages: int | None = None,
               gpu: str | Mapping[str, Any] | Gpu | None = None, **options: Any) -> ParallelModel:
    """Make a model that is trained on a number of GPUs.

    Layers and GPUs are divided into stages as evenly as possible: two stages differ by at most
    one layer, and by at most one replica. An iteration trains the model's mini-batch times the
    average number of replicas of a stage. `netsim.plan_model` divides a model by what its layers
    take instead, and a mini-batch among replicas.

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
    gpu : str, mapping or Gpu, optional
        The kind of GPU, as for `parallel_models`; by default ``"a100"``.
    **options
        As for `ParallelModel`, such as ``allreduce="tree"`` or ``micro_batches=8``.

    Raises
    ------
    UnknownNameError
        If there is no such model.
    InputError
        If there are more stages than GPUs or layers, or fewer than memory allows; there is no
        such GPU; or an option has an invalid value.

    Examples
    --------
    >>> [stage.replicas for stage in make_model("gpt-6.7b", gpus=5).stages]
    [2, 3]
    """
    options |= {option: value for option, value in (("stages", stages), ("gpu", gpu))
                if value is not None}
    with about("name"):
        make = MODELS.resolve(name)
    made = make(plain(gpus), **plain(options))
    if not isinstance(made, ParallelModel):
        raise InputError(f"{name!r} is not a model: it must return a netsim.ParallelModel, not "
                         f"{reprlib.repr(made)}", "name")
    return made


class _PublishedModel:
    """A model of the catalogue, which is called to make a `ParallelModel`."""

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self.name, self.facts = name, facts
        least = self.least_stages(gpu_of(GPU))
        self.__doc__ = (f"{_in_words(facts['parameters'])} parameters, {facts['layers']} layers; "
                        f"on {least} GPU{'s' if least != 1 else ''} or more")

    def __call__(self, gpus: int, *, stages: int | None = None,
                 gpu: str | Mapping[str, Any] | Gpu = GPU, **options: Any) -> ParallelModel:
        gpus, kind, name = as_whole(gpus, "gpus", 1), gpu_of(gpu), self.name
        least = self.least_stages(kind)
        if least is None:
            raise InputError(f"model {name!r} has layers that do not fit into a GPU of "
                             f"{format_bytes(kind.memory)}", "gpu")
        if stages is None:
            if gpus < least:
                raise InputError(f"model {name!r} needs at least {least} GPUs to fit into their "
                                 f"memory, not {gpus}", "gpus")
            stages = least
        stages = as_whole(stages, f"model {name!r} on {gpus} GPUs: stages", least,
                          max(min(gpus, self.facts["layers"]), least))
        if gpus < stages:
            raise InputError(f"model {name!r} of {stages} stages needs at least {stages} GPUs, "
                             f"not {gpus}", "gpus")
        return ParallelModel(_stages(self.facts, gpus, stages, kind), name=name, **options)

    def least_stages(self, gpu: Gpu) -> int | None:
        """The least number of stages of which the largest fits into a GPU; None if none does."""
        layers = self.facts["layers"]
        fit = int(gpu.memory // (state_bytes(self.facts["parameters"]) / layers))
        return -(-layers // fit) if fit else None


def _in_words(number: float) -> str:
    return f"{number / 1e9:g} billion" if number >= 1e9 else f"{number / 1e6:g} million"


def _stages(facts: dict[str, Any], gpus: int, count: int, gpu: Gpu) -> list[ModelStage]:
    """Make the stages of a model by the formulas in ``catalogue.toml``."""
    layers, replicas = _split(facts["layers"], count), _split(gpus, count)
    flops, numbers = forward_flops(facts), numbers_between(facts)
    each, samples = facts["bytes_per_number"], facts["batch"] * gpus / count
    found = []
    for number, (part, k) in enumerate(zip(layers, replicas, strict=True)):
        share, mine = part / facts["layers"], samples / k
        forward_s = flops * share * mine / gpu.speed
        found.append(ModelStage(
            k, forward_s, BACKWARD * forward_s,
            in_bytes=each * numbers * mine if number > 0 else 0.0,
            out_bytes=each * numbers * mine if number < count - 1 else 0.0,
            param_bytes=each * facts["parameters"] * share))
    return found


def forward_flops(facts: Mapping[str, Any]) -> float:
    """The forward operations of a sample."""
    return float(facts.get("forward_flops") or 2 * facts["parameters"] * facts["tokens"])


def numbers_between(facts: Mapping[str, Any]) -> float:
    """How many numbers of a sample pass between two layers."""
    return float(facts.get("numbers") or facts["tokens"] * facts["width"])


def state_bytes(parameters: float) -> float:
    """The bytes that parameters need while they are trained."""
    return float(parameters * _read()["state_per_parameter"])


def _split(whole: int, parts: int) -> list[int]:
    """Split a whole number into parts that differ by at most 1."""
    return [whole * (part + 1) // parts - whole * part // parts for part in range(parts)]


@cache
def _read() -> dict[str, Any]:
    path = Path(__file__).with_name("catalogue.toml")
    return tomllib.loads(read_text(path))


#: The models of the catalogue; each is called with a number of GPUs.
MODELS = Registry("model", {name: _PublishedModel(name, facts)
                            for name, facts in _read()["models"].items()})
