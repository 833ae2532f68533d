"""Facets: which values the metadata of many documents have, bounded in keys and values."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge_engine.catalogue import count_values
from knowledge_engine.models import Source
from knowledge_engine.service.results import Facet

MAX_KEYS = 32
MAX_VALUES = 50
#: Longer values are prose, not something to choose by.
MAX_VALUE_CHARS = 200


def facets(sources: Iterable[Source]) -> dict[str, Facet]:
    """Counts per value for the keys that most documents have; keys and values by frequency, then text."""
    counts = {
        key: {value: count for value, count in values.items() if len(value) <= MAX_VALUE_CHARS}
        for key, values in count_values(sources).items()
    }
    chosen = sorted((key for key in counts if counts[key]), key=lambda key: (-sum(counts[key].values()), key))
    out = {}
    for key in chosen[:MAX_KEYS]:
        ranked = sorted(counts[key].items(), key=lambda pair: (-pair[1], pair[0]))
        out[key] = Facet(values=dict(ranked[:MAX_VALUES]), more=len(ranked[MAX_VALUES:]))
    return out
