"""`python -m damnatio` is the command `damnatio`."""

import sys

from damnatio.cli import main

sys.exit(main())
