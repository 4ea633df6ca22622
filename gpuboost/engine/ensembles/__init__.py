"""Ensembles of trees, and rounds of gradient boosting and of AdaBoost."""
