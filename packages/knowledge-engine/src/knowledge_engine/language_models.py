"""Language models by name, from whichever plugin knows that name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from knowledge_engine.errors import BrokenPluginError, ConfigurationError
from knowledge_engine.groups import MODELS, install_hint
from knowledge_engine.plugins import find_plugins, load_plugin
from knowledge_engine.redaction import Secrets, is_secret_variable, redact_url


def find_model(name: str, *, environ: Mapping[str, str] | None = None) -> Any:
    """The language model of that name; connects to nothing.

    Of `local:small` or `local/small` the plugin `local` is asked first, then the others in order; the first that knows
    the name gives the model. Light plugin modules are loaded one after the other, until then.

    Args:
        name: Such as `openai:gpt-4o`.
        environ: Keys and addresses; by default the process's environment.

    Raises:
        ConfigurationError: When no plugin knows the name, or the one that does lacks a setting.
        BrokenPluginError: When the plugin that the name begins with is broken.
    """
    variables = dict(os.environ if environ is None else environ)
    secrets = Secrets(value for variable, value in variables.items() if is_secret_variable(variable))
    plugins = find_plugins(MODELS)
    first = re.split("[:/]", name, maxsplit=1)[0]
    problems = []
    for each in sorted(plugins, key=lambda plugin: (plugin != first, plugin)):
        try:
            plugin = load_plugin(plugins[each])
            model = plugin.call("knowledge_model", secrets=secrets, name=name, environ=dict(variables))
        except BrokenPluginError as error:
            if each == first:
                raise
            problems.append(error.problem)
            continue
        if model is not None:
            return model
    asked = f"Asked were: {', '.join(plugins)}" if plugins else "No plugin for models is installed"
    raise ConfigurationError(
        ". ".join([f"There is no model {secrets.hide(redact_url(name))[:60]!r}", asked, *problems]),
        mend="Name another model." if plugins else install_hint(MODELS, "llm"),
    )
