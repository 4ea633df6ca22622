"""The part of ``cupyx`` that the project uses, implemented with the stand-in for CuPy."""
