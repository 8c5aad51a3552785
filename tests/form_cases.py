"""What the tests of forms share: random bits, and calls of one form that are compared with the plain one."""

import jax
import jax.numpy as jnp
import numpy as np
from checks import assert_same_bits, together

from dml_jax import use_form
from dml_jax.errors import describe
from dml_jax.lowering import forms
from dml_jax.lowering.select import watch_choices

FAST = [name for name in forms.FORMS if name != "plain"]
DTYPES = ["uint8", "bool", "float8_e5m2", "int16", "bfloat16", "float16", "float32", "complex64"]
SAMPLE = ["float8_e5m2", "int16", "bfloat16", "float32"]  # a float and no float, of each size that words are made of
RNG = np.random.default_rng(11)
# On an accelerator these are large enough for vectorised loops; a compiler was seen to get words of bytes wrong there.
LARGE = 1 if jax.default_backend() == "cpu" else 48


def random_bits(shape, dtype):
    """Every bit pattern of the type, NaN payloads and subnormals included."""
    dtype = jnp.dtype(dtype)
    if dtype == np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def assert_forms_equal_plain(forms, calls):
    """Of every call (function, *arrays)."""
    calls = list(calls)
    with use_form("plain"):
        plain = together(calls)
    for form in forms:
        with use_form(form):
            results = together(calls)
        for call, expected, actual in zip(calls, plain, results, strict=True):
            try:
                assert_same_bits(actual, expected)
            except AssertionError as error:
                error.add_note(f"{form}: {call[0]} of {[describe(array) for array in call[1:]]}")
                raise


def changes(function, form, *arrays):
    """Whether the form applies: it makes another program."""
    texts = []
    for name in ("plain", form):
        with use_form(name):
            texts.append(jax.jit(lambda *x: function(*x)).lower(*arrays).as_text())
    return texts[0] != texts[1]


def chosen_on(platform, function, x):
    """The names of the forms that tables choose for a platform."""
    with watch_choices() as seen:
        jax.jit(function).trace(x).lower(lowering_platforms=(platform,))
    return {choice.name for choice in seen if choice.platform == platform and choice.name != "plain"}


SPACE = RNG.standard_normal((2, 4, 8, 8)).astype(np.float16)
