"""Compiles kernels for real GPUs with NVRTC, without a GPU or a driver, and reads the code.

Needs the wheels ``nvidia-cuda-nvrtc`` (the compiler, called through ctypes) and
``nvidia-cuda-nvdisasm`` (machine code as text). The environment variable ``GPUBOOST_TEST_NVRTC``
names a folder that contains another version of the compiler, at any depth.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

COMPILER_WHEEL = "nvidia-cuda-nvrtc"
DISASSEMBLER_WHEEL = "nvidia-cuda-nvdisasm"
FOLDER_VARIABLE = "GPUBOOST_TEST_NVRTC"
# The CUDA backend's options: no contraction of products into sums, and denormals are kept.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--ptxas-options=-v")

_PROPERTIES = re.compile(
    r"Function properties for (?P<name>\S+)\n[^\n]*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads\n[^\n]*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)"
)
_STATIC_SHARED = re.compile(r"(\d+) bytes smem")
_SASS_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.MULTILINE)


class NvrtcError(RuntimeError):
    """NVRTC rejected a source; the message is the compiler's."""


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel uses per thread (shared memory: per block), in bytes."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    static_shared: int


@dataclass(frozen=True)
class Compiled:
    """One source compiled for one architecture; dictionaries are keyed by kernel name."""

    architecture: str
    log: str
    ptx: str
    cubin: bytes
    resources: dict[str, Resources]

    @functools.cached_property
    def sass(self) -> dict[str, str]:
        """The machine code as text; its disassembler takes as long as the compiler."""
        return disassemble(self.cubin)


def why_not_available() -> str | None:
    """The reason why kernels cannot be compiled for a GPU, or None if they can."""
    for wheel, files in (
        (COMPILER_WHEEL, _compilers()),
        (DISASSEMBLER_WHEEL, _files_of(DISASSEMBLER_WHEEL, "nvdisasm$")),
    ):
        if not files:
            return f"compiling for a GPU needs the wheel {wheel}: pip install {wheel}"
    return None


def versions() -> dict[str, str]:
    """The installed versions of the two wheels."""
    wheels = (COMPILER_WHEEL, DISASSEMBLER_WHEEL)
    return {wheel: importlib.metadata.version(wheel) for wheel in wheels}


def compile_source(
    source_text: str,
    architecture: str,
    *,
    file_name: str = "kernel.cu",
    options: tuple[str, ...] = OPTIONS,
) -> Compiled:
    """Compile a source for an architecture such as ``sm_90``.

    Raises
    ------
    NvrtcError
        The source does not compile.
    """
    program = _Program(source_text, file_name)
    try:
        log = program.compile((f"--gpu-architecture={architecture}", *options))
        ptx = program.output("PTX").decode().rstrip("\0")
        cubin = program.output("CUBIN")
    finally:
        program.destroy()
    return Compiled(architecture, log, ptx, cubin, read_resources(log))


def read_resources(log: str) -> dict[str, Resources]:
    """Registers, stack and spills of each kernel from the compiler's ``-v`` report."""
    found = {}
    for match in _PROPERTIES.finditer(log):
        shared = _STATIC_SHARED.search(match["rest"])
        found[match["name"]] = Resources(
            registers=int(match["registers"]),
            stack=int(match["stack"]),
            spill_stores=int(match["stores"]),
            spill_loads=int(match["loads"]),
            static_shared=int(shared[1]) if shared else 0,
        )
    return found


def disassemble(cubin: bytes, flags: tuple[str, ...] = ("--print-code",)) -> dict[str, str]:
    """The machine code of each kernel as text, printed by nvdisasm with the given flags."""
    tool = _files_of(DISASSEMBLER_WHEEL, "nvdisasm$")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(tool), *flags, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NvrtcError(f"nvdisasm: {done.stderr}")
    parts = _SASS_SECTION.split(done.stdout)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _files_of(wheel: str, pattern: str) -> list[Path]:
    """Files of an installed wheel that match a pattern; empty if it is not installed."""
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if re.search(pattern, str(file))]


def _compilers() -> list[Path]:
    """Libraries of the compiler, from the folder in the environment or from the wheel."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return _files_of(COMPILER_WHEEL, r"libnvrtc\.so")
    found = sorted(Path(folder).rglob("libnvrtc.so.*"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE}={folder} should hold one libnvrtc.so.*, found {len(found)}"
        )
    return found


@functools.cache
def _library() -> ctypes.CDLL:
    path = _compilers()[0]
    for builtins in path.parent.glob("libnvrtc-builtins.so.*"):  # 13.0 does not find it alone
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


class _Program:
    """An ``nvrtcProgram``."""

    def __init__(self, source_text: str, file_name: str) -> None:
        self._handle = ctypes.c_void_p()
        text, name = source_text.encode(), file_name.encode()
        handle = ctypes.byref(self._handle)
        self._check(_library().nvrtcCreateProgram(handle, text, name, 0, None, None))

    def compile(self, options: tuple[str, ...]) -> str:
        """Compile and return the log."""
        texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = _library().nvrtcCompileProgram(self._handle, len(options), texts)
        log = self.output("ProgramLog").decode().rstrip("\0")
        if status != 0:
            raise NvrtcError(log)
        return log

    def output(self, what: str) -> bytes:
        """A result of the compilation: ``PTX``, ``CUBIN`` or ``ProgramLog``."""
        size = ctypes.c_size_t()
        self._check(_library()[f"nvrtcGet{what}Size"](self._handle, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(_library()[f"nvrtcGet{what}"](self._handle, buffer))
        return buffer.raw

    def destroy(self) -> None:
        """Free the program."""
        self._check(_library().nvrtcDestroyProgram(ctypes.byref(self._handle)))

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise NvrtcError(_library().nvrtcGetErrorString(status).decode())
