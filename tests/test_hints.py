"""What errors suggest for a name that is unknown here: a misspelt one, an ending, or the word of another library."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from commands import dml_jax_command
from operator_cases import f32

import dml_jax
from dml_jax import ConstraintError
from dml_jax.catalogue import FUNCTIONS, STRUCTS
from dml_jax.errors import FEW, meant, suggestion
from dml_jax.words_elsewhere import WORDS

PICTURE, GRID = jnp.zeros((1, 4, 4, 4)), jnp.zeros((1, 2, 2, 2))
TENSOR, LARGER = (f32(1, 1, n, n) for n in (2, 4))
RULES = [rule for function in FUNCTIONS.values() for rule in function.rules if rule.name.startswith("one_of")]
FIELDS = {name.casefold() for cls in STRUCTS.values() for pair in cls.directml_names().items() for name in pair}
ARGUMENTS = {name for function in FUNCTIONS.values() for name in inspect.signature(function).parameters}
ACCEPTED = {name.casefold() for rule in RULES for name in rule.worded({}).split("'")[1::2]}


@pytest.mark.parametrize(
    ("name", "known", "wanted"),
    [
        ("GATHR", STRUCTS, "GATHER"),
        ("LeakyRelu", STRUCTS, "ACTIVATION_LEAKY_RELU"),
        ("torch.selu", STRUCTS, "ACTIVATION_SCALED_ELU"),
        ("And", STRUCTS, "ELEMENT_WISE_LOGICAL_AND"),
        ("Equal", STRUCTS, "ELEMENT_WISE_LOGICAL_EQUALS"),
        ("Mul", STRUCTS, "ELEMENT_WISE_MULTIPLY"),
        ("IsNaN", STRUCTS, "ELEMENT_WISE_IS_NAN"),
        ("ReduceMean", STRUCTS, "REDUCE"),
        ("GlobalAveragePool", STRUCTS, "AVERAGE_POOLING1"),
        ("QuantizeLinear", STRUCTS, "ELEMENT_WISE_QUANTIZE_LINEAR"),
        ("QLinearConv", STRUCTS, "QUANTIZED_LINEAR_CONVOLUTION"),
        ("instance_norm", STRUCTS, "MEAN_VARIANCE_NORMALIZATION1"),
        ("Unsqueeze", STRUCTS, "ELEMENT_WISE_IDENTITY"),
        ("torch.softmax", FUNCTIONS, "activate"),
        ("torch.sum", FUNCTIONS, "reduce"),
        ("torch.scatter", FUNCTIONS, "scatter_elements"),
        ("np.put_along_axis", FUNCTIONS, "scatter_elements"),
        ("tf.tensor_scatter_nd_add", FUNCTIONS, "scatter_nd"),
        ("tf.boolean_mask", FUNCTIONS, "nonzero_coordinates"),
        ("tf.clip_by_value", FUNCTIONS, "clip"),
        ("masked_fill", FUNCTIONS, "select"),
        ("cv2.copyMakeBorder", FUNCTIONS, "pad"),
        ("cv2.remap", FUNCTIONS, "grid_sample"),
        ("gather", STRUCTS, "GATHER"),
        ("RELU", STRUCTS, "ACTIVATION_RELU"),
        ("Abs", STRUCTS, "ELEMENT_WISE_ABS"),
        ("TRANSPOSE", STRUCTS, "ELEMENT_WISE_IDENTITY"),
        ("transpose", FUNCTIONS, "as_strided"),
        ("torch.permute", FUNCTIONS, "as_strided"),
        ("concat", STRUCTS, "JOIN"),
        ("tf.concat", FUNCTIONS, "join"),
        ("Conv2d", FUNCTIONS, "convolution"),
        ("PixelShuffle", FUNCTIONS, "depth_to_space"),
        ("take_along_axis", FUNCTIONS, "gather_elements"),
        ("take_along_axis", STRUCTS, "GATHER_ELEMENTS"),
        ("cumsum", STRUCTS, "CUMULATIVE_SUMMATION"),
        ("np.where", FUNCTIONS, "select"),
        ("interpolate", FUNCTIONS, "resample"),
        ("quantum", FUNCTIONS, None),
        ("", STRUCTS, None),
    ],
)
def test_names_of_operators(name, known, wanted):
    assert meant(name, known) == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: dml_jax.resample(PICTURE, (1, 4, 8, 8), mode="bilinear"), "linear"),
        (lambda: dml_jax.resample(PICTURE, (1, 4, 8, 8), mode="cv2.INTER_CUBIC"), "cubic"),
        (lambda: dml_jax.upsample_2d(PICTURE, (2, 2), mode="nearest_neighbor"), "nearest"),
        (lambda: dml_jax.grid_sample(PICTURE, GRID, mode="INTER_LINEAR"), "bilinear"),
        (lambda: dml_jax.grid_sample(PICTURE, GRID, padding_mode="replicate"), "border"),
        (lambda: dml_jax.grid_sample(PICTURE, GRID, padding_mode="constant"), "zeros"),
        (lambda: dml_jax.pad(PICTURE, (0, 0, 1, 1), (0, 0, 1, 1), mode="replicate"), "edge"),
        (lambda: dml_jax.pad(PICTURE, (0, 0, 1, 1), (0, 0, 1, 1), mode="circular"), "wrap"),
        (lambda: dml_jax.pad(PICTURE, (0, 0, 1, 1), (0, 0, 1, 1), mode="REFLECT"), "reflect"),
        (lambda: dml_jax.reduce(PICTURE, "mean", [1]), "average"),
        (lambda: dml_jax.reduce(PICTURE, "prod", [1]), "multiply"),
        (lambda: dml_jax.reduce(PICTURE, "logsumexp", [1]), "log_sum_exp"),
        (lambda: dml_jax.scatter_nd(PICTURE, np.zeros((1, 1), np.int32), PICTURE, reduction="sum"), "add"),
        (lambda: dml_jax.depth_to_space(PICTURE, 2, order="crd"), "CRD"),
        (lambda: dml_jax.depth_to_space(PICTURE, 2, data_format="channels_last"), "NHWC"),
        (lambda: dml_jax.top_k(PICTURE, 1, 1, direction="descending"), "decreasing"),
        (lambda: dml_jax.Upsample2DDesc(TENSOR, LARGER, (2, 2), "BILINEAR"), "LINEAR"),
    ],
)
def test_modes_and_orders(call, wanted):
    with pytest.raises(ConstraintError) as caught:
        call()
    assert f"; did you mean {wanted!r}?\n" in str(caught.value)


@pytest.mark.parametrize(
    ("struct", "field", "wanted"),
    [
        ("GATHER", "dim", "axis"),
        ("GATHER", "index", "indices"),
        ("GATHER", "Dim", "Axis"),
        ("REDUCE", "axess", "axes"),
        ("SCATTER_ELEMENTS", "src", "updates"),
        ("DEPTH_TO_SPACE1", "upscale_factor", "block_size"),
        ("SPACE_TO_DEPTH1", "blockShape", "BlockSize"),
        ("MAX_POOLING2", "kernel_size", "window_size"),
        ("MAX_POOLING2", "stride", "strides"),
        ("AVERAGE_POOLING1", "kernel_shape", "window_size"),
        ("CONVOLUTION", "groups", "group_count"),
        ("CONVOLUTION", "dilation", "dilations"),
        ("CONVOLUTION", "weight", "filter"),
        ("BATCH_NORMALIZATION", "eps", "epsilon"),
        ("BATCH_NORMALIZATION", "eps", "Epsilon"),
        ("REDUCE", "dims", "axes"),
    ],
)
def test_fields(struct, field, wanted):
    """By the name of a constructor, or DirectML's, as in JSON."""
    names = STRUCTS[struct].directml_names()
    assert meant(field, names if wanted in names else names.values()) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pixel_shuffle", "dml_jax.depth_to_space"),
        ("concat", "dml_jax.join"),
        ("take_along_axis", "dml_jax.gather_elements"),
        ("LstmDesc", "dml_jax.descs.LstmDesc"),
        ("ReluDesc", "dml_jax.descs.ActivationReluDesc"),
        ("TransposeDesc", "dml_jax.descs.ElementWiseIdentityDesc"),
    ],
)
def test_attributes_of_the_package(name, wanted):
    for module in {dml_jax, dml_jax.descs} if name.endswith("Desc") and not hasattr(dml_jax.descs, name) else {dml_jax}:
        with pytest.raises(AttributeError, match=rf" has no attribute '{name}'; did you mean '{wanted}'\?$") as caught:
            getattr(module, name)
        assert caught.value.obj is None  # so that Python adds no hint of its own


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("bacth", "batch"),
        ("ops transpose", "ELEMENT_WISE_IDENTITY"),
        ("ops leaky_relu", "ACTIVATION_LEAKY_RELU"),
        ("run --iteration 3 x.json", "--iterations"),
        ("check --featurelevel 3_0 x.json", "--feature-level"),
        ("bench --quik", "--quick"),
        ("batch pixel_shuffle a.npy b.npy", "depth_to_space"),
        ("batch depth_to_space a.npy b.npy --blocksize 2", "--block-size"),
        ("batch depth_to_space a.npy b.npy --block-size 2 --order crd", "CRD"),
        ("batch resample a.npy b.npy --mode bilinear", "linear"),
        ("batch pad a.npy b.npy --mode replicate", "edge"),
        ("batch reduce a.npy b.npy --function mean", "average"),
    ],
)
def test_commands_and_options(line, wanted):
    done = dml_jax_command(*line.split())
    assert done.exit_code == 2
    assert "id you mean" in done.output
    assert f"'{wanted}'" in done.output.rpartition("id you mean")[2]


