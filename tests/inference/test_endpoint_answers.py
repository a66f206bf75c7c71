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
from chat_server import chatting, chatting_alone, refuses, refuses_field, says, sends, stream, token
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
def many(requests):
    return [replace(requests[0], key=f"{n}/0") for n in range(100)]


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


# what a server sends


SAID = [("Yes", -0.5), (" yes", -2.0), ("No", -1.5), ("▁NO", -4.0), ("Not", -3.0), ("\n", -5.0)]
_YES, _NO = math.exp(-0.5) + math.exp(-2.0), math.exp(-1.5) + math.exp(-4.0)
SPELLED, NONE = (_YES / (_YES + _NO), _YES + _NO), (None, None)
WHEELS = [token(word, (word, -0.1), ("Yes", -9.0), ("No", -9.5)) for word in ("No", " wheels")]
YES = token("Yes", ("Yes", -0.1), ("No", -3.0))
SAYS_YES = (1 / (1 + math.exp(-2.9)), math.exp(-0.1) + math.exp(-3.0))
SURE = (1.0, math.exp(-0.1))
END, THINKS = token("<|im_end|>", ("<|im_end|>", -0.1)), token("</think>")
# answer, its tokens -> P(yes) / (P(yes) + P(no)), P(yes) + P(no)
PROBABILITIES = [
    # of the first word, in all spellings
    ("Yes.", [token("Yes", *SAID)], SPELLED),
    ("Yes.", [token(" "), token("\n", ("x", -1)), token("Yes", *SAID)], SPELLED),
    ("Yes.", [token("Ġyes", ("Ġyes", -1.0), ("Maybe", -2.0))], (1.0, math.exp(-1.0))),
    ("Yes.", [token("Ye", ("No", 0.0001), ("Yes", -9999.0))], (0.0, 1.0)),
    ("Yes.", [token("Y", ("The", -0.1), ("A", -3.0))], (None, 0.0)),
    ("Yes.", [token("Yes", ("Yes", -(10**400)), ("No", 10**400))], (0.0, 1.0)),
    ("Yes.", [token("Yes")], NONE),
    ("Yes.", [token(" ", *SAID)], NONE),
    ("Yes.", [], NONE),
    # of the answer, whether the tokens begin with reasoning, and the content, or not
    ("No wheels</think> Yes", [*WHEELS, THINKS, token(" "), YES], SAYS_YES),
    ("<think>No wheels</think>\n\nYes", [*WHEELS, token("\n\n"), YES], SAYS_YES),
    ("Yes", [*WHEELS, THINKS, token("\n\n"), YES], SAYS_YES),
    ("\n\nYes.", [*WHEELS, token("\n\n"), YES, token(".")], SAYS_YES),
    ("No wheels \\boxed{Yes}", [*WHEELS, token(" \\boxed{"), YES, token("}")], SAYS_YES),
    ("**Yes**", [token("**"), YES, token("**")], SAYS_YES),
    ("No wheels</think>", [*WHEELS, THINKS], NONE),
    ("<think>No wheels", [token("<think>"), *WHEELS], NONE),
    ("", WHEELS, NONE),
    ("Yes", WHEELS, NONE),
    # odd ones never cost the answer
    ("Yes", [token("Yes", ("Yes", -0.1), ("No", None))], SURE),
    ("Yes", [token("Yes", ("Yes", -0.1), ("No", -math.inf))], SURE),
    ("Yes", [token("Yes", ("Yes", -0.1)), END], SURE),
    ("Yes", [token("Yes", ("Yes", -0.1)), token("[EOS]"), token("")], SURE),
    ("Yes", [token("Yes", ("Yes", math.nan))], NONE),
    ("Yes", [token("Yes", ("Yes", "-0.1"))], NONE),
    ("Yes", [{"token": 1}], NONE),
    ("Yes", [{"token": "Yes", "top_logprobs": 3}], NONE),
    ("Yes", {"token": "Yes"}, NONE),
    ("Yes", "Yes", NONE),
]


