"""For all tests: a machine under load is no failure, and what passed once passes again.

`make test` tries the same inputs each time, so that what it says depends on the code alone; `make fuzz` tries others.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("kit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", settings.get_profile("kit"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kit"))
