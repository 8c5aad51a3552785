"""Decoders whose caches grow: docs/examples/growing_cache.py pads the past, and compiles one step for all words."""

import io
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx_building import onnx, runtime
from test_examples import imported, printed

from dml_jax.onnx import to_jax

example = imported("growing_cache")
PROMPT, WORDS, ROOM = 5, 6, 13


pytestmark = pytest.mark.usefixtures("full_precision")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    example.write_decoder(file, np.random.default_rng(3))
    return file


def counted(decoder):
    """The decoder, and a list to which each call adds the sizes of its words: jitted, each compilation."""
    calls = []

    def call(**given):
        calls.append(given["input_ids"].shape)
        return decoder(**given)

    class Counted(SimpleNamespace):
        __call__ = staticmethod(call)

    return Counted(inputs=decoder.inputs, output_names=decoder.output_names, parameters=decoder.parameters), calls


def padded_logits(decoder, text, room=ROOM):
    """The logits of a prompt and of each word after it, with a padded cache; and what was compiled."""
    decoder, calls = counted(decoder)
    step, past, count, logits = example.padded(decoder, room), example.empty(decoder, len(text), room), 0, []
    for ids in np.split(text, range(PROMPT, text.shape[1]), axis=1):
        new, past = step(decoder.parameters, jnp.asarray(ids), past, np.int32(count))
        logits.append(np.asarray(new))
        count += ids.shape[1]
    return np.concatenate(logits, axis=1), calls


def grown_logits(run, specs, names, text):
    """The same by `run` with a cache that grows, as the file is meant."""
    past = {s.name: np.zeros((len(text), s.sizes[1], 0, s.sizes[3]), s.dtype) for s in specs if "past" in s.name}
    logits, wanted = [], {spec.name for spec in specs}
    for ids in np.split(text, range(PROMPT, text.shape[1]), axis=1):
        before = next(iter(past.values())).shape[2]
        total = before + ids.shape[1]
        given = {"input_ids": ids.astype(np.int64), "attention_mask": np.ones((len(ids), total), np.int64)}
        given["position_ids"] = np.tile(np.arange(before, total), (len(ids), 1))
        results = dict(zip(names, run({k: v for k, v in given.items() if k in wanted} | past), strict=True))
        logits.append(results["logits"])
        past = {name: results[name.replace("past_key_values", "present")] for name in past}
    return np.concatenate(logits, axis=1)


def words(count, most):
    return np.random.default_rng(7).integers(0, most, (2, count)).astype(np.int32)


def test_a_padded_cache_gives_the_logits_of_one_that_grows(path):
    """In ONNX Runtime; a program for the prompt and one for all words after it."""
    proto, decoder, text = onnx.load(path), example.read_decoder(path), words(PROMPT + WORDS, example.WORDS)
    logits, compiled = padded_logits(decoder, text)
    assert compiled == [(2, PROMPT), (2, 1)]
    wanted = grown_logits(lambda given: runtime(proto, given), decoder.inputs, decoder.output_names, text)
    assert abs(wanted).max() > 1
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
def test_the_first_words_are_forgotten_without_room(path):
    """Each word sees as many before it as there are rows, though at the positions of the whole text."""
    decoder, text = example.read_decoder(path), words(PROMPT + 1, example.WORDS)
    weights, past = decoder.parameters, example.empty(decoder, 2, PROMPT - 1)
    logits, _ = padded_logits(decoder, text, room=PROMPT - 1)
    step, (first, *rest) = example.padded(decoder, PROMPT), (text[:, :PROMPT], text[:, PROMPT:])
    whole, past = step(weights, jnp.asarray(first), example.empty(decoder, 2, PROMPT), np.int32(0))
    cut = {name: rows[:, :, 1:] for name, rows in past.items()}
    last, _ = example.padded(decoder, PROMPT - 1)(weights, jnp.asarray(rest[0]), cut, np.int32(PROMPT))
    np.testing.assert_allclose(logits, np.concatenate([whole, last], axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.exhaustive
def test_the_example_prints_its_words():
    prompt, chosen = (line.split(": ")[1] for line in printed(example, "--words", 3).splitlines())
    assert [len(numbers.strip("[]").split()) for numbers in (prompt, chosen)] == [example.PROMPT, 3]


# A file of torch's own.


def exported(has_positions):
    """A decoder of torch with plain products and Softmax, whose positions come from an input or from the mask."""
    torch = pytest.importorskip("torch")

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.words, self.places = torch.nn.Embedding(50, 16), torch.nn.Embedding(40, 16)
            self.qkv, self.out, self.head = (torch.nn.Linear(16, n) for n in (48, 16, 50))

        def forward(self, ids, mask, positions, key, value):
            if positions is None:
                positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            x = self.words(ids) + self.places(positions)
            parts = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            key, value = torch.cat([key, parts[1]], 2), torch.cat([value, parts[2]], 2)
            queries = torch.arange(key.shape[2] - ids.shape[1], key.shape[2])
            seen = (torch.arange(key.shape[2]) <= queries[:, None]) & mask[:, None, None, :].bool()
            scores = (parts[0] @ key.transpose(2, 3) / 8**0.5).masked_fill(~seen, torch.finfo(x.dtype).min)
            y = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
            return self.head(x + self.out(y)), key, value

    past = torch.zeros(2, 2, 3, 8)
    arguments = [torch.zeros(2, 4, dtype=torch.int64), torch.ones(2, 7, dtype=torch.int64)]
    names = ["input_ids", "attention_mask", *(["position_ids"] if has_positions else [])]
    arguments += [torch.arange(3, 7).repeat(2, 1) if has_positions else None, past, past]
    pasts = ["past_key_values.0.key", "past_key_values.0.value"]
    axes = {"input_ids": {0: "batch", 1: "new"}, "attention_mask": {0: "batch", 1: "total"}}
    axes |= {"position_ids": {0: "batch", 1: "new"}} if has_positions else {}
    axes |= {name: {0: "batch", 2: "past"} for name in pasts}
    file = io.BytesIO()
    torch.onnx.export(
        Decoder().eval(),
        tuple(arguments),
        file,
        input_names=[*names, *pasts],
        output_names=["logits", "present.0.key", "present.0.value"],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    return onnx.load_from_string(file.getvalue()), names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("has_positions", [True, False])
def test_a_decoder_that_torch_exports(has_positions):
    proto, names = exported(has_positions)
    decoder, text = to_jax(proto, int32=names), words(PROMPT + WORDS, 50)
    with jax.enable_x64(not has_positions):  # which the sums of a mask may need
        logits, compiled = padded_logits(decoder, text)
    assert compiled == [(2, PROMPT), (2, 1)]
    wanted = grown_logits(lambda given: runtime(proto, given), decoder.inputs, decoder.output_names, text)
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)
