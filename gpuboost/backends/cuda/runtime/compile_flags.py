"""What kernels are compiled for: constants in front of their texts, see common.cuh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.task import GrowTask

# Which constants a file looks at.
CONSTANTS_OF = {
    "level/histogram.cu": ("GRADIENTS",),
    "level/sums.cu": ("GRADIENTS",),
    "level/split.cu": (
        "CRITERION",
        "MONOTONIC",
        "RARE_CATEGORIES",
        "ALLOWED_BY_NODE",
        "ALLOWED_BY_LEVEL",
    ),
    "level/select_split.cu": ("ALLOWED_BY_NODE", "HASHED_ORDER"),
    "level/next_feature.cu": (
        *("GRADIENTS", "CRITERION", "MONOTONIC", "RARE_CATEGORIES", "ALLOWED_BY_NODE"),
        "HASHED_ORDER",
    ),
    "growth/subtrees.cu": ("GRADIENTS", "CRITERION", "RARE_CATEGORIES", "HASHED_ORDER"),
}


@dataclass(frozen=True)
class CompileFlags:
    """What a task asks of kernels beyond, or short of, what forests do.

    Attributes
    ----------
    gradients : bool
        Targets are gradients that come with rows, not to be weighted.
    criterion : int or None
        The one there is, of those that are compiled apart.
    monotonic : bool
        Nodes have bounds of their own; only with NEWTON.
    by_node : bool
        Each node has features of its own that it may look at, not each tree.
    by_level : bool
        Levels have features of their own.
    by_number : bool
        A node looks at features in the order of their numbers, not in one of its own.
    rare_categories : bool
        Rare categories go where missing values go.
    """

    gradients: bool = False
    criterion: int | None = None
    monotonic: bool = False
    by_node: bool = False
    by_level: bool = False
    by_number: bool = False
    rare_categories: bool = False

    @classmethod
    def of(cls, task: GrowTask) -> CompileFlags:
        """That of a task."""
        options = task.options
        criterion = CRITERIA[options.criterion]
        return cls(
            gradients=task.target.has_gradients,
            criterion=criterion.number if criterion.compiled_apart else None,
            monotonic=options.directions is not None,
            by_node=options.interactions is not None,
            by_level=options.level_features < task.matrix.n_features,
            by_number=not options.hashed_order,
            rare_categories=options.min_category_fraction > 0.0,
        )

    def constants(self, file_name: str) -> Mapping[str, int]:
        """What is put in front of a file: what differs from the values that common.cuh gives."""
        return _constants(self, file_name)


@cache  # every launch asks
def _constants(flags: CompileFlags, file_name: str) -> Mapping[str, int]:
    chosen = {
        "GRADIENTS": 1 if flags.gradients else None,
        "CRITERION": flags.criterion,
        "MONOTONIC": 1 if flags.monotonic else None,
        "RARE_CATEGORIES": 1 if flags.rare_categories else None,
        "ALLOWED_BY_NODE": 1 if flags.by_node else None,
        "ALLOWED_BY_LEVEL": 1 if flags.by_level else None,
        "HASHED_ORDER": 0 if flags.by_number else None,
    }
    known = {name: chosen[name] for name in CONSTANTS_OF[file_name]}
    return {name: value for name, value in known.items() if value is not None}


FORESTS = CompileFlags()
