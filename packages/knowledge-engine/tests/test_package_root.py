from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge_engine

PUBLIC = sorted(knowledge_engine._HOME)


def test_importing_the_root_loads_nothing_but_the_standard_library() -> None:
    code = "import sys; before = set(sys.modules); import knowledge_engine; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name for name in run.stdout.split() if name.split(".")[0] not in sys.stdlib_module_names} == {
        "knowledge_engine"
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_is_the_one_of_its_module(name: str) -> None:
    value = getattr(knowledge_engine, name)
    assert value is getattr(sys.modules[f"knowledge_engine.{knowledge_engine._HOME[name]}"], name)
    assert name in dir(knowledge_engine)


def test_type_checkers_see_exactly_the_names_that_are_there() -> None:
    tree = ast.parse(Path(knowledge_engine.__file__).read_text())
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("knowledge_engine")
        for alias in node.names
    }
    assert seen == {name: f"knowledge_engine.{home}" for name, home in knowledge_engine._HOME.items()}


def test_all_errors_and_ports_can_be_imported_from_the_root() -> None:
    from knowledge_engine import errors, ports

    for module, base in ((errors, "Error"), (ports, "P")):
        names = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        assert {name for name in names if name[0].isupper() and base in name} <= set(PUBLIC)


def test_a_star_import_gives_the_public_names() -> None:
    scope: dict[str, object] = {}
    exec("from knowledge_engine import *", scope)
    assert set(PUBLIC) <= set(scope)


def test_the_version_is_that_of_the_distribution() -> None:
    assert knowledge_engine.__version__ == importlib.metadata.version("kpkit-engine")
    assert "__version__" in dir(knowledge_engine)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'knowledge_engine' has no attribute 'Qeury'"):
        _ = knowledge_engine.Qeury
