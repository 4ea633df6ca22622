"""Scores of a model on a table, its confusion matrix and its calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.cli.output import counted
from gpuboost.estimators.boosting.metrics import mean_over_levels

N_GROUPS = 10  # of the calibration: deciles


@dataclass(frozen=True)
class Evaluation:
    """A target with a model's predictions.

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
        The target.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_levels)
        Predictions.
    probability : ndarray of shape (n_rows, n_classes), or None
        Probabilities of a classifier.
    weight : ndarray of shape (n_rows,), or None
        Weights of the rows.
    classes : ndarray of shape (n_classes,)
        Classes of a classifier; empty for a regressor.
    levels : tuple of float
        Levels of a regressor that predicts several quantiles; empty for others.
    """

    y: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray | None
    weight: np.ndarray | None
    classes: np.ndarray
    levels: tuple[float, ...] = ()

    @property
    def weights(self) -> np.ndarray:
        """The weights, or ones."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def scores(self) -> dict[str, float | None]:
        """Accuracy, log loss and AUC of a classifier; R2, RMSE and MAE of a regressor.

        Of several quantiles, these are D2 and the pinball loss, means over the levels. AUC is the
        mean over the classes of one against the rest. It is None if the rows lack a class; R2 and
        D2 are None for a single row.
        """
        from sklearn import metrics

        several = len(self.y) > 1
        if self.levels:
            given = self.y, self.predicted, self.levels, self.weight
            d2 = mean_over_levels(metrics.d2_pinball_score, *given) if several else None
            loss = mean_over_levels(metrics.mean_pinball_loss, *given)
            return {"d2_pinball": d2, "pinball_loss": loss}
        weight = {"sample_weight": self.weight}
        if self.probability is None:
            mse = float(metrics.mean_squared_error(self.y, self.predicted, **weight))
            r2 = float(metrics.r2_score(self.y, self.predicted, **weight)) if several else None
            mae = float(metrics.mean_absolute_error(self.y, self.predicted, **weight))
            return {"r2": r2, "rmse": float(np.sqrt(mse)), "mae": mae}
        return {
            "accuracy": float(metrics.accuracy_score(self.y, self.predicted, **weight)),
            "log_loss": float(
                metrics.log_loss(self.y, self.probability, labels=self.classes, **weight)
            ) if len(self.classes) > 1 else 0.0,
            "auc": self._auc(),
        }  # fmt: skip

    def _auc(self) -> float | None:
        from sklearn.metrics import roc_auc_score

        probability: Any = self.probability
        if len(np.unique(self.y)) < max(len(self.classes), 2):
            return None
        if len(self.classes) == 2:
            is_second = self.y == self.classes[1]
            return float(roc_auc_score(is_second, probability[:, 1], sample_weight=self.weight))
        parts = [
            roc_auc_score(self.y == own, probability[:, column], sample_weight=self.weight)
            for column, own in enumerate(self.classes)
        ]
        return float(np.mean(parts))

    def confusion(self) -> np.ndarray:
        """Number of rows, or their weights, by class and predicted class."""
        from sklearn.metrics import confusion_matrix

        return confusion_matrix(
            self.y, self.predicted, labels=self.classes, sample_weight=self.weight
        )

    def calibration(self) -> list[dict[str, float]]:
        """Means of predictions and of what happened, in tenths of the rows by the prediction.

        Predictions are those of a regressor, the probability of the second of two classes, or, of
        more classes, the probability of the predicted class. Of several quantiles, there is a group
        of all rows for each level: what happened is that the target is not above the prediction.
        """
        if self.levels:
            groups = [self._group(own, self.y <= own, self.weights) for own in self.predicted.T]
            return [{**own, "predicted": q} for own, q in zip(groups, self.levels, strict=True)]
        predicted, happened = self._events()
        order = np.argsort(predicted, kind="stable")
        parts = [part for part in np.array_split(order, N_GROUPS) if len(part)]
        return [self._group(predicted[part], happened[part], self.weights[part]) for part in parts]

    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        if self.probability is None:
            return self.predicted, self.y.astype(np.float64)
        if len(self.classes) == 2:
            return self.probability[:, 1], (self.y == self.classes[1]).astype(np.float64)
        return self.probability.max(axis=1), (self.y == self.predicted).astype(np.float64)

    @staticmethod
    def _group(predicted: np.ndarray, happened: np.ndarray, weight: np.ndarray) -> dict[str, float]:
        total = max(float(weight.sum()), np.finfo(np.float64).tiny)
        return {
            "rows": len(predicted),
            "from": float(predicted.min()),
            "to": float(predicted.max()),
            "predicted": float((predicted * weight).sum()) / total,
            "observed": float((happened * weight).sum()) / total,
        }


def evaluation_of(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None = None
) -> Evaluation:
    """The predictions of a fitted model for some rows, with their target.

    Raises
    ------
    ValueError
        If the target has a class that the model does not know.
    """
    classes = getattr(model, "classes_", None)
    if classes is None:
        if y.dtype.kind not in "biuf":
            raise ValueError("the model is a regressor, but the target has strings")
        found = model.predict(X)
        levels = tuple(getattr(model, "_levels", ()))
        if found.ndim > 1 and not levels:
            raise ValueError(f"the model has {found.shape[1]} outputs; scores are of one output")
        return Evaluation(y, found, None, weight, np.empty(0), levels)
    known = classes.tolist()
    unknown = [own for own in np.unique(y).tolist() if own not in known]
    if unknown:
        raise ValueError(
            f"the target has {counted(len(unknown), 'class', 'classes')} that the model does not "
            f"know, such as {unknown[0]!r}; it knows {', '.join(map(repr, known[:5]))}"
            f"{', ...' if len(known) > 5 else ''}"
        )
    return Evaluation(y, model.predict(X), model.predict_proba(X), weight, classes)
