"""The contract of `gpuboost.backends.protocol` once more, by loops over plain Python integers.

Recursive, a dictionary per histogram, every candidate tried: slow, and easy to check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from gpuboost.engine import criteria, randomness
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import ValueTarget
from gpuboost.engine.task import (
    LEAF,
    MISSING_LEFT,
    MISSING_RIGHT,
    MISSING_UNSEEN,
    ONE_HOT_LEVELS,
    ONLY_MISSING_RIGHT,
    GrownTree,
    GrowTask,
)
from gpuboost.engine.tree_rows import TreeRows


def word(x: int) -> np.ndarray:
    return np.array([x], dtype=np.uint64)


@dataclass
class Split:
    score: float
    feature: int
    left_codes: frozenset[int]
    missing: int
    bin: int = 0
    next_bin: int = 0
    draw: float = np.nan
    categories: tuple[int, int] | None = None  # left and occupied, as bit sets


@dataclass
class Node:
    rows: list[int]
    key: int
    depth: int
    sums: tuple[int, tuple[int, ...], int] = (0, (), 0)
    split: Split | None = None
    gain: float = -1.0
    bounds: tuple[float, float] = (-np.inf, np.inf)
    medians: tuple[tuple[int, int], ...] = ()
    path: frozenset[int] = frozenset()
    children: list[Node] = field(default_factory=list)


def with_left(split: Split, codes: frozenset[int]) -> Split:
    """The split with more categories on the left."""
    assert split.categories is not None
    left, full = split.categories
    bits = left | sum(1 << c for c in codes)
    return replace(split, left_codes=split.left_codes | codes, categories=(bits, full))


class NaiveTree:
    """One tree of a task."""

    def __init__(self, task: GrowTask, tree: int) -> None:
        self.task, self.tree, self.rows = task, tree, task.rows_of(tree)
        self.options, self.matrix = task.options, task.matrix
        self.missing_code = task.matrix.missing_code
        inside = [int(i) for i in np.flatnonzero(self.rows.mask)]
        self.root = Node(inside, root_key(task.seed, tree), 0)
        self.h_root = self.sum(inside)[0]
        fraction = self.options.min_weight_fraction_leaf
        share = int(np.ceil(np.float64(fraction) * np.float64(self.h_root)))
        self.min_hessian = max(self.options.min_hessian, share)
        share = np.float64(self.options.min_category_fraction) * np.float64(self.h_root)
        self.min_category = int(np.ceil(share))
        largest = self.options.regularisation.max_value
        self.root.bounds = (-largest, largest)

    def medians(self, rows: list[int]) -> tuple[tuple[int, int], ...]:
        """Ranks below and above the median of each output, by going up one by one."""
        target, found = self.task.target, []
        own = self.rows.weight if target.median_weight is None else target.median_weight
        total = sum(int(own[i]) for i in rows)
        for k in range(target.n_channels):
            reached, lower, upper = 0, None, None
            for rank in sorted({int(target.ranks[i, k]) for i in rows}):
                reached += sum(int(own[i]) for i in rows if target.ranks[i, k] == rank)
                if lower is None and 2 * reached >= total:
                    lower = rank
                if upper is None and 2 * reached > total:
                    upper = rank
            found.append((lower, upper))
        return tuple(found)

    def sign(self, i: int, k: int, medians: tuple[tuple[int, int], ...]) -> int:
        """On which side of a node's median a row is."""
        rank, (lower, upper) = int(self.task.target.ranks[i, k]), medians[k]
        if lower == upper:
            return (rank > lower) - (rank < lower)
        return 1 if rank >= upper else -1 if rank <= lower else 0

    def sum(
        self, rows: list[int], medians: tuple[tuple[int, int], ...] = ()
    ) -> tuple[int, tuple[int, ...], int]:
        """Hessian, gradients (of a node with these medians) and count of some rows."""
        target, weight = self.task.target, self.rows.weight
        g = [0] * target.n_channels
        for i in rows:
            if self.rows.gradient is not None:
                for k in range(target.n_channels):
                    g[k] += int(self.rows.gradient[i, k])
            elif target.by_median:
                for k in range(len(medians)):
                    g[k] += int(weight[i]) * self.sign(i, k, medians)
            elif isinstance(target, ValueTarget):
                for k in range(target.n_channels):
                    g[k] += int(weight[i]) * int(target.values[i, k])
            elif target.n_channels == 1:
                g[0] += int(weight[i]) * int(target.classes[i] == 1)
            else:
                g[int(target.classes[i])] += int(weight[i])
        return sum(int(weight[i]) for i in rows), tuple(g), len(rows)

    def value(self, g: int, h: int, bounds: tuple[float, float]) -> np.ndarray:
        """Value of a part in one channel."""
        l1, l2 = self.options.regularisation.l1, self.options.regularisation.l2
        value = criteria.newton_value(np.array([float(g)]), np.array([float(h)]), l1, l2)
        return criteria.bounded(value, *bounds)

    def newton_gain(self, left: tuple, node: Node, f: int) -> float:
        """Gain of a left part by `criteria.NEWTON`, -1 if values would not be in order."""
        regular = self.options.regularisation
        (hl, gl, _), (h, g, _) = left, node.sums
        sign = 0 if regular.monotonic is None else regular.monotonic[f]
        sides = [np.zeros(1) for _ in range(3)]
        for a, b in zip(gl, g, strict=True):
            parts = ((a, hl), (b - a, h - hl), (b, h))
            values = [self.value(*part, node.bounds) for part in parts]
            if (sign > 0 and values[0] > values[1]) or (sign < 0 and values[0] < values[1]):
                return -1.0
            for i, ((x, y), v) in enumerate(zip(parts, values, strict=True)):
                x, y = np.array([float(x)]), np.array([float(y)])
                sides[i] = sides[i] + criteria.newton_term(x, y, v, regular.l1, regular.l2)
        score = float(criteria.newton_gain(*sides)[0])
        return score if score >= 0 else -1.0

    def score(self, left: tuple, of: Node, f: int) -> float:
        """Gain of a left part, -1 if it is not valid."""
        node = of.sums
        (hl, gl, cl), (h, g, c) = left, node
        if min(hl, h - hl) < self.min_hessian or min(cl, c - cl) < self.options.min_samples_leaf:
            return -1.0
        if self.options.criterion == criteria.NEWTON:
            return self.newton_gain(left, of, f)
        fhl, fh = word(0).astype(float) + hl, word(0).astype(float) + h
        pairs = [(np.array([float(a)]), np.array([float(b)])) for a, b in zip(gl, g, strict=True)]
        if self.options.criterion == criteria.VARIANCE:
            terms = np.zeros(1)
            for a, b in pairs:
                terms = terms + criteria.variance_term(a, b, fhl, fh)
            return float(criteria.variance_gain(terms, fhl, fh - fhl)[0])
        if self.options.criterion == criteria.POISSON:
            terms = np.zeros(1)
            for a, b in pairs:
                terms = terms + criteria.poisson_term(a, b, fhl, fh)
            return float(criteria.poisson_gain(terms)[0])
        if len(pairs) == 1 and self.task.target.by_class:
            pairs = [(fhl - pairs[0][0], fh - pairs[0][1]), pairs[0]]
        if self.options.criterion == criteria.TWOING:
            total = np.zeros(1)
            for a, b in pairs:
                total = total + np.abs(a * fh - b * fhl)
            return float((total * total / (fhl * (fh - fhl)) / fh)[0])
        if self.options.criterion == criteria.MISCLASSIFICATION:
            parts = [max(a[0] for a, _ in pairs), max((b - a)[0] for a, b in pairs)]
            return float((parts[0] + parts[1]) - max(b[0] for _, b in pairs))
        sides = [np.zeros(1) for _ in range(3)]
        for a, b in pairs:
            for i, x in enumerate((a, b - a, b)):
                sides[i] = sides[i] + criteria.entropy_term(x)
        own = criteria.entropy_node(sides[2], fh)
        return float(criteria.entropy_gain(sides[0], sides[1], own, fhl, fh - fhl)[0])

    def is_leaf(self, node: Node) -> bool:
        h, g, count = node.sums
        o = self.options
        if node.depth >= o.max_depth or count < max(o.min_samples_split, 2 * o.min_samples_leaf):
            return True
        if h < 2 * self.min_hessian:
            return True
        target = self.task.target
        if self.rows.gradient is not None:
            return False
        if target.by_median:
            heavy = [i for i in node.rows if self.rows.weight[i] > 0]
            outputs = range(target.n_channels)
            return all(len({self.sign(i, k, node.medians) for i in heavy}) <= 1 for k in outputs)
        if isinstance(target, ValueTarget):
            seen = target.values[[i for i in node.rows if self.rows.weight[i] > 0]]
            return bool((seen.min(axis=0) == seen.max(axis=0)).all())
        return g[0] in (0, h) if len(g) == 1 else max(g) == h

    def find(self, node: Node) -> None:
        """The node's best split."""
        if self.task.target.by_median:
            node.medians = self.medians(node.rows)
        node.sums = self.sum(node.rows, node.medians)
        if self.is_leaf(node):
            return
        features = self.features(node)
        rank = {f: int(randomness.feature_rank(word(node.key), word(f))[0]) for f in features}
        if not self.options.hashed_order:
            rank = {f: f for f in features}
        could, best = False, None
        for slot, f in enumerate(sorted(features, key=rank.__getitem__)):
            if slot >= self.options.max_features and could:
                break
            found, splittable = self.best_of_feature(node, f)
            could = could or splittable
            if (
                found is not None
                and found.score >= 0
                and (best is None or found.score > best.score)
            ):
                best = found
        if best is None:
            return
        h = np.float64(node.sums[0])
        gain = best.score / h if self.options.criterion == criteria.VARIANCE else best.score
        decrease = (
            gain * self.task.target.gain_unit(self.options.criterion) / np.float64(self.h_root)
        )
        if self.options.needs_gain and gain == 0:
            return
        if decrease + 2.0**-52 >= self.options.min_impurity_decrease:
            node.split, node.gain = best, float(gain)

    def features(self, node: Node) -> list[int]:
        """Features that the node may look at."""
        features = [int(f) for f in self.task.tree_features(self.tree)]
        key = randomness.level_key(word(self.root.key), word(node.depth))
        features.sort(key=lambda f: int(randomness.feature_rank(key, word(f))[0]))
        features = features[: self.options.level_features]
        if self.options.interactions is None:
            return features
        open_groups = [set(g) for g in self.options.interactions if node.path <= set(g)]
        return [f for f in features if any(f in g for g in open_groups)]

    def best_of_feature(self, node: Node, f: int) -> tuple[Split | None, bool]:
        """The best split by one feature, and whether it could split at all."""
        bins: dict[int, list[int]] = {}
        for i in node.rows:
            bins.setdefault(int(self.matrix.codes[f, i]), []).append(i)
        heavy = {c: rows for c, rows in bins.items() if self.sum(rows)[0] > 0}
        if len(heavy) < 2:
            return None, False
        rare = self.rare_categories(f, heavy)
        missing = [i for c in (*rare, self.missing_code) for i in heavy.get(c, ())]
        occupied = sorted(set(heavy) - {self.missing_code})
        best: Split | None = None
        for split in self.candidates(node, f, occupied, bins):
            rows = [i for c in split.left_codes for i in bins.get(c, ())]
            options = [(MISSING_RIGHT if missing else MISSING_UNSEEN, rows)]
            other = any(c not in split.left_codes for c in set(occupied) - rare)
            if missing and other:
                options.append((MISSING_LEFT, rows + missing))
            few = self.sum(missing)[0] < self.min_category
            if self.sorts(f) and not set(occupied) - rare - split.left_codes and few:
                options = []
            if missing and self.options.random_thresholds:
                left = int(randomness.missing_goes_left(word(node.key), word(f))[0])
                options = options[left : left + 1]
            for direction, left in options:
                score = self.score(self.sum(left, node.medians), node, f)
                if best is None or score > best.score:
                    best = replace(split, score=score, missing=direction)
        if best is not None and rare and best.missing == MISSING_LEFT:
            best = with_left(best, rare)
        return best, True

    def sorts(self, f: int) -> bool:
        """Whether the categories of a feature are put in an order."""
        mapper = self.matrix.mapper
        many = mapper.is_categorical[f] and mapper.n_bins[f] > ONE_HOT_LEVELS
        return bool(many and not self.options.random_thresholds)

    def rare_categories(self, f: int, heavy: dict) -> frozenset[int]:
        """Categories that go where missing values go."""
        if not self.sorts(f):
            return frozenset()
        codes = set(heavy) - {self.missing_code}
        return frozenset(c for c in codes if self.sum(heavy[c])[0] < self.min_category)

    def candidates(self, node: Node, f: int, occupied: list[int], bins: dict) -> list[Split]:
        """Left parts in the order in which ties are broken."""
        mapper, codes = self.matrix.mapper, range(self.missing_code)
        if not mapper.is_categorical[f]:
            if self.options.random_thresholds:
                return [self.random_threshold(node, f, occupied)]
            following = [*occupied[1:], ONLY_MISSING_RIGHT]
            return [
                Split(-1.0, f, frozenset(c for c in codes if c <= b), 0, b, after)
                for b, after in zip(occupied, following, strict=True)
            ]
        sets = self.category_sets(node, f, occupied, bins)
        full = sum(1 << c for c in occupied)
        return [
            Split(-1.0, f, left, 0, categories=(sum(1 << c for c in left), full)) for left in sets
        ]

    def random_threshold(self, node: Node, f: int, occupied: list[int]) -> Split:
        centre, low, high = self.matrix.mapper.center[f], occupied[0], occupied[-1]
        if low == high:
            return Split(-1.0, f, frozenset(range(low + 1)), 0, low, ONLY_MISSING_RIGHT)
        u = randomness.threshold_draw(word(node.key), word(f))
        draw = float((centre[low] * (1.0 - u) + centre[high] * u)[0])
        b = max([c for c in range(low, high) if centre[c] <= draw], default=low)
        return Split(-1.0, f, frozenset(range(b + 1)), 0, b, b + 1, draw)

    def category_sets(
        self, node: Node, f: int, occupied: list[int], bins: dict
    ) -> list[frozenset[int]]:
        if self.options.random_thresholds:
            bits = {
                c: int(randomness.category_goes_left(word(node.key), word(f), word(c))[0])
                for c in occupied
            }
            left = frozenset(c for c in occupied if bits[c])
            return [left if left and len(left) < len(occupied) else frozenset(occupied[:1])]
        if self.matrix.mapper.n_bins[f] <= ONE_HOT_LEVELS:
            return [frozenset([c]) for c in occupied]
        g = node.sums[1]
        channel = None if not self.task.target.by_class else g.index(max(g))

        def ratio(code: int) -> tuple[float, int]:
            h, own, _ = self.sum(bins[code], node.medians)
            return float(sum(own) if channel is None else own[channel]) / float(h), code

        rare = self.rare_categories(f, {c: bins[c] for c in occupied})
        order = sorted(set(occupied) - rare, key=ratio)
        return [frozenset(order[: b + 1]) for b in range(len(order))]

    def expand(self, node: Node) -> None:
        """Split a node by its split and find those of its children."""
        split = node.split
        assert split is not None
        codes = self.matrix.codes[split.feature]
        sides: tuple[list[int], list[int]] = ([], [])
        for i in node.rows:
            code = int(codes[i])
            missing = code == self.missing_code
            left = split.missing == MISSING_LEFT if missing else code in split.left_codes
            sides[not left].append(i)
        turns = (randomness.left_key, randomness.right_key)
        for side, (rows, turn) in enumerate(zip(sides, turns, strict=True)):
            child = Node(rows, int(turn(word(node.key))[0]), node.depth + 1)
            child.path = node.path | {split.feature}
            child.bounds = self.child_bounds(node, sides, side)
            self.find(child)
            node.children.append(child)

    def child_bounds(self, node: Node, sides: tuple, side: int) -> tuple[float, float]:
        """A monotonic split puts a bound between its children."""
        directions, split = self.options.regularisation.monotonic, node.split
        sign = 0 if directions is None or split is None else directions[split.feature]
        if sign == 0 or self.options.criterion != criteria.NEWTON:
            return node.bounds
        sums = [self.sum(rows) for rows in sides]
        values = [self.value(g[0], h, node.bounds) for h, g, _ in sums]
        between = float(criteria.middle(*values)[0])
        above = (side == 1) == (sign > 0)
        return (between, node.bounds[1]) if above else (node.bounds[0], between)

    def grow(self) -> GrownTree:
        self.find(self.root)
        waiting, n_leaves = [self.root], 1
        while True:
            waiting = [n for n in waiting if n.split is not None]
            if not waiting or n_leaves >= self.options.max_leaf_nodes:
                break
            node = min(waiting, key=lambda n: (-n.gain, n.key))
            waiting.remove(node)
            self.expand(node)
            waiting += node.children
            n_leaves += 1
        return self.collect()

    def collect(self) -> GrownTree:
        nodes = [self.root]
        for node in nodes:
            nodes += node.children
        place = {id(node): i for i, node in enumerate(nodes)}
        inner = [n.split if n.children else None for n in nodes]
        sets = [s.categories for s in inner if s and s.categories]
        masks = [
            [(bits >> (32 * w)) & 0xFFFFFFFF for bits in pair for w in range(8)] for pair in sets
        ]
        is_set = np.array([bool(s and s.categories) for s in inner])
        return GrownTree(
            feature=np.array([s.feature if s else LEAF for s in inner], np.int32),
            bin=np.array([s.bin if s else 0 for s in inner], np.int16),
            next_bin=np.array([s.next_bin if s else 0 for s in inner], np.int16),
            draw=np.array([s.draw if s else np.nan for s in inner]),
            missing=np.array([s.missing if s else 0 for s in inner], np.int8),
            left=np.array([place[id(n.children[0])] if n.children else 0 for n in nodes], np.int32),
            gain=np.array([n.gain if n.children else 0.0 for n in nodes]),
            category=np.where(is_set, np.cumsum(is_set) - 1, -1).astype(np.int32),
            masks=np.array(masks, np.uint32).reshape(-1, 16),
            count=np.array([n.sums[2] for n in nodes], np.int64),
            hessian=np.array([n.sums[0] for n in nodes], np.int64),
            sums=np.array([self.leaf_sums(n, self.rows) for n in nodes], np.int64),
        )

    def median_sums(self, node: Node) -> list[int]:
        """Medians, and what deviations from them are made of."""
        target, own = self.task.target, self.rows
        found = [rank for pair in node.medians for rank in pair]
        signed = [(k, p) for k in range(target.n_channels) for p in (2 * k, 2 * k + 1, -2, -1)]
        for k, p in [*signed, (None, -2), (None, -1)]:
            total = 0
            for i in node.rows:
                sign = 1 if k is None else self.sign(i, k, node.medians)
                total += sign * int(target.wide[i, p]) * (int(own.weight[i]) if own.draws else 1)
            found.append(total)
        return found

    def leaf_sums(self, node: Node, own: TreeRows) -> list[int]:
        target, rows = self.task.target, node.rows
        if target.by_median:
            return self.median_sums(node)
        wide = target.wide if own.wide is None else own.wide
        if wide is None:
            wide = np.ones((len(own.weight), 1), np.int64)
        width = wide.shape[1]
        total = [0] * (width * target.n_classes)
        for i in rows:
            at = width * int(target.classes[i]) if target.by_class else 0
            for p in range(width):
                total[at + p] += int(wide[i, p]) * (int(own.weight[i]) if own.draws else 1)
        return total


class NaiveBackend:
    """Grows by `NaiveTree`; predicts nothing."""

    name = "naive"

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        for tree in task.trees:
            yield tree, NaiveTree(task, tree).grow()
