"""Where the elements of an output came from: positions that were moved, and the names of elements."""

import numpy as np

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))
CAPITALS = np.char.upper(LETTERS)
NOWHERE = -1  # the source of an element that no index has to do with


def positions(sizes: tuple[int, ...], first: int = 0) -> np.ndarray:
    """The elements of an array, numbered: moved through a function, they say where each came from."""
    return np.arange(first, first + np.prod(sizes), dtype=np.int32).reshape(sizes)


def first_readers(moved: np.ndarray, size: int) -> np.ndarray:
    """For each of `size` elements the first slice of the output that has it."""
    readers = np.full(size, NOWHERE)
    for q in reversed(range(len(moved))):
        readers[moved[q]] = q
    return readers


def named_updates(moved: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and sources where positions from `size` on are those of updates: input has letters, updates capitals."""
    labels = np.concatenate([LETTERS[:size], CAPITALS])[moved]
    return labels, np.where(moved < size, NOWHERE, moved - size)
