"""Checks a request of environment code before the relay forwards the request, so that the relay knows what it may cost.

The relay admits a request at the most that the endpoint may bill. That bound is right only if the relay understands
every key that changes the bill. A request with a key outside `_KEYS_OF_PATH` is therefore refused, and so is a known
key whose value is of another type: an endpoint may read the text "1000" as a number that the relay did not count. The
keys are those that the clients and harnesses of verifiers, the SDK of OpenAI and the servers vLLM and SGLang use for
text. Endpoints that are free (`Relay` decides) get unknown keys too; the keys that count replies have their types there
as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

IMAGE_TOKENS = 48_169
"""The most tokens of one picture, whose size in the request says little: gpt-4o-mini counts 2,833 tokens and 5,667 for
each of at most eight tiles (OpenAI, "Images and vision", high detail)."""
COMPLETION_LIMITS: Mapping[str, tuple[str, ...]] = {
    "chat/completions": ("max_completion_tokens", "max_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
}
"""The keys that limit a reply, by path; the first is set where a request states none. An endpoint ignores the keys of
other paths. Embeddings have no reply."""
_MOST_NUMBER = 10**12
_MOST_DEPTH = 64


class RequestRefused(ValueError):
    """The relay does not forward a request. The text names the key."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that the relay understands. `body` is what the endpoint gets, written anew by `content`.

    `limit` is the token limit of each reply, None if the request states none. `replies` counts the replies over all
    prompts.
    """

    path: str
    body: Mapping[str, Any]
    limit: int | None
    replies: int

    @property
    def model(self) -> str | None:
        model = self.body.get("model")
        return model if isinstance(model, str) else None

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True

    def content(self, **more: Any) -> bytes:
        """The request as JSON, with `more` keys. A key that occurred twice occurs once: the last one, as checked."""
        body = {**self.body, **more}
        try:
            return _dumped(body, ascii=False).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return _dumped(body, ascii=True).encode()

    def prompt_tokens(self) -> int:
        """The most tokens of the prompt. A token is at least one byte of the request; a picture is `IMAGE_TOKENS`."""
        urls = list(_image_urls(self.body))
        text = len(self.content()) - sum(len(url.encode("utf-8", "replace")) for url in urls)
        # Providers bill what they write to a cache at up to twice the price of the prompt.
        return (text + len(urls) * IMAGE_TOKENS) * (2 if _holds_key(self.body, "cache_control") else 1)


def check_request(path: str, raw: bytes, *, free: bool = False) -> CheckedRequest:
    """Parse and check a request to `path`. Raises RequestRefused.

    `free` says that neither a price nor a limit is at stake, so keys that the relay does not know pass.
    """
    try:
        body = json.loads(raw, parse_constant=_no_number)
        if not isinstance(body, dict):
            raise RequestRefused("the request is no JSON object")
        _check_depth(body)
        checks = _KEYS_OF_PATH[path]
        counting = (*COUNTING_KEYS, *COMPLETION_LIMITS.get(path, ()))
        for key in list(body):
            check = checks.get(key)
            if body[key] is None:
                if check is None and not free:
                    del body[key]
            elif check is None and not free:
                _refuse(key, "the relay cannot bound what it costs")
            elif check is not None and (not free or key in counting) and not check(body[key]):
                _refuse(key, "its value has a type or form whose cost the relay cannot bound")
        if not free:
            for key in COMPLETION_LIMITS.get(path, ()):
                if key in body and body[key] is not None and body[key] < 1:
                    del body[key]  # some servers read -1 as no limit, whatever the other keys say
            _check_content(body)
            _check_tools(body.get("tools"), "tools")
        return CheckedRequest(path, body, _limit(path, body), _replies(path, body))
    except RecursionError:
        raise RequestRefused("the request is nested too deeply") from None
    except RequestRefused:
        raise
    except ValueError:
        raise RequestRefused("the request is no JSON") from None


def _refuse(key: str, reason: str) -> NoReturn:
    raise RequestRefused(f"the request has {key[:80]!r}: {reason}")


def _no_number(constant: str) -> NoReturn:
    raise RequestRefused(f"the request has {constant}, which is no JSON")


def _dumped(body: Mapping[str, Any], *, ascii: bool) -> str:
    return json.dumps(body, ensure_ascii=ascii, separators=(",", ":"))


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > _MOST_DEPTH:
        raise RequestRefused("the request is nested too deeply")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise RequestRefused("the request has a number that is too large")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _check_depth(child, depth + 1)


def _limit(path: str, body: Mapping[str, Any]) -> int | None:
    if path not in COMPLETION_LIMITS:
        return 0
    stated = [int(body[key]) for key in COMPLETION_LIMITS[path] if body.get(key) is not None and body[key] >= 1]
    return max(stated, default=None)


def _replies(path: str, body: Mapping[str, Any]) -> int:
    each = max(body.get("n") or 1, body.get("best_of") or 1, 1) if path != "responses" else 1
    prompts = body.get("prompt") if path == "completions" else None
    many = isinstance(prompts, list) and any(isinstance(prompt, str | list) for prompt in prompts)
    return each * (len(prompts) if many and prompts else 1)


# What a value must be. Nothing converts a value.


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_limit(value: Any) -> bool:
    return _is_number(value) and abs(value) < _MOST_NUMBER and value == int(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list_of(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and any(all(check(item) for item in value) for check in checks)


def _is_any_of(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(check(value) for check in checks)


def _is_one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in values


def _is_object_of(*keys: str) -> Callable[[Any], bool]:
    """A flat object with some of these keys."""
    return lambda value: (
        isinstance(value, dict)
        and set(value) <= set(keys)
        and not any(isinstance(v, dict | list) for v in value.values())
    )


def _is_template_arguments(value: Any) -> bool:
    """Flat arguments of a chat template. A template of the request could repeat a prompt a million times."""
    flat = isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values())
    return flat and "chat_template" not in value


def _is_model(value: Any) -> bool:
    """A model by its name. OpenRouter's `:online` adds a paid search, and `@preset/` other models."""
    return isinstance(value, str) and "@preset" not in value and not value.endswith(":online")


