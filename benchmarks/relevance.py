"""Relevance through the whole provider, default settings, nDCG@10; and whether SQLite gives the hits that files give.

    python benchmarks/relevance.py [FOLDER]      FOLDER holds collections, each with corpus.jsonl.gz (id, title, text),
                                                 queries.jsonl (id, text) and qrels.tsv (query, document, grade)

Documents are written as markdown with their title in the frontmatter. Nothing here is tuned on the judgements.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from knowledge_engine import IngestRequest, Query, resolve_knowledge_backend
from knowledge_engine.frontmatter import compose_document
from knowledge_engine.ports import BulkIngestingProvider

#: What must be reached; "best library" is the best figure known for libraries of its kind on that collection.
TARGETS = {"scifact": (0.685, 0.688), "cranfield": (0.375, 0.379), "cmrc2018_zh": (0.975, 0.163)}


def ndcg(ranked: list[str], grades: dict[str, int], depth: int = 10) -> float:
    """Normalised discounted cumulative gain of a ranking at a depth."""
    gain = sum((2 ** grades.get(one, 0) - 1) / math.log2(place + 2) for place, one in enumerate(ranked[:depth]))
    best = sorted(grades.values(), reverse=True)[:depth]
    ideal = sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(best))
    return gain / ideal if ideal else 0.0


def write_documents(folder: Path, corpus: Path) -> dict[str, str]:
    """Writes each document as a file; gives document ids by source id."""
    ids = {}
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            document = json.loads(line)
            path = f"{number // 500:03}/{number:06}.md"
            ids[path] = document["id"]
            target = folder / path
            target.parent.mkdir(exist_ok=True)
            metadata = {"title": document["title"]} if document["title"].strip() else {}
            target.write_bytes(compose_document(metadata, document["text"] + "\n"))
    return ids


def judgements(path: Path) -> dict[str, dict[str, int]]:
    """Grades by query and document."""
    found: dict[str, dict[str, int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        found.setdefault(query, {})[document] = int(grade)
    return found


def measure(collection: Path) -> dict[str, float]:
    """nDCG@10, build seconds and median query milliseconds of one collection; `differing`: hits that SQLite lacks."""
    grades = judgements(collection / "qrels.tsv")
    queries = [json.loads(line) for line in (collection / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        ids = write_documents(Path(folder), collection / "corpus.jsonl.gz")
        provider = resolve_knowledge_backend(f"files:{folder}").provider()
        begun = time.perf_counter()
        provider.query(Query(query="anything"))
        built = time.perf_counter() - begun
        stored = resolve_knowledge_backend(f"sqlite:///{folder}.db").provider()
        requests = (IngestRequest(id=path, content=(Path(folder) / path).read_bytes()) for path in ids)
        assert isinstance(stored, BulkIngestingProvider)
        assert all(source.status == "ready" for source in stored.ingest_many(requests))
        scores, took, differing = [], [], 0
        for query in queries:
            result = provider.query(Query(query=query["text"]))
            took.append(result.took_ms)
            same = {(hit.chunk_id, hit.score) for hit in stored.query(Query(query=query["text"])).hits}
            differing += len({(hit.chunk_id, hit.score) for hit in result.hits} - same)
            scores.append(ndcg([ids[hit.source_id] for hit in result.hits], grades[query["id"]]))
        stored.dispose()
        Path(f"{folder}.db").unlink()
    return {
        "ndcg10": statistics.fmean(scores),
        "build_s": built,
        "query_ms": statistics.median(took),
        "n": len(ids),
        "differing": differing,
    }


def collections(root: Path) -> Iterator[Path]:
    """The collections below a folder."""
    yield from sorted(path.parent for path in root.glob("*/qrels.tsv"))


def main() -> int:
    """Prints a table; 1 if a known collection is below its target, or SQLite finds something else than files."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "corpora"
    found = list(collections(root))
    if not found:
        print(f"no collections below {root}: nothing was measured (see the head of this file for the format)")
        return 0
    failed = False
    heads = ("documents", 10), ("nDCG@10", 9), ("target", 8), ("library", 9), ("build s", 9), ("query ms", 10)
    print(f"{'collection':<16}" + "".join(f"{head:>{width}}" for head, width in (*heads, ("not sqlite", 11))))
    for collection in found:
        got = measure(collection)
        target, library = TARGETS.get(collection.name, (0.0, math.nan))
        failed |= got["ndcg10"] < target or got["differing"] > 0
        print(
            f"{collection.name:<16}{got['n']:>10}{got['ndcg10']:>9.4f}{target:>8.3f}{library:>9.3f}"
            f"{got['build_s']:>9.2f}{got['query_ms']:>10.2f}{got['differing']:>11.0f}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
