"""The exceptions of the package: one class for each kind of error of the library.

All are subclasses of :class:`TrijetError`. A class that means the same as a class of Python is also a subclass
of that one, so ``except ValueError`` catches :class:`InvalidValueError`.
"""


class TrijetError(Exception):
    """An error of the library. The message names the operation, the object and the cause."""


class UnsupportedError(TrijetError, NotImplementedError):
    """A library, a symbol or a capability of the device is missing."""


class NoDeviceError(TrijetError):
    """The requested device does not exist, or a kernel needs a GPU."""


class InvalidValueError(TrijetError, ValueError):
    """An argument is out of range, or contradicts another argument."""


class OutOfMemoryError(TrijetError, MemoryError):
    """Device memory or page-locked memory is exhausted."""


class CompileError(TrijetError):
    """The source of a kernel does not compile, or its image does not load."""


class NotFoundError(TrijetError, LookupError):
    """A file of kernels has no kernel with this name."""


class NoTwinError(TrijetError):
    """The device is a host device, and the kernel has no twin for it."""


class LaunchError(TrijetError):
    """A kernel faulted or could not run. The context of the GPU is lost."""


class ContextLostError(TrijetError):
    """The driver reported an error that makes the context of the GPU unusable."""


class CapturingError(TrijetError):
    """The stream is being captured into a graph, which does not allow the call."""


class InCallbackError(TrijetError):
    """A call that may reach the driver was made inside a host function."""


class ForkedError(TrijetError):
    """The process is a child that ``fork`` made after a device was opened. Use ``spawn``."""


class PanickedError(TrijetError):
    """Code of the program failed."""


class StalledError(TrijetError):
    """No work can make progress, so a wait would never end."""


class ClosedError(TrijetError):
    """The object was closed before the call."""


class CancelledError(TrijetError):
    """The program cancelled the work."""


class PeerLostError(TrijetError):
    """Another process of the job has ended."""


class FileError(TrijetError, OSError):
    """Reading or writing a file failed, or a file is damaged."""


class DriverError(TrijetError):
    """The driver returned another error."""


class CheckError(TrijetError):
    """The checker has found an error: work on the same memory that nothing orders."""
