"""What commands about models print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuboost.cli.output import counted, print_facts, print_table, shown, shown_bytes, shown_seconds

_TITLES = ("accuracy", "log loss", "AUC", "R2", "RMSE", "MAE", "D2 pinball", "pinball loss")
SCORE_NAMES = {title.lower().replace(" ", "_"): title for title in _TITLES}
CONFUSION_COLUMNS, COUNT_COLUMNS = 68, 6  # of a table beside the classes, and of a count


def print_training(report: Mapping[str, Any]) -> None:
    """Print the summary of ``gpuboost train``."""
    _print_scores(report["scores"])
    seconds = report["seconds"]
    trees, rate = report["trees"], report["trees"] / seconds
    facts = {
        "model": f"{report['model']}, {shown_bytes(report['bytes'])}",
        "estimator": f"{report['estimator']}, {counted(trees, 'tree')}, "
        f"{counted(report['features'], 'feature')}",
        "device": report["device"],
        "training": f"{shown_seconds(seconds)}, {report['rows_per_second']:,.0f} rows/s, "
        f"{rate:,.1f} trees/s",
        "fingerprint": report["fingerprint"][:16],
    }
    if report["best_round"] is not None:
        facts["best round"] = f"{report['best_round']:,}, by early stopping"
    print_facts(facts)


def _print_scores(scores: Mapping[str, Mapping[str, float | None]]) -> None:
    """A row for each set of rows."""
    names = list(next(iter(scores.values())))
    titles = ["rows", *(SCORE_NAMES[name] for name in names)]
    print_table("", titles, [[rows, *own.values()] for rows, own in scores.items()])


def print_evaluation(report: Mapping[str, Any]) -> None:
    """Print the result of ``gpuboost evaluate``."""
    _print_scores({f"{report['rows']:,} of {report['table']}": report["scores"]})
    if "confusion" in report:
        _print_confusion(report["classes"], report["confusion"])
    by_level = report["calibrated"] == "quantiles"
    groups, predicted = ("level", "level") if by_level else ("tenths of the rows", "mean predicted")
    print_table(
        f"calibration of the {report['calibrated']}, by {groups}",
        ["from", "to", "rows", predicted, "mean observed"],
        [
            [own[name] for name in ("from", "to", "rows", "predicted", "observed")]
            for own in report["calibration"]
        ],
        n_text=0,
    )


def _print_confusion(classes: list[Any], counts: list[list[float]]) -> None:
    names = [str(name) for name in classes]
    if sum(max(len(name), COUNT_COLUMNS) + 2 for name in names) > CONFUSION_COLUMNS:
        pairs = [
            (counts[i][j], classes[i], classes[j])
            for i in range(len(classes))
            for j in range(len(classes))
            if i != j and counts[i][j]
        ]
        pairs.sort(key=lambda pair: -pair[0])
        rows = [[str(own), str(predicted), count] for count, own, predicted in pairs[:10]]
        print_table("most frequent errors", ["class", "predicted", "rows"], rows, n_text=2)
        return
    rows = [[name, *map(shown_count, own)] for name, own in zip(names, counts, strict=True)]
    print_table("confusion: class by predicted class", ["class", *names], rows)


def shown_count(count: float) -> str:
    """A number of rows, or the sum of their weights."""
    return f"{int(count):,}" if float(count).is_integer() else f"{count:,.1f}"


def print_contents(contents: Mapping[str, Any]) -> None:
    """Print the result of ``gpuboost inspect``."""
    trees = contents["trees"]
    facts = {
        "file": f"{contents['file']}, {shown_bytes(contents['bytes'])}, version "
        f"{contents['version']}, written by {contents['writer']}",
        "SHA-256": contents["sha256"],
        "estimator": contents["estimator"],
        "fingerprint": contents["fingerprint"],
        "trees": f"{trees['count']:,}, depth {trees['min_depth']} to {trees['max_depth']}, "
        f"{counted(trees['leaves'], 'leaf', 'leaves')}",
        "trained on": contents["device"] or contents["source"],
    }
    if contents["classes"] is not None:
        facts["classes"] = _some(contents["classes"])
    facts["parameters"] = (
        ", ".join(f"{name}={value!r}" for name, value in contents["parameters"].items())
        or "all default"
    )
    print_facts(facts)
    _print_features(contents["features"])


def _print_features(features: list[dict[str, Any]]) -> None:
    """The features of the largest importance, with their categories."""
    order = sorted(features, key=lambda own: -(own["importance"] or 0.0))[:10]
    rows = [
        [own["name"], _some(own["categories"]) if own["categories"] else "number",
         shown(own["importance"])]
        for own in order
    ]  # fmt: skip
    n = len(features)
    title = counted(n, "feature") if n <= 10 else f"the 10 most important of {n:,} features"
    print_table(title, ["feature", "values", "importance"], rows, n_text=2)


def _some(values: list[Any]) -> str:
    """The first values and their number."""
    first = ", ".join(str(value) for value in values[:6])
    return f"{len(values)}: {first}{', ...' if len(values) > 6 else ''}"
