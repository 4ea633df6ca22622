"""The commands and their options; what a command does is imported when it runs."""
