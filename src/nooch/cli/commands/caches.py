"""``nooch train pixels`` and ``nooch train features``: arrays made once for all training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.base.engines import LocalEngine
from nooch.base.errors import Command, ParameterError
from nooch.base.files import check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, say, show_progress

if TYPE_CHECKING:
    from nooch.data import Dataset
    from nooch.models.caches.pixels import PixelCache


@takes("nooch.models.caches.pixels:build_pixels", leave=["codec"])
@takes("nooch.models.images:Decoding", "decoding")
def pixels_command(
    settings: Any,
    decoding: Any,
    dataset: str = shared.DatasetArgument,
    out: Path = Option(..., metavar="PIXELS", help="Folder to write; it must not exist."),
    processes: int = shared.ProcessesOption,
) -> Output:
    """Decode and resize every image once. An interrupted run resumes."""
    from nooch.models.caches.pixels import PIXELS, build_pixels
    from nooch.models.images import Decoding

    check_output(out, overwrite="overwrite" in settings, marker=PIXELS.marker)
    decoding = Decoding(**decoding)
    more = ["torch", "simplejpeg"] if decoding.codec == "fast" else []
    # workers are forked from a process that has imported this already
    LocalEngine.warm("nooch.models.caches.pixels", *more)
    from nooch.data import load_dataset

    data = load_dataset(dataset)
    cache = build_pixels(
        data, out, codec=decoding, map=LocalEngine(processes).map,
        progress=partial(show_progress, "decoding images"), **settings,
    )  # fmt: skip
    made, size, n_bytes = cache.header.made, cache.size, cache.array.nbytes
    note(*made.get("notes", []))
    yield {
        "pixels": str(out),
        "images": len(cache),
        "size": list(size),
        "bytes": n_bytes,
        "codec": made["codec"],
        "identity": cache.identity,
    }
    size_text = f"{size[0]} x {size[1]}, {n_bytes / 1e6:,.0f} MB, codec {made['codec']}"
    say(f"{out}: {counted(len(cache), 'image')} of {size_text}")
    following = "--backbone microsoft/resnet-50 --out FEATURES"
    hint(f"next: nooch train features {dataset} --pixels {out} {following}")


@takes(
    "nooch.models.caches.features:extract_features",
    leave=["codec"],
    pixels={"type": Path},
    readers={"flags": ["--processes"]},
)
@takes("nooch.models.images:Decoding", "decoding")
@takes("nooch.models.backbones:load_backbone", "loading", leave=["channels_last"])
def features_command(
    settings: Any,
    decoding: Any,
    loading: Any,
    dataset: str = shared.DatasetArgument,
    backbone: str = Option(
        "microsoft/resnet-50",
        help="Hub id, folder with safetensors, config:NAME for random weights, or a custom"
        " package.module:Name.",
    ),
    out: Path = Option(..., metavar="FEATURES", help="Folder to write; it must not exist."),
) -> Output:  # fmt: skip
    """Compute features of every image with a backbone. An interrupted run resumes."""
    from nooch.models.caches.features import FEATURES, extract_features

    pixels = settings.pop("pixels", None)
    if pixels is not None and "images" in settings:
        raise ParameterError(
            "--pixels and --images exclude each other",
            allowed="one of them: the pixels are decoded already",
        )
    check_output(out, overwrite="overwrite" in settings, marker=FEATURES.marker)
    from nooch.data import load_dataset
    from nooch.models.backbones import load_backbone
    from nooch.models.images import Decoding

    decoding = Decoding(**decoding)
    data = load_dataset(dataset)
    cache = None if pixels is None else _cache_of_size(pixels, data, loading.get("size"))
    # channels innermost: the order that CPUs and GPUs convolve fastest in
    size = {} if cache is None else {"size": cache.size}
    loaded = load_backbone(backbone, channels_last=True, **loading | size)
    features = extract_features(
        data, loaded, out, codec=decoding, pixels=cache,
        progress=partial(show_progress, "extracting features"), **settings,
    )  # fmt: skip
    note(*features.header.made["pixels"].get("notes", []))
    yield {
        "features": str(out),
        "images": len(features),
        "n_features": features.n_features,
        "dtype": features.header.dtype,
        "backbone": features.header.made["backbone"],
        "identity": features.identity,
    }
    height, width = loaded.size
    contents = f"{len(features):,} images x {features.n_features:,} features of {loaded.name}"
    say(f"{out}: {contents} at {height} x {width}")
    hint(f"next: nooch train bench {dataset} SUITE --features {out} --out RUNS")


def _cache_of_size(pixels: Path, data: Dataset, size: int | None) -> PixelCache:
    from nooch.models.caches.pixels import PixelCache

    cache = PixelCache.load(pixels, data)
    if size is not None and cache.size != (size, size):
        raise ParameterError(
            f"--size {size}, but --pixels contains {cache.size[0]} x {cache.size[1]}",
            where=pixels,
            give=({"size": None}, Command("train pixels", size=size)),
        )
    return cache
