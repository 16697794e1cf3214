"""`python -m packlight`: the command line."""

from .cli import main

if __name__ == "__main__":  # a process that replays a part imports this as well
    raise SystemExit(main())
