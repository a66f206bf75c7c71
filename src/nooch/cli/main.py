"""Entry point: the table of commands; signals and errors end in one place."""

from __future__ import annotations

import io
import os
import platform
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from typer import Option

from nooch.base.errors import InputError, NoochError, OutputError, ParameterError
from nooch.base.files import NO_ROOM
from nooch.base.text_encoding import reading_as
from nooch.base.version import __version__
from nooch.cli.commands import (
    ask,
    bench,
    caches,
    check,
    classes,
    dataset,
    download,
    evaluate,
    find,
    import_data,
    info,
    predict,
    repair,
    report,
    scenes,
    share,
)
from nooch.cli.terminal import end_progress, fail, is_json, speak_for
from nooch.cli.tree import Group, group

_LISTED = """\
check: data model.csv --out checked | instances.json model.csv --out checked --fail-if worse
import coco: --things instances.json data | --things a.json --stuff b.json --split 70/10/20 data
import coco-stuff: downloads data --split downloads/split.npz | downloads data --part-size 125000
import label-maps: maps data --classes names.txt | maps data --classes names.txt --void 255
import boxes: data.yaml data --boxes yolo | Annotations data --boxes voc --images JPEGImages
import image-folder: photos data | photos data --split 70/10/20 --seed 1
import auto: annotations.json data | photos data --split 70/10/20
import table: a.csv data --id id --label car,boat | b.csv data --id id --class name --area area
import waterbirds: waterbird_complete95_forest2water2 data | birds data --overwrite
annotate: photos data --segmenter segformer-b0 | photos data --segmenter deeplab --labels a.csv
info: data | runs --check
download coco-stuff: downloads | downloads --images --no-keep-zips
download nooch-coco-images: coco | coco --list images.txt
download nooch-published: downloads | downloads --format json
find: data --criterion context --out suite | data --criterion ce --criterion gist --out suite
show: suite | nooch-coco --tasks car,boat
explain: suite --task car --image 285 | suite --task car --image 285 --predictions model.csv
sweep: data --alpha 0:0.2:20 --beta 0.1 --out sweep | data --tau 0:1:50 --out sweep
export: suite ids --to ids | suite coco-suite --to coco --annotations instances.json
evaluate: suite model.csv | suite old.csv new.csv --bootstrap 1000 --out scores.md
predict: suite --model clip --out p.csv | suite --model resnet-50 --map imagenet --out p.csv
ask: suite --model llava --out a.parquet | suite --model llava --describe --out c.parquet
leaderboard: models --suite suite --out site | models --suite nooch-words --out site
captions: suite captions.json | suite llava.json blip.json --synonyms words.yaml
report: suite --out site | suite --predictions model.csv --images photos --out site
gallery: suite --task car | suite --task car --predictions model.csv --out car.png
slices: suite model.csv | suite model.csv --tasks car --min-support 20 --out slices.csv
audit: suite a.csv --out audit | data a.csv --columns site,scanner --features features.npz
validity: suite a.csv b.csv | suite --captions llava.json --captions blip.json --out v.csv
intervene: suite --model clip --annotations a.json --out o | suite --model m --annotations d --out o
repair: suite --features F --out repaired | suite --features f.npz --predictions p.csv --out r
collect-next: suite --pool more --out next.csv | suite --pool more --budget 100 --out next.parquet
train features: data --pixels P --out F | data --backbone facebook/dinov2-small --out F
train pixels: data --out pixels | data --size 224 --images photos --out pixels
train weights: data --task car --out weights.parquet | data --task car --cues car=road --out w.csv
train bench: data suite --features F --out runs --dry-run | data suite --pixels P --out runs
train status: runs | runs --format json
train score: runs suite --out scores | runs suite --rule worst-hard,mean --out scores
paper tables: runs --suite suite | paper --like table3
paper figures: fig1 --suite suite --predictions p.csv --out f | all --suite suite --out figures
paper select-tasks: suite p.parquet --n 20 --out chosen | suite p.parquet --like paper --out chosen
paper class-network: data --pixels P --out c | data --pixels P --tasks nooch --seed 1 --out c
paper waterbirds: suite model.parquet | suite model.parquet --split valid
tools embed: data --encoder sentence-transformers/all-MiniLM-L6-v2 | data --encoder embeddings.npz
tools add-attributes: data weather.csv data2 --columns rain | data data2 --captions captions.json
tools scenes: scenes --images 1000 | --print-config
tools scenes-score: suite scenes/truth.parquet | suite truth.parquet --tasks car --out scores.csv
"""
EXAMPLES = dict(line.split(": ", 1) for line in _LISTED.splitlines())
"""Command -> its examples without its name, divided by bars."""

