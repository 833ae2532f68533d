"""What a plugin implements. Only standard-library types, and the engine's own ports, cross these seams.

A distribution names its light `plugin` module under an entry-point group; one module may serve several groups:

    [project.entry-points."knowledge_engine.providers"]
    notes = "my_notes.plugin"

The module holds help texts and hook implementations, marked with `hookimpl`; the heavy import happens inside the
hook. A hook takes those of its arguments that it wants, by name. An `environ` is all the environment that a plugin may
read: several hosts with different ones may live in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider

PROJECT = "knowledge_engine"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def knowledge_backend() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Says what the backend is, without opening it. Group `knowledge_engine.providers`; the entry's name is the slug.

    All keys may be left out:

    - `name`, `description`, `version`: text for people; the version is by default the distribution's.
    - `url_schemes`: names before the colon of URLs that the backend opens; by default it opens none. A scheme is found
      by an entry point of its name.
    - `settings`: what it reads of the environment, a sequence of mappings with `name` (the variable,
      `KNOWLEDGE_<BACKEND>_<NAME>`), `description`, `required`, `secret`, `default` (text), `flag` (true or false), and
      `in_url` (True where a URL says it instead).
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
def knowledge_transport() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Says what the transport is. Group `knowledge_engine.transports`; the entry's name is the transport's.

    The keys are those of `knowledge_backend` without `url_schemes`. Each setting that is not secret becomes an option
    of `knowledge serve NAME`: `KNOWLEDGE_HTTP_PORT` of `http` is `--port`.
    """


@hookspec(firstresult=True)
def knowledge_prepare() -> AbstractContextManager[object]:  # type: ignore[empty-body]
    """What has to hold before the first backend is opened, and until the last one is disposed of.

    Group `knowledge_engine.transports`; a transport that needs nothing of the kind has no such hook. One that speaks on
    standard output keeps that for itself, say. What the context manager gives comes to `knowledge_serve`.
    """


@hookspec(firstresult=True)
def knowledge_serve(
    services: Mapping[str, Any], settings: Mapping[str, str], environ: Mapping[str, str], prepared: object
) -> None:
    """Serves the backends, by name, until it is told to stop (SIGINT, SIGTERM), then returns.

    Group `knowledge_engine.transports`. `services` are `KnowledgeService`s: they block, take calls from
    several threads, and are disposed of by whoever opened them. `settings` and `environ` are as in `knowledge_open`;
    `prepared` is from `knowledge_prepare`, or None where the host did not prepare anything.

    Raises:
        ConfigurationError: When a setting is wrong.
        UnavailableError: When it cannot serve there: the port is taken, say.
    """


@hookspec(firstresult=True)
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:  # type: ignore[empty-body]
    """Commands for `knowledge`, by name. Group `knowledge_engine.commands`.

    Each is a mapping of `command` ("module:attribute" of a click command, imported when it runs) and `help` (one line).
    """


@hookspec(firstresult=True)
def knowledge_root_options() -> Mapping[str, Mapping[str, Any]]:  # type: ignore[empty-body]
    """Options that stand before the command's name, by name (`--model`). Group `knowledge_engine.commands`.

    Each is a mapping of `help`, and either `metavar` (what its value is called) or `flag`: True. Commands find what was
    given in `Session.options`, by the option's name without its dashes.
    """


@hookspec(firstresult=True)
def knowledge_model(name: str, environ: Mapping[str, str]) -> object | None:
    """A language model of that name, or None for a name that is not one of this plugin's.

    Group `knowledge_engine.models`. Of a name such as `local:small` or `local/small` the entry `local` is asked first,
    then the others in order. Making the object connects to nothing.
    """


@hookspec(firstresult=True)
def knowledge_mounts(  # type: ignore[empty-body]
    services: Mapping[str, Any], environ: Mapping[str, str]
) -> Sequence[Mapping[str, Any]]:
    """Web applications that an HTTP server takes in. Group `knowledge_engine.extensions`.

    Each is a mapping of `prefix` (`/api/things`: all below it is the application's), `scope` (`read`, `write` or
    `admin`: what a caller must be allowed before the application sees the request) and `app`: a callable without
    arguments that gives an ASGI application. The server calls it once, authenticates first, and runs the
    application's lifespan. `scope["knowledge.grant"]` says what the caller may do: `allows(scope, backend)` and
    `visible(backends)`, those of some backends that the caller may read; its `name` is whom the token stands for.
    """


@hookspec(firstresult=True)
def knowledge_agent_tools(  # type: ignore[empty-body]
    services: Mapping[str, Any], environ: Mapping[str, str]
) -> Sequence[Mapping[str, Any]]:
    """Tools for agents beside list, get and query. Group `knowledge_engine.extensions`.

    Each is a mapping of `name`, `description`, `parameters` (a JSON schema of an object), `scope` as in
    `knowledge_mounts`, and `call`: takes the arguments as one dict, blocks, may be called from several threads, and
    gives a dict of JSON.
    """


@hookspec(firstresult=True)
def knowledge_page_panels(  # type: ignore[empty-body]
    services: Mapping[str, Any], environ: Mapping[str, str]
) -> Sequence[Mapping[str, Any]]:
    """Panels of the web page. Group `knowledge_engine.extensions`.

    Each is a mapping of `name`, `title`, `module` (the path of a JavaScript module, below a prefix of
    `knowledge_mounts`, which exports `show(element, {ask})`) and `scope` as there. The module runs in a frame without
    rights; `ask(path, {method, body})` asks its own application, and gives `{status, text}`.
    """
