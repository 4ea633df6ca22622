"""The steps of a fit that all estimators share."""
