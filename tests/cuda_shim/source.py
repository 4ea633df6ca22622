"""Reads kernel files and adds the prelude."""

from __future__ import annotations

from pathlib import Path

from gpuboost.backends.cuda.runtime.source import spliced

KERNEL_FOLDER = Path(__file__).resolve().parents[2] / "kernels"
PRELUDE = "common/common.cuh"


def kernel_text(file_name: str) -> str:
    """The text of one file of ``kernels/``, without the prelude."""
    return (KERNEL_FOLDER / file_name).read_text(encoding="utf-8")


def splice_prelude(source_text: str, file_name: str) -> str:
    """The prelude followed by the source, each with its own line numbers.

    A source that already has the prelude is not changed.
    """
    if f'#line 1 "{PRELUDE}"' in source_text:
        return source_text
    prelude, text = spliced(PRELUDE), spliced(file_name, source_text)
    return f'#line 1 "{PRELUDE}"\n{prelude}\n#line 1 "{file_name}"\n{text}\n'
