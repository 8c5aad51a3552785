"""docs/operators/resample.md: every line of "The same numbers as elsewhere" is executed beside its library."""

import doctest
import itertools
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "operators" / "resample.md").read_text(encoding="utf-8")
SECTION = re.search(r"\n## The same numbers as elsewhere\n(.*?)\n## ", PAGE, re.DOTALL)[1]


class Line(NamedTuple):
    """A line of a table: calls, of which `ours` may be "none", for some sizes, and what else is said.

    A cell has the arguments that stand for "..." in the head of its column, or a whole call, such as area(x, sizes).
    """

    library: str
    theirs: str
    sizes: str
    ours: str
    note: str


def lines():
    heads = []
    for row in SECTION.splitlines():
        if row.startswith("|") and not row.startswith("| ---"):
            theirs, sizes, ours, note = (cell.strip() for cell in row[1:-1].split("|"))
            if sizes == "sizes":
                heads = [theirs.strip("`"), ours.strip("`")]
                library = re.match(r"\w+", heads[0])[0]
            else:
                yield Line(library, call(heads[0], theirs), sizes, call(heads[1], ours), note)


def call(head, cell):
    """The call of a cell: `cell` itself if it is "none" or a whole call."""
    cell = cell.strip("`")
    return cell if cell == "none" or re.match(r"\w+\(", cell) else head.replace("...", cell)


LINES = [*lines()]
SAME = [line for line in LINES if line.ours != "none"]
NONE = [line for line in LINES if line.ours == "none"]
NAMES = {"jax": jax}
for example in doctest.DocTestParser().get_examples(SECTION):
    exec(example.source, NAMES)

# Three spatial dimensions before and after, of which a call has the last ones. No library rounds the position of a
# nearest element to the wrong side.
SIZES = [
    ((3, 7, 9), (5, 12, 5)),
    ((4, 13, 6), (2, 4, 10)),
    ((2, 17, 31), (6, 5, 7)),
    ((6, 12, 9), (2, 4, 3)),
    ((5, 3, 1), (7, 8, 5)),
    ((4, 5, 7), (9, 13, 18)),
    ((3, 6, 5), (1, 1, 5)),
    ((2, 8, 12), (1, 4, 2)),
]
SCALES = [(0.7, 1.3, 2.4), (1.9, 0.45, 0.8), (1.7, 3.5, 0.6)]
# By what a line says of sizes: whether it is about these, along every dimension.
OF_SIZES = {
    "any": lambda n, m: True,
    "of factors": lambda n, m: m.all() and (n != m).all(),
    "above 1": lambda n, m: min(m) > 1,
    "that divide": lambda n, m: not (n % m).any(),
    "others": lambda n, m: (n % m).any(),
    "that shrink": lambda n, m: (n >= m).all() and (n > m).any(),
    "that grow": lambda n, m: (n <= m).all() and (n < m).any(),
    "that do both": lambda n, m: (n > m).any() and (n < m).any(),
}


def torch_names():
    torch = pytest.importorskip("torch")
    return {"F": torch.nn.functional}, torch.from_numpy


def opencv_names():
    return {"cv2": pytest.importorskip("cv2")}, np.asarray


def onnx_names():
    import onnx_building as building  # skips where ONNX Runtime is not installed

    def resize(x, sizes=None, scales=None, roi=None, **attributes):
        if "keep_aspect_ratio_policy" in attributes:
            attributes["axes"], sizes = [*range(2, x.ndim)], sizes[2:]
        types = {"x": np.float32, "roi": np.float32, "scales": np.float32, "sizes": np.int64}
        given = {"x": x, "roi": roi, "scales": scales, "sizes": sizes}
        arrays = {name: np.asarray(one, types[name]) for name, one in given.items() if one is not None}
        inputs = [name if name in arrays else "" for name in types]
        node = building.helper.make_node("Resize", inputs, ["y"], **attributes)
        return building.runtime(building.model([node], arrays, ["y"], opset=19), arrays)[0]

    return {"Resize": resize}, np.asarray


# Of each library the names of its calls, how it makes an array, and the sizes of the dimensions that stay, before and
# behind the others.
LIBRARIES = {
    "F": (torch_names, (2, 3), ()),
    "jax": (lambda: ({}, jax.numpy.asarray), (2,), (3,)),
    "cv2": (opencv_names, (), (3,)),
    "Resize": (onnx_names, (1, 2), ()),
}
# How many dimensions are resized: of the first word that is in the call.
RANKS = {
    "F": {"nearest": (1, 2, 3), "area": (1, 2, 3), "=linear": (1, 2, 3), "": (2,)},
    "jax": {"": (1, 2)},
    "cv2": {"": (2,)},
    "Resize": {"cubic": (2,), "": (2, 3)},
}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}  # torch's names by that number


