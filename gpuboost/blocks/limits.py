"""The memory of the machine, of which a Dataset uses half by default."""

from __future__ import annotations

import os
from pathlib import Path

_ASSUMED = 8 << 30  # assumed where the system does not say
_CGROUP = Path("/sys/fs/cgroup/memory.max")  # limit of a container on Linux


def memory_bytes() -> int:
    """Bytes of physical memory, or of the container's limit if that is less."""
    found = _ASSUMED
    if hasattr(os, "sysconf"):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _CGROUP.is_file():
        text = _CGROUP.read_text(encoding="ascii").strip()
        if text.isdigit():
            found = min(found, int(text))
    return found