def test_an_unknown_operator_is_told_its_function_too():
    done = dml_jax_command("ops", "TRANSPOSE")
    assert "did you mean 'ELEMENT_WISE_IDENTITY'? The function is dml_jax.as_strided.\n" in done.output


def test_a_value_like_none_of_them_has_no_hint():
    with pytest.raises(ConstraintError, match=r"but it is 'quantum'\.\n"):
        dml_jax.pad(PICTURE, (0, 0, 1, 1), (0, 0, 1, 1), mode="quantum")


def test_of_many_names_the_nearest_five_are_told():
    hint = suggestion("SCATTER_ROWS", STRUCTS)
    assert hint.startswith("the nearest are SCATTER")
    assert hint.count(",") == 4
    assert suggestion("w", ["x", "y"]) == "known are x, y"
    assert len(STRUCTS) > FEW


@pytest.mark.parametrize("word", WORDS)
def test_every_word_leads_to_something_that_exists(word):
    """An operator, or a value of a rule; and it is no name of its own where it leads to one."""
    names = {*map(str.casefold, STRUCTS), *FUNCTIONS, *ACCEPTED, *FIELDS, *ARGUMENTS}
    assert {name.casefold() for name in WORDS[word]} <= names
    assert word == word.casefold().replace("_", "")


def test_there_are_many_words():
    assert len(WORDS) >= 60
