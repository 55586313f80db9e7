"""Arrays and streams of PyTorch and CuPy and ours, by DLPack, ``__cuda_array_interface__`` and ``__cuda_stream__``.

The laws are those that PyTorch's tests of DLPack and cuda-python's tests of its stream protocol hold. PyTorch takes
part on the processor too; the laws about streams need a GPU (``TRIJET_DEVICE=cuda:0``).
"""

import os

import numpy as np
import pytest

import trijet
from trijet._streams import stream_handle

DEVICE = os.environ.get("TRIJET_DEVICE", "host")
ON_GPU = DEVICE.startswith("cuda")
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="TRIJET_DEVICE names no GPU")
BUSY_CYCLES = 200_000_000
"""Cycles that a stream is kept busy: about 0.1 s."""
WAIT = 'extern "C" __global__ void wait(long long n) { for (long long t = clock64(); clock64() - t < n;); }'
TYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    if not ON_GPU:
        pytest.skip("CuPy needs a GPU")
    return pytest.importorskip("cupy")


def place():
    """The name of the device in PyTorch."""
    return DEVICE if ON_GPU else "cpu"


def loaded(torch):
    """Loads the kernels of a test: the first launch of a kernel may wait for all running ones."""
    x = torch.zeros(1 << 20, device=DEVICE)
    x.fill_(1)
    x += 1
    x.sum().item()
    torch.cuda._sleep(1)
    torch.cuda.synchronize()


# Values, types and shapes


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (0, 3)])
def test_a_tensor_keeps_its_type_and_values(torch, dtype, shape):
    x = torch.arange(int(np.prod(shape)), device=place()).to(getattr(torch, dtype)).reshape(shape)
    buffer = trijet.from_dlpack(x)
    # The library has no arrays without axes: one element has the shape (1,).
    assert (buffer.dtype, buffer.shape) == (dtype, shape or (1,))
    back = torch.from_dlpack(buffer)
    assert back.dtype == x.dtype and torch.equal(back.reshape(shape), x)
    assert x.numel() == 0 or back.data_ptr() == x.data_ptr()


def test_truth_values_are_bytes(torch):
    x = torch.tensor([True, False, True], device=place())
    buffer = trijet.from_dlpack(x)
    assert buffer.dtype == "uint8" and trijet.to_numpy(buffer).tolist() == [1, 0, 1]


def test_bfloat16_goes_both_ways(torch):
    x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16, device=place())
    back = torch.from_dlpack(trijet.from_dlpack(x))
    assert back.dtype == torch.bfloat16 and torch.equal(back, x)


def test_both_sides_share_their_memory(torch):
    x = torch.zeros(4, device=place())
    buffer = trijet.from_dlpack(x)
    x[1] = 5
    if ON_GPU:
        torch.cuda.synchronize()  # work after the exchange is the user's to order
    assert trijet.to_numpy(buffer)[1] == 5
    torch.from_dlpack(buffer)[2] = 7
    assert trijet.to_numpy(buffer)[2] == 7 and x[2] == 7


def test_a_view_with_an_offset_begins_at_its_first_element(torch):
    x = torch.arange(12, device=place()).reshape(4, 3)[2:]
    assert trijet.to_numpy(trijet.from_dlpack(x)).tolist() == [[6, 7, 8], [9, 10, 11]]


def test_strides_of_axes_of_length_one_have_no_meaning(torch):
    x = torch.arange(6, device=place()).as_strided((1, 6, 1), (77, 1, 5))
    assert trijet.from_dlpack(x).shape == (1, 6, 1)


@pytest.mark.parametrize("change", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x.expand(3, 4, 6)])
def test_an_array_that_is_not_dense_is_refused(torch, change):
    with pytest.raises(BufferError, match="make the array contiguous"):
        trijet.from_dlpack(change(torch.zeros(4, 6, device=place())))


def test_tensors_that_are_more_than_memory_are_refused(torch):
    with pytest.raises(BufferError):
        trijet.from_dlpack(torch.zeros(3, device=place(), requires_grad=True))
    with pytest.raises(BufferError):
        trijet.from_dlpack(torch.zeros(3, dtype=torch.complex64, device=place()).conj())


def test_a_capsule_is_taken_once(torch):
    capsule = trijet.empty((3,), device=DEVICE).__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(Exception, match=r"(?i)capsule"):
        torch.from_dlpack(capsule)


def test_a_copy_has_memory_of_its_own(torch):
    buffer = trijet.asarray(np.arange(3.0), device=DEVICE)
    shared, copy = torch.from_dlpack(buffer), torch.from_dlpack(buffer.__dlpack__(copy=True))
    assert torch.equal(shared, copy) and shared.data_ptr() != copy.data_ptr()


def test_the_memory_lives_until_the_last_tensor(torch):
    x = torch.from_dlpack(trijet.asarray(np.arange(1000), device=DEVICE))[10:]
    others = [trijet.asarray(np.zeros(1000), device=DEVICE) for _ in range(10)]
    assert x[5] == 15 and len(others) == 10


# Streams of the DLPack protocol


