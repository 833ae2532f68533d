"""One request to a model, and what its failures mean. Importing this takes about two seconds, so it is done late."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from knowledge_engine.errors import ConfigurationError, KnowledgeError, ProviderError, UnavailableError
from knowledge_llm.endpoints import Endpoint
from knowledge_llm.settings import LlmSettings
from knowledge_llm.wire import TooMuch

_log = logging.getLogger("knowledge_llm")
_LATER = frozenset({408, 409, 425, 429})
#: What services also say within an answer whose status is 200.
_PASSING = (
    exceptions.ModelConnectionError,
    exceptions.ModelRateLimitError,
    exceptions.ModelServerError,
    exceptions.ModelUnavailableError,
)


class Again(Exception):  # noqa: N818 - it never leaves this package
    """The same request may succeed later.

    Attributes:
        error: What to raise where there is no later.
        pause_s: How long the service wants to be left alone; None where it does not say.
    """

    def __init__(self, error: UnavailableError, pause_s: float | None = None) -> None:
        super().__init__(error.code)
        self.error, self.pause_s = error, pause_s


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model wrote."""

    text: str
    refused: bool
    cut_off: bool
    input_tokens: int
    output_tokens: int


class Conversation:
    """A question to a model, and what followed on it."""

    def __init__(
        self, endpoint: Endpoint, settings: LlmSettings, client: httpx2.AsyncClient, prompt: str, instructions: str
    ) -> None:
        self._endpoint, self._instructions = endpoint, instructions
        # A key that the library gets as nothing would be looked for in the process's environment.
        service = AsyncOpenAI(
            base_url=endpoint.address, api_key=endpoint.key or "none", max_retries=0, http_client=client
        )
        # Nor may these come from there.
        service.organization = service.project = service.admin_api_key = None
        service._custom_headers = {}
        self._model = OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=service))
        self._settings = ModelSettings(max_tokens=settings.max_tokens) if settings.max_tokens else ModelSettings()
        self._messages: list[ModelMessage] = [ModelRequest.user_text_prompt(prompt, instructions=instructions)]

    async def ask(self, left_s: float) -> Reply:
        """What the model answers to what was said so far; takes it into the conversation.

        Raises:
            Again: When it may answer later.
            ProviderError: When it does not take the question, or answers what nobody can read.
            ConfigurationError: When the key or the name is not valid there.
        """
        settings = ModelSettings(**self._settings, timeout=left_s)
        problem: Exception
        try:
            response = await model_request(self._model, self._messages, model_settings=settings)
        except Exception as error:  # libraries raise many kinds over what a server sends
            problem = _meaning(error, repr(self._endpoint.name[:60]))
        else:
            self._messages.append(response)
            return _reply(response)
        # Not within the handler: the error would hold the library's, and that the prompt or the answer.
        raise problem

    def object(self, problem: str) -> None:
        """Says to the model what is wrong with its answer."""
        self._messages.append(ModelRequest.user_text_prompt(problem, instructions=self._instructions))


def _reply(response: ModelResponse) -> Reply:
    return Reply(
        text=response.text or "",
        refused=response.finish_reason == "content_filter",
        cut_off=response.finish_reason == "length",
        input_tokens=response.usage.input_tokens or 0,
        output_tokens=response.usage.output_tokens or 0,
    )


def _meaning(error: Exception, name: str) -> Exception:
    """What to raise instead; its text has nothing of what was sent or received."""
    if isinstance(error, exceptions.ModelHTTPError):
        return _refused(error, name)
    if _has(error, TooMuch):
        return ProviderError(f"The answer of {name} is too long or packed", mend="Ask for less, or another service.")
    if isinstance(error, _PASSING) or _has(error, httpx2.TransportError):
        return Again(UnavailableError(f"The model {name} cannot be reached", mend="Check its address and the network."))
    _log.debug("an answer could not be read: %s", type(error).__name__)
    return ProviderError(f"What answers for {name} is no model", mend="Check its address, or name another model.")


def _refused(error: exceptions.ModelHTTPError, name: str) -> KnowledgeError | Again:
    status = error.status_code
    if isinstance(error, exceptions.ModelQuotaExceededError) or status == 402:
        return ProviderError(f"What was paid for {name} is used up ({status})", mend="Look at the account there.")
    if status in (401, 403):
        return ConfigurationError(f"The key for {name} is not valid there ({status})", mend="Correct the key.")
    if status == 404:
        return ConfigurationError(f"There is no model {name} there", mend="Correct its name or its address.")
    if status in _LATER or status >= 500:
        pause_s = error.retry_after
        when = f"Try again in {pause_s:.0f} s." if pause_s else "Try again later."
        return Again(UnavailableError(f"The model {name} is overloaded or down ({status})", mend=when), pause_s)
    return ProviderError(f"The model {name} does not take the question ({status})", mend="Send less, or ask another.")


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if isinstance(each, kind):
            return True
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return False