_is_token_list = _is_list_of(_is_int)
_is_prompt = _is_any_of(_is_text, _is_list_of(_is_text, _is_int, _is_token_list))
_is_stop = _is_any_of(_is_text, _is_list_of(_is_text))
_is_input = _is_any_of(_is_text, _is_list_of(_is_object))
_is_logprobs = _is_any_of(_is_bool, _is_int)

COUNTING_KEYS = ("n", "best_of", "prompt", "stream", "stream_options", "model")
"""Keys that decide how many replies are billed, how they are reported, and at which price."""
_COMMON: Mapping[str, Callable[[Any], bool]] = {
    "model": _is_model,
    "stream": _is_bool,
    "stream_options": _is_object_of("include_usage", "continuous_usage_stats", "include_obfuscation"),
    "temperature": _is_number,
    "top_p": _is_number,
    "user": _is_text,
    "metadata": _is_object,
    "store": _is_bool,
    "safety_identifier": _is_text,
    "prompt_cache_key": _is_text,
    "prompt_cache_retention": _is_text,
    "service_tier": _is_one_of("auto", "default", "flex", "standard"),
    "parallel_tool_calls": _is_bool,
    "tools": _is_list_of(_is_object),
    "tool_choice": _is_any_of(_is_text, _is_object),
    "top_logprobs": _is_int,
    "reasoning": _is_object_of("effort", "summary", "generate_summary", "max_tokens", "exclude", "enabled"),
    "usage": _is_object_of("include"),
    "session_id": _is_text,
    "request_id": _is_text,
    "cache_salt": _is_text,
    "priority": _is_int,
}
_SAMPLING: Mapping[str, Callable[[Any], bool]] = {
    "n": _is_int,
    "max_tokens": _is_limit,
    "min_tokens": _is_int,
    "seed": _is_int,
    "stop": _is_stop,
    "logprobs": _is_logprobs,
    "prompt_logprobs": _is_int,
    "logit_bias": _is_object,
    "frequency_penalty": _is_number,
    "presence_penalty": _is_number,
    "repetition_penalty": _is_number,
    "length_penalty": _is_number,
    "top_k": _is_int,
    "min_p": _is_number,
    "top_a": _is_number,
    "typical_p": _is_number,
    "ignore_eos": _is_bool,
    "no_stop_trim": _is_bool,
    "stop_token_ids": _is_token_list,
    "allowed_token_ids": _is_token_list,
    "bad_words": _is_list_of(_is_text),
    "skip_special_tokens": _is_bool,
    "spaces_between_special_tokens": _is_bool,
    "include_stop_str_in_output": _is_bool,
    "add_special_tokens": _is_bool,
    "truncate_prompt_tokens": _is_int,
    "return_token_ids": _is_bool,
    "return_tokens_as_token_ids": _is_bool,
    "echo": _is_bool,
    "response_format": _is_object,
    "structured_outputs": _is_object,
    "guided_json": _is_any_of(_is_text, _is_object),
    "guided_regex": _is_text,
    "guided_choice": _is_list_of(_is_text),
    "guided_grammar": _is_text,
    "guided_decoding_backend": _is_text,
    "regex": _is_text,
    "ebnf": _is_text,
    "json_schema": _is_any_of(_is_text, _is_object),
}
_KEYS_OF_PATH: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "chat/completions": {
        **_COMMON,
        **_SAMPLING,
        "messages": _is_list_of(_is_object),
        "max_completion_tokens": _is_limit,
        "functions": _is_list_of(_is_object),
        "function_call": _is_any_of(_is_text, _is_object),
        "modalities": lambda value: value == ["text"],
        "reasoning_effort": _is_text,
        "verbosity": _is_text,
        "chat_template_kwargs": _is_template_arguments,
        "enable_thinking": _is_bool,
        "thinking": _is_object_of("type", "budget_tokens"),
        "thinking_budget": _is_int,
        "thinking_token_budget": _is_int,
        "include_reasoning": _is_bool,
        "separate_reasoning": _is_bool,
        "add_generation_prompt": _is_bool,
        "continue_final_message": _is_bool,
    },
    "completions": {**_COMMON, **_SAMPLING, "prompt": _is_prompt, "best_of": _is_int, "suffix": _is_text},
    "responses": {
        **_COMMON,
        "input": _is_input,
        "instructions": _is_text,
        "max_output_tokens": _is_limit,
        "max_tool_calls": _is_int,
        "include": _is_list_of(_is_text),
        "text": _is_object,
        "truncation": _is_text,
        "background": lambda value: value is False,
        "client_metadata": _is_object,
        "top_k": _is_int,
        "min_p": _is_number,
        "seed": _is_int,
        "repetition_penalty": _is_number,
    },
    "embeddings": {
        "model": _is_model,
        "input": _is_prompt,
        "dimensions": _is_int,
        "encoding_format": _is_text,
        "user": _is_text,
        "truncate_prompt_tokens": _is_int,
    },
}

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "thinking", "reasoning_text", "summary_text", None)
_IMAGE_PARTS = ("image_url", "input_image")
_ITEMS = frozenset(
    (
        *(
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
            "custom_tool_call",
            "custom_tool_call_output",
        ),
        *("local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call"),
        *("apply_patch_call_output", "web_search_call", "compaction", None),
        *("tool_search_call", "tool_search_output", "additional_tools"),
    )
)
"""Items of a responses request whose whole content is in the request. Others refer to what the provider stored."""
_TOOLS = ("function", "custom", "local_shell", "apply_patch", "tool_search", None)
"""Tools that the sender of a request runs. A provider bills its own tools, such as a web search, by the call."""
_STORED = ("previous_response_id", "file_id", "file_url", "file_data", "input_audio", "video_url", "file")
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)


