"""GPUs by name: what is published of them, and what is derived from it."""

import pytest

import netsim
from netsim.errors import InputError, UnknownNameError
from netsim.models.catalogue import MODELS
from netsim.models.gpus import GPUS, Gpu, gpu_of, gpu_summaries


def test_the_published_numbers():
    """Tera-operations per second without sparsity, and gigabytes; slices are sevenths."""
    known = {name: (gpu.flops / 1e12, gpu.memory / 1e9) for name, gpu in GPUS.items()}
    assert known["v100"] == (125, 32)
    assert known["a100"] == (312, 80)
    assert known["h100"] == (989.4, 80)
    assert known["h100-nvl-1g.12gb"] == (pytest.approx(835.5 / 7), 12)
    for name, (flops, memory) in known.items():
        if "g." in name:  # such as h100-2g.20gb: sevenths, and gigabytes
            whole, _, slice_ = name.rpartition("-")
            sevenths, gigabytes = slice_.removesuffix("gb").split("g.")
            assert (flops, memory) == (pytest.approx(known[whole][0] * int(sevenths) / 7),
                                       int(gigabytes))


def test_a_gpu_by_name_by_parameters_and_as_such():
    own = {"flops": 100e12, "memory": "24GB", "utilisation": 0.5}
    assert gpu_of(own) == gpu_of(Gpu(**own)) == Gpu(100e12, 24e9, 0.5)
    assert gpu_of(own).speed == 50e12
    assert gpu_summaries()["h100-2g.20gb"] == "282.7 TFLOPS, 20 GB"


@pytest.mark.parametrize(("given", "message"), [
    ("v10", r"unknown GPU 'v10' \(did you mean 'v100'"),
    (7, "gpu must be a name, or a table with flops and memory, not 7"),
    ({"flops": 1e12}, "gpu needs: memory"),
    ({"flops": 1e12, "memory": 1e9, "cores": 3}, "unknown option of gpu 'cores'"),
    ({"flops": 0, "memory": 1e9}, r"GPU: flops must be a number in \(0, 1e\+30\], not 0"),
    ({"flops": 1e12, "memory": 0}, "GPU: memory must be at least"),
    ({"flops": 1e12, "memory": 1e9, "utilisation": 1.5},
     r"utilisation must be .* in \(0, 1\], not 1.5"),
])
def test_gpus_that_are_refused(given, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        gpu_of(given)


@pytest.mark.parametrize("name", GPUS)
def test_times_are_inverse_to_the_speed_and_stages_fit_into_memory(name):
    """Nothing else depends on the GPU: of one stage, bytes are the same."""
    kind = gpu_of(name)
    one, other = (netsim.make_model("vgg19", 2, gpu=each).stages[0] for each in ("a100", name))
    assert other.forward_s == pytest.approx(one.forward_s * gpu_of("a100").speed / kind.speed)
    assert other.param_bytes == one.param_bytes
    for model in netsim.models_for(64, name):
        facts = MODELS.resolve(model.name).facts
        largest = max(stage.param_bytes for stage in model.stages) / facts["bytes_per_number"]
        assert 16 * largest <= kind.memory
        if (stages := len(model.stages)) > 1:  # one stage fewer, and one of them is too large
            layers = -(-facts["layers"] // (stages - 1))
            assert 16 * facts["parameters"] * layers / facts["layers"] > kind.memory


def test_what_no_memory_holds():
    """A layer of 1.8 billion parameters of 16 bytes each; 12 GB hold none of them."""
    assert "gpt-175b" not in netsim.parallel_models("h100-nvl-1g.12gb")
    with pytest.raises(InputError, match="layers that do not fit into a GPU of 12 GB"):
        netsim.make_model("gpt-175b", 2000, gpu="h100-nvl-1g.12gb")


def test_a_language_model_on_a_named_gpu():
    setup = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 4, "vocab": 64, "sequence": 16}
    job, same = (netsim.llm_job(setup, peak_flops=flops) for flops in ("v100", 125e12))
    seconds = [netsim.simulate(netsim.big_switch(1), [each]).summary()["jct_mean_s"]
               for each in (job, same)]
    assert seconds[0] == seconds[1]
