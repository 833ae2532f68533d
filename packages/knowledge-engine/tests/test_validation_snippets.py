from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import DocumentIssue
from knowledge_engine.validation import validate_library
from knowledge_engine.validation.parsers import MAX_EXPANDED, check_json, check_toml, check_yaml

HEAD = "---\nid: a\ntitle: T\nkind: guide\nsummary: S.\n---\n## Use\n\n"
#: The first line of a body below `HEAD`.
FIRST = 9


def check(body: str, **options: Any) -> tuple[DocumentIssue, ...]:
    result = validate_library(MemoryFs({"a.md": (HEAD + body).encode()}), **options)
    assert result.warnings == ()
    return result.errors


def fenced(text: str, language: str = "yaml") -> str:
    return f"```{language}\n{text}\n```\n"


def texts(body: str, language: str = "x") -> list[str]:
    """What a validator of that language gets."""
    got: list[str] = []
    assert check(body, snippet_validators={language: got.append}) == ()
    return got


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("```x\na\n\n b\n```", "a\n\n b\n"),
        ("~~~~ X linenos\n~~~\n~~~~~ \n", "~~~\n"),
        ("  ```x\n  a\n    b\n c\n  ```", "a\n  b\nc\n"),
        ("- item\n\n  ```x\n  a\n    b\n\n  c\n  ```", "a\n  b\n\nc\n"),
        ("10. ```x\n    a\n    ```", "a\n"),
        ("> ```x\n> a\n>   b\n>\n>c\n> ```", "a\n  b\n\nc\n"),
        ("> - ```x\n>   a\n>    b\n>   ```", "a\n b\n"),
        (">```x\n>a\n>```", "a\n"),
        ("- ```x\n\ta\n  ```", "  a\n"),
        ("```x\r\na\r\nb\r\n```\r\n", "a\nb\n"),
        ("```x\n```", ""),
        ("````x\n```\n````", "```\n"),
    ],
)
def test_a_validator_gets_the_text_as_a_reader_would_copy_it(body: str, text: str) -> None:
    assert texts(body) == [text]


@pytest.mark.parametrize("body", ["```\na\n```", "```y\na\n```", "    ```x\n    a\n    ```", "<pre>\n```x\n</pre>"])
def test_other_code_does_not_reach_it(body: str) -> None:
    assert texts(body) == []


@pytest.mark.parametrize("body", ["```x", "```x\na", "> ```x\n> a", "- ```x\n  a\n\nout"])
def test_code_without_a_closing_fence_is_not_asked_about(body: str) -> None:
    got: list[str] = []
    assert [each.code for each in check(body, snippet_validators={"x": got.append})] == ["fence-unclosed"]
    assert got == []


def test_marks_of_quotes_go_wherever_they_stand() -> None:
    assert texts("> 1. > ```x\n>    > a\n>    > ```") == ["a\n"]


def test_a_closure_of_the_caller_is_asked_in_this_process_and_its_texts_become_errors() -> None:
    seen: list[str] = []

    def mine(text: str) -> list[str]:
        seen.append(text)
        return ["no driver", "port\nmissing"] if "bad" in text else []

    body = fenced("good") + "\ntext\n\n" + fenced("bad", "YML")
    issues = check(body, snippet_validators={"yaml": mine})
    assert seen == ["good\n", "bad\n"]
    assert [(each.code, each.line, each.message) for each in issues] == [
        ("snippet-invalid", FIRST + 6, "yaml: no driver"),
        ("snippet-invalid", FIRST + 6, "yaml: port\nmissing"),
    ]
    assert all(len(str(each).splitlines()) == 1 for each in issues)


@pytest.mark.parametrize("answer", [None, "", [], (), iter(())])
def test_no_answer_means_that_all_is_well(answer: Any) -> None:
    assert check(fenced("x: ["), snippet_validators={"yaml": lambda _: answer}) == ()


@pytest.mark.parametrize("answer", ["one", ["one"], ("one",), (each for each in ["one"]), {"one"}])
def test_an_answer_may_be_a_text_or_any_iterable_of_texts(answer: Any) -> None:
    assert [each.message for each in check(fenced("x"), snippet_validators={"yaml": lambda _: answer})] == ["yaml: one"]


