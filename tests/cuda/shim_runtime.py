"""A runtime of the CUDA backend that runs kernels on the CPU, and a backend that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, make_dataclass
from types import ModuleType
from typing import Any

import numpy as np

from gpuboost.backends.cuda.growth.grow import grow_finished, grow_trees
from gpuboost.backends.cuda.runtime.source import INCLUDE, file_text, kernel_source
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree, GrowTask
from tests.cuda_shim.launcher import Module


@dataclass
class ShimRuntime:
    """`gpuboost.backends.cuda.runtime.protocol.Runtime` over NumPy arrays.

    Parameters
    ----------
    flavour : str
        Flavour of `tests.cuda_shim.launcher.Module`.
    order_seed : int
        Seed of the random order of threads and blocks in each launch; 0 for ascending order.
    shared_memory, n_multiprocessors : int
        The bytes per block and the number of multiprocessors that the runtime reports.
    sources : mapping of str to str
        Texts that replace those of kernel files.
    budget : int
        Bytes that a fit may use.
    """

    flavour: str = "plain"
    order_seed: int = 0
    shared_memory: int = 227 << 10
    n_multiprocessors: int = 4
    sources: Mapping[str, str] = field(default_factory=dict)
    launches: list[str] = field(default_factory=list)
    xp: ModuleType = np
    name: str = "cuda:0"
    budget: int = 256 << 20

    def __post_init__(self) -> None:
        self._modules: dict[tuple[str, str], Module] = {}

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        """Get a kernel, which is compiled at its first use."""
        key = (file_name, repr(sorted(constants.items())))
        if key not in self._modules:
            text = self.sources.get(file_name) or kernel_source(file_name, constants)
            self._modules[key] = Module(text, self.flavour, file_name=file_name)
        function = self._modules[key].get_function(name)
        function.max_dynamic_shared_size_bytes = self.shared_memory

        def launch(
            grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
        ) -> None:
            if 0 in grid:
                return
            assert all(arg is not None for arg in args), f"{name} is given a null pointer"
            self.launches.append(name)
            seed = self.order_seed and self.order_seed + len(self.launches)
            function(grid, block, args, shared_mem=shared_mem, order_seed=seed)

        return launch

    def active(self) -> AbstractContextManager[None]:
        """Do nothing, since NumPy arrays need no current device."""
        return nullcontext()

    def memory_budget(self) -> int:
        """Bytes that a fit may use."""
        return self.budget

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return the launches themselves, which run one by one."""
        return launches

    def asarray(self, host: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return np.ascontiguousarray(host)

    def upload(self, host: np.ndarray, array: np.ndarray) -> None:
        """Write to the array."""
        array[...] = host

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Return a copy, since later launches may write to the array."""
        return array.copy()

    def read_later(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        """Return a function that returns a copy of the array as it is now."""
        copied = array.copy()
        return lambda: copied


@dataclass
class ShimBackend:
    """Grows trees by the CUDA kernels on the CPU."""

    runtime: ShimRuntime = field(default_factory=ShimRuntime)
    name: str = "cuda shim"

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``."""
        return grow_trees(self.runtime, task)

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """The same trees, finished."""
        return grow_finished(self.runtime, task)


def record(**values: Any) -> Any:
    """A dataclass instance with the given arrays and numbers, for launches."""
    return make_dataclass("Record", values)(**values)


def with_text(name: str, text: str, kernels: Sequence[str]) -> dict[str, str]:
    """Texts of kernel files for `ShimRuntime.sources`, with the text of one file replaced.

    Parameters
    ----------
    name : str
        The replaced file: one of ``kernels``, or one that they include.
    text : str
    kernels : sequence of str
    """
    if name in kernels:
        return {name: text}

    def expanded(file_name: str) -> str:
        own = file_text(file_name)
        return INCLUDE.sub(lambda m: text if m[1] == name else expanded(m[1]), own)

    return {kernel: expanded(kernel) for kernel in kernels}
