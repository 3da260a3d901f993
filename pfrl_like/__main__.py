"""`python -m pfrl_like`: see `pfrl_like.cli`."""

import sys

from pfrl_like.cli import main

if __name__ == "__main__":
    sys.exit(main())
