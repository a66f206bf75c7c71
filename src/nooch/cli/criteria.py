"""Options of ``nooch find`` -> criteria."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nooch.challenge import CriterionRecord, load_suite
from nooch.cli.parsing import parse_cues, split_names
from nooch.criteria import (
    CE,
    FITTED,
    Attribute,
    Combination,
    ContextScores,
    Criterion,
    Fitted,
    Gist,
    fitted_from_json,
    is_combination,
    preset,
)
from nooch.errors import ParameterError, check_one_of
from nooch.named import imported

__all__ = ["Options", "needed_names", "preset_text"]


class Options:
    """What the options say of each kind of criterion."""

    def __init__(
        self,
        alpha: float,
        beta: float,
        cues: str | None,
        tau: float | None,
        phi: str | None,
        scores: str | None,
        fitted: Path | None,
    ) -> None:
        self.alpha, self.beta, self.cues, self.tau = alpha, beta, parse_cues(cues), tau
        self.phi, self.scores = phi, scores
        self.embedding = ""
        self._fitted = None if fitted is None else load_suite(fitted)

    def make(self, name: str) -> Criterion | Fitted:
        """The criterion of that name with these options, or as the suite of ``--fitted`` has it."""
        if self._fitted is not None:
            record = self._fitted.header.criteria[
                check_one_of("criterion", name, self._fitted.criteria, owner="--fitted")
            ]
            return _own_fitted(name, record) if ":" in name else fitted_from_json(record.kind, record.fitted or {})
        makers: dict[str, Callable[[], Criterion]] = {
            "ce": self._ce,
            "gist": self._gist,
            "attribute": self._attribute,
            "scores": self._scores,
        }
        return makers[name]() if name in makers else _own(name)

    def _ce(self) -> CE:
        return CE(self.alpha, self.beta, self.cues)

    def _gist(self) -> Gist:
        return Gist(self.embedding, self.tau)

    def _attribute(self) -> Attribute:
        if self.phi is None:
            raise ParameterError("the attribute criterion needs --phi or --preset", allowed="--phi 'place != y'")
        return Attribute(self.phi)

    def _scores(self) -> ContextScores:
        if self.scores is None:
            raise ParameterError(
                "the scores criterion needs --scores", allowed="an attribute column such as 'context_{task}'"
            )
        return ContextScores(self.scores, self.tau)


def needed_names(texts: list[str]) -> tuple[list[str], list[str]]:
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
    found = imported(name, f"criterion {name}")
    made: Criterion = found() if isinstance(found, type) else found
    return made


def _own_fitted(name: str, record: CriterionRecord) -> Fitted:
    """A user's criterion as a suite has it fitted. It is named on the command line, so it is imported; nothing in the suite is."""
    kind = getattr(_own(name), "fitted", None)
    if not (isinstance(kind, type) and issubclass(kind, Fitted)):
        raise ParameterError(
            f"{name} does not say what class it has when it is fitted",
            where="--fitted",
            remedy="name the class in the criterion: fitted = FittedDusk",
        )
    return kind.from_json(record.fitted or {})


def preset_text(name: str | None, columns: str | None, values: Path | None) -> str | None:
    """Expression of a preset of the attribute criterion, or None where none was named."""
    if name is None:
        return None
    try:
        listed = (
            [] if values is None else [v.strip() for v in values.read_text(encoding="utf-8").splitlines() if v.strip()]
        )
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"--values {values} cannot be read: {error}") from error
    return preset(name, columns=split_names(columns), values=listed)