EXIT_CODES = {
    0: "done",
    1: "a condition of `--fail-if` is met, or `info --check` found damage",
    2: "an error to fix; it names the remedy",
    70: "an internal error",
    130: "interrupted (SIGINT, Ctrl-C)",
    143: "ended (SIGTERM)",
}
"""Exit code -> its meaning, for all commands."""
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
LONGEST = 300
_NOOCH = Path(__file__).parents[1]


def report_failure(error: BaseException) -> int:
    """Print one line about an unexpected error, write the report file, and return the exit code.
    An error in a criterion, method or model that the user wrote names the line, and is not an
    internal error.

    The file contains the versions, the command without its arguments' values, and the places in the
    code that led to the error. It contains no message, since messages quote data; the terminal
    shows the message, shortened.
    """
    frames = traceback.extract_tb(error.__traceback__)
    message = " ".join(str(error).split())[:LONGEST]
    last = next((frame for frame in reversed(frames) if not _is_installed(frame.filename)), None)
    if last is not None and not Path(last.filename).is_relative_to(_NOOCH):
        where = f"{last.filename}:{last.lineno}, in {last.name}"
        remedy = "correct that code, which is not nooch's"
        return fail(NoochError(f"{type(error).__name__}: {message}", where=where, remedy=remedy))
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        kinds.append(type(cause).__qualname__)
        cause = cause.__cause__ or cause.__context__
    options = [word.partition("=")[0] for word in sys.argv[1:] if word.startswith("-")]
    lines = [
        f"nooch {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"options: {' '.join(options)}",
        f"error: {', raised by '.join(kinds)}",
        *places,
    ]
    problem = f"internal error, {type(error).__name__}: {message}"
    return fail(NoochError(problem, remedy=_written(lines)), INTERNAL_ERROR)


def _is_installed(file: str) -> bool:
    """True if code is Python's own or an installed package's, but not nooch's."""
    # takes milliseconds, which every command would wait for
    import sysconfig

    path = Path(file).absolute()
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    return not path.is_relative_to(_NOOCH) and (
        not path.is_file() or any(path.is_relative_to(sysconfig.get_path(name)) for name in names)
    )


