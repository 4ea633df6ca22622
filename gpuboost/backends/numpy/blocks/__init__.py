"""Growth of trees on codes in blocks, which may exceed the memory."""
