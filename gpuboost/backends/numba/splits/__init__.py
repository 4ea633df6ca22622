"""The best split of one node, from the sums of its bins."""
