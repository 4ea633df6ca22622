"""Machine code of the kernels, compiled with NVRTC on first use and then kept on disk.

CuPy's own compilation is not used: it always adds the option ``-ftz=true``, which would flush
float32 denormals to zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuboost.backends.cache import keep, recall

# The same arithmetic as NumPy's: no fused multiply-add, denormals kept, and divisions and square
# roots correctly rounded.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
FOLDER = "kernels"  # in the user's cache


class CompileError(RuntimeError):
    """NVRTC rejected a kernel; the message ends with the compiler's log."""


def choose_architecture(capability: int, known: Collection[int]) -> str:
    """Choose the architecture that NVRTC compiles for, such as ``sm_90``.

    Machine code also runs on later devices of the same generation. If the compiler does not know
    the generation, the result is ``compute_...``: portable code that the driver translates.

    Parameters
    ----------
    capability : int
        Compute capability of the device, 90 for 9.0.
    known : collection of int
        Compute capabilities that the compiler supports.

    Raises
    ------
    RuntimeError
        The device is older than all devices that the compiler supports.
    """
    older = [one for one in known if one <= capability]
    if not older:
        raise RuntimeError(
            f"NVRTC compiles for compute capability {min(known) / 10:.1f} or newer, but the device "
            f"has {capability / 10:.1f}; install a CuPy for an older CUDA"
        )
    newest = max(older)
    return f"sm_{newest}" if newest // 10 == capability // 10 else f"compute_{newest}"


@dataclass(frozen=True)
class CubinStore:
    """Compiles kernels for one device.

    Attributes
    ----------
    nvrtc : module
        ``cupy.cuda.nvrtc``.
    capability : int
        Compute capability of the device, 90 for 9.0.
    folder : Path
        Folder in which compiled code is kept, for all devices and all versions of NVRTC.
    """

    nvrtc: Any
    capability: int
    folder: Path

    def machine_code(self, text: str, file_name: str) -> bytes:
        """Compile a source, or read its code from disk if it was compiled in the same way before.

        The code is a cubin, or portable PTX if the compiler does not know the device's generation.

        Raises
        ------
        RuntimeError
            The compiler does not support a device as old as this.
        CompileError
            The compiler rejected the source.
        """
        known = self.nvrtc.getSupportedArchs()
        options = (*OPTIONS, f"-arch={choose_architecture(self.capability, known)}")
        place = self.folder / f"{self._key(text, file_name, options)}.cubin"
        found = recall(place)
        if found is None:
            found = self._compile(text, file_name, options)
            keep(place, found)
        return found

    def _key(self, text: str, file_name: str, options: tuple[str, ...]) -> str:
        version = ".".join(map(str, self.nvrtc.getVersion()))
        parts = (version, *options, file_name, text)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _compile(self, text: str, file_name: str, options: tuple[str, ...]) -> bytes:
        nvrtc = self.nvrtc
        program = nvrtc.createProgram(text, file_name, (), ())
        try:
            nvrtc.compileProgram(program, options)
            portable = options[-1].startswith("-arch=compute_")
            return nvrtc.getPTX(program) if portable else nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise CompileError(f"{file_name} does not compile ({error}):\n{log}") from error
        finally:
            nvrtc.destroyProgram(program)
