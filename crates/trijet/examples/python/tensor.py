"""Computes on PyTorch tensors with trijet, without a copy: tensor.py LIBRARY."""

import ctypes
import gc
import sys

import torch


def hand_over(tensor):
    """The DLPack tensor of a PyTorch tensor. The library owns it from here on."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    managed = get(capsule, b"dltensor")
    # A capsule of this name does not delete the tensor when it is collected.
    hand_over.names.append(ctypes.create_string_buffer(b"used_dltensor"))
    rename(capsule, hand_over.names[-1])
    return ctypes.c_void_p(managed)


hand_over.names = []


def main():
    library = ctypes.CDLL(sys.argv[1])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.arange(1_000_003, dtype=torch.float32, device="cuda")
        y = torch.ones_like(x)
        # Work of PyTorch on the same tensors comes before and after, in the same stream.
        y.add_(1.0)
        addresses = (ctypes.c_uint64 * 2)()
        before = torch.cuda.memory_allocated()
        status = library.axpy(
            ctypes.c_float(0.5),
            hand_over(x),
            hand_over(y),
            ctypes.c_void_p(stream.cuda_stream),
            addresses,
        )
        assert status == 0, status
        y.mul_(2.0)
    stream.synchronize()
    assert list(addresses) == [x.data_ptr(), y.data_ptr()], "the tensors were copied"
    expected = 2.0 * (2.0 + 0.5 * torch.arange(1_000_003, dtype=torch.float32))
    assert torch.equal(y.cpu(), expected)
    # The library has given the tensors back: nothing else keeps their memory.
    size = before - x.numel() * x.element_size() * 2
    del x, y
    gc.collect()
    assert torch.cuda.memory_allocated() <= size, torch.cuda.memory_allocated()
    print("axpy on 1000003 elements of PyTorch, without a copy")


main()
