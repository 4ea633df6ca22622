"""Growth of trees on codes in blocks, with compiled passes and searches of histograms."""
