"""Runs ``python -m trijet`` as the command ``trijet``."""

import sys

from trijet._cli import main

sys.exit(main())
