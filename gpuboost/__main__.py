"""``python -m gpuboost``: the command line."""

from gpuboost.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
