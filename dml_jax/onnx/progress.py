"""What this process does with an ONNX model now, in words, which `dml-jax run` tells if it takes long."""


class _Doing:
    """A sentence that the thread of the model writes, and another one reads."""

    text = ""


DOING = _Doing()
