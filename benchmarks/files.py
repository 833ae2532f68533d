"""The files backend from files on disk to hits with passages, snippets and citations, as a tree of documents grows.

    python benchmarks/files.py [FOLDER] [--sizes 5000,50000,200000] [--rounds 3]
    python benchmarks/files.py --quick                       a short run over invented text

The files are copied first (so they are in the page cache) and cut down or multiplied to each size: a further copy of a
file gets words of its own. Each measurement is a process of its own, ours and the others by turns within a round;
figures are medians over the rounds, ratios the medians of ours to theirs within a round.

ours       the backend as `files:FOLDER`, ten hits in full
pipeline   what one would write: read each file, frontmatter by PyYAML's CSafeLoader, tantivy with the text stored; a
           hit is the stored text with a snippet from tantivy's generator
fts5       SQLite FTS5, the bare search: ids and ranks
bare       a Python process that imports numpy and looks at each file with stat

cold       from the start of a process, nothing cached, to its first answer
restart    the same when an earlier process has left its cache; `opened` counts the files of the tree that were opened
edit       from `refresh([path])` of a changed file to the query that finds it; pipeline: add, commit, reload, search
watch      from saving a file until a query finds it while a watcher runs; bare: until watchfiles tells of it
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measuring import (
    Figures,
    best_of,
    compared,
    corpus_argument,
    digest,
    files,
    folder_mb,
    forget_peak,
    frontmatter,
    in_process,
    invented,
    machine,
    parts,
    peak_mb,
    peers_python,
    questions,
    resident_mb,
    timed,
    unpacked,
    words,
    write_files,
)

if TYPE_CHECKING:
    from knowledge_engine.models import QueryResult

EDITS, SAVES = 15, 9
#: Longer than any save should take to be seen.
GIVE_UP_S = 5


# Trees of files


class Page(NamedTuple):
    """A file: what stands before its body, its body, and the title that is told there."""

    head: str
    body: str
    title: str


def pages(folder: Path | None, most: int) -> tuple[str, list[Page]]:
    """Files as they are, or invented ones; and what they are."""
    if folder is None:
        return "invented text", [Page(frontmatter(title), body, title) for title, body in invented(most)]
    found = []
    for path in files(folder, most):
        text = path.read_bytes().decode("utf-8", "replace")
        title, body = parts(text)
        found.append(Page(text[: len(text) - len(body)], body, title))
    return f"files of {folder.name}", found


def grown(told: list[Page], size: int) -> Iterator[Page]:
    """So many files out of those that there are."""
    if size <= len(told):
        yield from told[:: len(told) // size][:size]
        return
    yield from told
    draw = random.Random(5)
    for number in range(len(told), size):
        page = told[number % len(told)]
        pieces = page.body.split("\n\n")
        draw.shuffle(pieces)
        body = "\n\n".join([*pieces, f"k{number:x} k{draw.randrange(size):x} z{number % 997}\n"])
        yield page._replace(body=body)


# Ours


def provider(folder: str) -> Any:
    from knowledge_engine.registry import resolve_knowledge_backend

    return resolve_knowledge_backend(f"files:{folder}").provider()


def ask(backend: Any, text: str) -> QueryResult:
    from knowledge_engine.models import Query

    found: QueryResult = backend.query(Query(query=text))
    return found


def ours_start(folder: str, asked: list[str]) -> Figures:
    """A first answer, and how many files of the tree were opened for it."""
    opened: set[str] = set()

    def saw(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(".md"):
            opened.add(arguments[0])

    sys.addaudithook(saw)
    backend = provider(folder)
    hits = ask(backend, asked[0]).hits
    cited = {hit.source_id for hit in hits}
    found = {"hits": float(len(hits)), "opened": float(len(opened)), "not cited": float(len(opened) - len(cited))}
    backend.dispose()
    return found


def ours_warm(folder: str, asked: list[str]) -> Figures:
    before = resident_mb()
    backend = provider(folder)
    forget_peak()
    took = timed(lambda: ask(backend, asked[0]))
    peak = peak_mb()
    for text in asked[:100]:
        ask(backend, text)
    found = best_of(lambda text: ask(backend, text), asked)
    held = resident_mb()
    backend.dispose()
    return found | {"opening ms": took, "memory MB": held - before, "peak MB": peak - before}


def edits(folder: str) -> Iterator[tuple[str, Path, str, bytes]]:
    """Changed files: path below the folder, path, a word that only the new text holds, the new text."""
    paths = sorted(Path(folder).rglob("*.md"))
    for number in range(EDITS):
        path = paths[(number * 7919) % len(paths)]
        # Letters only: none is part of another, nor has an ending.
        word = "zq" + "".join(chr(97 + int(digit)) for digit in f"{os.getpid()}{number:02}") + "q"
        yield path.relative_to(folder).as_posix(), path, word, path.read_bytes() + f"\n\n{word}\n".encode()


def ours_edit(folder: str, asked: list[str]) -> Figures:
    backend = provider(folder)
    ask(backend, asked[0])
    took = []
    for name, path, word, text in edits(folder):
        path.write_bytes(text)
        start = time.perf_counter()
        backend.refresh([name])
        hits = ask(backend, word).hits
        took.append((time.perf_counter() - start) * 1000)
        assert [hit.source_id for hit in hits] == [name], (name, hits)
    backend.dispose()
    return {"edit ms": statistics.median(took)}


def ours_watch(folder: str, asked: list[str]) -> Figures:
    """From a save to an answer with it, asked for again and again; and the longest query meanwhile."""
    os.environ["KNOWLEDGE_FILES_FRESHNESS"] = "watch"
    backend = provider(folder)
    ask(backend, asked[0])
    time.sleep(2)  # until it watches
    took, longest = [], 0.0
    for _, path, word, text in list(edits(folder))[:SAVES]:
        path.write_bytes(text)
        start = time.perf_counter()
        while True:
            begun = time.perf_counter()
            hits = ask(backend, word).hits
            longest = max(longest, time.perf_counter() - begun)
            if hits:
                break
            if begun - start > GIVE_UP_S:
                raise RuntimeError("a saved file was not seen")
            time.sleep(0.001)
        took.append((time.perf_counter() - start) * 1000)
    backend.dispose()
    return {"watch ms": statistics.median(took), "watch, longest query ms": longest * 1000}


# The others


class Pipeline:
    """Files read, parsed by PyYAML, and put into tantivy with their text."""

    def __init__(self) -> None:
        import tantivy

        self.tantivy = tantivy
        fields = tantivy.SchemaBuilder()
        fields.add_text_field("body", stored=True, tokenizer_name="en_stem")
        fields.add_text_field("path", stored=True, tokenizer_name="raw")
        self.index = tantivy.Index(fields.build(), path=tempfile.mkdtemp(dir=os.environ["BENCH_SCRATCH"]))
        self.writer: Any = None

    def build(self, paths: Iterable[Path]) -> None:
        writer = self.index.writer(heap_size=256_000_000, num_threads=1)
        for path in paths:
            writer.add_document(self.document(str(path), path.read_bytes().decode("utf-8", "replace")))
        writer.commit()
        writer.wait_merging_threads()
        self.look()

    def document(self, path: str, text: str) -> Any:
        import yaml

        body, title = text, ""
        if text.startswith("---\n") and (end := text.find("\n---", 4)) > 0:
            body = text[end + 4 :]
            # Real files have some that do not parse.
            with suppress(yaml.YAMLError, AttributeError):
                title = str(yaml.load(text[4:end], Loader=yaml.CSafeLoader).get("title", ""))
        return self.tantivy.Document(path=path, body=f"{title}\n{body}")

    def look(self) -> None:
        self.index.reload()
        self.searcher = self.index.searcher()

    def search(self, text: str) -> list[tuple[str, str, str]]:
        query = self.index.parse_query(" ".join(words(text)), ["body"])
        snippets = self.tantivy.SnippetGenerator.create(self.searcher, query, self.index.schema, "body")
        found = []
        for _, place in self.searcher.search(query, 10, count=False).hits:
            document = self.searcher.doc(place)
            found.append((document["path"][0], document["body"][0], snippets.snippet_from_doc(document).to_html()))
        return found

    def put(self, path: str, text: str) -> None:
        self.writer = self.writer or self.index.writer(heap_size=64_000_000, num_threads=1)
        self.writer.delete_documents("path", path)
        self.writer.add_document(self.document(path, text))
        self.writer.commit()
        self.look()


def built(folder: str) -> Pipeline:
    pipeline = Pipeline()
    pipeline.build(sorted(Path(folder).rglob("*.md")))
    return pipeline


def pipeline_start(folder: str, asked: list[str]) -> Figures:
    return {"hits": float(len(built(folder).search(asked[0])))}


def pipeline_warm(folder: str, asked: list[str]) -> Figures:
    before = resident_mb()
    forget_peak()
    pipeline = built(folder)
    peak = peak_mb() - before
    return best_of(pipeline.search, asked) | {"memory MB": resident_mb() - before, "peak MB": peak}


def pipeline_edit(folder: str, _: list[str]) -> Figures:
    pipeline, took = built(folder), []
    for _, path, word, text in edits(folder):
        decoded = text.decode("utf-8", "replace")
        start = time.perf_counter()
        pipeline.put(str(path), decoded)
        hits = pipeline.search(word)
        took.append((time.perf_counter() - start) * 1000)
        assert [one for one, *_ in hits] == [str(path)]
    return {"edit ms": statistics.median(took)}


def fts5_warm(folder: str, asked: list[str]) -> Figures:
    connection = sqlite3.connect(f"{os.environ['BENCH_SCRATCH']}/{os.getpid()}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(body, tokenize='unicode61 remove_diacritics 0')")
    connection.execute("BEGIN")
    for path in sorted(Path(folder).rglob("*.md")):
        connection.execute("INSERT INTO t VALUES (?)", (path.read_bytes().decode("utf-8", "replace"),))
    connection.execute("COMMIT")

    def search(text: str) -> object:
        expression = " OR ".join(f'"{word}"' for word in words(text))
        return connection.execute(
            "SELECT rowid, rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (expression,)
        ).fetchall()

    return best_of(search, asked, times=2)


def bare_start(folder: str, _: list[str]) -> Figures:
    import numpy as np

    def looked(below: str) -> Iterator[tuple[int, int]]:
        with os.scandir(below) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from looked(entry.path)
                else:
                    told = entry.stat(follow_symlinks=False)
                    yield told.st_size, told.st_mtime_ns

    return {"files": float(len(np.array(list(looked(folder)))))}


def bare_watch(folder: str, _: list[str]) -> Figures:
    import watchfiles

    told, stop, seen = threading.Event(), threading.Event(), list[float]()

    def watch() -> None:
        for _ in watchfiles.watch(folder, stop_event=stop, rust_timeout=500):
            seen.append(time.perf_counter())
            told.set()

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(2)  # until it watches
    took = []
    for _, path, _, text in list(edits(folder))[:SAVES]:
        told.clear()
        path.write_bytes(text)
        start = time.perf_counter()
        if told.wait(GIVE_UP_S):
            took.append((seen[-1] - start) * 1000)
        time.sleep(0.2)
    stop.set()
    thread.join()
    return {"watch ms": statistics.median(took)}


TASKS: dict[str, Callable[[str, list[str]], Figures]] = {
    "ours-start": ours_start,
    "ours-warm": ours_warm,
    "ours-edit": ours_edit,
    "ours-watch": ours_watch,
    "pipeline-start": pipeline_start,
    "pipeline-warm": pipeline_warm,
    "pipeline-edit": pipeline_edit,
    "fts5-warm": fts5_warm,
    "bare-start": bare_start,
    "bare-watch": bare_watch,
}


# All of it


class Run:
    """Measurements over one tree."""

    def __init__(self, folder: str, scratch: str, asked: list[str], python: Path | None) -> None:
        self.folder, self.scratch, self.asked, self.python = folder, scratch, asked, python

    def task(self, name: str, cache: str = "") -> Figures:
        """What a process of its own measures, and how long all of it took."""
        python = sys.executable if name.startswith(("ours", "fts5")) else self.python
        if python is None:
            return {}
        environ = {"KNOWLEDGE_FILES_CACHE": cache or "off", "BENCH_SCRATCH": self.scratch}
        asked = Path(self.scratch, "queries.json")
        asked.write_text(json.dumps(self.asked))
        start = time.perf_counter()
        try:
            found = in_process(python, __file__, self.folder, "--task", name, "--asked", asked, environ=environ)
        except RuntimeError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            return {}
        return found | {"process ms": (time.perf_counter() - start) * 1000}

    def alone(self) -> dict[str, Figures]:
        """Only opening and asking ours."""
        cache = tempfile.mkdtemp(dir=self.scratch)
        found = _without(self.task("ours-warm", cache))
        return {"ours": _ordered(found | {"cache MB": folder_mb(Path(cache))})}

    def round(self) -> dict[str, Figures]:
        """All measurements once, ours and others by turns."""
        cache = tempfile.mkdtemp(dir=self.scratch)
        cold, their_cold = self.task("ours-start", cache), self.task("pipeline-start")
        size = folder_mb(Path(cache))
        restart, bare = self.task("ours-start", cache), self.task("bare-start")
        ours, theirs, fts5 = self.task("ours-warm", cache), self.task("pipeline-warm"), self.task("fts5-warm")
        ours |= self.task("ours-edit", cache)
        theirs |= self.task("pipeline-edit")
        ours |= self.task("ours-watch", cache)
        bare |= self.task("bare-watch") | {"process ms": bare.get("process ms", 0.0)}
        named = {"cold ms": cold.get("process ms", 0.0), "restart ms": restart.get("process ms", 0.0)}
        counted = {"opened": restart.get("opened", 0.0), "opened, not cited": restart.get("not cited", 0.0)}
        ours = _without(ours) | named | {"cache MB": size} | counted
        theirs = _without(theirs) | {"cold ms": their_cold.get("process ms", 0.0)}
        bare = _without(bare) | {"restart ms": bare["process ms"]}
        return {"ours": _ordered(ours), "pipeline": theirs, "fts5": _without(fts5), "bare": bare}


def _without(found: Figures) -> Figures:
    return {name: value for name, value in found.items() if name not in ("process ms", "files")}


def _ordered(found: Figures) -> Figures:
    first = ("cold ms", "restart ms", "query p50 ms", "query p99 ms", "edit ms", "watch ms")
    return {name: found[name] for name in dict.fromkeys((*first, *found)) if name in found}


def run(documents: list[Page], name: str, size: int, arguments: argparse.Namespace, python: Path | None) -> None:
    """One tree, and its table."""
    told = list(grown(documents, size))
    asked = questions([(page.title, page.body) for page in told])
    if not asked:
        raise SystemExit("No document has more than six words: there is nothing to ask.")
    hashed = digest((page.head + page.body).encode("utf-8", "surrogatepass") for page in told)
    text = sum(len(page.head) + len(page.body) for page in told) / 1e6
    print(
        f"\n{len(told):,} documents ({text:.0f} million characters; {name}; hash {hashed}); {machine()}\n", flush=True
    )
    found: dict[str, list[Figures]] = {"ours": [], "pipeline": [], "fts5": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch, "docs")
        write_files(folder, (page.head + page.body for page in told))
        del told
        measure = Run(str(folder), scratch, asked, python)
        for _ in range(arguments.rounds):
            for one, figures in (measure.alone() if arguments.alone else measure.round()).items():
                found[one].append(figures)
    print(compared(found, "ours"))
    rounds_cold = [each["restart ms"] / each["cold ms"] for each in found["ours"] if each.get("cold ms")]
    if rounds_cold:
        print(f"\nrestart / cold, ours: {statistics.median(rounds_cold):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    corpus_argument(parser)
    parser.add_argument("--sizes", default="5000,50000,200000", help="numbers of documents: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--alone", action="store_true", help="only open and ask ours: for trees that others take long for"
    )
    parser.add_argument("--quick", action="store_true", help="one round over 1,000 invented documents")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--asked", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        asked = json.loads(arguments.asked.read_bytes())
        print(json.dumps(TASKS[arguments.task](str(arguments.folder), asked)))
        return
    sizes = [1_000] if arguments.quick else [int(size) for size in arguments.sizes.split(",")]
    arguments.rounds = 1 if arguments.quick else arguments.rounds
    python = None if arguments.alone else peers_python()
    with unpacked(arguments.folder, quick=arguments.quick) as folder:
        most = 1_000_000 if folder else min(max(sizes), 20_000)
        name, documents = pages(folder, most)
        for size in sizes:
            run(documents, name, size, arguments, python)
    print(f"\nload at the end: {machine().rpartition('load ')[2]}")


if __name__ == "__main__":
    main()
