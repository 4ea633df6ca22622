"""What the backends on the host share."""