def operands(line):
    """Arrays and sizes of every rank, and what else the calls name."""
    _, before, behind = LIBRARIES[line.library]
    ranks = next(ranks for word, ranks in RANKS[line.library].items() if word in line.theirs)
    rng = np.random.default_rng(0)
    for rank, (befores, afters) in itertools.product(ranks, SIZES):
        n, m, factors = np.array(befores[-rank:]), np.array(afters[-rank:]), SCALES[sum(befores) % 3][-rank:]
        if line.sizes == "of factors":
            m = np.floor(n * np.float32(factors)).astype(int)
        if OF_SIZES[line.sizes](n, m):
            yield {
                "linear": LINEAR[rank],
                "x": rng.normal(size=(*before, *n, *behind)).astype(np.float32),
                "sizes": (*before, *m.tolist(), *behind),
                "factors": (*[1] * len(before), *factors, *[1] * len(behind)),
                "starts": (*[0] * len(before), *(0.1, 0, 0.3)[:rank], *[0] * len(behind)),
                "ends": (*[1] * len(before), *(0.8, 1, 0.9)[:rank], *[1] * len(behind)),
            }


def theirs(line, given):
    names, array = LIBRARIES[line.library][0]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(eval(line.theirs, NAMES | names | given | {"x": array(given["x"])}))


def ours(call, given):
    return np.asarray(eval(call, NAMES | given))


def are_same(actual, expected):
    return actual.shape == expected.shape and np.allclose(actual, expected, rtol=1e-5, atol=1e-5)


def named(line):
    return f"{line.theirs}, sizes {line.sizes}"


@pytest.mark.thinned
@pytest.mark.parametrize("line", SAME, ids=named)
def test_a_call_has_the_numbers_of_the_library(line, exhaustive):
    """By default two of the sizes, other ones from line to line."""
    cases = [*operands(line)]
    step = 1 if exhaustive else max(1, len(cases) // 2)
    assert len(cases) > 1
    for given in cases[SAME.index(line) % step :: step]:
        expected, actual = theirs(line, given), ours(line.ours, given)
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=str(given["x"].shape))


@pytest.mark.thinned
@pytest.mark.parametrize("line", NONE, ids=named)
def test_no_call_of_the_page_has_the_numbers(line):
    """No other one of its table, but the one that the note names, if the note is a call."""
    given = next(operands(line))
    expected = theirs(line, given)
    calls = {one.ours for one in SAME if (one.library, one.sizes) == (line.library, "any")}
    assert len(calls) > 3
    assert [call for call in calls if are_same(ours(call, given), expected)] == []
    if re.fullmatch("`[^`]+`", line.note):
        assert are_same(ours(line.note.strip("`"), given), expected)


def test_every_way_of_the_libraries_is_there():
    of = {library: " ".join(line.theirs for line in LINES if line.library == library) for library in LIBRARIES}
    for method in ("nearest", "linear", "cubic", "cubic-pytorch", "area", "lanczos3", "lanczos5"):
        assert f'"{method}")' in of["jax"]
        assert method in ("nearest", "area") or f'"{method}", antialias=False)' in of["jax"]
    modes = ("half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")
    for word in (*modes, "tf_crop_and_resize", "round_prefer_ceil", "floor", "ceil", "not_larger", "not_smaller"):
        assert f'"{word}"' in of["Resize"]
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area", "lanczos"):
        assert f'mode="{mode}"' in of["F"]
    assert "mode=linear" in of["F"]
    for flag in ("NEAREST", "NEAREST_EXACT", "LINEAR", "LINEAR_EXACT", "CUBIC", "AREA", "LANCZOS4"):
        assert f"cv2.INTER_{flag})" in of["cv2"]


def test_other_names_of_jax():
    method = jax.image.ResizeMethod.from_string
    noted = {line.theirs: re.findall('"([a-z-]+)"', line.note) for line in SAME if "other name" in line.note}
    assert sorted(map(len, noted.values())) == [1, 2, 3]
    for call, names in noted.items():
        assert {*map(method, names)} == {method(re.search('"([a-z-]+)"', call)[1])}
