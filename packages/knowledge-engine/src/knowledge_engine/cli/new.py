"""`new`: the beginning of a document that keeps the rules of the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge_engine.cli.output import copyable, note, write, write_json
from knowledge_engine.cli.session import Session, Text, json_option

if TYPE_CHECKING:
    from knowledge_engine.ports import FsPort

_ENDING = ".md"


@click.command()
@click.argument("doc_id", metavar="ID", type=Text())
@click.argument("output", metavar="[-]", required=False, type=click.Choice(["-"]))
@click.option("--kind", type=Text(), help="Default: the id up to its first dot.")
@click.option("--title", type=Text(), help="Default: made of the rest of the id.")
@click.option("--dir", "docs_dir", metavar="DIR", default=".", show_default=True, type=Text(), help="The library.")
@click.option("--stdout", is_flag=True, help="Print the document, as `-` does, and write no file.")
@json_option
@click.pass_context
def new(
    ctx: click.Context,
    doc_id: str,
    output: str | None,
    kind: str | None,
    title: str | None,
    docs_dir: str,
    stdout: bool,
) -> None:
    """Begin a document: writes DIR/ID.md with the metadata and sections that belong into it.

    IDs look like device.vendor.model, protocol.name or guide.topic. The text says what to put where. No file is ever
    overwritten.
    """
    from knowledge_engine.validation.templates import template

    session = ctx.find_object(Session) or Session()
    _check_id(ctx, doc_id)
    if kind is None:
        kind, dot, rest = doc_id.partition(".")
        if not dot or not rest:
            raise click.UsageError("The id has no first part that tells the kind: give --kind.", ctx)
    for name, value in (("--kind", kind), ("--title", title)):
        if value is not None and not value.strip():
            raise click.UsageError(f"{name} is empty.", ctx)
    text = template(doc_id, kind.strip(), title)
    if output or stdout:
        if session.json:
            write_json({"id": doc_id, "content": text.decode()})
        else:
            click.echo(text, nl=False)
        return
    path = _store(docs_dir, doc_id, text)
    if session.json:
        write_json({"id": doc_id, "path": path})
    else:
        write(f"written: {copyable(path)}")
        note(f"Fill it in, then run: knowledge validate {copyable(docs_dir)}")


def _check_id(ctx: click.Context, doc_id: str) -> None:
    from knowledge_engine.doc_format import id_issues
    from knowledge_engine.fs import is_hidden
    from knowledge_engine.fs.paths import path_problem

    if not doc_id.strip():
        raise click.UsageError("The id is empty. Write it like device.vendor.model.", ctx)
    for issue in id_issues("", {"id": doc_id}):
        raise click.UsageError(f"{issue.message}. {issue.mend}", ctx)
    name = f"{doc_id}{_ENDING}"
    if problem := path_problem(name) or ("is a hidden file" if is_hidden(name) else ""):
        raise click.UsageError(f"No document can be called so: {name[:80]!r} {problem}.", ctx)


def _store(docs_dir: str, doc_id: str, text: bytes) -> str:
    """Writes the file, and makes the folder; where it was written.

    Raises:
        ConfigurationError: When the folder cannot be one.
        ConflictError: When the id is taken, or the file is there.
        ReadOnlyError, StorageFullError: For what their names say.
    """
    from knowledge_engine.errors import ConfigurationError, ConflictError
    from knowledge_engine.fs.paths import native
    from knowledge_engine.fs.writing import write_error
    from knowledge_engine.validation import open_folder

    shown = Path(docs_dir, f"{doc_id}{_ENDING}").as_posix()
    try:
        Path(native(docs_dir)).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigurationError(f"{docs_dir!r} is not a folder", mend="Name a folder in --dir.") from None
    except OSError as error:
        raise write_error(docs_dir, error) from error
    if taken := _path_of(open_folder(docs_dir), doc_id):
        raise ConflictError(f"The id {doc_id!r} belongs to {taken}", mend="Choose another id, or change that document.")
    try:
        with Path(native(shown)).open("xb") as file:
            _write(file.fileno(), text, native(shown))
    except FileExistsError:
        raise ConflictError(f"{shown} is there already", mend="Choose another id, or change that file.") from None
    except OSError as error:
        raise write_error(shown, error) from error
    return shown


def _write(descriptor: int, text: bytes, path: str) -> None:
    """All of it or nothing."""
    try:
        while text:
            text = text[os.write(descriptor, text) :]
    except OSError:
        Path(path).unlink(missing_ok=True)
        raise


def _path_of(fs: FsPort, doc_id: str) -> str | None:
    """The document that has that id, or one that people would mix up with it."""
    from knowledge_engine.catalogue import fold
    from knowledge_engine.errors import KnowledgeError
    from knowledge_engine.frontmatter import MAX_BLOCK_BYTES, parse_frontmatter
    from knowledge_engine.models import ByteSpan
    from knowledge_engine.passages import EXTENSIONS

    head = ByteSpan(start=0, end=2 * MAX_BLOCK_BYTES)
    wanted = fold(doc_id)
    for info in fs.walk():
        if info.problem or not info.path.lower().endswith(EXTENSIONS[:2]):
            continue
        try:
            claimed = parse_frontmatter(fs.read(info.path, head)).metadata.get("id")
        except KnowledgeError:
            continue  # `validate` tells what is wrong with it
        if isinstance(claimed, str) and fold(claimed) == wanted:
            return info.path
    return None
