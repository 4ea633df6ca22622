"""Trees as text, rules, graphs and tables, with the names of features, categories and classes."""
