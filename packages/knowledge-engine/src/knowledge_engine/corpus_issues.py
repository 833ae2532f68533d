"""What is wrong between documents, that none of them shows alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from knowledge_engine.models import DocumentIssue, Metadata


def corpus_issues(documents: Mapping[str, Metadata]) -> tuple[DocumentIssue, ...]:
    """Ids that several documents claim, and paths that differ only in letter case.

    Of equal ids the later path is at fault, so that adding a document does not blame one that was fine.
    """
    by_id, by_folded = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for path, metadata in sorted(documents.items()):
        if isinstance(claimed := metadata.get("id"), str) and claimed:
            by_id[claimed].append(path)
        by_folded[path.casefold()].append(path)
    issues = []
    for claimed, paths in by_id.items():
        issues += [
            DocumentIssue(
                code="duplicate-id",
                severity="error",
                path=path,
                message=f"The id {claimed!r} belongs to {paths[0]}",
                mend="Give this document an id of its own.",
            )
            for path in paths[1:]
        ]
    for paths in by_folded.values():
        issues += [
            DocumentIssue(
                code="id-case-collision",
                severity="warning",
                path=path,
                message=f"Differs only in letter case from {paths[0]}",
                mend="Rename one: some file systems cannot hold both.",
            )
            for path in paths[1:]
        ]
    return tuple(sorted(issues, key=lambda issue: (issue.path, issue.code)))
