"""Relevance through the whole provider, default settings; and whether SQLite gives the hits that files give.

    python benchmarks/relevance.py [FOLDER]      FOLDER holds collections, each with corpus.jsonl.gz (id, title, text),
                                                 queries.jsonl (id, text) and qrels.tsv (query, document, grade)
    python benchmarks/relevance.py --quick       at most 300 queries of each, spread evenly

nDCG@10, MRR@10 and recall@10, means over all queries. Where there is no collection, documents are invented, and each
query is three words of a title: whether its document is found says little of relevance, but that the machinery works.
Documents are written as markdown with their title in the frontmatter. Nothing here is tuned on the judgements.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measuring import digest, invented, machine, shown, table, words

from knowledge_engine import IngestRequest, Query, resolve_knowledge_backend
from knowledge_engine.evaluation import ndcg, recall, reciprocal_rank
from knowledge_engine.frontmatter import compose_document
from knowledge_engine.ports import BulkIngestingProvider

#: What must be reached; "best library" is the best figure known for libraries of its kind on that collection.
TARGETS = {"scifact": (0.685, 0.688), "cranfield": (0.375, 0.379), "cmrc2018_zh": (0.975, 0.163)}


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


def measure(collection: Path, most: int) -> dict[str, float]:
    """Relevance, build seconds and median query milliseconds of a collection; `differing`: hits that SQLite lacks."""
    grades = judgements(collection / "qrels.tsv")
    queries = [json.loads(line) for line in (collection / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = queries if len(queries) <= most else queries[:: len(queries) // most][:most]
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
        for query in asked:
            result = provider.query(Query(query=query["text"]))
            took.append(result.took_ms)
            same = {(hit.chunk_id, hit.score) for hit in stored.query(Query(query=query["text"])).hits}
            differing += len({(hit.chunk_id, hit.score) for hit in result.hits} - same)
            ranked, wanted = [ids[hit.source_id] for hit in result.hits], grades[query["id"]]
            scores.append([metric(ranked, wanted, 10) for metric in (ndcg, reciprocal_rank, recall)])
        stored.dispose()
        Path(f"{folder}.db").unlink()
    return {
        **dict(zip(("ndcg10", "mrr10", "recall10"), map(statistics.fmean, zip(*scores, strict=True)), strict=True)),
        "build_s": built,
        "query_ms": statistics.median(took),
        "n": len(ids),
        "differing": differing,
        "sampled": len(asked) < len(queries),
    }


def collections(root: Path) -> Iterator[Path]:
    """The collections below a folder."""
    yield from sorted(path.parent for path in root.glob("*/qrels.tsv"))


def invent(folder: Path, documents: int = 2_000, queries: int = 200) -> None:
    """A collection of documents that are not there."""
    folder.mkdir()
    told, draw = list(invented(documents)), random.Random(3)
    lines = (json.dumps({"id": str(number), "title": one, "text": body}) for number, (one, body) in enumerate(told))
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    asked = {str(number): " ".join(draw.sample(words(told[number][0]), 3)) for number in range(queries)}
    (folder / "queries.jsonl").write_text("".join(json.dumps({"id": one, "text": asked[one]}) + "\n" for one in asked))
    (folder / "qrels.tsv").write_text("query\tdocument\tgrade\n" + "".join(f"{one}\t{one}\t1\n" for one in asked))


def report(found: list[Path], most: int) -> bool:
    """Prints the table; whether all known collections reach their target, and SQLite finds what files do."""
    good, rows = True, list[list[str]]()
    for collection in found:
        got = measure(collection, most)
        target, library = TARGETS.get(collection.name, (0.0, math.nan))
        # A target is one for all queries.
        good &= (got["ndcg10"] >= target or bool(got["sampled"])) and got["differing"] == 0
        figures = [f"{got[name]:.4f}" for name in ("ndcg10", "mrr10", "recall10")]
        limits = [f"{value:.3f}" if value > 0 else "-" for value in (target, library)]
        hashed = digest(
            [(collection / name).read_bytes() for name in ("corpus.jsonl.gz", "queries.jsonl", "qrels.tsv")]
        )
        rows.append(
            [
                *(collection.name, f"{got['n']:,}", *figures, *limits, shown(got["build_s"]), shown(got["query_ms"])),
                *(f"{got['differing']:.0f}", hashed),
            ]
        )
    heads = ["collection", "documents", "nDCG@10", "MRR@10", "recall@10", "target", "library"]
    print(table([*heads, "build s", "query ms", "not sqlite", "hash"], rows))
    return good


def main() -> int:
    """Prints a table; 1 if a known collection is below its target, or SQLite finds something else than files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[2] / "shared" / "corpora")
    parser.add_argument("--quick", action="store_true", help="at most 300 queries of each collection")
    arguments = parser.parse_args()
    print(f"{machine()}\n")
    most = 300 if arguments.quick else 1_000_000
    if found := list(collections(arguments.folder)):
        return int(not report(found, most))
    print("The text is invented: this says little of relevance, see --help.\n")
    with tempfile.TemporaryDirectory() as folder:
        invent(Path(folder, "invented"))
        return int(not report([Path(folder, "invented")], most))


if __name__ == "__main__":
    sys.exit(main())
