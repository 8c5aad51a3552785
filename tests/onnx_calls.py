"""Runs tables of calls as nodes of one model, in dml_jax, ONNX's reference and ONNX Runtime."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from checks import assert_close
from onnx.reference import ReferenceEvaluator
from onnx_building import helper, model, runtime

from dml_jax.onnx import to_jax

OPSET = 24  # the first that has every row of the tables, and bfloat16


@dataclass(frozen=True)
class Call:
    """A node: its inputs, those of float64 in the place of any floats, and its attributes.

    Inputs that `given` counts are constants.
    """

    op_type: str
    inputs: tuple
    attributes: dict = field(default_factory=dict)
    given: tuple = ()

    def of(self, *dtypes):
        """The same call in other floats, one type after the other."""
        inputs = self.inputs
        for dtype in dtypes:
            inputs = tuple(x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in inputs)
        return replace(self, inputs=inputs)

    def __str__(self):
        return f"{self.op_type}{[x.tolist() for x in self.inputs]} {self.attributes}"


def call(op_type, *inputs, given=(), **attributes):
    return Call(op_type, tuple(map(np.asarray, inputs)), attributes, given)


def model_of(calls, opset=OPSET):
    """A model with a node per call, and its inputs by name."""
    nodes, inputs, constants = [], {}, {}
    for i, one in enumerate(calls):
        names = [f"x{i}_{k}" for k in range(len(one.inputs))]
        for k, (name, array) in enumerate(zip(names, one.inputs, strict=True)):
            (constants if k in one.given else inputs)[name] = array
        nodes.append(helper.make_node(one.op_type, names, [f"y{i}"], **one.attributes))
    return model(nodes, inputs, [f"y{i}" for i in range(len(calls))], constants, opset=opset), inputs


def function_of(calls, opset=OPSET):
    """A function of the inputs that gives a list, and these; 64-bit numbers need x64."""
    proto, inputs = model_of(calls, opset)
    function = to_jax(proto)

    def compute(inputs):
        made = function(*inputs)
        return list(made) if len(calls) > 1 else [made]

    return compute, list(inputs.values())


def computed(calls, opset=OPSET):
    """The results of dml_jax, in one compiled program."""
    function, inputs = function_of(calls, opset)
    with jax.enable_x64(True):
        return list(map(np.asarray, jax.jit(function)(inputs)))


def run(op_type, *inputs, opset=OPSET, **attributes):
    """The result of dml_jax for one call; `given` as in `call`."""
    return computed([call(op_type, *inputs, **attributes)], opset)[0]


def referred(calls, opset=OPSET):
    """The results of ONNX's reference implementation."""
    proto, inputs = model_of(calls, opset)
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(proto).run(None, inputs)


def ran(calls, opset=OPSET):
    """The results of ONNX Runtime."""
    return runtime(*model_of(calls, opset))


def assert_rounded_once(calls, dtype, units):
    """Each result is what the reference computes in float64, off by some of float32's last places, then rounded."""
    made = computed([one.of(dtype) for one in calls])
    for one, actual, wanted in zip(calls, made, referred([one.of(dtype, np.float64) for one in calls]), strict=True):
        of_floats = wanted.dtype.kind == "f"
        assert actual.dtype == (dtype if of_floats else wanted.dtype), one
        try:
            assert_close(actual, wanted, units) if of_floats else np.testing.assert_array_equal(actual, wanted)
        except AssertionError as error:
            raise AssertionError(f"{one}: {error}") from None


def assert_like(calls, made, wanted, *, signs=True, **tolerance):
    """Close, the same infinities and NaNs, and zeros of the same sign."""
    for one, actual, expected in zip(calls, made, wanted, strict=True):
        actual, expected = np.asarray(actual), np.asarray(expected)
        assert actual.dtype == expected.dtype, one
        np.testing.assert_allclose(actual, expected, err_msg=str(one), **tolerance)
        if signs and expected.dtype.kind == "f":
            differ = (np.signbit(actual) != np.signbit(expected)) & ~np.isnan(expected)
            assert not differ.any(), f"{one}: {actual[differ]} have other signs than {expected[differ]}"


def assert_derivatives(calls, step=1e-5):
    """Forwards, those of differences, in float64; backwards, the transpose of them."""
    rng = np.random.default_rng(0)
    function, inputs = function_of(calls)
    with jax.enable_x64(True):
        way = [rng.standard_normal(x.shape) for x in inputs]
        there, back = ([x + s * w for x, w in zip(inputs, way, strict=True)] for s in (step, -step))
        compiled = jax.jit(function)
        slopes = [(a - b) / (2 * step) for a, b in zip(compiled(there), compiled(back), strict=True)]
        made, tangents = jax.jit(lambda x, v: jax.jvp(function, (x,), (v,)))(inputs, way)
        weights = [rng.standard_normal(y.shape) for y in made]
        (pulled,) = jax.jit(lambda x, w: jax.vjp(function, x)[1](w))(inputs, weights)
    assert_like(calls, tangents, slopes, signs=False, rtol=1e-5, atol=1e-7)
    names = list(model_of(calls)[1])
    for i, (one, tangent, weight) in enumerate(zip(calls, tangents, weights, strict=True)):
        own = [k for k, name in enumerate(names) if name.startswith(f"x{i}_")]
        total = sum((np.asarray(pulled[k]) * way[k]).sum() for k in own)
        expected = (np.asarray(tangent) * weight).sum()
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9, err_msg=str(one))


def assert_vmap_is_a_loop(calls):
    """Of the inputs, and of these in another order."""
    function, inputs = function_of(calls)
    with jax.enable_x64(True):
        compiled, others = jax.jit(function), [x[..., ::-1] for x in map(np.atleast_1d, inputs)]
        others = [other.reshape(x.shape) for other, x in zip(others, inputs, strict=True)]
        many = jax.jit(jax.vmap(function))([np.stack(pair) for pair in zip(inputs, others, strict=True)])
        for i, wanted in enumerate((compiled(inputs), compiled(others))):
            assert_like(calls, [y[i] for y in many], wanted, rtol=1e-12, atol=1e-12)


def gradients(calls):
    """Of the sum of each result, by each of its inputs: a list per call."""
    function, inputs = function_of(calls)
    with jax.enable_x64(True):
        made = iter(
            map(np.asarray, jax.jit(jax.grad(lambda x: sum(y.sum().astype(np.float64) for y in function(x))))(inputs))
        )
    return [[next(made) for k in range(len(one.inputs)) if k not in one.given] for one in calls]
