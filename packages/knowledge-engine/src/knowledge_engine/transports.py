"""Servers by name: what puts services in front of others, found and loaded as backends are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.groups import TRANSPORTS, install_hint
from knowledge_engine.plugin_settings import Described, PluginInfo, SettingInfo, Settings, SettingValue, describe
from knowledge_engine.plugins import Plugin, find_plugins, load_plugin

if TYPE_CHECKING:
    from knowledge_engine.service import KnowledgeService


class KnowledgeTransport(Described):
    """An installed transport. It holds no settings: each `serve` gets its own."""

    def __init__(self, plugin: Plugin, info: PluginInfo) -> None:
        self._plugin = plugin
        self._info = info

    def __repr__(self) -> str:
        return f"<KnowledgeTransport {self.slug!r} {self.version}>"

    def settings(self) -> dict[str, SettingInfo]:
        """What may be set, by the short name that `serve` takes."""
        return self._info.short_names()

    @contextmanager
    def prepared(self) -> Iterator[object]:
        """Holds what the transport needs while backends are opened and served; what it gives is for `serve`.

        Raises:
            BrokenPluginError: When the plugin fails.
        """
        if not self._plugin.has("knowledge_prepare"):
            yield None
            return
        manager = self._plugin.call("knowledge_prepare")
        if not isinstance(manager, AbstractContextManager):
            raise self._plugin.broken(
                f"returns a {type(manager).__name__} from 'knowledge_prepare', no context manager"
            )
        with manager as prepared:
            yield prepared

    def serve(
        self,
        services: Mapping[str, KnowledgeService],
        prepared: object = None,
        /,
        *,
        environ: Mapping[str, str] | None = None,
        **settings: SettingValue,
    ) -> None:
        """Serves the services, by the names of their backends, until it is told to stop; does not dispose of them.

        Settings are as for `registry.resolve_knowledge_backend`.

        Args:
            prepared: What `prepared` gave, where the caller asked for that.

        Raises:
            ConfigurationError: When settings are missing or wrong.
            BrokenPluginError: When the plugin fails.
            KnowledgeError: As the transport says.
        """
        environ = os.environ if environ is None else environ
        effective = Settings(self._info, settings, environ, what=f"The transport {self.slug!r}")
        effective.require()
        self._plugin.call(
            "knowledge_serve",
            secrets=effective.secrets,
            services=dict(services),
            settings=dict(effective.given),
            environ=dict(effective.environ),
            prepared=prepared,
        )


def find_transport(name: str) -> KnowledgeTransport:
    """The transport of that name. Loads its light plugin module only.

    Raises:
        ConfigurationError: When none is installed by that name.
        BrokenPluginError: When the one that is is broken, or several are.
    """
    plugins = find_plugins(TRANSPORTS)
    if name not in plugins:
        raise ConfigurationError(
            f"There is no transport {name[:60]!r}. Installed are: {', '.join(plugins) or 'none'}",
            mend=install_hint(TRANSPORTS, name) or "Name one of them, or install one.",
        )
    plugin = load_plugin(plugins[name])
    return KnowledgeTransport(plugin, describe(plugin))
