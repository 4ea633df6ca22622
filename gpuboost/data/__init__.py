"""What a user brings: read, judged, and binned."""
