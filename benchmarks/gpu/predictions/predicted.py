"""Times that the cases should take on an H200: predicted, not measured.

``python -m benchmarks.gpu.predictions.predicted`` counts the work of every kernel of a case (bytes,
additions, and the instructions of its loops, see ``benchmarks.gpu.predictions.hot_loops``), divides
it by the rates of the device and writes ``benchmarks/results/gpu_predicted.json``. A kernel takes
as long as the slowest of its resources. The times of the kernels of a case and of the gaps between
them add up. An earlier prediction is listed beside each time. `summary` makes the table in
docs/gpu.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES, GpuCase
from benchmarks.gpu.predictions.fit_work import (
    FEW_VALUES,
    MANY_VALUES,
    Stages,
    adaboost_round,
    binning,
    boosting_round,
    fit_stages,
    prediction_stages,
)
from benchmarks.gpu.predictions.kernel_work import (
    GRADIENTS,
    TWO_CLASSES,
    Table,
    histograms,
    histograms_of_classes,
)
from benchmarks.gpu.predictions.rates import Rates
from benchmarks.gpu.predictions.tree_shapes import SHAPES
from benchmarks.report.markdown import markdown
from benchmarks.report.results import FOLDER
from benchmarks.suite.settings import ADABOOST, BOOSTING

RESULT = FOLDER / "gpu_predicted.json"
DOCUMENT = Path(__file__).parents[3] / "docs" / "gpu.md"
BEGIN, END = "<!-- predicted -->\n", "<!-- end of predicted -->"
# Seconds by case and stage, predicted before instructions and gaps were counted.
EARLIER = FOLDER / "gpu_predicted_earlier.json"
HISTOGRAMS = "one level of histograms, 11M x 28"
MANY_CLASSES = ((7, 1), (7, 64), (30, 16), (100, 8))  # numbers of classes and of nodes of a level
LAUNCHED_ROUNDS = 2  # the first round is recorded and the second captured; later ones are replayed
COPY = "copy to the host"


@dataclass(frozen=True)
class Prediction:
    """The predicted stages of a case.

    Attributes
    ----------
    case : str
        Name in `cases.CASES`.
    stages : dict of str to Stage
        Stages, one after the other.
    host_launches : float
        Number of kernels that the host launches one by one, without waiting for the device.
    ahead : float
        Fraction of the stages' work that the device does while the host launches these kernels.
    is_pinned : bool
        Whether trees are always copied to pinned memory.
    """

    case: str
    stages: Stages
    host_launches: float = 0.0
    ahead: float = 1.0
    is_pinned: bool = False

    def record(self, rates: Rates, earlier: dict[str, float]) -> dict[str, Any]:
        """The record of the result file; ``earlier`` has the earlier predictions by stage."""
        found: dict[str, Any] = {}
        for name, stage in self.stages.items():
            seconds, bound = stage.seconds(rates)
            alone = stage.work.times_of(rates)
            found[name] = {
                "seconds": seconds,
                "earlier_seconds": earlier.get(name),
                "bound": bound,
                "launches": stage.launches,
                "counts": _there(asdict(stage.work)),
                "seconds_of_each": _there(alone),
            }
        busy = sum(own["seconds"] for name, own in found.items() if name != "binning")
        late = self.host_launches / rates.launches - self.ahead * busy
        if late > 0:
            found["waiting for launches"] = {
                "seconds": late,
                "earlier_seconds": None,
                "bound": "launches",
                "launches": 0.0,
                "counts": {},
                "seconds_of_each": {},
            }
        return self._summed(found, rates, earlier)

    def _summed(
        self, found: dict[str, Any], rates: Rates, earlier: dict[str, float]
    ) -> dict[str, Any]:
        """The record of the case: the sum of its stages, and the longest stage."""
        longest = max(found, key=lambda name: float(found[name]["seconds"]))
        total = sum(own["seconds"] for own in found.values())
        known = [earlier[name] for name in self.stages if name in earlier]
        record = {
            "case": self.case,
            "seconds": total,
            "earlier_seconds": sum(known) if known else None,
            "longest": longest,
            "bound": found[longest]["bound"],
        }
        if COPY in found and not self.is_pinned:
            n_bytes = found[COPY]["counts"]["host_bytes"]
            more = n_bytes / rates.pageable_bytes - n_bytes / rates.host_bytes
            record["seconds_with_pageable_copies"] = total + more
        return record | {"stages": found}


def _there(numbers: dict[str, float]) -> dict[str, float]:
    """The numbers that are not zero."""
    return {name: number for name, number in numbers.items() if number}


def histogram_predictions() -> Iterable[Prediction]:
    """Predict one level of histograms for each kind of target."""
    rows, features = 11_000_000, 28
    table = Table(rows, features, float(rows))
    for kind, name in ((GRADIENTS, "values"), (TWO_CLASSES, "two classes")):
        for nodes in (1, 64):
            stage = histograms(kind, table, rows, nodes, nodes, features, nodes)
            yield Prediction(HISTOGRAMS, {f"{name}, {_nodes(nodes)}": stage})
    for classes, nodes in MANY_CLASSES:
        stage = histograms_of_classes(table, nodes, features, classes)
        yield Prediction(HISTOGRAMS, {f"{classes} classes, {_nodes(nodes)}": stage})


def _nodes(number: int) -> str:
    return f"{number} node{'s' * (number > 1)}"


def predictions() -> list[Prediction]:
    """Predict all cases: histograms, prediction, forests and trees, boosting and AdaBoost."""
    million, features = 1_000_000, 28
    walk = prediction_stages(10_000_000, 500, 8, features)
    found = [
        *histogram_predictions(),
        Prediction("prediction of 10M x 28 by 500 trees of depth 8", walk),
    ]
    fits = (
        ("RandomForestClassifier 1M x 28, 100 trees of depth 16", "forest, depth 16", 100),
        ("RandomForestClassifier 1M x 28, 100 trees to purity", "forest, to purity", 100),
        ("ExtraTreesClassifier 1M x 28, 100 trees of depth 16", "extra-trees, depth 16", 100),
        ("ExtraTreesClassifier 1M x 28, 100 trees to purity", "extra-trees, to purity", 100),
        ("DecisionTreeClassifier 1M x 28, depth 8", "tree, depth 8", 1),
    )
    for name, shape, trees in fits:
        random = shape.startswith("extra")
        stages = fit_stages(SHAPES[shape], trees, million, features, random)
        found.append(Prediction(name, stages, launches_of(stages)))
    rounds = [case for case in CASES if case.setting.family in (BOOSTING, ADABOOST)]
    return found + [round_prediction(case) for case in rounds]


def launches_of(stages: Stages) -> float:
    """Number of launches in all stages except binning."""
    return sum(stage.launches for name, stage in stages.items() if name != "binning")


def round_prediction(case: GpuCase) -> Prediction:
    """Predict a case of boosting or AdaBoost.

    After the first `LAUNCHED_ROUNDS` rounds, the host replays each round in one launch.
    """
    setting, size = case.setting, (case.rows, case.features)
    boosts = setting.family == BOOSTING
    of_round = boosting_round(*size, setting) if boosts else adaboost_round(*size)
    rounds = setting.n_estimators
    asked = FEW_VALUES if case.maker == "airline" else MANY_VALUES
    stages = {name: stage.times(rounds) for name, stage in of_round.items()}
    return Prediction(
        case.name,
        {"binning": binning(*size, asked), **stages},
        LAUNCHED_ROUNDS * launches_of(of_round),
        LAUNCHED_ROUNDS / rounds,
        is_pinned=True,
    )


def content(rates: Rates) -> dict[str, Any]:
    """Make the content of the result file."""
    earlier = json.loads(EARLIER.read_text())["seconds"]
    records = [one.record(rates, earlier.get(one.case, {})) for one in predictions()]
    return {
        "benchmark": "gpu_predicted",
        "device": "NVIDIA H200",
        "measured": False,
        "rates": asdict(rates),
        "records": records,
    }


def text(found: dict[str, Any]) -> str:
    """Make the table of all stages, with the assumed rates."""
    rows = []
    for record in found["records"]:
        rows.append([record["case"], "all", *_times(record), record["longest"]])
        for name, stage in record["stages"].items():
            rows.append(["", name, *_times(stage), stage["bound"]])
        if pageable := record.get("seconds_with_pageable_copies"):
            rows.append(["", "all, by pageable copies", "", seconds_in_words(pageable), ""])
    rates = ", ".join(f"{name} {rate:.3g}" for name, rate in found["rates"].items())
    table = markdown(["case", "stage", "predicted earlier", "predicted", "bound by"], rows)
    return (
        f"{table}\n\nPredicted for an {found['device']}, not measured. Rates per second: {rates}."
    )


def summary(found: dict[str, Any]) -> str:
    """Make the table of docs/gpu.md, with one row per case or level of histograms."""
    rows = []
    for record in found["records"]:
        case, (longest, stage) = record["case"], _longest(record)
        if case == HISTOGRAMS:
            case = f"{case}: {longest}"
            bound = WORDS[stage["bound"]]
        else:
            bound = f"{longest}: {WORDS[stage['bound']]}"
        rows.append([case, *_times(record), bound])
    return markdown(["case", "predicted earlier", "predicted now", "what takes longest"], rows)


WORDS = {
    "bytes": "device memory",
    "instructions": "instructions issued",
    "cycles": "dependency stalls",
    "additions": "shared memory",
    "reductions": "additions to device memory",
    "operations": "float64 operations",
    "blocks": "blocks begun",
    "host_bytes": "copies to the host",
    "waits": "waits of the host",
    "calls": "calls to CuPy",
    "searches": "decisions of the host",
    "gaps": "gaps between launches",
    "launches": "launches by the host",
}


def _longest(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = record["longest"]
    return name, record["stages"][name]


def _times(record: dict[str, Any]) -> list[str]:
    """The earlier prediction and this one."""
    earlier = record["earlier_seconds"]
    return [
        "" if earlier is None else seconds_in_words(earlier),
        seconds_in_words(record["seconds"]),
    ]


def seconds_in_words(seconds: float) -> str:
    """Format a time in seconds, milliseconds or microseconds."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def put_into(document: str, found: dict[str, Any]) -> str:
    """The text of docs/gpu.md with its table replaced by that of these predictions."""
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}{summary(found)}\n{END}{after}"


def main(path: Path = RESULT, document: Path = DOCUMENT) -> int:
    """Write the result file and the table of docs/gpu.md, and print all stages."""
    found = content(Rates())
    path.write_text(json.dumps(found, indent=1) + "\n")
    document.write_text(put_into(document.read_text(encoding="utf-8"), found), encoding="utf-8")
    print(text(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
