"""Backends by name or URL: found by metadata, loaded one at a time, opened when first used."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import StringConstraints, ValidationError

from knowledge_engine.errors import ConfigurationError, UnknownBackendError
from knowledge_engine.hookspecs import PROVIDERS
from knowledge_engine.models import Value
from knowledge_engine.plugins import Plugin, PluginName, find_plugins, load_plugin
from knowledge_engine.ports import IKnowledgeProvider

SettingValue = str | int | float | os.PathLike[str] | None

#: URL schemes that go to the backend of another name. A plugin of the scheme's own name comes first.
SCHEMES: Mapping[str, str] = {"https": "http", "ws": "wamp", "wss": "wamp"}


class SettingInfo(Value):
    """A variable that a backend reads from the environment."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    #: A URL says it instead.
    in_url: bool = False


class BackendInfo(Value):
    """What a plugin's hook `knowledge_backend` says; see there."""

    slug: str = ""
    name: str = ""
    description: str = ""
    version: str = ""
    url_schemes: tuple[str, ...] = ()
    settings: tuple[SettingInfo, ...] = ()
    requires_setup: bool | None = None


class KnowledgeBackendHandle:
    """One backend with one set of settings. All that call `provider()` on a handle share what it opens."""

    def __init__(
        self,
        plugin: Plugin,
        info: BackendInfo,
        *,
        url: str | None,
        settings: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> None:
        self._plugin = plugin
        self._info = info
        self._url = url
        self._settings = dict(settings)
        self._environ = {**environ, **settings}
        self._lock = threading.Lock()
        self._provider: IKnowledgeProvider | None = None

    def __repr__(self) -> str:
        return f"<KnowledgeBackendHandle {self.slug!r} {self.version}>"

    @property
    def slug(self) -> str:
        """The name by which it is found."""
        return self._info.slug or self._plugin.found.name

    @property
    def name(self) -> str:
        """The name for people."""
        return self._info.name or self.slug

    @property
    def description(self) -> str:
        """One or two sentences."""
        return self._info.description

    @property
    def version(self) -> str:
        """The adapter's version; may be empty."""
        return self._info.version or self._plugin.found.version

    @property
    def requires_setup(self) -> bool:
        """Whether someone must set something up before it can work at all."""
        stated = self._info.requires_setup
        return any(map(_needed, self._info.settings)) if stated is None else stated

    def info(self) -> dict[str, Any]:
        """All of it as a JSON object. Says which settings are set, never to what."""
        return {
            "slug": self.slug,
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "distribution": self._plugin.found.distribution,
            "requires_setup": self.requires_setup,
            "url_schemes": list(self._info.url_schemes),
            "settings": [self._setting(setting) for setting in self._info.settings],
        }

    def check(self) -> tuple[str, ...]:
        """What is missing before it can be opened; empty when nothing is. Opens nothing."""
        return tuple(
            f"{setting.name} is not set" + (f" ({setting.description})" if setting.description else "")
            for setting in self._info.settings
            if _needed(setting) and not self._is_set(setting)
        )

    def provider(self) -> IKnowledgeProvider:
        """The provider, opened by the first call; a call that failed may be tried again.

        Raises:
            ConfigurationError: When settings are missing or wrong.
            BrokenPluginError: When the plugin fails.
        """
        with self._lock:
            if self._provider is None:
                self._provider = self._open()
            return self._provider

    def _open(self) -> IKnowledgeProvider:
        if problems := self.check():
            raise ConfigurationError(f"The backend {self.slug!r} is not set up: {'; '.join(problems)}", mend="Set it.")
        provider = self._plugin.call(
            "knowledge_open", url=self._url, settings=dict(self._settings), environ=dict(self._environ)
        )
        if not isinstance(provider, IKnowledgeProvider):
            raise self._plugin.broken(f"opened a {type(provider).__name__}, which is no IKnowledgeProvider")
        return provider

    def _is_set(self, setting: SettingInfo) -> bool:
        return bool(self._environ.get(setting.name)) or (setting.in_url and self._url is not None)

    def _setting(self, setting: SettingInfo) -> dict[str, Any]:
        shown = setting.model_dump()
        if setting.secret:
            shown["default"] = None
        return {**shown, "is_set": self._is_set(setting)}


def resolve_knowledge_backend(
    slug_or_url: str, /, *, environ: Mapping[str, str] | None = None, **settings: SettingValue
) -> KnowledgeBackendHandle:
    """The backend of a name (`files`) or URL (`files:./docs`, `https://host/`). Loads its light plugin module only.

    A setting goes by its variable's last part in lower case (`root` for `KNOWLEDGE_FILES_ROOT`) or by the whole
    variable, and comes before `environ` (by default the process's); None leaves it to `environ`.

    Raises:
        UnknownBackendError: When no installed backend goes by that name.
        BrokenPluginError: When the one that does is broken, or several do.
        ConfigurationError: For a setting or a URL that the backend does not take.
    """
    name, url = _name_and_url(slug_or_url)
    plugin = load_plugin(_claims(name, is_scheme=url is not None))
    info = _backend_info(plugin)
    if url is not None and name not in info.url_schemes:
        raise ConfigurationError(f"The backend {plugin.found.name!r} opens no {name}: URL", mend="Give its name alone.")
    return KnowledgeBackendHandle(
        plugin,
        info,
        url=url,
        settings=_variables(info.slug or plugin.found.name, info.settings, settings),
        environ=os.environ if environ is None else environ,
    )


def _name_and_url(slug_or_url: str) -> tuple[str, str | None]:
    if not isinstance(slug_or_url, str):
        raise ConfigurationError(
            f"A backend is named by text, not by {type(slug_or_url).__name__}", mend="Give a name or a URL."
        )
    scheme, colon, _ = slug_or_url.partition(":")
    return (scheme.lower(), slug_or_url) if colon else (slug_or_url, None)


def _claims(name: str, *, is_scheme: bool) -> tuple[PluginName, ...]:
    plugins = find_plugins(PROVIDERS)
    claims = plugins.get(name) or (plugins.get(SCHEMES.get(name, "")) if is_scheme else None)
    if claims:
        return claims
    known = ", ".join(plugins) or "none: no adapter is installed"
    near = difflib.get_close_matches(name[:60], plugins, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UnknownBackendError(
        f"There is no backend {name[:60]!r}{hint}. Known are: {known}",
        mend="Name one of them, or install an adapter; a folder is written files:DIR.",
    )


def _backend_info(plugin: Plugin) -> BackendInfo:
    plugin.require("knowledge_open")
    stated = plugin.call("knowledge_backend")
    if not isinstance(stated, Mapping):
        raise plugin.broken(f"returns a {type(stated).__name__} from 'knowledge_backend', not a mapping")
    try:
        return BackendInfo.model_validate(dict(stated))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise plugin.broken(f"says something wrong in 'knowledge_backend': {where}: {first['msg']}") from error


def _variables(slug: str, declared: tuple[SettingInfo, ...], given: Mapping[str, SettingValue]) -> dict[str, str]:
    prefix = "KNOWLEDGE_" + "".join(char if char.isalnum() else "_" for char in slug).upper() + "_"
    short = {setting.name.removeprefix(prefix).lower(): setting.name for setting in declared}
    variables = {}
    for name, value in given.items():
        variable = short.get(name, name)
        if variable not in short.values():
            known = ", ".join(short) or "none"
            raise ConfigurationError(
                f"The backend {slug!r} has no setting {name[:60]!r}. Known are: {known}", mend="Leave it out."
            )
        if value is not None:
            variables[variable] = _text(name, value)
    return variables


def _text(name: str, value: SettingValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise ConfigurationError(f"The setting {name!r} cannot be a {type(value).__name__}", mend="Give it as text.")


def _needed(setting: SettingInfo) -> bool:
    return setting.required and setting.default is None
