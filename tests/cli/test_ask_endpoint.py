"""nooch ask --endpoint: answers of a server, asked once each whatever interrupts the command."""

import json
import signal
import subprocess
import threading
import time

import chat_server as acts
import numpy as np
import polars as pl
import pytest
from chat_server import chatting_alone, refuses, says, token
from commands import argv
from image_folders import street_suite
from waiting import HANGS, until

KEY = "sk-not-to-be-seen"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite of 24 images of streets, cars and water birds."""
    return street_suite(tmp_path_factory.mktemp("asked"))


@pytest.fixture
def server(monkeypatch):
    with chatting_alone(monkeypatch) as running:
        running.always = said
        yield running


def said(handler):
    """Yes to cars with 0.8 of the probability of both, no to birds with 0.9."""
    question = handler.body["messages"][0]["content"][1]["text"]
    if "car" in question:
        says("Yes.", token("Yes", ("Yes", np.log(0.4)), ("no", np.log(0.1))))(handler)
    else:
        says("No", token("No", (" No", np.log(0.9)), ("Yes", np.log(0.1))))(handler)


@pytest.fixture
def command(folder, server, tmp_path):
    suite = f"{folder / 'suite'} --dataset {folder / 'data'}"
    out = tmp_path / "answers.parquet"
    return f"ask {suite} --endpoint {server.url}/v1 --model m --out {out}"


def test_answers_of_a_server_are_evaluated(run_cli, command, server, folder, tmp_path):
    asked = run_cli(f"{command} --format json").ok()
    assert f"the images are sent over the network to {server.url}/v1/chat/completions" in asked.err
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert asked.json["rows"] == len(frame) == len(server.asked)
    assert {name: asked.json[name] for name in ("model", "endpoint", "max_tokens", "max_side")} == {
        "model": "m",
        "endpoint": f"{server.url}/v1",
        "max_tokens": 16,
        "max_side": None,
    }
    assert sorted(server.questions) == sorted(frame["text"])
    expected = pl.when(pl.col("task") == "car")
    assert frame.select(
        (pl.col("answer") == expected.then(pl.lit("Yes.")).otherwise(pl.lit("No"))).all(),
        ((pl.col("probability") - expected.then(0.8).otherwise(0.1)).abs() < 1e-9).all(),
        ((pl.col("mass") - expected.then(0.5).otherwise(1.0)).abs() < 1e-9).all(),
    ).row(0) == (True, True, True)
    out = tmp_path / "answers.parquet"
    scored = run_cli(f"evaluate {folder / 'suite'} {out} --metrics nll,fpr --format json").ok()
    nll = {
        (row["task"], row["subset"]): row["value"]
        for row in scored.json["scores"]
        if row["metric"] == "nll"
    }
    assert nll["car", "hard_positive"] == pytest.approx(-np.log(0.8))
    assert nll["water_bird", "hard_negative"] == pytest.approx(-np.log(0.9))
    assert [path.name for path in tmp_path.iterdir()] == ["answers.parquet"]


def test_captions_of_a_server(run_cli, command, server, tmp_path):
    server.always = says("A car in a street.")
    run_cli(f"{command} --describe").ok()
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert frame["caption"].unique().to_list() == ["A car in a street."]
    assert "logprobs" not in server.asked[0]
    assert server.asked[0]["max_tokens"] == 128


def test_options_reach_the_server(run_cli, command, server):
    run_cli(f"{command} --max-side 32 --max-tokens 3 --concurrency 2 --per-set 1").ok()
    kind, content = server.image(0)
    assert kind == "image/jpeg"
    assert max(acts.size_of(content)) == 32
    assert server.asked[0]["max_tokens"] == 3
    assert server.most <= 2


def test_a_dry_run_asks_nothing(run_cli, command, server, tmp_path):
    facts = run_cli(f"{command} --dry-run --format json").ok().json
    assert f"would be sent to {server.url}/v1/chat" in run_cli(f"{command} --dry-run").ok().out
    assert not server.asked
    assert not list(tmp_path.iterdir())
    run_cli(command).ok()
    assert facts["requests"] == len(server.asked)
    assert facts["bytes_sent"] == sum(map(server.size_sent, range(len(server.asked))))


def test_failures_end_in_an_error_and_are_asked_again(run_cli, command, server, tmp_path):
    server.acts = [says("Yes"), refuses(422, "no such image"), refuses(422, "no such image")]
    server.acts += [refuses(400, "too large")] * 2
    text = run_cli(f"{command} --concurrency 1").refused(
        "2 of", "requests failed", "422 Unprocessable Entity: no such image", "--allow-unanswered"
    )
    assert "--endpoint, --model" in text
    assert not (tmp_path / "answers.parquet").exists()
    before = len(server.asked)
    run_cli(f"{command} --concurrency 1").ok()
    assert len(server.asked) == before + 2
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert len(frame) == before - 2
    assert frame["answer"].null_count() == 0


def test_failures_may_stay_unanswered(run_cli, command, server, folder, tmp_path):
    server.acts = [says("Yes"), *[refuses(400)] * 2]
    asked = run_cli(f"{command} --concurrency 1 --allow-unanswered").ok()
    assert "no probability for 2 of 48 answers; their text was used" in asked.err
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert frame["answer"].null_count() == 1
    assert frame["probability"].null_count() == 2
    note = run_cli(f"evaluate {folder / 'suite'} {tmp_path / 'answers.parquet'}").ok().err
    assert "1 of" in note


def test_replies_of_another_model_or_wording_are_not_used(run_cli, command, server):
    run_cli(f"{command} --overwrite").ok()
    once = len(server.asked)
    server.acts = [refuses(404)]
    run_cli(f"{command} --overwrite --concurrency 1 --per-set 1").refused("answers 404 Not Found")
    server.asked.clear()
    run_cli(f"{command.replace('--model m', '--model n')} --overwrite").ok()
    assert {body["model"] for body in server.asked} == {"n"}
    assert len(server.asked) == once


def test_replies_of_another_model_are_kept_and_named(run_cli, command, server, tmp_path):
    server.acts = [says("Yes"), *[refuses(400)] * 2]
    run_cli(f"{command} --concurrency 1").refused("1 of 48 requests failed")
    (kept,) = tmp_path.glob(".answers.parquet.asking-*/replies.jsonl")
    paid = kept.read_bytes()
    asked = len(server.asked)
    other = run_cli(command.replace("--model m", "--model n")).ok()
    assert "with other questions or models remain in" in " ".join(other.err.split())
    assert str(kept.parent) in other.err.replace("\n", "")
    assert kept.read_bytes() == paid
    # the first command asks only what it lacks
    before = len(server.asked)
    run_cli(f"{command} --overwrite").ok()
    assert len(server.asked) == before + 48 - (asked - 2)
    assert [path.name for path in tmp_path.iterdir()] == ["answers.parquet"]


def test_one_output_has_one_writer(run_cli, command, server, tmp_path):
    gate = threading.Event()

    def gated(handler):
        gate.wait(HANGS)
        said(handler)

    server.always = gated
    first = subprocess.Popen(argv(command), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until(lambda: server.asked)
    second = run_cli(command.replace("--model m", "--model n"))
    second.refused("another process is writing this file")
    gate.set()
    assert first.wait(HANGS) == 0
    assert {body["model"] for body in server.asked} == {"m"}
    assert [path.name for path in tmp_path.iterdir()] == ["answers.parquet"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_wait_for_headers_without_end(command, server, number):
    def drips(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not handler.server.over.wait(0.05):
            handler.wfile.write(b"X-Wait: 1\r\n")
            handler.wfile.flush()

    server.always = drips
    process = subprocess.Popen(argv(f"{command} --timeout 250"), stderr=subprocess.PIPE)
    until(lambda: len(server.asked) == 8)
    process.send_signal(number)
    started = time.monotonic()
    process.communicate(timeout=HANGS)
    assert process.returncode == 128 + number
    # a second for replies on their way, the end of the process, and what a busy machine takes
    assert time.monotonic() - started < 5


def test_a_model_that_thinks_is_read_by_its_answer(run_cli, command, server, folder, tmp_path):
    """It says Yes to everything, after "No"; probabilities of its reasoning say No."""
    thought = [token(word, ("No", -0.05), ("Yes", -9.2)) for word in ("No", " wheels")]
    yes = token("Yes", ("Yes", -0.01), ("No", -5.0))
    server.always = says("Yes", *thought, token("</think>"), yes, reasoning_content="No wheels")
    run_cli(command).ok()
    score = f"evaluate {folder / 'suite'} {tmp_path / 'answers.parquet'}"
    assert "yes to an absent object: 100.0% [" in run_cli(score).ok().out.splitlines()[0]
    server.always = says("No wheels</think>Yes", *thought, token("</think>"), yes)
    server.acts = [says("No wheels", *thought)] * 20
    cut = run_cli(f"{command} --overwrite").ok()
    assert "20 of 48 answers were cut off while reasoning" in cut.err
    assert "with more --max-tokens" in cut.err
    line = run_cli(score).ok().out.splitlines()[0]
    # those that are cut off may be yes or no
    assert " to 100.0% [" in line
    assert line.endswith("% unknown")


def test_thinking_is_kept_and_a_body_is_another_run(run_cli, command, server, folder, tmp_path):
    server.always = acts.thinks(3000)
    out = tmp_path / "answers.parquet"
    asked = run_cli(f"{command} --no-logprobs --concurrency 1 --format json").ok()
    assert (asked.json["max_tokens"], asked.json["more_tokens"]) == (16, 16384)
    assert "cut off" not in asked.err
    assert len(server.asked) == 49
    assert not any("logprobs" in body for body in server.asked)
    frame = pl.read_parquet(out)
    assert frame["reasoning"].str.starts_with("No, wait.").all()
    # reasoning is no answer
    line = run_cli(f"evaluate {folder / 'suite'} {out}").ok().out.splitlines()[0]
    assert "yes to an absent object: 100.0% [" in line
    server.asked.clear()
    words = [*argv(command), "--overwrite", "--extra-body", '{"reasoning_effort": "low"}']
    subprocess.run(words, check=True, capture_output=True, timeout=HANGS)
    assert {body["reasoning_effort"] for body in server.asked} == {"low"}
    recorded = json.loads(pl.read_parquet_metadata(out)["nooch"])
    assert recorded["reasoning_effort"] == "low"
    words[-1] = '{"api_key": "x"}'
    failed = subprocess.run(words, check=False, capture_output=True, timeout=HANGS)
    assert b"--extra-body: contains a key or a password" in failed.stderr
    assert failed.returncode != 0
    short = run_cli(f"{command} --overwrite --max-tokens 9 --per-set 1").ok()
    assert "answers were cut off while reasoning" in short.err


def test_samples_of_a_server(run_cli, command, server, folder, tmp_path):
    """Yes to seeds below 3, then words that are neither."""

    def act(handler):
        seed = handler.body["seed"]
        says("Yes." if seed < 3 else "No." if seed < 9 else "It is dark.")(handler)

    server.always = act
    asked = run_cli(f"{command} --sample 10 --temperature 0.7 --per-set 1").ok()
    assert {(body["temperature"], "logprobs" in body) for body in server.asked} == {(0.7, False)}
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert frame["sample"].to_list() == [*range(10)] * (len(frame) // 10)
    row = [*[1.0] * 3, *[0.0] * 6, pytest.approx(1 / 3)]
    assert frame["probability"].to_list() == row * (len(frame) // 10)
    n = len(frame) // 10
    assert f"the 10 samples disagree on {n} of {n} questions (100.0%)" in asked.err
    scored = run_cli(
        f"evaluate {folder / 'suite'} {tmp_path / 'answers.parquet'} --metrics brier --format json"
    ).ok()
    sides = {row["subset"]: row["value"] for row in scored.json["scores"] if row["value"]}
    assert sides["hard_negative"] == pytest.approx(1 / 9)
    # a server without seeds is asked without them
    server.asked.clear()
    server.always = acts.refuses_field("seed", "seed is not supported", says("No"))
    run_cli(f"{command} --sample 2 --per-set 1 --overwrite --concurrency 1").ok()
    assert ["seed" in body for body in server.asked] == [True, *[False] * (2 * n)]


def test_captions_after_thinking(run_cli, command, server, folder, tmp_path):
    server.always = acts.thinks(3000)
    run_cli(f"{command} --describe").ok()
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert frame.columns == ["image_id", "text", "prompt", "caption", "reasoning"]
    assert set(frame["caption"]) == {"Yes"}
    words = tmp_path / "words.yaml"
    words.write_text("mentions: {car: [wait], water_bird: [bird]}\n")
    said = run_cli(
        f"captions {folder / 'suite'} {tmp_path / 'answers.parquet'} --synonyms {words}"
    ).ok()
    assert "0.0% [" in said.out.splitlines()[0]


def test_a_killed_command_asks_no_question_twice(command, server, tmp_path):
    words = argv(f"{command} --concurrency 1")
    gate = threading.Semaphore(0)

    def gated(handler):
        gate.acquire()
        said(handler)

    server.always = gated
    for kill in (signal.SIGKILL, signal.SIGKILL):
        before = len(server.asked)
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        gate.release(3)
        until(lambda before=before: len(server.asked) == before + 4)
        process.send_signal(kill)
        assert process.wait(HANGS) == -kill
        # the request that was not answered
        gate.release()
        until(lambda: server.here == 0)
        server.asked.pop()
    gate.release(10**6)
    subprocess.run(words, check=True, capture_output=True, timeout=HANGS)
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    pairs = [json.dumps(body["messages"]) for body in server.asked]
    assert len(pairs) == len(set(pairs)) == len(frame)


def test_an_interrupt_keeps_what_was_sent(command, server, tmp_path):
    words = argv(f"{command} --concurrency 3")
    gate, waiting = threading.Event(), threading.Semaphore(0)

    def gated(handler):
        waiting.release()
        gate.wait(HANGS)
        said(handler)

    server.always = gated
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    for _ in range(3):
        assert waiting.acquire(timeout=HANGS)
    process.send_signal(signal.SIGINT)
    gate.set()
    _, error = process.communicate(timeout=HANGS)
    assert process.returncode == 130, error
    assert b"Traceback" not in error
    (journal,) = tmp_path.glob(".answers.parquet.asking-*/replies.jsonl")
    assert len(journal.read_bytes().strip().splitlines()) == len(server.asked)
    subprocess.run(words, check=True, capture_output=True, timeout=HANGS)
    assert len(server.asked) == len(pl.read_parquet(tmp_path / "answers.parquet"))


def test_an_interrupt_does_not_wait_for_further_attempts(command, server):
    server.always = acts.hangs
    process = subprocess.Popen(argv(f"{command} --concurrency 3 --timeout 2"))
    until(lambda: len(server.asked) == 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS) == 130
    assert len(server.asked) == 3


def test_the_key_is_sent_and_never_shown_or_kept(run_cli, command, server, tmp_path):
    env = {"MY_KEY": KEY}
    asked = run_cli(f"{command} --api-key-env MY_KEY --format json", env=env).ok()
    server.always = refuses(401, f"Incorrect API key provided: {KEY}.")
    out = tmp_path / "other.parquet"
    failed = run_cli(f"{command} --api-key-env MY_KEY --out {out}", env=env)
    error = failed.refused(
        "401 Unauthorized: Incorrect API key provided: ***.", "the key in MY_KEY"
    )
    assert set(server.keys) == {f"Bearer {KEY}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for content in (asked.out, asked.err, error, *(path.read_bytes() for path in files)):
        assert KEY not in str(content)


@pytest.mark.parametrize(
    ("more", "messages"),
    [
        ("--endpoint ftp://host", ("--endpoint: is not the address of a server", "--api-key-env")),
        ("--endpoint http://me:pw@host/v1", ("without a password or a query",)),
        ("--rate-limit 0", ("--rate-limit: is 0", "above 0")),
        ("--timeout -1", ("--timeout: is -1",)),
        ("--engine local", ("--engine has no effect with --endpoint",)),
    ],
)
def test_bad_options(run_cli, command, server, tmp_path, more, messages):
    assert "pw" not in run_cli(f"{command} {more}").refused(*messages)
    assert not server.asked
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "option",
    ["--max-side 9", "--rate-limit 9", "--allow-unanswered", "--no-logprobs", "--extra-body {}"],
)
def test_options_of_a_server_alone(run_cli, folder, tmp_path, option):
    command = f"ask {folder / 'suite'} --model m --out {tmp_path / 'a.parquet'} {option}"
    run_cli(command).refused(f"{option.split()[0]} has no effect without --endpoint")
