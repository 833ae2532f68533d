"""What laws are tried on: small corpora in many scripts, hostile ids, hurt documents, queries and filters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.filters import metadata_keys
from knowledge_engine.passages import not_text, parse_document

#: Ids that every backend must be able to hold; URL, shell and SQL signs are in them on purpose.
PATHS = (
    "a.md", "b.md", "guides/start.md", "guides/deep/end.md", "notes.txt", "data.json", "größe.md", "水温/センサ.md",
    "насос.markdown", "data.yaml", "with space.md", "-dash.md", "100%25.md", "hash#1.md", "q?x=1&y.md", "it's.md",
    "cafe\u0301.md", "a.b_c.md", "emoji-🔧.md",
)  # fmt: skip
#: Words that stand in documents. Shrinking goes to the first.
WORDS = (
    "valve", "pump", "Tank", "the", "größe", "Straße", "café", "cafe\u0301", "насос", "θερμότης", "水温", "ポンプ",
    "밸브", "שסתום", "صمام", "स्तर", "วาล์ว", "S7-1200", "modbus_tcp", "readHTTPStatus", "C++", ".NET", "don't",
    "O'Brien", "10.0.0.1", "İstanbul", "ＦＵＬＬ", "so\u00adft", "zero\u200bwidth", "🔧valve", "x" * 150,
)  # fmt: skip
#: One of these stands in few documents.
RARE = ("quorvex", "blimdat", "frosk", "wexlume", "glarnip")
#: These stand in none.
ABSENT = ("zzqvopyx", "wvuqxpil", "йцфыщъ", "qqxjvkzpw")
_FRONT_LINES = (
    "kind: guide", "kind: note", "title: Valve guide", 'title: "Насос: 水温"', "year: 2020", 'year: "2021"',
    "year: 2022.5", "level: 017", "ok: yes", "draft: true", "tags: [pump, valve]", 'tags: [1, "2"]',
    "date: 2024-05-01", "version: 1.10", "id: one", "keywords: [wexlume]", "summary: About glarnip.",
    "nested: {deep: 5, name: Ä}", "empty:", 'vendor: "Größe AG"', '"über": 1', "time: 12:30", "hex: 0x1F", "exp: 1e3",
    "quote: \"it's\"",
)  # fmt: skip
_SHAPES = (
    "{}", "# {}", "## {}", "- {}", "> {}", "**{}**", "[[{}]]", "```\n{}\n```", "~~~\n# {}\n~~~", "{}\n===", "    {}",
    "<div>\n{}\n</div>", "| {} | x |", "[{}](guides/start.md)", "{}\n\n\n", "LONG",
)  # fmt: skip
_TAILS = (b"", b"\n", b"\n\xff\n", b" \xc3(", b" \xed\xa0\x80 tail\n", b"\na NUL \x00 in a longer tail\n")

_blocks = st.tuples(st.sampled_from(_SHAPES), st.lists(st.sampled_from(WORDS + RARE), min_size=1, max_size=5))


@st.composite
def documents(draw: st.DrawFn, body: bool = False) -> bytes:
    """A document as people write it, now and then with a byte that is not UTF-8; `body`: never without text."""
    front = draw(st.lists(st.sampled_from(_FRONT_LINES), max_size=4, unique_by=lambda line: line.partition(":")[0]))
    blocks = draw(st.lists(_blocks, min_size=int(body), max_size=4))
    newline, mark, tail = draw(
        st.tuples(st.sampled_from(["\n", "\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.sampled_from(_TAILS))
    )
    parts = ["\n".join(["---", *front, "---\n"])] if front else []
    for shape, words in blocks:
        text = " ".join(words)
        parts.append(f"{text} " * (2500 // len(text)) if shape == "LONG" else shape.format(text))
    return mark + "\n\n".join(parts).replace("\n", newline).encode() + tail


def corpora(min_size: int = 0, max_size: int = 5, body: bool = False) -> st.SearchStrategy[dict[str, bytes]]:
    """Documents by id."""
    return st.dictionaries(st.sampled_from(PATHS), documents(body), min_size=min_size, max_size=max_size)


_CROWD = ("valve", "pump", "水温", "größe", "насос")
#: Questions that many documents of `crowded` answer.
CROWD_QUERIES = ("valve", "valve pump", "pump valve 水温 größe насос")


def _parts(kind: str, parts: list[list[str]]) -> bytes:
    front = f"---\nkind: {kind}\n---\n" if kind else ""
    return (front + "\n\n".join(f"# Part {n}\n\n{' '.join(words)}" for n, words in enumerate(parts))).encode()


def crowded() -> st.SearchStrategy[dict[str, bytes]]:
    """Documents of several passages that share their few words: most answer each question, many as well."""
    parts = st.lists(st.lists(st.sampled_from(_CROWD), min_size=1, max_size=4), min_size=1, max_size=3)
    document = st.builds(_parts, st.sampled_from(["", "guide", "note"]), parts)
    return st.dictionaries(st.sampled_from(PATHS[:8]), document, min_size=3, max_size=6)


#: Documents with something wrong, by what it is; each is an issue, or skipped with a reason.
HURT: Mapping[str, bytes] = {
    "broken YAML": b"---\ntitle: [unclosed\n---\ntext",
    "unclosed block": b"---\ntitle: x\n\ntext without end",
    "duplicate key": b"---\na: 1\na: 2\n---\ntext",
    "alias bomb": b"---\na: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9))
    + b"---\ntext",
    "deep YAML": b"---\na: " + b"[" * 3000 + b"]" * 3000 + b"\n---\ntext",
    "tag": b"---\na: !!python/object/apply:os.system [id]\n---\ntext",
    "no mapping": b"---\n- a\n- b\n---\ntext",
    "invalid UTF-8": b"---\ntitle: x\n---\ntext \xff\xfe\xc0 text",
    "UTF-16": b"\xff\xfe" + "text of a file".encode("utf-16-le"),
    "NUL bytes": b"t\x00e\x00x\x00t\x00" * 20,
}
#: Whole documents that are odd, and fine.
ODD = (
    b"",
    b"\n",
    b"\xef\xbb\xbf",
    b"---\n---\n",
    b"```\nnever closed",
    b"#",
    b"x" * 100_000,
    b"[" * 5_000,
    b"> " * 2_000,
)

_HOSTILE = (
    "../secret.md", "/etc/passwd", "..", ".", "", "/", "a/../../etc/passwd", "a\x00b.md", "x" * 5000 + ".md",
    "d/" * 3000 + "e.md", "\ud800.md", "%2e%2e/secret.md", "..%2fsecret.md", "%00.md", "\u2024\u2024/secret.md",
    "\uff0e\uff0e\uff0fsecret.md", "C:\\secret.md", "..\\secret.md", "~/.ssh/id_rsa", "~root/x.md", ".git/config",
    "file:///etc/passwd", "a.md\n", "\u202egnp.md", "con", "*", "%", "a' OR '1'='1", "a\x7f.md",
)  # fmt: skip
_DETOURS = (
    "./{}",
    "/{}",
    "x/../{}",
    "{}/",
    "{}/.",
    "//{}",
    "%2e/{}",
    "{}\x00",
    "{}%00",
    "{} ",
    "{}\n",
    "../{}",
    "\\{}",
)


def hostile_ids(known: Iterable[str]) -> st.SearchStrategy[str]:
    """Ids that must find nothing: ways out of the root, detours to what is there, and what is no id at all."""
    there = set(known)
    detours = [detour.format(one) for one in sorted(there)[:20] for detour in _DETOURS]
    return st.sampled_from([one for one in (*_HOSTILE, *detours) if one not in there])


def words_of(source_id: str, raw: bytes) -> list[str]:
    """What stands in a document's body between white space and holds a letter or digit."""
    if not_text(raw):
        return []
    text = raw[parse_document(source_id, raw).body_start :].decode("utf-8", "replace")
    return [one for one in dict.fromkeys(text.split()) if len(one) <= 500 and any(map(str.isalnum, one))]