def _check_content(body: Mapping[str, Any]) -> None:
    """Refuse messages that bring more into the prompt than the request holds. Raises RequestRefused."""
    for key in ("messages", "input"):
        messages = body.get(key)
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, dict):
                continue
            if key == "input" and message.get("type") not in _ITEMS:
                _refuse(f"{key} of type {message.get('type')}", "the relay cannot bound what it costs")
            _check_tools(message.get("tools"), f"{key}.tools")
            if message.get("audio") is not None:
                _refuse(f"{key}.audio", "the relay cannot bound what it costs")
            for name in ("content", "output", "summary"):
                _check_parts(message.get(name), f"{key}.{name}")


def _check_parts(parts: Any, where: str) -> None:
    if isinstance(parts, dict):
        _refuse(where, "it is neither a text nor a list of parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            continue
        kind = part.get("type") if isinstance(part, dict) else part
        if not isinstance(part, dict) or (kind is not None and not isinstance(kind, str)):
            _refuse(where, "a part of it is no object with a type")
        if stored := next((key for key in _STORED if part.get(key) is not None), None):
            _refuse(f"{where}.{stored}", "the relay cannot bound what it costs")
        holds_image = kind in _IMAGE_PARTS or "image_url" in part
        if holds_image and not _DATA_URL.match(_url_of(part) or ""):
            _refuse(f"{where}.image_url", "a picture has to be in the request, as data:image/...;base64,...")
        if not holds_image and kind not in _TEXT_PARTS:
            _refuse(f"{where} of type {kind}", "the relay cannot bound what it costs")


def _url_of(part: Mapping[str, Any]) -> str | None:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def _image_urls(body: Mapping[str, Any]) -> Iterator[str]:
    for key in ("messages", "input"):
        messages = body.get(key)
        for message in messages if isinstance(messages, list) else ():
            for name in ("content", "output"):
                parts = message.get(name) if isinstance(message, dict) else None
                for part in parts if isinstance(parts, list) else ():
                    if isinstance(part, dict) and (url := _url_of(part)) and _DATA_URL.match(url):
                        yield url


def _check_tools(tools: Any, where: str) -> None:
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else ""
        if kind == "namespace":
            nested = tool.get("tools")
            if not _is_list_of(_is_object)(nested):
                _refuse(f"{where}.tools", "it is no list of tools")
            _check_tools(nested, f"{where}.tools")
        elif kind not in _TOOLS:
            _refuse(f"{where} of type {kind}", "the provider runs and bills it, and no limit of tokens bounds it")


def _holds_key(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_holds_key(child, key) for child in value.values())
    return isinstance(value, list) and any(_holds_key(child, key) for child in value)
