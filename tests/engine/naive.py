"""A second implementation of the contract in `gpuboost.backends.protocol`, in plain Python.

It loops over Python integers, uses a dictionary per histogram and tries every candidate, so it is
slow and easy to check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuboost.engine import criteria, newton, randomness
from gpuboost.engine.task import (
    LEAF,
    MISSING_LEFT,
    MISSING_RIGHT,
    MISSING_UNSEEN,
    ONE_HOT_CATEGORIES,
    ONLY_MISSING_RIGHT,
    GrownTree,
    GrowTask,
)
from tests.engine.naive_sums import NaiveSums, Node, Split, word


def with_left(split: Split, codes: frozenset[int]) -> Split:
    """A copy of ``split`` with ``codes`` added to the left side."""
    assert split.categories is not None
    left, full = split.categories
    bits = left | sum(1 << c for c in codes)
    return replace(split, left_codes=split.left_codes | codes, categories=(bits, full))


class NaiveTree(NaiveSums):
    """Grows one tree of a task."""

    def find(self, node: Node) -> None:
        """Find the best split of a node."""
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
        """The candidate features of a node."""
        features = [int(f) for f in self.task.tree_features(self.tree)]
        key = randomness.level_key(word(self.root.key), word(node.depth))
        features.sort(key=lambda f: int(randomness.feature_rank(key, word(f))[0]))
        features = features[: self.options.level_features]
        if self.options.interactions is None:
            return features
        open_groups = [set(g) for g in self.options.interactions if node.path <= set(g)]
        return [f for f in features if any(f in g for g in open_groups)]

    def best_of_feature(self, node: Node, f: int) -> tuple[Split | None, bool]:
        """The best split on a feature, and whether the feature has two occupied bins."""
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
            one_value = not self.matrix.mapper.is_categorical[f] and len(occupied) == 1
            if missing and self.options.random_thresholds and not one_value:
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
        """Whether the categories of a feature are sorted by their means."""
        mapper = self.matrix.mapper
        many = mapper.is_categorical[f] and mapper.n_bins[f] > ONE_HOT_CATEGORIES
        return bool(many and not self.options.random_thresholds)

    def rare_categories(self, f: int, heavy: dict) -> frozenset[int]:
        """Rare categories, which are treated as missing values."""
        if not self.sorts(f):
            return frozenset()
        codes = set(heavy) - {self.missing_code}
        return frozenset(c for c in codes if self.sum(heavy[c])[0] < self.min_category)

    def candidates(self, node: Node, f: int, occupied: list[int], bins: dict) -> list[Split]:
        """Candidate splits; the first of equal score wins."""
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
        mapper = self.matrix.mapper
        centre = mapper.centers[mapper.first[f] :]
        low, high = occupied[0], occupied[-1]
        u = randomness.threshold_draw(word(node.key), word(f))
        draw = float((centre[low] * (1.0 - u) + centre[high] * u)[0])
        if low == high:
            return Split(-1.0, f, frozenset(range(low + 1)), 0, low, ONLY_MISSING_RIGHT, draw)
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
        if self.matrix.mapper.n_bins[f] <= ONE_HOT_CATEGORIES:
            return [frozenset([c]) for c in occupied]
        g = node.sums[1]
        target, channel = self.task.target, None
        if target.by_class or target.scored_together < target.n_channels:
            channel = g.index(max(g))

        def ratio(code: int) -> tuple[float, int]:
            h, own, _ = self.sum(bins[code], node.medians)
            return float(sum(own) if channel is None else own[channel]) / float(h), code

        rare = self.rare_categories(f, {c: bins[c] for c in occupied})
        order = sorted(set(occupied) - rare, key=ratio)
        return [frozenset(order[: b + 1]) for b in range(len(order))]

    def expand(self, node: Node) -> None:
        """Create the children of a node, and find their splits."""
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
        """Bounds on a child's value; a monotonic split adds one between its children."""
        directions, split = self.options.regularisation.monotonic, node.split
        sign = 0 if directions is None or split is None else directions[split.feature]
        if sign == 0 or self.options.criterion != criteria.NEWTON:
            return node.bounds
        sums = [self.sum(rows) for rows in sides]
        values = [self.value(g[0], h, node.bounds) for h, g, _ in sums]
        between = float(newton.middle(*values)[0])
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


class NaiveBackend:
    """A backend that grows trees with `NaiveTree` and does not predict."""

    name = "naive"

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        for tree in task.trees:
            yield tree, NaiveTree(task, tree).grow()
