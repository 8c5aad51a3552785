"""The options of `dml-jax batch`, over all operators: numbers and rows of numbers, and what their help says."""

import re
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from batch_jobs import saved
from commands import batch

from dml_jax.command import batch as command
from dml_jax.command import batch_options as options

OPERATORS = options.batch_operators()
OPTIONS = [(name, option) for name, operator in OPERATORS.items() for option in operator.attributes]


def argument(option):
    return option.name.removeprefix("attribute_")


def types_of(name, option):
    """The types that the function is annotated with for an option."""
    hint = get_type_hints(OPERATORS[name].function)[argument(option)]
    return {*get_args(hint)} if get_origin(hint) in (Union, UnionType) else {hint}


ROWS = [(name, option) for name, option in OPTIONS if "," in option.type.name]


@pytest.mark.parametrize(("name", "option"), ROWS, ids=[f"{n} {o.opts[0]}" for n, o in ROWS])
def test_a_number_alone_is_one_where_the_function_takes_one(name, option):
    takes_one = bool(types_of(name, option) & {int, float})
    given = option.type.convert("2", option, None)
    assert given == (2 if takes_one else (2,))
    assert option.type.convert("2,", option, None) == (2,)
    assert option.type.convert("2,3", option, None) == (2, 3)


def halved(x):
    """Means of 2 by 2 elements."""
    return x.reshape(*x.shape[:-2], x.shape[-2] // 2, 2, x.shape[-1] // 2, 2).mean((-3, -1))


SPATIAL = {
    "both numbers": (["upsample_2d", "--scale-size", 2], lambda x: x.repeat(2, -2).repeat(2, -1)),
    "as many as windows": (["average_pooling", "--window-sizes", "2,2", "--strides", 2], halved),
    "a row of one": (
        ["average_pooling", "--window-sizes", "2,", "--strides", 2],
        lambda x: x.reshape(*x.shape[:-1], -1, 2).mean(-1),
    ),
}


@pytest.mark.parametrize(("given", "oracle"), SPATIAL.values(), ids=SPATIAL)
def test_a_number_alone_counts_for_several_dimensions_of_an_item(tmp_path, given, oracle):
    array = np.arange(5 * 3 * 4 * 6, dtype=np.float32).reshape(5, 3, 4, 6)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "out.npy"
    done = batch(given[0], path, out, *given[1:])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load(out), oracle(array))


def test_one_size_of_windows_of_an_item_without_a_batch_is_refused(tmp_path):
    path, out = saved(tmp_path / "in.npy", np.ones((5, 3, 4, 6), np.float32)), tmp_path / "out.npy"
    done = batch("unfold", path, out, "--window-sizes", "2")
    assert (done.exit_code, out.exists()) == (1, False)
    assert "say --window-sizes 2, for windows along the last one, as in [N, C, W], or --window-sizes 2,2" in done.output


def test_help_says_which_dimensions_of_an_item_a_number_alone_is_for():
    """Where the function counts them in its input."""
    told = {name for name in OPERATORS if "[C, H, W]" in command.batch.get_command(None, name).help}
    assert told == {"unfold", "average_pooling", "lp_pooling", "convolution"}


@pytest.mark.parametrize("name", options.HELP)
def test_operators_that_share_a_help_mean_the_same(name):
    """Their docstrings say so, but for the names of their operands."""
    said = {}
    for operator, option in OPTIONS:
        if argument(option) == name:
            operands = "|".join(OPERATORS[operator].operands)
            text = options.described(OPERATORS[operator].function)[name]
            said.setdefault(re.sub(rf"\b({operands})\b", "operand", text), []).append(operator)
    assert len(said) == 1, said
