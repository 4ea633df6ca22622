"""gpuboost's models as those of treelite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses.links import HALF_LOGIT, LOG, LOGIT, SOFTMAX
from gpuboost.interchange.export.category_numbers import (
    CategoryNumbers,
    bits_of_masks,
    numbers_of_categories,
)
from gpuboost.interchange.export.contents import (
    MEAN,
    MEDIAN,
    ModelContents,
    contents_of,
    optional_module,
)

POSTPROCESSORS = {  # name, and the factor in the sigmoid
    LOG: ("exponential", 1.0),
    LOGIT: ("sigmoid", 1.0),
    HALF_LOGIT: ("sigmoid", 2.0),
    SOFTMAX: ("softmax", 1.0),
}


def to_treelite(estimator: Any) -> Any:
    """Convert a fitted estimator to a treelite.Model; see the method of estimators."""
    contents = contents_of(estimator, "treelite")
    builders = optional_module("treelite.model_builder", "treelite")
    if contents.aggregation == MEDIAN:
        raise ValueError(
            f"{contents.name} predicts the weighted median of its trees, which treelite does not "
            "have; use to_onnx or to_sklearn"
        )
    categories = {
        feature: own if own.are_small_integers else own.as_ordinal_codes
        for feature, own in numbers_of_categories(contents.schema).items()
    }
    builder = _builder(builders, contents, categories)
    values = contents.trees.value / (contents.divisor * contents.link_divisor)
    for number, tree in enumerate(contents.trees.trees):
        nodes = slice(*contents.trees.offset[number : number + 2].tolist())
        _add_tree(builder, tree, values[nodes], categories)
    return builder.commit()


@dataclass(frozen=True)
class TreeliteShape:
    """How treelite arranges outputs, as the fields of its metadata of these names.

    Attributes
    ----------
    task : str
        Name of the kind of model.
    num_class : list of int
        Number of classes of each target.
    leaf_shape : (int, int)
        Number of targets and of classes of a leaf.
    target_id, class_id : list of int
        Target and class of each tree; -1 if its leaves have all of them.
    """

    task: str
    num_class: list[int]
    leaf_shape: tuple[int, int]
    target_id: list[int]
    class_id: list[int]

    @classmethod
    def of(cls, contents: ModelContents) -> TreeliteShape:
        """The shape of a model."""
        n_trees, columns = contents.trees.n_trees, contents.columns
        column = (np.arange(n_trees) % contents.trees_per_round).tolist()
        all_of_them, first = [-1] * n_trees, [0] * n_trees
        has_vectors = contents.trees.n_values > 1
        if not contents.is_classifier:
            target = all_of_them if has_vectors else column
            shape = (columns, 1) if has_vectors else (1, 1)
            return cls("kRegressor", [1] * columns, shape, target, first)
        if contents.link in (LOGIT, HALF_LOGIT):
            return cls("kBinaryClf", [1], (1, 1), first, first)
        n_classes = [len(own) for own in contents.classes]
        if not has_vectors:
            return cls("kMultiClf", n_classes, (1, 1), first, column)
        shape = (contents.n_outputs, max(n_classes))
        target = first if contents.n_outputs == 1 else all_of_them
        return cls("kMultiClf", n_classes, shape, target, all_of_them)


def _builder(builders: Any, contents: ModelContents, categories: dict[int, CategoryNumbers]) -> Any:
    """The builder of a model, with everything but its trees."""
    shape = TreeliteShape.of(contents)
    identity = "identity_multiclass" if contents.is_classifier else "identity"
    name, factor = POSTPROCESSORS.get(contents.link, (identity, 1.0))
    names, numbers = contents.schema.names, {str(f): own.pairs() for f, own in categories.items()}
    facts = {"estimator": contents.name, "categories": numbers}
    if names is not None:
        facts["feature_names"] = names.tolist()
    return builders.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builders.Metadata(
            num_feature=contents.schema.n_features,
            task_type=shape.task,
            average_tree_output=contents.aggregation == MEAN,
            num_target=len(shape.num_class),
            num_class=shape.num_class,
            leaf_vector_shape=shape.leaf_shape,
        ),
        tree_annotation=builders.TreeAnnotation(
            num_tree=contents.trees.n_trees, target_id=shape.target_id, class_id=shape.class_id
        ),
        postprocessor=builders.PostProcessorFunc(name=name, sigmoid_alpha=factor),
        base_scores=(contents.baseline / contents.link_divisor).tolist(),
        attributes={"gpuboost": facts},
    )


def _add_tree(
    builder: Any, tree: Tree, values: np.ndarray, categories: dict[int, CategoryNumbers]
) -> None:
    """Add a tree whose nodes keep their numbers, with the given values of leaves."""
    is_left, rows = bits_of_masks(tree.masks), values.tolist()
    left, feature, threshold = tree.left.tolist(), tree.feature.tolist(), tree.threshold.tolist()
    missing_left, category = tree.missing_left.tolist(), tree.category.tolist()
    gain, count = tree.impurity_decrease.tolist(), tree.count.tolist()
    weight = tree.weight.tolist()
    builder.start_tree()
    for node in range(tree.node_count):
        builder.start_node(node)
        children = {"left_child_key": left[node], "right_child_key": left[node] + 1}
        children |= {"default_left": missing_left[node]}
        if left[node] == 0:
            builder.leaf(rows[node] if len(rows[node]) > 1 else rows[node][0])
        elif category[node] < 0:
            builder.numerical_test(feature[node], threshold[node], opname="<=", **children)
        else:
            own = categories[feature[node]]
            goes_left = is_left[category[node]][own.codes]
            listed = own.numbers[goes_left != missing_left[node]].astype(int).tolist()
            # Categories that are not listed go where missing values go.
            builder.categorical_test(
                feature[node],
                category_list=listed,
                category_list_right_child=missing_left[node],
                **children,
            )
        if left[node]:
            builder.gain(gain[node])
        builder.data_count(count[node])
        builder.sum_hess(weight[node])
        builder.end_node()
    builder.end_tree()
