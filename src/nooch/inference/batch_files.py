"""Requests to a model as files for a batch service, in OpenAI's format, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nooch.base.calls import Options
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import check_output_file, replacing, writing
from nooch.base.words import counted, printable
from nooch.base.work_folder import key_of
from nooch.data.json_records import json_records
from nooch.inference.completions import NO_COMPLETION, read_completion
from nooch.inference.endpoint import Endpoint, chat_body
from nooch.inference.requests import Answering, Asking, Reply, Request

BATCH_URL = "https://api.openai.com/v1"
"""Server that files are for, if none is named."""
BATCH_TOKENS = 4096
"""Length of a reply by default: nobody asks again where it is cut off before the answer."""
_MOST_REQUESTS, _MOST_BYTES = 50_000, 200_000_000
"""Limits of a file at OpenAI."""
_PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Batch(Options):
    """Requests to a model as files for a batch service, and its results.

    Attributes:
        endpoint: the model and the form of requests, such as
            ``Endpoint("https://api.openai.com/v1", "gpt-4o")``.
        to_batch: write the requests here, ``.jsonl``, in the format of OpenAI's batches, and ask
            nothing; files of at most 50,000 requests and 200 MB. With results of an earlier
            batch, only requests that have no reply there.
        from_batch: files of results of such a batch, in place of a server; all other options must
            be as they were.

    Raises:
        ParameterError: neither files to write nor results.
    """

    endpoint: Endpoint
    to_batch: str | Path | None = None
    from_batch: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to_batch is None and not self.from_batch:
            ways = ({"to_batch": ...}, {"from_batch": ...})
            raise ParameterError("no batch to write, no results to read", give=ways)

    def answering(self, asking: Asking) -> Answering:
        """Replies in the results, or none where requests are written; see ``Answerer``."""
        usual = None if asking.describe else BATCH_TOKENS
        sent = self.endpoint.fields(asking, asking.max_tokens or usual)
        about = {"endpoint": "batch", "max_side": self.endpoint.max_side, "more_tokens": None}
        results = [Path(file).absolute() for file in self.from_batch]
        what = asking.requests, sent, self.endpoint
        if self.to_batch is None:
            return Answering({**sent, **about}, lambda _: batch_replies(*what, results))
        file, overwrite = Path(self.to_batch), asking.overwrite
        written = write_batch(*what, file, results, overwrite=overwrite)
        return Answering({**sent, **about, "files": written}, None)


def write_batch(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: Endpoint,
    file: Path,
    results: Sequence[Path] = (),
    *,
    overwrite: bool = False,
) -> dict[str, int]:
    """Write requests that have no reply in files of results, as JSON lines; what exceeds the limits
    of a file goes into ``NAME-2.jsonl`` and so on. Returns the number of requests by file.

    An id is a hash of all that its request depends on, so that results of other requests are
    recognized. Raises InputError: an image that cannot be read, and as ``batch_replies``.
    OutputError: a file exists.
    """
    check_one_of("ending of a file of requests", file.suffix, (".jsonl",))
    lacking = _read(requests, fields, endpoint, results)[1]
    counts, name, size = dict[str, int](), "", 0
    with ExitStack() as stack:
        for request in (request for request in requests if request.key in lacking):
            body = chat_body(fields, request, endpoint.max_side)
            custom_id = _custom_id(request, fields, endpoint)
            whole = {"custom_id": custom_id, "method": "POST", "url": _PATH, "body": body}
            line = msgspec.json.encode(whole) + b"\n"
            size += len(line)
            if not name or counts[name] == _MOST_REQUESTS or size > _MOST_BYTES:
                part = file.with_stem(f"{file.stem}-{len(counts) + 1}") if counts else file
                check_output_file(part, overwrite=overwrite)
                name, size = str(part), len(line)
                stack.enter_context(writing(part))
                out = stack.enter_context(stack.enter_context(replacing(part)).open("wb"))
                counts[name] = 0
            out.write(line)
            counts[name] += 1
    return counts


def batch_replies(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: Endpoint,
    files: Sequence[Path],
) -> list[Reply]:
    """Replies in files of results; a failure counts unless another line has the reply.

    Raises InputError: requests without a reply, if ``endpoint`` does not allow that; results of
    other requests, two replies to one request, or a file of another kind.
    """
    replies, lacking = _read(requests, fields, endpoint, files)
    if lacking and not endpoint.allow_unanswered:
        reasons = some_of(f"{key}: {reason}" for key, reason in lacking.items())
        problem = f"{len(lacking):,} of {len(requests):,} requests have no reply: {reasons}"
        remedy = "{} to write these requests again, or {} to go without them"
        give = ({"to_batch": ..., "from_batch": None}, {"allow_unanswered": True})
        raise InputError(problem, where=files[0], remedy=remedy, give=give)
    return replies


def _read(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: Endpoint,
    files: Sequence[Path],
) -> tuple[list[Reply], dict[str, str]]:
    """Replies in files, and why the other requests have none, by their keys."""
    keys = {_custom_id(request, fields, endpoint): request.key for request in requests}
    replies, failed, foreign = dict[str, Reply](), dict[str, str](), list[str]()
    for file in files:
        for number, record in enumerate(json_records(file), 1):
            if not {"custom_id", "response"} <= record.keys():
                problem = f"record {number} has no custom_id or no response"
                allowed = "results of a batch, in OpenAI's format"
                raise InputError(problem, where=file, allowed=allowed)
            key = keys.get(str(record["custom_id"]))
            if key is None:
                foreign.append(str(record["custom_id"]))
            elif isinstance(reply := _reply(key, record), str):
                failed[key] = reply
            elif key in replies:
                remedy = "give the files of one batch, each once"
                raise InputError(f"answers {key} a second time", where=file, remedy=remedy)
            else:
                replies[key] = reply
        if foreign:
            problem = f"{counted(len(foreign), 'result')} of other requests: {some_of(foreign)}"
            remedy = "give the options with which the requests were written"
            raise InputError(problem, where=file, remedy=remedy)
    lacking = {key: failed.get(key, "no result") for key in keys.values() if key not in replies}
    return [*replies.values()], lacking


def _reply(key: str, record: Mapping[str, Any]) -> Reply | str:
    """The reply in a result, or why it has none."""
    response = record["response"]
    try:
        if int(response["status_code"]) == 200:
            made = read_completion(response["body"])
            return Reply(key, made.answer, made.probability, made.mass, made.reasoning)
    except NO_COMPLETION:
        pass
    texts = [record.get("error"), response]
    return printable(msgspec.json.encode([text for text in texts if text]).decode())[:300]


def _custom_id(request: Request, fields: Mapping[str, Any], endpoint: Endpoint) -> str:
    about = [request.key, request.image.name, request.text, request.range, endpoint.max_side]
    return f"nooch-{key_of([fields, *about], 24)}"
