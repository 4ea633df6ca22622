"""Shapes of the trees that the cases grow, from one tree of each that Numba grew with seed 0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TreeShape:
    """The shape of a tree; tuples have one entry per level, from the root down.

    Attributes
    ----------
    n_nodes : int
        Number of nodes, including leaves.
    large : tuple of int
        Number of split nodes with more than 512 rows.
    rows : tuple of int
        Number of distinct rows in these nodes.
    small, tiny : int
        Number of split nodes with 33 to 512 rows, and with fewer.
    """

    n_nodes: int
    large: tuple[int, ...]
    rows: tuple[int, ...]
    small: int
    tiny: int


# fmt: off
SHAPES = {
    # From the third round on 100,000 rows, grown by NumPy, with 19 splits that were undone.
    "boosting, 31 leaves": TreeShape(
        n_nodes=99,
        large=(1, 2, 4, 8, 15, 9, 7, 3),
        rows=(100_000, 100_000, 100_000, 100_000, 98_885, 82_582, 46_241, 16_366),
        small=0,
        tiny=0,
    ),
    "forest, depth 16": TreeShape(
        n_nodes=24_663,
        large=(
            1, 2, 4, 8, 13, 24, 38, 63, 94, 129, 166, 200, 229, 254, 263, 246,
        ),
        rows=(
            631_705, 631_705, 631_705, 631_705, 630_982, 630_768, 628_238, 625_080, 617_525,
            604_190, 584_177, 554_607, 518_237, 475_493, 424_317, 361_776,
        ),
        small=5288,
        tiny=5309,
    ),
    "forest, to purity": TreeShape(
        n_nodes=216_285,
        large=(
            1, 2, 4, 8, 13, 24, 38, 63, 94, 129, 166, 200, 229, 254, 263, 246, 241, 220, 181,
            148, 115, 93, 72, 61, 48, 36, 23, 17, 13, 11, 9, 6, 4, 4,
        ),
        rows=(
            631_705, 631_705, 631_705, 631_705, 630_982, 630_768, 628_238, 625_080, 617_525,
            604_190, 584_177, 554_607, 518_237, 475_493, 424_317, 361_776, 310_464, 257_189,
            202_198, 156_378, 120_454, 92_527, 69_664, 55_802, 42_903, 33_430, 21_683, 16_084,
            12_145, 9344, 7300, 4550, 2925, 2600,
        ),
        small=33_263,
        tiny=71_843,
    ),
    "extra-trees, depth 16": TreeShape(
        n_nodes=9993,
        large=(
            1, 2, 4, 7, 9, 12, 19, 28, 37, 53, 65, 87, 113, 142, 172, 195,
        ),
        rows=(
            1_000_000, 1_000_000, 1_000_000, 999_901, 999_292, 997_976, 996_830, 995_550,
            992_854, 989_628, 981_315, 974_429, 964_917, 951_232, 932_516, 906_346,
        ),
        small=1787,
        tiny=2263,
    ),
    "extra-trees, to purity": TreeShape(
        n_nodes=702_725,
        large=(
            1, 2, 4, 7, 9, 12, 19, 28, 37, 53, 65, 87, 113, 142, 172, 195, 223, 241, 279, 302,
            320, 326, 309, 298, 300, 288, 270, 244, 209, 189, 162, 134, 113, 88, 80, 68, 55, 43,
            33, 26, 18, 13, 12, 7, 7, 5, 5, 2, 1, 1,
        ),
        rows=(
            1_000_000, 1_000_000, 1_000_000, 999_901, 999_292, 997_976, 996_830, 995_550,
            992_854, 989_628, 981_315, 974_429, 964_917, 951_232, 932_516, 906_346, 882_242,
            848_991, 817_680, 775_642, 728_539, 673_567, 606_868, 545_603, 497_102, 442_937,
            389_165, 333_540, 278_203, 234_269, 192_460, 159_369, 129_829, 103_392, 85_799,
            69_215, 54_552, 42_158, 30_505, 22_794, 15_416, 11_247, 8585, 5294, 4735, 3554,
            2966, 1312, 643, 612,
        ),
        small=66_169,
        tiny=279_576,
    ),
    "tree, depth 8": TreeShape(
        n_nodes=511,
        large=(
            1, 2, 4, 8, 16, 32, 64, 128,
        ),
        rows=(
            1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000,
            1_000_000,
        ),
        small=0,
        tiny=0,
    ),
}
# fmt: on
