"""The CuPy runtime, tested with a fake CuPy that uses NumPy arrays and the shim's kernels.

`test_gpu.py` has the tests that need a GPU.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime import compile as cubins
from gpuboost.backends.cuda.runtime import staging
from gpuboost.backends.cuda.runtime.compile import CompileError, CubinStore, choose_architecture
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.fakes import fake_cuda

KERNEL = """
extern "C" __global__ void add_block(int32 n, int32* out)
{
    DYNAMIC_SHARED(int32, space);
    int32 i = blockIdx.x * blockDim.x + threadIdx.x;
    space[threadIdx.x] = BY + blockIdx.x;
    __syncthreads();
    if (i < n) out[i] += space[threadIdx.x];
}

extern "C" __global__ void nothing(int32 n) {}
"""

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
needs_nvrtc = pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)


@pytest.fixture
def runtime(machine, monkeypatch):
    """The runtime of the second device, with the kernels of this file."""
    from gpuboost.backends.cuda.runtime import cupy as cupy_runtime

    def source(file_name, constants):
        return "".join(f"#define {name} {value}\n" for name, value in constants.items()) + KERNEL

    monkeypatch.setattr(cupy_runtime, "kernel_source", source)
    return cupy_runtime.CupyRuntime(1)


def launch(runtime, n=5, grid=(2,), by=7, **words):
    with runtime.active():
        out = runtime.asarray(np.zeros(n, dtype=np.int32))
        kernel = runtime.kernel("k.cu", "add_block", {"BY": by})
        kernel(grid, (4,), (np.int32(n), out), **({"shared_mem": 16} | words))
        return runtime.to_host(out)


def test_facts_of_the_device(runtime):
    assert runtime.name == "cuda:1"
    assert runtime.shared_memory == fake_cuda.OPT_IN_SHARED
    assert runtime.n_multiprocessors == 4


@needs_compiler
def test_kernels_run(runtime):
    assert launch(runtime).tolist() == [7, 7, 7, 7, 8]
    assert launch(runtime, by=2).tolist() == [2, 2, 2, 2, 3]


@needs_compiler
def test_an_empty_grid_launches_nothing(runtime, machine):
    assert launch(runtime, grid=(0,)).tolist() == [0] * 5
    assert launch(runtime, grid=[1, 0]).tolist() == [0] * 5
    assert machine.launches == []


@needs_compiler
def test_launches_may_have_all_the_shared_memory(runtime):
    assert launch(runtime, shared_mem=runtime.shared_memory)[0] == 7
    with pytest.raises(ValueError, match="shared_mem"):
        launch(runtime, shared_mem=runtime.shared_memory + 1)


@needs_compiler
def test_a_source_is_compiled_once(runtime, machine):
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: launch(runtime).tolist(), range(8)))
    assert found == [[7, 7, 7, 7, 8]] * 8
    with runtime.active():
        runtime.kernel("k.cu", "nothing", {"BY": 7})
    assert machine.compilations == 1
    launch(runtime, by=8)
    assert machine.compilations == 2
    launch(CupyRuntime(1))  # as in another process: the code is on disk
    assert machine.compilations == 2


@needs_compiler
@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_damaged_code_on_disk_is_compiled_again(runtime, machine, tmp_path, damage):
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    launch(runtime)
    (kept,) = (tmp_path / cubins.FOLDER).iterdir()
    good = kept.read_bytes()
    kept.write_bytes(good[:-1] if damage is None else damage)
    assert launch(CupyRuntime(1))[0] == 7
    assert machine.compilations == 2 and kept.read_bytes() == good


@needs_compiler
def test_a_cache_that_cannot_be_written_is_ignored(runtime, machine, tmp_path):
    (tmp_path / cubins.FOLDER).write_text("a file in the way")
    assert launch(runtime)[0] == 7 and machine.compilations == 1


def test_compile_errors_show_the_log(runtime, machine):
    machine.reject_source = True
    with pytest.raises(CompileError, match=r"k\.cu does not compile.*\n.*no such thing"):
        launch(runtime)
    assert issubclass(CompileError, RuntimeError)


def test_arrays_come_and_go(runtime, machine):
    host = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    with runtime.active():
        there = runtime.asarray(host)
        host[0, 0] = 9
        assert there.flags.c_contiguous and there.number == 1
        assert runtime.asarray(there) is there
        back = runtime.to_host(there)
        assert runtime.to_host(host) is host
    np.testing.assert_array_equal(back, [[0, 1, 2], [3, 4, 5]])
    assert machine.current == 0


def test_read_later_returns_the_contents_at_the_call(runtime, machine):
    with runtime.active():
        there = runtime.asarray(np.arange(4))
        read = runtime.read_later(there)
        there.fill(0)
        assert machine.waits == 0
        np.testing.assert_array_equal(read(), [0, 1, 2, 3])
        assert machine.waits == 1
        np.testing.assert_array_equal(read(), [0, 1, 2, 3])
        assert runtime.read_later(runtime.asarray(np.zeros((0, 3))))().shape == (0, 3)


def test_pinned_memory_lives_as_long_as_its_views(runtime, machine):
    """Pinned memory is freed with its last view; the host makes no copy."""
    with runtime.active():
        there = runtime.asarray(np.arange(4))
        read = runtime.read_later(there)
        some = read()[1:3]
    pinned = machine.pinned[-1]
    del read
    assert machine.is_pinned(some)
    np.testing.assert_array_equal(some, [1, 2])
    del some
    assert pinned() is None


def test_a_discarded_read_is_waited_for(runtime, machine):
    with runtime.active():
        read = runtime.read_later(runtime.asarray(np.arange(4)))
        del read
    assert machine.waits == 1


# ---- copies through pinned buffers -------------------------------------------------------------


@pytest.fixture
def small_buffers(monkeypatch):
    """Use buffers of 1 KiB for all copies."""
    monkeypatch.setattr(staging, "BUFFER_BYTES", 1024)
    monkeypatch.setattr(staging, "_SMALL", 0)


HOSTS = {
    "flat": np.arange(5000.0),
    "columns": np.arange(6000, dtype=np.int32).reshape(2, 3000).T,
    "rows longer than a buffer": np.arange(4000.0).reshape(2, 2000),
    "rows longer than a buffer, transposed": np.arange(4000.0).reshape(2000, 2).T,
    "three axes": np.arange(3000, dtype=np.int16).reshape(10, 20, 15)[:, ::2],
    "bool": np.arange(3000) % 3 == 0,
    "other byte order": np.arange(700, dtype=">f8"),
    "empty": np.empty((0, 7)),
    "scalar": np.array(3.5),
}


@pytest.mark.parametrize("name", HOSTS)
def test_arrays_larger_than_a_buffer(runtime, machine, small_buffers, name):
    host = HOSTS[name]
    with runtime.active():
        there = runtime.asarray(host)
        assert there.flags.c_contiguous and there.shape == host.shape and there.dtype.isnative
        np.testing.assert_array_equal(runtime.to_host(there), host)
        again = runtime.xp.empty(host.shape[::-1], dtype=there.dtype)
        runtime.upload(host.T, again)
        np.testing.assert_array_equal(runtime.to_host(again), host.T)
    n_buffers = staging.UPLOAD_BUFFERS + staging.DOWNLOAD_BUFFERS
    assert len(machine.pinned) <= n_buffers


def test_a_source_may_change_when_an_upload_returns(runtime, machine, small_buffers):
    """The source is copied to pinned memory; the stand-in checks that this stays unchanged."""
    with runtime.active():
        there = [runtime.asarray(np.full(90, number)) for number in range(40)]
        for number, array in enumerate(there):
            np.testing.assert_array_equal(runtime.to_host(array), np.full(90, number))


def test_an_upload_to_an_array_that_is_not_contiguous_is_refused(runtime):
    with runtime.active(), pytest.raises(ValueError, match="must be C-contiguous"):
        runtime.upload(np.ones((4, 3)), runtime.xp.zeros((3, 4)).T)


def test_small_uploads_do_not_wait(runtime, machine):
    """Buffers hold thousands of small uploads, so the host continues while the device is busy."""
    with runtime.active():
        for _ in range(5000):
            runtime.asarray(np.arange(100))
    assert machine.waits == 0
    assert len(machine.pinned) <= staging.UPLOAD_BUFFERS


def test_a_buffer_waits_for_all_streams_that_copy_from_it(runtime, machine, small_buffers):
    cupy = runtime.xp
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    with runtime.active():
        for number in range(12):
            with streams[number % 2]:
                runtime.asarray(np.full(60, number))
        used = [stream for stream in streams if stream.waited]
    assert used == streams


@needs_compiler
def test_uploads_and_downloads_by_several_threads(runtime, small_buffers):
    def there_and_back(seed):
        host = np.random.default_rng(seed).random(3000)
        with runtime.active():
            return np.array_equal(runtime.to_host(runtime.asarray(host)), host)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, range(40)))


def test_ordinary_memory_is_used_if_it_cannot_be_pinned(runtime, machine, small_buffers):
    machine.refuse_pinned = True
    host = np.arange(1000)
    with runtime.active():
        there = runtime.asarray(host)
        np.testing.assert_array_equal(runtime.to_host(there), host)
        np.testing.assert_array_equal(runtime.read_later(there)(), host)


def test_the_device_is_current_only_inside(runtime, machine):
    with pytest.raises(KeyError), runtime.active():
        assert machine.current == 1
        with runtime.active():
            pass
        assert machine.current == 1
        raise KeyError
    assert machine.current == 0
    seen = []
    with runtime.active():
        thread = threading.Thread(target=lambda: seen.append(machine.current))
        thread.start()
        thread.join()
    assert seen == [0]


def test_memory_budget_is_a_share_of_free_memory(runtime, machine):
    from gpuboost.backends.cuda.runtime.cupy import MEMORY_SHARE

    assert runtime.memory_budget() == int(MEMORY_SHARE * (110 << 20))
    machine.pool_limit = 50 << 20
    assert runtime.memory_budget() == int(MEMORY_SHARE * (20 << 20))
    machine.pool_limit = 10 << 20
    assert runtime.memory_budget() == 0


ERRORS = {
    "pool": fake_cuda.OutOfMemoryError("allocating 5 bytes"),
    "runtime": fake_cuda.CUDARuntimeError(2),
    "driver": fake_cuda.CUDADriverError(2),
    "sort, of CuPy's pool": MemoryError("std::bad_alloc"),
    "sort, of CUDA": RuntimeError(
        "radix_sort: failed on 1st step: cudaErrorMemoryAllocation: out of memory"
    ),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_out_of_memory_frees_all_arrays(runtime, machine, kind):
    def work():
        held = [runtime.asarray(np.zeros(10)) for _ in range(3)]
        held.append(held)  # a reference cycle
        assert machine.live == 3
        raise ERRORS[kind]

    message = r'cuda:1 is out of memory.*device="cpu"'
    with pytest.raises(MemoryError, match=message) as caught, runtime.active():
        work()
    assert machine.live == 0 and machine.freed == 1, caught
    assert not isinstance(caught.value, fake_cuda.OutOfMemoryError)


def test_a_compiler_without_memory(runtime, machine, monkeypatch):
    def fail(number, options):
        raise fake_cuda.NVRTCError(1)

    monkeypatch.setattr(runtime._cubins.nvrtc, "compileProgram", fail)
    with pytest.raises(MemoryError, match="cuda:1 is out of memory"):
        launch(runtime)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("of the host"),
        MemoryError(),
        RuntimeError("radix_sort: failed: cudaErrorInvalidValue: invalid argument"),
        fake_cuda.CUDARuntimeError(700),
        ValueError("else"),
    ],
    ids=repr,
)
def test_other_errors_are_not_changed(runtime, machine, error):
    with pytest.raises(type(error)) as caught, runtime.active():
        raise error
    assert caught.value is error and machine.freed == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_clear_error(runtime):
    def child(sender):
        try:
            with runtime.active():
                sender.send("worked")
        except RuntimeError as error:
            sender.send(str(error))

    receiver, sender = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(sender,))
    process.start()
    message = receiver.recv()
    process.join()
    assert message.startswith("cuda:1 cannot be used in this process") and "spawn" in message


# ---- compile options and the real compiler ---------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "expected"),
    [(75, "sm_75"), (87, "sm_86"), (90, "sm_90"), (103, "sm_100"), (130, "compute_120")],
)
def test_architectures(capability, expected):
    assert choose_architecture(capability, fake_cuda.KNOWN_ARCHITECTURES) == expected


def test_a_device_too_old_for_the_compiler_is_an_error():
    with pytest.raises(
        RuntimeError, match=r"compute capability 7\.5 or newer, but the device has 6\.1"
    ):
        choose_architecture(61, fake_cuda.KNOWN_ARCHITECTURES)


def test_options_are_those_of_the_compile_tests():
    audited = {option for option in nvrtc.OPTIONS if not option.startswith("--ptxas-options")}
    assert audited <= set(cubins.OPTIONS)


class RealCompiler:
    """``cupy.cuda.nvrtc`` that calls the compiler of `tests.cuda.nvrtc`."""

    NVRTCError = nvrtc.NvrtcError

    def __init__(self):
        self.options = None

    def getVersion(self):
        return (13, 0)

    def getSupportedArchs(self):
        return fake_cuda.KNOWN_ARCHITECTURES

    def createProgram(self, text, name, headers, include_names):
        return nvrtc._Program(text, name)

    def compileProgram(self, program, options):
        program.compile(options)

    def getCUBIN(self, program):
        return program.output("CUBIN")

    def getPTX(self, program):
        return program.output("PTX")

    def getProgramLog(self, program):
        return program.output("ProgramLog").decode().rstrip("\0")

    def destroyProgram(self, program):
        program.destroy()


@needs_nvrtc
def test_the_compiler_takes_the_options(tmp_path):
    text = 'extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3] / x[4]; }'
    assert CubinStore(RealCompiler(), 90, tmp_path).machine_code(text, "k.cu")[:4] == b"\x7fELF"
    ptx = CubinStore(RealCompiler(), 130, tmp_path).machine_code(text, "k.cu").decode()
    assert "mul.rn.f32" in ptx and "div.rn.f32" in ptx
    assert "fma" not in ptx and ".ftz" not in ptx
    with pytest.raises(CompileError, match=r"k\.cu\(1\): error: "):
        CubinStore(RealCompiler(), 90, tmp_path).machine_code("nonsense", "k.cu")
    assert len(list(tmp_path.iterdir())) == 2
