"""Growing trees level by level, and what becomes of a grown tree."""
