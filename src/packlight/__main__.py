"""`python -m packlight`: the command line."""

from .cli import main

raise SystemExit(main())
