"""Fitted models of other libraries, which predict as they did there."""
