"""The passes of one level: which nodes, histograms, splits, partition."""
