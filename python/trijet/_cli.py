"""The command ``trijet``, as the wheel installs it."""

import sys


def main() -> int:
    """Runs the command line of this process."""
    from trijet import _native

    return _native.main(["trijet", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
