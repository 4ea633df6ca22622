"""Bagging, random forests and extra-trees."""
