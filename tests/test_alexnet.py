"""AlexNet as ONNX Runtime's DirectML provider writes it, a serialized graph, beside torch's own operators."""

import numpy as np
import pytest
from serialized_graph_cases import ALEXNET

from dml_jax import GraphDesc, compile_operator
from dml_jax.graphs.serialized.codec import encode

torch = pytest.importorskip("torch", reason="AlexNet is computed again by torch")
F = torch.nn.functional


def of_torch(x, weights):
    """The network in float32: what every layer is, written down again."""

    def convolved(x, number, **attributes):
        w, b = weights[f"conv{number}_w_0"], weights[f"conv{number}_b_0"]
        return F.relu(F.conv2d(x, w, b.ravel(), **attributes))

    def normalized(x):
        return F.max_pool2d(F.local_response_norm(x, 5, alpha=1e-4, beta=0.75, k=1), 3, 2)

    def connected(x, number):
        return x @ weights[f"fc{number}_w_0"][0, 0].T + weights[f"fc{number}_b_0"].ravel()

    x = normalized(convolved(x, 1, stride=4))
    x = normalized(convolved(x, 2, padding=2, groups=2))
    x = convolved(convolved(x, 3, padding=1), 4, padding=1, groups=2)
    x = F.pad(convolved(x, 5, padding=1, groups=2), (0, 1, 0, 1), value=-torch.inf)
    x = F.max_pool2d(x, 3, 2).reshape(1, -1)
    return F.softmax(connected(F.relu(connected(F.relu(connected(x, 6)), 7)), 8), -1)


@pytest.mark.exhaustive
@pytest.mark.device
def test_alexnet_is_what_torch_computes():
    graph = GraphDesc.from_bytes(encode(ALEXNET))
    assert len(graph.operators) == 15
    rng = np.random.default_rng(0)
    drawn = {name: rng.standard_normal(t.element_span).astype(t.dtype) for name, t in graph.inputs.items()}
    fan_in = {name: np.prod(t.sizes[1 if "conv" in name else 3 :]) for name, t in graph.inputs.items() if "_w_" in name}
    owned = {
        name: drawn[name] * np.float16((2 / fan_in[name]) ** 0.5 if name in fan_in else 0.1)
        for name, tensor in graph.inputs.items()
        if tensor.flags
    }
    (x,) = drawn.keys() - owned.keys()
    made = np.asarray(compile_operator(graph, **owned)(drawn[x]), np.float32)
    floats = {name: torch.from_numpy(np.float32(owned.get(name, drawn[name]))) for name in graph.inputs}
    shaped = {name: floats[name].reshape(t.sizes) if t.is_packed else floats[name] for name, t in graph.inputs.items()}
    wanted = of_torch(shaped.pop(x), shaped).numpy()[0]
    assert np.argmax(made) == np.argmax(wanted)
    assert wanted.max() > 5 * np.median(wanted)  # the network tells classes apart, so that a wrong layer shows
    np.testing.assert_allclose(made, wanted, rtol=0.05, atol=1e-5)
    assert abs(made.sum() - 1) < 1e-2
