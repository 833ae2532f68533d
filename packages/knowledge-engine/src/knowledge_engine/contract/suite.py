"""The laws as pytest classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache

from knowledge_engine.contract.case import OpenFs, OpenProvider
from knowledge_engine.contract.law import BrokenLawError, Law
from knowledge_engine.contract.runner import FS_LAWS, LAWS, Subject, chosen_laws, fs_subject, provider_subject


def provider_contract(
    open_provider: OpenProvider,
    corpus: Mapping[str, bytes] | None = None,
    max_examples: int | None = None,
    waived: Mapping[str, str] | None = None,
    *,
    reference_ranking: bool | None = None,
) -> type:
    """A test class with a test for each law of a provider; those that need a power that it lacks are skipped.

    Args:
        open_provider: Called with documents by id; a context manager that yields a provider over exactly those (or an
            `Opened`), with storage of its own that it clears away.
        corpus: The documents that a backend serves which cannot be given others; `open_provider` may then ignore its
            argument, and what needs other documents is skipped.
        max_examples: How many examples a law gets; by default what the profile says (`KNOWLEDGE_CONTRACT_PROFILE`).
        waived: Laws that are known to be broken, with the reason. They become strict xfails: one that holds fails.
        reference_ranking: Whether scores must be those of `MemoryProvider`; by default when `engine` is `bm25`.

    Raises:
        InvalidArgumentError: When a name in `waived` is no law's.
    """
    subject = provider_subject(
        open_provider, corpus=corpus, max_examples=max_examples, reference_ranking=reference_ranking
    )
    return _suite("ProviderContract", subject, _without(LAWS, ["parity"]), waived)


def parity_contract(
    open_reference: OpenProvider,
    open_subject: OpenProvider,
    corpus: Mapping[str, bytes] | None = None,
    max_examples: int | None = None,
    waived: Mapping[str, str] | None = None,
) -> type:
    """A test class that compares two openings of the same documents, one of them behind a transport, field by field.

    What may differ: `took_ms`, `engine`, `backend`, `indexed_at`, health's `details`, and the text of cursors.
    """
    subject = provider_subject(open_subject, corpus=corpus, max_examples=max_examples, reference=open_reference)
    levels = [level for level in {law.level for law in LAWS.values()} if level != "parity"]
    return _suite("ParityContract", subject, _without(LAWS, levels), waived)


def fs_contract(open_fs: OpenFs, max_examples: int | None = None, waived: Mapping[str, str] | None = None) -> type:
    """A test class with a test for each law of an `FsPort`, and of a `WritableFsPort` where it is one.

    Args:
        open_fs: Called with files by path; a context manager that yields a port over exactly those.
        max_examples: As in `provider_contract`, like `waived`.
    """
    return _suite("FsContract", fs_subject(open_fs, max_examples=max_examples), FS_LAWS, waived)


def _without(laws: Mapping[str, Law], levels: Collection[str]) -> dict[str, Law]:
    return {name: law for name, law in laws.items() if law.level not in levels}


def _suite(name: str, subject: Subject, laws: Mapping[str, Law], waived: Mapping[str, str] | None) -> type:
    import pytest

    excused = dict(waived or {})
    chosen_laws(laws, excused)
    powers = cache(subject.find_powers)
    tests: dict[str, Callable[..., None]] = {}
    for law in laws.values():
        test = _test(law, subject, powers)
        if law.name in excused:
            test = pytest.mark.xfail(reason=excused[law.name], raises=BrokenLawError, strict=True)(test)
        tests[test.__name__] = test
    return type(name, (), {"__doc__": f"{len(tests)} laws.", **tests})


def _test(law: Law, subject: Subject, powers: Callable[[], frozenset[str]]) -> Callable[..., None]:
    def test(_self: object) -> None:
        import pytest

        if lacks := subject.lacks(law, powers()):
            pytest.skip(lacks)
        subject.check(law)

    test.__name__ = test.__qualname__ = f"test_{law.name.replace('-', '_')}"
    test.__doc__ = law.statement
    return test
