"""The work of the stages of a fit, counted from the shapes of its trees."""

from __future__ import annotations

from benchmarks.gpu.predictions.kernel_work import (
    GRADIENTS,
    PIECE_ROWS,
    SECTOR,
    STRIDING_BLOCKS,
    TWO_CLASSES,
    WARP,
    Table,
    histograms,
    iterations,
    partition,
    policy,
    splits,
    subtrees,
    tiles,
)
from benchmarks.gpu.predictions.rates import MULTIPROCESSORS, Kernel, Stage, Work, bare
from benchmarks.gpu.predictions.tree_shapes import SHAPES, TreeShape
from benchmarks.suite.settings import Setting
from gpuboost.backends.cost_model import (
    BOOSTING_LAUNCHES,
    FOREST_LAUNCHES,
    SYNC_FREE_DEPTH,
    TREE_LAUNCHES,
    Launches,
)
from gpuboost.backends.cuda.growth.tree_arrays import NAMES

ADABOOST_LAUNCHES = Launches(21, 11)  # per round
# Launches of a level for histograms, splits and partition; the others belong to the policy.
LISTED_LAUNCHES = 2 + 3 + 4
OPEN_SLOTS = 1.2  # histograms per searched node; some are only made to find those of siblings
FEW = 5  # features that a node of a classification forest considers, and has histograms of
FEW_TILES = 4  # this many tiles of pieces form one chunk
# Bytes of a node with two classes: when it is stored (written and read), when it is numbered and
# its sums are added up (including sectors of its children), and in the finished tree.
STORED_BYTES, NUMBERING_BYTES, FINISHED_BYTES = 2 * 70, 6 * SECTOR, 56
NODE_SUMS = 2
FINISHING_OPERATIONS = 60  # float64 operations per node: probabilities, impurity, threshold, gain
NUMBERING_LAUNCHES = 2  # number the nodes, finish them; several trees are also placed
NUMBER_TILE = 1024
# Bytes of a row in a round of boosting: read the raw prediction and target, and write two narrow
# and two wide integers; later, read the wide ones and the leaf, and update the raw prediction.
DERIVATIVE_BYTES, INTEGER_BYTES, LEAF_BYTES = 16.0 + 16, 12.0 + 8 + 16, 16.0 + 4 + 16
REWEIGHING_LAUNCHES, OBJECTIVE_LAUNCHES = 10, 3  # of a round of AdaBoost
# Waits of the host, new arrays and passes over the values to bin a table, counted by a test.
# Columns with few values need fewer passes.
MANY_VALUES, FEW_VALUES = (11, 39, 6), (6, 24, 3)
# Bytes of a value: it is read in each pass, then read and coded.
VALUE_BYTES, CODED_BYTES = 4, 4 + 2
# Bytes of a column that are copied to the host or to the device: about 12,000 cells with values in
# the first two passes, and their weights; tables of about 20,000 cells in each further pass.
COUNTED_BYTES, TABLE_BYTES = 12_000 * (8 + 8), 20_000 * 5

# Copies of a batch to the host, each with a wait: the table, and one array per name.
COPIES = 1 + len(NAMES)

Stages = dict[str, Stage]


def empty_stages() -> Stages:
    """Empty stages, to which each level adds its work."""
    return {name: Stage() for name in ("histograms", "splits", "partition", "policy")}


def fit_stages(shape: TreeShape, trees: int, rows: int, features: int, random: bool) -> Stages:
    """Work of a fit by stage.

    Nodes of a forest get histograms of the features that they consider, all summed from rows. Nodes
    of a single tree get histograms of all features, those of larger siblings by subtraction. Nodes
    with few rows are grown outside the level loop. ``random`` means random thresholds.
    """
    single = trees == 1
    listed = features if single else FEW
    launched = TREE_LAUNCHES if single else FOREST_LAUNCHES
    numbering = NUMBERING_LAUNCHES + (not single)
    table = Table(rows, features, float(trees * rows))
    drawn = Work(bytes=trees * rows * 40.0, reductions=trees * shape.rows[0])
    stages: Stages = {
        "binning": binning(rows, features, MANY_VALUES),
        "drawing": Stage.of(drawn, bare(launched.start - numbering - 1)),
        **empty_stages(),
    }
    for depth, (own, nodes) in enumerate(zip(shape.rows, shape.large, strict=True)):
        level = _fit_level(table, float(own), nodes, trees, random, depth)
        for name, stage in level.items():
            stages[name] += stage
    asked = len(shape.rows) if len(shape.rows) > SYNC_FREE_DEPTH else 0
    stages["policy"] += waiting(asked)  # the host waits for the size of each level
    searches = OPEN_SLOTS * listed
    kind = "random " if random else ""
    return stages | {
        "small nodes": subtrees("small", kind, float(trees * shape.small), searches),
        "tiny nodes": subtrees("tiny", kind, float(trees * shape.tiny), searches),
        "finished trees": finished(trees, shape.n_nodes, len(shape.rows) * 2.0)
        + Stage.of(bare(float(len(shape.rows) + numbering - 2))),
        "copy to the host": copied(float(trees * shape.n_nodes)) + waiting(COPIES),
    }


