"""``python -m gpuboost``: the command line."""

from gpuboost.cli.main import run_process

if __name__ == "__main__":
    run_process()
