"""A model on a server: every reply arrives once and is kept, whatever the server does."""

import io
import itertools
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from inspect import signature
from traceback import format_exception

import chat_server as acts
import pytest
from chat_server import (
    chatting,
    chatting_alone,
    refuses,
    refuses_field,
    says,
    sends,
    stream,
    thinks,
    token,
)
from hypothesis import given, strategies as st
from image_folders import smooth
from PIL import Image
from refusals import fails, refused
from waiting import HANGS

from nooch.base.errors import NoochError
from nooch.base.http import Patience
from nooch.inference.batch_files import Batch
from nooch.inference.completions import NO_COMPLETION, read_completion
from nooch.inference.endpoint import (
    Endpoint,
    RateLimit,
    endpoint_replies,
    image_url,
    request_fields,
)
from nooch.inference.local_model import LocalModel
from nooch.inference.requests import Reply, Request

_fails = partial(fails, kind=NoochError)
FIELDS = request_fields("m")
KEY = "sk-secret-123"
SAID = [("Yes", -0.5), (" yes", -2.0), ("No", -1.5), ("▁NO", -4.0), ("Not", -3.0), ("\n", -5.0)]
CASES = ["spellings", "white space first", "one side", "rounding", "neither", "400 digits"]
CASES += ["bare", "blank", "no"]
YES, NO = math.exp(-0.5) + math.exp(-2.0), math.exp(-1.5) + math.exp(-4.0)


@pytest.fixture
def server(monkeypatch):
    with chatting_alone(monkeypatch) as running:
        yield running


@pytest.fixture
def requests(tmp_path):
    smooth(1, 64, 48).save(tmp_path / "a.jpg")
    return [Request(f"{n}/0", tmp_path / "a.jpg", f"Is there a {n}?") for n in range(1, 7)]


@pytest.fixture
def waits():
    return []


@pytest.fixture
def ask(server, requests, tmp_path, waits):
    """Ask, one request at a time unless told otherwise; nothing is waited for."""
    (tmp_path / "work").mkdir()

    def run(asked=requests, fields=FIELDS, *, attempts=3, read=HANGS, kept=None, **options):
        patience = Patience(read=read, attempts=attempts, longest=600, wait=waits.append)
        endpoint = Endpoint(server.url, "m", **{"concurrency": 1, **options})
        told = {"more_tokens": kept, "describe": "logprobs" not in fields}
        work = tmp_path / "work"
        replies = list(endpoint_replies(asked, fields, endpoint, work, patience, **told))
        return sorted(replies, key=lambda reply: int(reply.key.partition("/")[0]))

    return run


def answers(replies):
    return [reply.answer for reply in replies]


def test_every_request_gets_its_reply(server, ask, requests):
    server.always = lambda handler: says(handler.body["messages"][0]["content"][1]["text"])(handler)
    replies = ask(concurrency=4)
    assert [reply.key for reply in replies] == [request.key for request in requests]
    assert answers(replies) == [request.text for request in requests]
    body = server.asked[0]
    assert {name: body[name] for name in body if name != "messages"} == {
        "model": "m",
        "max_tokens": 16,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert set(server.paths) == {"/v1/chat/completions"}
    assert server.keys == [None] * 6
    kind, content = server.image(0)
    assert (kind, content) == ("image/jpeg", requests[0].image.read_bytes())


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([token("Yes", *SAID)], (YES / (YES + NO), YES + NO)),
        ([token(" "), token("\n", ("x", -1)), token("Yes", *SAID)], (YES / (YES + NO), YES + NO)),
        ([token("Ġyes", ("Ġyes", -1.0), ("Maybe", -2.0))], (1.0, math.exp(-1.0))),
        ([token("Ye", ("No", 0.0001), ("Yes", -9999.0))], (0.0, 1.0)),
        ([token("Y", ("The", -0.1), ("A", -3.0))], (None, 0.0)),
        ([token("Yes", ("Yes", -(10**400)), ("No", 10**400))], (0.0, 1.0)),
        ([token("Yes")], (None, None)),
        ([token(" ", *SAID)], (None, None)),
        ([], (None, None)),
    ],
    ids=[
        "spellings",
        "space first",
        "one side",
        "rounding",
        "neither",
        "400 digits",
        "bare",
        "blank",
        "no",
    ],
)
def test_probability_of_yes_is_read_from_the_first_word(tokens, expected):
    said = read_completion(acts.reply("Yes.", {"content": tokens}))
    assert said == ("Yes.", *map(pytest.approx, expected), None, False)


