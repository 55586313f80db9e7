"""``trijet.ops`` is the table of operations of the command."""

import inspect

import numpy as np
import pytest

import trijet
from trijet import _native, ops

ndimage = pytest.importorskip("scipy.ndimage")


def test_every_operation_has_a_function_with_its_parameters_and_defaults():
    names = {"type": "dtype"}
    for name, _help, parameters in _native.operations():
        function = getattr(ops, name)
        found = inspect.signature(function).parameters
        assert [names.get(parameter, parameter) for parameter, _ in parameters] == list(found), name
        for parameter, default in parameters:
            own = found[names.get(parameter, parameter)].default
            if default not in (None, ""):
                assert str(own) == default, (name, parameter)
    assert {name for name, *_ in _native.operations()} == set(ops.__all__) - {"Operation"}


def test_filters_equal_scipy(stack):
    assert np.array_equal(trijet.map(stack, [ops.median(2, "reflect")]), ndimage.median_filter(stack, (1, 5, 5)))
    assert np.array_equal(
        trijet.map(stack, [ops.gaussian(1.5, z=1)]), ndimage.gaussian_filter(stack, (1, 1.5, 1.5), mode="nearest")
    )


def test_images_of_the_program_are_a_second_input(stack):
    dark, flat = stack[0], stack[1] + np.uint16(1)
    found = trijet.map(stack, [ops.flatfield(dark, flat, 2)])
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = 2 * (stack.astype("f8") - dark) / (flat.astype("f8") - dark)
    wanted[:, flat == dark] = 0
    assert np.allclose(found, wanted, rtol=1e-6)
    assert np.array_equal(trijet.map(stack, [ops.subtract(dark)]), stack.astype("f4") - dark)


def test_wrong_parameters_are_refused_when_they_are_written():
    with pytest.raises(trijet.errors.InvalidValueError, match="radius"):
        ops.median(8)
    with pytest.raises(ValueError, match="mean or sum"):
        ops.bin(2, "median")


def test_crops_are_slices(stack):
    found = trijet.map(stack, [ops.crop(slice(2, 9), slice(None, 4))])
    assert np.array_equal(found, stack[:, 2:9, :4])
