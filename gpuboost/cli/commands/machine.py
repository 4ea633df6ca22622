"""``gpuboost info``, ``warmup`` and ``demo``."""

from __future__ import annotations

import click

from gpuboost.cli.commands.options import AS_JSON, CONTEXT, DEVICE, SEED, seconds, whole_number

MAX_DEMO_ROWS = 100_000_000  # limit of --rows; X of the two synthetic tables then takes 13 GB


@click.command(context_settings=CONTEXT)
@DEVICE
@click.option(
    "--rows",
    type=whole_number(100, MAX_DEMO_ROWS),
    default=200_000,
    show_default=True,
    help="Maximum rows of the synthetic table.",
)
@click.option(
    "--seconds",
    "duration",
    type=seconds(),
    default=70.0,
    show_default=True,
    help="Approximate time of the whole demonstration.",
)
@SEED
def demo(device: str, rows: int, duration: float, seed: int) -> int:
    """Train every estimator beside other libraries."""
    from gpuboost.backends.select import check_device
    from gpuboost.cli.demo import DemoOptions, run

    check_device(device)  # fails before any table is made
    return run(DemoOptions(device, rows, duration, seed))


@click.command(context_settings=CONTEXT)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the speed of this machine, by which device=auto chooses a backend.",
)
@AS_JSON
def info(calibrate: bool, as_json: bool) -> int:
    """Show devices, versions and which backend is used."""
    from gpuboost.cli import information
    from gpuboost.cli.output import print_found

    if calibrate:
        information.calibrate()
    print_found(information.machine_facts(), as_json, information.print_machine)
    return 0


@click.command(context_settings=CONTEXT)
@click.option(
    "--processes",
    type=whole_number(1, 1024),
    help="Processes that compile at the same time.  [default: one per core]",
)
def warmup(processes: int | None) -> int:
    """Compile all of gpuboost, once per machine."""
    from gpuboost.backends.select import check_device
    from gpuboost.cli.warm_up import run

    check_device("numba")
    return run(processes)
