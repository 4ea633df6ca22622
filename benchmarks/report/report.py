"""``python -m benchmarks table``: make the tables of docs/benchmarks.md and README from results."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.peers import OURS, PEER_NAMES
from benchmarks.quality.quality import ENSEMBLES
from benchmarks.report.growth import draw_growth, growth_table
from benchmarks.report.highlights import HIGHLIGHTS, SOURCES, highlights_table
from benchmarks.report.markdown import Content, caption, markdown, threads_of
from benchmarks.report.results import read_results, result_path
from benchmarks.speed.explain import explain_table
from benchmarks.speed.service import COLUMNS as SERVICE_COLUMNS

ROOT = Path(__file__).parents[2]
DOCUMENT, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
DEFAULT_NAMES = (
    "speed",
    "speed_boosting",
    "speed_sparse",
    "growth",
    "quality",
    "quality_boosting",
    "memory",
    "import",
    "first_use",
    "service",
    "explain",
)

_FIRST_METRICS = ("AUC", "R2", "accuracy", "D2 Poisson")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "names",
        nargs="*",
        help=f"result files, or '{HIGHLIGHTS}' for README's short table (default: all that exist)",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the tables between their markers in docs/benchmarks.md and README.md",
    )
    parser.add_argument("--document", type=Path, default=DOCUMENT, help=argparse.SUPPRESS)
    parser.add_argument("--readme", type=Path, default=README, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the tables, or write them into docs/benchmarks.md and README."""
    measured = [name for name in DEFAULT_NAMES if result_path(name).exists()]
    if not (args.names or measured):
        raise FileNotFoundError(
            "nothing was measured yet; begin with 'python -m benchmarks speed'."
        )
    has_short = set(SOURCES) <= set(measured)
    names = args.names or [*measured, *([HIGHLIGHTS] if has_short else [])]
    tables = {Path(name).stem: _table_named(name) for name in names}
    if not args.write:
        print("\n\n".join(tables.values()))
        return 0
    short = {name: table for name, table in tables.items() if name == HIGHLIGHTS}
    long = {name: table for name, table in tables.items() if name not in short}
    places = ((args.document, long), (args.readme, short))
    texts = {path: _with_tables(path, own) for path, own in places if own}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    if "growth" in long:
        draw_growth(read_results(result_path("growth")), args.document.parent / "images")
    print(f"wrote {', '.join(tables)} into {' and '.join(map(str, texts))}")
    return 0


def _table_named(name: str) -> str:
    """Make the table of a result file, or README's short table."""
    if name == HIGHLIGHTS:
        return highlights_table()
    return table_of(read_results(result_path(name)))


def _with_tables(path: Path, tables: dict[str, str]) -> str:
    """The text of a document with the tables put between their markers."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = put_between_markers(text, name, table)
    return text


def table_of(content: Content) -> str:
    """Make the Markdown table of a result file, with a caption that names the machine."""
    return f"{_TABLES[content['benchmark']](content)}\n\n{caption(content)}"


def put_between_markers(text: str, name: str, table: str) -> str:
    """Replace the text between the markers of ``name`` by a table.

    Raises
    ------
    LookupError
        If the text has no such markers.
    """
    pattern = rf"(<!-- benchmarks:{re.escape(name)} -->\n).*?(<!-- /benchmarks -->)"
    changed, count = re.subn(
        pattern, lambda match: f"{match[1]}{table}\n{match[2]}", text, flags=re.DOTALL
    )
    if not count:
        raise LookupError(
            f"there is no place for the table '{name}'; add the lines "
            f"'<!-- benchmarks:{name} -->' and '<!-- /benchmarks -->' to the document."
        )
    return changed


def _speed_table(content: Content) -> str:
    """Seconds and score of every peer, and the ratio reached for each bound."""
    records = content["records"]
    peers = [p for p in PEER_NAMES if any("seconds" in r["peers"].get(p, {}) for r in records)]
    others = [peer for peer in peers if peer != OURS]
    rows = []
    for record in records:
        cells = [_seconds_and_score(record["peers"].get(peer)) for peer in peers]
        ratios = [_number(record["ratios"].get(peer), 3) for peer in others]
        bounds = "; ".join(map(_reached, record["bounds"])) or "–"
        rows.append([record["case"], record["metric"], *cells, " / ".join(ratios), bounds])
    note = (
        f"Seconds (score) with {threads_of(records)}; medians of alternating runs, after a "
        "warm-up with warm compile caches. The ratios are "
        f"gpuboost's time divided by that of {', '.join(others)}, in this order."
    )
    table = markdown(["case", "score", *peers, "ratio", "reached (allowed)"], rows)
    return "\n\n".join([table, note, *_remarks(records), _misses(content)])


def _reached(bound: Content) -> str:
    """gpuboost's time divided by that of the fastest peer of a bound."""
    if "reached" not in bound:
        return f"– ({bound['allowed']:g} of {', '.join(bound['peers'])})"
    return f"{bound['reached']:.2f} of {bound['fastest']} ({bound['allowed']:g})"