def _written(lines: list[str]) -> str:
    """Write the report and print its path."""
    try:
        handle, path = tempfile.mkstemp(prefix="nooch-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(lines) + "\n")
    except OSError as error:
        return f"report it; the report could not be written: {error.strerror}"
    return f"report it with the file {path}, which contains none of your data"


_IMPORTS = group(
    "Import annotations as a dataset folder.",
    {
        "Commands": {
            "coco": import_data.coco, "coco-stuff": import_data.coco_stuff,
            "label-maps": import_data.label_maps, "boxes": import_data.boxes,
            "image-folder": import_data.image_folder, "auto": import_data.auto,
            "table": import_data.table, "waterbirds": import_data.waterbirds,
        }
    },
)  # fmt: skip
_DOWNLOADS = group(
    "Download real data; interrupted downloads resume.",
    {
        "Commands": {
            "coco-stuff": download.coco_stuff,
            "nooch-published": download.nooch_published,
            "nooch-coco-images": download.nooch_coco_images,
        }
    },
)
_TRAIN = group(
    "Train linear heads and networks on features or pixels, and score the runs.",
    {
        "Commands": {
            "features": caches.features_command, "pixels": caches.pixels_command,
            "weights": repair.weights_command, "bench": bench.bench_command,
            "status": bench.status_command, "score": bench.score_command,
        }
    },
)  # fmt: skip
_PAPER = group(
    "Reproduce the tables, figures and data of the paper.",
    {
        "Commands": {
            "tables": report.tables_command, "figures": report.figures_command,
            "select-tasks": classes.select_tasks_command,
            "class-network": classes.class_network_command,
            "waterbirds": scenes.waterbirds_command,
        }
    },
)  # fmt: skip
_TOOLS = group(
    "Embed captions, add attributes, and draw scenes.",
    {
        "Commands": {
            "embed": find.embed_command, "add-attributes": dataset.add_attributes_command,
            "scenes": scenes.scenes_command, "scenes-score": scenes.scenes_score_command,
        }
    },
)  # fmt: skip
_SECTIONS = {
    "Start here": {"check": check.check_command},
    "Data": {
        "import": _IMPORTS, "annotate": import_data.annotate_command,
        "info": info.info_command, "download": _DOWNLOADS,
    },
    "Challenge": {
        "find": find.find_command, "show": info.show_command, "explain": info.explain_command,
        "sweep": find.sweep_command, "export": share.export_command,
    },
    "Evaluate": {
        "evaluate": evaluate.evaluate_command, "predict": predict.predict_command,
        "ask": ask.ask_command, "captions": ask.captions_command,
        "leaderboard": ask.leaderboard_command,
        "report": report.report_command, "gallery": report.gallery_command,
    },
    "Understand": {
        "slices": check.slices_command, "audit": check.audit_command,
        "validity": check.validity_command, "intervene": repair.intervene_command,
    },
    "Improve": {
        "repair": repair.repair_command, "collect-next": repair.collect_next_command,
    },
    "Groups": {"train": _TRAIN, "paper": _PAPER, "tools": _TOOLS},
}  # fmt: skip
"""Purpose -> name -> command or group, as the help lists them."""


class _Nooch(Group):
    """All commands; an unexpected file error becomes an error like any other."""

    examples = EXAMPLES

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a file that cannot be read or written is an error like any other."""
        speak_for(self)
        # it is about all files, and may be typed behind any command
        for place, word in enumerate(ctx.args):
            name, sign, value = word.partition("=")
            if name == "--encoding" and (sign or ctx.args[place + 1 :]):
                ctx.params["encoding"] = value if sign else ctx.args[place + 1]
                del ctx.args[place : place + (1 if sign else 2)]
                break
        try:
            return super().invoke(ctx)
        except EOFError as error:
            # click takes it for the end of a dialog and prints "Aborted!"
            raise InputError(
                f"a file is empty or ends too early: {error}", remedy="make that file again"
            ) from error
        except OSError as error:
            if isinstance(error, NoochError) or error.errno is None:
                raise
            raise OutputError(
                f"cannot read or write: {error.strerror}", where=error.filename, remedy=NO_ROOM
            ) from error
        finally:
            end_progress()


def _root(
    ctx: typer.Context,
    version: bool = Option(False, "--version", help="Print the version and stop.", is_eager=True),
    encoding: str = Option(None, help="Encoding of text that is not UTF-8, such as cp1252."),
) -> None:
    ctx.with_resource(reading_as(encoding))
    if version:
        print(__version__)  # noqa: T201 - what was asked for goes to standard output
        raise typer.Exit


app = group(
    "Find images whose context misleads a vision model, and measure which methods resist.",
    _SECTIONS,
    cls=_Nooch,
    callback=_root,
    invoke_without_command=True,
    add_completion=True,
)


def run() -> None:
    """Run, and exit with one of ``EXIT_CODES``."""
    # waiting threads must not keep CPUs busy: on a shared machine that costs most of the time; but
    # 20 microseconds, as between two layers, or small networks are faster with a single thread
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # as an exception, so that temporary folders are removed on the way out; also noted, since
        # polars, and modules that are being imported, turn such exceptions into errors of theirs
        received.append(number)
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    # not if it is ignored, as in the background
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    code = _unusable_streams_or_names() or _exit_code(received)
    sys.exit(128 + received[0] if received else code)


class _Unbroken(io.FileIO):
    """A stream whose reader may go away (head, less): the rest is dropped, so that the exit code
    is the command's, and a condition of ``--fail-if`` is judged.
    """

    def write(self, data: Any) -> int:
        """Write, or drop what nobody reads."""
        try:
            return super().write(data)
        except OSError as error:
            # what is still in buffers must not fail again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if not isinstance(error, BrokenPipeError):
                raise
            return len(data)


def _unbroken(stream: Any) -> Any:
    # without a buffer where PYTHONUNBUFFERED is set
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    # captured, a console of Windows, or a terminal, which cannot break
    if not isinstance(raw, io.FileIO) or stream.isatty():
        return stream
    whole: Any = _Unbroken(raw.fileno(), "w", closefd=False)
    whole = whole if raw is buffer else io.BufferedWriter(whole)
    options = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
    return io.TextIOWrapper(whole, stream.encoding, stream.errors, **options)


def _unusable_streams_or_names() -> int:
    """2 with a message where standard output is closed, or a name is not UTF-8; else 0."""
    is_open = sys.stdout is not None
    sys.stdout, sys.stderr = _unbroken(sys.stdout), _unbroken(sys.stderr)
    # in the place of a closed stream a file would be opened, and get what is printed
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if not is_open:
        remedy = "redirect it, for example to /dev/null"
        return fail(NoochError("standard output is closed", remedy=remedy))
    # what the encoding of a terminal lacks is spelled out; LC_ALL=C has surrogateescape
    lacks = {"strict", "surrogateescape"}
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in lacks:
        sys.stdout.reconfigure(errors="backslashreplace")
    for name, text in (*(("argument", word) for word in sys.argv[1:]), ("folder", os.getcwd())):  # noqa: PTH109
        try:
            read = os.fsencode(text).decode()
        except UnicodeDecodeError:
            shown = text.encode("utf-8", "backslashreplace").decode()
            remedy = "rename the file or folder: names are recorded as UTF-8"
            return fail(NoochError(f"the {name} {shown} is not UTF-8", remedy=remedy))
        if read != text:
            problem = f"the {name} {read} is UTF-8, which the locale is not"
            return fail(NoochError(problem, remedy="set PYTHONUTF8=1"))
    return 0


def _exit_code(received: list[int]) -> int | str | None:
    try:
        # else typer prints errors of its own, as text
        return app(standalone_mode=not is_json())  # type: ignore[no-any-return]
    except SystemExit as stop:
        return stop.code
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # noqa: BLE001 - also panics of polars: the report has the traceback
        return None if received else _failure(error)


def _failure(error: BaseException) -> int:
    if isinstance(error, NoochError):
        return fail(error)
    if isinstance(error, MemoryError):
        remedy = "use fewer tasks or splits at once, or a machine with more memory"
        return fail(NoochError("out of memory", remedy=remedy))
    if hasattr(error, "format_message"):
        return fail(_of_usage(error))
    return report_failure(error)


def _of_usage(error: Any) -> NoochError:
    """An error of typer, such as an option without a value, as one of nooch."""
    parameter: Any = getattr(error, "param", None)
    command = getattr(error.ctx, "command_path", "nooch")
    is_missing = parameter is not None and not error.message
    return ParameterError(
        error.format_message().removesuffix("."),
        where=command if parameter is None else f"`{parameter.name}`",
        remedy=None if is_missing else f"{command} --help lists what it takes",
        give={parameter.name: ...} if is_missing else (),
    )
