"""What both growers share: records, packed words, feature sampling, thresholds."""
