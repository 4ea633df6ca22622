"""Markdown tables, and the captions below them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Content = dict[str, Any]


def caption(content: Content) -> str:
    """Machine, versions and dates of a result file."""
    machine, versions = content["machine"], content["machine"]["versions"]
    used = [f"{name} {versions[name]}" for name in versions if name not in ("scipy", "pandas")]
    dates = sorted({record["date"] for record in content["records"]})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    memory = f", {machine['memory_gb']} GB" if machine["memory_gb"] else ""
    return (
        f"*{machine['cpu']}, {machine['cores']} cores{memory}, {machine['system']}, "
        f"Python {machine['python']}, {', '.join(used)}; {span}.*"
    )


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Make a Markdown table; the first column is aligned left, the others right."""
    names = list(header)
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def threads_of(records: Iterable[Content]) -> str:
    """The numbers of threads in some records of times, for a sentence."""
    records = list(records)
    counts = sorted({record["n_jobs"] for record in records})
    text = f"{' or '.join(map(str, counts))} threads"
    found = [
        (each.get("n_jobs"), r["n_jobs"]) for r in records for each in r.get("peers", {}).values()
    ]
    if any(own is not None and own < planned for own, planned in found):
        return f"{text}, or one thread where a peer was faster with it"
    return f"{text} for every library"