REASONED = [token(word, (word, -0.1), ("Yes", -9.0), ("No", -9.5)) for word in ("No", " wheels")]
YES_SAID = token("Yes", ("Yes", -0.1), ("No", -3.0))


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("No wheels</think> Yes", [*REASONED, token("</think>"), token(" "), YES_SAID]),
        ("<think>No wheels</think>\n\nYes", [*REASONED, token("\n\n"), YES_SAID]),
        ("Yes", [*REASONED, token("</think>"), token("\n\n"), YES_SAID]),
        ("\n\nYes.", [*REASONED, token("\n\n"), YES_SAID, token(".")]),
        ("No wheels \\boxed{Yes}", [*REASONED, token(" \\boxed{"), YES_SAID, token("}")]),
        ("**Yes**", [token("**"), YES_SAID, token("**")]),
        ("No wheels</think>", [*REASONED, token("</think>")]),
        ("<think>No wheels", [token("<think>"), *REASONED]),
        ("", REASONED),
        ("Yes", REASONED),
    ],
)
def test_probability_is_that_of_the_token_of_the_answer(content, tokens):
    """Whether the tokens begin with reasoning, and the content, or not."""
    said = read_completion(acts.reply(content, {"content": tokens}))
    yes, no = math.exp(-0.1), math.exp(-3.0)
    if YES_SAID in tokens:
        assert said[:3] == (content, pytest.approx(yes / (yes + no)), pytest.approx(yes + no))
    else:
        assert said[:3] == (content, None, None)


LOGS = {"content": [token("Yes", ("Yes", -0.1), ("No", -3.0))]}
TEXT = {"type": "text", "text": "Yes"}
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "No wheels"}]}
STREAMED = [{"reasoning_content": "No "}, {"reasoning_content": "wheels"}, {"content": "Y"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (acts.reply([TEXT]), ("Yes", None)),
        (acts.reply([THOUGHT, {"type": "output_text", "text": "Yes"}]), ("Yes", "No wheels")),
        (acts.reply([{"type": "reasoning", "text": "No wheels"}, "Yes"]), ("Yes", "No wheels")),
        (acts.reply([{"type": "image_url", "image_url": None}, TEXT]), ("Yes", None)),
        (acts.reply([], refusal="I'm sorry."), ("I'm sorry.", None)),
        (acts.reply("Yes", reasoning="No wheels"), ("Yes", "No wheels")),
        (acts.reply("Yes", reasoning_content=None, reasoning={"effort": 1}), ("Yes", None)),
        (stream([{"content": "Ye"}, {"content": "s"}]), ("Yes", None)),
        (stream([*STREAMED, {"content": "es"}], line="\r\n"), ("Yes", "No wheels")),
        (stream([{"content": [THOUGHT]}, {"content": [TEXT]}]), ("Yes", "No wheels")),
        (stream([{"refusal": "I'm "}, {"refusal": "sorry."}]), ("I'm sorry.", None)),
    ],
)
def test_forms_of_a_completion(server, ask, requests, content, expected):
    server.acts = [sends(content)]
    assert ask(requests[:1]) == [Reply("1/0", expected[0], None, None, expected[1])]
    # from the journal, too
    assert ask(requests[:1]) == [Reply("1/0", expected[0], None, None, expected[1])]
    assert len(server.asked) == 1


@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_a_stream_says_what_one_body_says(answer, thought, cuts):
    """However the text is cut into events; in a list of parts, too."""
    cuts = sorted(cuts)

    def pieces(name, text):
        bounds = [0, *cuts, len(text)]
        return [{name: text[a:b]} for a, b in itertools.pairwise(bounds) if a < b]

    whole = read_completion(acts.reply(answer, reasoning_content=thought))
    streamed = stream([*pieces("reasoning_content", thought), *pieces("content", answer)])
    assert read_completion(streamed) == whole
    parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": answer}]
    assert read_completion(acts.reply(parts)) == whole


