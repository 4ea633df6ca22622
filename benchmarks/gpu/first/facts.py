"""Facts of the GPU and of the software: ``python -m benchmarks.gpu.first.facts``.

The last line of the output is a JSON object. The exit status is 3 if there is no GPU, and 5 if CuPy
cannot use it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

from benchmarks.gpu.device.device import CudaDevice, NoDeviceError
from benchmarks.gpu.run import NO_DEVICE
from benchmarks.speed.machine import describe_machine

UNUSABLE = 5  # exit status if there is a GPU that CuPy cannot use


def main() -> int:
    """Print the output of ``nvidia-smi``, and the facts that the benchmarks record."""
    with suppress(OSError, subprocess.TimeoutExpired):
        print(subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20).stdout)
    try:
        device = CudaDevice()
    except NoDeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_DEVICE
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNUSABLE
    print(json.dumps({"gpu": device.facts(), "machine": describe_machine()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
