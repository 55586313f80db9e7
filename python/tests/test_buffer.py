"""Arrays of devices, and their exchange with other packages."""

import gc

import numpy as np
import pytest

import trijet

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
TYPES += ["complex64", "complex128"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 4), (0, 3)])
def test_an_array_goes_to_the_host_device_and_back(dtype, shape):
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    buffer = trijet.asarray(x, device="host")
    assert (buffer.shape, buffer.dtype, buffer.nbytes, buffer.device) == (shape, dtype, x.nbytes, "host")
    assert np.array_equal(trijet.to_numpy(buffer), x)
    assert np.array_equal(np.from_dlpack(buffer), x)


def test_numpy_takes_the_memory_itself():
    buffer = trijet.asarray(np.zeros(4, "f4"), device="host")
    first, second = np.from_dlpack(buffer), np.from_dlpack(buffer)
    first.flags.writeable or pytest.skip("this NumPy takes arrays of other packages as read-only")
    first[1] = 5
    assert second[1] == 5 and trijet.to_numpy(buffer)[1] == 5


def test_the_memory_lives_as_long_as_its_last_holder():
    x = np.from_dlpack(trijet.asarray(np.arange(1000, dtype="i4"), device="host"))
    gc.collect()
    others = [trijet.asarray(np.zeros(1000, "i4"), device="host") for _ in range(10)]
    assert x[999] == 999 and len(others) == 10


def test_versions_of_the_protocol():
    buffer = trijet.asarray(np.zeros(3), device="host")
    assert '"dltensor"' in repr(buffer.__dlpack__())
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(2, 5)))
    assert '"dltensor"' in repr(buffer.__dlpack__(max_version=(0, 8)))
    assert buffer.__dlpack_device__() == (1, 0)


def test_a_stream_is_refused_for_memory_of_the_host():
    with pytest.raises(BufferError, match="no streams"):
        trijet.asarray(np.zeros(3), device="host").__dlpack__(stream=1)


def test_another_device_is_refused_and_a_copy_is_made():
    buffer = trijet.asarray(np.arange(3), device="host")
    with pytest.raises(BufferError, match="stays there"):
        buffer.__dlpack__(dl_device=(2, 0))
    copy = np.from_dlpack(buffer, copy=True)
    copy[0] = 7
    assert trijet.to_numpy(buffer)[0] == 0


def test_an_untaken_capsule_returns_its_array():
    buffer = trijet.asarray(np.zeros(1 << 20, "u1"), device="host")
    for version in (None, (1, 0)):
        for _ in range(200):
            buffer.__dlpack__(max_version=version)


def test_arrays_of_numpy_are_taken_without_a_copy():
    x = np.arange(6, dtype="i2").reshape(2, 3)
    buffer = trijet.from_dlpack(x)
    assert (buffer.shape, buffer.dtype) == ((2, 3), "int16")
    x[1, 2] = 9
    assert trijet.to_numpy(buffer)[1, 2] == 9


def test_a_read_only_array_stays_read_only():
    x = np.arange(3.0)
    x.flags.writeable = False
    buffer = trijet.from_dlpack(x)
    assert buffer.read_only
    assert not np.from_dlpack(buffer).flags.writeable
    with pytest.raises(BufferError, match="only read"):
        buffer.__dlpack__()


def test_a_strided_array_is_refused_with_the_axis():
    with pytest.raises(BufferError, match="axis 0 has the stride 6, and C order needs 3"):
        trijet.from_dlpack(np.zeros((4, 6))[:, ::2])


def test_a_producer_of_the_old_protocol_is_asked_again():
    class Old:
        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, stream=None):
            return self.x.__dlpack__()

    assert trijet.to_numpy(trijet.from_dlpack(Old(np.arange(3))))[2] == 2


def test_objects_that_are_no_tensors_are_refused():
    class Wrong:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return object()

    with pytest.raises(BufferError, match="no capsule"):
        trijet.from_dlpack(Wrong())
    with pytest.raises(AttributeError):
        trijet.from_dlpack([1, 2])


def test_tensors_of_torch_go_both_ways():
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert np.array_equal(trijet.to_numpy(trijet.from_dlpack(x)), x.numpy())
    back = torch.from_dlpack(trijet.asarray(x.numpy(), device="host"))
    assert torch.equal(back, x)
    brain = torch.from_dlpack(trijet.empty((4,), "bfloat16", device="host"))
    assert brain.dtype == torch.bfloat16
