"""Arrays larger than the GPU: reading, upload, kernels, download and writing overlap.

>>> import numpy, trijet
>>> stack = numpy.arange(24, dtype="uint8").reshape(2, 3, 4)
>>> trijet.map(stack, [trijet.ops.affine(2, 1)])[1, 2]
array([41, 43, 45, 47], dtype=uint8)

Nothing is opened when the package is imported. Without a GPU, the same calls run on the processors.
"""

from trijet import errors, ops
from trijet._buffer import Buffer, asarray, empty, from_dlpack, to_numpy
from trijet._check import check
from trijet._kernel import Kernel
from trijet._map import map, map_shard, plan
from trijet._read import Saved, read
from trijet._report import Plan, Report
from trijet._stage import Stage, array_module, stage
from trijet._trace import trace
from trijet.errors import TrijetError

__version__ = "0.1.0"

__all__ = [
    "Buffer",
    "Kernel",
    "Plan",
    "Report",
    "Saved",
    "Stage",
    "TrijetError",
    "array_module",
    "asarray",
    "check",
    "empty",
    "errors",
    "from_dlpack",
    "map",
    "map_shard",
    "ops",
    "plan",
    "read",
    "stage",
    "to_numpy",
    "trace",
]