def test_probabilities_of_a_stream():
    streamed = stream([{"content": "Yes", "logprobs": LOGS}])
    assert read_completion(streamed) == read_completion(acts.reply("Yes", LOGS))
    for broken in (stream([{"content": "Yes"}], ends=False), b"data: {", b'data: {"error": 1}'):
        with pytest.raises(NO_COMPLETION):
            read_completion(broken)


SURE = (pytest.approx(1.0), pytest.approx(math.exp(-0.1)))
END = token("<|im_end|>", ("<|im_end|>", -0.1))


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ({"content": [token("Yes", ("Yes", -0.1), ("No", None))]}, SURE),
        ({"content": [token("Yes", ("Yes", -0.1), ("No", -math.inf))]}, SURE),
        ({"content": [token("Yes", ("Yes", -0.1)), END]}, SURE),
        ({"content": [token("Yes", ("Yes", -0.1)), token("[EOS]"), token("")]}, SURE),
        ({"content": [token("Yes", ("Yes", math.nan))]}, (None, None)),
        ({"content": [token("Yes", ("Yes", "-0.1"))]}, (None, None)),
        ({"content": [{"token": 1}]}, (None, None)),
        ({"content": [{"token": "Yes", "top_logprobs": 3}]}, (None, None)),
        ({"content": {"token": "Yes"}}, (None, None)),
        ({"tokens": ["Yes"], "token_logprobs": [-0.1]}, (None, None)),
        ({"content": "Yes"}, (None, None)),
        ([token("Yes")], (None, None)),
        ("Yes", (None, None)),
        (0.5, (None, None)),
    ],
)
def test_odd_probabilities_never_cost_the_answer(logprobs, expected):
    streamed = stream([{"content": "Yes", "logprobs": logprobs}])
    for content in (acts.reply("Yes", logprobs), streamed):
        said = read_completion(content)
        assert said[0] == "Yes"
        assert said[1:3] == expected


@pytest.mark.parametrize(
    "error",
    [
        {
            "error": "Input validation error: `top_n_tokens` must be <= 5",
            "error_type": "validation",
        },
        {"error": {"message": "logprobs are not available here", "code": 400}},
        {"object": "error", "message": "bad request", "type": "BadRequestError", "code": "400"},
        {"error": {"message": "does not support this", "type": "invalid_request_error"}},
    ],
)
def test_an_error_is_one_whatever_its_status(server, ask, error):
    refusal, answer = sends(acts.json.dumps(error).encode()), says("Yes")
    server.always = lambda on: (refusal if "logprobs" in on.body else answer)(on)
    assert answers(ask()) == ["Yes"] * 6
    assert len(server.asked) == 7


def test_codes_within_a_reply_count(server, ask, waits):
    server.acts = [sends(b'{"error": {"code": 429, "message": "slow down"}, "choices": null}')]
    assert answers(ask()) == ["Yes"] * 6
    assert len(waits) == 1


def test_an_error_about_the_model_lists_those_of_the_server(server, ask, requests):
    server.always = refuses(404, "The model `m` does not exist.")
    server.models = [{"id": "llava-7b"}, {"id": "q", "name": "Qwen\x1b"}, {"id": "z", "name": "z"}]
    _fails(ask, r"allowed: models of this server: llava-7b, q (Qwen\x1b), z")


@pytest.mark.parametrize("apart", [True, False])
def test_thinking_is_given_room_to_end(server, ask, apart):
    server.always = thinks(3000, apart=apart)
    replies = ask(kept=16384)
    assert {reply.answer.rpartition(">")[2] for reply in replies} == {"Yes"}
    assert {reply.reasoning is not None for reply in replies} == {apart}
    # the first request is sent twice; after it the server is known to think
    assert [body["max_tokens"] for body in server.asked] == [16, *[16384] * 6]


def test_thinking_without_end_is_kept_as_it_is(server, ask, requests):
    server.always = thinks(10**5)
    (reply,) = ask(requests[:1], kept=100)
    assert (reply.answer, reply.reasoning[:9]) == ("", "No, wait.")
    assert [body["max_tokens"] for body in server.asked] == [16, 100]


