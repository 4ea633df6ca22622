"""Reports of GPU results: tables of times, ratios to peers and fractions of ceilings."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.cases import EQUALITY, FIT, HISTOGRAM, PREDICTION, SECONDS_ON
from benchmarks.gpu.device.peak import is_estimated
from benchmarks.peers.peers import OURS
from benchmarks.report.markdown import markdown

Record = dict[str, Any]


def summary(records: list[Record]) -> tuple[str, list[str]]:
    """Make the tables of a result file, and sentences on the missed bounds."""
    parts = [fits_table(records), histogram_table(records), waits_table(records)]
    missed = missed_bounds(records)
    parts += [f"NOT CHECKED: {sentence}" for sentence in not_judged(records)]
    parts += [f"MISSED: {sentence}" for sentence in missed]
    parts += [f"FAILED: {r['case']}, {r['who']}: {r['failed']}" for r in records if "failed" in r]
    parts.append(machine(records))
    return "\n\n".join(part for part in parts if part), missed


def fits_table(records: list[Record]) -> str:
    """Seconds and score of every peer, and gpuboost's time divided by theirs."""
    chosen = [r for r in records if r["kind"] in (FIT, PREDICTION)]
    peers = [OURS, *sorted({r["who"] for r in chosen if "seconds" in r} - {OURS})]
    rows = []
    for case, own in by_case(chosen).items():
        found = {r["who"]: r for r in own}
        cells = [seconds_and_score(found.get(peer)) for peer in peers]
        ratios = [ratio(found, peer) for peer in peers[1:]]
        rows.append([case, *cells, *(("–" if r is None else f"{r:.3f}") for r in ratios)])
    if not rows:
        return ""
    return markdown(["case", *peers, *(f"of {peer}'s time" for peer in peers[1:])], rows)


def histogram_table(records: list[Record]) -> str:
    """Rates of each level of histograms, also as fractions of the device's ceilings."""
    chosen = [r for r in records if r["kind"] == HISTOGRAM and "of_ceiling" in r]
    rows = [
        [
            r["case"],
            r["who"],
            f"{1e6 * r['seconds']:.0f}",
            f"{r['GB_per_s']:.0f} ({r['of_copy']:.0%})",
            f"{r['adds_G_per_s']:.0f} ({r['of_adds']:.0%})",
            f"{r['of_ceiling']:.0%}",
        ]
        for r in chosen
    ]
    header = ["case", "histograms", "us", "GB/s", "G additions/s", "of the ceiling"]
    return markdown(header, rows) if rows else ""


def waits_table(records: list[Record]) -> str:
    """Launches, copies and waits of the host per tree, and the memory of a fit."""
    chosen = [r for r in records if "launches_per_tree" in r]
    rows = [
        [
            r["case"],
            f"{r['launches_per_tree']:.1f} + {r['array_calls_per_tree']:.1f}",
            f"{r['reads_per_tree']:.1f}",
            f"{r['waits_per_tree']:.2f}",
            gigabytes(r.get("peak_bytes")),
            gigabytes(r.get("estimated_bytes")),
            share_of_estimate(r),
        ]
        for r in chosen
    ]
    header = ["per tree", "launches + array calls", "copies to host", "waits"]
    return markdown([*header, "peak GB", "estimated GB", "peak / estimate"], rows) if rows else ""


def missed_bounds(records: list[Record]) -> list[str]:
    """Describe each missed bound, each wrong sum and each model that differs."""
    sentences = []
    for case, own in by_case(records).items():
        found = {r["who"]: r for r in own}
        bounds = own[0]["bounds"]
        for peer, bound in bounds.items():
            reached = ratio(found, peer)
            if reached is not None and reached > bound:
                sentences.append(f"{case}: {reached:.3f} of {peer}'s time, {bound} allowed")
        sentences += _too_slow(case, found.get(OURS, {}), bounds)
        floor = bounds.get("floor")
        for r in own:
            if floor and r.get("of_ceiling", 1.0) < 1.0 / floor:
                reached = r["of_ceiling"]
                sentences.append(f"{case}, {r['who']}: {reached:.0%} of the ceiling")
            if r.get("exact") is False:
                sentences.append(f"{case}, {r['who']}: wrong sums")
            if not memory_is_estimated(r):
                sentences.append(f"{case}: memory is {share_of_estimate(r)} of its estimate")
            if r["kind"] == EQUALITY and r.get("equal") is False:
                sentences.append(f"{case}: the models differ")
    return sentences


def not_judged(records: list[Record]) -> list[str]:
    """Describe the bounds that were not checked, because there was no time for a run."""
    return [
        f"{case}: {r['who']} had no time for a run after the first"
        for case, own in by_case(records).items()
        for r in own
        if r["bounds"] and r.get("runs") == []
    ]


def memory_is_estimated(record: Record) -> bool:
    """Whether the peak memory of a fit is close enough to its estimate; True without a bound."""
    if "memory_within" not in record or "peak_bytes" not in record or record["scale"] != "full":
        return True
    return is_estimated(record["peak_bytes"], record["estimated_bytes"])


def share_of_estimate(record: Record) -> str:
    """Peak memory of a fit divided by its estimate, and how far that may lie from 1."""
    if "peak_bytes" not in record or "estimated_bytes" not in record:
        return "–"
    within = f" (1 ± {record['memory_within']})" if "memory_within" in record else ""
    return f"{record['peak_bytes'] / record['estimated_bytes']:.2f}{within}"


def _too_slow(case: str, ours: Record, bounds: dict[str, float]) -> list[str]:
    """Describe missed bounds on gpuboost's own seconds, on the GPUs for which they hold."""
    seconds, gpu = ours.get("seconds", 0.0), str(ours.get("gpu", {}).get("name"))
    return [
        f"{case}: {seconds:.2f} s, {allowed} s allowed on {gpu}"
        for name, allowed in bounds.items()
        if name.startswith(SECONDS_ON)
        and name.removeprefix(SECONDS_ON) in gpu
        and seconds > allowed
    ]


def by_case(records: list[Record]) -> dict[str, list[Record]]:
    """Records of each case; those of other scales than full are separate."""
    found: dict[str, list[Record]] = {}
    for record in records:
        small = "" if record["scale"] == "full" else f" ({record['scale']})"
        found.setdefault(record["case"] + small, []).append(record)
    return found


def ratio(found: dict[str, Record], peer: str) -> float | None:
    """gpuboost's time divided by a peer's, or None if one of them is missing."""
    ours, theirs = found.get(OURS, {}).get("seconds"), found.get(peer, {}).get("seconds")
    return None if ours is None or theirs is None else ours / theirs


def seconds_and_score(record: Record | None) -> str:
    """One cell of the table: seconds, with the score in brackets."""
    if record is None or "seconds" not in record:
        return "–"
    score = f" ({record['score']:.4f})" if "score" in record else ""
    return f"{record['seconds']:.3f}{score}"


def gigabytes(size: int | None) -> str:
    """Format bytes as GB."""
    return "–" if size is None else f"{size / 1e9:.2f}"


def machine(records: list[Record]) -> str:
    """Devices and versions, one line each."""
    seen = {str(r["gpu"]): r["gpu"] for r in records if r.get("gpu")}
    return "\n".join(", ".join(f"{k} {v}" for k, v in facts.items()) for facts in seen.values())