@needs_gpu
@pytest.mark.parametrize("stream", [0, -2])
def test_a_number_that_names_no_stream_is_refused(stream):
    with pytest.raises(BufferError, match="is no stream"):
        trijet.empty((3,), device=DEVICE).__dlpack__(stream=stream)


@needs_gpu
def test_work_of_the_producer_comes_first(torch):
    """Its stream is busy when the tensor is handed over, and its values are there when we read them."""
    side = torch.cuda.Stream()
    loaded(torch)
    for turn in range(3):
        with torch.cuda.stream(side):
            x = torch.zeros(1 << 20, device=DEVICE)
            torch.cuda._sleep(BUSY_CYCLES)
            x += turn
            buffer = trijet.from_dlpack(x)
        assert not side.query()
        assert (trijet.to_numpy(buffer) == turn).all()


@needs_gpu
def test_our_work_comes_before_the_stream_of_the_consumer(torch):
    """The pending work on the array is of another stream of PyTorch, which the array has followed."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    loaded(torch)
    buffer = trijet.asarray(np.zeros(1 << 20, "f4"), device=DEVICE)
    with torch.cuda.stream(first):
        x = torch.from_dlpack(buffer)
        torch.cuda._sleep(BUSY_CYCLES)
        x += 3
    with torch.cuda.stream(second):
        total = torch.from_dlpack(buffer).sum()
        assert not second.query()
        assert total.item() == 3 << 20


@needs_gpu
def test_later_work_of_a_consumer_comes_before_our_next_use(torch):
    side = torch.cuda.Stream()
    loaded(torch)
    buffer = trijet.asarray(np.zeros(1 << 20, "f4"), device=DEVICE)
    with torch.cuda.stream(side):
        x = torch.from_dlpack(buffer)
    for turn in range(1, 4):
        with torch.cuda.stream(side):
            torch.cuda._sleep(BUSY_CYCLES)
            x.fill_(turn)
        assert not side.query()
        copy = torch.from_dlpack(buffer.__dlpack__(copy=True))
        assert (trijet.to_numpy(buffer) == turn).all() and (copy == turn).all()


@needs_gpu
def test_memory_is_reused_after_the_work_of_its_consumers(torch):
    """A busy stream still reads the array when its last holder drops it; the next owner must not overwrite it."""
    side = torch.cuda.Stream()
    sums = []
    for turn in range(1, 6):
        buffer = trijet.asarray(np.full(1 << 20, turn, "f4"), device=DEVICE)
        with torch.cuda.stream(side):
            x = torch.from_dlpack(buffer)
            torch.cuda._sleep(BUSY_CYCLES // 4)
            sums.append(x.sum())
        del x, buffer
        trijet.asarray(np.zeros(1 << 20, "f4"), device=DEVICE)
    side.synchronize()
    assert [int(one) for one in sums] == [turn << 20 for turn in range(1, 6)]


@needs_gpu
def test_the_stream_of_a_consumer_may_be_destroyed(cupy):
    """Its work is still followed: when we read the array, and when its memory is used again."""
    wait = cupy.RawKernel(WAIT, "wait")
    wait((1,), (1,), (1,))
    for turn in range(1, 6):
        buffer = trijet.asarray(np.zeros(1 << 20, "i4"), device=DEVICE)
        for added in (turn, 1000):
            with cupy.cuda.Stream(non_blocking=True):
                x = cupy.from_dlpack(buffer)
                wait((1,), (1,), (BUSY_CYCLES // 4,))
                x += added
            del x
        assert (trijet.to_numpy(buffer) == turn + 1000).all()
        with cupy.cuda.Stream(non_blocking=True):
            x = cupy.from_dlpack(buffer)
            wait((1,), (1,), (BUSY_CYCLES // 4,))
            x += 1
        del x, buffer
        found = trijet.to_numpy(trijet.asarray(np.full(1 << 20, turn, "i4"), device=DEVICE))
        assert (found == turn).all()


@needs_gpu
def test_a_stream_in_a_capture_is_refused_and_the_capture_goes_on(torch):
    """An array would be ordered by a wait that a replay of the graph repeats, and its memory would be followed nowhere."""
    loaded(torch)
    buffer = trijet.asarray(np.zeros(1 << 10, "f4"), device=DEVICE)
    x = torch.zeros(1 << 10, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(BufferError, match="in a capture"):
            torch.from_dlpack(buffer)
        x += 1
    graph.replay()
    graph.replay()
    assert (x == 2).all() and (trijet.to_numpy(buffer) == 0).all()


@needs_gpu
def test_the_stream_of_each_thread_is_a_stream():
    assert "dltensor" in repr(trijet.empty((3,), device=DEVICE).__dlpack__(stream=2))


@needs_gpu
def test_arrays_of_cupy_go_both_ways(cupy):
    with cupy.cuda.Stream(non_blocking=True):
        x = cupy.arange(1 << 20, dtype="i4")
        x *= 2
        buffer = trijet.from_dlpack(x)
        back = cupy.from_dlpack(buffer)
        assert back.data.ptr == x.data.ptr and int(back[-1]) == 2 * ((1 << 20) - 1)
    assert trijet.to_numpy(buffer)[5] == 10


# __cuda_array_interface__


class Interface:
    """An array with nothing but the interface, as of a version of Numba."""

    def __init__(self, array, **changes):
        self.array = array
        found = dict(array.__cuda_array_interface__, **changes)
        self.__cuda_array_interface__ = {key: value for key, value in found.items() if value != "absent"}


@needs_gpu
def test_an_array_by_its_interface_follows_the_stream_it_names(cupy):
    for blocking in (True, False):
        with cupy.cuda.Stream(non_blocking=not blocking) as stream:
            x = cupy.zeros((2, 3), "f4")
            cupy.RawKernel(WAIT, "wait")((1,), (1,), (BUSY_CYCLES,))
            x += 4
            buffer = trijet.asarray(Interface(x, stream=stream.ptr), device=DEVICE)
        assert buffer.shape == (2, 3) and (trijet.to_numpy(buffer) == 4).all()


@needs_gpu
def test_an_array_by_its_interface_keeps_its_producer(cupy):
    buffer = trijet.asarray(Interface(cupy.arange(1000)), device=DEVICE)
    cupy.zeros(1000, "i8")
    assert trijet.to_numpy(buffer)[999] == 999


@needs_gpu
def test_interfaces_that_say_less_or_too_much_are_refused(cupy):
    x = cupy.arange(12, dtype="f4").reshape(3, 4)
    taken = [
        {},
        {"strides": (16, 4)},
        {"strides": "absent"},
        {"version": 2, "stream": "absent"},
        {"stream": None},
        {"stream": 1},
        {"stream": 2},
        {"typestr": "<i4"},
    ]
    for changes in taken:
        assert trijet.asarray(Interface(x, **changes), device=DEVICE).shape == (3, 4), changes
    assert not trijet.asarray(Interface(x), device=DEVICE).read_only
    assert trijet.asarray(Interface(x, data=(x.data.ptr, True)), device=DEVICE).read_only
    refused = {
        "names no stream": {"stream": 0},
        "the stride 4, and C order needs 16": {"strides": (4, 12)},
        "`shape` is missing": {"shape": "absent"},
        "`data` is missing": {"data": "absent"},
        "the type `>f4`": {"typestr": ">f4"},
        "the type `<U4`": {"typestr": "<U4"},
        "a negative length": {"shape": (-1, 4)},
        "a mask": {"mask": 1},
        "as many strides": {"strides": (4,)},
    }
    for words, changes in refused.items():
        with pytest.raises(BufferError, match=words):
            trijet.asarray(Interface(x, **changes), device=DEVICE)


def test_an_array_of_a_gpu_is_not_for_the_host():
    class Foreign:
        __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (4096, False), "version": 3}

    with pytest.raises(trijet.TrijetError, match="in the memory of a GPU"):
        trijet.asarray(Foreign(), device="host")


# __cuda_stream__


def test_a_stream_is_a_version_and_a_handle():
    class Stream:
        def __cuda_stream__(self):
            return (0, 4660)

    assert stream_handle(Stream()) == stream_handle(4660) == 4660


@pytest.mark.parametrize(
    ("words", "found"),
    [("the version 1, and not 0", (1, 5)), (r"returned 5, and not", 5), (r"returned \(0,\)", (0,)), ("returned None", None)],
)
def test_a_stream_of_another_protocol_is_refused(words, found):
    class Stream:
        def __cuda_stream__(self):
            return found

    with pytest.raises(TypeError, match=words):
        stream_handle(Stream())


def test_objects_that_are_no_streams_are_refused():
    class Constant:
        __cuda_stream__ = (0, 5)

    with pytest.raises(TypeError, match="is no method"):
        stream_handle(Constant())
    for wrong in (None, "5", 5.0, True, object()):
        with pytest.raises(TypeError, match="is no stream"):
            stream_handle(wrong)


@needs_gpu
def test_streams_of_other_packages_are_known_by_their_handles(torch, cupy):
    for stream, handle in ((torch.cuda.Stream(), "cuda_stream"), (cupy.cuda.Stream(), "ptr")):
        assert stream_handle(stream) == getattr(stream, handle) > 0


@needs_gpu
def test_the_stream_of_a_stage_is_a_stream_of_cupy_and_torch(torch, cupy):
    seen = []

    @trijet.stage
    def look(x, out, stream):
        assert stream.__cuda_stream__() == (0, stream.handle)
        if hasattr(cupy.cuda.Stream, "from_external"):
            seen.append(cupy.cuda.Stream.from_external(stream).ptr)
        seen.append(torch.cuda.ExternalStream(stream.handle).cuda_stream)
        with cupy.cuda.ExternalStream(stream.handle):
            cupy.from_dlpack(out)[...] = cupy.from_dlpack(x) + 1
        assert set(seen[-2:]) == {stream.handle}

    x = np.arange(24, dtype="u2").reshape(2, 3, 4)
    assert np.array_equal(trijet.map(x, [look], device=DEVICE), x + 1) and seen
