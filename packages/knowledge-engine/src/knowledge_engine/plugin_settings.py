"""What a plugin says of itself, checked; and its settings: those given, laid over an environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.groups import PROVIDERS, TRANSPORTS
from knowledge_engine.plugins import Plugin
from knowledge_engine.redaction import Secrets, is_secret_variable, url_secrets

SettingValue = str | int | float | os.PathLike[str] | None

#: By group: the hook that says what the plugin is, and the one that does it.
_HOOKS: Mapping[str, tuple[str, str]] = {
    PROVIDERS: ("knowledge_backend", "knowledge_open"),
    TRANSPORTS: ("knowledge_transport", "knowledge_serve"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A variable that a plugin reads from the environment."""

    name: str
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    #: True or false; on the command line an option without a value.
    flag: bool = False
    #: A URL says it instead.
    in_url: bool = False

    @property
    def needed(self) -> bool:
        """Whether someone must set it."""
        return self.required and self.default is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What a backend or a transport says of itself, see `hookspecs.knowledge_backend`."""

    slug: str = ""
    name: str = ""
    description: str = ""
    version: str = ""
    url_schemes: tuple[str, ...] = ()
    settings: tuple[SettingInfo, ...] = ()
    requires_setup: bool | None = None

    def short_names(self) -> dict[str, SettingInfo]:
        """The settings by the last part of their names: `root` for `KNOWLEDGE_FILES_ROOT`."""
        prefix = "KNOWLEDGE_" + "".join(char if char.isalnum() else "_" for char in self.slug).upper() + "_"
        return {setting.name.removeprefix(prefix).lower(): setting for setting in self.settings}


class Described:
    """What has the names of a plugin: a handle of a backend, a transport."""

    _info: PluginInfo

    @property
    def slug(self) -> str:
        """The name by which it is found."""
        return self._info.slug

    @property
    def name(self) -> str:
        """The name for people."""
        return self._info.name

    @property
    def description(self) -> str:
        """One or two sentences."""
        return self._info.description

    @property
    def version(self) -> str:
        """The plugin's version; may be empty."""
        return self._info.version


def describe(plugin: Plugin) -> PluginInfo:
    """What a loaded plugin of the groups of backends or transports says of itself; `slug` and `name` are never empty.

    Raises:
        BrokenPluginError: When it lacks a hook, or says something else than it should.
    """
    describing, working = _HOOKS[plugin.found.group]
    plugin.require(working)
    stated = plugin.call(describing)
    if not isinstance(stated, Mapping):
        raise plugin.broken(f"returns a {type(stated).__name__} from {describing!r}, not a mapping")
    try:
        info = _plugin_info(stated)
    except ValueError as error:
        raise plugin.broken(f"says something wrong in {describing!r}: {error}") from None
    slug = info.slug or plugin.found.name
    given = {each.name: getattr(info, each.name) for each in fields(info)}
    return PluginInfo(
        **{**given, "slug": slug, "name": info.name or slug, "version": info.version or plugin.found.version}
    )


