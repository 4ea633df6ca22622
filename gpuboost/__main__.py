"""``python -m gpuboost``: the command line."""

from gpuboost.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