def test_probability_is_that_of_the_token_of_the_answer():
    for answer, tokens, expected in PROBABILITIES:
        logprobs = {"content": tokens}
        streamed = stream([{"content": answer, "logprobs": logprobs}])
        for content in (acts.reply(answer, logprobs), streamed):
            said = read_completion(content)
            assert said == (answer, *map(pytest.approx, expected), None, False), (answer, tokens)
    for logprobs in ({"tokens": ["Yes"], "token_logprobs": [-0.1]}, [token("Yes")], "Yes", 0.5):
        streamed = stream([{"content": "Yes", "logprobs": logprobs}])
        for content in (acts.reply("Yes", logprobs), streamed):
            assert read_completion(content)[:3] == ("Yes", None, None)


TEXT, WHEEL = {"type": "text", "text": "Yes"}, {"type": "text", "text": "No wheels"}
THOUGHT = {"type": "thinking", "thinking": [WHEEL]}
STREAMED = [{"reasoning_content": "No "}, {"reasoning_content": "wheels"}, {"content": "Y"}]
# -> answer, reasoning
FORMS = [
    (acts.reply([TEXT]), ("Yes", None)),
    (acts.reply([THOUGHT, {"type": "output_text", "text": "Yes"}]), ("Yes", "No wheels")),
    (acts.reply([{"type": "reasoning", "text": "No wheels"}, "Yes"]), ("Yes", "No wheels")),
    (acts.reply([{"type": "image_url", "image_url": None}, TEXT]), ("Yes", None)),
    (acts.reply([], refusal="I'm sorry."), ("I'm sorry.", None)),
    (acts.reply(None, refusal="I'm sorry."), ("I'm sorry.", None)),
    (acts.reply("Yes", reasoning="No wheels"), ("Yes", "No wheels")),
    (acts.reply("Yes", reasoning_content=None, reasoning={"effort": 1}), ("Yes", None)),
    (acts.reply(None), ("", None)),
    (acts.reply("Да.\nДа."), ("Да.\nДа.", None)),
    (stream([{"content": "Ye"}, {"content": "s"}]), ("Yes", None)),
    (stream([*STREAMED, {"content": "es"}], line="\r\n"), ("Yes", "No wheels")),
    (stream([{"content": [THOUGHT]}, {"content": [TEXT]}]), ("Yes", "No wheels")),
    (stream([{"refusal": "I'm "}, {"refusal": "sorry."}]), ("I'm sorry.", None)),
]


