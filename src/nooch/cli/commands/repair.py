"""``nooch weights``: what follows from the context that misleads a model."""

from pathlib import Path

from typer import Option

from nooch.cli import option_parsing as shared
from nooch.cli.terminal_output import hint, print_json, print_table
from nooch.english import counted
from nooch.errors import check_one_of
from nooch.files import Place, check_output_file, replace_file

__all__ = ["weights_command"]


def weights_command(
    dataset: Place = shared.DatasetArgument,
    task: str = Option(..., help="A class."),
    out: Path = Option(..., help="File to write: .parquet or .csv."),
    method: str = Option("environment-undersample", help="Or label-reweight, subg, ..."),
    alpha: float = Option(1.0, help="0 for no effect, 1 for groups of equal weight."),
    cues: str = Option(None, help="Given cues, such as car=road; the strongest by default."),
    attribute: str = Option(None, help="A column with two values, in place of the cue."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Weigh images by label or environment. For a training loop of any kind."""
    from nooch.criteria import CE
    from nooch.data.data_files import parquet_bytes
    from nooch.training.sample_weights import sample_weights

    check_output_file(out, overwrite=overwrite)
    kind = check_one_of("file ending", out.suffix.lower(), (".parquet", ".csv"))
    weights = sample_weights(
        dataset,
        task,
        method,
        alpha=alpha,
        criterion=CE(cues=shared.parse_cues(cues)),
        attribute=attribute,
    )
    replace_file(out, weights.write_csv().encode() if kind == ".csv" else parquet_bytes(weights))
    groups = weights.group_by("split", "label", "environment", "weight").len("images")
    shown = groups.sort("split", "label", "environment")
    if format is shared.Format.json:
        print_json({"weights": str(out), "groups": shown.to_dicts()})
        return
    print_table(f"{task}, {method}", shown.columns, shown.rows(), left=3)
    hint(f"{out}: {counted(len(weights), 'image')}")