def _fit_level(
    table: Table, own: float, searched: int, trees: int, random: bool, depth: int
) -> Stages:
    """Work of a level in which each tree searches ``searched`` nodes with ``own`` rows in all."""
    single = trees == 1
    siblings = 0.5 if single and depth else 1.0
    listed = table.features if single else FEW
    rows, nodes = trees * own, float(trees * searched)
    slots = nodes * (OPEN_SLOTS if single else 1.0)
    launched = TREE_LAUNCHES if single else FOREST_LAUNCHES
    kind = "random split" if random else "split by squares"
    return {
        "histograms": histograms(
            TWO_CLASSES, table, rows * siblings, slots * siblings, slots, listed, searched
        ),
        "splits": splits(kind, slots, listed, 1 - siblings, nodes),
        "partition": partition(table, rows, trees * table.gathered(own, searched)),
        # All launches except the one that stores the nodes.
        "policy": policy(
            launched.level - LISTED_LAUNCHES - 1, nodes, rows / PIECE_ROWS, 0.0 if single else nodes
        ),
    }


def finished(trees: float, nodes: float, depth: float) -> Stage:
    """Number the nodes, with one block per tree, and finish them, with one thread per node.

    ``depth`` is at least the number of levels.
    """
    numbered = tiles("nodes numbered", nodes / NUMBER_TILE + depth)
    summed = tiles("sums of inner nodes", NODE_SUMS * nodes / NUMBER_TILE + depth)
    waves = float(-(-trees // MULTIPROCESSORS))
    every = trees * nodes
    return Stage.of(
        (numbered + summed).times(waves) + Work(bytes=every * (STORED_BYTES + NUMBERING_BYTES)),
        Work(bytes=every * FINISHED_BYTES, operations=every * FINISHING_OPERATIONS),
    )


def copied(nodes: float) -> Stage:
    """Copy finished trees to the host."""
    return Stage.of(Kernel(Work(host_bytes=nodes * FINISHED_BYTES), 0.0))


def waiting(times: float) -> Stage:
    """Waits of the host for a few bytes from the device."""
    return Stage.of(Kernel(Work(waits=float(times)), 0.0))


def binning(rows: int, features: int, counted: tuple[int, int, int]) -> Stage:
    """Find bin edges by passes over all columns, between which the host decides, and make codes.

    The first two passes add the weight of each value to that of its cell. Additions are assumed to
    be as fast as to separate sectors, although many values of a warp can have the same cell.
    """
    waits, arrays, passes = counted
    values = float(rows) * features
    codes = iterations("codes of a row", values / WARP) + Work(bytes=values * CODED_BYTES)
    copied_bytes = features * (COUNTED_BYTES + (passes - 1.0) * TABLE_BYTES)
    return waiting(waits) + Stage.of(
        Kernel(Work(calls=float(arrays)), 0.0),
        Kernel(Work(searches=float(features) * passes / MANY_VALUES[2]), 0.0),
        Kernel(Work(host_bytes=copied_bytes), 0.0),
        Kernel(Work(bytes=values * VALUE_BYTES, reductions=values).times(2), 2.0),
        Kernel(Work(bytes=values * VALUE_BYTES * (passes - 2)), passes - 2.0),
        codes,
    )


def boosting_levels(rows: int, setting: Setting) -> list[tuple[float, float]]:
    """Rows and nodes of each level that is launched.

    Trees that are limited by depth are taken to be full. For trees that are limited by their number
    of leaves, the levels are those of a tree that was grown, followed by the empty levels that are
    launched as well.
    """
    leaves = setting.boosting.max_leaves
    if leaves is None:
        depths = range(setting.max_depth or 0)
        return [(float(rows), min(2.0**level, float(rows))) for level in depths]
    shape = SHAPES[f"boosting, {leaves} leaves"]
    share = rows / shape.rows[0]
    grown = [(share * own, float(n)) for own, n in zip(shape.rows, shape.large, strict=True)]
    return grown + [(0.0, 0.0)] * (leaves - 1 - len(grown))


def boosting_round(rows: int, features: int, setting: Setting) -> Stages:
    """Work of a round of boosting, which is one recording.

    Histograms sum the rows of smaller siblings, taken to be half of the rows of a level. Each level
    launches blocks for all rows, but at most `STRIDING_BLOCKS`, even if few rows are left.
    """
    levels, leaves = boosting_levels(rows, setting), setting.boosting.max_leaves
    table, warps = Table(rows, features, float(rows)), rows / WARP
    far = table.is_far
    gradients = Stage.of(
        iterations("gradients of log loss", warps, is_far=far)
        + Work(bytes=rows * DERIVATIVE_BYTES),
        iterations("gradients made integers", warps, is_far=far) + Work(bytes=rows * INTEGER_BYTES),
        bare(BOOSTING_LAUNCHES.start - NUMBERING_LAUNCHES - 2),
    )
    found: Stages = {"gradients": gradients, **empty_stages()}
    for depth, (own, nodes) in enumerate(levels):
        queue = int(leaves is not None)
        for name, stage in _boosting_level(table, own, nodes, depth, queue).items():
            found[name] += stage
    nodes = min(2.0 ** (len(levels) + 1), 2.0 * rows) if leaves is None else 2.0 * leaves
    added = iterations("leaves kept", warps / 4, is_far=far) + iterations(
        "leaves added", warps, is_far=far
    )
    return found | {
        "leaves and raw predictions": Stage.of(Kernel(added + Work(bytes=rows * LEAF_BYTES), 0.0)),
        "finished trees": finished(1.0, nodes, float(len(levels))),
        "copy to the host": copied(nodes),
    }


def _boosting_level(table: Table, own: float, nodes: float, depth: int, queue: int) -> Stages:
    """Work of a level in a round; ``queue`` is 1 if trees grow best first, else 0."""
    siblings = 0.5 if depth else 1.0
    pieces, features = own / PIECE_ROWS, table.features
    sums_of_chunks = int(pieces > FEW_TILES * 1024)  # one more launch if there are many pieces
    launches = BOOSTING_LAUNCHES.level - LISTED_LAUNCHES + queue + sums_of_chunks
    idle = min(table.n_samples / PIECE_ROWS, STRIDING_BLOCKS)
    return {
        "histograms": histograms(
            GRADIENTS, table, own * siblings, nodes * siblings, nodes, features, nodes
        ),
        "splits": splits("split by gradients", nodes, features, 1 - siblings, nodes),
        "partition": partition(table, own, table.gathered(own, nodes), idle),
        "policy": policy(launches, nodes, pieces),
    }


def adaboost_round(rows: int, features: int) -> Stages:
    """Work of a round of AdaBoost with a stump.

    For each row, the weight is read and written, and its integer and its position in the list of
    rows are written; then its code, class and weight are read to sum the error. The host launches
    and reads rounds while the device is busy with others, and takes less time.
    """
    listed = REWEIGHING_LAUNCHES + LISTED_LAUNCHES + NUMBERING_LAUNCHES + OBJECTIVE_LAUNCHES
    reweighed = iterations("classes reweighed", rows / WARP / 4)
    pieces = rows / PIECE_ROWS
    more = int(pieces > FEW_TILES * 1024)
    table = Table(rows, features, float(rows))
    return {
        "weights and rows": Stage.of(
            reweighed + Work(bytes=rows * (8.0 + 8 + 4 + 4 + 4)), bare(REWEIGHING_LAUNCHES - 1)
        ),
        "histograms": histograms(TWO_CLASSES, table, rows, 1, 1, features, 1),
        "splits": splits("split by squares", 1, features, 0.0, 1),
        "partition": partition(table, rows, table.gathered(rows, 1)),
        "policy": policy(ADABOOST_LAUNCHES.of(1) - listed + more, 1, pieces),
        "finished trees": finished(1.0, 3.0, 2.0),
        "errors": Stage.of(
            iterations("misses found", rows / WARP) + Work(bytes=rows * (1.0 + 4 + 8 + 1)),
            bare(OBJECTIVE_LAUNCHES - 1),
        ),
        "copy to the host": copied(3.0),
    }


def prediction_stages(rows: int, trees: int, depth: int, features: int) -> Stages:
    """Work of a prediction: each step reads a node and a value from shared memory or L1.

    If 32 lanes read random words, the busiest bank gets 3.4 of these reads on average.
    """
    steps = float(rows) * trees * depth
    shared = 4.0 * features * 257
    walk = iterations("step of a traversal", steps / WARP / 4, shared)
    return {
        "traversal": Stage.of(walk + Work(bytes=rows * (4.0 * features + 16), words=steps * 6.8))
    }
