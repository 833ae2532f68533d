"""Which backends and transports there are, and which of them could be used now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, NoReturn

from knowledge_engine.errors import BrokenPluginError, KnowledgeError
from knowledge_engine.groups import KIT_PARTS, PROVIDERS, TRANSPORTS, KitPart, install_hint
from knowledge_engine.plugin_settings import PluginInfo, Settings, describe
from knowledge_engine.plugins import PluginName, find_misplaced, find_plugins, load_plugin

#: supported: the kit has it, and it is not installed. available: installed, and required settings are missing.
#: ready: its settings are complete. broken: installed, and it does not load; `problem` says why.
BackendStatus = Literal["supported", "available", "ready", "broken"]


class BackendListing:
    """A backend, or a transport, that is installed or could be.

    `slug`, `distribution` and `installed` come from metadata. All else of an installed one is found out when it is
    first asked for, by loading its light plugin module: never the adapter. Nothing of that raises.
    """

    def __init__(
        self,
        slug: str,
        group: str,
        claims: tuple[PluginName, ...],
        environ: Mapping[str, str],
        *,
        problem: KnowledgeError | None = None,
    ) -> None:
        self._group = group
        self._claims = claims
        self._environ = environ
        self._problem = problem
        self.slug = slug
        #: Whose it is; of several claimants all, joined by commas.
        self.distribution = ", ".join(dict.fromkeys(each.distribution for each in claims)) or self._part.distribution
        self.installed = bool(claims)

    def __repr__(self) -> str:
        return f"<BackendListing {self.slug!r} of {self.distribution}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a listing holds the environment, so it is neither copied nor pickled; its info() can be")

    @property
    def status(self) -> BackendStatus:
        """See `BackendStatus`."""
        if not self.installed:
            return "supported"
        if self._described[1] is not None:
            return "broken"
        return "available" if self.missing else "ready"

    @property
    def name(self) -> str:
        """The name for people."""
        return self._described[0].name or self.slug

    @property
    def description(self) -> str:
        """One or two sentences."""
        return self._described[0].description or self._part.description

    @property
    def version(self) -> str:
        """The installed version, if that is known."""
        return self._described[0].version or (self._claims[0].version if self.installed else "")

    @property
    def url_schemes(self) -> tuple[str, ...]:
        """What URLs of it begin with."""
        return self._described[0].url_schemes

    @property
    def problem(self) -> str:
        """Why it is broken; else empty."""
        return error.problem if (error := self._described[1]) else ""

    @property
    def mend(self) -> str:
        """What to do before it can be used; empty when nothing is to be done."""
        if error := self._described[1]:
            return error.mend
        if not self.installed:
            return install_hint(self._group, self.slug)
        return "Set what is missing." if self.missing else ""

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """The settings that must be set and are not, a line each."""
        return Settings(self._described[0], {}, self._environ, what=self.slug).missing()

    def info(self) -> dict[str, Any]:
        """All of it as a JSON object, without any setting's value."""
        return {
            "slug": self.slug,
            "status": self.status,
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "distribution": self.distribution,
            "url_schemes": list(self.url_schemes),
            "missing": list(self.missing),
            "problem": self.problem,
            "mend": self.mend,
        }

    @property
    def _part(self) -> KitPart:
        return KIT_PARTS[self._group].get(self.slug, KitPart("", ""))

    @cached_property
    def _described(self) -> tuple[PluginInfo, KnowledgeError | None]:
        if self._problem is not None or not self._claims:
            return PluginInfo(), self._problem
        try:
            return describe(load_plugin(self._claims)), None
        except KnowledgeError as error:
            return PluginInfo(), error


def list_knowledge_backends(*, environ: Mapping[str, str] | None = None) -> tuple[BackendListing, ...]:
    """Every backend that is installed, and those of this kit that are not, by slug. Imports no plugin.

    A broken one is listed with what is wrong with it, and hides no other.

    Args:
        environ: Where settings are looked for; by default the process's environment, as it is now.
    """
    return _list(PROVIDERS, environ)


def list_knowledge_transports(*, environ: Mapping[str, str] | None = None) -> tuple[BackendListing, ...]:
    """Every transport that is installed, and those of this kit that are not; as `list_knowledge_backends`."""
    return _list(TRANSPORTS, environ)


def _list(group: str, environ: Mapping[str, str] | None) -> tuple[BackendListing, ...]:
    environ = dict(os.environ if environ is None else environ)
    found = find_plugins(group)
    listings = [BackendListing(slug, group, claims, environ) for slug, claims in found.items()]
    for plugin, meant in find_misplaced():
        if meant == group:
            problem = BrokenPluginError(
                f"{plugin.distribution} names {plugin.name!r} under {plugin.group!r}, where nothing looks",
                mend=f"Name it under {group!r}.",
            )
            listings.append(BackendListing(plugin.name, group, (plugin,), environ, problem=problem))
    known = {listing.slug for listing in listings}
    listings += [BackendListing(slug, group, (), environ) for slug in KIT_PARTS[group] if slug not in known]
    return tuple(sorted(listings, key=lambda listing: listing.slug))
