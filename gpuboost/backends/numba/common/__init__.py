"""Code shared by both growers: records, packed words, feature sampling, thresholds."""
