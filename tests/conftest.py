"""Hypothesis: no time limits on shared machines; in CI the same examples every time; for mutants no small examples."""

import os

from hypothesis import HealthCheck, Phase, settings

# Processes of pytest-xdist have a width of their own; tables are tested as they come where no width is known.
os.environ.pop("COLUMNS", None)
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("mutation", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))
