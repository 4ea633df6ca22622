"""Result files of the benchmarks, and the tables made from them."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.peers.peers import INTELEX, OURS, REFERENCE
from benchmarks.report import report
from benchmarks.report.highlights import HIGHLIGHTS, highlight, highlights_table
from benchmarks.report.results import OtherMachineError, Results, read_results, result_path
from benchmarks.speed import timing
from benchmarks.speed.machine import describe_machine
from benchmarks.stages import stages
from benchmarks.suite.cases import SPEED
from tests.benchmarks.test_benchmarks import FakePeer, fake_tables


def test_results_are_kept_record_by_record(tmp_path):
    path = tmp_path / "deep" / "speed.json"
    Results("speed", path).add("a", {"x": 1})
    again = Results("speed", path)
    assert again.find("a")["x"] == 1 and again.find("b") is None
    again.add("b", {"x": 2})
    again.add("a", {"x": 3})
    assert [r["key"] for r in read_results(path)["records"]] == ["b", "a"]
    assert Results("speed", path, again=True).records == []
    assert list(path.parent.iterdir()) == [path]


def test_results_of_another_machine_are_not_mixed(tmp_path):
    path = tmp_path / "speed.json"
    Results("speed", path).add("a", {})
    content = json.loads(path.read_text())
    content["machine"]["cpu"] = "another"
    path.write_text(json.dumps(content))
    with pytest.raises(OtherMachineError, match=r"cpu differ.*--again"):
        Results("speed", path)
    with pytest.raises(ValueError, match="holds results of 'speed', not of 'memory'"):
        Results("memory", path)


def test_results_are_kept_if_only_the_memory_size_differs(tmp_path):
    path = tmp_path / "speed.json"
    Results("speed", path).add("a", {"x": 1})
    content = json.loads(path.read_text())
    content["machine"]["memory_gb"] += 7
    path.write_text(json.dumps(content))
    assert Results("speed", path).find("a")["x"] == 1


def test_missing_results_name_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match="python -m benchmarks speed"):
        read_results(tmp_path / "speed.json")


def test_machine_is_named():
    machine = describe_machine()
    assert machine["cpu"] and machine["cores"] >= 1
    assert {"numpy", "scikit-learn"} <= set(machine["versions"])


def speed_results(path):
    case = SPEED[0].sized("full", 40)
    peers = [FakePeer([], OURS), FakePeer([], REFERENCE), FakePeer([], INTELEX, "not here")]
    plan = timing.Plan(repeat=1)
    record = timing.measure_case(case, peers, fake_tables(), plan, lambda text: None)
    Results("speed", path).add("k", {"n_jobs": 2, **record})


def test_speed_table_goes_between_its_markers(tmp_path):
    path, document = tmp_path / "speed.json", tmp_path / "benchmarks.md"
    speed_results(path)
    document.write_text("a\n<!-- benchmarks:speed -->\nold\n<!-- /benchmarks -->\nz\n")
    for _ in range(2):  # the second call replaces the table
        assert main(["table", str(path), "--write", "--document", str(document)]) == 0
    text = document.read_text()
    assert text.startswith("a\n<!-- benchmarks:speed -->\n| case |") and text.endswith("-->\nz\n")
    assert "old" not in text and text.count("| case |") == 1
    row = next(line for line in text.splitlines() if "100 trees to purity" in line)
    assert "(1.0000)" in row and "–" in row
    assert "2 threads" in text and describe_machine()["cpu"] in text


def test_table_without_markers_or_results_says_what_to_do(tmp_path, capsys):
    path, document = tmp_path / "speed.json", tmp_path / "benchmarks.md"
    assert main(["table", str(path)]) == 2
    assert "measure first" in capsys.readouterr().err
    speed_results(path)
    document.write_text("nothing here")
    assert main(["table", str(path), "--write", "--document", str(document)]) == 2
    assert "<!-- benchmarks:speed -->" in capsys.readouterr().err
    assert document.read_text() == "nothing here"


def test_the_command_writes_both_documents(tmp_path, capsys):
    document, readme = tmp_path / "benchmarks.md", tmp_path / "README.md"
    names = [name for name in report.DEFAULT_NAMES if result_path(name).exists()]
    for path, places in ((document, names), (readme, [HIGHLIGHTS])):
        marks = [f"<!-- benchmarks:{name} -->\n<!-- /benchmarks -->\n" for name in places]
        path.write_text("".join(marks))
    given = ["--write", "--document", str(document), "--readme", str(readme)]
    assert main(["table", *given]) == 0
    assert str(document) in capsys.readouterr().out
    assert highlights_table() in readme.read_text()
    for name in names:
        assert report.table_of(read_results(result_path(name))) in document.read_text()


def test_short_table_names_the_strongest_peer():
    found = {
        "gpuboost": {"seconds": 2.0, "score": 0.91},
        "scikit-learn": {"seconds": 9.0, "score": 0.92},
        "XGBoost": {"seconds": 3.0, "score": 0.93},
        "LightGBM": {"left_out": "is not here"},
    }
    record = {"case": "c", "metric": "AUC", "peers": found, "n_jobs": 2}
    content = {"benchmark": "speed", "records": [record]}
    line = ["c", "2.00 s", "XGBoost 3.00 s", "1.5", "AUC 0.9100 (0.9300)"]
    assert highlight(content, "c") == line
    with pytest.raises(LookupError, match="'d' was not measured"):
        highlight(content, "d")
    peaks = [{"case": "m", "peer": p, "peak_bytes": 1e6 * n} for p, n in ((OURS, 4), ("A", 2))]
    peaks.append({"case": "m", "peer": "B", "left_out": "took too long"})
    memory_line = highlight({"benchmark": "memory", "records": peaks}, "m")
    assert memory_line == ["Peak memory: m", "4 MB", "A 2 MB", "0.5", "–"]


def test_other_tables(tmp_path):
    found = {"ours": 0.9, "scikit-learn": 0.8, "difference": 0.1, "standard_error": 0.01}
    record = {"table": "iris", "estimator": "Bagging", "train_rows": 9, "features": 4, "seeds": 5}
    Results("quality", tmp_path / "q.json").add("k", {**record, "metrics": {"accuracy": found}})
    text = report.table_of(read_results(tmp_path / "q.json"))
    assert "| iris, Bagging | 9 x 4 | accuracy | 0.9000 | 0.8000 | +0.1000 ± 0.0100 | – |" in text

    sizes = dict.fromkeys(("peak_bytes", "input_bytes", "model_bytes", "extra_bytes"), 2e6)
    results = Results("memory", tmp_path / "m.json")
    results.add("a", {"case": "c", "peer": OURS, "seconds": 1.0, **sizes})
    results.add("b", {"case": "c", "peer": REFERENCE, "left_out": "took more than 9 s"})
    text = report.table_of(read_results(tmp_path / "m.json"))
    assert "| c | gpuboost | 2 | 2 | 2 | 2 | 1.0 |" in text
    assert "| c | scikit-learn | – | – | – | – | – |" in text

    info = {"stage": "split", "backend": "numpy", "size": "10 x 2"}
    entry = {"name": "s", "extra_info": info, "stats": {"median": 0.002, "min": 0.001, "rounds": 7}}
    Results("stages", tmp_path / "s.json").add("s", stages.stage_record(entry))
    text = report.table_of(read_results(tmp_path / "s.json"))
    assert "| split | numpy | 10 x 2 | 2.00 | 7 |" in text
