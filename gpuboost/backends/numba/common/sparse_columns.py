"""Columns of sparse codes (`engine.bins.SparseCodes`), read for the rows of one node.

A column is read from its entries, or by searching it for each row of the node, whichever takes
fewer steps. Dense matrices have no entries.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined


@inlined
def is_sparse(matrix):
    """Whether a `Matrix` has entries in place of dense codes."""
    return matrix.first_entry.size > 0


@inlined
def reads_entries(matrix, n_rows, feature):
    """Whether reading all entries of a column takes fewer steps than a search for each row."""
    n_entries, n_steps = matrix.first_entry[feature + 1] - matrix.first_entry[feature], n_rows
    left = n_entries
    while left > 0 and n_steps < n_entries:
        left >>= 1
        n_steps += n_rows
    return n_steps >= n_entries


@helper
def fill_column(matrix, column, rows, feature):
    """Write the codes of a feature in some rows to ``column`` (n,), and maybe in others."""
    entry_row, first = matrix.entry_row, matrix.first_entry[feature]
    last, zero_code = matrix.first_entry[feature + 1], matrix.zero_code[feature]
    if reads_entries(matrix, rows.size, feature):
        for i in range(rows.size):
            column[rows[i]] = zero_code
        for entry in range(first, last):
            column[entry_row[entry]] = matrix.entry_code[entry]
        return
    for i in range(rows.size):
        low, high = first, last
        while low < high:
            middle = (low + high) >> 1
            low, high = (middle + 1, high) if entry_row[middle] < rows[i] else (low, middle)
        is_stored = low < last and entry_row[low] == rows[i]
        column[rows[i]] = matrix.entry_code[low] if is_stored else zero_code


@helper
def note_rows(scratch, rows, words):
    """Note the position of each row of a node, for `position_of`, and the sum of their words."""
    total = np.int64(0)
    for i in range(rows.size):
        scratch.position[rows[i]] = i
        total += words[i]
    scratch.node_word[0] = total


@inlined
def position_of(scratch, rows, row):
    """The position of a row among the rows of the node, -1 if it is not one of them.

    `Scratch.position` can hold positions in other nodes, which `rows` tells apart.
    """
    position = scratch.position[row]
    is_inside = position < rows.size and rows[position] == row
    return np.int64(position) if is_inside else np.int64(-1)
