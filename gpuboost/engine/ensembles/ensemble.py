"""All trees of a model in one struct of arrays, from which predictions are made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain

import numpy as np

from gpuboost.engine.bins import BinMapper
from gpuboost.engine.ensembles.compact import compacted, expanded, offsets
from gpuboost.engine.ensembles.joining import JoinedColumn, joined
from gpuboost.engine.growth.tree import TREE_TYPES, NodeArrays, Tree


@dataclass(frozen=True, kw_only=True)
class Ensemble(NodeArrays):
    """Concatenated trees: the arrays of `NodeArrays`, and the start of each tree in the arrays.

    Attributes
    ----------
    offset : int64 (n_trees + 1,)
        The nodes of tree t are offset[t] to offset[t + 1] - 1; ``left`` is relative to offset[t].
    mask_offset : int64 (n_trees + 1,)
        The masks of tree t are the rows mask_offset[t] to mask_offset[t + 1] - 1 of ``masks``;
        ``category`` is relative to mask_offset[t].
    """

    offset: np.ndarray
    mask_offset: np.ndarray

    def __post_init__(self) -> None:
        for f in fields(self):
            getattr(self, f.name).flags.writeable = False  # so that views cannot change the model

    def __getstate__(self) -> dict[str, np.ndarray]:
        """The arrays in compact form, without cached properties."""
        return compacted({f.name: getattr(self, f.name) for f in fields(self)})

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        # Pickles of version 0.1.0 have all arrays.
        self.__dict__.update(state if "left" in state else expanded(state))
        self.__post_init__()

    @classmethod
    def of(cls, trees: Iterable[Tree]) -> Ensemble:
        """Concatenate finished trees, column by column, in the types of `TREE_TYPES`.

        If a column's arrays are slices that together cover one array of the right type, this array
        is used without a copy. So is an array of a single tree. Arrays that are used become
        read-only.
        """
        trees = tuple(trees)
        columns = {
            name: joined([getattr(tree, name) for tree in trees], kind)
            for name, kind in TREE_TYPES.items()
        }
        n_nodes, n_masks = [t.node_count for t in trees], [len(t.masks) for t in trees]
        return cls(offset=offsets(n_nodes), mask_offset=offsets(n_masks), **columns)

    @classmethod
    def of_stream(
        cls, trees: Iterable[Tree], n_trees: int, before: Sequence[Tree] = ()
    ) -> Ensemble:
        """Concatenate trees as they are finished, after the trees ``before``.

        There are at most ``n_trees`` in all. The arrays of a tree are released when they are
        joined. Trees whose arrays are views of those of a batch are joined by `of`, since a batch
        is released only with its last tree.
        """
        columns = {name: JoinedColumn(kind, n_trees) for name, kind in TREE_TYPES.items()}
        sizes: list[tuple[int, int]] = []
        trees = iter(trees)
        for tree in chain(before, trees):
            if len(sizes) == len(before) and tree.feature.base is not None:
                columns.clear()
                return cls.of(chain(before, [tree], trees))
            sizes.append((tree.node_count, len(tree.masks)))
            for name, column in columns.items():
                column.append(getattr(tree, name))
            del tree  # while the next one is awaited
        whole = {name: column.finish() for name, column in columns.items()}
        starts = [offsets(list(of_trees)) for of_trees in zip(*sizes, strict=True)]
        return cls(offset=starts[0], mask_offset=starts[1], **whole)

    def first(self, n: int) -> Ensemble:
        """The ensemble of the first ``n`` trees; its arrays are views of these."""
        starts = {"offset": self.offset[: n + 1], "mask_offset": self.mask_offset[: n + 1]}
        return Ensemble(**starts, **self._columns(0, n))

    def _columns(self, first: int, last: int) -> dict[str, np.ndarray]:
        """The columns of the trees from ``first`` to before ``last``, as views."""
        nodes = slice(self.offset[first], self.offset[last])
        columns = {f.name: getattr(self, f.name)[nodes] for f in fields(Tree)}
        columns["masks"] = self.masks[self.mask_offset[first] : self.mask_offset[last]]
        return columns

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    @property
    def n_values(self) -> int:
        """Number of values per leaf: classes, outputs, or raw predictions that a tree adds to."""
        return self.value.shape[1]

    @cached_property
    def on_codes(self) -> Ensemble:
        """The ensemble with codes as thresholds, for binned rows; always the same object."""
        return replace(self, threshold=self.code.astype(np.float64))

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The trees, as views."""
        return tuple(Tree(**self._columns(t, t + 1)) for t in range(self.n_trees))

    def importances(self, n_features: int) -> np.ndarray:
        """Mean over trees of the normalised impurity decrease per feature.

        The means are scaled to sum to 1; they are zeros if no split decreases the impurity.
        """
        total = np.zeros(n_features)
        for tree in self.trees:
            decreases = impurity_decrease_per_feature(tree, n_features)
            if decreases.sum() > 0:
                total += decreases / decreases.sum()
        return total / total.sum() if total.sum() > 0 else total

    def split_shares(self, n_features: int) -> np.ndarray:
        """Fraction of all splits that are on each feature; zeros without splits."""
        counts = np.bincount(self.feature[self.feature >= 0], minlength=n_features)
        return counts / max(int(counts.sum()), 1)

    def fingerprint(self, mapper: BinMapper) -> str:
        """SHA-256 of the arrays that prediction reads and of the bins, in hexadecimal.

        ``mask_offset`` is left out, since it follows from ``offset`` and ``category``.
        """
        sha = hashlib.sha256()
        names = "offset feature threshold code missing_left left category masks value"
        for name in names.split():
            column = np.ascontiguousarray(getattr(self, name))
            sha.update(f"{name} {column.dtype.str} {column.shape}".encode())
            sha.update(column.reshape(-1).data)
        mapper.update_hash(sha)
        return sha.hexdigest()


def impurity_decrease_per_feature(tree: Tree, n_features: int) -> np.ndarray:
    """Total impurity decrease of each feature's splits: float64 (n_features,)."""
    inner = tree.feature >= 0
    return np.bincount(tree.feature[inner], tree.impurity_decrease[inner], minlength=n_features)
