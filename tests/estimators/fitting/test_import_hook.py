"""A function runs once after the import of a library, and the import is as without it."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
from functools import partial

import pytest

from gpuboost.estimators.fitting.import_hook import after_import


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The name of a library that can be imported, with a part and a flaw if asked for."""
    folder = tmp_path / "library_to_wait_for"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import builtins, os\ngetattr(builtins, 'on_import', bool)()\nvalue = 3\n"
        "if 'BROKEN' in os.environ: raise OSError\n"
    )
    (folder / "part.py").write_text("value = 4\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in (folder.name, f"{folder.name}.part"):
        sys.modules.pop(name, None)


def test_runs_once_after_the_import(library):
    seen, finders = [], list(sys.meta_path)
    after_import(library, lambda module: seen.append(module.value))
    assert seen == []
    part = __import__(f"{library}.part").part
    assert (seen, part.value, sys.meta_path) == ([3], 4, finders)
    module = sys.modules[library]
    assert module.__spec__.name == library and module.__path__ and module.__file__
    after_import(library, lambda module: seen.append(module.value + 1))  # at once
    assert seen == [3, 4]


def test_a_search_for_the_library_does_not_count_as_its_import(library):
    seen = []
    after_import(library, seen.append)
    for _ in range(2):
        assert importlib.util.find_spec(library).name == library
    __import__(library)
    assert seen == [sys.modules[library]]


def test_errors_of_the_import_are_its_own(library, monkeypatch):
    seen, finders = [], list(sys.meta_path)
    after_import("a_library_that_does_not_exist", pytest.fail)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_does_not_exist"):
        __import__("a_library_that_does_not_exist")
    sys.meta_path.pop(0)  # it still waits for the library
    monkeypatch.setenv("BROKEN", "1")
    after_import(library, seen.append)
    with pytest.raises(OSError):
        __import__(library)
    monkeypatch.delenv("BROKEN")
    __import__(library)
    assert seen == [sys.modules[library]] and sys.meta_path == finders


def test_waits_for_another_thread_that_imports_the_library(library, monkeypatch):
    begun, goes_on, seen = threading.Event(), threading.Event(), []

    def on_import():
        begun.set()
        assert goes_on.wait(60.0)

    monkeypatch.setattr(builtins, "on_import", on_import, raising=False)
    imports = threading.Thread(target=__import__, args=(library,))
    imports.start()
    assert begun.wait(60.0) and not hasattr(sys.modules[library], "value")
    run = partial(after_import, library, lambda module: seen.append(module.value))
    waits = threading.Thread(target=run)
    waits.start()
    waits.join(0.1)
    goes_on.set()
    imports.join()
    waits.join()
    assert seen == [3]
