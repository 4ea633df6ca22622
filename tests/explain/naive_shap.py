"""SHAP values by their definition: a sum over all subsets of the features."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import chain, combinations
from math import comb, factorial

import numpy as np

from gpuboost.engine.growth.tree import Tree, goes_left

Game = Callable[[frozenset[int]], np.ndarray]  # value of a set of known features


def subsets(features: list[int]) -> list[frozenset[int]]:
    sizes = range(len(features) + 1)
    return list(map(frozenset, chain.from_iterable(combinations(features, n) for n in sizes)))


def shapley_values(game: Game, n_features: int) -> np.ndarray:
    """(n_features, *outputs)"""
    features = list(range(n_features))
    value = {known: np.asarray(game(known), float) for known in subsets(features)}
    found = np.zeros((n_features, *value[frozenset()].shape))
    for j in features:
        for known in subsets([i for i in features if i != j]):
            share = 1 / (n_features * comb(n_features - 1, len(known)))
            found[j] += share * (value[known | {j}] - value[known])
    return found


def interactions(game: Game, n_features: int) -> np.ndarray:
    """(n_features, n_features, *outputs); the diagonal is what is left of the Shapley values."""
    features = list(range(n_features))
    value = {known: np.asarray(game(known), float) for known in subsets(features)}
    found = np.zeros((n_features, n_features, *value[frozenset()].shape))
    for i, j in combinations(features, 2):
        for known in subsets([k for k in features if k not in (i, j)]):
            size, n = len(known), n_features
            share = factorial(size) * factorial(n - size - 2) / (2 * factorial(n - 1))
            with_both, with_i, with_j = (value[known | own] for own in ({i, j}, {i}, {j}))
            found[i, j] += share * (with_both - with_i - with_j + value[known])
        found[j, i] = found[i, j]
    values = shapley_values(game, n_features)
    for i in features:
        found[i, i] = values[i] - found[i].sum(axis=0)
    return found


def goes_left_of_row(tree: Tree, node: int, row: np.ndarray) -> bool:
    x, category = row[tree.feature[node]][None], tree.category[node : node + 1]
    split = tree.threshold[node], category, tree.masks
    return bool(goes_left(x, *split, np.isnan(x), tree.missing_left[node])[0])


def path_dependent(tree: Tree, row: np.ndarray) -> Game:
    """The tree's value if only some features of the row are known."""

    def value(node: int, known: frozenset[int]) -> np.ndarray:
        left = int(tree.left[node])
        if not left:
            return tree.value[node]
        if int(tree.feature[node]) in known:
            return value(left if goes_left_of_row(tree, node, row) else left + 1, known)
        parts = [tree.weight[child] / tree.weight[node] for child in (left, left + 1)]
        return parts[0] * value(left, known) + parts[1] * value(left + 1, known)

    return lambda known: value(0, known)


def interventional(
    predict: Callable[[np.ndarray], np.ndarray], row: np.ndarray, background: np.ndarray
) -> Game:
    """The mean prediction if the unknown features are those of the background rows."""

    def value(known: frozenset[int]) -> np.ndarray:
        mixed = background.copy()
        mixed[:, list(known)] = row[list(known)]
        return predict(mixed).mean(axis=0)

    return value


def exact_value(tree: Tree, row: np.ndarray, feature: int) -> float:
    """A Shapley value of a tree of any depth, in decimals of 60 digits.

    The coefficient of x**k in the product of (z_i + o_i x) is the sum over all sets of k known
    features of a leaf.
    """
    total = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        for leaf in np.flatnonzero(tree.left == 0).tolist():
            factors = _factors(tree, row, leaf)
            if feature not in factors:
                continue
            z, o = factors.pop(feature)
            coefficients = [Decimal(1)]
            for z_i, o_i in factors.values():
                shifted = [Decimal(0), *(o_i * each for each in coefficients)]
                kept = [*(z_i * each for each in coefficients), Decimal(0)]
                coefficients = [a + b for a, b in zip(kept, shifted, strict=True)]
            n = len(coefficients)
            terms = (each / (n * comb(n - 1, k)) for k, each in enumerate(coefficients))
            total += Decimal(float(tree.value[leaf, 0])) * (o - z) * sum(terms, Decimal(0))
    return float(total)


def _factors(tree: Tree, row: np.ndarray, leaf: int) -> dict[int, tuple[Decimal, int]]:
    """For each feature on the path to a leaf: the product of its shares, and whether it passes."""
    found: dict[int, tuple[Decimal, int]] = {}
    node = leaf
    while node:
        parent = int(
            np.flatnonzero((tree.left == node) | (tree.left == node - 1) & (tree.left > 0))[-1]
        )
        z, o = found.get(int(tree.feature[parent]), (Decimal(1), 1))
        share = Decimal(float(tree.weight[node])) / Decimal(float(tree.weight[parent]))
        passes = goes_left_of_row(tree, parent, row) == (tree.left[parent] == node)
        found[int(tree.feature[parent])] = z * share, o * int(passes)
        node = parent
    return found
