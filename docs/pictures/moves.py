"""The pictures of the other operators, as data: for each its rule, what is to be seen, and calls."""

import numpy as np
from calls import Picture, indices, letters, numbers
from sources import CAPITALS

GRID = letters(3, 4)
COLUMNS = letters(3, 4, axis=1)
SAMPLE = numbers([[2, 1, 3, 5], [3, 1, 2, 2], [1, 4, 2, 3]], [[0], [1], [2]])
RUNNING = tuple({"input": SAMPLE, "axis": 1, **how} for how in ({}, {"exclusive": True}, {"direction": "decreasing"}))
A, B = letters(2, 4, axis=None), letters(2, 4, axis=None, first=1, names=CAPITALS)
CHOICE = np.uint8([[1, 0, 0, 1], [0, 1, 0, 1]])
PLANE = letters(1, 3, 4, axis=1)
SPARSE = np.float32([[1, 0, 0, 2], [0, 3, 0, -5]])
TIES = numbers([[1, 2, 2, 3], [3, 4, 5, 5]], np.arange(4))
PADDING = {"input": letters(2, 3), "start_padding": (1, 2), "end_padding": (0, 2)}
FRAME = numbers(np.arange(1, 17).reshape(4, 4), np.arange(4))

PICTURES = {
    "as_strided_scatter": Picture(
        "output = buffer; output[offset + sum(c * strides)] = updates[c]",
        ("Small letters: the buffer. Capitals: the updates, each row in its colour. Grey: what the buffer keeps.",),
        (
            {
                "buffer": letters(8, axis=None, first=7),
                "updates": letters(2, 3, names=CAPITALS),
                "strides": (4, 1),
                "offset": 1,
            },
        ),
    ),
    "slice": Picture(
        "output[c] = input[start + c * strides]",
        ("A window, of which a stride of 1 takes every element and 2 every second one; -1 begins at its end.",),
        tuple(
            {
                "input": GRID,
                "input_window_offsets": offsets,
                "input_window_sizes": sizes,
                "input_window_strides": strides,
            }
            for offsets, sizes, strides in (((0, 1), (3, 3), (2, 1)), ((1, 0), (2, 4), (1, -1)))
        ),
    ),
    "slice_grad": Picture(
        "output[start + c * strides] = input_gradient[c], and 0 elsewhere",
        ("Elements go where slice would read them, upside down with a stride of -1; the rest is 0.",),
        tuple(
            {
                "input_gradient": letters(2, 2),
                "sizes": (3, 4),
                "offsets": offsets,
                "window_sizes": sizes,
                "strides": strides,
            }
            for offsets, sizes, strides in (((0, 1), (3, 3), (2, 2)), ((1, 0), (2, 2), (-1, 1)))
        ),
    ),
    "join": Picture(
        "output = inputs[0], then inputs[1] and so on, along axis",
        ("Colour: the column of an input. Capitals: the second input.",),
        ({"inputs": (letters(3, 2, axis=1), letters(3, 3, axis=1, first=2, names=CAPITALS)), "axis": 1},),
    ),
    "split": Picture(
        "outputs[i] = the next sizes[i] elements of input along axis",
        ("Parts of one array, in order. Colour: the column, or the row, of input.",),
        ({"input": COLUMNS, "sizes": (1, 3), "axis": 1}, {"input": GRID, "sizes": (2, 1), "axis": 0}),
        {"outputs[0]": None, "outputs[1]": None},
    ),
    "tile": Picture(
        "output[c] = input[c % input.shape]",
        ("The whole array again and again, along each dimension. Colour: the row of input.",),
        ({"input": letters(2, 3), "repeats": (2, 3)},),
    ),
    "one_hot": Picture(
        "output[c] = values[1] if c[axis] is the index of its row, else values[0]",
        ("Each row has values[1] where its index says. -1 is the last element; 7 is out of range and names none.",),
        ({"indices": indices([[1], [-1], [7]]), "values": letters(2), "size": 4, "axis": 1},),
    ),
    "top_k": Picture(
        "values[c] = input[c with c[axis] := indices[c]]",
        ("The greatest or least elements in order, and where they lie. Colour: the column of input.",),
        ({"input": TIES, "axis": 1, "k": 3}, {"input": TIES, "axis": 1, "k": 3, "direction": "increasing"}),
        {"values": None, "indices": lambda found: found + 4 * np.arange(2)[:, None]},
    ),
    "nonzero_coordinates": Picture(
        "coordinates[:count] are those c with input[c] != 0; the rows behind them are 0",
        ("Row and column of each number that is not 0, in order. Colour: that number.",),
        ({"input": numbers(SPARSE, np.where(SPARSE != 0, np.cumsum(SPARSE != 0).reshape(SPARSE.shape), 0) - 1)},),
        {"count": None, "coordinates": lambda found: np.where(np.arange(8) < 4, found @ [4, 1], 1)},
    ),
    "max_unpooling": Picture(
        "output = zeros; output.flat[indices[c]] = input[c]",
        ("An index counts the elements of the output, row after row. Where none points there is 0.",),
        (
            {
                "input": numbers([[6, 8], [7, 9]], [[0, 1], [2, 3]]),
                "indices": indices([[5, 2], [8, 15]], [[0, 1], [2, 3]]),
                "output_sizes": (4, 4),
            },
        ),
    ),
    "diagonal_matrix": Picture(
        "output[..., y, x] = value if x - y == offset else 0",
        ("A positive offset counts diagonals to the right, a negative one to the left.",),
        tuple({"sizes": (3, 4), "dtype": "float32", "offset": offset, "value": 7} for offset in (1, -1)),
    ),
    "fill_diagonals": Picture(
        "output[..., y, x] = value if begin <= x - y < end else input[..., y, x]",
        ("Diagonals from begin up to end become 0; with begin > end all others do. 0 is the main diagonal.",),
        tuple({"input": GRID, "begin": begin, "end": end, "value": 0} for begin, end in ((1, 4), (0, 2), (1, 0))),
    ),
    "cumulative_summation": Picture(
        "output[k] = input[0] + ... + input[k]",
        ("Along each row, from its start or its end, with the element itself or without. Plain: nothing, so 0.",),
        RUNNING,
    ),
    "cumulative_product": Picture(
        "output[k] = input[0] * ... * input[k]",
        ("Along each row, from its start or its end, with the element itself or without. Plain: nothing, so 1.",),
        RUNNING,
    ),
    "unfold": Picture(
        "output[..., c * W + w, b] = input[..., c, b * strides + w * dilations - start_padding]",
        ("Each column is a window of 2 x 2 elements, read row by row. Colour: the row of input. 0: the border.",),
        (
            {"input": PLANE, "window_sizes": (2, 2)},
            {"input": PLANE, "window_sizes": (2, 2), "strides": (2, 2), "start_padding": (1, 0)},
        ),
    ),
    "fold": Picture(
        "output[..., c, b * strides + w * dilations - start_padding] += input[..., c * W + w, b]",
        ("Each column is a window of 2 x 2 elements, with a colour. Plain: elements of several windows, added.",),
        ({"input": FRAME, "output_sizes": (3, 3), "window_sizes": (2, 2)},),
    ),
    "upsample_2d": Picture(
        "output[..., h, w] = input[..., h // scale_size[0], w // scale_size[1]]",
        ("Each element becomes a block of scale_size: height, then width. Colour: the column of input.",),
        ({"input": letters(2, 3, axis=1), "scale_size": (2, 3)},),
    ),
    "resample": Picture(
        "output[o] = input[x], x = (o - output_pixel_offset) / scale - input_pixel_offset",
        ("Each element is the nearest one, or a mixture of its neighbours. Colour: the column; plain: of several.",),
        (
            {"input": letters(2, 3, axis=1), "sizes": (3, 6), "scales": (1.5, 2)},
            {"input": numbers([[0, 16, 32]], np.arange(3)), "sizes": (1, 6), "scales": (1, 2), "mode": "linear"},
        ),
    ),
    "select": Picture(
        "output[c] = a[c] if condition[c] != 0 else b[c]",
        ("Each element is that of a where the condition is not 0, and that of b elsewhere.",),
        ({"condition": indices(CHOICE, 1 - CHOICE, np.uint8), "a": A, "b": B},),
    ),
    "reverse_subsequences": Picture(
        "output[c] = input[c with c[axis] := L - 1 - c[axis]] where c[axis] < L, else input[c]",
        ("The first elements of each row are turned around, as many as its length L says. Colour: the column.",),
        ({"input": COLUMNS, "sequence_lengths": indices([[2], [4], [3]]), "axis": 1},),
    ),
    "pad": Picture(
        "output[c] = input[source(c - start_padding)]",
        ("A border of one number, or of copies of the rows and columns. Colour: the row of input.",),
        (
            {**PADDING, "value": 9},
            *({**PADDING, "mode": mode} for mode in ("edge", "reflection", "symmetric", "wrap")),
        ),
    ),
}
