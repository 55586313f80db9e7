"""The command ``trijet``, as the wheel installs it."""

import sys

import trijet._native as native


def main() -> int:
    """Runs the command line of this process."""
    return native.main(["trijet", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
