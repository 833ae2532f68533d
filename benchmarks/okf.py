"""Concept bundles: time against a plain parse and against the model's own, relevance against the split source.

    python benchmarks/okf.py [FOLDER]      FOLDER holds collections as in benchmarks/relevance.py

Prints a line for each figure with what must be reached; 1 if one is missed. Ratios are of times measured in one run, in
turn, so that a busy machine slows both.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relevance import judgements, ndcg
from selectolax.lexbor import LexborHTMLParser

from knowledge_engine import Query, resolve_knowledge_backend
from knowledge_okf import (
    BundleSerializer,
    Concept,
    HeadingExtractor,
    Knowledge,
    KnowledgeGraph,
    SourceText,
    read_bundle,
)
from knowledge_okf.extraction import finish, tasks_of
from knowledge_okf.html_sections import split_html
from knowledge_okf.sections import split_markdown
from knowledge_okf.sources import split_source

WORDS = [
    "valve",
    "pump",
    "register",
    "byte",
    "order",
    "pressure",
    "sensor",
    "alarm",
    "reset",
    "loop",
    "gain",
    "filter",
    "setpoint",
    "wiring",
    "terminal",
    "supply",
    "current",
    "voltage",
    "module",
    "firmware",
    "update",
    "backup",
    "restore",
    "network",
    "address",
    "mask",
    "gateway",
    "operator",
    "manual",
    "shaft",
    "seal",
    "coupling",
]


def guide(lines: int = 3700, seed: int = 1) -> str:
    """An HTML guide of so many lines: headings h1 to h4, paragraphs, lists, code, tables, links."""
    rng = random.Random(seed)

    def say(count: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(count))

    out = ["<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8"><title>Plant guide</title></head><body>']
    out.append("<h1>Plant guide</h1>")
    number = 0
    while len(out) < lines - 1:
        number += 1
        level = rng.choice([2, 3, 3, 3, 4, 4])
        out.append(f'<h{level} id="s{number}">{say(3).title()} {number}</h{level}>')
        for _ in range(rng.randint(4, 14)):
            kind = rng.random()
            if kind < 0.2:
                out.append(f'<p>{say(18)} <code>{say(1)}</code>, <a href="#s{number - 1}">{say(2)}</a> {say(10)}.</p>')
            elif kind < 0.6:
                out.append(f"<p>{say(12)}. {say(10).capitalize()} <em>{say(2)}</em>, {say(8)}.</p>")
            elif kind < 0.8:
                out += ["<ul>", *(f"<li>{say(8)}</li>" for _ in range(3)), "</ul>"]
            elif kind < 0.9:
                out += ["<pre><code>", *(f"  {say(4)}" for _ in range(3)), "</code></pre>"]
            else:
                out += ["<table>", *(f"<tr><td>{say(2)}</td><td>{say(4)}</td></tr>" for _ in range(3)), "</table>"]
    return "\n".join([*out, "</body></html>"])


class Stub:
    """Answers after a pause, with one concept that quotes the section."""

    name = "stub"

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.calls = 0

    def ask(self, prompt: str, schema: type[Any], **_: Any) -> Any:
        self.calls += 1
        time.sleep(self.pause_s)
        text = prompt.partition("\nTEXT\n")[2].partition("\n</source-")[0]
        title = prompt.partition("HEADINGS\n")[2].partition("\n")[0].rpartition(" > ")[2]
        quote = next(line for line in text.split("\n") if any(map(str.isalnum, line)))
        return schema.model_validate({"concepts": [{"title": title, "quote": quote[:80], "description": "D."}]})


def best(*calls: Callable[[], object], rounds: int = 40) -> list[float]:
    """The least processor seconds of each, taken in turn."""
    least = [9e9] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            begun = time.thread_time()
            call()
            least[at] = min(least[at], time.thread_time() - begun)
    return least


def extraction_ratio() -> float:
    """The extractor that needs no model, from bytes to concepts, to a parse of the same bytes."""
    source = SourceText("guide.html", "", "html", guide().encode())

    def extract() -> object:
        outline = split_source(source)
        found = HeadingExtractor().extract(source, outline, tasks_of(outline))
        return finish(found, source, outline, "2026-01-01T00:00:00+00:00")

    ours, parse = best(extract, lambda: LexborHTMLParser(source.raw))
    return ours / parse


def model_ratio(folder: Path) -> tuple[float, int]:
    """Making a bundle with a model of 50 ms at 8 at once, to what its pauses alone take; calls after one change."""
    path = folder / "guide.html"
    path.write_text(guide())
    stub = Stub(0.05)
    begun = time.perf_counter()
    Knowledge(stub, environ={}).create(path, folder / "bundle")
    took = time.perf_counter() - begun
    ideal = stub.calls * stub.pause_s / 8
    path.write_text(path.read_text().replace("<p>", "<p>Changed. ", 1))
    again = Stub(0)
    Knowledge(again, environ={}).update(path, folder / "bundle")
    return took / ideal, again.calls


def growth(sizes: tuple[int, int], run: Callable[[int], Callable[[], object]]) -> float:
    """How much more one of the larger size takes for each unit; 1 is linear."""
    small, large = (min(_timed(run(size)) for _ in range(2)) for size in sizes)
    return large / small / (sizes[1] / sizes[0])


def _timed(call: Callable[[], object]) -> float:
    begun = time.thread_time()
    call()
    return time.thread_time() - begun


def splitting(kind: str) -> Callable[[int], Callable[[], object]]:
    """Splits so many megabytes."""

    def of(megabytes: int) -> Callable[[], object]:
        if kind == "html":
            raw = (guide().encode() * (megabytes * 4))[: megabytes << 20]
            return lambda: split_html(raw)
        raw = (b"## Heading\n\nSome text of a section, `code` and more.\n\n- item\n\n" * (megabytes << 15))[
            : megabytes << 20
        ]
        return lambda: split_markdown(raw)

    return of


def serializing(count: int) -> Callable[[], object]:
    """Renders so many concepts, and reads them."""
    concepts = tuple(
        Concept(id=f"c-{n}", title=f"T {n}", description="D.", body="text " * 60, see_also=(f"c-{n // 2}",))
        for n in range(count)
    )
    graph = KnowledgeGraph(title="Many", concepts=concepts)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            BundleSerializer().serialize(graph, Path(folder) / "b")
            assert read_bundle(Path(folder) / "b") == graph

    return run


CONCEPTS = {"type": "concept"}


def relevance(collection: Path, folder: Path) -> tuple[float, float, float]:
    """nDCG@10 of a bundle made from all documents as one, and of the same source split into files by section.

    First of the bundle asked for concepts only, then of all its files, where an index that is found takes a place like
    any other document that does not answer.
    """
    with gzip.open(collection / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    parts = [
        f"## {' '.join(one['title'].split()) or 'Untitled'}\n\n{' '.join(one['text'].split())}\n\n" for one in documents
    ]
    source = folder / "all.md"
    source.write_text("".join(parts))
    (folder / "split").mkdir()
    for at, part in enumerate(parts):
        (folder / "split" / f"{at}.md").write_text(part)
    graph = Knowledge("none", environ={}).create(source, folder / "bundle")
    of_bundle = {one.path: each["id"] for one, each in zip(graph.concepts, documents, strict=True)}
    of_split = {f"{at}.md": each["id"] for at, each in enumerate(documents)}
    grades = judgements(collection / "qrels.tsv")
    queries = [json.loads(line) for line in (collection / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = []
    for name, ids, only in (("bundle", of_bundle, CONCEPTS), ("bundle", of_bundle, None), ("split", of_split, None)):
        provider = resolve_knowledge_backend(f"files:{folder / name}").provider()
        found = []
        for query in queries:
            hits = provider.query(Query(query=query["text"], filter=only)).hits
            found.append(ndcg([ids.get(hit.source_id, "") for hit in hits], grades[query["id"]]))
        provider.dispose()
        scores.append(statistics.fmean(found))
    return scores[0], scores[1], scores[2]


def main() -> int:
    """Prints the figures; 1 if one is missed."""
    missed = 0

    def tell(what: str, got: float, most: float) -> None:
        nonlocal missed
        missed += got > most
        print(f"{what:<88}{got:>8.3f}  at most {most:g}{'' if got <= most else '   MISSED'}", flush=True)

    tell("extraction by headings / parse of the same HTML", extraction_ratio(), 3)
    with tempfile.TemporaryDirectory() as folder:
        ratio, calls = model_ratio(Path(folder))
    tell("model of 50 ms, 8 at once / its pauses alone", ratio, 1.3)
    tell("calls after one changed section", calls, 1)
    for kind in ("html", "markdown"):
        tell(f"splitting {kind}: 100 MB to 10 MB, per byte", growth((10, 100), splitting(kind)), 1.5)
    tell("bundle written and read: 10,000 concepts to 1,000, per concept", growth((1000, 10_000), serializing), 1.5)
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "corpora"
    for path in sorted(root.glob("*/qrels.tsv")):
        with tempfile.TemporaryDirectory() as folder:
            bundle, whole, split = relevance(path.parent, Path(folder))
        told = f"split source {split:.4f}, concepts {bundle:.4f}, with indexes {whole:.4f}"
        tell(f"nDCG@10 {path.parent.name}: {told}", split - bundle, 0.01)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
