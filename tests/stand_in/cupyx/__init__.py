"""What the project uses of ``cupyx``, over the stand-in for CuPy."""
