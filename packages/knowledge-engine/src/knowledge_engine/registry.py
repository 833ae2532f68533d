"""Backends by name or URL: found by metadata, loaded one at a time, opened when first used."""

from __future__ import annotations

import difflib
import os
import re
import threading
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from knowledge_engine.errors import ConfigurationError, UnknownBackendError
from knowledge_engine.groups import PROVIDERS, install_hint
from knowledge_engine.plugin_settings import Described, PluginInfo, Settings, SettingValue, describe
from knowledge_engine.plugins import Plugin, PluginName, find_plugins, load_plugin
from knowledge_engine.redaction import redact_url

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider

#: URL schemes that go to the backend of another name. A plugin of the scheme's own name comes first.
SCHEMES: Mapping[str, str] = {"https": "http", **dict.fromkeys(("wamps", "ws", "wss", "rs", "rss"), "wamp")}

MAX_URL_CHARS = 20_000

# What else was given may be a token in the wrong place: it is not repeated.
_SHOWN_NAME = re.compile(r"[\w.+#-]{1,40}")


class KnowledgeBackendHandle(Described):
    """One backend with one set of settings, taken when the handle was made.

    The handle is what is shared: all that call `provider()` on it get the same provider. Two handles share nothing,
    even when they were made from the same words. It shows no setting's value, and is neither copied nor pickled.
    """

    def __init__(self, plugin: Plugin, info: PluginInfo, settings: Settings, url: str | None) -> None:
        self._plugin = plugin
        self._info = info
        self._settings = settings
        self._url = url
        self._lock = threading.Lock()
        self._provider: IKnowledgeProvider | None = None

    def __repr__(self) -> str:
        return f"<KnowledgeBackendHandle {' '.join(filter(None, (repr(self.slug), self.version, self.url)))}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a handle holds settings and a provider, so it is neither copied nor pickled")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL that it was named by, without what may be secret in it; empty when it was named by a slug."""
        return self._settings.secrets.hide(redact_url(self._url)) if self._url is not None else ""

    @property
    def requires_setup(self) -> bool:
        """Whether someone must set something up before it can work at all."""
        stated = self._info.requires_setup
        return any(setting.needed for setting in self._info.settings) if stated is None else stated

    def info(self) -> dict[str, Any]:
        """All of it as a JSON object. Says which settings are set, never to what."""
        return {
            "slug": self.slug,
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "distribution": self._plugin.found.distribution,
            "requires_setup": self.requires_setup,
            "url": self.url,
            "url_schemes": list(self._info.url_schemes),
            "settings": self._settings.shown(),
        }

    def check(self) -> tuple[str, ...]:
        """What is missing before it can be opened; empty when nothing is. Opens nothing."""
        return self._settings.missing()

    def provider(self) -> IKnowledgeProvider:
        """The provider, opened by the first call; later callers, of any thread, get the same one.

        It belongs to the handle: end it by `close()`, as others may be using it. A call that failed may be tried again.

        Raises:
            ConfigurationError: When settings are missing or wrong.
            BrokenPluginError: When the plugin fails.
        """
        with self._lock:
            if self._provider is None:
                self._provider = self._open()
            return self._provider

    def close(self) -> None:
        """Disposes of the provider, if one was opened. May be called twice; the next `provider()` opens a new one.

        Raises:
            BrokenPluginError: When the provider fails in that. It is forgotten all the same.
        """
        with self._lock:
            provider, self._provider = self._provider, None
            if provider is not None:
                self._plugin.guard(provider.dispose, "in 'dispose'", self._settings.secrets)

    def _open(self) -> IKnowledgeProvider:
        from knowledge_engine.ports import IKnowledgeProvider

        self._settings.require()
        provider = self._plugin.call(
            "knowledge_open",
            secrets=self._settings.secrets,
            url=self._url,
            settings=dict(self._settings.given),
            environ=dict(self._settings.environ),
        )
        if not isinstance(provider, IKnowledgeProvider):
            raise self._plugin.broken(f"opened a {type(provider).__name__}, which is no IKnowledgeProvider")
        return provider


class KnowledgeResolver(Protocol):
    """Finds a backend, or says by None that there is none of that name."""

    def __call__(self, slug_or_url: str, /, **settings: SettingValue) -> KnowledgeBackendHandle | None:
        """As `resolve_knowledge_backend`, without `UnknownBackendError`."""
        ...


def resolve_knowledge_backend(
    slug_or_url: str, /, *, environ: Mapping[str, str] | None = None, **settings: SettingValue
) -> KnowledgeBackendHandle:
    """The backend of a name (`files`) or URL (`files:./docs`, `https://host/`). Loads its light plugin module only.

    A setting goes by its variable's last part in lower case (`root` for `KNOWLEDGE_FILES_ROOT`) or by the whole
    variable, and comes before `environ` (by default the process's, as it is now); None leaves it to `environ`.

    Raises:
        UnknownBackendError: When no installed backend goes by that name.
        BrokenPluginError: When the one that does is broken, or several do.
        ConfigurationError: For a setting or a URL that the backend does not take.
    """
    name, url = _name_and_url(slug_or_url)
    plugin = load_plugin(_claims(name, is_scheme=url is not None))
    info = describe(plugin)
    if url is not None and name not in info.url_schemes:
        raise ConfigurationError(f"The backend {plugin.found.name!r} opens no {name}: URL", mend="Give its name alone.")
    environ = os.environ if environ is None else environ
    return KnowledgeBackendHandle(
        plugin, info, Settings(info, settings, environ, what=f"The backend {info.slug!r}", url=url), url
    )


def make_knowledge_resolver(
    *, environ: Mapping[str, str] | None = None, slugs: Collection[str] | None = None
) -> KnowledgeResolver:
    """A resolver for a host: gives a handle, or None where no installed backend goes by that name.

    Each call gives a handle of its own. A backend that is known and broken, or a wrong setting, is an error as ever.

    Args:
        environ: The settings of this host; by default the process's at each call.
        slugs: Only these backends are found; by default all.
    """

    def resolve(slug_or_url: str, /, **settings: SettingValue) -> KnowledgeBackendHandle | None:
        name, url = _name_and_url(slug_or_url)
        if slugs is not None and name not in slugs and (url is None or SCHEMES.get(name) not in slugs):
            return None
        try:
            return resolve_knowledge_backend(slug_or_url, environ=environ, **settings)
        except UnknownBackendError:
            return None

    return resolve


def _name_and_url(slug_or_url: str) -> tuple[str, str | None]:
    if not isinstance(slug_or_url, str):
        raise ConfigurationError(
            f"A backend is named by text, not by {type(slug_or_url).__name__}", mend="Give a name or a URL."
        )
    if len(slug_or_url) > MAX_URL_CHARS:
        raise ConfigurationError(
            f"The name or URL of the backend has {len(slug_or_url)} characters", mend=f"Use at most {MAX_URL_CHARS}."
        )
    scheme, colon, _ = slug_or_url.partition(":")
    return (scheme.lower(), slug_or_url) if colon else (slug_or_url, None)


def _claims(name: str, *, is_scheme: bool) -> tuple[PluginName, ...]:
    plugins = find_plugins(PROVIDERS)
    kin = SCHEMES.get(name, name) if is_scheme else name
    if claims := plugins.get(name) or plugins.get(kin):
        return claims
    known = ", ".join(plugins) or "none: no adapter is installed"
    if hint := install_hint(PROVIDERS, kin):
        raise UnknownBackendError(f"The backend {kin!r} is not installed. Installed are: {known}", mend=hint)
    near = difflib.get_close_matches(name[:60].lower(), plugins, n=1)
    said = f"There is no backend {name!r}" if _SHOWN_NAME.fullmatch(name) else "There is no backend of that name"
    raise UnknownBackendError(
        f"{said}{f' (did you mean {near[0]!r}?)' if near else ''}. Known are: {known}",
        mend="Name one of them, or install an adapter; a folder is written files:DIR.",
    )