@pytest.mark.parametrize("answer", [5, True, False, {"a": 1}, {}, b"x", [1], [None], [["x"]], object()])
def test_rubbish_as_an_answer_is_an_error_of_the_document(answer: Any) -> None:
    [issue] = check(fenced("x"), snippet_validators={"yaml": lambda _: answer})
    assert (issue.code, issue.line) == ("snippet-validator-failed", FIRST)
    assert "list of texts" in issue.mend


def test_answers_are_cut_and_made_printable() -> None:
    def endless(_: str) -> Iterator[str]:
        while True:
            yield "x" * 10_000

    issues = check(fenced("x"), snippet_validators={"yaml": endless})
    assert (len(issues), max(len(each.message) for each in issues)) == (20, 506)
    [odd] = check(fenced("x"), snippet_validators={"yaml": lambda _: ["\ud800"]})
    assert odd.message == "yaml: ?"
    [blank] = check(fenced("x"), snippet_validators={"yaml": lambda _: [" "]})
    assert blank.message == "yaml: it is not valid"


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no key\n'port'"), "ValueError: no key\n'port' (test_validation_snippets.py:"),
        (SystemExit(3), "SystemExit: 3 ("),
        (GeneratorExit(), "GeneratorExit ("),
        (RecursionError(), "RecursionError ("),
        (UnprintableError(), "UnprintableError ("),
        (StopIteration("x" * 9999), "StopIteration: xxx"),
    ],
)
def test_a_validator_that_raises_is_an_error_of_the_document_and_no_crash(error: BaseException, told: str) -> None:
    def mine(text: str) -> list[str]:
        if "bad" in text:
            raise error
        return [text.strip()]

    issues = check(fenced("one") + fenced("bad") + fenced("two"), snippet_validators={"yaml": mine})
    assert [(each.code, each.line) for each in issues] == [
        ("snippet-invalid", FIRST),
        ("snippet-validator-failed", FIRST + 3),
        ("snippet-invalid", FIRST + 6),
    ]
    assert told in issues[1].message
    assert len(issues[1].message) < 700
    assert os.sep + "test_validation" not in issues[1].message


def interrupt(_: str) -> NoReturn:
    raise KeyboardInterrupt


def test_the_users_interrupt_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        check(fenced("x"), snippet_validators={"yaml": interrupt})


def test_none_switches_a_language_off() -> None:
    assert check(fenced("["), snippet_validators={"YML": None}) == ()
    assert [each.code for each in check(fenced("["))] == ["snippet-invalid"]