def _remarks(records: list[Content]) -> list[str]:
    """A paragraph on how peers' settings differ from scikit-learn's; none if they do not."""
    by_peer: dict[str, list[str]] = {}
    for record in records:
        for peer, found in record["peers"].items():
            for part in found.get("remark", "").split("; "):
                known = by_peer.setdefault(peer, [])
                if part and part not in known:
                    known.append(part)
    parts = [f"{peer}: {', '.join(known)}" for peer, known in by_peer.items() if known]
    return [f"Settings that differ: {'; '.join(parts)}."] if parts else []


def _seconds_and_score(found: Content | None) -> str:
    if found is None or "left_out" in found:
        return "–"
    return f"{found['seconds']:.2f} ({found['score']:.4f})"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _quality_table(content: Content) -> str:
    """One row per table and ensemble, with its first metric.

    The result file has all metrics, and single trees as well.
    """
    rows = []
    for record in content["records"]:
        metric = next(m for m in _FIRST_METRICS if m in record["metrics"])
        found = record["metrics"][metric]
        if record["estimator"] in ENSEMBLES:
            rows.append(
                [
                    f"{record['table']}, {record['estimator']}",
                    f"{record['train_rows']} x {record['features']}",
                    metric,
                    f"{found['ours']:.4f}",
                    f"{found['scikit-learn']:.4f}",
                    f"{found['difference']:+.4f} ± {found['standard_error']:.4f}",
                    _number(found.get("native_categories"), 4),
                ]
            )
    header = [
        "table, estimator",
        "training rows",
        "score",
        "gpuboost",
        "scikit-learn",
        "difference",
        "with native categories",
    ]
    seeds = " or ".join(map(str, sorted({record["seeds"] for record in content["records"]})))
    trees = " or ".join(
        str(n) for n in sorted({r.get("trees") for r in content["records"]} - {None})
    )
    note = (
        f"Test scores of {trees} trees, means over {seeds} random splits. Differences are "
        "paired; ± is their standard error.\n"
        f"{_misses(content)}"
    )
    summary = f"<summary>{len(rows)} comparisons of ensembles with scikit-learn's</summary>"
    return f"<details>{summary}\n\n{markdown(header, rows)}\n\n</details>\n\n{note}"


def _boosting_quality_table(content: Content) -> str:
    """One row per table, with its first metric; the result file has all metrics."""
    records = content["records"]
    first = [next(m for m in _FIRST_METRICS if m in record["metrics"]) for record in records]
    own = [record["metrics"][metric] for record, metric in zip(records, first, strict=True)]
    peers = [p for p in PEER_NAMES if any(p in found["differences"] for found in own)]
    rounds = max(record["rounds"] for record in records)
    rows = [
        [
            _table_of_boosting(record, rounds),
            f"{record['train_rows']} x {record['features']}",
            metric,
            _number(found["scores"].get(OURS), 4),
            *(_difference(found, peer) for peer in peers),
        ]
        for record, metric, found in zip(records, first, own, strict=True)
    ]
    seeds = [record["seeds"] for record in records]
    note = (
        f"Test scores after {rounds} rounds with equal settings, means over {min(seeds)} to "
        f"{max(seeds)} random splits; synthetic tables are drawn anew for each split. In brackets: "
        "gpuboost's score minus the peer's (paired differences), and the standard error.\n"
        f"{_misses(content)}"
    )
    header = ["table", "training rows", "score", OURS, *peers]
    summary = f"<summary>{len(rows)} tables, gradient boosting beside its peers</summary>"
    return f"<details>{summary}\n\n{markdown(header, rows)}\n\n</details>\n\n{note}"


def _table_of_boosting(record: Content, usual_rounds: int) -> str:
    """Name of a table, with remarks on native categories and on an unusual number of rounds."""
    remarks = ["native categories"] if record["categories"] else []
    remarks += [f"{record['rounds']} rounds"] if record["rounds"] != usual_rounds else []
    return record["table"] + (f" ({', '.join(remarks)})" if remarks else "")


