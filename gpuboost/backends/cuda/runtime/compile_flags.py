"""Compile-time constants of the kernels, defined in front of their source (see common.cuh)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.task import GrowTask

# The constants that `CompileFlags` sets in each file. Other files have the defaults of common.cuh,
# so constraints.cu draws the features of a level in a hashed order even with ``by_number``.
CONSTANTS_OF = {
    "histogram/histogram_values.cu": ("GRADIENTS", "BINARY_TARGETS"),
    "level/sums.cu": ("GRADIENTS",),
    "level/split.cu": (
        "CRITERION",
        "SCORED_TOGETHER",
        "MONOTONIC",
        "RARE_CATEGORIES",
        "ALLOWED_BY_NODE",
        "ALLOWED_BY_LEVEL",
    ),
    "level/select_split.cu": ("ALLOWED_BY_NODE", "HASHED_ORDER"),
    "level/next_feature.cu": (
        *("GRADIENTS", "CRITERION", "SCORED_TOGETHER", "MONOTONIC", "RARE_CATEGORIES"),
        *("ALLOWED_BY_NODE", "HASHED_ORDER"),
    ),
    "growth/subtrees.cu": ("GRADIENTS", "CRITERION", "RARE_CATEGORIES", "HASHED_ORDER"),
}


@dataclass(frozen=True)
class CompileFlags:
    """Properties of a task that kernels are compiled for; the defaults are for forests.

    Attributes
    ----------
    gradients : bool
        Whether targets are gradients, which are not multiplied by the weights of rows.
    criterion : int or None
        Number of the criterion if it is `compiled_apart`, else None.
    scored_together : int or None
        Number of classes per output if several outputs have classes, else None.
    monotonic : bool
        Whether any feature is monotonic, so that each node has its own bounds on leaf values; only
        the criterion NEWTON supports this.
    by_node : bool
        Whether the allowed features differ between the nodes of a tree, because there are
        interaction groups.
    by_level : bool
        Whether features are drawn for each level.
    by_number : bool
        Whether nodes consider features in the order of their numbers instead of a hashed order.
    rare_categories : bool
        Whether rare categories count as missing; see `TreeOptions.min_category_fraction`.
    binary_targets : bool
        Whether targets are 0 or 1.
    """

    gradients: bool = False
    criterion: int | None = None
    scored_together: int | None = None
    monotonic: bool = False
    by_node: bool = False
    by_level: bool = False
    by_number: bool = False
    rare_categories: bool = False
    binary_targets: bool = False

    @classmethod
    def of(cls, task: GrowTask) -> CompileFlags:
        """Make the flags of a task."""
        options, together = task.options, task.target.scored_together
        criterion = CRITERIA[options.criterion]
        return cls(
            gradients=task.target.has_gradients,
            criterion=criterion.number if criterion.compiled_apart else None,
            scored_together=together if together < task.target.n_channels else None,
            monotonic=options.directions is not None,
            by_node=options.interactions is not None,
            by_level=options.level_features < task.matrix.n_features,
            by_number=not options.hashed_order,
            rare_categories=options.min_category_fraction > 0.0,
            binary_targets=task.target.by_class and not task.target.is_multiclass,
        )

    def constants(self, file_name: str) -> Mapping[str, int]:
        """Return the constants of a file whose values differ from the defaults in common.cuh."""
        return _constants(self, file_name)


@cache  # called at every launch
def _constants(flags: CompileFlags, file_name: str) -> Mapping[str, int]:
    chosen = {
        "GRADIENTS": 1 if flags.gradients else None,
        "BINARY_TARGETS": 1 if flags.binary_targets else None,
        "CRITERION": flags.criterion,
        "SCORED_TOGETHER": flags.scored_together,
        "MONOTONIC": 1 if flags.monotonic else None,
        "RARE_CATEGORIES": 1 if flags.rare_categories else None,
        "ALLOWED_BY_NODE": 1 if flags.by_node else None,
        "ALLOWED_BY_LEVEL": 1 if flags.by_level else None,
        "HASHED_ORDER": 0 if flags.by_number else None,
    }
    known = {name: chosen[name] for name in CONSTANTS_OF[file_name]}
    return {name: value for name, value in known.items() if value is not None}


FORESTS = CompileFlags()
