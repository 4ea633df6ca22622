"""README's short table: the most important figures, each beside the strongest peer's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.peers.peers import OURS
from benchmarks.report.markdown import Content, caption, markdown, threads_of
from benchmarks.report.results import read_results, result_path

HIGHLIGHTS = "highlights"  # the name in the table's markers in README
# Result file and case of each row.
CASES = (
    ("speed", "RandomForestClassifier 100k x 28, 100 trees to purity"),
    ("speed", "RandomForestClassifier covertype, 7 classes, 100 trees to purity"),
    ("speed", "ExtraTreesClassifier 100k x 28, 100 trees to purity"),
    ("speed", "DecisionTreeClassifier 1M x 28, depth 8"),
    ("speed_boosting", "GradientBoostingClassifier 900k x 28, 100 trees of depth 6"),
    (
        "speed_boosting",
        "GradientBoostingClassifier 7 classes, 100k x 54, 100 rounds of depth 6",
    ),
    (
        "speed_boosting",
        "GradientBoostingRegressor quantile 0.9, 200k x 28, 100 trees of depth 6",
    ),
    ("speed_boosting", "AdaBoostClassifier 100k x 28, 100 stumps"),
    (
        "speed_boosting",
        "Prediction of 1M rows x 28, GradientBoostingClassifier, 100 trees of depth 6",
    ),
    ("memory", "RandomForestClassifier 1M x 28, 20 trees of depth 16"),
)
SOURCES = tuple(dict.fromkeys(name for name, _ in CASES))


def highlights_table(contents: Mapping[str, Content] | None = None) -> str:
    """Make the table of `CASES`, each beside the strongest peer that was measured.

    Parameters
    ----------
    contents : mapping of str to Content, optional
        Contents of the result files by name. If None, the files are read.

    Raises
    ------
    LookupError
        If a result file lacks one of the cases, or no peer was measured in it.
    """
    known = contents or {name: read_results(result_path(name)) for name in SOURCES}
    rows = [highlight(known[name], case) for name, case in CASES]
    header = ["case", "gpuboost", "strongest peer", "ratio", "score (peer's)"]
    records = [record for content in known.values() for record in content["records"]]
    note = (
        f"Seconds and scores with {threads_of(records)}; peak memory is counted from the level "
        "before the fit. The ratio is the peer's figure divided by gpuboost's: above 1, gpuboost "
        "takes less. The strongest peer is the one with the smallest figure."
    )
    return "\n\n".join([markdown(header, rows), note, *_captions(list(known.values()))])


def _captions(contents: Sequence[Content]) -> list[str]:
    """One caption if all files have the same machine and no library has two versions."""
    machine, versions = dict(contents[0]["machine"]), dict[str, str]()
    for content in contents:
        versions |= content["machine"]["versions"]
    machine["versions"] = versions
    for content in contents:
        own = content["machine"]
        if own | {"versions": versions | own["versions"]} != machine:
            return list(dict.fromkeys(map(caption, contents)))
    records = [record for content in contents for record in content["records"]]
    return [caption({**contents[0], "machine": machine, "records": records})]


def highlight(content: Content, case: str) -> list[str]:
    """Make one row of the short table: a time with its score, or a peak of memory."""
    records = [record for record in content["records"] if record["case"] == case]
    if content["benchmark"] == "memory":
        peaks = {r["peer"]: r["peak_bytes"] for r in records if "peak_bytes" in r}
        strongest = _strongest(peaks, case)
        own, theirs = peaks[OURS] / 1e6, peaks[strongest] / 1e6
        cells = [f"{own:.0f} MB", f"{strongest} {theirs:.0f} MB", f"{theirs / own:.1f}", "–"]
        return [f"Peak memory: {case}", *cells]
    measured = {peer: found for r in records for peer, found in r["peers"].items()}
    seconds = {peer: found["seconds"] for peer, found in measured.items() if "seconds" in found}
    strongest = _strongest(seconds, case)
    own, theirs = seconds[OURS], seconds[strongest]
    scores = f"{measured[OURS]['score']:.4f} ({measured[strongest]['score']:.4f})"
    cells = [f"{own:.2f} s", f"{strongest} {theirs:.2f} s", f"{theirs / own:.1f}"]
    return [case, *cells, f"{records[0]['metric']} {scores}"]


def _strongest(figures: dict[str, float], case: str) -> str:
    """The peer with the smallest figure."""
    peers = [peer for peer in figures if peer != OURS]
    if OURS not in figures or not peers:
        raise LookupError(f"'{case}' was not measured for gpuboost and a peer; measure it first.")
    return min(peers, key=figures.__getitem__)
