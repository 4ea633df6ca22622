"""Code that several folders share: records, packed words, feature sampling, thresholds."""
