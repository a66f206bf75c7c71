"""Files of data: tables (one file, or a folder of parts), and JSON headers of folders."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec
import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from nooch.base import zips
from nooch.base.errors import (
    Command,
    FormatError,
    InputError,
    MissingExtraError,
    check_one_of,
    no_such,
    reason_of,
    some_of,
    unreadable,
)
from nooch.base.files import check_output_file, local_path, read_bytes, replacing, writing
from nooch.base.limits import MOST_RATIO, MOST_UNPACKED, MOST_WORKBOOK
from nooch.base.text_encoding import text_lines, transcoded, utf8_bytes
from nooch.data.box_columns import HEADERLESS
from nooch.data.image_names import IMAGE_COLUMNS, IMAGE_ENDING
from nooch.data.json_records import (
    BROKEN_RECORDS,
    json_lines,
    json_records,
    lines_of,
    records_frame,
)  # fmt: skip


def read_table(path: str | Path, **csv_options: Any) -> pl.DataFrame:
    """A table in CSV, TSV, Parquet, JSON lines, JSON or Excel: one file, or a folder of part files
    of one kind.

    ``names`` are columns of CSV and TSV (in lower case) in which numbers with leading zeros are
    text; other ``csv_options`` go to Polars.
    """
    path = Path(path)
    frames = [
        checked_read(part, partial(_READ[part.suffix.lower()], part, csv_options))
        for part in table_files(path)
    ]
    with alike(path):
        return frames[0] if len(frames) == 1 else pl.concat(frames)


def alike(where: object) -> AbstractContextManager[None]:
    """The context of joining part files. Raises InputError if they differ."""
    errors = (pl.exceptions.PolarsError,)
    return unreadable(where, "the same columns and types", errors, problem="part files differ")


def table_files(path: Path) -> list[Path]:
    """The file, or the part files of a folder in reading order. Raises InputError without any."""
    if not path.exists():
        raise no_such(path)
    # next to parts, JSON is about them
    kinds, allowed = _READ.keys() - {".json"}, ", ".join(_READ)
    parts = sorted(p for p in path.iterdir() if p.suffix in kinds) if path.is_dir() else [path]
    if not parts:
        saved = [name for name in HUGGING_FACE if (path / name).exists()]
        split = "['test']" if "dataset_dict.json" in saved else ""
        code = f"datasets.load_from_disk({str(path)!r}){split}.to_parquet('p.parquet')"
        raise InputError("the folder contains no table", where=path, allowed=allowed,
                         remedy=f"in Python: {code}" if saved else None)  # fmt: skip
    for part in parts:
        if (ending := part.suffix.lower()) not in _READ:
            problem, way = f"ending {part.suffix!r} is not a table's", _IN_PYTHON.get(ending)
            remedy = f"in Python: {way.format(str(part))}" if way else None
            raise InputError(problem, where=part, allowed=allowed, remedy=remedy)
    return parts


HUGGING_FACE = ("dataset_info.json", "dataset_dict.json")
"""Files in folders of ``Dataset.save_to_disk`` of Hugging Face."""
_TENSOR = "numpy.save('p.npy', torch.load({!r}, weights_only=True).float().numpy())"
_IN_PYTHON = {
    ".pt": _TENSOR, ".pth": _TENSOR,
    ".safetensors": "numpy.savez('p.npz', **safetensors.numpy.load_file({!r}))",
    ".arrow": "datasets.Dataset.from_file({!r}).to_parquet('p.parquet')",
    ".feather": "polars.read_ipc({!r}).write_parquet('p.parquet')",
    ".eval": "inspect_ai.log.write_eval_log(inspect_ai.log.read_eval_log({!r}), 'log.json')",
    ".pkl": "pandas.read_pickle({!r}).to_parquet('p.parquet'), if you trust the file",
}  # fmt: skip
"""Ending -> how a file that is not read is written as one that is: pickles can run code."""


_READ: dict[str, Callable[[Path, dict[str, Any]], pl.DataFrame]] = {
    ".parquet": lambda path, _: parquet_rows([path], path),
    ".csv": lambda path, options: _read_csv(path, **options),
    ".tsv": lambda path, options: _read_csv(path, **options),
    ".jsonl": lambda path, _: records_frame(lines_of(path), path),
    ".json": lambda path, _: records_frame(json_lines(path), path),
    ".xlsx": lambda path, _: _read_excel(path),
}
TABLE_ENDINGS = tuple(_READ)
"""Endings of the files that are tables."""


def _read_excel(path: Path) -> pl.DataFrame:
    """The first sheet of a workbook. Raises InputError, MissingExtraError."""
    broken = (BadZipFile, KeyError, ValueError, TypeError, EOFError, zlib.error)
    try:
        with unreadable(path, "a workbook", broken, remedy="save it again, or as CSV"):
            _check_workbook(path)
            return pl.read_excel(path, engine="openpyxl")
    except ModuleNotFoundError as error:
        raise MissingExtraError("openpyxl", "excel", "reading XLSX") from error


def _check_workbook(path: Path) -> None:
    """Raise InputError, before anything is unpacked, for a zip that would fill the memory; one that
    unpacks to more than it declares is cut off there.
    """
    with ZipFile(path) as book:
        members = book.infolist()
    size = sum(member.file_size for member in members)
    bombs = [m for m in members if m.file_size > max(1 << 20, MOST_RATIO * m.compress_size)]
    if bombs or size > MOST_WORKBOOK:
        shown = f"its {bombs[0].filename[:60]!r}" if bombs else "it"
        what = bombs[0].file_size if bombs else size
        raise InputError(
            f"{shown} would unpack to {what:,} bytes",
            where=path,
            allowed=f"a workbook of at most {MOST_WORKBOOK:,} bytes, and {MOST_RATIO} times its"
            " packed size",
            remedy="save the sheet as CSV or Parquet",
        )


_CSV_ROWS = 200_000  # written at a time, so that a large table is not in memory as text as well
# what a spreadsheet runs, but no number; and what would be taken for such text that is quoted
_FORMULA = r"('*(?:[=@\t\r\n]|[+-][0-9.]*[^0-9.]|[+-]$))"


def csv_bytes(table: pl.DataFrame, *, header: bool = True, separator: str = ",") -> bytes:
    """A table as the content of a CSV file, or of a TSV.

    A cell of text, or a name of a column, that a spreadsheet would run as a formula gets an
    apostrophe in front, which ``read_table`` removes.
    """
    content = io.BytesIO()
    for start in range(0, max(table.height, 1), _CSV_ROWS):
        part = table.slice(start, _CSV_ROWS)
        texts = (cs.string() | cs.categorical() | cs.enum()).cast(pl.String)
        part = part.with_columns(texts.str.replace(f"^{_FORMULA}", "'${1}"))
        part = part.rename(lambda name: re.sub(f"^{_FORMULA}", r"'\1", name))
        part.write_csv(content, include_header=header and start == 0, separator=separator)
    return content.getvalue()


def _read_csv(path: Path, names: Collection[str] = (), **options: Any) -> pl.DataFrame:
    # a name with [ or * is a name, not a pattern
    content = plain_csv(path)
    source = path if content is None else content
    options = {"separator": separator_of(path), "infer_schema_length": None, **options}
    read = partial(pl.read_csv, source, glob=False, **options)
    columns = read(n_rows=0).columns if names else []
    texts = [column for column in columns if column.strip(' \t"').lower() in names]
    table = read(schema_overrides=dict.fromkeys(texts, pl.String))
    check_named_once(table.columns, path)
    # blank lines, and rows of separators only, as spreadsheets leave them
    table = table.filter(~pl.all_horizontal(pl.all().is_null()))
    table = table.with_columns(_without_zeros(table[column]) for column in texts)
    table = table.rename(lambda name: re.sub(f"^'{_FORMULA}", r"\1", name))
    return table.with_columns(
        column.str.replace(f"^'{_FORMULA}", "${1}")
        for column in table.select(cs.string())
        if column.str.starts_with("'").any()
    )


def check_named_once(columns: Sequence[str], where: object) -> None:
    """Raise InputError for columns of CSV that have one name: polars numbers them."""
    of = (re.fullmatch(r"(.+)_duplicated_\d+", name) for name in columns)
    if twice := [match[1] for match in of if match and match[1] in columns]:
        problem = f"columns have the same name: {some_of(twice)}"
        raise InputError(problem, where=where, allowed="one of each", remedy="rename or remove one")


def separator_of(path: Path) -> str:
    """The separator that the ending of a text table names."""
    return "\t" if path.suffix.lower() == ".tsv" else ","


_SAMPLE = 1 << 16


def plain_csv(path: Path) -> bytes | None:
    """The content of a text table in UTF-8, with the separator of its ending and without blanks
    around separators; None if it can be read as it is. Raises OSError and InputError.

    Semicolons, tabs, commas and bars are recognized: the separator that the header has most, and
    the first lines as often, outside of quotes. A table of boxes without a header gets one. A file
    in the plain form is not held in memory.
    """
    content = transcoded(path)
    if content is None:
        with path.open("rb") as file:
            head = file.read(_SAMPLE)
    else:
        head = content[:_SAMPLE]
    head = head.removeprefix(codecs.BOM_UTF8)
    lines = re.sub(r'"[^"]*"', '""', head.decode(errors="replace")).splitlines()[:20]
    if len(head) == _SAMPLE and len(lines) > 1:
        lines.pop()
    lines = [line for line in lines if line.strip()]
    own = separator_of(path)
    sign = _separator(lines, own)
    header = _lost_header(head.decode(errors="replace").strip().splitlines()[:1], sign)
    if sign == own and not header and not _is_padded(lines, sign):
        return content
    text = utf8_bytes(path.read_bytes() if content is None else content, path).decode()
    written = io.StringIO(newline="")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=sign, skipinitialspace=True)
    try:
        csv.writer(written, delimiter=own, lineterminator="\n").writerows(
            [cell.strip() for cell in row] for row in chain(header, rows) if row
        )
    except csv.Error as error:
        raise InputError(f"is not a table of text: {error}", where=path) from error
    return written.getvalue().encode()


def _lost_header(first: list[str], sign: str) -> list[list[str]]:
    """The header that a table of boxes without one lacks, by its ``first`` line: an image, four
    numbers or blanks, a class, as keras-retinanet has it, or the class before the numbers; none of
    another table.
    """
    cells = [cell.strip() for row in csv.reader(first, delimiter=sign) for cell in row]
    numbers = r"(-?\d+(\.\d+)?)?"
    are_numbers = [re.fullmatch(numbers, cell) is not None for cell in cells]
    if len(cells) != 6 or not re.search(IMAGE_ENDING, cells[0]):
        return []
    if all(are_numbers[1:5]):
        return [["image", *HEADERLESS, "class"]]
    return [["image", "class", *HEADERLESS]] if all(are_numbers[2:]) else []


def _separator(lines: list[str], own: str) -> str:
    """The separator of the lines of a table, quoted cells left out; ``own`` where in doubt."""
    if not lines:
        return own
    counts = {sign: [line.count(sign) for line in lines] for sign in ",;\t|"}
    more = [sign for sign, n in counts.items() if n[0] > counts[own][0]]
    even = [sign for sign in more if len(set(counts[sign])) == 1]
    # of ragged rows the header decides
    found = even or ([own] if own in lines[0] else more) or [own]
    return max(found, key=lambda sign: counts[sign][0])


def _is_padded(lines: list[str], sign: str) -> bool:
    """True if the header, or the separators of all other lines, have blanks around them."""
    around = re.compile(rf" {re.escape(sign)}|{re.escape(sign)} ")
    padded = [bool(around.search(line)) for line in lines]
    full = [len(around.findall(line)) >= line.count(sign) > 0 for line in lines]
    return bool(padded) and (padded[0] or (len(lines) > 1 and all(full[1:])))


def _without_zeros(column: pl.Series) -> pl.Series:
    """Text as numbers where all of it is such; 007 is a name."""
    if not column.str.contains(r"^\s*0\d").any():
        for kind in (pl.Int64, pl.Float64):
            numbers = column.cast(kind, strict=False)
            if numbers.null_count() == column.null_count():
                return numbers
    return column


def as_numbers(column: pl.Series, *, comma: bool = True, percent: bool = True) -> pl.Series:
    """Numbers, or text, as Float64, null where it is not a number; with decimal commas if there are
    any, and percent signs left out.
    """
    if column.dtype != pl.String:
        return column.cast(pl.Float64, strict=False)
    texts = column.str.strip_chars()
    texts = texts.str.strip_chars_end("% ") if percent else texts
    texts = texts.str.replace(",", ".", literal=True) if comma else texts
    return texts.cast(pl.Float64, strict=False)


def as_polars(source: Any, where: object, allowed: str) -> pl.DataFrame | None:
    """A frame of polars, pandas or Arrow, with a pandas index that has a name as columns; None for
    another object. Raises InputError for one that polars cannot read.
    """
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if not hasattr(source, "columns") and not hasattr(source, "__arrow_c_stream__"):
        return None
    index = getattr(source, "index", None)
    if any(name is not None for name in getattr(index, "names", ())):
        source = source.reset_index()
    errors = (TypeError, ValueError, pl.exceptions.PolarsError)
    with unreadable(where, allowed, errors, problem=f"a {type(source).__name__} cannot be read"):
        frame = pl.DataFrame(source)
    if objects := frame.select(cs.object()).columns:
        problem = f"columns contain Python objects: {some_of(objects)}"
        raise InputError(problem, where=where, allowed="numbers, text, truth values, lists of text")
    return plain_types(frame)


_Rows = TypeVar("_Rows", pl.DataFrame, pl.LazyFrame)


def plain_types(table: _Rows) -> _Rows:
    """A table with categories as text, and decimals as floats."""
    return table.with_columns(
        (cs.categorical() | cs.enum()).cast(pl.String), cs.decimal().cast(pl.Float64)
    )


_T = TypeVar("_T")
_Kind = TypeVar("_Kind")


def checked_read(where: object, read: Callable[[], _T]) -> _T:
    """The result of reading a table. Raises InputError for errors of polars or the disk."""
    text = str(where).lower().endswith((".csv", ".tsv"))
    remedy = "start it with the names of columns, with as many cells in every row" if text else None
    with unreadable(where, errors=BROKEN_TABLE, remedy=remedy):
        return read()


BROKEN_TABLE = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError
)  # fmt: skip
"""Exceptions of reading a broken table; polars panics on some."""


def table_of(content: bytes, where: object) -> pl.DataFrame:
    """The table in a Parquet file's bytes. Raises InputError if they cannot be read."""
    source: IO[bytes] = io.BytesIO(content)
    return checked_read(where, lambda: parquet_rows([source], where))


