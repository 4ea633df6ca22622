"""What the device knows of one level. Arrays have room for as many nodes as there can be.

The host never learns how many nodes a level has while it is grown: kernels read the number from
``size``, and what lies behind the last node is undefined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpuboost.backends.cuda.constraints import NodeBounds
    from gpuboost.engine.frontier import Array

_ALIGNMENT = 256  # bytes; where any array may begin

Columns = dict[str, tuple[Any, tuple[int, ...]]]  # dtype and shape of each array


def allocate(xp: Any, columns: Columns) -> dict[str, Array]:
    """Arrays cut from one piece of memory, or separate ones, see `is_separate`."""
    return allocate_with_memory(xp, columns)[0]


def allocate_with_memory(xp: Any, columns: Columns) -> tuple[dict[str, Array], Array | None]:
    """Arrays, and the piece of memory that they are cut from; None where they are separate."""
    if is_separate(xp):
        return {name: xp.empty(shape, dtype) for name, (dtype, shape) in columns.items()}, None
    memory = one_piece(xp, columns)
    return cut(memory, columns), memory


def is_separate(xp: Any) -> bool:
    """Whether an array module wants every array in memory of its own.

    So a tool that checks accesses to memory sees where one array is left and another one begins.
    """
    return getattr(xp, "separate", False)


def one_piece(xp: Any, columns: Columns) -> Array:
    """Memory for `cut`."""
    return xp.empty(room_of(columns), dtype=xp.uint8)


def room_of(columns: Columns) -> int:
    """Bytes that `one_piece` takes."""
    return sum(_room(*column) for column in columns.values())


def places_of(columns: Columns) -> list[int]:
    """Where arrays begin in `one_piece`, in bytes."""
    return [0, *accumulate(_room(*column) for column in columns.values())][: len(columns)]


def cut(memory: Array, columns: Columns) -> dict[str, Array]:
    """The arrays of a piece of memory, on the device or copied to the host as a whole."""
    arrays = {}
    for (name, (dtype, shape)), at in zip(columns.items(), places_of(columns), strict=True):
        array = memory[at : at + _bytes(dtype, shape)].view(dtype)
        arrays[name] = array if len(shape) == 1 else array.reshape(shape)
    return arrays


@lru_cache(4096)  # the host cuts a round again for every tree it finishes
def _bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return np.dtype(dtype).itemsize * math.prod(shape)


@lru_cache(4096)
def _room(dtype: Any, shape: tuple[int, ...]) -> int:
    return -(-_bytes(dtype, shape) // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True)
class Pieces:
    """Rows of nodes cut into pieces, one for each block of a launch.

    Attributes
    ----------
    size : int32 (1,)
        Pieces there are.
    slot : int32 (pieces,)
        What a piece belongs to.
    first : int64 (pieces,)
    rows : int32 (pieces,)
    """

    size: Array
    slot: Array
    first: Array
    rows: Array

    @classmethod
    def room(cls, xp: Any, size: Array, n: int) -> Pieces:
        """Room for n pieces."""
        arrays = allocate(
            xp, {"slot": (np.int32, (n,)), "first": (np.int64, (n,)), "rows": (np.int32, (n,))}
        )
        return cls(size, **arrays)

    @property
    def most(self) -> int:
        """Pieces there is room for."""
        return len(self.slot)


@dataclass(frozen=True)
class DeviceFrontier:
    """The nodes of one level, as `gpuboost.engine.frontier.Frontier`, and the pieces of their rows.

    Attributes
    ----------
    size : int32 (1,)
    tree : int32 (m,)
    key : uint64 (m,)
    start, count, hessian : int64 (m,)
    gradient : int64 (m, K)
    parent : int32 (m,)
        Slot of the parent's histogram in the level before, -1 if it is not known.
    pieces : Pieces
        By number of the node.
    bounds : NodeBounds or None
        None where nodes are held to nothing of their own.
    """

    size: Array
    tree: Array
    key: Array
    start: Array
    count: Array
    hessian: Array
    gradient: Array
    parent: Array
    pieces: Pieces
    bounds: NodeBounds | None = None

    @property
    def most(self) -> int:
        """Nodes there is room for."""
        return len(self.tree)

    def nothing(self) -> DeviceFrontier:
        """The frontier of a level that has no nodes."""
        return replace(self, tree=self.tree[:0])

    @classmethod
    def room(cls, xp: Any, size: Array, n: int, n_channels: int, pieces: Pieces) -> DeviceFrontier:
        """Room for n nodes."""
        return cls(size, **allocate(xp, cls.columns(n, n_channels)), pieces=pieces)

    @staticmethod
    def columns(n: int, n_channels: int) -> Columns:
        """The arrays of n nodes."""
        return {
            "tree": (np.int32, (n,)),
            "key": (np.uint64, (n,)),
            "start": (np.int64, (n,)),
            "count": (np.int64, (n,)),
            "hessian": (np.int64, (n,)),
            "gradient": (np.int64, (n, n_channels)),
            "parent": (np.int32, (n,)),
        }


@dataclass(frozen=True)
class Search:
    """Which nodes of a level are searched, and where their histograms lie, by policy.cu.

    Attributes
    ----------
    slot, source : int32 (m,)
        Slot of the node's histogram; the parent's slot where it is found by subtraction.
    node : int32 (m,)
        Node of each slot.
    open : uint8 (m,)
        Nodes that are searched.
    small : int32 (m,)
        Nodes left to small.cu.
    sizes : int32 (3,)
        Slots, pieces of work, small nodes.
    work : Pieces
        Rows that are summed, by slot.
    none : bool
        It is known that no node is open.
    """

    slot: Array
    node: Array
    source: Array
    open: Array
    small: Array
    sizes: Array
    work: Pieces
    none: bool

    @classmethod
    def room(cls, xp: Any, n: int, n_pieces: int, none: bool) -> Search:
        """Room for n nodes and their pieces of work."""
        columns: Columns = {
            "slot": (np.int32, (n,)),
            "node": (np.int32, (n,)),
            "source": (np.int32, (n,)),
            "open": (np.uint8, (n,)),
            "small": (np.int32, (n,)),
            "sizes": (np.int32, (3,)),
        }
        arrays = allocate(xp, columns)
        return cls(**arrays, work=Pieces.room(xp, arrays["sizes"][1:], n_pieces), none=none)


@dataclass(frozen=True)
class DeviceSplits:
    """What became of each node, by pick.cu: the fields of `gpuboost.engine.frontier.Splits`.

    Attributes
    ----------
    rise : float64 (m,)
        -1 where the node is not split.
    accepted : uint8 (m,)
        Whether it is.
    """

    rise: Array
    feature: Array
    bin: Array
    next_bin: Array
    draw: Array
    missing: Array
    categorical: Array
    mask: Array
    left_hessian: Array
    left_gradient: Array
    accepted: Array

    @classmethod
    def room(cls, xp: Any, n: int, n_channels: int, mask_words: int) -> DeviceSplits:
        """Room for the splits of n nodes."""
        return cls(**allocate(xp, cls.columns(n, n_channels, mask_words)))

    @staticmethod
    def columns(n: int, n_channels: int, mask_words: int) -> Columns:
        """The arrays of n nodes, in the order in which pick.cu takes them."""
        return {
            "rise": (np.float64, (n,)),
            "feature": (np.int32, (n,)),
            "bin": (np.int16, (n,)),
            "next_bin": (np.int16, (n,)),
            "draw": (np.float64, (n,)),
            "missing": (np.int8, (n,)),
            "categorical": (np.uint8, (n,)),
            "mask": (np.uint32, (n, mask_words)),
            "left_hessian": (np.int64, (n,)),
            "left_gradient": (np.int64, (n, n_channels)),
            "accepted": (np.uint8, (n,)),
        }

    @property
    def arguments(self) -> tuple[Array, ...]:
        """The arrays as kernels take them."""
        return tuple(vars(self).values())
