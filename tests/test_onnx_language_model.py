"""The language model that docs/language_models.md makes: beside ONNX Runtime, and what a step does with its cache."""

import doctest
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from onnx_building import runtime

PAGE = Path(__file__).parents[1] / "docs/language_models.md"


@pytest.fixture(scope="module")
def page():
    """The names that the blocks of the page make: the model, a step of decoding, and where weights lie."""
    names = {}
    building, decoding, sharding, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    defined = decoding.split(">>> on_device")[0] + sharding.split(">>> cache, lengths")[0]
    for example in doctest.DocTestParser().get_examples(building + defined):
        exec(compile(example.source, str(PAGE), "exec"), names)
    return names


def test_prompt_and_words_are_those_of_onnx_runtime(page):
    """A prompt, then words one by one; behind the last key a cache may hold anything."""
    rng = np.random.default_rng(5)
    step, keys = page["step"], page["keys"]
    cache, lengths = page["begin"]()
    theirs = [np.asarray(array) for array in cache]
    for count in (4, 1, 1, 1):
        ids = rng.integers(0, page["words"], (2, count), dtype=np.int32)
        scores, cache, lengths = step(page["weights"], ids, cache, lengths)
        last, total = np.asarray(lengths) - 1, np.asarray(lengths)[:1]
        named = {"ids": ids, "last": last, "total": total} | {f"past_{k}": x for k, x in zip(keys, theirs, strict=True)}
        wanted, *theirs = runtime(page["model"], named)
        assert abs(wanted).max() > 1
        np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)
        for ours, other in zip(cache, theirs, strict=True):
            exist = int(lengths[0])
            np.testing.assert_allclose(ours[:, :, :exist], other[:, :, :exist], rtol=1e-4, atol=1e-4)


def test_a_step_writes_into_its_cache(page):
    """The memory of each cache is an output's, and no array as large is copied."""
    cache, lengths = page["begin"]()
    program = page["step"].lower(page["weights"], np.zeros((2, 1), np.int32), cache, lengths).compile()
    assert program.memory_analysis().alias_size_in_bytes >= sum(array.nbytes for array in cache)
    sizes = ",".join(map(str, cache[0].shape))
    assert not re.findall(rf"= f32\[{sizes}\]\S* copy\(", program.as_text())


def test_devices_add_their_parts_twice_in_each_layer(page):
    """They exchange nothing else: neither keys nor weights."""
    cache, lengths = page["begin"]()
    split = jax.NamedSharding(page["mesh"], jax.P(None, "heads"))
    arguments = page["on_all"], np.zeros((2, 1), np.int32), jax.device_put(cache, split), lengths
    program = page["step"].lower(*arguments).compile()
    made = re.findall(r"= \S+ (all-\w+|collective-\w+|reduce-scatter)(?:-start)?\(", program.as_text())
    assert made == ["all-reduce"] * (2 * page["layers"] if page["count"] > 1 else 0)
