"""The benchmark of torch modules beside their ONNX files, in small: who is measured, and that all agree."""

import pytest

from benchmarks.page import rewritten
from dml_jax.bench.results import Results

pytest.importorskip("onnxscript")
exported = pytest.importorskip("benchmarks.exported", exc_type=ImportError)
nn = exported.nn
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own, of what its exporter calls


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Embedding(exported.WORDS, 32), nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, ids):
        x = self.embed(ids)
        return x + self.attend(x, x, x, need_weights=False)[0]


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


SMALL = (
    exported.Network("perceptron", perceptron, (3, 8), package="torch"),
    exported.Network("attention", Attended, (2, 5), is_text=True, package="torch"),
)


@pytest.fixture
def small(monkeypatch):
    """Small networks, which torch.compile leaves as they are: it would need a C++ compiler."""
    monkeypatch.setattr(exported, "NETWORKS", SMALL)
    monkeypatch.setattr(exported.torch, "compile", lambda module, mode: module)


def test_a_run_has_every_network_in_all_types_and_goes_on(small, tmp_path, capsys):
    file = tmp_path / "cpu_exported.json"
    exported.main(["perceptron", "--json", str(file)])
    exported.main(["--dtype", "float32", "--json", str(file)])
    cases = dict(Results.read(file).by_case())
    assert [*cases] == [
        "exported perceptron, bfloat16",
        "exported perceptron, float16",
        "exported perceptron, float32",
        "exported attention, float32",
    ]
    for rows in cases.values():
        assert [*rows] == ["dml_jax", "eager torch", "torch.compile"]
        assert all(row.same_bits for row in rows.values())
    assert "| exported attention, float32 | " in capsys.readouterr().out
    table = rewritten(f"<!-- {file.name}: exported -->\n<!-- end -->", tmp_path).splitlines()
    titles = [
        f"x {name}, {dtype}"
        for dtype in ("bfloat16", "float16", "float32")
        for name in ("eager torch", "torch.compile")
    ]
    assert table[4] == f"| network | {' | '.join(titles)} |"
    assert [line.count(" - ") for line in table if line.startswith("| attention")] == [4]  # of 16 bits


def test_other_results_are_told(small, monkeypatch, capsys):
    run = exported.TorchRun
    monkeypatch.setattr(exported, "TorchRun", lambda module, x: run(lambda x: 2 * module(x), x))
    exported.main(["perceptron", "--dtype", "float32"])
    assert capsys.readouterr().out.count("differs") == 2


def test_a_network_of_no_such_name(small, capsys):
    with pytest.raises(SystemExit):
        exported.main(["vit"])
    assert "NAME must be one of perceptron, attention, but it is vit" in capsys.readouterr().err
