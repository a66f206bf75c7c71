"""``nooch ask`` and ``nooch captions``: what a model says about images, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.cli import option_parsing as shared
from nooch.cli.progress_log import logs_of, watched
from nooch.cli.terminal_output import hint, note, print_json, print_result, print_text, progress
from nooch.english import counted
from nooch.errors import check_one_of
from nooch.files import Place, check_output_file

__all__ = ["ask_command", "captions_command"]


def ask_command(
    suite: Path = shared.SuiteArgument,
    model: str = Option(..., help="Hub id or folder: an image-text-to-text model such as LLaVA."),
    out: Path = Option(..., metavar="ANSWERS", help="File to write: .parquet."),
    images: Path = shared.ImagesOption,
    dataset: Place = shared.DatasetOption,
    questions: Path = Option(None, help="Ask these, from nooch export, in place of drawn ones."),
    per_set: str = shared.PerSetOption,
    balance: str = shared.BalanceOption,
    template: str = shared.TemplateOption,
    seed: int = shared.QuestionSeedOption,
    criterion: list[str] = shared.CriterionOption,
    tasks: str = shared.TasksOption,
    splits: str = Option(None, "--split", help="Splits, separated by commas; test by default."),
    prompts: Path = Option(None, help="YAML list of templates: several phrasings, averaged."),
    describe: bool = Option(False, "--describe", help="Ask for captions, for nooch captions."),
    max_tokens: int = Option(
        None, min=1, help="Length of a reply: 1 token for yes or no, 128 for captions."
    ),
    batch: int = Option(8, min=1, help="Requests in a batch."),
    device: str = shared.DeviceOption,
    precision: str = Option("auto", help="float32, bf16, or auto: bf16 on a GPU."),
    engine: str = shared.EngineOption,
    dry_run: bool = Option(False, "--dry-run", help="Count questions and images; ask nothing."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Ask a vision-language model about the images of a suite. For nooch evaluate."""
    from nooch.asking.ask import ask
    from nooch.asking.asked_requests import AskOptions, plan_requests
    from nooch.work_folder import size_in_words
    from nooch.yaml_files import read_yaml_list

    options = AskOptions(
        **shared.question_options(per_set, balance, template, seed),
        criteria=criterion,
        tasks=shared.split_names(tasks),
        splits=shared.split_names(splits),
        questions=questions,
        prompts=() if prompts is None else read_yaml_list(prompts),
        describe=describe,
        max_tokens=max_tokens,
        images=images,
        device=device,
        precision=precision,
        batch=batch,
        overwrite=overwrite,
    )
    if dry_run:
        facts = plan_requests(suite, dataset, options).facts
        numbers = [counted(facts[name], name[:-1]) for name in ("questions", "images", "requests")]
        size = size_in_words(facts["bytes"])
        print_result(format, facts, f"{', '.join(numbers)}; the image files have {size}")
        return
    logs, places = None if engine is None else logs_of(out), dict[str, Any]()
    if engine is not None:
        from nooch.engines import engine as engine_of
        from nooch.models.devices import choose_device

        # a GPU serves one job at a time
        workers = engine_of(engine, logs, gpus=int(choose_device(device) != "cpu"))
        places = {"map": workers.map, "threads": workers.threads}
    with watched(logs) as update:
        asked = ask(
            suite, out, model=model, options=options, data=dataset, progress=update, **places
        )
    note(*asked.notes)
    done = {"out": str(out), "rows": asked.frame.height, **asked.made, "notes": asked.notes}
    contents = counted(asked.frame.height, "caption" if describe else "answer")
    following = f"nooch {'captions' if describe else 'evaluate'} {suite} {out}"
    print_result(format, done, f"{out}: {contents} by {asked.made['model']}", following)


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
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Score captions: how often they mention absent objects. With and without their context."""
    from nooch.captions import CaptionOptions, score_captions
    from nooch.challenge import load_suite
    from nooch.report import RESULT_ENDINGS, write_file

    if out is not None:
        check_one_of("ending of a scores file", out.suffix, RESULT_ENDINGS)
        check_output_file(out, overwrite=overwrite)
    options = CaptionOptions(
        split=list(dict.fromkeys(shared.split_names(split))) or None,
        criteria=criterion or None,
        tasks=shared.split_names(tasks) or None,
        synonyms=synonyms,
        bootstrap=bootstrap,
        seed=seed,
    )
    with progress() as update:
        scores = score_captions(load_suite(suite), captions, options=options, progress=update)
    if out is not None:
        write_file(out, scores.as_bytes(out.suffix))
    if format is shared.Format.json:
        content = {"settings": dict(scores.settings), "notes": list(scores.notes)}
        print_json({**content, "scores": scores.table.to_dicts()})
        return
    print_text(f"{scores!r}\n")
    if out is not None:
        hint(f"{out}: {len(scores.table):,} values")
