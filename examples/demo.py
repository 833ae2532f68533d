"""The main job, from a folder to a proved citation: list, get, query, verify.

python examples/demo.py FOLDER "QUESTION"
"""

from __future__ import annotations

import shutil
import sys
import textwrap

from knowledge_engine import AgentTools, KnowledgeService, Query, resolve_knowledge_backend

WIDTH = min(shutil.get_terminal_size((100, 24)).columns, 110)


def heading(text: str) -> None:
    """A line between the steps."""
    print(f"\n== {text} ".ljust(WIDTH, "="))


def main(folder: str, question: str) -> int:
    """Runs the steps; 0 if every citation holds."""
    if not question.strip():
        print('Ask a question: python examples/demo.py FOLDER "QUESTION"')
        return 64
    service = KnowledgeService(resolve_knowledge_backend(f"files:{folder}").provider())
    tools = AgentTools(service)

    heading(f"list: {folder}")
    listed = tools.list(limit=5)
    for document in listed["docs"]:
        print(f"{document['id']:<40} {document['title'][: WIDTH - 42]}")
    print(f"({listed['count']} of {listed['total']} documents)")
    if not listed["docs"]:
        print("No documents here: name a folder with .md, .txt, .yaml or .json files.")
        return 1

    heading(f"get: {listed['docs'][0]['id']}")
    got = tools.get(listed["docs"][0]["id"])
    sections = ", ".join(map(str, got["sections"][:6])) or "none"
    print(f"{got['title']}: {len(got['content'])} characters, sections: {sections}")
    print(textwrap.shorten(got["content"], WIDTH * 2))

    heading(f"query: {question}")
    result = service.query(Query(query=question, top_k=5))
    for rank, hit in enumerate(result.hits, 1):
        print(f"{rank}. {hit.title} > {' > '.join(hit.heading_path)}  [{hit.score:.2f}]")
        print(f"   {hit.source_id} bytes {hit.span.start}-{hit.span.end} sha256 {hit.content_hash[:12]}")
        print(textwrap.indent(textwrap.fill(" ".join(hit.snippet.marked("*", "*").split()), WIDTH - 3), "   "))
    print(f"({result.took_ms:.1f} ms, {result.index.documents} documents, {result.index.skipped} skipped)")
    for warning in result.warnings:
        print(f"warning: {warning}")
    if not result.hits:
        print("Nothing found: ask in other words.")
        return 0

    heading("verify: are the cited bytes still there?")
    verdicts = [service.verify(hit).status for hit in result.hits]
    for hit, verdict in zip(result.hits, verdicts, strict=True):
        print(f"{hit.source_id} [{hit.span.start}, {hit.span.end}): {verdict}")
    print("verified: ok" if set(verdicts) == {"ok"} else f"verified: {', '.join(verdicts)}")
    return 0 if set(verdicts) == {"ok"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