def test_forms_of_a_completion(server, ask, requests):
    for content, (answer, reasoning) in FORMS:
        assert read_completion(content) == (answer, None, None, reasoning, False)
    for content in (
        b"data: {", b'data: {"error": 1}', stream([{"content": "Yes"}], ends=False),
        b'{"choices": []}', b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": [1]}}]}', b"[" * 100_000, b"\xff\xfe",
    ):  # fmt: skip
        with pytest.raises(NO_COMPLETION):
            read_completion(content)
    # kept as it came, words and reasoning
    server.acts = [sends(FORMS[1][0]), says("はい、います。")]
    for _ in range(2):
        words = Reply("2/0", "はい、います。", None, None)
        assert ask(requests[:2]) == [Reply("1/0", "Yes", None, None, "No wheels"), words]
    assert len(server.asked) == 2


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


SPELLINGS = st.sampled_from(["yes", " Yes", "YES", "no", "No", "▁no", "maybe", ""])


@given(st.lists(st.tuples(SPELLINGS, st.floats(-30, 0)), min_size=1, max_size=20))
def test_probabilities_equal_a_sum_over_spellings(alternatives):
    content = acts.reply("x", {"content": [token("x", *alternatives)]})
    probability, mass = read_completion(content)[1:3]
    yes = sum(math.exp(p) for word, p in alternatives if word in {"yes", " Yes", "YES"})
    no = sum(math.exp(p) for word, p in alternatives if word in {"no", "No", "▁no"})
    assert mass == pytest.approx(yes + no)
    assert probability == (pytest.approx(yes / (yes + no)) if yes + no else None)


# what it is sent


def test_every_request_gets_its_reply(server, ask, requests):
    server.always = lambda handler: says(handler.body["messages"][0]["content"][1]["text"])(handler)
    replies = ask(concurrency=4)
    assert [reply.key for reply in replies] == [request.key for request in requests]
    assert answers(replies) == [request.text for request in requests]
    fields = {name: value for name, value in server.asked[0].items() if name != "messages"}
    logprobs = {"logprobs": True, "top_logprobs": 20}
    assert fields == {"model": "m", "max_tokens": 16, "temperature": 0, **logprobs}
    assert set(server.paths) == {"/v1/chat/completions"}
    assert server.keys == [None] * 6
    assert server.image(0) == ("image/jpeg", requests[0].image.read_bytes())


BODY = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": None, "top_logprobs": 5}


def test_a_body_is_merged_into_requests(server, ask, requests):
    for body in (BODY, acts.json.dumps(BODY)):
        assert Endpoint("http://a", "m", extra_body=body).extra_fields == BODY
    fields = request_fields("m", 9, extra=BODY)
    own = {"model": "m", "max_tokens": 9, "logprobs": True, "top_logprobs": 5}
    assert fields == {**own, "chat_template_kwargs": BODY["chat_template_kwargs"]}
    assert "max_tokens" not in request_fields("m", extra={"max_completion_tokens": 9})
    ask(requests[:1], fields)
    assert server.asked[0].items() >= fields.items()


def test_addresses():
    whole = "http://localhost:8000/v1/chat/completions"
    for url, address in {
        "http://localhost:8000": whole,
        "http://localhost:8000/": whole,
        "http://localhost:8000/v1": whole,
        whole: whole,
        "https://a.b/v1beta/openai/": "https://a.b/v1beta/openai/chat/completions",
        "http://[::1]:8000/v1": "http://[::1]:8000/v1/chat/completions",
    }.items():
        assert Endpoint(url, "m").address == address


# options -> words of the refusal
REFUSED = [
    *(
        ({"url": url}, "`endpoint`: is not the address of a server")
        for url in ("", "localhost:8000", "ftp://a/v1", "http://", "http://me:secret@a/v1",
                    "http://a/v1?key=secret", "http://a b", "http://a/v1#x")
    ),
    ({"concurrency": 0}, "`concurrency`: is "),
    ({"max_side": 0}, "`max_side`: is "),
    ({"timeout": -1.0}, "`timeout`: is "),
    ({"timeout": math.inf}, "`timeout`: is "),
    ({"rate_limit": 0.0}, "`rate_limit`: is "),
    ({"rate_limit": math.nan}, "`rate_limit`: is "),
    ({"extra_body": "thinking"}, "`extra_body`: is not a JSON object"),
    ({"extra_body": "[1]"}, "`extra_body`: is not a JSON object"),
    ({"extra_body": {"top_k": object()}}, "`extra_body`: is not a JSON object"),
    ({"extra_body": {"messages": []}}, "`extra_body`: may not replace messages"),
    ({"extra_body": '{"model": "n"}'}, "`extra_body`: may not replace model"),
    ({"extra_body": {"options": {"api_key": "x"}}}, "`extra_body`: contains a key or a password"),
    ({"extra_body": {"user": KEY}}, "`extra_body`: contains a key or a password"),
]  # fmt: skip


@pytest.mark.parametrize("kind", [LocalModel, Endpoint, Batch])
def test_answerers_are_settings_with_one_method(kind):
    assert list(signature(kind.answering).parameters) == ["self", "asking"]


def test_options_that_are_refused(ask, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for options, words in REFUSED:
        text = refused(partial(Endpoint, **{"url": "http://a", "model": "m", **options}), words)
        assert "secret" not in text
    refused(lambda: Batch(Endpoint("http://a", "m")), "`to_batch`", "`from_batch`")
    # a key that cannot be one is not shown
    for key in ("sk secret", "sk\nsecret: x", "sk-sécret"):
        monkeypatch.setenv("MY_KEY", key)
        text = refused(lambda: ask(api_key_env="MY_KEY"), "MY_KEY contains no key")
        assert "cret" not in text
    assert not server.asked


def test_images_are_sent_as_they_are_or_as_jpeg(tmp_path):
    for name, most, size in (
        ("a.png", None, (640, 480)), ("a.png", 640, (640, 480)), ("a.png", 100, (100, 75)),
        ("a.jpg", None, (640, 480)), ("a.webp", None, (640, 480)), ("a.bmp", None, (640, 480)),
        ("a.gif", None, (640, 480)), ("a.tiff", None, (640, 480)),
    ):  # fmt: skip
        smooth(1, 640, 480).save(tmp_path / name)
        kind, _, data = image_url(tmp_path / name, most).partition(";base64,")
        content = acts.base64.b64decode(data)
        unchanged = name in {"a.png", "a.jpg"} and most != 100
        assert kind == ("data:image/png" if unchanged and name == "a.png" else "data:image/jpeg")
        image = Image.open(io.BytesIO(content))
        assert (image.size, image.format) == (size, kind.rpartition("/")[2].upper())
        assert (content == (tmp_path / name).read_bytes()) is unchanged


def test_what_is_no_image_is_not_sent(server, ask, requests, tmp_path):
    (tmp_path / "secret.jpg").write_text("root:x:0")
    url = partial(image_url, tmp_path / "secret.jpg", None)
    fails(url, "not an image that can be read", helps=False)
    broken = [requests[0], replace(requests[1], image=tmp_path / "secret.jpg"), requests[2]]
    _fails(lambda: ask(broken), "1 of 3 requests failed: 2/0", "secret.jpg")
    assert len(server.asked) == 2


# thinking, and fields that are refused


@pytest.mark.parametrize("apart", [True, False])
def test_thinking_is_given_room_to_end(server, ask, apart):
    server.always = acts.thinks(3000, apart=apart)
    replies = ask(kept=16384)
    assert {reply.answer.rpartition(">")[2] for reply in replies} == {"Yes"}
    assert {reply.reasoning is not None for reply in replies} == {apart}
    # the first request is sent twice; after it the server is known to think
    assert [body["max_tokens"] for body in server.asked] == [16, *[16384] * 6]


def test_thinking_without_end_and_a_given_length_are_kept(server, ask, requests):
    server.always = acts.thinks(10**5)
    (reply,) = ask(requests[:1], kept=100)
    assert (reply.answer, reply.reasoning[:9]) == ("", "No, wait.")
    assert answers(ask(requests[1:2]))[1:] == [""]
    assert [body["max_tokens"] for body in server.asked] == [16, 100, 16]


@pytest.mark.parametrize(
    ("text", "finish", "describe", "sent"),
    [
        ("The image shows a street with", "length", False, [16, 16384, 16, 16384]),
        ("Yes, the image shows a street", "length", False, [16, 16]),
        ("The image shows a street.", "stop", False, [16, 16]),
        ("A street with", "length", True, [128, 128]),
        ("", "length", True, [128, 16384, 128, 16384]),
    ],
)
def test_replies_without_an_answer_are_asked_for_again(
    server, ask, requests, text, finish, describe, sent
):
    server.always = sends(acts.reply(text, finish=finish))
    fields = request_fields("m", describe=describe)
    assert answers(ask(requests[:2], fields, kept=16384)) == [text] * 2
    assert [body["max_tokens"] for body in server.asked] == sent


NOT_ALLOWED = "You are not allowed to request {} from this model"


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("logprobs", "unknown field", 400),
        ("logprobs", "Logprobs is not enabled for this model", 400),
        ("top_logprobs", "top_logprobs is not supported", 400),
        ("temperature", "'temperature' does not support 0", 400),
        ("max_tokens", "'max_tokens': use 'max_completion_tokens'", 400),
        ("top_logprobs", NOT_ALLOWED, 403),
        ("temperature", NOT_ALLOWED, 404),
        ("max_tokens", NOT_ALLOWED, 501),
    ],
)
def test_fields_that_a_server_refuses_are_left_out(server, ask, name, message, code):
    server.always = refuses_field(name, message.format(name), says("Yes"), code)
    assert answers(ask()) == ["Yes"] * 6
    assert len(server.asked) == 7
    absent = {"logprobs", "top_logprobs"} if "logprobs" in name else {name}
    for body in server.asked[1:]:
        left = {field: value for field, value in body.items() if field != "messages"}
        assert left == {k: v for k, v in FIELDS.items() if k not in absent}


