"""One backend without a registry, set up by the environment alone.

KNOWLEDGE_FILES_ROOT=examples KNOWLEDGE_FILES_PATH=library python examples/standalone.py "QUESTION"
"""

from __future__ import annotations

import sys

from knowledge_engine import Query
from knowledge_engine.errors import KnowledgeError
from knowledge_files import create_standalone_files_adapter


def main(question: str) -> int:
    """Asks the folder that KNOWLEDGE_FILES_ROOT and KNOWLEDGE_FILES_PATH name; 0 if it has an answer."""
    try:
        adapter = create_standalone_files_adapter()
        try:
            result = adapter.query(Query(query=question, top_k=3))
        finally:
            adapter.dispose()
    except KnowledgeError as error:
        print(f"{error} [{error.code}]", file=sys.stderr)
        return 1
    print(f"{result.index.documents} documents, {result.took_ms:.1f} ms, {result.engine}")
    for hit in result.hits:
        cited = f"{hit.source_id} bytes {hit.span.start}-{hit.span.end}"
        print(f"{hit.score:6.2f}  {cited}  {' > '.join(hit.heading_path)}")
    return 0 if result.hits else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
