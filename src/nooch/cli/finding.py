"""``nooch find`` and ``nooch embed``."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import typer

from nooch.challenge import load_suite, save_suite
from nooch.challenge.store import MARKER
from nooch.cli.output import Format, FormatOption, console, note, print_json, progress
from nooch.cli.parsing import parse_cues, split_names
from nooch.cli.tables import print_counts
from nooch.criteria import (
    CE,
    FITTED,
    PRESETS,
    Attribute,
    Combination,
    Criterion,
    Fitted,
    Gist,
    fitted_from_json,
    is_combination,
    preset,
)
from nooch.data import load_dataset
from nooch.data.folders import check_output
from nooch.errors import ParameterError, check_one_of
from nooch.study import find, summary, with_embedding

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("find")(find_command)
    app.command("embed")(embed_command)


def find_command(
    dataset: Path = typer.Argument(..., metavar="DATASET", help="Dataset folder."),
    out: Path = typer.Option(..., "--out", help="Suite folder to write; it must not exist."),
    criterion: list[str] = typer.Option(
        ["ce"], "--criterion", help="ce, gist, attribute, a combination such as 'ce & gist', or your own package.module:Name."
    ),
    alpha: float = typer.Option(0.05, help="ce: a cue's mean area beyond the class's own, a fraction of the image."),
    beta: float = typer.Option(0.1, help="ce: the area of cues that tells present from absent context."),
    cues: str = typer.Option(None, help="ce: cues given by hand, such as car=road,cup=person+dining_table."),
    encoder: str = typer.Option(None, help="gist: encoder name or folder, an embedding of the dataset, or a file of embeddings."),
    tau: float = typer.Option(None, help="gist: threshold on the cosine, instead of --match."),
    match: str = typer.Option(None, help="Criterion whose counts of hard images the others match."),
    phi: str = typer.Option(None, help="attribute: expression that is true out of context, such as 'place != y'."),
    phi_preset: str = typer.Option(None, "--preset", help=f"attribute: {', '.join(PRESETS)} (the paper's Table 1)."),
    columns: str = typer.Option(None, help="attribute: columns of the preset, where yours have other names."),
    values: Path = typer.Option(None, help="attribute: file of values for the preset, one in each line."),
    tasks: str = typer.Option("all", help="all, nooch (the paper's 12), or classes separated by commas."),
    splits: str = typer.Option(None, help="Splits to find in; by default valid and test, or all."),
    fitted: Path = typer.Option(None, help="Suite whose fitted criteria are used instead of fitting anew."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a suite folder that exists."),
    format: Format = FormatOption,
) -> None:
    """Find the challenge sets of a dataset."""
    check_output(out, overwrite=overwrite, marker=MARKER)
    data = load_dataset(dataset)
    options = _Options(alpha, beta, cues, tau, phi or _preset_text(phi_preset, columns, values), fitted)
    base, combined = _names(criterion)
    with progress() as update:
        if "gist" in base and fitted is None:
            data, name = with_embedding(
                data, encoder, folder=dataset, note=note, progress=lambda done, total: update("embedding captions", done, total)
            )
            options.embedding = name
        criteria: dict[str, Criterion | Fitted | Combination] = {n: options.make(n) for n in base}
        criteria |= {text: Combination(text) for text in combined}
        path = os.path.relpath(dataset.resolve(), out.resolve())
        suite = find(
            data,
            criteria,
            tasks=tasks,
            match=match,
            splits=split_names(splits) or None,
            path=path,
            progress=update,
        )
        update("writing", 0, 1)
        save_suite(suite, out, overwrite=overwrite)
        update("writing", 1, 1)
    if format is Format.json:
        print_json({"suite": str(out), **summary(suite, with_overlap=False)})
        return
    print_counts(suite)
    console().print(f"{out}: {len(suite.header.sets)} challenge sets; next: nooch show {out}", style="dim")


def embed_command(
    dataset: Path = typer.Argument(..., metavar="DATASET", help="Dataset folder with captions."),
    encoder: str = typer.Option(..., help="Encoder name or folder, or a file of embeddings."),
) -> None:
    """Embed a dataset's captions and keep the embedding in its folder."""
    data = load_dataset(dataset)
    with progress() as update:
        _, name = with_embedding(
            data, encoder, folder=dataset, note=note, progress=lambda done, total: update("embedding captions", done, total)
        )
    console().print(f"{dataset}: embedding {name}")


class _Options:
    """What the options say of each kind of criterion."""

    def __init__(
        self, alpha: float, beta: float, cues: str | None, tau: float | None, phi: str | None, fitted: Path | None
    ) -> None:
        self.alpha, self.beta, self.cues, self.tau, self.phi = alpha, beta, parse_cues(cues), tau, phi
        self.embedding = ""
        self._fitted = None if fitted is None else load_suite(fitted)

    def make(self, name: str) -> Criterion | Fitted:
        if self._fitted is not None:
            record = self._fitted.header.criteria[check_one_of("criterion", name, self._fitted.criteria, owner="--fitted")]
            return fitted_from_json(record.kind, record.fitted or {})
        makers = {"ce": self._ce, "gist": self._gist, "attribute": self._attribute}
        return makers[name]() if name in makers else _own(name)

    def _ce(self) -> CE:
        return CE(self.alpha, self.beta, self.cues)

    def _gist(self) -> Gist:
        return Gist(self.embedding, self.tau)

    def _attribute(self) -> Attribute:
        if self.phi is None:
            raise ParameterError("the attribute criterion needs --phi or --preset", allowed="--phi 'place != y'")
        return Attribute(self.phi)


def _names(texts: list[str]) -> tuple[list[str], list[str]]:
    """Base criteria that are needed, and the combinations; a combination brings its parts along."""
    combined = [text for text in texts if is_combination(text)]
    base = [text for text in texts if not is_combination(text)]
    for text in combined:
        base += [name for name in Combination(text).names if name not in base]
    for name in base:
        if ":" not in name:
            check_one_of("criterion", name, FITTED)
    if len(set(texts)) != len(texts):
        raise ParameterError("a criterion is named twice", allowed="each --criterion once")
    return base, combined


def _own(name: str) -> Criterion:
    """A user's criterion, named ``package.module:Name`` on the command line, made without arguments."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ParameterError(f"criterion {name} cannot be imported: {error}", allowed="package.module:Name") from error
    made: Criterion = found() if isinstance(found, type) else found
    return made


def _preset_text(name: str | None, columns: str | None, values: Path | None) -> str | None:
    if name is None:
        return None
    try:
        listed = [] if values is None else [v.strip() for v in values.read_text(encoding="utf-8").splitlines() if v.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"--values {values} cannot be read: {error}") from error
    return preset(name, columns=split_names(columns), values=listed)


