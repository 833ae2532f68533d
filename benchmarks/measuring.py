"""What the benchmarks have in common: texts, questions, processes that measure one thing, and tables.

Imports nothing but the standard library: it also runs in the environment of the peers.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

Figures = dict[str, float]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
QUERIES = 300
WORDS = re.compile(r"[^\W_]+")
_FRONT = re.compile(r"\A\ufeff?---\r?\n(.*?)\r?\n---\r?\n", re.DOTALL)
_TITLE = re.compile(r"^title:\s*['\"]?(.*?)['\"]?\s*$", re.MULTILINE)


class Corpus(NamedTuple):
    """Texts to search, questions to ask, and what they are."""

    name: str
    texts: list[str]
    queries: list[str]
    digest: str


# Texts


def files(folder: Path, most: int = 1_000_000_000) -> list[Path]:
    """The markdown files below a folder, or that many of them, spread evenly."""
    found = sorted(folder.rglob("*.md"))
    return found if len(found) <= most else found[:: len(found) // most][:most]


def parts(text: str) -> tuple[str, str]:
    """Title and body of a markdown file, as far as two patterns tell."""
    front = _FRONT.match(text)
    title = front and _TITLE.search(front[1])
    return (title[1] if title else "", text[front.end() :] if front else text)


def words(text: str) -> list[str]:
    """The tokens that all have to search by: letters and digits, in lower case."""
    return WORDS.findall(text.lower())


def questions(documents: Sequence[tuple[str, str]], count: int = QUERIES, seed: int = 7) -> list[str]:
    """2 to 6 words in a row, of titles and of bodies by turns. Empty where no document is long enough."""
    if not any(len(words(body)) > 6 for _, body in documents):
        return []
    draw, found, misses = random.Random(seed), list[str](), 0
    while len(found) < count:
        title, body = draw.choice(documents)
        # Where titles are too short, bodies have to do.
        told = words(title) if len(found) % 2 and misses < 100 else words(body)
        many = draw.randint(2, 6)
        if len(told) > many:
            start = draw.randrange(len(told) - many + 1)
            found.append(" ".join(told[start : start + many]))
            misses = 0
        else:
            misses += 1
    return found


def invented(count: int, seed: int = 11) -> Iterator[tuple[str, str]]:
    """Titles and bodies of documents that are not there, with words as common and as rare as in real text."""
    draw = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    vocabulary = [
        "".join(draw.choices(letters, weights=range(26, 0, -1), k=draw.randint(2, 10))) for _ in range(40_000)
    ]

    def some(many: int) -> list[str]:
        return [vocabulary[int(len(vocabulary) * draw.random() ** 4)] for _ in range(many)]

    for number in range(count):
        title = " ".join(some(draw.randint(3, 8))).capitalize()
        pieces = [" ".join(some(draw.randint(30, 120))) for _ in range(draw.randint(2, 6))]
        yield title, "\n\n".join(f"## Part {at}\n\n{piece}." for at, piece in enumerate(pieces)) + f"\n\nk{number:x}\n"


def windows(texts: Sequence[str], count: int, seed: int = 7) -> Iterator[str]:
    """Many short texts out of few long ones: 40 to 160 words of one, and three rare words that are invented."""
    draw = random.Random(seed)
    told = [text for text in (text.split() for text in texts) if len(text) > 60]
    for number in range(count):
        text, length = draw.choice(told), draw.randint(40, 160)
        start = draw.randrange(max(1, len(text) - length))
        rare = f" k{draw.randrange(count):x} k{int(count * draw.random() ** 3):x} z{number % 997}"
        yield " ".join(text[start : start + length]) + rare


def frontmatter(title: str) -> str:
    """What stands before the body of an invented document."""
    return f"---\ntitle: {json.dumps(title)}\nkind: page\n---\n\n"


def documents_of(folder: Path | None, most: int) -> tuple[str, list[tuple[str, str]]]:
    """Titles and bodies of a folder's files, or invented ones where there is no folder; and what they are."""
    if folder is None:
        return "invented text", list(invented(most))
    found = [parts(path.read_bytes().decode("utf-8", "replace")) for path in files(folder, most)]
    return f"files of {folder.name}", found


def make_corpus(folder: Path | None, documents: int, synthetic: int = 0) -> Corpus:
    """Texts of title and body; with `synthetic`, so many windows into them."""
    name, told = documents_of(folder, documents)
    texts = [f"{title}\n{body}".strip() for title, body in told]
    asked = questions(told)
    if synthetic:
        name, texts = f"windows into {name}", list(windows(texts, synthetic))
    return Corpus(name, texts, asked, digest(text.encode("utf-8", "surrogatepass") for text in texts))


def write_files(folder: Path, texts: Iterable[str]) -> None:
    """A tree of files, 500 to a folder."""
    for number, text in enumerate(texts):
        path = folder / f"{number // 500:04}" / f"{number:06}.md"
        if number % 500 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def digest(chunks: Iterable[bytes]) -> str:
    """A short name for exactly these chunks, in this order."""
    found = hashlib.sha256()
    for chunk in chunks:
        found.update(len(chunk).to_bytes(8, "big") + chunk)
    return found.hexdigest()[:12]


