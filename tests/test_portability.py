"""The package runs on macOS and Windows as far as its source shows: no calls that they lack.

mypy checks more (`mypy --platform win32 gpuboost` in `.ci/run`): every name of the standard library
that a system lacks. The tests here also find what types do not show.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba import njit, types

from gpuboost import GradientBoostingClassifier
from gpuboost.backends import cache
from gpuboost.backends.numba import intrinsics
from gpuboost.cli import warm_up
from tests.sizes import PACKAGE, SOURCES, module_of

POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "select", "syslog", "termios"}
WINDOWS_MODULES = {"msvcrt", "nt", "winreg"}
# Attributes of `os`, `signal` and `time` that macOS or Windows lacks, and `os.rename`, which
# replaces a file on POSIX only (`os.replace` does everywhere).
_SYSTEM_CALLS = """
    os.chown os.chroot os.fchmod os.fchown os.fork os.forkpty os.getegid os.geteuid os.getgid
    os.getgroups os.getloadavg os.getpgid os.getpriority os.getresuid os.getuid os.killpg os.lchown
    os.memfd_create os.mkfifo os.nice os.pread os.preadv os.process_cpu_count os.pwrite
    os.register_at_fork os.rename os.sched_getaffinity os.sched_setaffinity os.sched_yield
    os.sendfile os.setsid os.setuid os.startfile os.statvfs os.sysconf os.uname os.wait os.wait4
    signal.SIGALRM signal.SIGCHLD signal.SIGHUP signal.SIGKILL signal.SIGUSR1 signal.alarm
    signal.pthread_kill signal.pthread_sigmask signal.setitimer signal.sigwait
    time.clock_gettime time.pthread_getcpuclockid time.tzset
"""
SYSTEM_CALLS = _SYSTEM_CALLS.split()
# What may be used nevertheless, with the reason.
GUARDED = {
    ("gpuboost.backends.cache", "os.geteuid"): "only with hasattr(os, 'geteuid')",
    ("gpuboost.backends.numba.background", "os.register_at_fork"): "only with hasattr(os, ...)",
    ("gpuboost.backends.numba.intrinsics", "import ctypes"): "SwitchToThread of Windows, or "
    "sched_yield, which every POSIX system has",
    ("gpuboost.backends.numba.references", "import ctypes"): "addresses of arrays only",
    ("gpuboost.interchange.logarithm", "import ctypes"): "logf, which every C library has",
    ("gpuboost.interchange.logarithm", "import ctypes.util"): "to find the C library",
    ("gpuboost.backends.numba.level_wise.grower", "/sys/"): "OSError elsewhere; then 1 MiB",
    ("gpuboost.cli.bench.worker", "/proc/"): "OSError elsewhere; then no memory is shown",
    ("gpuboost.blocks.limits", "os.sysconf"): "only with hasattr(os, 'sysconf')",
    ("gpuboost.blocks.limits", "/sys/"): "only if the file exists; then the container has a limit",
    ("gpuboost.blocks.spill", "os.preadv"): "only with hasattr(os, 'preadv')",
    ("gpuboost.io.container", "os.O_RDONLY"): "0 on every system",
    ("gpuboost.io.container", "open without encoding"): "os.open of a folder, to sync it",
}
READS_OR_WRITES_TEXT = {"open", "read_text", "write_text", "fdopen"}


def findings(text: str) -> Iterator[str]:
    """Names of calls, modules and instructions in a module that not every system has."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            own = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            imported = [name.name for name in node.names]
            for module in [own] if own else imported:
                if module.split(".")[0] in POSIX_MODULES | WINDOWS_MODULES | {"ctypes"}:
                    yield f"import {module}"
            yield from (f"{own}.{n}" for n in imported if f"{own}.{n}" in SYSTEM_CALLS)
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in SYSTEM_CALLS or name.startswith(("os.O_", "os.RTLD", "socket.AF_UNIX")):
                yield name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from of_string(node.value)
        elif isinstance(node, ast.Call):
            yield from of_call(node)


def of_string(text: str) -> Iterator[str]:
    """Paths of POSIX, and names of instructions that only one kind of processor has."""
    parts = ("/proc/", "/sys/", "/dev/", "/tmp", "/usr/", "llvm.x86.", "llvm.aarch64.", "llvm.arm.")
    yield from (part for part in parts if text.startswith(part))
    if not text.isascii():
        yield f"not ASCII: {text[:20]!r}"  # cannot be printed with every encoding of a console


def of_call(node: ast.Call) -> Iterator[str]:
    """Text without an encoding, processes by fork, and assembly."""
    name = ast.unparse(node.func).split(".")[-1]
    arguments = [ast.unparse(each) for each in node.args]
    keywords = {each.arg for each in node.keywords}
    is_binary = any(each.startswith("'") and each.endswith("b'") for each in arguments)
    if name in READS_OR_WRITES_TEXT and not is_binary and "encoding" not in keywords:
        yield f"{name} without encoding"
    if name in ("get_context", "set_start_method") and "'spawn'" not in arguments:
        yield f"{name} other than spawn"
    if name in ("Process", "Pool", "asm", "InlineAsm"):
        yield name
    if name == "ProcessPoolExecutor" and len(arguments) < 2 and "mp_context" not in keywords:
        yield "ProcessPoolExecutor without a context"


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_nothing_is_used_that_a_system_lacks(path: Path) -> None:
    own = module_of(path)
    found = set(findings(path.read_text(encoding="utf-8")))
    assert {name for name in found if (own, name) not in GUARDED} == set()


