"""Decodes with an .onnx file whose cache grows in each step, and compiles one step for all.

    python docs/examples/growing_cache.py [--words 12]

torch and optimum export decoders whose inputs `past_key_values.*` are the keys and values
of all words before, and whose outputs `present.*` have those of the new words behind them:
each step has other sizes. Here the past is padded to a fixed size, and `attention_mask`
hides the padding. So one step is compiled for the prompt, and one for all words after it.
The program writes such a file with random weights, and prints the words that it chooses. It
needs onnx: `pip install '.[onnx]'`.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise SystemExit(f"growing_cache: {missing}; pip install '.[onnx]'") from None

from dml_jax.onnx import OnnxFunction, to_jax

HEADS, SIZE, LAYERS, WORDS, LONGEST = 4, 8, 1, 96, 64
PROMPT = 5
HIDDEN = HEADS * SIZE
INT64_INPUTS = ("input_ids", "attention_mask", "position_ids")

Cache = dict[str, Any]
Step = Callable[[Cache, Any, Cache, Any], tuple[Any, Cache]]


def write_decoder(path: Path, rng: np.random.Generator) -> None:
    """A decoder of random weights, with the inputs and outputs of optimum's."""
    nodes, arrays = [], {}

    def add(kind: str, inputs: str, output: str, **attributes: Any) -> None:
        nodes.append(helper.make_node(kind, inputs.split(), [output], **attributes))

    def weight(name: str, *sizes: int) -> None:
        deviation = 1 if name.endswith("table") else sizes[0] ** -0.5
        arrays[name] = np.float32(rng.normal(0, deviation, sizes))

    weight("word_table", WORDS, HIDDEN)
    weight("place_table", LONGEST, HIDDEN)
    weight("head", HIDDEN, WORDS)
    arrays |= {"heads": np.array([0, 0, HEADS, SIZE]), "whole": np.array([0, 0, HIDDEN])}
    arrays |= {"0": np.array(0), "1": np.array(1), "at_1": np.array([1])}
    arrays["at_1_2"] = np.array([1, 2])
    add("Gather", "word_table input_ids", "word")
    add("Gather", "place_table position_ids", "place")
    add("Add", "word place", "x0")
    # A word sees the past, the new words before it and itself, where attention_mask is 1.
    add("Shape", "input_ids", "new_size", start=1)
    add("Squeeze", "new_size", "new")
    add("Shape", "attention_mask", "total_size", start=1)
    add("Squeeze", "total_size", "total")
    add("Sub", "total new", "before")
    add("Range", "0 total 1", "keys")
    add("Range", "before total 1", "queries")
    add("Unsqueeze", "queries at_1", "columns")
    add("LessOrEqual", "keys columns", "causal")
    add("Cast", "attention_mask", "is_real", to=TensorProto.BOOL)
    add("Unsqueeze", "is_real at_1_2", "real")
    add("And", "causal real", "mask")
    for i in range(LAYERS):
        for name in ("query", "key", "value"):
            weight(f"{name}{i}", HIDDEN, HIDDEN)
            add("MatMul", f"x{i} {name}{i}", f"{name}{i}_flat")
            add("Reshape", f"{name}{i}_flat heads", f"{name}{i}_rows")
            add("Transpose", f"{name}{i}_rows", f"{name}{i}_new", perm=[0, 2, 1, 3])
        for name in ("key", "value"):
            past, present = f"past_key_values.{i}.{name}", f"present.{i}.{name}"
            add("Concat", f"{past} {name}{i}_new", present, axis=2)
        add("Attention", f"query{i}_new present.{i}.key present.{i}.value mask", f"y{i}")
        add("Transpose", f"y{i}", f"y{i}_rows", perm=[0, 2, 1, 3])
        add("Reshape", f"y{i}_rows whole", f"y{i}_flat")
        weight(f"out{i}", HIDDEN, HIDDEN)
        add("MatMul", f"y{i}_flat out{i}", f"o{i}")
        add("Add", f"x{i} o{i}", f"x{i + 1}")
    add("MatMul", f"x{LAYERS} head", "logits")

    def declared(kind: int, sizes: Any, *names: str) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, kind, sizes) for name in names]

    cache = [f"{i}.{name}" for i in range(LAYERS) for name in ("key", "value")]
    pasts = [f"past_key_values.{name}" for name in cache]
    inputs = declared(TensorProto.INT64, ["batch", "length"], "input_ids")
    inputs += declared(TensorProto.INT64, ["batch", "total"], "attention_mask")
    inputs += declared(TensorProto.INT64, ["batch", "length"], "position_ids")
    inputs += declared(TensorProto.FLOAT, ["batch", HEADS, "past", SIZE], *pasts)
    outputs = declared(
        TensorProto.FLOAT, None, "logits", *(f"present.{name}" for name in cache)
    )
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 23)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def read_decoder(path: Path) -> OnnxFunction:
    """Takes int32 for the int64 inputs, so that they can be data while x64 is off."""
    names = {info.name for info in onnx.load(path, load_external_data=False).graph.input}
    return to_jax(path, int32=[name for name in INT64_INPUTS if name in names])


