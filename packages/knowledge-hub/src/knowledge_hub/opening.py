"""A hub from settings: the store, and the models that can be had."""

from __future__ import annotations

import os
from collections.abc import Mapping

from knowledge_engine.errors import BrokenPluginError, ConfigurationError
from knowledge_engine.language_models import find_model
from knowledge_engine.ports import LanguageModel
from knowledge_hub.service import HubService
from knowledge_hub.settings import NO_MODEL, HubSettings
from knowledge_hub.sqlite_store import SqliteEntryStore


def open_hub(environ: Mapping[str, str] | None = None) -> HubService:
    """The hub that the environment names; opens no file before it is asked something.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    variables = dict(os.environ if environ is None else environ)
    return create_hub(HubSettings.from_env(variables), variables)


def create_hub(settings: HubSettings, environ: Mapping[str, str] | None = None) -> HubService:
    """A hub with those settings. A model that cannot be had is done without, and `status` says why.

    Args:
        environ: Keys of models; by default the process's environment.
    """
    variables = dict(os.environ if environ is None else environ)
    notes = list[str]()

    def had(name: str, use: str) -> LanguageModel | None:
        if name == NO_MODEL:
            return None
        try:
            model: LanguageModel = find_model(name, environ=variables)
        except (ConfigurationError, BrokenPluginError) as error:
            notes.append(f"No model for {use}: {error.problem}.")
            return None
        return model

    routing, slimming = had(settings.routing_model, "searching"), had(settings.slimming_model, "slimming")
    store = SqliteEntryStore(settings.path, busy_timeout_s=settings.busy_timeout_s, read_only=settings.read_only)
    return HubService(
        store,
        settings,
        routing=routing,
        slimming=slimming,
        named=lambda name: find_model(name, environ=variables),
        notes=notes,
    )
