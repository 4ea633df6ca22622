"""Growth of trees on codes in blocks, of which the device keeps as many as its memory holds."""
