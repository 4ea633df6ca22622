"""The table and the plots of the growth benchmark."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.peers.peers import OURS
from benchmarks.report.markdown import Content, markdown
from benchmarks.speed.growth import exponents, misses, seconds_of
from benchmarks.suite.growth_cases import DEPTH, PEERS, SIZES, title

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def growth_table(content: Content) -> str:
    """A plot, a table and the exponents of each dimension."""
    records = content["records"]
    parts = [_section(content, name) for name in SIZES if seconds_of(records, name, OURS)]
    missed = [sentence for name in SIZES for sentence in misses(records, name)]
    note = (
        "Seconds of a fit, medians of alternating runs, each library with two threads or one, "
        "whichever was faster; a dash means that it was estimated to exceed the budget. The "
        "exponent p of c * size^p is that of the larger half of the sizes. Over rows and columns, "
        "gpuboost's may be 0.05 above the smallest.\n"
        f"Missed bounds: {'; '.join(missed) or 'none'}."
    )
    return "\n\n".join([*parts, note])


def _section(content: Content, dimension: str) -> str:
    records = content["records"]
    found = {peer: seconds_of(records, dimension, peer) for peer in PEERS}
    peers = [peer for peer in PEERS if found[peer]]
    rows = [
        [f"{size:,}", *(_seconds(found[peer].get(size)) for peer in peers)] for size in found[OURS]
    ]
    own = exponents(records, dimension)
    rows.append(["exponent", *(_exponent(own.get(peer)) for peer in peers)])
    return (
        f"![Seconds over {dimension}](images/growth_{dimension}.svg)\n\n"
        f"{title(dimension)}:\n\n{markdown([dimension, *peers], rows)}"
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _exponent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def draw_growth(content: Content, folder: Path = IMAGES) -> list[Path]:
    """Draw seconds over sizes, a file for each dimension that was measured."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9}
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for dimension in SIZES:
        found = {peer: seconds_of(content["records"], dimension, peer) for peer in PEERS}
        if not found[OURS]:
            continue
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for peer, own in found.items():
            if own:
                wide = 2.5 if peer == OURS else 1.0
                axes.plot(list(own), list(own.values()), "o-", label=peer, lw=wide, ms=3)
        scale = "linear" if dimension == DEPTH else "log"
        axes.set(xscale=scale, yscale="log", xlabel=dimension, ylabel="seconds")
        axes.set_title(title(dimension), fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        paths.append(folder / f"growth_{dimension}.svg")
        figure.savefig(paths[-1], metadata={"Date": None})
        plt.close(figure)
    return paths
