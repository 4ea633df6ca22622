"""Memory of a fit on a device, estimated before it starts."""
