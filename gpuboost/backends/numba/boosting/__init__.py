"""Rounds of gradient boosting in compiled passes over the rows."""