@pytest.mark.parametrize(
    "error",
    [
        {"error": "Validation error: `top_n_tokens` must be <= 5", "error_type": "validation"},
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


def test_fields_are_kept_where_leaving_them_out_does_not_help(server, ask):
    server.acts = [says("Yes"), refuses(400, "this image"), refuses(400, "this image")]
    _fails(ask, "answers 400 Bad Request: this image")
    assert "logprobs" in server.asked[-1]


# failures


@pytest.mark.parametrize(
    ("act", "waited", "pauses"),
    [
        (refuses(429, Retry_After="30"), 30, 6),
        (refuses(503, Retry_After="900"), 600, 6),
        (refuses(500), 1, 1),
        (refuses(408), 1, 1),
        (sends(b'{"error": {"code": 429, "message": "slow down"}, "choices": null}'), 1, 1),
    ],
)
def test_a_busy_server_is_asked_again(server, ask, waits, act, waited, pauses):
    server.acts = [act]
    assert answers(ask()) == ["Yes"] * 6
    assert len(server.asked) == 7
    # a pause holds for all, and the time that it is measured by does not pass here
    assert waits[0] == pytest.approx(waited, abs=2 if pauses > 1 else 0)
    assert len(waits) == pauses


DATES = ["Fri, 31 Dec 99999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2300", "soon", "-5"]
DATES += ["Sat, 01 Jan 2000 00:00:00 +99999999999999999999", "Sat, 01 Jan 0001 00:00:00 +1200"]


def test_odd_dates_of_a_busy_server(server, ask, waits):
    server.acts = [refuses(503, Retry_After=after) for after in DATES]
    assert answers(ask(attempts=9)) == ["Yes"] * 6
    assert all(0 <= seconds <= 601 for seconds in waits)


def test_waits_double_with_jitter():
    waits, leasts = [], [2, 4, 8, 9, 9]
    patience = Patience(backoff=2, longest=9, jitter=0.5, wait=waits.append)
    for failures in range(1, 6):
        patience.before_attempt(failures, None)
    spread = {waited / least for waited, least in zip(waits, leasts, strict=True)}
    assert len(spread) > 1
    assert all(1 <= part <= 1.5 for part in spread)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (refuses(500), "answers 500 Internal Server Error"),
        (refuses(429), "answers 429 Too Many Requests"),
        (acts.hangs_up, "Connection aborted"),
        (sends(b'{"choices": [{"mess'), 'sends no chat completion: {"choices": [{"mess'),
        (sends(b"\xff\xfe"), "sends no chat completion"),
        (sends(b"[" * 100_000), "sends no chat completion"),
        (sends(b'{"error": {"message": "out of\\u001b[2J"}}'), r"completion: out of\x1b[2J"),
        (sends(b'{"error": "no \\/ memory"}'), "completion: no / memory"),
        (acts.cuts, "Connection broken"),
    ],
)
def test_single_failures_are_named_after_all_others_were_asked(
    server, ask, requests, tmp_path, act, reason
):
    server.acts = [says("No"), act, act, act]
    text = _fails(ask, "1 of 6 requests failed: 2/0: ", reason, "(tried 3 times)")
    assert server.url in text
    assert "to ask only what has no reply" in text
    assert len(server.asked) == 8
    # the same again asks only what failed
    assert answers(ask()) == ["No", *["Yes"] * 5]
    assert server.questions[8:] == ["Is there a 2?"]
    assert (tmp_path / "work" / "replies.jsonl").read_text().count("\n") == 6


