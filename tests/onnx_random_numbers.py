"""Recipes of random graphs for elementwise operators, activations and reductions."""

import numpy as np

EXACT = {"Abs", "Ceil", "Floor", "Hardmax", "IsInf", "IsNaN", "Neg", "Not", "Relu", "Round", "Sign", "ThresholdedRelu"}
EXACT |= {"ReduceMax", "ReduceMin"}


def unary(op_type):
    def make(g):
        x = g.clean(g.shape(), np.float32) / np.float32(4)
        x = x > 0 if op_type == "Not" else x
        g.add(op_type, [g.input(x)], [x.shape], x.dtype, rounded=op_type not in EXACT, kept=False)

    return make


def binary(op_type, *dtypes, low=-9, high=9, **attributes):
    """The second operand is broadcast, of all numbers from `low` to `high`."""

    def make(g):
        dtype, shape = np.dtype(dtypes[int(g.rng.integers(len(dtypes)))]), g.shape()
        other = tuple(1 if g.rng.random() < 0.3 else n for n in shape)[g.size(0, len(shape)) :]
        a, b = (g.rng.integers(low, high + 1, s).astype(dtype) for s in (shape, other))
        b = np.where(b == 0, np.ones_like(b), b) if op_type == "Mod" else b
        g.add(op_type, [g.input(a), g.input(b)], [shape], dtype, rounded=op_type == "Pow", kept=False, **attributes)

    return make


def variadic(op_type):
    def make(g):
        shape = g.shape()
        sizes = [shape if g.opset < 8 else shape[g.size(0, len(shape)) :] for _ in range(g.size(0, 4))]
        inputs = [g.input(g.clean(s, np.float32)) for s in (shape, *sizes)]
        g.add(op_type, inputs, [shape], np.float32, rounded=op_type == "Mean", kept=False)

    return make


def clip(g):
    x = g.clean(g.shape(), np.float32)
    names = [g.input(x)]
    bounds = {"min": -float(g.size(0, 5)), "max": float(g.size(0, 5))}
    if g.opset >= 11:
        names, bounds = [*names, *(g.constant(v, np.float32) for v in bounds.values())], {}
    g.add("Clip", names, [x.shape], np.float32, kept=False, **bounds)


def along(op_type):
    """Along an axis; before opset 13 along all from one on."""

    def make(g):
        x = g.clean(g.shape(), np.float32)
        _, axis = g.axis(x.shape)
        g.add(op_type, [g.input(x)], [x.shape], np.float32, rounded=op_type != "Hardmax", kept=False, axis=axis)

    return make


def reduction(op_type):
    def make(g):
        x = g.clean(g.shape(), np.float32)
        x = abs(x) + np.float32(1) if op_type == "ReduceLogSum" else x
        axes = [int(d) for d in g.rng.permutation(x.ndim)[: g.size(1, x.ndim + 1)]]
        axes = [d - x.ndim if g.opset >= 11 and g.rng.random() < 0.5 else d for d in axes]
        given = [("axes", axes, 13 if op_type == "ReduceSum" else 18)]
        rounded = op_type not in EXACT
        g.add(op_type, [g.input(x)], [()], np.float32, rounded=rounded, kept=False, given=given, keepdims=g.size(0, 2))

    return make


def place(op_type):
    def make(g):
        x = g.clean(g.shape(), np.float32)
        _, axis = g.axis(x.shape)
        attributes = {"select_last_index": g.size(0, 2)} if g.opset >= 12 else {}
        g.add(op_type, [g.input(x)], [()], np.int64, kept=False, axis=axis, keepdims=g.size(0, 2), **attributes)

    return make


def size(g):
    x, _, _ = g.data()
    g.add("Size", [x], [()], np.int64, kept=False)


INTEGERS, UNSIGNED = (np.int8, np.uint8, np.int32, np.int64), (np.uint8, np.uint32, np.uint64)
_UNARY = (
    (7, ("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log")),
    (7, ("Neg", "Not", "Reciprocal", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")),
    (9, ("Acosh", "Asinh", "Atanh", "Cosh", "Erf", "IsNaN", "Shrink", "Sign", "Sinh")),
    (10, ("IsInf", "ThresholdedRelu")),
    (11, ("Round",)),
    (12, ("Celu",)),
    (14, ("HardSwish",)),
    (18, ("Mish",)),
    (20, ("Gelu",)),
)
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
# By the first version that ONNX Runtime has.
NUMBER_RECIPES = (
    *((since, unary(op_type)) for since, names in _UNARY for op_type in names),
    *((7, binary(op_type, np.bool_, low=0, high=1)) for op_type in ("And", "Or", "Xor")),
    *((7, binary(op_type, np.float32)) for op_type in ("Greater", "Less", "PRelu")),
    (7, binary("Equal", np.int32, np.int64)),
    (7, binary("Pow", np.float32, low=1, high=4)),
    *((12, binary(op_type, np.float32, np.int32, np.int64)) for op_type in ("GreaterOrEqual", "LessOrEqual")),
    (10, binary("Mod", np.int32, np.int64)),
    (10, binary("Mod", np.float32, fmod=1)),
    *((18, binary(op_type, *INTEGERS, low=0, high=99)) for op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *((11, binary("BitShift", *UNSIGNED, low=0, high=70, direction=way)) for way in ("LEFT", "RIGHT")),
    (18, lambda g: g.add("BitwiseNot", [g.input(g.random((3,), np.int8))], [(3,)], np.int8, kept=False)),
    *((7, variadic(op_type)) for op_type in ("Max", "Mean", "Min", "Sum")),
    (7, clip),
    *((7, along(op_type)) for op_type in ("Hardmax", "LogSoftmax", "Softmax")),
    *((7, reduction(f"Reduce{name}")) for name in _REDUCTIONS),
    *((7, place(op_type)) for op_type in ("ArgMax", "ArgMin")),
    (7, size),
)
