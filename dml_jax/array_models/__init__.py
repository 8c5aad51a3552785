"""Models that run on arrays: ONNX models and serialized graphs, as `dml-jax run` takes them."""
