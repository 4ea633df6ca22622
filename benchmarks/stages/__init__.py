"""Where the time of a fit goes."""
