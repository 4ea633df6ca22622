"""The report of a first run on a GPU, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import FIT, HISTOGRAM, PREDICTION
from benchmarks.gpu.first.steps import CUT_SHORT, FAILED, NO_DEVICE, NOT_BEGUN, Step
from benchmarks.gpu.text import summary
from benchmarks.peers.peers import OURS
from benchmarks.report.markdown import markdown
from benchmarks.report.results import FOLDER

RESULTS = "gpu.json"  # the benchmark's result file in the folder of a run
PREDICTED = FOLDER / "gpu_predicted.json"
SHOWN, SHOWN_LINES = (FAILED, CUT_SHORT, NO_DEVICE), 40  # steps whose output is shown

Entry = dict[str, Any]


def report_text(folder: Path, steps: Sequence[Step], entries: Mapping[str, Entry]) -> str:
    """Write the report: a table of the steps, then their results so far."""
    found = [(step, entries.get(step.name, {"status": NOT_BEGUN})) for step in steps]
    records = measured_records(folder)
    parts = ["# First run on a GPU", steps_table(found)]
    parts += [
        f"{e['status'].capitalize()}: {step.name}, {e['reason']}."
        for step, e in found
        if "reason" in e
    ]
    parts += [failed_tests(found)]
    parts += [_as_json(step.name, e["found"]) for step, e in found if e.get("found")]
    if records:
        parts += ["## Measured", summary(records)[0], predicted_table(records)]
    parts += [_findings(step, e) for step, e in found if e.get("findings")]
    parts += [_output(step, e) for step, e in found if e["status"] in SHOWN]
    return "\n\n".join(part for part in parts if part) + "\n"


def measured_records(folder: Path) -> list[Entry]:
    """Records of the benchmark's result file, from the machine on which it ran last."""
    path = folder / RESULTS
    return json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []


def steps_table(found: Sequence[tuple[Step, Entry]]) -> str:
    """Status, exit status and seconds of every step."""
    rows = []
    for step, e in found:
        numbers = ("–" if e.get(key) is None else f"{e[key]}" for key in ("exit_status", "seconds"))
        rows.append([step.name, step.question, e["status"], *numbers])
    return markdown(["step", "question", "status", "exit status", "seconds"], rows)


def failed_tests(found: Sequence[tuple[Step, Entry]]) -> str:
    """Tests that did not pass, by step."""
    lines = [
        f"- {step.name}: `{test}` ({why})"
        for step, e in found
        for test, why in e.get("failed_tests", {}).items()
    ]
    return "\n".join(["## Tests that failed\n", *lines]) if lines else ""


def predicted_table(records: Sequence[Entry]) -> str:
    """gpuboost's times at full size beside the predicted ones."""
    ours = {
        (r["case"], _predicted_name(r)): r["seconds"]
        for r in records
        if r["scale"] == "full" and "seconds" in r and r["who"].startswith(OURS)
    }
    predicted = json.loads(PREDICTED.read_text(encoding="utf-8"))
    rows = []
    for record in predicted["records"]:
        stages = {name: stage["seconds"] for name, stage in record["stages"].items()}
        for name, seconds in {"": record["seconds"], **stages}.items():
            if (record["case"], name) in ours:
                measured = ours[record["case"], name]
                cells = [f"{1e3 * seconds:.3g}", f"{1e3 * measured:.3g}"]
                rows.append([record["case"], name, *cells, f"{measured / seconds:.2f}"])
    header = ["case", "", f"predicted ms ({predicted['device']})", "measured ms", "ratio"]
    return markdown(header, rows) if rows else ""


def _predicted_name(record: Entry) -> str:
    """The stage's name in the predictions: the shape for histograms, "" for a whole case."""
    assert record["kind"] in (FIT, PREDICTION, HISTOGRAM)
    return record["who"].removeprefix(f"{OURS}, ") if record["kind"] == HISTOGRAM else ""


def _as_json(name: str, found: Entry) -> str:
    return f"## What `{name}` found\n\n```json\n{json.dumps(found, indent=1)}\n```"


def _findings(step: Step, entry: Entry) -> str:
    lines = "\n".join(entry["findings"][:SHOWN_LINES])
    return f"## Findings of `{step.name}`\n\n```\n{lines}\n```"


def _output(step: Step, entry: Entry) -> str:
    lines = "\n".join(entry.get("output", [])[-SHOWN_LINES:])
    return f"## Last output of `{step.name}`, {entry['status']}\n\n```\n{lines}\n```"
