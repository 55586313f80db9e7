"""All tests run on the host device, unless ``TRIJET_DEVICE`` names another one."""

import os

import numpy as np
import pytest

os.environ.setdefault("TRIJET_DEVICE", "host")


@pytest.fixture
def stack():
    """Seven images of 12 x 10 pixels."""
    return np.random.default_rng(1).integers(0, 4096, (7, 12, 10), dtype=np.uint16)


@pytest.fixture
def on_gpu():
    """Whether the tests run on a GPU."""
    return os.environ["TRIJET_DEVICE"] != "host"
