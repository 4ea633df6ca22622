"""What is measured of the device itself."""
