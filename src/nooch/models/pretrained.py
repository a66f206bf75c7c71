"""Loading networks of transformers: weights alone, no code of theirs, one kind of error."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nooch.base.errors import InputError, MissingExtraError, as_input_error
from nooch.models.image_decoding import check_size
from nooch.models.model_sources import ModelSource
from nooch.models.preprocessing import IMAGENET, PREPROCESSOR, Preprocessing, read_preprocessing

__all__ = [
    "complete", "naming_packages", "placed", "preprocessing_of", "pretrained", "quietly",
    "refuse_lacking", "silently",
]  # fmt: skip


def preprocessing_of(
    resolved: ModelSource, size: int | tuple[int, int] | None = None
) -> Preprocessing:
    """What a network's pixels must be, with the size that is asked for.

    Raises:
        InputError: weights without a ``preprocessor_config.json``.
        ParameterError: a size that is not allowed.
    """
    recorded = IMAGENET if resolved.folder is None else read_preprocessing(resolved.folder)
    if recorded is None:
        raise InputError(
            f"has no {PREPROCESSOR}, so its input is unknown",
            where=resolved.folder,
            remedy=f"copy the {PREPROCESSOR} of the model that it was trained from",
        )
    return recorded if size is None else replace(recorded, size=check_size(size))


def pretrained(auto: Any, resolved: ModelSource, **options: Any) -> tuple[Any, list[str]]:
    """A module of a class such as ``AutoModel`` with its weights, and the names of missing weights,
    which transformers initialized; ``options`` go to its ``from_pretrained``. Raises InputError:
    the folder does not hold what that class can load.
    """
    with quietly(resolved):
        module, info = auto.from_pretrained(
            str(resolved.folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    lacking = (key for key in info["missing_keys"] if not key.endswith("num_batches_tracked"))
    return module, sorted(lacking)


def complete(auto: Any, resolved: ModelSource, device: str) -> Any:
    """A module on a device; raises InputError as ``pretrained`` or ``refuse_lacking``."""
    module, lacking = pretrained(auto, resolved)
    refuse_lacking(resolved, lacking)
    return placed(module, device)


def placed(module: Any, device: str, *, channels_last: bool = True) -> Any:
    """A module on a device, in eval mode.

    Weights that were saved in half precision are computed with in float32: exact, and the same on
    every device. With the channels innermost in memory most devices convolve faster.
    """
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    return module.float().to(device=device, memory_format=layout).eval()


def refuse_lacking(resolved: ModelSource, lacking: list[str]) -> None:
    """Raise an InputError where weights are missing."""
    if lacking:
        raise InputError(
            f"lacks {len(lacking)} weights of the model in its config.json, such as {lacking[0]}",
            where=resolved.folder,
            remedy="save the whole model again: model.save_pretrained(folder)",
        )


@contextlib.contextmanager
def naming_packages(purpose: str, extra: str, *packages: str) -> Iterator[None]:
    """Turn an error for want of one of these packages into one that names it.

    Raises MissingExtraError: an error names one that is not installed. InputError: after any error,
    one is installed and cannot be imported (transformers does not tell which).
    """
    try:
        yield
    except Exception as error:
        for package in packages:
            if find_spec(package) is None:
                if package in str(error).lower():
                    raise MissingExtraError(package, extra, purpose) from error
                continue
            remedy = f"install the {package} made for this torch, or remove it where it is not used"
            with as_input_error(f"{package} is installed and does not load", remedy=remedy):
                import_module(package)
        raise


@contextlib.contextmanager
def quietly(resolved: ModelSource) -> Iterator[None]:
    """Without progress bars and reports; errors of transformers as one that names the model."""
    where = resolved.folder or resolved.name
    allowed = "an image model that transformers itself has (no code from the folder is run)"
    with as_input_error("cannot be loaded", where=where, allowed=allowed), silently():
        yield


@contextlib.contextmanager
def silently() -> Iterator[None]:
    """Without the progress bars and reports of transformers."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
