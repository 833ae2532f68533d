"""Says what to install where numpy, which only searching with an index needs, cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_search() -> Iterator[None]:
    """Around an import of what needs numpy.

    Raises:
        ConfigurationError: In place of numpy's own ImportError.
    """
    try:
        yield
    except ImportError as error:
        if "numpy" not in f"{error.name} {error}":
            raise
        from knowledge_engine.errors import ConfigurationError

        raise ConfigurationError(
            "Searching a folder of files needs numpy, which cannot be imported",
            mend="pip install 'kpkit-files[search]'",
        ) from error
