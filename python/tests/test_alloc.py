"""``trijet.alloc`` over the device that runs on the processor, with stand-ins for PyTorch and CuPy."""

import gc
import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import trijet.alloc as ta
from trijet import errors

HOST = -1

try:
    ta.library_path()
    has_library = True
except errors.FileError:
    has_library = False
needs_library = pytest.mark.skipif(not has_library, reason="libtrijet_alloc.so is not there")


class Stream:
    def __init__(self, ptr=0):
        self.ptr = ptr


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


@pytest.fixture
def cupy(monkeypatch):
    """The parts of CuPy that are used. Its device is the one that runs on the processor."""
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(
        MemoryPointer=MemoryPointer,
        UnownedMemory=UnownedMemory,
        runtime=types.SimpleNamespace(getDevice=lambda: HOST),
        get_current_stream=lambda: module.stream,
        set_allocator=lambda allocator: setattr(module, "alloc", allocator),
    )
    module.stream = Stream()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def torch(monkeypatch):
    """The parts of PyTorch that are used."""
    module = types.ModuleType("torch")
    module.recorded, module.current, module.started = None, None, False

    class CUDAPluggableAllocator:
        def __init__(self, *arguments):
            self.arguments = arguments

        def allocator(self):
            return types.SimpleNamespace(set_record_stream_fn=lambda address: setattr(module, "recorded", address))

    def change_current_allocator(allocator):
        if module.current is not None:
            raise RuntimeError("Can't swap an already initialized allocator")
        module.current = allocator

    memory = types.SimpleNamespace(
        CUDAPluggableAllocator=CUDAPluggableAllocator, change_current_allocator=change_current_allocator
    )
    module.cuda = types.SimpleNamespace(memory=memory, is_initialized=lambda: module.started)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.setattr(ta, "_installed", {})
    monkeypatch.setattr(ta, "_streams", {})
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    if has_library:
        ta._library().trijet_alloc_limit(0)


@needs_library
def test_arrays_of_cupy_live_in_the_heap(cupy):
    assert ta.install() == ("cupy",)
    before = ta.stats(HOST).live
    one, two = cupy.alloc(1000), cupy.alloc(1 << 20)
    assert one.ptr % 256 == 0 and one.ptr != two.ptr and one.mem.device_id == HOST
    assert ta.stats(HOST).live - before == 1024 + (1 << 20)
    address = one.ptr
    del one
    gc.collect()
    assert ta.stats(HOST).live - before == 1 << 20
    again = cupy.alloc(1000)
    assert again.ptr == address, "the same stream gets the memory again"
    del again, two
    found = ta.stats(HOST)
    assert found.live == before and found.live_high >= 1 << 20 and found.reserved >= found.live
    assert ta.stats(60) == ta.Stats(0, 0, 0, 0, 0, 0)


@needs_library
def test_an_empty_array_has_no_memory(cupy):
    ta.install()
    assert cupy.alloc(0).ptr == 0


@needs_library
def test_the_limit_holds_and_can_be_changed(cupy):
    ta.install(limit="1 MiB")
    with pytest.raises(errors.OutOfMemoryError, match="alloc"):
        cupy.alloc(8 << 20)
    with pytest.raises(MemoryError):
        cupy.alloc(8 << 20)
    ta.install(limit=64 << 20)
    assert cupy.alloc(8 << 20).ptr
    for wrong in (0, "-1 GiB", "much"):
        with pytest.raises(ValueError):
            ta.install(limit=wrong)


@needs_library
def test_a_stream_lives_until_it_is_forgotten(cupy):
    ta.install()
    stream = cupy.stream
    del cupy.alloc(64).mem
    assert ta._streams == {(HOST, 0): stream}
    ta.forget_stream(stream, HOST)
    assert ta._streams == {}


@needs_library
def test_pytorch_gets_the_functions_of_the_library(torch):
    assert ta.install() == ("torch",)
    assert torch.current.arguments == (str(ta.library_path()), "trijet_alloc", "trijet_free")
    assert torch.recorded
    assert ta.install() == ("torch",), "a second call does nothing"


@needs_library
def test_pytorch_that_has_allocated_is_refused(torch):
    torch.started = True
    with pytest.raises(errors.TrijetError, match="before the first tensor"):
        ta.install()
    torch.started, torch.current = False, "another one"
    with pytest.raises(errors.TrijetError, match="before the first tensor.*already initialized"):
        ta.install()


@needs_library
def test_both_packages_share_the_heap(torch, cupy):
    assert ta.install() == ("torch", "cupy")
    assert ta.install(torch=False) == ("cupy",)
    assert torch.current is not None and cupy.alloc(64).ptr


def test_a_package_is_named_or_imported(cupy):
    with pytest.raises(ValueError, match="import torch or cupy first"):
        ta.install(cupy=False)


def test_a_library_that_is_not_there_is_an_error(monkeypatch, cupy):
    monkeypatch.setenv("TRIJET_ALLOC", "/nowhere/libtrijet_alloc.so")
    with pytest.raises(errors.FileError, match="/nowhere.*TRIJET_ALLOC"):
        ta.library_path()


def test_an_import_loads_nothing():
    code = """if True:
        import sys, trijet.alloc
        loaded = open("/proc/self/maps").read()
        assert "libtrijet_alloc" not in loaded
        assert not {"torch", "cupy"} & set(sys.modules)
    """
    path = os.pathsep.join([str(Path(ta.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
    assert importlib.import_module("trijet.alloc") is ta