# Figures


def percentile(values: Sequence[float], which: int) -> float:
    """Of one value, that one."""
    return statistics.quantiles(values, n=100)[which - 1] if len(values) > 1 else values[0]


def timed(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def best_of(call: Callable[[str], object], asked: Sequence[str], times: int = 3, longest_s: float = 40) -> Figures:
    """Milliseconds of a query: of each the best, as the machine is shared; fewer times where that takes long."""
    best, begun = [float("inf")] * len(asked), time.perf_counter()
    for _ in range(times):
        for place, text in enumerate(asked):
            best[place] = min(best[place], timed(lambda text=text: call(text)))  # type: ignore[misc]
        if time.perf_counter() - begun > longest_s:
            break
    return {"query p50 ms": statistics.median(best), "query p99 ms": percentile(best, 99)}


def resident_mb() -> float:
    """Resident memory of this process, after what is free was given back. Linux only; elsewhere 0."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, AttributeError):
        return 0.0


def forget_peak() -> None:
    """What `peak_mb` tells begins anew. Linux only."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """The most resident memory that this process had; elsewhere than on Linux 0."""
    told = [line.split()[1] for line in _lines("/proc/self/status") if line.startswith("VmHWM:")]
    return int(told[0]) * 1024 / 1e6 if told else 0.0


def folder_mb(folder: Path) -> float:
    """Size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def in_process(
    python: Path | str, script: str, *arguments: object, environ: Mapping[str, str] | None = None
) -> Figures:
    """What a process of its own measures: the JSON object that it prints last.

    Raises:
        RuntimeError: With the last line that it said, when it fails.
    """
    done = subprocess.run(
        [str(python), script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **(environ or {})},
    )
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2][-300:] or f"exit code {done.returncode}")
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return found


# Peers


def peers_python() -> Path | None:
    """The Python of an environment with the peers, made where there is none; None where they cannot be installed."""
    given = os.environ.get("PEERS_VENV")
    folder = Path(given) if given else ROOT / ".venv-peers"
    python, wanted = folder / "bin" / "python", HERE / "requirements-peers.txt"
    ready = folder / ".ready"
    if python.exists() and (given or (ready.exists() and ready.read_bytes() == wanted.read_bytes())):
        return python
    print(f"installing what is measured against into {folder.name} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"they cannot be installed ({type(error).__name__}): they are left out", file=sys.stderr)
        return None
    ready.write_bytes(wanted.read_bytes())
    return python


# Tables


def machine() -> str:
    """Processor, cores, Python, and how busy all is."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, load {load}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def medians(rounds: Sequence[Figures]) -> Figures:
    """Of each figure the median over the rounds that have it."""
    names = dict.fromkeys(name for each in rounds for name in each)
    return {name: statistics.median(each[name] for each in rounds if name in each) for name in names}


def ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Figures:
    """Ours to theirs: the median of the ratios within a round. What is 0 or missing has none."""
    found: dict[str, list[float]] = {}
    for mine, other in zip(ours, theirs, strict=True):
        for name in mine:
            if other.get(name):
                found.setdefault(name, []).append(mine[name] / other[name])
    return {name: statistics.median(values) for name, values in found.items()}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in markdown."""
    cells = [list(heads), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    aligned = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (aligned[0], rule, *aligned[1:]))


def shown(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def compared(found: Mapping[str, Sequence[Figures]], ours: str) -> str:
    """Medians of each, and how ours relates to the others."""
    names = list(dict.fromkeys(name for rounds in found.values() for each in rounds for name in each))
    rows = [[name, *map(shown, map(medians(rounds).get, names))] for name, rounds in found.items() if rounds]
    for name, rounds in found.items():
        if name != ours and rounds and found.get(ours):
            rows.append([f"{ours} / {name}", *map(shown, map(ratios(found[ours], rounds).get, names))])
    return table(["median", *names], rows)


# Command lines


def corpus_argument(parser: argparse.ArgumentParser) -> None:
    """FOLDER, which may be left out."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="markdown files, in any depth; an archive .tar.xz of such is unpacked first. Default: the archive of"
        " ../shared/corpora where that is there, else text is invented",
    )


@contextmanager
def unpacked(given: Path | None, *, quick: bool = False) -> Iterator[Path | None]:
    """The folder of markdown files that is meant, or None: then text has to be invented, which is said."""
    archive = given if given and given.is_file() else None
    if given is None and not quick:
        archive = next(iter(sorted(ROOT.parent.glob("shared/corpora/*.tar.xz"))), None)
    if given is not None and not given.exists():
        raise SystemExit(f"There is no folder {given}: name one with markdown files, or none.")
    if archive is None:
        if given is None:
            print("No folder was named: the text is invented, and figures say less than those of real text.\n")
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        subprocess.run(["tar", "xf", str(archive), "-C", folder], check=True)
        yield Path(folder)