def parquet_rows(
    sources: list[Path] | list[IO[bytes]], where: object, columns: list[str] | None = None
) -> pl.DataFrame:
    """The rows of Parquet files with the same columns, or of some of these that there are.

    Raises InputError if a file would fill the memory; what is broken as errors of ``BROKEN_TABLE``.
    """
    # not by polars, which ends the process if a page claims to have -1 values
    import pyarrow as pa

    try:
        table = pa.concat_tables([_parquet_table(source, where, columns) for source in sources])
        table.validate(full=True)
    except pa.ArrowNotImplementedError:
        # types that only polars has, such as Int128
        return pl.scan_parquet(sources, glob=False).select(columns or pl.all()).collect()
    except pa.ArrowException as error:
        raise OSError(reason_of(error)) from error
    try:
        frame = pl.from_arrow(table)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # a schema that Arrow takes, such as two columns of one name
        raise OSError(reason_of(error)) from error
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}
"""Bytes of a value in memory by its type in Parquet, if not 8; of text, without its letters."""


def _parquet_table(source: Path | IO[bytes], where: object, columns: list[str] | None) -> Any:
    """The Arrow table of a file. Raises InputError for more bytes than ``MOST_RATIO`` allows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = source.stat().st_size if isinstance(source, Path) else source.seek(0, io.SEEK_END)
    most = max(MOST_UNPACKED, MOST_RATIO * packed)

    def check(size: int) -> None:
        if size > most:
            problem = f"would unpack to {size:,} bytes, from {packed:,}"
            raise InputError(problem, where=where, allowed=f"at most {most:,}")

    with pq.ParquetFile(source) as file:
        about, schema = file.metadata, file.schema_arrow
        groups = [about.row_group(k) for k in range(about.num_row_groups)]
        parts = [group.column(k) for group in groups for k in range(group.num_columns)]
        parts = [p for p in parts if not columns or p.path_in_schema.split(".")[0] in columns]
        check(sum(part.num_values * _WIDTHS.get(part.physical_type, 8) for part in parts))
        # a text that is stored once may stand in any number of rows: these are counted first
        texts = [part for part in parts if part.physical_type == "BYTE_ARRAY"]
        repeated = {
            part.path_in_schema
            for part in texts
            if part.total_compressed_size < 4 * part.num_values
            and part.num_values * part.total_uncompressed_size > most
        }
        if not repeated:
            return file.read(columns=columns)

    with pq.ParquetFile(source, read_dictionary=[*repeated]) as file:
        table, size = file.read(columns=columns), 0
    for column in table.columns:
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            if pa.types.is_string(chunk.dictionary.type):
                # by polars: a scalar or an array of pyarrow would import pandas
                lengths = pl.Series(chunk.dictionary).str.len_bytes().fill_null(0).to_numpy()
                indices = pl.Series(chunk.indices.drop_null()).to_numpy()
                uses = np.bincount(indices, minlength=len(lengths))
                size += int(lengths @ uses)
    check(size)
    return table.cast(pa.schema([schema.field(name) for name in table.column_names]))


def id_column(ids: NDArray[Any] | pl.Series, where: object = None) -> pl.Series:
    """Column ``image_id`` (Int64 or String) from ids; null stays null. Whole numbers as floats
    become integers.
    """
    if isinstance(ids, pl.Series):
        column = ids.rename("image_id")
    elif ids.ndim != 1 or ids.dtype.kind not in "iufU":
        allowed = "one dimension of integers or text"
        raise InputError(f"contains {ids.dtype} of shape {ids.shape}", where=where, allowed=allowed)
    else:
        # polars has no float of 16 bits
        column = pl.Series("image_id", ids.astype(np.float64) if ids.dtype.kind == "f" else ids)
    if not (column.dtype.is_float() or column.dtype.is_integer()):
        return column.cast(pl.String)
    numbers = column.drop_nulls()
    if column.dtype.is_float():
        exact = are_exact_integers(numbers)
    else:
        exact = numbers.cast(pl.Int64, strict=False).is_not_null()
    wrong = numbers.filter(~exact)
    if len(wrong):
        problem = f"contains image ids that are not whole numbers, or too large: {some_of(wrong)}"
        allowed = "integers of at most 64 bits (as floats up to 2^53), or text"
        raise InputError(problem, where=where, allowed=allowed)
    return column.cast(pl.Int64)


def listed_ids(ids: Any) -> pl.Series | None:
    """Image ids as given, or of a file with one per line, as ``id_column``; None of None."""
    if isinstance(ids, str | Path):
        ids = [line.strip() for line in text_lines(Path(ids)) if line.strip()]
    return None if ids is None else id_column(pl.Series(ids), "`ids`")


def are_exact_integers(values: pl.Series) -> pl.Series:
    """Mask of the floats that are exact whole numbers, at most 2^53 in size: bool (n,)."""
    return values.is_finite() & (values == values.round()) & (values.abs() <= 2**53)


def parquet_bytes(table: pl.DataFrame, compression: Any = "zstd", **settings: Any) -> bytes:
    """A table as the content of a Parquet file, with ``settings`` of polars."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression=compression, **settings)
    return buffer.getvalue()


