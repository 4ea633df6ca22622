"""Trees together: ensembles, rounds of boosting, rounds of AdaBoost."""
