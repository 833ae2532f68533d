"""How deep the kit looks: little by default, the same every time; more at night, and at random."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError

VARIABLE = "KNOWLEDGE_CONTRACT_PROFILE"


class Profile(NamedTuple):
    """How many examples a law gets, and whether they are the same each time."""

    max_examples: int
    derandomize: bool
    #: How long the example of a broken law is made smaller, in seconds.
    shrink_s: float = 10


PROFILES: Mapping[str, Profile] = {
    "default": Profile(max_examples=15, derandomize=True),
    "nightly": Profile(max_examples=300, derandomize=False, shrink_s=120),
}


def profile(environ: Mapping[str, str] = os.environ) -> Profile:
    """The profile that the environment names.

    Raises:
        ConfigurationError: For a name that is none.
    """
    name = environ.get(VARIABLE) or "default"
    if name not in PROFILES:
        raise ConfigurationError(f"{VARIABLE} is {name!r}", mend=f"Use one of: {', '.join(PROFILES)}.")
    return PROFILES[name]


def searching(name: str, run: Callable[[st.DataObject], None], max_examples: int, *, random: bool) -> Any:
    """A fresh hypothesis test of that name: two adapters that share one fail its health check."""

    def test(data: st.DataObject) -> None:
        run(data)

    # Hypothesis tells tests apart by name and source.
    test.__name__ = test.__qualname__ = name.replace("-", "_")
    chosen = settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=not random,
        database=None,
        print_blob=random,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    found: Any = chosen(given(data=st.data())(test))
    # Else each law would see the same corpora.
    return found if random else seed(zlib.crc32(name.encode()))(found)
