"""Reading, checking and binning of user input."""