class _BaseHeader(msgspec.Struct):
    """Fields of every version."""

    format: str
    version: int
    checksum: Any = None


def load_header(
    path: str | Path, kind: type[_T], *, name: str, version: int, make: str | Command, again: str,
    allowed: str | None = None,
) -> _T:  # fmt: skip
    """Contents of a folder's header file; ``make`` and ``again``: how to make one, or it again."""
    way = "give" if isinstance(make, Command) else "remedy"
    remedy: Any = {way: make, "allowed": allowed}
    broken = partial(unreadable, path, kind=FormatError, remedy=again)
    with broken(errors=(OSError,)):
        try:
            content = read_bytes(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            if not isinstance(path, Path):
                raise FormatError(
                    f"is not a {name} folder: nothing is there", where=path, **remedy
                ) from error
            local_path(path)
            raise FormatError(
                f"is not a {name} folder: it has no {path.name}", where=path.parent, **remedy
            ) from error

    def decoded(kind: type[_Kind]) -> _Kind:
        with broken(errors=BROKEN_RECORDS):
            return msgspec.json.decode(content, type=kind)

    if isinstance(whole := decoded(Any), dict) and "format" not in whole:
        problem = f"is not a {name} folder: nooch did not write its {Path(str(path)).name}"
        raise FormatError(problem, where=path, **remedy)
    # first what every version has, so that a newer version is reported as such
    base = decoded(_BaseHeader)
    if base.format != f"nooch-{name}" or base.version > version:
        problem = f"contains {base.format} version {base.version}"
        allowed = f"nooch-{name} up to version {version}"
        raise FormatError(problem, where=path, allowed=allowed, remedy="install a newer nooch")
    if base.checksum is not None and not is_intact(content):
        problem = "was altered: its checksum does not match its content"
        remedy = f"{again}; if you changed it yourself, delete its line `checksum`"
        raise FormatError(problem, where=path, remedy=remedy)
    return decoded(kind)


def encode_header(header: Any) -> bytes:
    """A header as JSON that people can read. Raises ValidationError if it could not be read back,
    such as NaN, which JSON does not have, where a number is expected.
    """
    content = msgspec.json.encode(header)
    msgspec.json.decode(content, type=type(header))
    return msgspec.json.format(content, indent=1) + b"\n"


_SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n}\n\Z')
_ALTERED_SEAL = re.compile(rb'"checksum"|"[0-9a-f]{64}"\s*}\s*\Z')
_TAIL = 100
"""Bytes at the end of a header that a checksum is in."""


