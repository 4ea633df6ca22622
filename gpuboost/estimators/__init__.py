"""The estimators, with scikit-learn's names, parameters and methods; `gpuboost` has their names."""

# The modules of this folder that have estimators, and their names without the endings.
_KINDS_OF_MODULES = {
    "adaboost.estimators": ("AdaBoost",),
    "boosting.estimators": ("GradientBoosting",),
    "boosting.hist_gradient_boosting": ("HistGradientBoosting",),
    "forest.bagging": ("Bagging",),
    "forest.forest": ("ExtraTrees", "RandomForest"),
    "trees.tree": ("DecisionTree", "ExtraTree"),
}
# The module of each estimator, by its name.
HOMES = {
    kind + ending: f"gpuboost.estimators.{module}"
    for module, kinds in _KINDS_OF_MODULES.items()
    for kind in kinds
    for ending in ("Classifier", "Regressor")
}
