"""The part of ``cupyx.scipy`` that the project uses."""
