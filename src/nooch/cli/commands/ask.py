"""``nooch ask`` and ``nooch captions``: a model's answers about images, in words."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.errors import check_idle
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.gate import check_junit, conditions_json, end_if_met
from nooch.cli.progress_log import logs_of
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, say, show_progress

if TYPE_CHECKING:
    from nooch.inference.endpoint import Endpoint


@takes("nooch.inference.ask:ask", per_set={"type": str})
@takes("nooch.inference.local_model:LocalModel", "local", leave=["threads"])
@takes("nooch.inference.batch_files:Batch", "batching")
@takes("nooch.inference.endpoint:Endpoint", "serving", leave=["url"], group="With --endpoint")
def ask_command(
    settings: Any,
    local: Any,
    batching: Any,
    serving: Any,
    suite: Path = shared.SuiteArgument,
    model: str = Option(
        ..., help="Hub id or folder of an image-text-to-text model such as LLaVA; or a model of"
                  " --endpoint."
    ),
    out: Path = Option(..., metavar="ANSWERS", help="File to write: .parquet."),
    endpoint: str = Option(
        None,
        metavar="URL",
        help="Address of a server of OpenAI's protocol that has the model; the images are sent"
        " there. By default the model runs on this machine.",
    ),
    prompts: Path = Option(None, help="YAML list of templates: several phrasings, averaged."),
    engine: str = shared.EngineOption,
    dry_run: bool = Option(False, "--dry-run", help="Count questions and images; ask nothing."),
) -> Output:  # fmt: skip
    """Ask a vision-language model about the images of a suite. nooch evaluate scores them."""
    from nooch.base.yaml_files import read_yaml_list
    from nooch.inference.ask import ask
    from nooch.inference.batch_files import Batch
    from nooch.inference.local_model import LocalModel
    from nooch.inference.requests import Answerer, plan_requests

    settings["per_set"] = shared.parse_per_set(settings["per_set"])
    settings["prompts"] = () if prompts is None else read_yaml_list(prompts)
    in_batch = next(iter(batching), None)
    server = _server(endpoint, model, serving, in_batch, engine)
    if dry_run:
        usual = {n: p.default for n, p in signature(ask).parameters.items()}
        planned = {n: settings.get(n, usual[n]) for n in [*signature(plan_requests).parameters][2:]}
        facts = plan_requests(suite, settings.get("data"), **planned).facts
        yield facts
        say(_counts(facts, None if in_batch else server))
        return
    places: dict[str, Any] = {}
    if engine is not None:
        from nooch.base.engines import engine as engine_of
        from nooch.models.devices import choose_device

        # a GPU serves one job at a time
        workers = engine_of(engine, logs_of(out), gpus=int(choose_device(local["device"]) != "cpu"))
        places = {"map": workers.map, "threads": workers.threads}
    if server is not None and not in_batch:
        note(f"the images are sent over the network to {server.address}")
    answerer: Answerer
    if server is None:
        answerer = LocalModel(model, **places, **local)
    else:
        answerer = Batch(server, **batching) if in_batch else server
    replies = ask(suite, answerer, out, progress=show_progress, **settings)
    rows, made = replies.frame.height, replies.made
    note(*replies.notes)
    yield {"out": str(out), "rows": rows, **made, "notes": replies.notes}
    if "to_batch" in batching:
        for file, number in made["files"].items():
            say(f"{file}: {counted(number, 'request')}")
        if not made["files"]:
            say("nothing to ask")
        hint(f"next: nooch ask {suite} ... --from-batch RESULTS.jsonl --out {out}")
        return
    kind, verb = ("caption", "captions") if settings.get("describe") else ("answer", "evaluate")
    say(f"{out}: {counted(rows, kind)} by {made['model']}")
    hint(f"next: nooch {verb} {suite} {out}")


def _server(
    url: str | None,
    model: str,
    serving: Mapping[str, Any],
    in_batch: str | None,
    engine: str | None,
) -> Endpoint | None:
    """The server to ask, or for which a batch is. Raises ParameterError: options without effect."""
    from nooch.inference.batch_files import BATCH_URL
    from nooch.inference.endpoint import Endpoint

    mode = in_batch or (None if url is None else "endpoint")
    local = ["rate_limit", "max_side", "allow_unanswered", "logprobs", "extra_body"]
    idle = {name: serving.get(name) for name in ([] if mode else local)}
    idle |= {"engine": engine if mode else None}
    if in_batch:
        idle |= {"endpoint": url, "rate_limit": serving.get("rate_limit")}
    check_idle(idle, f" with `{mode}`" if mode else " without `endpoint`")
    return Endpoint(url or BATCH_URL, model, **serving) if mode else None


def _counts(facts: Mapping[str, int], server: Endpoint | None) -> str:
    """Numbers that a dry run would ask and send, as a sentence."""
    from nooch.base.work_folder import size_in_words

    numbers = [counted(facts[name], name[:-1]) for name in ("questions", "images", "requests")]
    size, sent = size_in_words(facts["bytes"]), size_in_words(facts["bytes_sent"])
    sends = "" if server is None else f", {sent} would be sent to {server.address}"
    return f"{', '.join(numbers)}; the image files have {size}{sends}"


@takes("nooch.evaluation.captions:score_captions", whole=["fail_if"], synonyms={"type": str})
def captions_command(
    settings: Any,
    suite: Path = shared.SuiteArgument,
    captions: list[Path] = Argument(
        ..., metavar="CAPTIONS...", help="Files of captions of one or several models."
    ),
    out: Path = Option(None, help="File of scores: .parquet, .csv or .json."),
    overwrite: bool = shared.OverwriteOption,
    junit: Path = shared.JunitOption,
) -> Output:
    """Score captions: how often they mention absent objects. Compares images with and without
    context.
    """
    check_junit(junit, {**settings, "overwrite": overwrite})
    from nooch.data.table_files import result_files
    from nooch.evaluation.captions import score_captions
    from nooch.report import as_json, save_scores

    if out is not None:
        result_files(out, "scores file", overwrite=overwrite)
    scores = score_captions(suite, captions, progress=show_progress, **settings)
    if out is not None:
        save_scores(scores, out, overwrite=overwrite)
    conditions = conditions_json(scores.verdicts, junit)
    yield {**as_json(scores), **conditions}
    for line in scores.headlines:
        say(line)
    print_results(scores.tables)
    note(*scores.notes)
    by_task = "scores and differences by task: nooch captions ... --out FILE, or --format json"
    hint(by_task if out is None else f"{out}: {len(scores.table):,} values")
    end_if_met(conditions)


@takes("nooch.analysis.leaderboard:leaderboard", whole=["fail_if"], synonyms={"type": str})
def leaderboard_command(
    settings: Any,
    folder: Path = Argument(..., metavar="FOLDER", help="A folder for each model."),
    suite: Path = Option(..., metavar="SUITE", help="The suite that the models were asked about."),
    out: Path = Option(..., help="Folder to write; it must not exist."),
    junit: Path = shared.JunitOption,
) -> Output:
    """Rank models by their answers about a suite. Writes one page that opens from disk."""
    check_junit(junit, settings)
    from nooch.analysis.leaderboard import leaderboard
    from nooch.evaluation.context_changes import changes_tables

    board = leaderboard(folder, suite=suite, out=out, progress=show_progress, **settings)
    conditions = conditions_json(board.verdicts, junit)
    note(*board.notes)
    yield {**board.as_json(), **conditions}
    say(board.sentence)
    for change in board.changes:
        say(change.sentence)
    print_results([board.display, *changes_tables(board.changes)])
    hint(f"page: {out / 'index.html'}")
    end_if_met(conditions)
