"""`python -m madbayes.cli`, for when the script is not on the path."""

import sys

from madbayes.cli import main

sys.exit(main())
