"""A host that knows no backend: it lists those that are installed, sets the chosen one up, and asks it.

python examples/plugin_host.py "QUESTION" [--backend NAME_OR_URL] [--set VARIABLE=VALUE]...

What is not given is asked for.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_engine import KnowledgeService, Query, list_knowledge_backends, resolve_knowledge_backend
from knowledge_engine.errors import ConfigurationError, KnowledgeError


def choose() -> str:
    """Shows what there is; the answer is one of the names, or a URL."""
    for backend in list_knowledge_backends():
        print(f"{backend.slug:<10} {backend.status:<10} {backend.description}")
        for line in (backend.problem, *backend.missing, backend.mend):
            if line:
                print(f"{'':<22}{line}")
    return prompt("Which one (a name, or a URL such as files:FOLDER)? ")


def prompt(text: str, *, secret: bool = False) -> str:
    """A line from whoever sits there.

    Raises:
        ConfigurationError: When nobody does.
    """
    try:
        answer = getpass.getpass(text) if secret and sys.stdin.isatty() else input(text)
    except EOFError:
        raise ConfigurationError(f"No answer to {text.strip()!r}", mend="Give --backend and --set.") from None
    print()
    return answer.strip()


def set_up(backend: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given, and those that are needed, not set anywhere, and asked for now."""
    handle = resolve_knowledge_backend(backend, **given)
    settings = dict(given)
    for setting in handle.info()["settings"]:
        if setting["required"] and setting["default"] is None and not setting["is_set"]:
            question = f"{handle.name} needs {setting['name']} ({setting['description']}): "
            settings[setting["name"]] = prompt(question, secret=setting["secret"])
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Answers a question from the chosen backend; 0 if all went well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("question")
    parser.add_argument("--backend", help="a name, or a URL such as files:FOLDER")
    parser.add_argument("--set", action="append", default=[], metavar="VARIABLE=VALUE", help="a setting of the backend")
    options = parser.parse_args(arguments)
    try:
        backend = options.backend or choose()
        given = (each.partition("=") for each in options.set)
        settings = set_up(backend, {name.upper(): value for name, _, value in given})
        # The handle owns the provider: at the end of the block both are closed.
        with resolve_knowledge_backend(backend, **settings) as handle:
            service = KnowledgeService(handle.provider())
            result = service.query(Query(query=options.question, top_k=5))
            print(f"{handle.name} {handle.version}: {len(result.hits)} hits, {result.index.documents} documents")
            for rank, hit in enumerate(result.hits, 1):
                print(f"{rank}. {hit.title} [{hit.score:.2f}]: {' '.join(hit.snippet.marked('*', '*').split())}")
                cited = f"{hit.source_id} bytes {hit.span.start}-{hit.span.end} sha256 {hit.content_hash[:12]}"
                print(f"   {cited} verified: {service.verify(hit).status}")
            for warning in result.warnings:
                print(f"warning: {warning}")
    except KnowledgeError as error:
        print(f"{error} [{error.code}]", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
