"""Batches of trees: the levels, the store of their nodes, finished trees, memory."""
