"""The stand-in for CuPy under its own name.

In a process with ``PYTHONPATH=tests/stand_in:.`` the statement ``import cupy`` gives
`tests.fakes.fake_cupy`, whose devices are the CPU. So tests and benchmarks of a GPU run unchanged.
"""

import sys

from tests.fakes import fake_cupy

sys.modules[__name__] = fake_cupy.make(fake_cupy.Machine())