def sealed_header(header: Any) -> bytes:
    """A header of ``encode_header``, with the SHA-256 of that as its last field, ``checksum``."""
    content = encode_header(header)
    line = f',\n "checksum": "{sha256(content).hexdigest()}"'
    return content.removesuffix(b"\n}\n") + line.encode() + b"\n}\n"


def is_intact(content: bytes) -> bool | None:
    """True if a header matches its checksum; None without one."""
    seal = _SEAL.search(content[-_TAIL:])
    if seal is None:
        return False if _ALTERED_SEAL.search(content[-_TAIL:]) else None
    rest = content[: -len(seal[0])] + b"\n}\n"
    return sha256(rest).hexdigest() == seal[1].decode()


_TABLES = {".parquet", ".csv", ".tsv", ".xlsx"}


def file_records(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a table (Parquet, CSV, TSV, XLSX) as records, the lines of MME's text, or the
    records of ``json_records``; also packed, see ``unpacked``.
    """
    with unpacked(Path(path)) as file:
        ending = file.suffix.lower()
        if ending == ".txt" and (records := _mme_records(file)):
            return records
        if ending not in _TABLES:
            return json_records(file)
        # dates that Python does not have are found where rows are made
        return checked_read(file, read_table(file, names=IMAGE_COLUMNS).to_dicts)


_MME = ("image", "question", "label", "response")


def _mme_records(path: Path) -> list[dict[str, Any]]:
    """MME's lines of image, question and label, with a response behind them in answers; none of
    another text.
    """
    rows = [line.split("\t") for line in text_lines(path) if line.strip()]
    if {len(row) for row in rows} not in ({3}, {4}):
        return []
    return [dict(zip(_MME, row, strict=False)) for row in rows]


_PACKED = (".gz", ".zip")


def unpacked_stem(path: Path) -> str:
    """The name of a file without its ending, and without .gz or .zip."""
    return (path.with_suffix("") if path.suffix.lower() in _PACKED else path).stem


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file itself; of a ``.gz``, or a ``.zip`` of one file, what it has, in a temporary folder
    that is gone afterwards. Raises InputError.
    """
    if path.suffix.lower() not in _PACKED:
        yield path
        return
    broken = (OSError, EOFError, BadZipFile, RuntimeError, zlib.error)
    with contextlib.ExitStack() as stack:
        with unreadable(path, errors=broken, problem="is damaged", remedy="fetch it again"):
            name = path.stem
            if path.suffix.lower() == ".gz":
                source: Any = stack.enter_context(gzip.open(path))
            else:
                archive = stack.enter_context(ZipFile(path))
                members = zips.listed(archive, MOST_UNPACKED, path)
                if len(members) > 1:
                    problem = (
                        f"contains {len(members)} files: {some_of([m.filename for m in members])}"
                    )
                    raise InputError(problem, where=path, allowed="one", remedy="unpack it")
                name = Path(members[0].filename).name
                source = stack.enter_context(archive.open(members[0]))
            content = source.read(MOST_UNPACKED + 1)
        if len(content) > MOST_UNPACKED:
            allowed = f"at most {MOST_UNPACKED:,} bytes unpacked"
            raise InputError("is too large", where=path, allowed=allowed, remedy="unpack it")
        file = Path(stack.enter_context(TemporaryDirectory())) / name
        file.write_bytes(content)
        try:
            yield file
        except InputError as error:
            # what is in the packed file, not where it was unpacked
            where = str(error.where).replace(str(file), str(path))
            raise error.changed(where=where) from error


TABLE_FILES: dict[str, Callable[[pl.DataFrame], bytes]] = {
    ".parquet": parquet_bytes,
    ".csv": csv_bytes,
}
"""Ending -> how a frame is written with it."""


def result_files(
    path: str | Path,
    what: str,
    whole: Collection[str] = (".json",),
    tables: Collection[str] = (),
    *,
    overwrite: bool = False,
) -> list[Path]:
    """The files of a result whose ending names its format: checked before any work is done."""
    path = Path(path)
    check_one_of(f"ending of a {what}", path.suffix, (*TABLE_FILES, *whole))
    more = [] if path.suffix in whole else [f"-{table}" for table in tables]
    names = [f"{path.stem}{table}{path.suffix}" for table in ("", *more)]
    return [check_output_file(path.with_name(name), overwrite=overwrite) for name in names]


def result_contents(
    path: str | Path,
    what: str,
    tables: Mapping[str, pl.DataFrame],
    whole: Mapping[str, Callable[[], bytes]],
    *,
    overwrite: bool = False,
) -> dict[Path, bytes]:
    """Files of a result for ``write_files``: its tables, the first of them without a name, or the
    format of its ending that contains everything. Raises as ``result_files``.
    """
    files = result_files(path, what, whole, [*tables][1:], overwrite=overwrite)
    ending = files[0].suffix
    if ending in whole:
        return {files[0]: whole[ending]()}
    contents = [TABLE_FILES[ending](table) for table in tables.values()]
    return dict(zip(files, contents, strict=True))


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write files atomically, all of them or none, and the folders that lead to them."""
    with contextlib.ExitStack() as stack:
        for file, content in contents.items():
            stack.enter_context(writing(file))
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(replacing(file)).write_bytes(content)


def write_result(
    path: str | Path,
    what: str,
    table: pl.DataFrame,
    content: Any = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a result of one table; as ``.json`` all of its content, if there is more. Raises as
    ``result_files``.
    """
    form = {".json": lambda: msgspec.json.format(msgspec.json.encode(content))}
    whole = {} if content is None else form
    write_files(result_contents(path, what, {"": table}, whole, overwrite=overwrite))
    return Path(path)