def test_the_list_of_guarded_names_has_no_extra_entries() -> None:
    for own, name in GUARDED:
        path = PACKAGE.parent / (own.replace(".", "/") + ".py")
        assert name in set(findings(path.read_text(encoding="utf-8"))), (own, name)


@pytest.mark.parametrize(
    ("code", "found"),
    {
        "import fcntl": "import fcntl",
        "from resource import getrusage": "import resource",
        "from os import getuid": "os.getuid",
        "n = len(os.sched_getaffinity(0))": "os.sched_getaffinity",
        "os.open(path, os.O_RDONLY | os.O_DIRECT)": "os.O_DIRECT",
        "os.rename(a, b)": "os.rename",
        "open(path)": "open without encoding",
        "path.write_text(text)": "write_text without encoding",
        "open('/proc/self/status', 'rb')": "/proc/",
        "multiprocessing.get_context('fork')": "get_context other than spawn",
        "ProcessPoolExecutor(2)": "ProcessPoolExecutor without a context",
        "ir.InlineAsm(kind, 'pause', '')": "InlineAsm",
        "f('llvm.x86.sse2.pause')": "llvm.x86.",
    }.items(),
)
def test_findings_are_found(code: str, found: str) -> None:
    assert found in list(findings(code))


@pytest.mark.parametrize(
    "code", ["open(path, 'rb')", "path.read_text(encoding='utf-8')", "os.replace(a, b)"]
)
def test_portable_calls_are_not_found(code: str) -> None:
    assert not list(findings(code))


# ---- systems that lack what is guarded -----------------------------------------------------------


@pytest.fixture
def bare_os(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os` without what Windows lacks, as far as the package's own code uses `os`."""
    for name in SYSTEM_CALLS:
        module, _, attribute = name.partition(".")
        if module == "os" and attribute not in ("rename", "register_at_fork"):
            monkeypatch.delattr(os, attribute, raising=False)


def test_the_cache_works_without_owners(
    bare_os: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)  # no mode says who can write on Windows
    cache.keep(tmp_path / "kernels" / "code", b"code")
    assert cache.recall(tmp_path / "kernels" / "code") == b"code"


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_models_are_fitted_without_posix(bare_os: None, device: str) -> None:
    X = np.random.default_rng(0).random((300, 3))
    model = GradientBoostingClassifier(n_estimators=2, device=device, n_jobs=2)
    assert model.fit(X, X[:, 0] > 0.5).score(X, X[:, 0] > 0.5) > 0.9


def test_the_compiler_is_imported_without_fork() -> None:
    """On Windows nothing is registered for forks."""
    code = (
        "import os; del os.register_at_fork, os.fork, os.getuid, os.geteuid\n"
        "import gpuboost.backends.numba.background"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def assembly(triple: str) -> str:
    """Assembly of a function with all intrinsics, for another processor and system."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()

    @njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def use(words: Any, array: Any) -> None:
        intrinsics.prefetch(array, 1, 1)
        n_before = intrinsics.raise_by_one(words, 0)
        intrinsics.store_release(words, 1, intrinsics.load_acquire(words, 2) + n_before)
        intrinsics.let_others_run()

    use.compile(types.void(types.int64[::1], types.float64[:, ::1]))
    (text,) = use.inspect_llvm().values()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=3)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_assembly(module)


INSTRUCTIONS = {  # prefetch, atomic addition, loads and stores in order, call
    "arm64-apple-darwin": ("prfm", "ldaxr", "ldar", "stlr", "_gpuboost_yield"),
    "aarch64-unknown-linux-gnu": ("prfm", "ldaxr", "ldar", "stlr", "gpuboost_yield"),
    "x86_64-pc-windows-msvc": ("prefetch", "lock", "xadd", "gpuboost_yield"),
}


@pytest.mark.parametrize("triple", INSTRUCTIONS)
def test_intrinsics_compile_for_other_processors(triple: str) -> None:
    """In a process of its own, because LLVM ends one if it cannot translate an instruction."""
    code = f"from tests.test_portability import assembly; print(assembly({triple!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in INSTRUCTIONS[triple] if name not in done.stdout] == []


def fingerprint_of_a_fit() -> str:
    X = np.random.default_rng(0).random((300, 3))
    model = GradientBoostingClassifier(n_estimators=2, device="numpy", random_state=0)
    return model.fit(X, X[:, 0] > 0.5).fingerprint()


def test_a_spawned_process_fits_the_same_model() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(fingerprint_of_a_fit).result() == fingerprint_of_a_fit()


def test_ctrl_c_is_left_alone_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows passes no ignored signals on to new processes."""
    monkeypatch.setattr(warm_up.sys, "platform", "win32")
    monkeypatch.delattr(warm_up.signal, "signal")
    with warm_up._ctrl_c_ignored():
        pass
