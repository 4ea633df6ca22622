"""Rounds of gradient boosting as compiled passes over the rows."""
