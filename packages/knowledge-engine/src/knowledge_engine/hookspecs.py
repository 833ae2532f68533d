"""What a plugin implements. Only standard-library types cross this seam.

A distribution names its light `plugin` module under an entry-point group; one module may serve several groups:

    [project.entry-points."knowledge_engine.providers"]
    notes = "my_notes.plugin"

The module holds help texts and hook implementations, marked with `hookimpl`; the heavy import happens inside the
hook. A hook takes those of its arguments that it wants, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider

PROJECT = "knowledge_engine"

#: Entry-point groups. A group says where to look; each loaded module is checked against all the hooks below.
PROVIDERS = "knowledge_engine.providers"
COMMANDS = "knowledge_engine.commands"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def knowledge_backend() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Says what the backend is, without opening it. Group `knowledge_engine.providers`.

    All keys may be left out:

    - `name`, `description`, `version`: text for people; the version is by default the distribution's.
    - `url_schemes`: names before the colon of URLs that the backend opens; by default it opens none.
    - `settings`: what it reads of the environment, a sequence of mappings with `name` (the variable,
      `KNOWLEDGE_<BACKEND>_<NAME>`), `description`, `required`, `secret`, `default` (text), and `in_url` (True where a
      URL says it instead).
    - `requires_setup`: True when it cannot work before someone sets something up; by default, when a setting is
      required and has no default.
    """


@hookspec(firstresult=True)
def knowledge_open(  # type: ignore[empty-body]
    url: str | None, settings: Mapping[str, str], environ: Mapping[str, str]
) -> IKnowledgeProvider:
    """A new provider; each call gives one of its own. Group `knowledge_engine.providers`.

    `url` is the whole URL, where the backend was named by one. `settings` are those that the caller gave, under their
    variables' names; `environ` is the environment with `settings` laid over it, so that a plugin which reads its
    settings by `from_env(environ)` needs nothing else.

    Raises:
        ConfigurationError: When a setting or the URL is wrong.
    """


@hookspec(firstresult=True)
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:  # type: ignore[empty-body]
    """Commands for `knowledge`, by name. Group `knowledge_engine.commands`.

    Each is a mapping of `command` ("module:attribute" of a click command, imported when it runs) and `help` (one line).
    """
