"""Hypothesis profiles: random and thrifty at home, the same examples every time on CI."""

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("dev", deadline=None, suppress_health_check=_QUIET, print_blob=True)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
