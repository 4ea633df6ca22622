"""Compiles functions in background threads.

LLVM does not return to Python for seconds, so a thread that called it could not be interrupted.
Here a thread of its own compiles a function, or reads it from disk, while the calling thread waits
in `gpuboost.backends.compiling`. An interrupted wait does not stop the compiler: the function still
reaches Numba's cache, unless the process ends before.
"""

from __future__ import annotations

import atexit
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from gpuboost.backends.compiling import wait_for


@dataclass(frozen=True)
class UsedFunction:
    """A compiled function that this process has used.

    Attributes
    ----------
    name : str
        Its name and argument types.
    folder : Path or None
        Folder of its machine code, if that is on disk.
    seconds : float
        CPU seconds that it took to compile it; 0 if it was read from disk.
    is_new : bool
        Whether it was compiled here, not read from disk.
    """

    name: str
    folder: Path | None
    seconds: float
    is_new: bool


used_functions: list[UsedFunction] = []  # of this process, in the order of their first calls


def compile_in_background(dispatcher: Any) -> None:
    """Let a background thread compile a function for new argument types.

    Numba calls ``compile`` of a compiled function only for types that it has not seen in this
    process, so other calls take no longer.
    """
    compile_here = dispatcher.compile

    def compile_there(signature: Any) -> Any:
        if global_compiler_lock.is_locked():  # by this thread, which compiles a caller
            return compile_here(signature)
        return _result_of_thread(lambda: _compile(dispatcher, compile_here, signature))

    dispatcher.compile = compile_there


def _compile(dispatcher: Any, compile_here: Any, signature: Any) -> Any:
    """Compile a function, or read it from disk, and append it to `used_functions`."""
    with global_compiler_lock, _no_garbage_collection():
        began, n_compiled = time.thread_time(), sum(dispatcher.stats.cache_misses.values())
        compiled = compile_here(signature)
        is_new = sum(dispatcher.stats.cache_misses.values()) > n_compiled
        seconds = time.thread_time() - began if is_new else 0.0
    path = dispatcher.stats.cache_path
    name = f"{dispatcher.__module__}.{dispatcher.__name__}{signature}"
    used_functions.append(UsedFunction(name, Path(path) if path else None, seconds, is_new))
    return compiled


_is_paused = False  # whether garbage collection is off for the compiler


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Context, for one thread at a time, in which Python does not collect cyclic garbage.

    A compiler makes millions of objects, most of which stay. Searching them for garbage time and
    again takes a fifth of the time to compile boosting (2026-11).
    """
    global _is_paused
    _is_paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _resume_garbage_collection()


def _resume_garbage_collection() -> None:
    global _is_paused
    if _is_paused:
        gc.enable()
    _is_paused = False


if hasattr(os, "register_at_fork"):  # the child has no compiler's thread that would do it
    os.register_at_fork(after_in_child=_resume_garbage_collection)


def _result_of_thread(compile_function: Callable[[], Any]) -> Any:
    """Result of ``compile_function`` in a new thread; its error is raised here."""
    result, done = Future[Any](), threading.Event()

    def run() -> None:
        try:
            result.set_result(compile_function())
        except BaseException as error:
            result.set_exception(error)
        finally:
            done.set()

    # A daemon, so that a process can end while it compiles.
    thread = threading.Thread(target=run, name="gpuboost-compiler", daemon=True)
    thread.start()
    try:
        wait_for(done)
    except BaseException:
        # The process probably ends now, while LLVM is busy. Python would then search all objects
        # for garbage first, which takes half a second because Numba has so many.
        atexit.register(gc.freeze)
        raise
    thread.join()  # it has ended but for its last instructions; a fork needs a process without it
    return result.result()
