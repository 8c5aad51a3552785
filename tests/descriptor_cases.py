"""One valid descriptor per struct, and for every rule one change of fields that breaks it."""

from dataclasses import dataclass, field
from typing import Any

import dml_jax
from dml_jax import TensorDesc


def f32(*sizes, **keywords):
    return TensorDesc("FLOAT32", sizes, **keywords)


def u32(*sizes, **keywords):
    return TensorDesc("UINT32", sizes, **keywords)


@dataclass(eq=False)
class Case:
    """A descriptor, and `{rule: changed fields}` for each of its rules."""

    desc: dml_jax.OperatorDesc
    breaks: dict[str, dict[str, Any]] = field(default_factory=dict)


def shared(desc):
    """The changes that break what all operators share: they follow from the descriptor's own tensors."""

    def like(tensor, **changes):
        fields = {"data_type": tensor.data_type, "sizes": tensor.sizes, **changes}
        return TensorDesc(**fields)

    others = [name for name in desc.tensor_names() if name != "input"]
    longer = {name: like(getattr(desc, name), sizes=(1, *getattr(desc, name).sizes)) for name in others}
    typed = {name: like(getattr(desc, name), data_type="INT8") for name in others if name != "indices"}
    zeros = (0,) * len(desc.output.sizes)
    return {
        **{f"same_rank({name}, input)": {name: tensor} for name, tensor in longer.items()},
        **{f"same_dtype({name}, input)": {name: tensor} for name, tensor in typed.items()},
        "not_owned(output)": {"output": like(desc.output, flags="OWNED_BY_DML")},
        "injective(output)": {"output": like(desc.output, strides=zeros)},
    }


GATHER = dml_jax.GatherDesc(f32(1, 3, 2), u32(1, 2, 2), f32(2, 2, 2), 1, 2)
ELEMENTS = dml_jax.GatherElementsDesc(f32(3, 3), u32(2, 3), f32(2, 3), 0)
ND = dml_jax.GatherNDDesc(f32(1, 2, 2, 2), u32(1, 1, 2, 2), f32(1, 1, 2, 2), 3, 2)
ND1 = dml_jax.GatherND1Desc(f32(1, 3, 2, 2), u32(1, 3, 2, 2), f32(1, 1, 3, 2), 3, 3, 1)
SCATTER = dml_jax.ScatterElementsDesc(f32(3, 3), u32(2, 3), f32(2, 3), f32(3, 3), 0)
SCATTER_ND = dml_jax.ScatterNDDesc(f32(1, 1, 8), u32(1, 4, 1), f32(1, 1, 4), f32(1, 1, 8), 1, 2)
TO_SPACE = dml_jax.DepthToSpaceDesc(f32(1, 8, 2, 3), f32(1, 2, 4, 6), 2)
TO_SPACE1 = dml_jax.DepthToSpace1Desc(f32(1, 8, 2, 3), f32(1, 2, 4, 6), 2, "COLUMN_ROW_DEPTH")
TO_DEPTH = dml_jax.SpaceToDepthDesc(f32(1, 2, 4, 6), f32(1, 8, 2, 3), 2)
TO_DEPTH1 = dml_jax.SpaceToDepth1Desc(f32(1, 2, 4, 6), f32(1, 8, 2, 3), 2, "COLUMN_ROW_DEPTH")

# A TensorDesc has at most 8 dimensions and one of the eleven types: at the newest level only the operators on
# exactly 4 dimensions and the index types can break the tables. The level tests cover the rest.
UNBREAKABLE = {"supported_rank": None}
UNKNOWN_TYPE = {"supported_type(input)": None}


def indexed(desc, **own):
    return Case(
        desc,
        shared(desc)
        | own.pop("rules")
        | UNBREAKABLE
        | UNKNOWN_TYPE
        | {"supported_type(indices)": {"indices": TensorDesc("FLOAT32", desc.indices.sizes)}},
    )


def tuples(desc, sliced):
    """The changes that break the rules of index tuples."""
    rank = len(desc.input.sizes)
    two = (2,) * rank
    return {
        "dimension_count(input_dimension_count)": {"input_dimension_count": rank + 1},
        "dimension_count(indices_dimension_count)": {"indices_dimension_count": 0},
        "ignored_sizes_are_1(input)": {"input": f32(2, *desc.input.sizes[1:]), "input_dimension_count": 1},
        "ignored_sizes_are_1(indices)": {"indices": u32(*two), "indices_dimension_count": 1},
        "tuples_fit": {"indices": u32(*desc.indices.sizes[:-1], rank + 1)},
        f"fits_rank({sliced})": {
            "input": f32(*two),
            "indices": u32(*two[:-1], 1),
            "input_dimension_count": rank,
            "indices_dimension_count": rank,
        },
        f"sizes_follow({sliced})": {sliced: f32(*getattr(desc, sliced).sizes[:-1], 5)},
    }


CASES = {
    "GATHER": indexed(
        GATHER,
        rules={
            "below_rank(axis)": {"axis": 3},
            "dimension_count(index_dimensions)": {"index_dimensions": 4},
            "ignored_sizes_are_1(indices)": {"index_dimensions": 1},
            "fits_rank(output)": {"input": f32(2, 3, 2)},
            "sizes_follow(output)": {"output": f32(2, 2, 3)},
        },
    ),
    "GATHER_ELEMENTS": indexed(
        ELEMENTS,
        rules={
            "below_rank(axis)": {"axis": -1},
            "same_sizes(indices, input, except_along=axis)": {"axis": 1},
            "same_sizes(output, indices)": {"output": f32(3, 3)},
        },
    ),
    "GATHER_ND": indexed(ND, rules=tuples(ND, "output")),
    "GATHER_ND1": indexed(
        ND1,
        rules={"batch_fits": {"batch_dimension_count": 3}, "batch_sizes_agree": {"indices": u32(1, 2, 2, 2)}}
        | tuples(ND1, "output"),
    ),
    "SCATTER": indexed(
        SCATTER,
        rules={
            "below_rank(axis)": {"axis": 2},
            "same_sizes(indices, input, except_along=axis)": {"axis": 1},
            "same_sizes(updates, indices)": {"updates": f32(3, 3)},
            "same_sizes(output, input)": {"output": f32(2, 3)},
        },
    ),
    "SCATTER_ND": indexed(
        SCATTER_ND, rules=tuples(SCATTER_ND, "updates") | {"same_sizes(output, input)": {"output": f32(1, 8, 1)}}
    ),
}


def blocks(desc, rules):
    five = {"input": f32(1, *desc.input.sizes), "output": f32(1, *desc.output.sizes)}
    own = {"at_least(block_size, 1)": {"block_size": 0}, **rules, "sizes_follow(output)": {"output": f32(1, 2, 3, 4)}}
    return Case(desc, shared(desc) | own | {"supported_rank": five} | UNKNOWN_TYPE)


for name, desc in {"DEPTH_TO_SPACE": TO_SPACE, "DEPTH_TO_SPACE1": TO_SPACE1}.items():
    CASES[name] = blocks(desc, {"divisible(channels)": {"block_size": 3}})
for name, desc in {"SPACE_TO_DEPTH": TO_DEPTH, "SPACE_TO_DEPTH1": TO_DEPTH1}.items():
    CASES[name] = blocks(
        desc, {"divisible(rows)": {"input": f32(1, 2, 5, 6)}, "divisible(columns)": {"input": f32(1, 2, 4, 5)}}
    )
