"""The depth-first grower: one thread per tree."""
