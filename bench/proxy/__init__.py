"""The proxy beside a bare pass-through of the same stack, and beside other people's proxies, in one run."""
