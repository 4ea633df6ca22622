"""A function that runs once another library has been imported, whether that is before or later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def after_import(name: str, run: Callable[[ModuleType], None]) -> None:
    """Call ``run(module)`` when the library of this name has been imported; at once if it has."""
    if name in sys.modules:
        run(import_module(name))  # which waits for another thread that is importing it
    else:
        finder: Any = _Finder(name, run)
        sys.meta_path.insert(0, finder)


class _Finder:
    """Finds one library as Python does, with a loader that calls a function in the end."""

    def __init__(self, name: str, run: Callable[[ModuleType], None]) -> None:
        self._name, self._run, self._is_searching = name, run, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The library's own spec, with `_Loader`."""
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            loader: Any = _Loader(spec.loader, self._imported)
            spec.loader = loader
        return spec

    def _imported(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            # Another thread may be iterating the list, so it is replaced.
            sys.meta_path = [each for each in sys.meta_path if each is not self]
            self._run(module)


class _Loader:
    """Loads a module as its own loader does, then calls a function."""

    def __init__(self, loader: Any, run: Callable[[ModuleType], None]) -> None:
        self._loader, self._run = loader, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._run(module)
