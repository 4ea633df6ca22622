"""The stand-in for CuPy, importable as ``cupy``.

In a process with ``PYTHONPATH=tests/stand_in:.`` the statement ``import cupy`` gives the module
that `tests.fakes.fake_cupy` makes. Its devices are the CPU, so tests and benchmarks for a GPU run
unchanged.
"""

import sys

from tests.fakes import fake_cupy

sys.modules[__name__] = fake_cupy.make(fake_cupy.Machine())
