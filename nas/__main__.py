"""`python -m nas` is `nas`."""

import sys

from nas.cli import main

sys.exit(main())