class Settings:
    """The settings of one use of a plugin. Never shows what they are set to."""

    def __init__(
        self,
        info: PluginInfo,
        given: Mapping[str, SettingValue],
        environ: Mapping[str, str],
        *,
        what: str,
        url: str | None = None,
    ) -> None:
        self._info = info
        self._what = what
        self._url = url
        self.given = dict(self._variables(given))
        #: The whole environment, as it was, with the given settings laid over it.
        self.environ = {**environ, **self.given}

    def __repr__(self) -> str:
        return f"<Settings of {self._what}>"

    @cached_property
    def secrets(self) -> Secrets:
        """What must not be shown of it."""
        return Secrets(self._secret_values())

    def missing(self) -> tuple[str, ...]:
        """What must be set and is not, a line each."""
        return tuple(
            f"{setting.name} is not set" + (f" ({setting.description})" if setting.description else "")
            for setting in self._info.settings
            if setting.needed and not self._is_set(setting)
        )

    def require(self) -> None:
        """Checks that nothing is missing.

        Raises:
            ConfigurationError: Naming what is.
        """
        if problems := self.missing():
            raise ConfigurationError(f"{self._what} is not set up: {'; '.join(problems)}", mend="Set it.")

    def shown(self) -> list[dict[str, Any]]:
        """Each setting as a JSON object: what it is, and whether it is set."""
        return [
            {
                **asdict(setting),
                "default": None if setting.secret else setting.default,
                "is_set": self._is_set(setting),
            }
            for setting in self._info.settings
        ]

    def _is_set(self, setting: SettingInfo) -> bool:
        return bool(self.environ.get(setting.name)) or (setting.in_url and self._url is not None)

    def _variables(self, given: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
        short = self._info.short_names()
        whole = {setting.name: setting for setting in self._info.settings}
        for name, value in given.items():
            setting = short.get(name) or whole.get(name)
            if setting is None:
                known = ", ".join(short) or "none"
                raise ConfigurationError(
                    f"{self._what} has no setting {name[:60]!r}. Known are: {known}", mend="Leave it out."
                )
            if value is not None:
                yield setting.name, _text(name, value)

    def _secret_values(self) -> Iterator[str]:
        declared = {setting.name: setting for setting in self._info.settings}
        for name, value in self.environ.items():
            if is_secret_variable(name) or (name in declared and declared[name].secret):
                yield value
            elif name in declared and "://" in value:
                yield from url_secrets(value)
        yield from (setting.default or "" for setting in self._info.settings if setting.secret)
        yield from url_secrets(self._url or "")


def _text(name: str, value: SettingValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float | os.PathLike):
        raise ConfigurationError(f"The setting {name!r} cannot be a {type(value).__name__}", mend="Give it as text.")
    try:
        text = os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)
    except Exception:  # a path's own code; and Python writes out no number of more than some thousand digits
        raise ConfigurationError(f"The setting {name!r} cannot be written as text", mend="Give it as text.") from None
    if "\0" in text:
        raise ConfigurationError(f"The setting {name!r} holds a NUL character", mend="Leave it out.")
    return text


_TEXTS = {"name", "slug", "description", "version"}
_FLAGS = {"required", "secret", "in_url", "flag"}


def _plugin_info(stated: Mapping[str, Any]) -> PluginInfo:
    checked = dict(_checked(stated, {each.name for each in fields(PluginInfo)}, ""))
    for key in ("url_schemes", "settings"):
        values = checked.get(key, ())
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ValueError(f"{key}: it is a {type(values).__name__}, not a sequence")
        checked[key] = tuple(values)
    for index, scheme in enumerate(checked["url_schemes"]):
        _expect(scheme, str, f"url_schemes.{index}")
    checked["settings"] = tuple(_setting(each, f"settings.{index}") for index, each in enumerate(checked["settings"]))
    if checked.get("requires_setup") is not None:
        _expect(checked["requires_setup"], bool, "requires_setup")
    return PluginInfo(**checked)


def _setting(stated: object, where: str) -> SettingInfo:
    _expect(stated, Mapping, where)
    checked = dict(_checked(stated, {each.name for each in fields(SettingInfo)}, f"{where}."))  # type: ignore[arg-type]
    name = checked.get("name", "")
    if not (name.isascii() and name.isidentifier() and name.isupper()):
        raise ValueError(f"{where}.name: it is not the name of a variable, such as KNOWLEDGE_NOTES_ROOT")
    if checked.get("default") is not None:
        _expect(checked["default"], str, f"{where}.default")
    return SettingInfo(**checked)


def _checked(stated: Mapping[str, Any], known: set[str], where: str) -> Iterator[tuple[str, Any]]:
    for key, value in stated.items():
        if key not in known:
            raise ValueError(f"{where}{key}: there is no such key; known are {', '.join(sorted(known))}")
        if key in _TEXTS:
            _expect(value, str, f"{where}{key}")
        if key in _FLAGS:
            _expect(value, bool, f"{where}{key}")
        yield key, value


def _expect(value: object, kind: type, where: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{where}: it is a {type(value).__name__}, not a {kind.__name__}")
