"""Models to be drawn, and what is found in their pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import sklearn.ensemble
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

import gpuboost

FAST = {"device": "numpy", "random_state": 0}
RNG = np.random.default_rng(0)
N = 240
COLORS = np.array(["red", "green", "blue", "grey"])
COLOR = COLORS[RNG.integers(0, 4, N)]
SIZE, AGE = RNG.normal(size=N), RNG.uniform(20.0, 80.0, N)
Y = (COLOR == "red") * 3.0 - (COLOR == "blue") * 2.0 + SIZE**2 - 0.05 * AGE
CLASSES = np.where(Y > 0.0, "high", np.where(Y > -2.0, "middle", "low"))
FRAME = pd.DataFrame({"color": COLOR, "size": SIZE, "age": AGE})
FRAME.loc[RNG.random(N) < 0.2, "size"] = np.nan
FRAME.loc[RNG.random(N) < 0.1, "color"] = None
NUMBERS = np.column_stack([SIZE, AGE])

MANY = {"n_estimators": 3}
FAMILIES: dict[str, dict[str, Any]] = {
    "DecisionTree": {},
    "ExtraTree": {},
    "RandomForest": MANY,
    "ExtraTrees": MANY,
    "Bagging": {**MANY, "max_features": 2},
    "AdaBoost": MANY,
    "GradientBoosting": MANY,
    "HistGradientBoosting": {"max_iter": 3},
}
ESTIMATORS = [f"{name}{kind}" for name in FAMILIES for kind in ("Classifier", "Regressor")]


@cache
def model_of(name: str, **parameters: Any) -> Any:
    """A model of the table with categories and missing values."""
    family = name.removesuffix("Classifier").removesuffix("Regressor")
    y = CLASSES if name.endswith("Classifier") else Y
    estimator = getattr(gpuboost, name)(**FAST, **FAMILIES[family], **parameters)
    return estimator.fit(FRAME, y)


@cache
def imported_model(kind: str) -> Any:
    """A model of scikit-learn with two features."""
    y = Y if kind.endswith("Regressor") else CLASSES
    own = {"max_iter": 3} if kind.startswith("Hist") else {"n_estimators": 3}
    theirs = getattr(sklearn.ensemble, kind)(random_state=0, max_depth=3, **own).fit(NUMBERS, y)
    return gpuboost.from_sklearn(theirs)


def axes_of_inches(width: float, height: float, **options: Any) -> Axes:
    return Figure(figsize=(width, height), **options).add_subplot()


def extent(ax: Axes, artist: Any) -> Any:
    """Where an artist is drawn, in pixels."""
    figure: Any = ax.figure
    return artist.get_window_extent(FigureCanvasAgg(figure.figure).get_renderer())


def overlapping(ax: Axes, artists: list[Any]) -> list[tuple[Any, Any]]:
    """The pairs of artists that overlap."""
    extents = [extent(ax, each) for each in artists]
    return [
        (one, other)
        for k, one in enumerate(artists)
        for m, other in enumerate(artists[:k])
        if extents[k].overlaps(extents[m])
    ]


@dataclass
class Node:
    """A box of a drawn tree, with its lines of text, and the boxes below it."""

    box: FancyBboxPatch
    text: Text
    children: list[Node]

    @property
    def lines(self) -> list[str]:
        return self.text.get_text().split("\n")

    @property
    def n_rows(self) -> int:
        """Number of training rows in the text."""
        found = next(line for line in self.lines if line.startswith("n = "))
        return int(found[4:].replace(",", ""))


def nodes_of(ax: Axes) -> list[Node]:
    """The boxes of a drawn tree, the root first; edges say which are below which."""
    boxes = [each for each in ax.patches if isinstance(each, FancyBboxPatch)]
    nodes = []
    for box in boxes:
        middle = box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2
        text = next(each for each in ax.texts if np.allclose(each.get_position(), middle))
        nodes.append(Node(box, text, []))
    edges = ax.lines[0].get_xydata() if ax.lines else np.empty((0, 2))
    for (above, high), (below, low), _ in edges.reshape(-1, 3, 2).tolist():
        ends = []
        for x, y in ((above, high), (below, low)):
            for node in nodes:
                bottom, top = node.box.get_y(), node.box.get_y() + node.box.get_height()
                middle = node.box.get_x() + node.box.get_width() / 2
                if np.isclose(middle, x) and np.isclose([bottom, top], y).any():
                    ends.append(node)
        parent, child = ends
        parent.children.append(child)
    for node in nodes:
        node.children.sort(key=lambda child: child.box.get_x())
    return nodes


def goes_left(lines: list[str], rows: pd.DataFrame) -> np.ndarray:
    """Whether rows satisfy the condition in the text of a box: bool (n,)."""
    condition = lines[0] if lines[0] not in rows.columns else f"{lines[0]} {lines[1]}"
    name, _, test = condition.partition(" ")
    x, test = rows[name], test.removesuffix(" or missing")
    or_missing = condition.endswith(" or missing")
    if test == "is not missing":
        return x.notna().to_numpy()
    if test.startswith("≤ "):
        found = x <= float(test[2:])
    else:
        names = test[test.index("{") + 1 : -1].split(", ")
        found = x.isin(names) if test.startswith("in ") else ~x.isin(names)
    return np.where(x.isna(), or_missing, found)
