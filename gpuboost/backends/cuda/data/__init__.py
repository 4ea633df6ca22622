"""Features, bins and codes on the device."""
