from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_engine.cli import Session, knowledge, progress, session
from knowledge_engine.cli.asking import _snippet
from knowledge_engine.cli.output import Screen, harmless, one_line, write_table
from knowledge_engine.models import ByteSpan, Snippet

RUN = [sys.executable, "-c", "from knowledge_engine.cli import main; main()"]
COLOR = Screen(terminal=True, color=True)
PLAIN = Screen(terminal=True, color=False)


def on_terminal(shelf: Any, *args: str, **environ: str) -> str:
    """Standard output as a terminal gets it, then standard error, which is none here."""
    ours, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env = {**base, "PYTHONPATH": str(shelf.site), "KNOWLEDGE_BACKEND": shelf.url, "TERM": "xterm", **environ}
    seen = []

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                seen.append(data)
        except OSError:
            pass  # the other side is closed

    reader = threading.Thread(target=read)
    reader.start()
    try:
        run = subprocess.run([*RUN, *args], env=env, stdout=theirs, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return b"".join([*seen, run.stderr]).decode()


def test_on_a_terminal_matching_words_are_highlighted(shelf: Any) -> None:
    shelf.put("tea.md", "# Tea\n\nPlease steep the leaves.\n")
    assert "Please \x1b[1;33msteep\x1b[0m the leaves." in on_terminal(shelf, "query", "steep")
    assert "\x1b[1m" in on_terminal(shelf, "list")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_refused(shelf: Any, environ: dict[str, str]) -> None:
    shelf.put("tea.md", "# Tea\n\nPlease steep the leaves.\n")
    for args in (["query", "steep"], ["list"], ["status"]):
        assert "\x1b" not in on_terminal(shelf, *args, **environ)


def test_escape_sequences_of_documents_do_not_reach_a_terminal(shelf: Any) -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e"
    shelf.put("evil.md", f'---\ntitle: "E\\e[2J"\n---\n# {evil} heading\n\nsteep {evil} text\r\n')
    for args in (["query", "steep"], ["list"], ["get", "evil.md"], ["status"], ["get", "\x1b[2J"]):
        seen = on_terminal(shelf, *args, NO_COLOR="1")
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(seen), args


@given(st.text(alphabet=st.characters(exclude_categories=())))
@example("\ud800\udcff")
def test_no_control_character_but_tab_and_newline_comes_through(text: str) -> None:
    shown = harmless(text)
    assert not [char for char in shown if (ord(char) < 32 and char not in "\t\n") or 0x7F <= ord(char) < 0xA0]
    assert "\n" not in one_line(text)
    shown.encode()


def test_control_characters_show_as_symbols_and_line_ends_stay() -> None:
    assert harmless("a\r\nb\rc\x1b[0m\x00\x7f\x85\ud800\u2028\u202e") == "a\nb␍c␛[0m␀␡����"
    assert one_line(" a\n\n b\tc ") == "a b c"


def snippet(text: str, *marks: tuple[int, int]) -> Snippet:
    span = ByteSpan(start=10, end=10 + len(text.encode()))
    return Snippet(text=text, span=span, highlights=tuple(ByteSpan(start=a, end=b) for a, b in marks))


def test_a_snippet_is_one_line_with_its_words_marked_in_colour() -> None:
    found = snippet("müde\nand so on", (10, 15))
    assert _snippet(found, COLOR) == "\x1b[1;33mmüde\x1b[0m and so on"
    assert _snippet(found, PLAIN) == "müde and so on"


@pytest.mark.parametrize("sign", ["\x02", "\x03", "␂", "␃"])
def test_a_text_that_brings_marks_of_its_own_is_not_marked(sign: str) -> None:
    assert "\x1b" not in _snippet(snippet(f"a {sign} b", (10, 11)), COLOR)


def table(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> str:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "60")
    write_table(("ID", "NAME"), [("a", "[bold]one[/bold]\n\x1b[2J"), ("bbbb", "x" * 100)], screen)
    return stream.getvalue()


def test_a_table_is_aligned_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = table(Screen(terminal=False, color=False), monkeypatch).splitlines()
    assert lines == ["ID    NAME", "a     [bold]one[/bold] ␛[2J", f"bbbb  {'x' * 100}"]


def test_a_table_is_as_wide_as_the_terminal_and_takes_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (COLOR, PLAIN):
        text = table(screen, monkeypatch)
        assert "[bold]one[/bold] ␛[2J" in text
        assert ("\x1b[1m" in text) is screen.color
    assert max(map(len, table(PLAIN, monkeypatch).splitlines())) <= 60


def test_without_rich_a_table_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert table(COLOR, monkeypatch).startswith("ID    NAME\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Indexing:
    """A service whose backend has indexed three documents; `asked` is set when someone looked."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.provider = self
        self.index = self
        self.documents = 3

    def health_check(self) -> Any:
        self.asked.set()
        return self


class Broken(Indexing):
    def health_check(self) -> Any:
        super().health_check()
        raise OSError


def on_screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes standard error a terminal; in the test itself, as pytest sets it anew after the fixtures."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.001)
    return stream


def work(service: Any) -> None:
    ours = Session(environ={})
    ours._service = service
    with progress.progress(ours):
        assert service.asked.wait(30)
        service.asked.clear()
        assert service.asked.wait(30)  # the text of the first look has been shown


def test_long_work_shows_how_many_documents_are_indexed_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_screen(monkeypatch)
    work(Indexing())
    assert "Indexing: 3 documents so far" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_survives_a_backend_that_cannot_tell_or_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_screen(monkeypatch)
    work(Broken())
    assert "Working" in terminal.getvalue()
    assert progress._documents(Session(environ={})) == 0


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_screen(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", 60.0)
    with progress.progress(Session(environ={})):
        pass
    assert terminal.getvalue() == ""


def test_where_errors_go_to_no_terminal_there_is_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, term in ((None, "xterm"), (io.StringIO(), "xterm"), (Terminal(), "dumb")):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.progress(Session(environ={"TERM": term})):
            assert not [thread for thread in threading.enumerate() if thread.name == "knowledge-progress"]


def test_an_error_in_the_work_ends_the_progress_and_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    on_screen(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress.progress(Session(environ={})):
        raise ZeroDivisionError
    assert not [thread for thread in threading.enumerate() if thread.name == "knowledge-progress"]


@given(st.text(alphabet=st.characters(exclude_categories=())))
@example("\ud800\udcff")
def test_arguments_become_text_without_lone_surrogates(text: str) -> None:
    session.utf8(text).encode()


@given(st.text())
def test_arguments_that_are_text_stay_as_they_are(text: str) -> None:
    assert session.utf8(text) == text
    assert session.utf8(text.encode().decode("ascii", "surrogateescape")) == text


def test_streams_that_cannot_change_their_encoding_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    session.use_utf8()
    narrow.write("ä\ud800")
    narrow.flush()
    assert narrow.buffer.getvalue() == b"\xc3\xa4\\ud800"  # type: ignore[attr-defined]


def test_bash_completion_needs_no_terminal() -> None:
    result = CliRunner().invoke(knowledge, ["completion", "bash"], obj=Session(environ={}))
    assert "_KNOWLEDGE_COMPLETE=bash_complete" in result.stdout
