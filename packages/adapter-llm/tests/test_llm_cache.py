"""Kept answers: found for the same question only, whole or not at all, and never in the way of an answer."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from knowledge_llm import Endpoint, LlmModel, LlmSettings
from knowledge_llm import cache as cache_module
from knowledge_llm.cache import AnswerCache
from llm_bench import stub as stubs
from llm_bench.stub import Stub, running

MB = 2**20


class One(BaseModel):
    word: str


class Other(BaseModel):
    word: str
    more: int = 0


class Strict(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def _other(cls, word: str) -> str:
        assert Strict.allowed(word)
        return word

    @staticmethod
    def allowed(word: str) -> bool:
        return True


def model(url: str, folder: Path, name: str = "small", **settings: int) -> LlmModel:
    return LlmModel(Endpoint(f"local:{name}", url, name), LlmSettings(cache=str(folder), **settings))


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def test_the_same_question_is_asked_once_even_by_another_process(tmp_path: Path) -> None:
    stub = Stub(stubs.fenced({"word": "a"}))
    with running(stub) as url:
        assert model(url, tmp_path).ask("p", One) == One(word="a")
        again = model(url, tmp_path)
        assert again.ask("p", One) == One(word="a")
    assert len(stub.requests) == 1
    assert (again.usage.cached, again.usage.requests) == (1, 0)


def test_another_model_prompt_instruction_schema_or_limit_is_another_question(tmp_path: Path) -> None:
    stub = Stub(stubs.json_of({"word": "a"}))
    with running(stub) as url:
        for _ in range(2):
            model(url, tmp_path).ask("p", One)
            model(url, tmp_path, "large").ask("p", One)
            model(url, tmp_path).ask("q", One)
            model(url, tmp_path).ask("p", One, instructions="i")
            model(url, tmp_path).ask("p", Other)
            model(url, tmp_path, max_tokens=9).ask("p", One)
    assert len(stub.requests) == 6


def test_what_did_not_fit_is_not_kept(tmp_path: Path) -> None:
    stub = Stub(stubs.json_of([]), stubs.json_of({"word": "a"}))
    with running(stub) as url:
        model(url, tmp_path).ask("p", One)
    assert [json.loads(json.loads(each.read_bytes())["answer"]) for each in files(tmp_path)] == [{"word": "a"}]


def test_a_kept_answer_that_no_longer_fits_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(stubs.json_of({"word": "a"}), stubs.json_of({"word": "b"}))
    with running(stub) as url:
        model(url, tmp_path).ask("p", Strict)
        monkeypatch.setattr(Strict, "allowed", lambda word: word == "b")
        assert model(url, tmp_path).ask("p", Strict).word == "b"


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"question": 1, "sum": 1, "answer": 1}']
)
def test_a_damaged_file_is_none(tmp_path: Path, damage: bytes) -> None:
    cache = AnswerCache(str(tmp_path), max_bytes=MB)
    cache.keep("q", "a")
    files(tmp_path)[0].write_bytes(damage)
    assert cache.find("q") is None
    cache.keep("q", "b")
    assert cache.find("q") == "b"


def test_a_changed_answer_is_none(tmp_path: Path) -> None:
    cache = AnswerCache(str(tmp_path), max_bytes=MB)
    cache.keep("q", "yes")
    file = files(tmp_path)[0]
    file.write_bytes(file.read_bytes().replace(b'"yes"', b'"no"'))
    assert cache.find("q") is None


@given(st.text(), st.text())
def test_any_text_is_found_as_it_was_kept(tmp_path_factory: pytest.TempPathFactory, question: str, answer: str) -> None:
    cache = AnswerCache(str(tmp_path_factory.getbasetemp() / "cache"), max_bytes=MB)
    cache.keep(question, answer)
    assert cache.find(question) == answer


def test_files_are_their_owners_only(tmp_path: Path) -> None:
    AnswerCache(str(tmp_path / "new"), max_bytes=MB).keep("q", "a")
    assert stat.S_IMODE(files(tmp_path)[0].stat().st_mode) == 0o600


def test_the_oldest_go_when_the_room_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_PRUNE_EVERY", 2)
    cache = AnswerCache(str(tmp_path), max_bytes=10_000)
    (tmp_path / "mine.txt").write_bytes(b"x" * 50_000)
    for number in range(21):
        cache.keep(str(number), "a" * 1_000)
        for file in files(tmp_path):
            if number == 5 and file.suffix == ".json":
                os.utime(file, (1, 1))
    assert sum(each.stat().st_size for each in files(tmp_path) if each.suffix == ".json") <= 12_000
    assert cache.find("0") is None
    assert cache.find("20") is not None
    assert (tmp_path / "mine.txt").exists()


def test_an_answer_larger_than_the_room_is_not_kept(tmp_path: Path) -> None:
    cache = AnswerCache(str(tmp_path), max_bytes=100)
    cache.keep("q", "a" * 1_000)
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with running(Stub(stubs.json_of({"word": "a"}))) as url:
        assert model(url, blocked).ask("p", One) == One(word="a")
    assert [each.levelname for each in caplog.records if each.name == "knowledge_llm"] == ["WARNING"]
    assert str(tmp_path) not in caplog.text


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Path, target: Path) -> Path:
        raise OSError(28, "no")

    monkeypatch.setattr(Path, "replace", broken)
    AnswerCache(str(tmp_path), max_bytes=MB).keep("q", "a")
    assert files(tmp_path) == []


def test_threads_that_keep_at_once_leave_whole_answers(tmp_path: Path) -> None:
    cache = AnswerCache(str(tmp_path), max_bytes=MB)

    def work(number: int) -> bool:
        cache.keep("q", str(number) * 1_000)
        found = cache.find("q")
        return found is not None and len(set(found)) == 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(9)))
    assert len(files(tmp_path)) == 1