def sample(docs: Mapping[str, bytes], most: int = 50) -> dict[str, bytes]:
    """Some documents of a corpus that may be large."""
    return {one: docs[one] for one in sorted(docs)[:most]}


def queries(docs: Mapping[str, bytes], max_words: int = 3) -> st.SearchStrategy[str]:
    """Questions of which most have an answer."""
    pool = list(dict.fromkeys(word for one, raw in sample(docs).items() for word in words_of(one, raw)[:50]))
    words = st.sampled_from([*pool, *WORDS, *RARE, ABSENT[0]])
    return st.lists(words, min_size=1, max_size=max_words).map(" ".join)


def spellings(word: str) -> list[str]:
    """Other ways to write a word that mean the same: composed or not, in capitals, with invisible characters."""
    half = len(word) // 2
    return [
        unicodedata.normalize("NFC", word),
        unicodedata.normalize("NFD", word),
        word.casefold(),
        word.upper(),
        f"{word[:half]}\u200b{word[half:]}",
        f"{word[:half]}\u00ad{word[half:]}",
        f"\ufeff{word}",
    ]


_KEYS = ("kind", "year", "tags", "draft", "version", "nested.deep", "title", "source_id", "missing", "vendor", "date")
_VALUES = (
    "guide", "note", 2020, "2020", 2021, "2021", 2022.5, "pump", True, "true", 1, "2", "017", 17, "1.10", 1.1, 5, "5",
    "2024-05-01", "one", "", "Größe AG", "Gro\u0308ße AG", "a.md",
)  # fmt: skip


def filters(docs: Mapping[str, bytes]) -> st.SearchStrategy[dict[str, JsonValue]]:
    """Filters on keys and values of a corpus, and on some that it lacks."""
    keys, values = dict.fromkeys(_KEYS), dict.fromkeys(map(_hashable, _VALUES))
    for one, raw in sample(docs, 20).items():
        metadata = parse_document(one, raw).metadata
        keys.update(dict.fromkeys(metadata_keys(metadata)))
        values.update(
            (_hashable(value), None) for value in metadata.values() if isinstance(value, str | int | float | bool)
        )
    return _filters(list(keys), [value for _, value in values])


def _hashable(value: Any) -> tuple[str, Any]:
    """Python holds 1, 1.0 and True to be one key."""
    return type(value).__name__, value


def _filters(keys: list[str], values: list[Any]) -> st.SearchStrategy[dict[str, JsonValue]]:
    value = st.sampled_from(values)
    plain = st.sampled_from([one for one in values if not isinstance(one, bool)])
    texts = st.sampled_from([one for one in values if isinstance(one, str)])
    condition = st.one_of(
        value,
        st.builds(_entry, st.sampled_from(["eq", "ne", "contains"]), value),
        st.builds(_entry, st.sampled_from(["gt", "gte", "lt", "lte"]), plain),
        st.builds(_entry, st.sampled_from(["in", "nin"]), st.lists(value, max_size=3)),
        st.builds(_entry, st.just("prefix"), texts.map(lambda text: text[:3])),
        st.builds(_entry, st.just("exists"), st.booleans()),
        st.lists(value, min_size=1, max_size=2),
    )
    leaf: st.SearchStrategy[Any] = st.builds(_entry, st.sampled_from(keys), condition)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(_entry, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)),
            st.builds(_entry, st.just("not"), inner),
        ),
        max_leaves=4,
    )


def _entry(key: str, value: Any) -> dict[str, Any]:
    return {key: value}
