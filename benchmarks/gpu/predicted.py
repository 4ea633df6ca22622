"""Times that the cases should take on an H200, counted before there was one to measure.

``python -m benchmarks.gpu.predicted`` counts the bytes, additions and launches of each stage from
the shapes of the trees, divides them by what the machine can do, and writes
``benchmarks/results/gpu_predicted.json``. A stage is as slow as the slowest of its resources; what
the kernels lose besides is what a measurement will show.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES
from benchmarks.gpu.rates import Rates, Work
from benchmarks.gpu.tree_shapes import SHAPES, TreeShape
from benchmarks.report import markdown
from benchmarks.results import FOLDER
from benchmarks.settings import ADABOOST, BOOSTING, Setting
from gpuboost.backends.cost import (
    ADABOOST_LAUNCHES,
    BOOSTING_LAUNCHES,
    FOREST_LAUNCHES,
    TREE_LAUNCHES,
)

RESULT = FOLDER / "gpu_predicted.json"
WIDTH, TILE, PIECE_ROWS = 256, 32, 1024
LISTED_LAUNCHES = 2 + 3 + 4  # of a level: its histograms, splits and partition; others are policy
CELL_BYTES = 24  # of a histogram: weight, rows, one gradient
ADDITIONS = 1.5  # of two classes, for a row and feature: a weight, and half of the rows a gradient
ROUND_ADDITIONS = 3.0  # of boosting: a hessian, and the two halves of a gradient
PLANES = 3  # of a block's shared histogram
MOST_ROWS = 16384  # of a block
MANY_CLASSES = ((7, 1), (7, 64), (30, 16), (100, 8))  # classes and nodes of a level
LONG_SEGMENT = WIDTH // 5  # rows of one class whose sums are made in shared memory
CANDIDATE_OPERATIONS = 20  # float64 operations of one bin
OPEN_SLOTS = 1.2  # histograms for each node that is searched, where some siblings only help
FEW = 5  # features that a node of a classification forest looks at; its histogram has no others
MULTIPROCESSORS = 132
STRIDING_BLOCKS = 16.0 * MULTIPROCESSORS  # of a launch whose blocks take item after item
POLICY_TILE, FEW_TILES = 1024, 4  # items of a block at a time; up to so many are one chunk
SECTOR = 32  # bytes that are read together
# A row that is moved, beside its code: its number twice, a bit twice; then number, weight, target.
MOVED_BYTES = 4 + 2 / 8 + 6 * 4
# A node of two classes: as it is stored, written and read; read again to be numbered and to have
# its sums added up, sectors of its children among them; and as a finished tree has it.
STORED_BYTES, NUMBERING_BYTES, FINISHED_BYTES = 2 * 70, 6 * SECTOR, 56
FINISHING_OPERATIONS = 60  # float64 operations of a node: shares, impurity, threshold, gain
NUMBERING_LAUNCHES = 2  # nodes numbered, nodes finished; of several trees also these placed
# Bytes of a row in a round of boosting: its raw prediction and target are read, two narrow and two
# wide integers written; later the wide ones and its leaf are read, the raw prediction changed.
GRADIENT_BYTES, LEAF_BYTES = 12 + 8 + 16, 16 + 4 + 16


Stages = dict[str, Work]


def moved_bytes(rows: float, nodes: float, n_samples: int) -> float:
    """Bytes of the rows of a tree that a level of so many nodes moves.

    The rows of a node are in ascending order, so a sector of its column of codes is read once: for
    a code alone only where rows are few among those of the table.
    """
    return rows * MOVED_BYTES + min(rows * SECTOR, nodes * n_samples)


def histogram_of_level(
    rows: float, nodes: float, slots: float, looked: int, additions: float = ADDITIONS
) -> Work:
    """Histograms of ``looked`` features of nodes with so many rows, in room for ``slots``."""
    lanes = min(TILE, 1 << (looked - 1).bit_length())
    blocks = rows / MOST_ROWS + nodes
    return Work(
        bytes=rows * (SECTOR + 12) + slots * looked * WIDTH * CELL_BYTES,
        additions=rows * lanes * additions,
        words=blocks * lanes * WIDTH * PLANES * 2,
        atomics=min(rows * looked * 2, blocks * lanes * WIDTH * 2),
        launches=2,
    )


def histogram_of_classes(
    rows: float, nodes: float, slots: float, looked: int, n_classes: int
) -> Work:
    """The same of more than two classes, whose rows lie side by side in each node.

    A row is read once. A long segment, the rows of one class in a block, is flushed by a pass over
    the cells, in which those that are not zero are cleared and added to the totals; the rows of a
    short one are added to device memory one by one.
    """
    lanes = min(TILE, 1 << (looked - 1).bit_length())
    blocks = rows / MOST_ROWS + nodes
    segments = nodes * n_classes + rows / MOST_ROWS
    of_segment = rows / segments
    cells, filled = lanes * WIDTH, lanes * min(of_segment, WIDTH)
    flushed = segments if of_segment >= LONG_SEGMENT else 0.0
    totals = lanes * min(rows / blocks, WIDTH)
    return Work(
        bytes=rows * (SECTOR + 12) + slots * looked * WIDTH * 8 * (2 + n_classes),
        additions=rows * lanes,
        words=blocks * cells * 3 + flushed * (cells + 3 * filled),
        atomics=segments * filled + blocks * totals,
        launches=2,
    )


def fit_stages(shape: TreeShape, trees: int, rows: int, features: int) -> Stages:
    """Work of a fit, stage by stage.

    A forest's nodes get histograms of the features they look at, all from rows; a single tree's
    get all features, those of larger siblings by subtraction. Nodes of few rows are grown outside
    of levels.
    """
    single = trees == 1
    looked, siblings = (features, 0.5) if single else (FEW, 1.0)
    launched = TREE_LAUNCHES if single else FOREST_LAUNCHES
    numbering = NUMBERING_LAUNCHES + (not single)
    stages: Stages = {
        "binning": binning(rows, features),
        "drawing": Work(
            bytes=trees * rows * 40.0,
            atomics=trees * shape.rows[0],
            launches=launched.start - numbering,
        ),
        "histograms": Work(),
        "splits": Work(),
        "partition": Work(),
        "policy": Work(),
    }
    for depth, (level_rows, searched) in enumerate(zip(shape.rows, shape.large, strict=True)):
        slots = trees * searched * (OPEN_SLOTS if single else 1.0)
        built = trees * level_rows * (1.0 if depth == 0 else siblings)
        room = trees * 2.0**depth  # or less
        cells = slots * looked * WIDTH
        stages["histograms"] += histogram_of_level(built, slots * siblings, slots, looked)
        split = Work(cells * CELL_BYTES, operations=cells * CANDIDATE_OPERATIONS, launches=3)
        stages["splits"] += split + Work(blocks=min(room * looked, STRIDING_BLOCKS))
        moved = trees * moved_bytes(level_rows, searched, rows)
        stages["partition"] += Work(moved, launches=4)
        pieces = trees * level_rows / PIECE_ROWS
        policy = policy_of_level(trees * searched, pieces)
        # All but that which stores the nodes; those of many pieces are among a forest's.
        stages["policy"] += policy + Work(launches=launched.level - LISTED_LAUNCHES - 1)
    nodes, searches = float(trees * shape.n_nodes), OPEN_SLOTS * trees * looked
    return stages | {
        "small nodes": Work(small_searches=shape.small * searches),
        "tiny nodes": Work(tiny_searches=shape.tiny * searches),
        "finished trees": Work(
            bytes=nodes * (STORED_BYTES + NUMBERING_BYTES + FINISHED_BYTES),
            operations=nodes * FINISHING_OPERATIONS,
            nodes=2.0 * shape.n_nodes * -(-trees // MULTIPROCESSORS),  # a block numbers a tree
            launches=float(len(shape.rows) + numbering),
        ),
        "copy to the host": Work(host_bytes=nodes * FINISHED_BYTES),
    }


def policy_of_level(nodes: float, pieces: float) -> Work:
    """What the longest blocks of policy.cu and children.cu decide about.

    All take tiles of nodes and of pieces of rows side by side.
    """
    tiles = -(-(4.0 * nodes + pieces) // (POLICY_TILE * MULTIPROCESSORS))
    return Work(nodes=tiles * POLICY_TILE)


def sums_of_chunks(pieces: float) -> Work:
    """A launch of their own where there are more pieces than a few tiles."""
    return Work(launches=float(pieces > FEW_TILES * POLICY_TILE))


def boosting_levels(rows: int, setting: Setting) -> list[tuple[float, float]]:
    """Rows and nodes of each level that is launched.

    By depth trees are full. Of so many leaves the levels are those of one that was grown, and as
    many without nodes as there could be.
    """
    leaves = setting.boosting.max_leaves
    if leaves is None:
        depths = range(setting.max_depth or 0)
        return [(float(rows), min(2.0**level, float(rows))) for level in depths]
    shape = SHAPES[f"boosting, {leaves} leaves"]
    share = rows / shape.rows[0]
    grown = [(share * own, float(n)) for own, n in zip(shape.rows, shape.large, strict=True)]
    return grown + [(0.0, 0.0)] * (leaves - 1 - len(grown))


def boosting_stages(rows: int, features: int, setting: Setting) -> Stages:
    """Work of boosting. Of the rows of a level, those of smaller siblings are summed, half of them.

    A round is one recording. A level has blocks for all rows, wherever these are by then, or as
    many as take them in turn.
    """
    levels, rounds = boosting_levels(rows, setting), setting.n_estimators
    leaves = setting.boosting.max_leaves
    found: Stages = {
        "binning": binning(rows, features),
        "gradients": Work(
            bytes=rounds * rows * float(GRADIENT_BYTES),
            launches=float(rounds * (BOOSTING_LAUNCHES.start - NUMBERING_LAUNCHES)),
        ),
        "histograms": Work(),
        "splits": Work(),
        "partition": Work(),
        "policy": Work(),
    }
    for level, (own, nodes) in enumerate(levels):
        built = own * (1.0 if level == 0 else 0.5)
        cells = nodes * features * WIDTH
        of_round = {
            "histograms": histogram_of_level(built, nodes, nodes, features, ROUND_ADDITIONS),
            "splits": Work(
                bytes=cells * CELL_BYTES,
                operations=cells * CANDIDATE_OPERATIONS,
                blocks=min(nodes * features, STRIDING_BLOCKS),
                launches=3,
            ),
            "partition": Work(
                moved_bytes(own, nodes, rows),
                blocks=4.0 * min(rows / PIECE_ROWS, STRIDING_BLOCKS),
                launches=4,
            ),
            "policy": policy_of_level(nodes, own / PIECE_ROWS)
            + sums_of_chunks(own / PIECE_ROWS)
            + Work(launches=BOOSTING_LAUNCHES.level - LISTED_LAUNCHES + (leaves is not None)),
        }
        for name, work in of_round.items():
            found[name] += work.times(rounds)
    nodes = min(2.0 ** (len(levels) + 1), 2.0 * rows) if leaves is None else 2.0 * leaves
    of_node = STORED_BYTES + NUMBERING_BYTES + FINISHED_BYTES
    return found | {
        "leaves and raw predictions": Work(bytes=rounds * rows * float(LEAF_BYTES)),
        "finished trees": Work(
            bytes=rounds * nodes * of_node,
            operations=rounds * nodes * FINISHING_OPERATIONS,
            nodes=rounds * 2.0 * nodes,
            launches=float(rounds * NUMBERING_LAUNCHES),
        ),
        "copy to the host": Work(host_bytes=rounds * nodes * FINISHED_BYTES),
    }


def adaboost_stages(rows: int, features: int, rounds: int) -> Stages:
    """Work of AdaBoost with stumps: one node a round, and its two leaves judge all rows.

    A row's weight is read and written, its integer and its place in the list of rows written; then
    its code, its class and its weight tell the error. The host launches and reads rounds while the
    device is busy with others, and is done before it.
    """
    cells = features * WIDTH
    of_round = {
        "weights and rows": Work(bytes=rows * (8.0 + 8 + 4 + 4 + 4), launches=10),
        "histograms": histogram_of_level(rows, 1, 1, features),
        "splits": Work(
            bytes=cells * CELL_BYTES,
            operations=cells * CANDIDATE_OPERATIONS,
            blocks=features,
            launches=3,
        ),
        "partition": Work(bytes=moved_bytes(rows, 1, rows), launches=4),
        "policy": policy_of_level(1, rows / PIECE_ROWS)
        + sums_of_chunks(rows / PIECE_ROWS)
        + Work(launches=ADABOOST_LAUNCHES.of(1) - 24),
        "finished trees": Work(nodes=2.0 * 3, launches=NUMBERING_LAUNCHES),
        "errors": Work(bytes=rows * (1.0 + 4 + 8 + 1), launches=3),
        "copy to the host": Work(host_bytes=3.0 * FINISHED_BYTES),
    }
    whole = {name: work.times(rounds) for name, work in of_round.items()}
    return {"binning": binning(rows, features), **whole}


def replayed(stages: Stages) -> Stages:
    """Stages of rounds that are recorded; what is launched before the rounds is not."""
    return {
        name: work if name == "binning" else replace(work, launches=0.0, replays=work.launches)
        for name, work in stages.items()
    }


def binning(rows: int, features: int) -> Work:
    """Edges by radix sort of float32 columns, four passes, and codes in two layouts."""
    values = float(rows) * features
    return Work(bytes=values * (4 * 2 * 4 + 4 + 4), launches=20.0 * features)


def prediction_stages(rows: int, trees: int, depth: int, features: int) -> Stages:
    """Work of a prediction: a node and a value for every step, from shared memory or L1.

    Of 32 lanes that read anywhere, 3.4 on average want one bank.
    """
    steps = float(rows) * trees * depth
    return {"walk": Work(bytes=rows * (4.0 * features + 16), words=steps * 2 * 3.4, launches=1)}


@dataclass(frozen=True)
class Prediction:
    """Stages of a case, by the name of `cases.CASES`."""

    case: str
    stages: Stages

    def record(self, rates: Rates) -> dict[str, Any]:
        """As JSON."""
        found, total = {}, 0.0
        for name, work in self.stages.items():
            seconds, bound = work.seconds(rates)
            counts = {key: value for key, value in asdict(work).items() if value}
            found[name] = {"seconds": seconds, "bound": bound, "counts": counts}
            total += seconds
        return {"case": self.case, "seconds": total, "stages": found}


def predictions() -> list[Prediction]:
    """All cases, in the order of `cases.CASES`."""
    million, features = 1_000_000, 28
    whole = 11_000_000
    fits = (
        ("RandomForestClassifier 1M x 28, 100 trees of depth 16", "forest, depth 16", 100),
        ("RandomForestClassifier 1M x 28, 100 trees to purity", "forest, to purity", 100),
        ("ExtraTreesClassifier 1M x 28, 100 trees of depth 16", "extra-trees, depth 16", 100),
        ("ExtraTreesClassifier 1M x 28, 100 trees to purity", "extra-trees, to purity", 100),
        ("DecisionTreeClassifier 1M x 28, depth 8", "tree, depth 8", 1),
    )
    histograms = "one level of histograms, 11M x 28"
    level = histogram_of_level(whole, 1, 1, features)
    walk = prediction_stages(10_000_000, 500, 8, features)
    found = [
        Prediction(histograms, {"two classes, 1 node": level}),
        *(
            Prediction(histograms, {f"{k} classes, {nodes} node{'s' * (nodes > 1)}": work})
            for k, nodes in MANY_CLASSES
            for work in [histogram_of_classes(whole, nodes, nodes, features, k)]
        ),
        Prediction("prediction of 10M x 28 by 500 trees of depth 8", walk),
    ]
    for name, shape, trees in fits:
        stages = fit_stages(SHAPES[shape], trees, million, features)
        found.append(Prediction(name, stages))
    for case in CASES:
        setting, size = case.setting, (case.rows, case.features)
        if setting.family == BOOSTING:
            found.append(Prediction(case.name, replayed(boosting_stages(*size, setting))))
        if setting.family == ADABOOST:
            stages = adaboost_stages(*size, setting.n_estimators)
            found.append(Prediction(case.name, replayed(stages)))
    return found


def content(rates: Rates) -> dict[str, Any]:
    """What the file holds."""
    return {
        "benchmark": "gpu_predicted",
        "device": "NVIDIA H200",
        "measured": False,
        "rates": asdict(rates),
        "records": [prediction.record(rates) for prediction in predictions()],
    }


def text(found: dict[str, Any]) -> str:
    """A table of stages, and the assumptions."""
    rows = []
    for record in found["records"]:
        rows.append([record["case"], "all", seconds_in_words(record["seconds"]), ""])
        for name, stage in record["stages"].items():
            rows.append(["", name, seconds_in_words(stage["seconds"]), stage["bound"]])
    rates = ", ".join(f"{name} {rate:.3g}" for name, rate in found["rates"].items())
    table = markdown(["case", "stage", "predicted", "bound by"], rows)
    return (
        f"{table}\n\nOn an {found['device']}, not measured. Taken to be done in a second: {rates}."
    )


def seconds_in_words(seconds: float) -> str:
    """Seconds, milliseconds or microseconds."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def main(path: Path = RESULT) -> int:
    """Write the file and print the table."""
    found = content(Rates())
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(text(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
