"""The passes of one level: choice of nodes, histograms, split search and partition."""
