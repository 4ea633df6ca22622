"""The plugins that a fit needs: of its criterion, its kinds of features and its thresholds."""

from __future__ import annotations

from numba import from_dtype, types

from gpuboost.backends.numba.common.records import NODE, Limits, Plugins
from gpuboost.backends.numba.references import Reference, ReferenceType, by_reference
from gpuboost.backends.numba.splits.categorical import evaluate_categories
from gpuboost.backends.numba.splits.class_moments import class_moments
from gpuboost.backends.numba.splits.criteria import ADD_TERMS, SCORES_OF_ONE, SCORES_OF_TERMS
from gpuboost.backends.numba.splits.random_thresholds import evaluate_random
from gpuboost.engine.criteria import VARIANCE

_INT, _FLOAT, _NODE = types.int64, types.float64, from_dtype(NODE)
_ROW_NUMBERS, _PACKED_WORDS = types.Array(types.uint32, 1, "C"), types.Array(types.int64, 1, "C")
_POSITIONS = (_INT, _INT, _INT, _INT)  # first and end of the candidates; sums of missing values
NO_PLUGINS = by_reference(Plugins())
# Fits of fewer classes do not compile `class_moments`, which takes 0.5 s: with 7 classes, it saves
# no time. Without it, a forest of 20k x 28 with 20 classes takes 1.5 times as long.
MANY_CLASSES = 10


def plugins_of(
    problem: ReferenceType,
    limits: Limits,
    any_categorical: bool,
    channels: Reference | None = None,
    n_classes: int = 1,
    **others: int,
) -> Reference:
    """The `Plugins` that a fit needs; they are compiled on first use.

    ``problem`` is the type of the `Problem`. ``channels`` is None for one channel; ``others``
    are addresses of other plugins.
    """
    kinds: list[tuple[types.Type, str]] = [(types.none, "one")]
    if channels is not None:
        kinds.append((channels.kind, "many"))
    needed = _criterion(limits.criterion, problem, len(kinds) > 1)
    if any_categorical:
        for kind, name in kinds:
            address = evaluate_categories.address(problem, kind, _NODE, _INT, _INT, _INT)
            needed[f"{name}_categories"] = address
    if limits.random_thresholds:
        for kind, name in kinds:
            given = (problem, kind, _NODE, _ROW_NUMBERS, _PACKED_WORDS, types.boolean, _INT, _INT)
            needed[f"{name}_random"] = evaluate_random.address(*given)
    if channels is not None and n_classes >= MANY_CLASSES and uses_moments(limits, any_categorical):
        needed["class_moments"] = class_moments.address(problem, channels.kind, _ROW_NUMBERS, _INT)
    return by_reference(Plugins(**needed, **others))


def uses_moments(limits: Limits, any_categorical: bool) -> bool:
    """Whether the terms of every feature of a fit can be computed from moments of the classes."""
    has_classes = not (limits.is_regression or limits.has_gradients or limits.by_median)
    only_numbers = not (any_categorical or limits.random_thresholds)
    return has_classes and only_numbers and limits.criterion == VARIANCE


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