@pytest.mark.parametrize("validators", [{"yaml": "module:function"}, {"yaml": 5}])
def test_a_validator_that_cannot_be_called_is_refused(validators: Any) -> None:
    with pytest.raises(ConfigurationError, match="'yaml' is no function"):
        validate_library(MemoryFs(), snippet_validators=validators)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="snippet_timeout_s"):
        validate_library(MemoryFs(), snippet_timeout_s=seconds)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets go of threads that hang."""
    event = threading.Event()
    yield event
    event.set()


def hang_on_bad(release: threading.Event, stubborn: int = 0) -> Any:
    def mine(text: str) -> list[str]:
        if "bad" not in text:
            return [text.strip()]
        for _ in range(stubborn):
            try:
                release.wait()
            except BaseException:
                continue
        release.wait()
        return []

    return mine


def in_thread(call: Any) -> Any:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(call()))
    thread.start()
    thread.join()
    return got[0]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_validator_that_hangs_is_an_error_and_goes_on_with_other_snippets(
    release: threading.Event, elsewhere: bool
) -> None:
    def run() -> tuple[DocumentIssue, ...]:
        body = fenced("bad") + fenced("one") + fenced("bad")
        validators = {"yaml": hang_on_bad(release)}
        return check(body, snippet_validators=validators, snippet_timeout_s=0.05)

    issues = in_thread(run) if elsewhere else run()
    assert [(each.code, each.line) for each in issues] == [
        ("snippet-validator-timeout", FIRST),
        ("snippet-invalid", FIRST + 3),
        ("snippet-validator-timeout", FIRST + 6),
    ]
    assert "0.05 s" in issues[0].message


def test_after_three_hangs_it_is_not_asked_again_and_that_is_said(release: threading.Event) -> None:
    asked: list[str] = []
    hang = hang_on_bad(release)

    def mine(text: str) -> Any:
        asked.append(text)
        return hang(text)

    body = fenced("bad") * 5 + fenced("{", "json")
    issues = check(body, snippet_validators={"yaml": mine}, snippet_timeout_s=0.05)
    assert [each.code for each in issues] == ["snippet-validator-timeout"] * 3 + ["snippet-invalid"]
    assert len(asked) == 3
    assert "not asked again" in issues[2].message
    assert "not asked again" not in issues[1].message


def test_a_validator_that_catches_everything_is_told_until_it_listens(release: threading.Event) -> None:
    [issue] = check(
        fenced("bad"), snippet_validators={"yaml": hang_on_bad(release, stubborn=3)}, snippet_timeout_s=0.05
    )
    assert issue.code == "snippet-validator-timeout"


def test_errors_and_answers_come_out_of_a_thread_as_of_the_main_one() -> None:
    def run() -> tuple[DocumentIssue, ...]:
        return check(fenced("bad") + fenced("{", "json"), snippet_validators={"yaml": lambda _: 1 / 0})

    assert [each.code for each in in_thread(run)] == ["snippet-validator-failed", "snippet-invalid"]


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """A handler and a timer as another tool may have set them; when they rang."""
    rang: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    yield rang
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_the_handler_and_the_timer_of_others_are_put_back(alarm: list[int]) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 1000, 7)
    assert check(fenced("a: 1")) == ()
    assert signal.getsignal(signal.SIGALRM) is handler
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    assert 900 < left <= 1000
    assert interval == 7


def test_a_timer_that_ran_out_meanwhile_rings_after_all(alarm: list[int], release: threading.Event) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    [issue] = check(fenced("bad"), snippet_validators={"yaml": hang_on_bad(release)}, snippet_timeout_s=0.1)
    assert issue.code == "snippet-validator-timeout"
    while not alarm:
        signal.pause()
    assert alarm == [1]


def test_without_a_timer_before_none_is_left_behind() -> None:
    assert check(fenced("a: 1")) == ()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_handler_that_python_did_not_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    threads: list[threading.Thread] = []
    validators = {"yaml": lambda _: threads.append(threading.current_thread())}
    assert check(fenced("x"), snippet_validators=validators) == ()
    assert threads[0] is not threading.main_thread()


def test_an_alarm_that_comes_when_the_call_is_over_ends_nothing() -> None:
    got: list[Any] = []

    def mine(_: str) -> None:
        got.append(signal.getsignal(signal.SIGALRM))

    assert check(fenced("x"), snippet_validators={"yaml": mine}) == ()
    got[0](signal.SIGALRM, sys._getframe())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1\nb: [x, {y: z}]\n",
        "a: 1\n---\na: 2\n...\n",
        "password: !secret mqtt\nlist: !include [a.yaml]\n? [a, b]\n: c\n",
        "base: &base {port: 502}\none:\n  <<: *base\n  <<: *base\n  x: &x 1\n  y: *x\n",
        "- a: 1\n- a: 1\n",
        "a: a\nb: a\n",
    ],
)
def test_yaml_that_applications_may_read_is_fine(text: str) -> None:
    assert check_yaml(text) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [\n", 3, "This is not YAML: "),
        ("a: \x01", 0, "This is not YAML: "),
        ("\ta: 1", 1, "This is not YAML: "),
        ("a: b: c", 1, "This is not YAML: "),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "The key 'c' occurs twice"),
        ("{a: 1, 'a': 2}", 1, "The key 'a' occurs twice"),
        ("a: 1\nb: *no\n", 2, "The alias *no names nothing above it"),
        ("a: &a 1\n---\nb: *a\n", 3, "The alias *a names nothing above it"),
        ("a: &a\n  - *a\n", 2, "The alias *a stands inside of what it names"),
        ("[" * 101 + "]" * 101, 1, "Values nest deeper than 100 levels"),
    ],
)
def test_yaml_that_is_none_or_misleads_is_told_with_its_line(text: str, line: int, message: str) -> None:
    first = check_yaml(text)[0]
    assert first.message.startswith(message)
    assert first.line == line


def test_nothing_that_a_tag_names_is_run(tmp_path: Any) -> None:
    made = tmp_path / "made"
    assert check_yaml(f"a: !!python/object/apply:os.mkdir ['{made}']") == []
    assert not made.exists()


def test_aliases_that_grow_beyond_measure_are_refused_and_long_lists_are_not() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 30)
    )
    [error] = check_yaml(bomb)
    assert error.message == f"Its aliases stand for more than {MAX_EXPANDED:,} values"
    assert check_yaml("- a\n" * (MAX_EXPANDED + 1)) == []


def test_of_very_many_errors_some_are_told() -> None:
    assert len(check_yaml("a: 1\n" * 1000)) == 20


@pytest.mark.parametrize("text", ["{}", '[1, -2.5e3, "x", null, true]', '{"a": {"b": 1}, "b": [{"a": 1}]}', " 1\n"])
def test_strict_json_is_fine(text: str) -> None:
    assert check_json(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{\n'a': 1}", 2),
        ('{"a": 1,\n}', 1 if sys.version_info >= (3, 13) else 2),
        ("// no\n{}", 1),
        ('{"a": NaN}', 0),
        ("[Infinity]", 0),
        ("[-Infinity]", 0),
        ('{"a": 1, "a": 1}', 0),
        ("1" * 5000, 0),
        ("[" * 100_000, 0),
    ],
)
def test_json_that_is_not_strict_is_told(text: str, line: int) -> None:
    [error] = check_json(text)
    assert error.line == line


def test_toml_is_parsed_and_errors_have_their_line() -> None:
    assert check_toml("") == check_toml("a = 1\n[b]\nc = 2020-01-01\n") == []
    assert check_toml("a = 1\nb\n")[0].line == 2
    assert check_toml("a = 1\na = 2\n")[0].message.startswith("This is not TOML: Cannot overwrite a value")
    assert check_toml("a = " + "1" * 5000)[0].message.startswith("This is not TOML: ")
    assert check_toml("a = " + "[" * 100_000)[0].message == "Values nest deeper than 100 levels"


def test_the_defaults_are_used_with_the_line_inside_of_the_snippet() -> None:
    body = fenced("a: 1\nb: [", "Yaml") + fenced("{\n\n]", "json") + fenced("x", "toml") + fenced("{", "jsonc")
    assert [(each.code, each.line) for each in check(body)] == [
        ("snippet-invalid", FIRST + 2),
        ("snippet-invalid", FIRST + 7),
        ("snippet-invalid", FIRST + 10),
    ]


@given(st.text(max_size=200))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    for judge in (check_yaml, check_json, check_toml):
        for error in judge(text.encode("utf-8", "replace").decode()):
            assert error.message
            assert error.line >= 0


@pytest.mark.parametrize(
    "info", ["{.yaml}", "{yaml}", "{ .yaml #name .wide }", "yaml,ignore", "yaml{1,2}", "text/x-yaml", "text/yaml"]
)
def test_a_language_is_seen_among_attributes(info: str) -> None:
    assert [each.code for each in check(fenced("a: [", info))] == ["snippet-invalid"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"snippet_timeout_s": "5"},
        {"snippet_timeout_s": None},
        {"snippet_timeout_s": float("nan")},
        {"snippet_timeout_s": True},
        {"snippet_validators": [1]},
        {"snippet_validators": "x"},
        {"snippet_validators": {1: str}},
        {"required_sections": None},
        {"required_sections": 5},
        {"required_sections": [5]},
    ],
)
def test_arguments_that_cannot_be_used_are_errors_with_a_mend(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check("Text.\n", **wrong)
    assert caught.value.mend


def test_a_folder_whose_name_cannot_be_one_is_an_error_with_a_mend() -> None:
    with pytest.raises(ConfigurationError, match="cannot be that of one"):
        validate_library("\ud800")


def test_what_a_validator_prints_does_not_reach_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(fenced("a", "x"), snippet_validators={"x": lambda text: print("loud", text)}) == ()  # noqa: T201
    said = capsys.readouterr()
    assert (said.out, "loud a" in said.err) == ("", True)


def test_a_coroutine_function_is_refused_in_words() -> None:
    async def later(text: str) -> list[str]:
        return []

    (found,) = check(fenced("a", "x"), snippet_validators={"x": later})
    assert found.code == "snippet-validator-failed"
    assert "coroutine function" in found.message


def test_a_validator_that_switches_the_timer_off_is_too_slow_all_the_same() -> None:
    def off(text: str) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        threading.Event().wait(0.3)

    (found,) = check(fenced("a", "x"), snippet_validators={"x": off}, snippet_timeout_s=0.05)
    assert found.code == "snippet-validator-timeout"


def test_a_validator_that_ignores_the_users_interrupts_does_so_alone() -> None:
    def deaf(text: str) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    before = signal.getsignal(signal.SIGINT)
    assert check(fenced("a", "x"), snippet_validators={"x": deaf}) == ()
    assert signal.getsignal(signal.SIGINT) is before
