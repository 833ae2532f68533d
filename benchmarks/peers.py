"""The index by itself against search libraries: same texts, same tokens, ten best by BM25, ids and scores only.

    python benchmarks/peers.py [FOLDER] [--documents N] [--rounds 3] [--peers bm25s-numba,tantivy]
    python benchmarks/peers.py [FOLDER] --windows 500000     so many short texts, cut out of those
    python benchmarks/peers.py --quick                       a short run over invented text

All get the same texts (title and body of markdown files) and, but for tantivy and SQLite FTS5, which have their own
tokenizers, the same tokens: runs of letters and digits, in lower case, none left out or stemmed; one thread. Each
measurement is a process of its own, the libraries by turns within a round; figures are medians over the rounds, and
ratios the medians of ours to theirs within a round. A query's time is the best of three. Memory is what the process
holds more than before it had the index; the peak is that of building it. The first answer is that of a new process,
from its start on.

The libraries (benchmarks/requirements-peers.txt) are installed once into .venv-peers, or are looked for in the
environment that PEERS_VENV names; what cannot be installed is left out.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from measuring import (
    Figures,
    best_of,
    compared,
    corpus_argument,
    folder_mb,
    forget_peak,
    in_process,
    machine,
    make_corpus,
    peak_mb,
    peers_python,
    resident_mb,
    timed,
    unpacked,
    words,
)

TOP = 10
ADDED = 7
Found = list[tuple[int, float]]


class Peer(Protocol):
    """A library at work. `save`, `load` and `add` are there where it can do that."""

    def build(self, texts: list[str], folder: str, /) -> None: ...

    def search(self, text: str) -> Found: ...


class Ours:
    """The index of the files backend, given the tokens of the others."""

    def __init__(self) -> None:
        from knowledge_engine.analysis import QueryWord
        from knowledge_files.index import Index

        self.word, self.index = QueryWord, Index()

    def segments(self, texts: Any) -> Any:
        from knowledge_engine.passages import Passage, PassageTokens
        from knowledge_files.building import SegmentBuilder

        builder = SegmentBuilder(PlainWords())  # type: ignore[arg-type]
        for number, text in texts:
            passage = Passage(0, len(text.encode("utf-8", "replace")), ())
            builder.add(str(number), [passage], [PassageTokens(builder.numbering.of_text(text), b"")])
        return builder.build()

    def build(self, texts: list[str], _: str) -> None:
        self.index = self.index.changed((), self.segments(enumerate(texts)))

    def search(self, text: str) -> Found:
        asked = map(self.word, words(text))
        return [(int(one.source_id), one.score) for one in islice(self.index.search(asked, wanted=TOP), TOP)]

    def add(self, number: int, text: str) -> None:
        self.index = self.index.changed((str(number),), self.segments([(number, text)]))


class PlainWords:
    """In the place of an analyzer: words as they stand."""

    def chunk_terms(self, chunk: str) -> tuple[str, ...]:
        return tuple(words(chunk))


class Bm25s:
    backend = "numpy"

    def build(self, texts: list[str], _: str) -> None:
        import bm25s

        tokens = bm25s.tokenize(texts, token_pattern=r"[^\W_]+", stopwords=None, show_progress=False)
        self.index = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend=self.backend)
        self.index.index(tokens, show_progress=False)
        self.count = len(texts)

    def search(self, text: str) -> Found:
        known = [word for word in words(text) if word in self.index.vocab_dict]
        if not known:
            return []
        ids, scores = self.index.retrieve([known], k=min(TOP, self.count), show_progress=False)
        return [(int(one), float(score)) for one, score in zip(ids[0], scores[0], strict=True)]

    def save(self, folder: str) -> None:
        self.index.save(folder, show_progress=False)

    def load(self, folder: str) -> None:
        import bm25s

        self.index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        self.count = self.index.scores["num_docs"]
        self.index.backend = self.backend


class Bm25sNumba(Bm25s):
    backend = "numba"


class Tantivy:
    def _opened(self, index: Any) -> None:
        import tantivy

        plain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()
        index.register_tokenizer("plain", plain)
        self.index, self.tantivy, self.writer = index, tantivy, None

    def build(self, texts: list[str], folder: str) -> None:
        import tantivy

        fields = tantivy.SchemaBuilder()
        fields.add_text_field("body", stored=False, tokenizer_name="plain", index_option="freq")
        fields.add_unsigned_field("id", stored=True)
        self._opened(tantivy.Index(fields.build(), path=folder))
        writer = self.index.writer(heap_size=256_000_000, num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(id=number, body=text))
        writer.commit()
        writer.wait_merging_threads()
        self._look()

    def _look(self) -> None:
        self.index.reload()
        self.searcher = self.index.searcher()

    def search(self, text: str) -> Found:
        asked = [
            (self.tantivy.Occur.Should, self.tantivy.Query.term_query(self.index.schema, "body", word))
            for word in words(text)
        ]
        found = self.searcher.search(self.tantivy.Query.boolean_query(asked), TOP, count=False).hits
        return [(self.searcher.doc(place)["id"][0], score) for score, place in found]

    def save(self, folder: str) -> None:
        """It is there already."""

    def load(self, folder: str) -> None:
        import tantivy

        self._opened(tantivy.Index.open(folder))
        self._look()

    def add(self, number: int, text: str) -> None:
        self.writer = self.writer or self.index.writer(heap_size=64_000_000, num_threads=1)
        self.writer.add_document(self.tantivy.Document(id=number, body=text))
        self.writer.commit()
        self._look()


class Fts5:
    def build(self, texts: list[str], folder: str) -> None:
        self.load(folder)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute(
            "CREATE VIRTUAL TABLE t USING fts5(body, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO t(rowid, body) VALUES (?, ?)", enumerate(texts))
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def search(self, text: str) -> Found:
        expression = " OR ".join(f'"{word}"' for word in words(text))
        return self.connection.execute(
            "SELECT rowid, -rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (expression, TOP)
        ).fetchall()

    def save(self, folder: str) -> None:
        """It is there already."""

    def load(self, folder: str) -> None:
        self.connection = sqlite3.connect(f"{folder}/fts.db", isolation_level=None)

    def add(self, number: int, text: str) -> None:
        self.connection.execute("INSERT INTO t(rowid, body) VALUES (?, ?)", (number, text))


class RankBm25:
    def build(self, texts: list[str], _: str) -> None:
        from rank_bm25 import BM25Okapi

        self.index = BM25Okapi([words(text) for text in texts], k1=1.2, b=0.75)

    def search(self, text: str) -> Found:
        scores = self.index.get_scores(words(text))
        best = scores.argsort()[::-1][:TOP]
        return [(int(one), float(scores[one])) for one in best]


PEERS: dict[str, type[Peer]] = {
    "ours": Ours,
    "tantivy": Tantivy,
    "bm25s-numba": Bm25sNumba,
    "bm25s": Bm25s,
    "fts5": Fts5,
    "rank-bm25": RankBm25,
}
#: More documents than that take it minutes and gigabytes.
MOST = {"rank-bm25": 10_000, "fts5": 100_000}


# In processes of their own


def measure(name: str, corpus: Path) -> Figures:
    """All figures but that of the first answer."""
    texts, asked = json.loads(corpus.read_bytes())
    folder = tempfile.mkdtemp(dir=corpus.parent)
    peer: Any = PEERS[name]()
    before = resident_mb()
    forget_peak()
    found = {"build s": timed(lambda: peer.build(texts, folder)) / 1000}
    peak = peak_mb() - before
    for text in asked[:100]:
        peer.search(text)
    # Memory that the texts take is none of the index.
    found |= best_of(peer.search, asked) | {"memory MB": resident_mb() - before, "peak MB": peak}
    if hasattr(peer, "save"):
        peer.save(folder)
        found["disk MB"] = folder_mb(Path(folder))
        starts = [timed(lambda: in_process(sys.executable, __file__, "--first", name, folder, asked[0])) for _ in "abc"]
        found["first answer ms"] = statistics.median(starts)
    if hasattr(peer, "add"):
        found["add ms"] = added(peer, texts)
    return found


def added(peer: Any, texts: list[str]) -> float:
    """Median time from a text that is new to the search that finds it."""
    took = []
    for number in range(ADDED):
        word, place = f"zzqx{chr(97 + number)}new", len(texts) + number
        text = f"{texts[number % len(texts)]} {word}"
        start = time.perf_counter()
        peer.add(place, text)
        hits = peer.search(word)
        took.append((time.perf_counter() - start) * 1000)
        assert [one for one, _ in hits] == [place], hits
    return statistics.median(took)


def first(name: str, folder: str, text: str) -> Figures:
    """In a process that has done nothing yet: from what was stored to an answer."""
    peer: Any = PEERS[name]()
    peer.load(folder)
    return {"found": float(len(peer.search(text)))}


def run(arguments: argparse.Namespace, folder: Path | None) -> None:
    """All rounds, then the table."""
    python = peers_python() if set(arguments.peers.split(",")) - {"ours", "fts5"} else None
    corpus = make_corpus(folder, arguments.documents, arguments.windows)
    if not corpus.queries:
        raise SystemExit("No document has more than six words: there is nothing to ask.")
    size = sum(map(len, corpus.texts)) / 1e6
    print(f"{len(corpus.texts):,} texts ({size:.0f} million characters; {corpus.name}; hash {corpus.digest}),")
    print(f"{len(corpus.queries)} queries of 2 to 6 words, {TOP} best; {machine()}\n")
    wanted = [name for name in arguments.peers.split(",") if MOST.get(name, len(corpus.texts)) >= len(corpus.texts)]
    found: dict[str, list[Figures]] = {name: [] for name in wanted}
    for left_out in set(arguments.peers.split(",")) - set(wanted):
        print(f"{left_out} is left out: with so many documents it takes minutes and gigabytes.")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "corpus.json")
        path.write_text(json.dumps([corpus.texts, corpus.queries]))
        for _ in range(arguments.rounds):
            for name in list(found):
                try:
                    found[name].append(measured(name, path, python))
                except RuntimeError as error:
                    print(f"{name} is left out: {error}")
                    del found[name]
    print(compared(found, "ours"))
    print(f"\nload at the end: {machine().rpartition('load ')[2]}")


def measured(name: str, path: Path, python: Path | None) -> Figures:
    """What a process with that library measures."""
    if name not in ("ours", "fts5") and python is None:
        raise RuntimeError("it could not be installed")
    chosen = sys.executable if name == "ours" or python is None else python
    return in_process(chosen, __file__, "--one", name, "--corpus", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    corpus_argument(parser)
    parser.add_argument("--documents", type=int, default=1_000_000, help="how many of the files")
    parser.add_argument("--windows", type=int, default=0, help="how many short texts to cut out of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS), help="names, separated by commas: %(default)s")
    parser.add_argument("--quick", action="store_true", help="one round over 3,000 invented documents")
    parser.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        print(json.dumps(first(*arguments.first)))
        return
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.corpus)))
        return
    if wrong := set(arguments.peers.split(",")) - set(PEERS):
        parser.error(f"there is no {sorted(wrong)[0]!r}; there are {', '.join(PEERS)}")
    if arguments.quick:
        arguments.rounds = 1
    with unpacked(arguments.folder, quick=arguments.quick) as folder:
        most = 3_000 if arguments.quick or folder is None else arguments.documents
        arguments.documents = min(arguments.documents, most)
        run(arguments, folder)


if __name__ == "__main__":
    main()
