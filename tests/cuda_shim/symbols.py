"""Reads shared variables and source lines from a built shared object."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.cuda_shim.compiler import INCLUDE, run_tool

# A static local of a function: _ZZ, the function, E, the length of the name, the name.
_STATIC_LOCAL = re.compile(r"_ZZ\w+E(?P<length>\d+)(?P<rest>[A-Za-z_]\w*)")
_WRITABLE = "bBdDvVuw"


@dataclass(frozen=True)
class SharedVariable:
    """A ``__shared__`` variable: name, address relative to the shared object, size in bytes."""

    name: str
    address: int
    bytes: int


def symbol_addresses(shared_object: Path) -> tuple[dict[str, int], list[SharedVariable]]:
    """Addresses of all functions, and the static shared variables of all kernels."""
    functions, variables = {}, []
    for line in run_tool(["nm", "-S", "--defined-only", str(shared_object)]).splitlines():
        fields = line.split()
        if len(fields) != 4:
            continue
        address, size, kind, symbol = int(fields[0], 16), int(fields[1], 16), fields[2], fields[3]
        local = _STATIC_LOCAL.match(symbol)
        if local and kind in _WRITABLE:
            name = local["rest"][: int(local["length"])]
            variables.append(SharedVariable(name, address, size))
        elif kind in "tTW":
            functions[symbol] = address
    return functions, variables


def source_line(shared_object: Path, address: int) -> str | None:
    """``file:line`` of an instruction in the kernel's source, or None if it is unknown."""
    command = ["addr2line", "--inlines", "--basenames", "-e", str(shared_object), hex(address)]
    headers = {path.name for path in INCLUDE.iterdir()}
    for place in run_tool(command).splitlines():
        place = place.split(" (")[0]
        if not place.startswith("?") and place.split(":")[0] not in headers:
            return place
    return None