@pytest.mark.parametrize(
    ("text", "finish", "fields", "sent"),
    [
        ("The image shows a street with", "length", FIELDS, [16, 16384, 16, 16384]),
        ("Yes, the image shows a street", "length", FIELDS, [16, 16]),
        ("The image shows a street.", "stop", FIELDS, [16, 16]),
        ("A street with", "length", request_fields("m", describe=True), [128, 128]),
        ("", "length", request_fields("m", describe=True), [128, 16384, 128, 16384]),
    ],
)
def test_replies_without_an_answer_are_asked_for_again(
    server, ask, requests, text, finish, fields, sent
):
    server.always = sends(acts.reply(text, finish=finish))
    assert answers(ask(requests[:2], fields, kept=16384)) == [text] * 2
    assert [body["max_tokens"] for body in server.asked] == sent


def test_a_length_that_is_given_is_kept(server, ask, requests):
    server.always = thinks(3000)
    assert answers(ask(requests[:1])) == [""]
    assert len(server.asked) == 1


BODY = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": None, "top_logprobs": 5}


def test_a_body_is_merged_into_requests(server, ask, requests):
    endpoint = Endpoint("http://a", "m", extra_body=BODY)
    assert endpoint.extra_fields == BODY
    assert Endpoint("http://a", "m", extra_body=acts.json.dumps(BODY)).extra_fields == BODY
    fields = request_fields("m", 9, extra=BODY)
    assert fields == {
        "model": "m", "max_tokens": 9, "logprobs": True, "top_logprobs": 5,
        "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    assert "max_tokens" not in request_fields("m", extra={"max_completion_tokens": 9})
    ask(requests[:1], fields)
    assert server.asked[0].items() >= fields.items()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("thinking", "is not a JSON object"),
        ("[1]", "is not a JSON object"),
        ({"top_k": object()}, "is not a JSON object"),
        ({"messages": []}, "may not replace messages"),
        ('{"model": "n"}', "may not replace model"),
        ({"options": {"api_key": "x"}}, "contains a key or a password"),
        ({"user": KEY}, "contains a key or a password"),
    ],
)
def test_bodies_that_are_refused(monkeypatch, body, reason):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = refused(lambda: Endpoint("http://a", "m", extra_body=body), "`extra_body`", reason)
    assert KEY not in text


SPELLINGS = st.sampled_from(["yes", " Yes", "YES", "no", "No", "▁no", "maybe", ""])


@given(st.lists(st.tuples(SPELLINGS, st.floats(-30, 0)), min_size=1, max_size=20))
def test_probabilities_equal_a_sum_over_spellings(alternatives):
    content = acts.reply("x", {"content": [token("x", *alternatives)]})
    probability, mass = read_completion(content)[1:3]
    yes = sum(math.exp(p) for word, p in alternatives if word in {"yes", " Yes", "YES"})
    no = sum(math.exp(p) for word, p in alternatives if word in {"no", "No", "▁no"})
    assert mass == pytest.approx(yes + no)
    assert probability == (pytest.approx(yes / (yes + no)) if yes + no else None)


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (says("I can't help with that."), "I can't help with that."),
        (says(None, refusal="I'm sorry."), "I'm sorry."),
        (says(""), ""),
        (says(None), ""),
        (says("はい、います。"), "はい、います。"),
        (says("Да.\nДа."), "Да.\nДа."),
    ],
)
def test_words_are_kept_and_never_guessed_from(server, ask, requests, act, answer):
    server.acts = [act]
    assert ask(requests[:1]) == [Reply("1/0", answer, None, None)]
    # from the journal, too
    assert ask(requests[:1]) == [Reply("1/0", answer, None, None)]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("code", "after", "waited"),
    [(429, "30", 30), (503, "900", 600), (500, None, 1), (408, None, 1)],
)
def test_a_busy_server_is_asked_again(server, ask, waits, code, after, waited):
    server.acts = [refuses(code, **({"Retry_After": after} if after else {}))]
    assert answers(ask()) == ["Yes"] * 6
    assert len(server.asked) == 7
    # a pause holds for all, and the time that it is measured by does not pass here
    assert waits[0] == pytest.approx(waited, abs=2 if after else 0)
    assert len(waits) == (6 if after else 1)


