"""The level-wise grower: all threads grow the trees of a round together."""
