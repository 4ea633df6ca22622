"""Growing trees level by level, and finishing grown trees."""
