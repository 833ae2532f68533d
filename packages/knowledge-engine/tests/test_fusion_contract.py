"""The laws of providers, tried on a federation that serves one fixed corpus under its own ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from knowledge_engine.contract import provider_contract
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.ports import IKnowledgeProvider

CORPUS = {
    "left:guides/pump.md": b"---\ntitle: Pumps\nkind: guide\n---\n# Pumps\n\nPrime.\n\n## Leaks\n\nTighten.",
    "left:notes.txt": b"gland pump two \xff",
    "left:tea.md": b"# Tea\n\n" + b"green tea tastes good. " * 110,
    "right:guides/valve.md": b"---\nkind: device\ntags: [a, b]\nyear: 2023\n---\n# Valves\n\nValves leak.",
    "right:water.md": "# Ü\n\nWasser 水温 gland".encode(),
}


@contextmanager
def federation(documents: Mapping[str, bytes]) -> Iterator[IKnowledgeProvider]:
    backends = {
        name: MemoryProvider(
            {path.removeprefix(f"{name}:"): data for path, data in CORPUS.items() if path.startswith(f"{name}:")}
        )
        for name in ("left", "right")
    }
    provider = FederatedProvider(backends, timeout_s=60)
    try:
        yield provider
    finally:
        provider.dispose()


TestFederation = provider_contract(federation, corpus=CORPUS)
