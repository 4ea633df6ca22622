"""Combinations of options that are fewer than all, and still contain each pair of values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from operator import getitem
from typing import Any


def every_pair(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose combinations so that any two values of different parameters occur together.

    In each step, the first combination with the largest number of new pairs is added. Nearly all
    faults need one value, or two at once; random problems try the other combinations.
    """
    numbers = [range(len(values)) for values in parameters]
    pairs_of = {each: set(combinations(enumerate(each), 2)) for each in product(*numbers)}
    missing, chosen = set().union(*pairs_of.values()), []
    while missing:
        chosen.append(max(pairs_of, key=lambda each: len(pairs_of[each] & missing)))
        missing -= pairs_of[chosen[-1]]
    return [tuple(map(getitem, parameters, each)) for each in chosen]
