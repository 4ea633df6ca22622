"""Sums of nodes and scores of splits, computed by loops over Python integers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuboost.engine import criteria, newton
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import TreeRows, ValueTarget
from gpuboost.engine.task import GrowTask


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
    categories: tuple[int, int] | None = None  # left and occupied codes, as bit sets


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


class NaiveSums:
    """Sums over the rows of one tree, and the scores and limits computed from them."""

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
        """Ranks below and above the median of each output, found by counting upwards."""
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
        """Side of the node's median that a row is on."""
        rank, (lower, upper) = int(self.task.target.ranks[i, k]), medians[k]
        if lower == upper:
            return (rank > lower) - (rank < lower)
        return 1 if rank >= upper else -1 if rank <= lower else 0

    def sum(
        self, rows: list[int], medians: tuple[tuple[int, int], ...] = ()
    ) -> tuple[int, tuple[int, ...], int]:
        """Hessian, gradients (with respect to the given medians) and count of some rows."""
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
        """Value of a node in one channel."""
        l1, l2 = self.options.regularisation.l1, self.options.regularisation.l2
        value = newton.newton_value(np.array([float(g)]), np.array([float(h)]), l1, l2)
        return newton.bounded(value, *bounds)

    def newton_gain(self, left: tuple, node: Node, f: int) -> float:
        """Gain of a split by `criteria.NEWTON`; -1 if it violates a monotonic constraint."""
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
                sides[i] = sides[i] + newton.newton_term(x, y, v, regular.l1, regular.l2)
        score = float(newton.newton_gain(*sides)[0])
        return score if score >= 0 else -1.0

    def score(self, left: tuple, of: Node, f: int) -> float:
        """Score of a split; -1 if it is not valid."""
        node = of.sums
        (hl, gl, cl), (h, g, c) = left, node
        if min(hl, h - hl) < self.min_hessian or min(cl, c - cl) < self.options.min_samples_leaf:
            return -1.0
        if self.options.criterion == criteria.NEWTON:
            return self.newton_gain(left, of, f)
        fhl, fh = word(0).astype(float) + hl, word(0).astype(float) + h
        pairs = [(np.array([float(a)]), np.array([float(b)])) for a, b in zip(gl, g, strict=True)]
        target, size = self.task.target, self.task.target.scored_together
        if len(pairs) == 1 and target.by_class and self.options.criterion != criteria.VARIANCE:
            pairs, size = [(fhl - pairs[0][0], fh - pairs[0][1]), pairs[0]], 2
        scores = [self.score_of(pairs[k : k + size], fhl, fh) for k in range(0, len(pairs), size)]
        return sum(scores[1:], scores[0])

    def score_of(self, pairs: list, fhl: np.ndarray, fh: np.ndarray) -> float:
        """Score of the channels of one output, given their sums on the left and in the node."""
        if self.options.criterion == criteria.VARIANCE:
            terms = np.zeros(1)
            for a, b in pairs:
                terms = terms + criteria.variance_term(a, b, fhl, fh)
            return float(criteria.variance_gain(terms, fhl, fh - fhl)[0])
        if self.options.criterion == criteria.POISSON:
            terms = np.zeros(1)
            for a, b in pairs:
                terms = terms + criteria.poisson_term(a, b, fhl, fh)
            return float(terms[0]) if terms[0] >= 0.0 else -1.0
        if self.options.criterion == criteria.TWOING:
            total = np.zeros(1)
            for a, b in pairs:
                total = total + np.abs(a * fh - b * fhl)
            return float((total * total / (fhl * (fh - fhl)) / fh)[0])
        if self.options.criterion == criteria.MISCLASSIFICATION:
            parts = [max(a[0] for a, _ in pairs), max((b - a)[0] for a, b in pairs)]
            return float((parts[0] + parts[1]) - max(b[0] for _, b in pairs))
        if self.options.criterion == criteria.ENTROPY:
            sides = [np.zeros(1) for _ in range(3)]
            for a, b in pairs:
                for i, x in enumerate((a, b - a, b)):
                    sides[i] = sides[i] + criteria.entropy_term(x)
            own, of_left, of_right = (criteria.entropy_term(x) for x in (fh, fhl, fh - fhl))
            gain = ((sides[0] + sides[1]) - (of_left + of_right)) - (sides[2] - own)
            return max(float(gain[0]), 0.0)
        raise NotImplementedError(f"criterion {self.options.criterion}")

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

    def median_sums(self, node: Node) -> list[int]:
        """Medians of a node, and the sums from which its deviation is computed."""
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