def test_waits_double_with_jitter():
    waits = []
    patience = Patience(backoff=2, longest=9, jitter=0.5, wait=waits.append)
    for failures in range(1, 6):
        patience.before_attempt(failures, None)
    for waited, least in zip(waits, [2, 4, 8, 9, 9], strict=True):
        assert least <= waited <= 1.5 * least
    assert len({waited / least for waited, least in zip(waits, [2, 4, 8, 9, 9], strict=True)}) > 1


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (refuses(500), "answers 500 Internal Server Error"),
        (refuses(429), "answers 429 Too Many Requests"),
        (acts.hangs_up, "Connection aborted"),
        (sends(b'{"choices": [{"mess'), 'sends no chat completion: {"choices": [{"mess'),
        (sends(b"\xff\xfe"), "sends no chat completion"),
        (sends(b"[" * 100_000), "sends no chat completion"),
        (sends(b'{"choices": []}'), "sends no chat completion"),
        (sends(b'{"error": {"message": "out of\\u001b[2J"}}'), r"completion: out of\x1b[2J"),
        (sends(b'{"error": "no \\/ memory"}'), "completion: no / memory"),
        (sends(b'{"choices": [{"message": {"content": [1]}}]}'), "sends no chat completion"),
        (sends(b'{"choices": [{"message": null}]}'), "sends no chat completion"),
        (acts.cuts, "Connection broken"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_single_failures_are_named_after_all_others_were_asked(
    server, ask, requests, tmp_path, act, reason
):
    server.acts = [says("No"), act, act, act]
    text = _fails(ask, "1 of 6 requests failed: 2/0: ", reason, "(tried 3 times)")
    assert server.url in text
    assert "asks only what has no reply" in text
    assert len(server.asked) == 8
    # the same again asks only what failed
    assert answers(ask()) == ["No", *["Yes"] * 5]
    assert server.questions[8:] == ["Is there a 2?"]
    assert (tmp_path / "work" / "replies.jsonl").read_text().count("\n") == 6


def test_requests_that_fail_may_stay_unanswered(server, ask):
    server.acts = [says("No"), *[refuses(500)] * 3]
    keys = [reply.key for reply in ask(allow_unanswered=True)]
    assert keys == ["1/0", *(f"{n}/0" for n in range(3, 7))]


def test_a_server_that_is_too_slow(server, ask, requests):
    late = lambda: ask(requests[:2], attempts=1, read=0.3)  # noqa: E731
    server.acts = [says("No"), acts.hangs]
    _fails(late, "gives no whole reply within")

    def trickles(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    server.acts = [trickles]
    _fails(late, "no whole reply within 0.3 s")


def drips(handler):
    """Headers without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"X-Wait: 1\r\n")
        handler.wfile.flush()


def continues(handler):
    """Interim responses without end."""
    while not handler.server.over.wait(0.01):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        handler.wfile.flush()


@pytest.mark.parametrize("act", [drips, continues])
def test_the_deadline_covers_the_whole_reply(server, ask, requests, act):
    server.acts = [says("No"), act]
    started = time.monotonic()
    late = "1 of 2 requests failed: 2/0: gives no whole reply within 0.5 s"
    _fails(lambda: ask(requests[:2], attempts=1, read=0.5), late)
    assert time.monotonic() - started < 5


DATES = ["Fri, 31 Dec 99999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2300", "soon", "-5"]
DATES += ["Sat, 01 Jan 2000 00:00:00 +99999999999999999999", "Sat, 01 Jan 0001 00:00:00 +1200"]


@pytest.mark.parametrize("after", DATES)
def test_odd_dates_of_a_busy_server(server, ask, waits, after):
    server.acts = [refuses(503, Retry_After=after)]
    assert answers(ask()) == ["Yes"] * 6
    assert all(0 <= seconds <= 601 for seconds in waits)


def test_an_answer_that_echoes_the_key_is_masked(server, ask, requests, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.acts = [says(f"Yes. Authorization: Bearer {KEY}")]
    assert answers(ask(requests[:1])) == ["Yes. Authorization: Bearer ***"]
    assert KEY not in (tmp_path / "work" / "replies.jsonl").read_text()
    # a word is no secret, and an answer is not changed by it
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    server.acts = [says("Yes, the road is EMPTY")]
    assert answers(ask(requests[1:2]))[-1] == "Yes, the road is EMPTY"


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (refuses(401, f"Incorrect API key provided: {KEY}"), "401 Unauthorized: Incorrect API key"),
        (refuses(404, "The model `m` does not exist."), "404 Not Found: The model `m` does not"),
        (refuses(402), "402 Payment Required"),
        (sends(b"", 307, Location="http://elsewhere.example/v1"), "redirects to 'http://elsewhere"),
        (sends(b"", 308, Location="/v2/chat/completions"), "which is not followed"),
        (sends(b"", 301), "redirects to nowhere"),
        (sends(b"", 307, Location=f"http://other.example/?key={KEY}"), "example/?key=***"),
        (sends(b"", 307, Location=f"http://other.example/{'a' * 166}{KEY}"), "aaa***"),
        (sends(b"", 307, Location=f"ftp://{KEY}.example"), "ftp://***.example"),
    ],
)
def test_a_server_without_prospect_is_given_up_at_once(
    server, ask, monkeypatch, tmp_path, act, reason
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.acts, server.always = [act], act
    text = _fails(ask, reason, server.url, "`model`", "OPENAI_API_KEY")
    assert KEY not in text
    assert len(server.asked) == 1
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert not any(KEY in file.read_text() for file in (tmp_path / "work").iterdir())


def test_a_server_that_ends_is_given_up_after_8_failures_in_a_row(server, ask, requests):
    many = [replace(requests[0], key=f"{n}/0") for n in range(100)]
    server.acts, server.always = [says("Yes")], refuses(502)
    _fails(lambda: ask(many, attempts=2), "502 Bad Gateway (tried 2 times)")
    assert len(server.asked) == 1 + 8 * 2
    # an answering server may refuse as many single ones as it likes
    server.acts, server.always = [], refuses(400, "the image is too large")
    _fails(lambda: ask(many, {"model": "m"}), "99 of 100 requests failed")
    assert len(server.asked) == 17 + 99


def test_a_server_that_refuses_everything_is_given_up(server, ask, requests):
    many = [replace(requests[0], key=f"{n}/0") for n in range(100)]
    server.always = refuses(400, "m is not a multimodal model")
    _fails(lambda: ask(many, {"model": "m"}), "is not a multimodal model")
    assert len(server.asked) == 8


def test_no_server(server, ask, waits, monkeypatch):
    with chatting() as gone:
        url = gone.url
    monkeypatch.setattr(type(server), "url", url)
    _fails(ask, "6 of 6 requests failed: 1/0: ", "refused (tried 3 times)", url)
    assert waits == [1, 2] * 6


@pytest.mark.parametrize(
    ("name", "message", "absent"),
    [
        ("logprobs", "unknown field", {"logprobs", "top_logprobs"}),
        ("top_logprobs", "top_logprobs is not supported", {"logprobs", "top_logprobs"}),
        ("temperature", "'temperature' does not support 0", {"temperature"}),
        ("max_tokens", "'max_tokens': use 'max_completion_tokens'", {"max_tokens"}),
        ("logprobs", "Logprobs is not enabled for this model", {"logprobs", "top_logprobs"}),
    ],
)
@pytest.mark.parametrize("code", [400, 403, 404, 501])
def test_fields_that_a_server_refuses_are_left_out(server, ask, name, message, absent, code):
    message = message if code == 400 else f"You are not allowed to request {name} from this model"
    server.always = refuses_field(name, message, says("Yes"), code)
    assert answers(ask()) == ["Yes"] * 6
    assert len(server.asked) == 7
    for body in server.asked[1:]:
        left = {field: value for field, value in body.items() if field != "messages"}
        assert left == {k: v for k, v in FIELDS.items() if k not in absent}


def test_a_model_that_is_forbidden(server, ask, requests):
    server.always = refuses(403, "this key may not use m")
    _fails(lambda: ask(requests), "answers 403 Forbidden: this key may not use m")
    assert len(server.asked) == 6


def test_fields_are_kept_where_leaving_them_out_does_not_help(server, ask):
    server.acts = [says("Yes"), refuses(400, "this image"), refuses(400, "this image")]
    _fails(ask, "answers 400 Bad Request: this image")
    assert "logprobs" in server.asked[-1]


def test_requests_at_a_time_are_bounded(server, ask, requests):
    many = [replace(requests[0], key=f"{n}/0") for n in range(40)]
    full = threading.Barrier(4)

    def act(handler):
        full.wait(HANGS)
        says("Yes")(handler)

    server.always = act
    assert len(ask(many, concurrency=4)) == 40
    assert server.most == 4


class Clock:
    """Time that passes only by waiting."""

    def __init__(self):
        self.now, self.lock = 100.0, threading.Lock()

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@given(st.floats(0.5, 1e5), st.lists(st.one_of(st.none(), st.floats(0, 900)), max_size=30))
def test_a_rate_limit_is_never_exceeded(per_minute, pauses):
    clock = Clock()
    rate, starts, until = RateLimit(60 / per_minute, clock.wait, clock), [], -math.inf
    for pause in pauses:
        if pause is not None:
            rate.pause(pause)
            until = max(until, clock.now + pause)
        rate.take()
        assert clock.now >= until - 1e-6
        starts.append(clock.now)
    for before, after in itertools.pairwise(starts):
        assert after - before >= 60 / per_minute - 1e-6


def test_threads_share_a_rate_limit():
    clock = Clock()
    waits = []
    rate = RateLimit(2.0, waits.append, clock)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: rate.take(), range(5)))
    assert sorted(waits) == [2, 4, 6, 8]


def test_a_rate_limit_spaces_requests(ask, waits):
    ask(rate_limit=0.01)
    assert waits == [pytest.approx(6000 * n, rel=0.01) for n in range(1, 6)]


def test_a_kill_in_the_middle_of_a_line(server, ask, tmp_path):
    ask()
    journal = tmp_path / "work" / "replies.jsonl"
    lines = journal.read_bytes().strip().split(b"\n")
    for cut in (b"", lines[2][:1], lines[2][:-1], b"\xff"):
        journal.write_bytes(b"\n".join([b"", *lines[:2], cut]))
        server.asked.clear()
        assert answers(ask()) == ["Yes"] * 6
        assert server.questions == [f"Is there a {n}?" for n in range(3, 7)]
        # what was cut off is ended, and all replies are read again
        assert answers(ask()) == ["Yes"] * 6
        assert len(server.asked) == 4


def test_kept_replies_come_first_and_others_as_they_are_asked_for(server, ask, requests, tmp_path):
    ask(requests[3:])
    endpoint = Endpoint(server.url, "m", concurrency=1)
    replies = endpoint_replies(requests, FIELDS, endpoint, tmp_path / "work")
    assert [next(replies).key for _ in range(3)] == ["4/0", "5/0", "6/0"]
    assert len(server.asked) == 3
    assert [reply.key for reply in replies] == ["1/0", "2/0", "3/0"]


def test_work_that_is_given_up_keeps_what_was_asked(server, ask, requests, tmp_path):
    many = [replace(requests[0], key=f"{n}/0") for n in range(100)]
    replies = endpoint_replies(
        many, FIELDS, Endpoint(server.url, "m", concurrency=4), tmp_path / "work"
    )
    next(replies)
    replies.close()
    assert len(server.asked) < 100
    assert len(ask(many)) == 100
    assert len(server.asked) == 100


def test_large_images_are_reduced(tmp_path):
    smooth(1, 640, 480).save(tmp_path / "a.png")
    for most, size in ((None, (640, 480)), (640, (640, 480)), (100, (100, 75))):
        kind, _, data = image_url(tmp_path / "a.png", most).partition(";base64,")
        content = acts.base64.b64decode(data)
        assert kind == ("data:image/jpeg" if most == 100 else "data:image/png")
        assert Image.open(io.BytesIO(content)).size == size
        assert (content == (tmp_path / "a.png").read_bytes()) is (most != 100)


@pytest.mark.parametrize("kind", ["webp", "bmp", "gif", "tiff"])
def test_other_formats_are_sent_as_jpeg(tmp_path, kind):
    smooth(1, 64, 48).save(tmp_path / f"a.{kind}")
    head, _, data = image_url(tmp_path / f"a.{kind}", None).partition(";base64,")
    sent = Image.open(io.BytesIO(acts.base64.b64decode(data)))
    assert (head, sent.format, sent.size) == ("data:image/jpeg", "JPEG", (64, 48))


def test_what_is_no_image_is_not_sent(server, ask, requests, tmp_path):
    (tmp_path / "secret.jpg").write_text("root:x:0")
    url = partial(image_url, tmp_path / "secret.jpg", None)
    fails(url, "not an image that can be read", helps=False)
    broken = [requests[0], replace(requests[1], image=tmp_path / "secret.jpg"), requests[2]]
    _fails(lambda: ask(broken), "1 of 3 requests failed: 2/0", "secret.jpg")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
        ("https://a.b/v1beta/openai/", "https://a.b/v1beta/openai/chat/completions"),
        ("https://a.b/v1/chat/completions", "https://a.b/v1/chat/completions"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
    ],
)
def test_addresses(url, address):
    assert Endpoint(url, "m").address == address


OTHER = ["", "localhost:8000", "ftp://a/v1", "http://", "http://me:pw@a/v1", "http://a/v1?key=x"]


@pytest.mark.parametrize("url", [*OTHER, "http://a b", "http://a/v1#x"])
def test_other_addresses_are_refused(url):
    text = refused(lambda: Endpoint(url, "m"), "`endpoint`: is not an address of a server")
    assert "pw" not in text


NUMBERS = [("concurrency", 0), ("max_side", 0), ("timeout", -1.0), ("timeout", math.inf)]


@pytest.mark.parametrize(
    ("name", "value"), [*NUMBERS, ("rate_limit", 0.0), ("rate_limit", math.nan)]
)
def test_numbers_that_are_not_allowed(name, value):
    refused(lambda: Endpoint("http://a", "m", **{name: value}), f"`{name}`: is ")


@pytest.mark.parametrize("key", ["sk secret", "sk\nsecret: x", "sk-sécret"])
def test_a_key_that_cannot_be_one_is_not_shown(ask, server, monkeypatch, key):
    monkeypatch.setenv("MY_KEY", key)
    text = refused(lambda: ask(api_key_env="MY_KEY"), "MY_KEY contains no key")
    assert "cret" not in text
    assert not server.asked


@pytest.mark.parametrize("line", [f"HTTP/1.1 {KEY} OK", f"{KEY}", f"HTTP/1.1 200 OK\r\n{KEY}"])
def test_a_head_of_a_reply_that_quotes_the_key(server, ask, monkeypatch, line):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def act(handler):
        handler.wfile.write(f"{line}\r\n\r\n".encode())
        handler.wfile.flush()
        handler.close_connection = True

    server.always = act
    with pytest.raises(NoochError) as raised:
        ask()
    assert KEY not in "".join(format_exception(raised.value))


def test_a_key_is_sent_and_not_kept(server, ask, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    server.acts = [refuses(400, f"bad {KEY}")] * 2
    text = _fails(lambda: ask(api_key_env="MY_KEY"), "bad ***")
    assert KEY not in text
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in (tmp_path / "work" / "replies.jsonl").read_text()
    assert KEY not in repr(Endpoint("http://a", "m", api_key_env="MY_KEY"))


@pytest.mark.parametrize("kind", [LocalModel, Endpoint, Batch])
def test_answerers_are_settings_with_one_method(kind):
    public = [n for n, one in vars(kind).items() if callable(one) and n == "answering"]
    assert public == ["answering"]
    assert list(signature(kind.answering).parameters) == ["self", "asking"]


def test_a_batch_needs_files():
    refused(lambda: Batch(Endpoint("http://a", "m")), "`to_batch` or `from_batch`")
