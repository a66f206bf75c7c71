"""``nooch captions``."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from nooch.cli import option_parsing as shared
from nooch.cli.terminal_output import hint, print_json, print_shown, progress, say
from nooch.display import printable
from nooch.errors import check_one_of
from nooch.files import check_output_file

__all__ = ["captions_command"]


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
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Score captions: how often they mention absent objects. With and without their context."""
    from nooch.captions import CaptionOptions, score_captions
    from nooch.challenge import load_suite
    from nooch.report import RESULT_ENDINGS, as_json, save_scores

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
        baseline=baseline,
    )
    with progress() as update:
        scores = score_captions(load_suite(suite), captions, options=options, progress=update)
    if out is not None:
        save_scores(scores, out, overwrite=overwrite)
    if format is shared.Format.json:
        print_json(as_json(scores))
        return
    print_shown(scores.tables)
    for line in scores.notes:
        say(printable(line))
    if out is not None:
        hint(f"{out}: {len(scores.table):,} values")