def test_requests_that_fail_may_stay_unanswered(server, ask):
    server.acts = [says("No"), *[refuses(500)] * 3]
    keys = [reply.key for reply in ask(allow_unanswered=True)]
    assert keys == ["1/0", *(f"{n}/0" for n in range(3, 7))]


def endless(start, piece):
    """A reply that goes on without end: in its body, its headers, or responses before it."""

    def act(handler):
        handler.wfile.write(start)
        while not handler.server.over.wait(0.02):
            handler.wfile.write(piece)
            handler.wfile.flush()

    return act


@pytest.mark.parametrize(
    "act",
    [
        acts.hangs,
        endless(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        endless(b"HTTP/1.1 200 OK\r\n", b"X-Wait: 1\r\n"),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_the_deadline_covers_the_whole_reply(server, ask, requests, act):
    server.acts = [says("No"), act]
    started = time.monotonic()
    late = "1 of 2 requests failed: 2/0: sent no complete reply within 0.3 s"
    _fails(lambda: ask(requests[:2], attempts=1, read=0.3), late)
    assert time.monotonic() - started < 5


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


def test_an_error_about_the_model_lists_those_of_the_server(server, ask):
    server.always = refuses(404, "The model `m` does not exist.")
    server.models = [{"id": "llava-7b"}, {"id": "q", "name": "Qwen\x1b"}, {"id": "z", "name": "z"}]
    _fails(ask, r"allowed: models of this server: llava-7b, q (Qwen\x1b), z")


def test_a_server_is_given_up_after_8_failures_in_a_row(server, ask, many):
    server.always = refuses(400, "m is not a multimodal model")
    _fails(lambda: ask(many, {"model": "m"}), "is not a multimodal model")
    assert len(server.asked) == 8
    server.always = refuses(403, "this key may not use m")
    _fails(lambda: ask(many[:6]), "answers 403 Forbidden: this key may not use m")
    assert len(server.asked) == 8 + 6
    server.acts, server.always = [says("Yes")], refuses(502)
    _fails(lambda: ask(many, attempts=2), "502 Bad Gateway (tried 2 times)")
    assert len(server.asked) == 14 + 1 + 8 * 2
    # an answering server may refuse as many single ones as it likes
    server.acts, server.always = [], refuses(400, "the image is too large")
    _fails(lambda: ask(many, {"model": "m"}), "99 of 100 requests failed")
    assert len(server.asked) == 31 + 99
    # those in between have replies
    server.acts, server.always = [*[refuses(500)] * 5, says("Yes"), *[refuses(500)] * 5], says("No")
    _fails(lambda: ask(many, attempts=1), "10 of 100 requests failed")


def test_no_server(server, ask, waits, monkeypatch):
    with chatting() as gone:
        url = gone.url
    monkeypatch.setattr(type(server), "url", url)
    _fails(ask, "6 of 6 requests failed: 1/0: ", "refused (tried 3 times)", url)
    assert waits == [1, 2] * 6


# the key


def test_an_answer_that_echoes_the_key_is_masked(server, ask, requests, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.acts = [says(f"Yes. Authorization: Bearer {KEY}")]
    assert answers(ask(requests[:1])) == ["Yes. Authorization: Bearer ***"]
    assert KEY not in (tmp_path / "work" / "replies.jsonl").read_text()
    # a word is no secret, and an answer is not changed by it
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    server.acts = [says("Yes, the road is EMPTY")]
    assert answers(ask(requests[1:2]))[-1] == "Yes, the road is EMPTY"


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


# how many at a time


def test_requests_at_a_time_are_bounded(server, ask, many):
    full = threading.Barrier(4)

    def act(handler):
        full.wait(HANGS)
        says("Yes")(handler)

    server.always = act
    assert len(ask(many[:40], concurrency=4)) == 40
    assert server.most == 4


class Clock:
    """Time that passes only by waiting."""

    now = 100.0

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


def test_threads_share_a_rate_limit(ask, waits):
    rate = RateLimit(2.0, waits.append, Clock())
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: rate.take(), range(5)))
    assert sorted(waits) == [2, 4, 6, 8]
    waits.clear()
    ask(rate_limit=0.01)
    assert waits == [pytest.approx(6000 * n, rel=0.01) for n in range(1, 6)]


# what is kept


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


def test_work_that_is_given_up_keeps_what_was_asked(server, ask, many, tmp_path):
    replies = endpoint_replies(
        many, FIELDS, Endpoint(server.url, "m", concurrency=4), tmp_path / "work"
    )
    next(replies)
    replies.close()
    assert len(server.asked) < 100
    assert len(ask(many)) == 100
    assert len(server.asked) == 100
