"""nooch ask --to-batch and --from-batch: requests as a file, and its results as answers."""

import base64
import json
import random
import re

import polars as pl
import pytest
from chat_server import chatting_alone, reply, size_of, token
from image_folders import street_suite

from nooch.inference import batch_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite of 24 images of streets, cars and water birds."""
    return street_suite(tmp_path_factory.mktemp("asked"))


@pytest.fixture
def command(folder, tmp_path):
    suite = f"{folder / 'suite'} --dataset {folder / 'data'}"
    return f"ask {suite} --model m --out {tmp_path / 'answers.parquet'}"


def answered(body):
    """What a server replies: the question, so that a mix-up is seen, and a probability."""
    text = body["messages"][0]["content"][1]["text"]
    chance = ("Yes", -0.1 - len(text) / 100), ("No", -3.0)
    return reply(f"Yes. {text}", {"content": [token("Yes", *chance), token(f". {text}")]})


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def result(request, **more):
    body = json.loads(answered(request["body"]))
    response = {"status_code": 200, "request_id": "1", "body": body, **more}
    return {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


@pytest.fixture
def requests(run_cli, command, tmp_path):
    done = run_cli(f"{command} --to-batch {tmp_path / 'requests.jsonl'}").ok()
    assert "requests.jsonl: 48 requests" in done.out.replace("\n", "")
    assert not (tmp_path / "answers.parquet").exists()
    return lines(tmp_path / "requests.jsonl")


@pytest.fixture
def read_back(run_cli, command, tmp_path):
    def run(*files, more=""):
        names = []
        for number, records in enumerate(files):
            names.append(tmp_path / f"results{number}.jsonl")
            names[-1].write_text("\n".join(map(json.dumps, records)))
        given = " ".join(f"--from-batch {name}" for name in names)
        return run_cli(f"{command} {given} {more}")

    return run


def test_a_batch_gives_what_a_server_gives(
    run_cli, command, requests, read_back, tmp_path, monkeypatch
):
    ids = [request["custom_id"] for request in requests]
    assert len({*ids}) == 48
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in ids)
    assert {(request["method"], request["url"]) for request in requests} == {
        ("POST", "/v1/chat/completions")
    }
    assert {request["body"]["max_tokens"] for request in requests} == {4096}
    results = [result(request) for request in requests]
    random.Random(1).shuffle(results)
    made = read_back(results[:20], results[20:]).ok()
    assert "48 answers by m" in made.out
    with chatting_alone(monkeypatch) as server:
        server.always = lambda handler: handler.send(200, answered(handler.body))
        run_cli(f"{command} --endpoint {server.url} --out {tmp_path / 'b.parquet'}").ok()
        sent = sorted(json.dumps(body["messages"]) for body in server.asked)
    assert sent == sorted(json.dumps(request["body"]["messages"]) for request in requests)
    a, b = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("answers", "b"))
    assert a.equals(b)
    assert a["probability"].null_count() == 0
    assert (a["answer"] == "Yes. " + a["text"]).all()


def test_results_that_lack_some_are_completed(run_cli, command, requests, read_back, tmp_path):
    error = {"code": "batch_expired", "message": "not in time"}
    results = [result(request) for request in requests]
    results[3] |= {"response": None, "error": error}
    body = {"error": {"message": "Unsupported value: 'temperature'"}}
    results[4]["response"] = {"status_code": 400, "body": body}
    results[5]["response"]["body"] = {"choices": []}
    text = read_back(results[:-2]).refused("5 of 48 requests have no reply", "no result")
    assert "not in time" in text
    assert "Unsupported value" in text
    assert "--allow-unanswered" in text
    read_back(results[:-2], more="--allow-unanswered").ok()
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert (len(frame), frame["answer"].null_count()) == (48, 5)
    more = tmp_path / "more.jsonl"
    done = read_back(results[:-2], more=f"--overwrite --to-batch {more}").ok()
    assert "more.jsonl: 5 requests" in done.out.replace("\n", "")
    again = lines(more)
    assert {request["custom_id"] for request in again} == {
        requests[number]["custom_id"] for number in (3, 4, 5, 46, 47)
    }
    read_back(results[:-2], [result(request) for request in again], more="--overwrite").ok()
    assert pl.read_parquet(tmp_path / "answers.parquet")["answer"].null_count() == 0


def test_results_that_are_refused(command, requests, read_back, tmp_path):
    results = [result(request) for request in requests]
    for more in ("--template Any?{task}", "--max-side 9", "--no-logprobs", "--max-tokens 9"):
        read_back(results, more=more).refused(
            "48 results of other requests", "the requests were written"
        )
    read_back(results, results[:1]).refused("a second time", "each once")
    read_back(requests).refused("record 1 has no custom_id or no response")
    read_back([{"custom_id": 3, "response": None}]).refused("1 result of other requests: 3")
    (tmp_path / "broken.jsonl").write_text('{"custom_id"')
    read_back(results[:2], more=f"--from-batch {tmp_path / 'broken.jsonl'}").refused("is not JSON")
    read_back(results, more=f"--from-batch {tmp_path / 'none.jsonl'}").refused("none.jsonl")
    assert not (tmp_path / "answers.parquet").exists()


def test_large_batches_have_several_files(run_cli, command, tmp_path, monkeypatch):
    whole = tmp_path / "whole.jsonl"
    run_cli(f"{command} --to-batch {whole}").ok()
    run_cli(f"{command} --to-batch {whole}").refused("exists already")
    run_cli(f"{command} --to-batch {tmp_path / 'a.json'}").refused("ending of a file of requests")
    most = max(map(len, whole.read_bytes().splitlines(keepends=True)))
    for name, limits in (("n", (20, 10**9)), ("b", (10**9, 7 * most))):
        monkeypatch.setattr(batch_files, "_MOST_REQUESTS", limits[0])
        monkeypatch.setattr(batch_files, "_MOST_BYTES", limits[1])
        done = run_cli(f"{command} --to-batch {tmp_path / f'{name}.jsonl'} --format json").ok()
        files = [tmp_path / f"{name}.jsonl", *tmp_path.glob(f"{name}-*.jsonl")]
        assert {str(file): len(lines(file)) for file in files} == done.json["files"]
        assert len(files) == (3 if name == "n" else -(-48 // 7))
        assert all(len(lines(file)) <= limits[0] for file in files)
        assert all(file.stat().st_size <= limits[1] for file in files)
        order = [f"{name}.jsonl", *(f"{name}-{n}.jsonl" for n in range(2, 1 + len(files)))]
        files = [tmp_path / part for part in order]
        assert b"".join(file.read_bytes() for file in files) == whole.read_bytes()


def test_options_of_batches(run_cli, command, tmp_path):
    file = tmp_path / "r.jsonl"
    more = "--max-side 32 --no-logprobs --describe --prompts p.yaml"
    (tmp_path / "p.yaml").write_text("- What is this?\n- Describe it.\n")
    run_cli(f"{command} --to-batch {file} {more}").ok()
    body = lines(file)[0]["body"]
    assert body["max_tokens"] == 128
    assert "logprobs" not in body
    url = body["messages"][0]["content"][0]["image_url"]["url"]
    assert max(size_of(base64.b64decode(url.partition(";base64,")[2]))) == 32
    assert len(lines(file)) == 48
    for option in ("--endpoint http://a", "--rate-limit 9", "--engine local"):
        refused = run_cli(f"{command} --to-batch {file} {option}")
        refused.refused(f"{option.split()[0]} has no effect with --to-batch")
