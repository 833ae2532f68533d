"""Which characters the bytes of a fetched document stand for.

The first of these that says something known decides:

1. a byte order mark;
2. the `charset` that the server sent (over what the document says of itself, as in browsers);
3. for HTML, a `<meta>` tag in the first 4 KB, in either form; for XML, the encoding of its declaration;
4. UTF-8, if the bytes are valid UTF-8;
5. Windows-1252.

As in browsers, ISO-8859-1 and ASCII are read as Windows-1252, GB2312 and GBK as GB18030. A label that is not known
counts as no label. Bytes that do not fit show as U+FFFD; nothing here raises.
"""

from __future__ import annotations

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Names as `codecs` gives them. Python knows more (`unicode_escape`, `utf-7`, ...), which no document is trusted with.
_KNOWN = frozenset(
    ["utf-8", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "johab"]
    + ["gb18030", "big5hkscs", "cp932", "euc_jp", "iso2022_jp", "cp949", "hz"]
    + [f"iso8859-{part}" for part in range(2, 17) if part != 12]
    + [f"cp{page}" for page in (866, 874, *range(1250, 1259))]
)
#: Supersets that browsers take for the label.
_READ_AS = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "utf-16": "utf-16-le"}
_READ_AS |= {"utf-8-sig": "utf-8", "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-9": "cp1254", "tis-620": "cp874"}
_READ_AS |= {"big5": "big5hkscs"}
#: Labels of the web that Python does not have.
_LABELS = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-euc-jp": "euc_jp", "windows-874": "cp874", "x-cp1252": "cp1252"}

_LABEL = re.compile(r"[A-Za-z0-9_.:-]{2,40}")
_HEADER = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([^\"']+)")
_HEAD = 4096


def decode(content: bytes, content_type: str) -> tuple[str, str]:
    """The Python name of the charset, and the text without its byte order mark.

    `content_type` is the header as it was sent.
    """
    for mark, charset in _BOMS:
        if content.startswith(mark):
            return charset, content[len(mark) :].decode(charset, "replace")
    header = _HEADER.search(content_type)
    charset = known_charset(header[1]) if header else ""
    charset = charset or _own_charset(content, content_type)
    if not charset:
        try:
            return "utf-8", content.decode()
        except UnicodeDecodeError:
            charset = "cp1252"
    return charset, content.decode(charset, "replace")


def known_charset(label: str) -> str:
    """The Python name of the charset that a label means; empty if it means none."""
    label = label.strip().lower()
    if not _LABEL.fullmatch(label):
        return ""
    try:
        name = codecs.lookup(_LABELS.get(label, label)).name
    except LookupError:
        return ""
    name = _READ_AS.get(name, name)
    return name if name in _KNOWN else ""


def _own_charset(content: bytes, content_type: str) -> str:
    """What the document says of itself."""
    kind = content_type.partition(";")[0].lower()
    found = None
    if "xml" in kind:
        found = _XML.match(content[:_HEAD])
    if found is None and "html" in kind:
        found = _META.search(content[:_HEAD])
    charset = known_charset(found[1].decode("latin-1")) if found else ""
    # It was read as ASCII, so it cannot be UTF-16.
    return "utf-8" if charset.startswith("utf-16") else charset
