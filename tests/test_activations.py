"""Fused activations: formulas, derivatives, parameters, JSON, and which operators fuse them at which feature level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from activation_cases import activated
from checks import together
from jax.test_util import check_grads

from dml_jax import Activation, ConstraintError, DataTypeError, FeatureLevel
from dml_jax.core.rules import check
from dml_jax.core.structs.activation_fusion import Fused, FusedEach, axes_within, supported_activation
from dml_jax.core.structs.activation_table import ACTIVATIONS
from dml_jax.core.structs.fields import Field
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias

pytestmark = pytest.mark.device

# Two of each that has parameters.
ALL = [
    *(Activation(name, x) for name in ("ACTIVATION_CELU", "ACTIVATION_ELU") for x in ((), (0.5,), (2.5,))),
    Activation("ACTIVATION_CELU", (-0.5,)),
    Activation("ACTIVATION_GELU"),
    Activation("ACTIVATION_HARDMAX"),
    *(Activation("ACTIVATION_HARDMAX1", x) for x in (((0,),), ((1, 0),))),
    *(Activation("ACTIVATION_HARD_SIGMOID", x) for x in ((), (-0.25, 0.25))),
    *(Activation("ACTIVATION_HARD_SWISH", x) for x in ((), (-0.25, 0.25))),
    Activation("ACTIVATION_IDENTITY"),
    *(Activation("ACTIVATION_LEAKY_RELU", x) for x in ((), (-2,))),
    Activation("ACTIVATION_LINEAR", (-3, 0.5)),
    Activation("ACTIVATION_LOG_SOFTMAX"),
    *(Activation("ACTIVATION_LOG_SOFTMAX1", x) for x in (((0,),), ((1, 0),))),
    Activation("ACTIVATION_PARAMETRIC_SOFTPLUS", (-2, 3)),
    Activation("ACTIVATION_RELU"),
    *(Activation("ACTIVATION_SCALED_ELU", x) for x in ((), (0.5, 3))),
    *(Activation("ACTIVATION_SCALED_TANH", x) for x in ((), (-2, 0.25))),
    *(Activation("ACTIVATION_SHRINK", x) for x in ((), (0.25, 1.5), (1, -1))),
    Activation("ACTIVATION_SIGMOID"),
    Activation("ACTIVATION_SOFTMAX"),
    *(Activation("ACTIVATION_SOFTMAX1", x) for x in (((0,),), ((1,),), ((1, 0),))),
    *(Activation("ACTIVATION_SOFTPLUS", x) for x in ((), (4,), (0.5,))),
    Activation("ACTIVATION_SOFTSIGN"),
    *(Activation("ACTIVATION_SWISH", x) for x in ((), (0.5,))),
    Activation("ACTIVATION_TANH"),
    *(Activation("ACTIVATION_THRESHOLDED_RELU", x) for x in ((), (-0.5,))),
    *(Activation("ELEMENT_WISE_CLIP", x) for x in ((None, -1, 2), (ScaleAndBias(2, 1), -1, 2), (None, 2, -1))),
]
every_activation = pytest.mark.parametrize("activation", ALL, ids=Activation.describe)
X = np.float32([[-3, -1, -0.75, -0.5, -(2.0**-12), 0], [2.0**-12, 0.125, 0.5, 1, 1.5, 4]])


def test_all_of_them_are_tried():
    assert {activation.operator_type for activation in ALL} == {*ACTIVATIONS}


# Formulas, against float64.


@pytest.mark.thinned
@every_activation
def test_formulas(activation):
    """To eight units of the last place: small numbers are no differences of large ones, but logarithms of 1.02 are."""
    made = activation(jnp.asarray(X))
    assert made.dtype == np.float32
    off = 2**-23 if "LOG_SOFTMAX" in activation.operator_type else 2**-30
    np.testing.assert_allclose(made, activated(X.astype(np.float64), activation), rtol=2**-20, atol=off)


GROWS = Activation("ACTIVATION_CELU", (-0.5,))  # as fast as exp does


@pytest.mark.thinned(6)
@pytest.mark.parametrize("activation", [one for one in ALL if one != GROWS], ids=Activation.describe)
def test_far_numbers_have_numbers_and_derivatives(activation):
    """Nothing overflows where it is not used."""
    far = np.float32([[-1e4, 1e4, -200, 200]])
    wanted = activated(far.astype(np.float64), activation)
    values, slopes = together([(activation, far), (jax.grad(lambda x: activation(x).sum()), far)])
    np.testing.assert_allclose(values, wanted, rtol=1e-6, atol=1e-37)
    assert np.isfinite(slopes).all()


@pytest.mark.thinned(12)
@every_activation
def test_derivatives(activation, exhaustive):
    """The first ones, and with --exhaustive the second ones."""
    away = np.float32([[-2.3, -0.8, -0.3, 0.2, 0.7, 1.7]])  # from corners
    order = 2 if exhaustive else 1
    check_grads(jax.jit(activation), (away,), order=order, modes=["fwd", "rev"], atol=0.02, rtol=0.02)


def test_corners_have_one_sided_derivatives():
    zero = jnp.float32(0)
    slopes = {"ACTIVATION_RELU": 0, "ACTIVATION_ELU": 1, "ACTIVATION_LEAKY_RELU": 1, "ACTIVATION_SOFTSIGN": 1}
    assert {name: jax.grad(Activation(name))(zero) for name in slopes} == slopes


def test_float64_is_computed_as_such():
    with jax.enable_x64(True):
        made = Activation("ACTIVATION_ELU", (0.3,))(jnp.float64([-1e-9, -2]))
    np.testing.assert_allclose(made, 0.3 * np.expm1([-1e-9, -2]), rtol=1e-15)


def test_directmls_documented_sum():
    """Of ELEMENT_WISE_ADD1: 6, 10 and -2 with ELU of 0.5."""
    made = Activation("ACTIVATION_ELU", (0.5,))(jnp.float32([6, 10, -2]))
    assert [f"{x:g}" for x in np.asarray(made).tolist()] == ["6", "10", "-0.432332"]


# Parameters.


def test_what_is_left_out_is_what_directmlx_takes():
    defaults = {
        "ACTIVATION_CELU": (1,),
        "ACTIVATION_ELU": (1,),
        "ACTIVATION_HARD_SIGMOID": (0.2, 0.5),
        "ACTIVATION_HARD_SWISH": (1 / 6, 0.5),
        "ACTIVATION_LEAKY_RELU": (0.01,),
        "ACTIVATION_SCALED_TANH": (1, 0.5),
        "ACTIVATION_SHRINK": (0, 0.5),
        "ACTIVATION_SOFTPLUS": (1,),
        "ACTIVATION_SWISH": (1,),
        "ACTIVATION_THRESHOLDED_RELU": (1,),
        "ACTIVATION_RELU": (),
    }
    assert {name: Activation(name).parameters for name in defaults} == defaults
    assert Activation("ACTIVATION_SCALED_TANH", (2,)).parameters == (2, 0.5)
    np.testing.assert_allclose(Activation("ACTIVATION_SCALED_ELU").parameters, (1.67326, 1.05070), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "parameters", "error", "match"),
    [
        ("ACTIVATION_LINEAR", (), ConstraintError, "the parameters are Alpha, Beta, but"),
        ("ACTIVATION_LINEAR", (1, None), ConstraintError, "the parameters are Alpha, Beta, but"),
        ("ACTIVATION_RELU", [], ConstraintError, "the parameters are none, but"),
        ("ACTIVATION_ELU", (1, 2), ConstraintError, "the parameters are Alpha, but"),
        ("ACTIVATION_ELU", (True,), DataTypeError, "Alpha must be a real number, but it is True"),
        ("ACTIVATION_SOFTMAX1", (), ConstraintError, "the parameters are Axes, but"),
        ("ACTIVATION_SOFTMAX1", (1,), DataTypeError, "Axes must be a sequence of integers"),
        ("ACTIVATION_SOFTMAX1", ((-1,),), ConstraintError, r"Axes\[0\] must be in"),
        ("ELEMENT_WISE_CLIP", (None, 1), ConstraintError, "the parameters are ScaleBias, Min, Max, but"),
        ("ACTIVATION_MISH", (), ConstraintError, "unknown activation"),
        (
            "ACTIVATION_ELUU",
            (1.0,),
            ConstraintError,
            "unknown activation 'ACTIVATION_ELUU'; did you mean 'ACTIVATION_ELU'",
        ),
        ("ACTIVATION_LINEAR", (2.0,), ConstraintError, "ACTIVATION_LINEAR: the parameters are Alpha, Beta, but"),
        ("ACTIVATION_RELU", (1.0,), ConstraintError, "ACTIVATION_RELU: the parameters are none, but"),
        ("ACTIVATION_ELU", 5, ConstraintError, "ACTIVATION_ELU: the parameters are Alpha, but 5"),
        ("ACTIVATION_ELU", [1.0], ConstraintError, "ACTIVATION_ELU: the parameters are Alpha, but"),
        (5, (), ConstraintError, "unknown activation 5"),
        ("ACTIVATION_ELU", (1e39,), ConstraintError, "ACTIVATION_ELU: Alpha must be a number that float32 holds"),
        ("ACTIVATION_ELU", ("1",), DataTypeError, "ACTIVATION_ELU: Alpha must be a real number, but it is '1'"),
    ],
)
def test_what_no_activation_is(name, parameters, error, match):
    with pytest.raises(error, match=match):
        Activation(name, parameters)


def test_zeros_of_both_signs_differ():
    assert Activation("ACTIVATION_ELU", (0.0,)) != Activation("ACTIVATION_ELU", (-0.0,))
    assert {Activation("ACTIVATION_ELU", (float("nan"),)): 1}[Activation("ACTIVATION_ELU", (float("nan"),))] == 1


# JSON.

(FIELD,) = Fused.__metadata__


@every_activation
def test_json_and_back(activation):
    form = FIELD.to_json(activation)
    assert FIELD.from_json(form) == activation
    assert FIELD.from_json({**form, "Type": f"DML_OPERATOR_{form['Type']}"}) == activation


def test_the_json_of_those_that_are_not_plain():
    assert FIELD.to_json(Activation("ACTIVATION_SOFTMAX1", ((2, 3),))) == {
        "Type": "ACTIVATION_SOFTMAX1",
        "AxisCount": 2,
        "Axes": [2, 3],
    }
    clip = {"Type": "ELEMENT_WISE_CLIP", "Min": -1.0, "Max": "inf"}
    assert FIELD.to_json(Activation("ELEMENT_WISE_CLIP", (None, -1, float("inf")))) == clip
    scaled = FIELD.from_json(clip | {"ScaleBias": {"Scale": 2, "Bias": 3}})
    assert scaled.by_name == {"ScaleBias": ScaleAndBias(2, 3), "Min": -1, "Max": float("inf")}


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ({"Type": "ACTIVATION_ELU"}, "the parameters are Alpha, but"),
        ({"Type": "ACTIVATION_ELU", "Alpha": 1, "Beta": 1}, "the parameters are Alpha, but"),
        ({"Type": "ACTIVATION_SOFTMAX1", "AxisCount": 1, "Axes": [2, 3]}, "AxisCount is 1 and Axes has 2 entries"),
        ({"Type": "ACTIVATION_SOFTMAX1", "AxisCount": 1, "Axes": 2}, "Axes must be a sequence of integers"),
        ({"Type": "ACTIVATION_RELU", "AxisCount": 1}, "the parameters are none, but AxisCount are given"),
        ({"Type": "ELEMENT_WISE_CLIP", "ScaleBias": {"Scale": 1}, "Min": 0, "Max": 1}, "Bias is missing"),
    ],
)
def test_json_that_is_refused(form, match):
    with pytest.raises(ConstraintError, match=match):
        FIELD.from_json(form)


def test_arrays_of_activations():
    (field,) = (one for one in FusedEach.__metadata__ if isinstance(one, Field))
    assert (field.kind, field.counted_by, field.is_optional) == ("activation array", "ActivationDescCount", False)
    both = (Activation("ACTIVATION_RELU"), Activation("ACTIVATION_ELU", (0.5,)))
    form = [{"Type": "ACTIVATION_RELU"}, {"Type": "ACTIVATION_ELU", "Alpha": 0.5}]
    assert field.kept("RNN", "ActivationDescs", list(both)) == both
    assert field.to_json(both) == form
    assert tuple(field.from_json(form)) == both
    with pytest.raises(DataTypeError, match=r"ActivationDescs\[1\] must be an Activation, but it is str"):
        field.kept("RNN", "ActivationDescs", (both[0], "RELU"))
    with pytest.raises(DataTypeError, match="ActivationDescs must be a sequence of Activation, but it is"):
        field.kept("RNN", "ActivationDescs", both[0])


# What can be fused with what.

HOSTS = ("ELEMENT_WISE_ADD1", "CONVOLUTION", "GEMM")
ALWAYS = {
    *("ACTIVATION_ELU", "ACTIVATION_HARD_SIGMOID", "ACTIVATION_IDENTITY", "ACTIVATION_LEAKY_RELU", "ACTIVATION_LINEAR"),
    *("ACTIVATION_PARAMETRIC_SOFTPLUS", "ACTIVATION_RELU", "ACTIVATION_SCALED_ELU", "ACTIVATION_SCALED_TANH"),
    *("ACTIVATION_SIGMOID", "ACTIVATION_SOFTPLUS", "ACTIVATION_SOFTSIGN", "ACTIVATION_TANH"),
    "ACTIVATION_THRESHOLDED_RELU",
}
SINCE = {
    "2_0": {host: {"ACTIVATION_SHRINK"} for host in HOSTS},
    "3_0": {host: {"ACTIVATION_CELU"} for host in HOSTS},
    "5_1": {host: {"ACTIVATION_GELU"} for host in HOSTS},
    "6_0": {"CONVOLUTION": {"ELEMENT_WISE_CLIP"}, "GEMM": {"ELEMENT_WISE_CLIP"}},
    "6_1": {"GEMM": {"ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"}},
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("level", FeatureLevel, ids=str)
def test_what_can_be_fused_since_when(host, level):
    rule = supported_activation("fused", host, level)
    one_of_each = {activation.operator_type: activation for activation in reversed(ALL)}
    found = {name for name, one in one_of_each.items() if rule.broken_by({"fused": one}) is None}
    newer = [hosts.get(host, set()) for since, hosts in SINCE.items() if FeatureLevel.of(since) <= level]
    assert found == ALWAYS.union(*newer)
    assert rule.broken_by({"fused": None}) is None


def test_each_of_several_is_judged():
    rule = supported_activation("fused", "RNN", FeatureLevel.of("2_0"))
    relu, celu = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_CELU")
    assert rule.broken_by({"fused": (relu, relu)}) is None
    assert rule.broken_by({"fused": (relu, celu)}) == "it is ACTIVATION_CELU, which feature level 3_0 accepts"


def test_messages_of_what_cannot_be_fused():
    def fact(activation, host, level):
        return supported_activation("fused", host, FeatureLevel.of(level)).broken_by({"fused": activation})

    assert (
        fact(Activation("ACTIVATION_GELU"), "GEMM", "5_0") == "it is ACTIVATION_GELU, which feature level 5_1 accepts"
    )
    assert fact(Activation("ACTIVATION_SOFTMAX"), "CONVOLUTION", "6_4") == "it is ACTIVATION_SOFTMAX, which is for GEMM"
    flat = Activation("ACTIVATION_SOFTPLUS", (0.5,))
    assert fact(flat, "GEMM", "6_3") == "its Steepness is 0.5, and feature level 6_4 accepts less than 1"
    assert fact(flat, "GEMM", "6_4") is None
    assert fact(Activation("ACTIVATION_SOFTPLUS", (1,)), "GEMM", "1_0") is None


def test_axes_are_different_dimensions():
    rule = axes_within("activation", "a")
    for axes in ((0,), (1, 0)):
        check("f", (rule,), {"a": X, "activation": Activation("ACTIVATION_SOFTMAX1", (axes,))})
    check("f", (rule,), {"a": X, "activation": None})
    check("f", (rule,), {"a": X, "activation": Activation("ACTIVATION_RELU")})
    for axes in ((), (2,), (1, 1)):
        with pytest.raises(ConstraintError, match="the Axes of activation must be different dimensions of a"):
            check("f", (rule,), {"a": X, "activation": Activation("ACTIVATION_SOFTMAX1", (axes,))})