def _difference(found: Content, peer: str) -> str:
    """A peer's score, and gpuboost's paired difference from it."""
    if peer not in found["differences"]:
        return "–"
    own = found["differences"][peer]
    score, difference = found["scores"][peer], own["difference"]
    return f"{score:.4f} ({difference:+.4f} ± {own['standard_error']:.4f})"


def _misses(content: Content) -> str:
    """A sentence on the times and scores that miss their bounds."""
    missed = [
        f"{record.get('case') or record['table'] + ', ' + record['estimator']}: {sentence}"
        for record in content["records"]
        for sentence in record.get("missed", ())
    ]
    return f"Missed bounds: {'; '.join(missed) or 'none'}."


def _memory_table(content: Content) -> str:
    rows = []
    for record in content["records"]:
        start = [f"{record['case']}", record["peer"]]
        if "left_out" in record:
            rows.append([*start, "–", "–", "–", "–", "–"])
            continue
        sizes = [f"{record[f'{p}_bytes'] / 1e6:.0f}" for p in ("peak", "input", "model", "extra")]
        rows.append([*start, *sizes, f"{record['seconds']:.1f}"])
    note = (
        "MB above the memory of the process after import and warm-up; each fit runs in its own "
        "process. Extra is the peak less the input and the pickled model."
    )
    return (
        f"{markdown(['case', 'library', 'peak', 'input', 'model', 'extra', 'seconds'], rows)}"
        f"\n\n{note}"
    )


def _import_table(content: Content) -> str:
    (found,) = content["records"]
    rows = [
        ["`import gpuboost`", f"{found['import_seconds']:.3f}"],
        ["`from gpuboost import RandomForestClassifier`", f"{found['estimator_seconds']:.3f}"],
        ["`import sklearn.ensemble`", f"{found['sklearn_ensemble_seconds']:.3f}"],
        [
            f"first fit of a forest on {found['first_fit_rows']} rows, in a fresh process without "
            f"compiled code ({found['first_fit_device']})",
            f"{found['first_fit_seconds']:.2f}",
        ],
    ]
    return markdown(["", "seconds"], rows)


def _first_use_table(content: Content) -> str:
    rows = [
        [
            record["key"],
            f"{record['first_seconds']:.2f} ({record['first_device']})",
            f"{record['compile_cpu_seconds']:.1f}",
            f"{record['warm_seconds']:.2f} ({record['warm_device']})",
        ]
        for record in content["records"]
    ]
    titles = ["case", "first fit", "of it compiling (CPU)", "warm fit"]
    note = (
        'Seconds. First fits use `device="auto"` in a fresh process, with nothing compiled; warm '
        'fits use `device="numba"` and are the second in a process with compiled code.'
    )
    return f"{markdown(titles, rows)}\n\n{note}"


def _service_table(content: Content) -> str:
    records = [record for record in content["records"] if "microseconds" in record]
    (first,) = (record for record in content["records"] if "milliseconds" in record)
    names = [n for n in SERVICE_COLUMNS if any(n in r["microseconds"] for r in records)]
    rows = []
    for record in records:
        figures = [_number(record["microseconds"].get(name), 0) for name in names]
        reached = "; ".join(map(_reached, record["bounds"]))
        rows.append([record["case"], str(record["rows"]), *figures, reached])
    note = (
        "Microseconds of a call of `predict` on that many rows of 28 float32 values, in a process "
        "that predicts again and again; the models have 20,000 training rows. "
        "`compile_predictor` is the predictor of the gpuboost model, which gets one row as a "
        "vector; LightGBM Booster is `booster_.predict`. Each library has 1 and "
        f"{records[0]['n_jobs']} threads, and the faster counts; each figure is the shortest of "
        "25 alternating measurements. Where two bounds are given, the second is that of "
        f"`compile_predictor`. The first prediction of one row in a fresh process takes "
        f"{first['milliseconds']:.0f} ms ({first['allowed']:.0f} allowed)."
    )
    return f"{markdown(['case', 'rows', *names, 'reached (allowed)'], rows)}\n\n{note}"


def _stages_table(content: Content) -> str:
    rows = [
        [r["stage"], r["backend"], r["size"], f"{1e3 * r['seconds']:.2f}", str(r["rounds"])]
        for r in content["records"]
    ]
    return markdown(["stage", "backend", "size", "ms (median)", "rounds"], rows)


_TABLES: dict[str, Callable[[Content], str]] = {
    "speed": _speed_table,
    "growth": growth_table,
    "quality": _quality_table,
    "quality_boosting": _boosting_quality_table,
    "memory": _memory_table,
    "import": _import_table,
    "first_use": _first_use_table,
    "service": _service_table,
    "explain": explain_table,
    "stages": _stages_table,
}
