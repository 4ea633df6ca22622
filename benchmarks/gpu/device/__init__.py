"""The measured device, its ceilings, histograms and memory."""
