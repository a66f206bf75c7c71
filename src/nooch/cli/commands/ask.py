"""``nooch ask`` and ``nooch captions``: what a model says about images, in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.errors import ParameterError
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal import hint, note, print_json, print_result, print_shown, progress, say

if TYPE_CHECKING:
    from nooch.inference.endpoint import Endpoint


def ask_command(
    suite: Path = shared.SuiteArgument,
    model: str = Option(
        ..., help="Hub id or folder: an image-text-to-text model such as LLaVA; or --endpoint's."
    ),
    out: Path = Option(..., metavar="ANSWERS", help="File to write: .parquet."),
    images: Path = shared.ImagesOption,
    range: str = shared.RangeOption,
    dataset: str = shared.DatasetOption,
    questions: Path = Option(None, help="Ask these, from nooch export, in place of drawn ones."),
    per_set: str = shared.PerSetOption,
    template: str = shared.TemplateOption,
    seed: int = shared.QuestionSeedOption,
    criterion: list[str] = shared.CriterionOption,
    tasks: str = shared.TasksOption,
    splits: str = Option(None, "--split", help="Splits, separated by commas; test by default."),
    prompts: Path = Option(None, help="YAML list of templates: several phrasings, averaged."),
    describe: bool = Option(False, "--describe", help="Ask for captions, for nooch captions."),
    max_tokens: int = Option(
        None, min=1, help="Length of a reply: 1 token for yes or no (16 of a server), 128 else."
    ),
    batch: int = Option(8, min=1, help="Requests in a batch."),
    device: str = shared.DeviceOption,
    precision: str = Option("auto", help="float32, bf16, or auto: bf16 on a GPU."),
    engine: str = shared.EngineOption,
    endpoint: str = Option(
        None, help="URL of an OpenAI-compatible server with the model; images are sent there."
    ),
    api_key_env: str = Option("OPENAI_API_KEY", help="Environment variable with its key, if any."),
    concurrency: int = Option(8, min=1, help="Requests to the server at a time."),
    rate_limit: float = Option(None, help="Requests per minute; no limit by default."),
    timeout: float = Option(60, help="Seconds for one reply of the server."),
    max_side: int = Option(None, min=1, help="Pixels to which the server's images are reduced."),
    allow_unanswered: bool = Option(
        False, "--allow-unanswered", help="Continue without replies that the server failed to give."
    ),
    dry_run: bool = Option(False, "--dry-run", help="Count questions and images; ask nothing."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Ask a vision-language model about the images of a suite. For nooch evaluate."""
    from nooch.base.yaml_files import read_yaml_list
    from nooch.inference.ask import ask
    from nooch.inference.endpoint import Endpoint
    from nooch.inference.requests import AskOptions, plan_requests

    options = AskOptions(
        **shared.question_options(per_set, template, seed),
        criteria=criterion,
        tasks=shared.split_names(tasks),
        splits=shared.split_names(splits),
        questions=questions,
        prompts=() if prompts is None else read_yaml_list(prompts),
        describe=describe,
        max_tokens=max_tokens,
        images=images,
        range=shared.parse_range(range),
        device=device,
        precision=precision,
        batch=batch,
        overwrite=overwrite,
    )
    served = {"rate_limit": rate_limit, "max_side": max_side, "allow_unanswered": allow_unanswered}
    for name, value in served.items() if endpoint is None else [("engine", engine)]:
        if value:
            problem = (
                f"`{name}` has no effect {'without' if endpoint is None else 'with'} `endpoint`"
            )
            raise ParameterError(problem, remedy="leave it out")
    sending = api_key_env, concurrency, rate_limit, timeout, max_side, allow_unanswered
    server = None if endpoint is None else Endpoint(endpoint, *sending)
    if dry_run:
        _print_counts(plan_requests(suite, dataset, options).facts, server, format)
        return
    logs, places = None if engine is None else logs_of(out), dict[str, Any]()
    if engine is not None:
        from nooch.base.engines import engine as engine_of
        from nooch.models.devices import choose_device

        # a GPU serves one job at a time
        workers = engine_of(engine, logs, gpus=int(choose_device(device) != "cpu"))
        places = {"map": workers.map, "threads": workers.threads}
    if server is not None:
        note(f"the images are sent over the network to {server.address}")
    places |= {"model": model, "endpoint": server, "options": options, "data": dataset}
    with progress() as update:
        asked = ask(suite, out, progress=update, **places)
    note(*asked.notes)
    done = {"out": str(out), "rows": asked.frame.height, **asked.made, "notes": asked.notes}
    contents = counted(asked.frame.height, "caption" if describe else "answer")
    following = f"nooch {'captions' if describe else 'evaluate'} {suite} {out}"
    print_result(format, done, f"{out}: {contents} by {asked.made['model']}", following)


def _print_counts(facts: Mapping[str, int], server: Endpoint | None, format: shared.Format) -> None:
    """What would be asked, and sent."""
    from nooch.base.work_folder import size_in_words

    numbers = [counted(facts[name], name[:-1]) for name in ("questions", "images", "requests")]
    size, sent = size_in_words(facts["bytes"]), size_in_words(facts["bytes_sent"])
    sends = "" if server is None else f", {sent} would be sent to {server.address}"
    print_result(format, facts, f"{', '.join(numbers)}; the image files have {size}{sends}")


def captions_command(
    suite: Path = shared.SuiteArgument,
    captions: list[Path] = Argument(
        ..., metavar="CAPTIONS...", help="Files of captions of one or several models."
    ),
    out: Path = Option(None, help="File of scores: .parquet, .csv or .json."),
    synonyms: str = Option("coco", help="coco (its 80 things), or a YAML file of words by task."),
    split: str = Option(None, help="Splits to score, separated by commas; test by default."),
    criterion: list[str] = shared.CriterionOption,
    tasks: str = shared.TasksOption,
    bootstrap: int = Option(1000, min=0, help="Resamples of the images for 95 % intervals."),
    seed: int = shared.ResamplesSeedOption,
    baseline: str = shared.BaselineOption,
    as_written: bool = Option(
        False,
        "--as-written",
        help='Count objects after "no" or "without", and in a last sentence without an end.',
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Score captions: how often they mention absent objects. With and without their context."""
    from nooch.data.table_files import result_files
    from nooch.evaluation.captions import score_captions
    from nooch.report import as_json, save_scores
    from nooch.suites import load_suite

    if out is not None:
        result_files(out, "scores file", overwrite=overwrite)
    with progress() as update:
        scores = score_captions(
            load_suite(suite),
            captions,
            split=list(dict.fromkeys(shared.split_names(split))) or None,
            criteria=criterion or None,
            tasks=shared.split_names(tasks) or None,
            synonyms=synonyms,
            bootstrap=bootstrap,
            seed=seed,
            baseline=baseline,
            as_written=as_written,
            progress=update,
        )
    if out is not None:
        save_scores(scores, out, overwrite=overwrite)
    if format is shared.Format.json:
        print_json(as_json(scores))
        return
    for line in scores.headlines:
        say(line)
    print_shown(scores.tables)
    note(*scores.notes)
    by_task = "scores and differences by task: nooch captions ... --out FILE, or --format json"
    hint(by_task if out is None else f"{out}: {len(scores.table):,} values")