def padded(decoder: OnnxFunction, room: int) -> Step:
    """Returns a step on a past of `room` rows, of which the last `count` are real."""
    names = {spec.name for spec in decoder.inputs}

    @partial(jax.jit, donate_argnames="past")
    def step(weights: Cache, ids: Any, past: Cache, count: Any) -> tuple[Any, Cache]:
        batch, length = ids.shape
        is_real = jnp.arange(room + length, dtype=np.int32) >= room - count
        positions = count + jnp.arange(length, dtype=np.int32)
        given = {
            "input_ids": ids,
            "attention_mask": jnp.tile(is_real.astype(np.int32), (batch, 1)),
            "position_ids": jnp.tile(positions, (batch, 1)),
        }
        given = {name: array for name, array in given.items() if name in names} | past
        results = decoder(**given, parameters=weights)
        named = dict(zip(decoder.output_names, results, strict=True))
        # The new rows stand last; as many of the first ones go.
        presents = {name: name.replace("past_key_values", "present") for name in past}
        past = {name: named[new][:, :, length:] for name, new in presents.items()}
        return named["logits"], past

    return step


def empty(decoder: OnnxFunction, batch: int, room: int) -> Cache:
    """The past of a text that begins: `room` rows of zeros, which the mask hides."""
    pasts = [spec for spec in decoder.inputs if spec.name.startswith("past_key_values")]
    return {
        spec.name: jnp.zeros((batch, spec.sizes[1], room, spec.sizes[3]), spec.dtype)
        for spec in pasts
        if spec.sizes is not None
    }


def decoded(step: Step, weights: Cache, ids: Any, past: Cache, words: int) -> jax.Array:
    """Returns a prompt with the likeliest words after it."""
    text, count = [ids], 0
    for _ in range(words):
        logits, past = step(weights, text[-1], past, np.int32(count))
        count += text[-1].shape[1]
        text.append(logits[:, -1:].argmax(axis=-1).astype(np.int32))
    return jnp.concatenate(text, axis=1)


def main(argv: Sequence[str] | None = None) -> None:
    """Decodes, and prints the numbers of the words."""
    parser = argparse.ArgumentParser(description="Decodes with a cache of a fixed size.")
    parser.add_argument("--words", type=int, default=12, help="that follow the prompt")
    options = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        write_decoder(Path(folder, "decoder.onnx"), rng)
        decoder = read_decoder(Path(folder, "decoder.onnx"))
    room = PROMPT + options.words
    prompt = jnp.asarray(rng.integers(0, WORDS, (1, PROMPT)), np.int32)
    weights = jax.device_put(decoder.parameters)
    past = empty(decoder, 1, room)
    text = decoded(padded(decoder, room), weights, prompt, past, options.words)
    print(f"prompt: {text[0, :PROMPT]}\nwords: {text[0, PROMPT:]}")


if __name__ == "__main__":
    main()
