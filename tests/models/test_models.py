"""Models with several kinds of parallelism, and the catalogue of them."""

import pickle

import pytest

import netsim
from netsim import ModelStage, ParallelModel
from netsim.errors import InputError, UnknownNameError
from netsim.models.catalogue import MODELS

TWO = [ModelStage(2, "10ms", "20ms", out_bytes="1MB"), ModelStage(1, in_bytes="2MB")]


def test_equal_models_are_one_key():
    one, other = ParallelModel(TWO), ParallelModel(list(TWO))
    assert {one: 1}[other] == 1
    assert pickle.loads(pickle.dumps(one)) == one
    assert ParallelModel(TWO, micro_batches=2) != one


def test_gpus_are_those_of_all_slices():
    assert ParallelModel([ModelStage(2, slices=4), ModelStage(3)]).gpus == 11


@pytest.mark.parametrize(("make", "message"), [
    (lambda: ModelStage(0), "stage: replicas must be a whole number of at least 1, not 0"),
    (lambda: ModelStage(slices=0), "stage: slices must be a whole number of at least 1"),
    (lambda: ModelStage(forward_s=-1), "stage: forward_s must be at least 0, not -1"),
    (lambda: ModelStage(slice_bytes=5), "has one slice"),
    (lambda: ModelStage(expert_bytes=5), "1 replicas of 1 slices"),
    (lambda: ModelStage(2, slices=2, expert_bytes=5), "2 replicas of 2 slices"),
    (lambda: ParallelModel([]), "has no stages"),
    (lambda: ParallelModel([ModelStage(2, out_bytes=1), ModelStage(in_bytes=1)]),
     "stage 0 sends 2 bytes in an iteration .* and stage 1 receives 1"),
    (lambda: ParallelModel(TWO, "star"),
     "unknown model 'model': allreduce 'star'; choose from: ring, tree"),
    (lambda: ParallelModel(TWO, micro_batches=-1), "micro_batches must be a whole number"),
    (lambda: ParallelModel(TWO, backward_factor=-0.5), "at least 0, not -0.5"),
    (lambda: ParallelModel(TWO, allreduce_factor=float("nan")), "finite number .* not nan"),
    (lambda: ParallelModel([ModelStage(slices=2), ModelStage(slices=3)]),
     "2 and 3 slices; one must divide the other"),
])
def test_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


#: Table I of A-SRPT: parameters in millions, and the size of a mini-batch.
TABLE_I = {"vgg19": (144, 32), "resnet152": (60, 4), "inception-v3": (24, 32),
           "bert-large": (340, 4), "xlnet-large": (550, 4), "t5-11b": (11_000, 8),
           "gpt-6.7b": (6_700, 32), "gpt-13b": (13_000, 32), "gpt-175b": (175_000, 16)}


def test_the_nine_models():
    least = netsim.parallel_models()
    assert list(least) == list(TABLE_I)
    assert least["gpt-175b"] == 48  # 2.8 TB in two of 96 layers per 80 GB
    known = {name: (MODELS.resolve(name).facts["parameters"] / 1e6,
                    MODELS.resolve(name).facts["batch"]) for name in MODELS}
    assert known == TABLE_I


def test_numbers_that_are_not_whole_are_refused_whatever_was_asked_before():
    netsim.models_for(20)
    with pytest.raises(InputError, match=r"gpus must be a whole number of at least 1, not 20\.0"):
        netsim.models_for(20.0)


@pytest.mark.parametrize("gpus", [1, 2, 3, 7, 48, 64])
def test_models_for_any_number_of_gpus(gpus):
    models = netsim.models_for(gpus)
    assert models
    assert models is netsim.models_for(gpus)
    least = netsim.parallel_models()
    assert [model.name for model in models] == [name for name in least if least[name] <= gpus]
    assert {model.gpus for model in models} == {gpus}
    for model in models:
        assert all(stage.forward_s > 0 for stage in model.stages)


def test_what_is_derived_follows_its_formulas():
    """GPT 6.7B on 4 A100: 2 stages of 16 of 32 layers, 2 replicas each, 64 samples in all.

    A replica has 32 samples of 512 tokens: p^f = 2 * 3.35e9 * 32 * 512 / (0.4 * 312e12) s. It
    sends 32 * 512 * 4096 numbers of 2 bytes.
    """
    one, other = netsim.make_model("gpt-6.7b", 4).stages
    assert (one.replicas, other.replicas) == (2, 2)
    assert one.forward_s == pytest.approx(2 * 3.35e9 * 32 * 512 / (0.4 * 312e12))
    assert one.backward_s == 2 * one.forward_s
    assert one.out_bytes == other.in_bytes == 2 * 32 * 512 * 4096
    assert one.in_bytes == other.out_bytes == 0
    assert one.param_bytes == 6.7e9


def test_more_stages_on_request():
    model = netsim.make_model("bert-large", 8, stages=4, allreduce="tree", micro_batches=8)
    assert [stage.replicas for stage in model.stages] == [2, 2, 2, 2]
    assert sum(stage.param_bytes for stage in model.stages) == pytest.approx(4 * 340e6)
    assert (model.allreduce, model.micro_batches) == ("tree", 8)


@pytest.mark.parametrize(("given", "options", "message"), [
    (("gpt-175b", 8), {}, "needs at least 48 GPUs to fit into their memory, not 8"),
    (("vgg19", 0), {}, "gpus must be a whole number of at least 1, not 0"),
    (("vgg19", 4), {"stages": 5}, "from 1 to 4, not 5"),
    (("gpt-13b", 8), {"stages": 2}, "from 3 to 8, not 2"),
    (("gpt-13b", 2), {"stages": 3}, "of 3 stages needs at least 3 GPUs, not 2"),
])
def test_what_does_not_fit_is_refused(given, options, message):
    with pytest.raises(InputError, match=message):
        netsim.make_model(*given, **options)


def test_unknown_model():
    with pytest.raises(UnknownNameError, match="did you mean 'vgg19'"):
        netsim.make_model("vgg16", 2)
