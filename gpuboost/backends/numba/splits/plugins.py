"""The plugins that a fit needs: of its criterion, its kinds of features and its thresholds."""

from __future__ import annotations

from numba import from_dtype, types

from gpuboost.backends.numba.common.records import NODE, Limits, Plugins
from gpuboost.backends.numba.references import Reference, ReferenceType, by_reference
from gpuboost.backends.numba.splits.categorical import evaluate_categories
from gpuboost.backends.numba.splits.class_moments import class_moments, terms_of_moments
from gpuboost.backends.numba.splits.criteria import ADD_TERMS, SCORES_OF_ONE, SCORES_OF_TERMS
from gpuboost.backends.numba.splits.random_thresholds import evaluate_random
from gpuboost.backends.numba.splits.search import find_random_split, find_split_of_one
from gpuboost.backends.numba.splits.sparse_search import find_sparse_split
from gpuboost.engine.criteria import VARIANCE

_INT, _FLOAT, _NODE = types.int64, types.float64, from_dtype(NODE)
_ROW_NUMBERS, _PACKED_WORDS = types.Array(types.uint32, 1, "C"), types.Array(types.int64, 1, "C")
_POSITIONS = (_INT, _INT, _INT, _INT)  # first and end of the candidates; sums of missing values
NO_PLUGINS = by_reference(Plugins())
# Fits of fewer classes do not use moments, which take 0.9 s to compile: with 7 classes, they save
# no time. Without them, a forest of 20k x 28 with 20 classes takes 1.5 times as long.
MANY_CLASSES = 10


def plugins_of(
    problem: ReferenceType,
    limits: Limits,
    any_categorical: bool,
    depth_first: bool,
    by_entries: bool = False,
    channels: Reference | None = None,
    n_classes: int = 1,
    **others: int,
) -> Reference:
    """The `Plugins` that a fit needs; they are compiled on first use.

    ``problem`` is the type of the `Problem`; ``depth_first`` is whether any nodes grow depth-first,
    and ``by_entries`` whether they are searched by `sparse_search`.
    ``channels`` is None for one channel; ``n_classes`` is 1 without classes; ``others`` are
    addresses of other plugins.
    """
    kinds: list[tuple[types.Type, str]] = [(types.none, "one")]
    if channels is not None:
        kinds.append((channels.kind, "many"))
    needed = _criterion(limits.criterion, problem, len(kinds) > 1)
    if depth_first:
        search = find_random_split if limits.random_thresholds else find_split_of_one
        search = find_sparse_split if by_entries else search
        address = search.address(problem, _NODE, _ROW_NUMBERS, _PACKED_WORDS)
        needed["find_split"] = address
    if any_categorical:
        for kind, name in kinds:
            address = evaluate_categories.address(problem, kind, _NODE, _INT, _INT, _INT)
            needed[f"{name}_categories"] = address
    if limits.random_thresholds:
        for kind, _ in kinds[1:]:
            given = (problem, kind, _NODE, _ROW_NUMBERS, _PACKED_WORDS, types.boolean, _INT, _INT)
            needed["many_random"] = evaluate_random.address(*given)
    if channels is not None and _uses_moments(limits, any_categorical, n_classes):
        scratch = problem.fields["scratch"]
        needed["class_moments"] = class_moments.address(problem, channels.kind, _ROW_NUMBERS, _INT)
        needed["terms_of_moments"] = terms_of_moments.address(scratch, _NODE, *(_INT,) * 4)
    return by_reference(Plugins(**needed, **others))


def _uses_moments(limits: Limits, any_categorical: bool, n_classes: int) -> bool:
    """Whether nodes of many classes are searched by moments, for all features of the fit."""
    all_thresholds = not (any_categorical or limits.random_thresholds)
    return n_classes >= MANY_CLASSES and limits.criterion == VARIANCE and all_thresholds


def _criterion(number: int, kind: ReferenceType, has_channels: bool) -> dict[str, int]:
    """The addresses of a criterion's plugins."""
    limits, scratch = kind.fields["limits"], kind.fields["scratch"]
    one = (limits, scratch, _NODE, _FLOAT, *_POSITIONS)
    needed = {"scores_of_one": SCORES_OF_ONE[number].address(*one)}
    if has_channels:
        add = (limits, scratch, _NODE, _INT, _FLOAT, *_POSITIONS)
        needed["add_terms"] = ADD_TERMS[number].address(*add)
        needed["scores_of_terms"] = SCORES_OF_TERMS[number].address(scratch, _NODE, *_POSITIONS[1:])
    return needed
