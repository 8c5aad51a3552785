"""docs/examples/beside_jnp.py: the models of the examples train alike with dml_jax and in plain jax.numpy."""

import numpy as np
import pytest
from checks import sampled
from test_examples import imported, printed

beside_jnp = imported("beside_jnp")


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16"], ["bfloat16"]))
@pytest.mark.parametrize("name", sampled(beside_jnp.MODELS, ["experts, capacity"]))
def test_losses_agree_and_fall(name, dtype):
    ours, plain = beside_jnp.trained(name, 3, 1, dtype)
    np.testing.assert_allclose(ours.losses, plain.losses, rtol=2e-2)
    assert ours.losses[-1] < ours.losses[0]
    assert len(ours.seconds) == len(plain.seconds) == 3


@pytest.mark.exhaustive
def test_the_table_has_a_row_for_each_model(monkeypatch):
    monkeypatch.setattr(beside_jnp, "MODELS", {"detection head": beside_jnp.MODELS["detection head"]})
    _, _, _, row = printed(beside_jnp, "--steps", 1).splitlines()
    name, *columns = row.strip("| ").split(" | ")
    first, last, plain, ratio = map(float, columns)
    assert name == "detection head"
    assert first > last == plain
    assert ratio > 0


@pytest.mark.exhaustive
def test_losses_that_differ_end_the_program(monkeypatch):
    def wrong(name):
        example = beside_jnp.loaded(name)
        example.HARDEST += 1
        return example

    monkeypatch.setattr(beside_jnp, "in_plain_jnp", wrong)
    with pytest.raises(SystemExit, match="the losses of detection head differ"):
        beside_jnp.trained("detection head", 1, 1, "float32")
