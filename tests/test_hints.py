"""What errors suggest for a name that is unknown here: a misspelt one, an ending, or the word of another library."""

import jax.numpy as jnp
import numpy as np
import pytest
from operator_cases import f32

import dml_jax
from dml_jax import ConstraintError
from dml_jax.catalogue import FUNCTIONS, STRUCTS
from dml_jax.errors import FEW, meant, suggestion
from dml_jax.words_elsewhere import WORDS

PICTURE, GRID = jnp.zeros((1, 4, 4, 4)), jnp.zeros((1, 2, 2, 2))
TENSOR, LARGER = (f32(1, 1, n, n) for n in (2, 4))
RULES = [rule for function in FUNCTIONS.values() for rule in function.rules if rule.name.startswith("one_of")]
ACCEPTED = {name.casefold() for rule in RULES for name in rule.worded({}).split("'")[1::2]}


@pytest.mark.parametrize(
    ("name", "known", "wanted"),
    [
        ("GATHR", STRUCTS, "GATHER"),
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
    names = {*map(str.casefold, STRUCTS), *FUNCTIONS, *ACCEPTED}
    assert {name.casefold() for name in WORDS[word]} <= names
    assert word == word.casefold().replace("_", "")


def test_there_are_many_words():
    assert len(WORDS) >= 60
