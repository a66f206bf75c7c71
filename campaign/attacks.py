"""Attacks that others' files could try: to write elsewhere, run code, fill memory, speak to a
terminal.

An attack is stopped if the mark of its code is not there, nothing outside its folder has changed,
the command ended in time with 0, 1 or 2 and no traceback, and its output is harmless.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pickle
import re
import resource
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from coco_files import document, image
from disturbances import Figures
from scored import logits, small_data, small_suite
from worlds import argv

import nooch
from nooch.base.errors import InputError
from nooch.base.zips import unpack
from nooch.cli.main import run as run_command

__all__ = ["attack"]

MEMORY, SECONDS = 4 << 30, 120
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+(?:[eE][+-]?\d+)?$|inf$|nan$)")
OUT = ("../x", "/tmp/nooch-x", "a/../../x", "a/b/../../../x", "..", "./../x", "a//../../x")
ODD = ("C:\\x", "..\\x", "a\\..\\x", "x\0.txt", "x\x1b[31m", "x.", "x ", "a/./b", "x:y", "n\x07")
NAMES = {
    "escape": "car\x1b]0;owned\x07\x1b[31m", "C1": "car\u009b31m", "bidi": "car\u202egpj.exe",
    "line": "a\rb", "element": "<script>owned()</script>", "quote": "' onmouseover='owned()",
    "attribute": '"><img src=x onerror=owned()>', "script": "</script><script>owned()</script>",
    "formula": "=cmd|' /C calc'!A0", "plus": "+1+cmd", "minus": "-1+cmd", "at": "@SUM(1)",
    "tab": "\t=1+1", "path": "../../owned", "template": "{{7*7}}{% raw %}",
}  # fmt: skip
Stops = Iterator[tuple[str, Callable[[], object]]]


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (exec, (f"open({str(self.mark)!r}, 'w')",))


class Attacked:
    """A folder with a dataset, a suite and predictions; commands run in it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.mark = folder / "home", folder / "mark"
        self.home.mkdir(parents=True)
        (folder / "secret.png").write_bytes(b"secret")
        self.outside = self._outside()
        nooch.save_dataset(small_data(), self.home / "data")
        nooch.save_suite(small_suite(), self.home / "suite")
        logits(small_suite()).write_csv(self.home / "p.csv")
        self.write("evil.py", f"open({str(self.mark)!r}, 'w')\nclass Thing: pass\n")

    def _outside(self) -> dict[str, bytes]:
        files = [path for path in self.home.parent.rglob("*") if self.home not in path.parents]
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    def write(self, name: str, content: object) -> None:
        """A file in the folder: bytes, text, or anything else as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            text = content if isinstance(content, str) else json.dumps(content)
            content = text.encode("utf-8", "surrogatepass")
        path.write_bytes(content)

    def run(self, *words: str) -> int:
        """Run a command in this process; returns its exit code. ValueError if it did harm."""
        said, code = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), None
        with (
            contextlib.chdir(self.home),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            patch.object(sys, "argv", ["nooch", *words]),
        ):
            try:
                run_command()
            except SystemExit as stop:
                code = stop.code
        return self._harmless(int(code or 0), said.buffer.getvalue())

    def apart(self, *words: str) -> int:
        """The same in a process with little memory and time."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # noqa: E731
        done = subprocess.run(
            [*argv(""), *words], cwd=self.home, stdout=-1, stderr=-2, timeout=SECONDS,
            preexec_fn=limit, check=False,
        )  # fmt: skip
        return self._harmless(done.returncode, done.stdout)

    def refused(self, command: str, *more: str, apart: bool = False) -> None:
        """Run a command that must end in an error."""
        if (code := (self.apart if apart else self.run)(*command.split(), *more)) != 2:
            raise ValueError(f"was not refused: exit code {code}")

    def _harmless(self, code: int, output: bytes) -> int:
        said = output.decode("utf-8", "replace")
        if code not in {0, 1, 2} or "Traceback" in said:
            raise ValueError(f"exit code {code}: {said[-200:]}")
        if strange := _UNSEEN.search(said):
            raise ValueError(f"prints {strange[0]!r}")
        self.check()
        return code

    def check(self) -> None:
        """ValueError where code has run, or files outside have changed."""
        if self.mark.exists():
            self.mark.unlink()
            raise ValueError("code from a file has run")
        if self._outside() != self.outside:
            raise ValueError("files outside of the folder have changed")


def _archives(attacked: Attacked) -> Stops:
    def reading_zip(*members: tuple[str | zipfile.ZipInfo, str | bytes]) -> Callable[[], None]:
        def run() -> None:
            path = attacked.home / "x.zip"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in members:
                    archive.writestr(name, content)
            with contextlib.suppress(InputError):
                unpack(path, attacked.home / "zips", 1 << 20)
                raise ValueError("was unpacked")
            attacked.check()

        return run

    def member(name: str, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name
        info.external_attr = (kind | 0o777) << 16
        return info

    for name in (*OUT, *ODD):
        yield f"zip member {name!r}", reading_zip((member(name), "x"))
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        yield f"zip, kind {kind:o}", reading_zip((member("x", kind), "/etc"))
    yield "zip bomb", reading_zip(("x", bytes(1 << 28)))
    large = np.random.default_rng(0).bytes(1 << 19)
    yield "zip of many bytes", reading_zip(*((str(n), large) for n in range(9)))
    yield "zip, a name twice", reading_zip(("a", "1"), ("A", "2"))
    yield "zip, a file below a file", reading_zip(("a", "1"), ("a/b", "2"))


def _paths(attacked: Attacked) -> Stops:
    (attacked.home / "pictures").mkdir()
    header = json.loads((attacked.home / "data" / "dataset.json").read_text())
    runs = {"format": "nooch-runs", "version": 1, "data": {}, "settings": {}, "passes": []}
    job = {"task": "car", "method": "erm", "parameters": [], "seed": 0, "order": 0}
    table = "import table f --id id --label car --file-name file --images pictures out"
    secret = attacked.home.parent / "secret.png"
    for name in ("../secret.png", str(secret), "a/../../secret.png", "..\\secret.png"):
        record = next(iter(header["files"].values()))
        kinds = {
            "COCO": ("f.json", document([image(1, file_name=name)]),
                     "import coco --things f.json --images pictures out"),
            "table": ("f.csv", f"id,car,file\n1,0,{name}\n", table.replace(" f ", " f.csv ")),
            "dataset": ("d/dataset.json", {**header, "files": {name: record}}, "info d"),
            "runs": ("r/runs.json", {**runs, "jobs": {name: job}}, "collect r suite --out s"),
            "YOLO": ("y.yaml", f"path: .\ntrain: [{json.dumps(name)}]\nnames: [car]\n",
                     "import auto y.yaml out"),
            "embedding": ("x", "", f"bench data suite --out r2 --embedding {name}"),
        }  # fmt: skip
        for kind, (file, content, command) in kinds.items():
            yield f"{kind}: path {name!r}", _refusal(attacked, file, content, command)


def _refusal(
    attacked: Attacked, file: str, content: object, command: str, *, apart: bool = False
) -> Callable[[], None]:
    def run() -> None:
        attacked.write(file, content)
        attacked.refused(command, apart=apart)

    return run


def _code(attacked: Attacked) -> Stops:
    bomb = np.array([Bomb(attacked.mark)], dtype=object)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, bomb, allow_pickle=True)
    names = ("image_ids", "logits", "train_ids", "valid_ids", "test_ids", "embeddings")
    arrays: dict[str, Any] = dict.fromkeys(names, bomb)
    np.savez(npz, **arrays)
    contents = {
        "npy": npy.getvalue(),
        "npz": npz.getvalue(),
        "pkl": pickle.dumps(Bomb(attacked.mark)),
    }
    attacked.write("t.csv", "id,car\n1,0\n2,1\n")
    for kind, content in contents.items():
        for end in ("npy", "npz", "pt", "pkl", "csv", "json", "parquet"):
            command = f"evaluate suite x.{end}"
            yield f"pickle ({kind}): {command}", _refusal(attacked, f"x.{end}", content, command)
        for words in ("import table t.csv --id id --label car --split x.npz o",
                      "tools embed data --encoder x.npz"):  # fmt: skip
            yield f"pickle ({kind}): {words}", _refusal(attacked, "x.npz", content, words)
    tags = ("apply:os.system [touch {}]", "name:os.system", "module:evil", "new:evil.Thing []")
    commands = (
        "train bench data suite --out r --features f --config c.yaml", "import auto c.yaml out",
        "predict suite --model m --map c.yaml --out p2.csv", "scenes s --config c.yaml",
        "captions suite p.csv --synonyms c.yaml",
    )  # fmt: skip
    for tag in tags:
        text = f"seeds: !!python/{tag.format(attacked.mark).replace('apply', 'object/apply')}\n"
        for command in commands:
            yield f"YAML {tag}: {command}", _refusal(attacked, "c.yaml", text, command)
    plain = (attacked.home / "suite" / "suite.json").read_text()
    for name in ("evil:Thing", "evil", "nooch.criteria:CE", "os:system"):
        altered = re.sub(r'("kind": )"(ce|not)"', f'\\1"{name}"', plain)

        def named(altered: str = altered) -> None:
            attacked.write("s/suite.json", altered)
            sets = (attacked.home / "suite" / "challenge_sets.parquet").read_bytes()
            attacked.write("s/challenge_sets.parquet", sets)
            attacked.run("explain", "s", "--task", "car", "--image", "40", "--dataset", "data")

        yield f"suite that names {name}", named
    for weights in ("pytorch_model.bin", "model.bin"):
        config = {"model_type": "resnet", "auto_map": {"AutoModel": "evil.Thing"}}
        attacked.write("m/config.json", config)
        words = "predict suite --dataset data --model m --out p3.csv"
        yield f"pickle: {weights}", _refusal(attacked, f"m/{weights}", contents["pkl"], words)


def _bombs(attacked: Attacked) -> Stops:
    def picture(width: int) -> bytes:
        head, data = (
            width.to_bytes(4, "big") * 2 + b"\x08\0\0\0\0",
            zlib.compress(bytes(1 << 24), 9),
        )
        chunks = [b"IHDR" + head, b"IDAT" + data]
        sums = [
            (len(c) - 4).to_bytes(4, "big") + c + zlib.crc32(c).to_bytes(4, "big") for c in chunks
        ]
        return b"\x89PNG\r\n\x1a\n" + b"".join(sums)

    pairs = list(zip("abcdefgh", "bcdefghi", strict=True))
    laughs = "".join(f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in pairs)
    entities = "".join(f'<!ENTITY {c} "{f"&{p};" * 10}">' for p, c in pairs)
    npz = io.BytesIO()
    with (
        zipfile.ZipFile(npz, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("image_ids.npy", "w") as f,
    ):
        about = {"descr": "<i8", "fortran_order": False, "shape": (1 << 34,)}
        np.lib.format.write_array_header_1_0(f, about)
        f.write(bytes(1 << 24))
    wide = {"counts": [10**10], "size": [10**5, 10**5]}
    mask = {"image_id": 1, "category_id": 1, "segmentation": wide}
    bench, captions = (
        "train bench data suite --features f --out r --config c.yaml",
        "captions suite d.json",
    )
    maps, voc = "import label-maps maps --classes names.txt out", "import boxes voc out --boxes voc"
    coco = "import coco --things d.json out"
    attacked.write("names.txt", "a\nb\n")
    word = "<annotation><filename>&i;</filename></annotation>"
    for name, (path, content, command) in {
        "map of 900 M pixels": ("maps/a.png", picture(30_000), maps),
        "map of 10^18 pixels": ("maps/a.png", picture(10**9), maps),
        "lists in lists": ("d.json", "[" * 200_000, coco),
        "objects in objects": ("d.json", '{"a":' * 200_000, captions),
        "number of 1 M digits": ("d.json", f'[{{"image_id": {"9" * 10**6}}}]', captions),
        "YAML that laughs": ("c.yaml", f"a: &a [x,x]\n{laughs}seeds: *i\n", bench),
        "YAML in YAML": ("c.yaml", "seeds: " + "[" * 100_000, bench),
        "XML that laughs": ("voc/a.xml", f'<!DOCTYPE x [<!ENTITY a "aa">{entities}]>{word}', voc),
        "XML that reads": (
            "voc/a.xml",
            f'<!DOCTYPE x [<!ENTITY i SYSTEM "/etc/passwd">]>{word}',
            voc,
        ),
        "array of 128 GB": ("b.npz", npz.getvalue(), "evaluate suite b.npz"),
    }.items():
        yield name, _refusal(attacked, path, content, command, apart=True)

    def read_mask() -> None:
        # read, not refused: its area comes from its runs, without a pixel in memory
        attacked.write("d.json", document([image(1, 10**5, 10**5)], [mask]))
        attacked.apart(*coco.split())

    yield "mask of 10^10 pixels", read_mask


class _Elements(HTMLParser):
    """Finds elements and attributes of a page that are not the page's own."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An attribute that runs code."""
        for name, value in attrs:
            text = value or ""
            if "owned" in text and (name.startswith("on") or text.startswith("javascript:")):
                self.found = f"<{tag} {name}={value}>"

    def handle_data(self, data: str) -> None:
        """A script."""
        if self.cdata_elem == "script" and data.strip().startswith("owned()"):
            self.found = "<script>owned()"


_SHOWN = (
    "info {}/data", "find {}/data --alpha 0.01 --out {}/suite", "show {}/suite",
    "evaluate {}/suite {}/p.csv --out {}/scores.csv",
    "evaluate {}/suite {}/p.csv --out {}/scores.md",
    "slices {}/suite {}/p.csv --min-support 3 --out {}/slices.csv", "export {}/suite {}/c --to csv",
    "export {}/suite {}/hf --to hf",
    "report {}/suite --predictions {}/p.csv --out {}/site",
    "check {}/data {}/p.csv --out {}/checked",
)  # fmt: skip


def _outputs(attacked: Attacked) -> Stops:
    """Names of classes, runs and values that do harm if they are shown."""
    for what, name in NAMES.items():

        def shown(what: str = what, name: str = name) -> None:
            ids = range(90)
            labels = [
                ([name] if n % 2 else []) + ["road" if n % 2 or n % 3 else "sky"] for n in ids
            ]
            rows = [
                (n, label, 0.5 if label == "road" else 0.2, name)
                for n in ids
                for label in labels[n]
            ]
            (attacked.home / what).mkdir()
            table = pl.DataFrame(rows, ["id", "class", "area", "place"], orient="row")
            table.write_csv(attacked.home / what / "t.csv")
            guess = pl.Series([0.1 * (n % 7) - 0.3 for n in ids])
            frame = pl.DataFrame({"image_id": ids, "task": name, "logit": guess, "run": name})
            frame.write_csv(attacked.home / what / "p.csv")
            layout = "--id id --class class --area area --split 60/20/20"
            if attacked.run(*f"import table {what}/t.csv {layout} {what}/data".split()) == 0:
                for command in _SHOWN:
                    attacked.run(*command.replace("{}", what).split())
            _check_files(attacked.home / what)

        yield f"names: {what}", shown


def _check_files(folder: Path) -> None:
    """ValueError for a page that runs code, a name of a file, or a cell that is a formula."""
    for path in folder.rglob("*"):
        inside, page = path.relative_to(folder).as_posix(), _Elements()
        if _UNSEEN.search(inside):
            raise ValueError(f"a file is called {inside!r}")
        if path.suffix == ".html":
            page.feed(path.read_text())
            if page.found:
                raise ValueError(f"{inside} has {page.found}")
        if path.suffix == ".csv" and path.name not in {"t.csv", "p.csv"}:
            for row in csv.reader(io.StringIO(path.read_text())):
                if formula := next(filter(_FORMULA.match, row), None):
                    raise ValueError(f"{inside} has the cell {formula!r}")


def attack(folder: Path) -> Figures:
    """Try everything."""
    figures, attacked = Figures("attacks"), Attacked(folder)
    for family in (_archives, _paths, _code, _bombs, _outputs):
        for name, run in family(attacked):
            figures.runs += 1
            try:
                run()
            except subprocess.TimeoutExpired:
                figures.hangs += 1
                figures.note("hangs", name)
            except ValueError as error:
                figures.note(f"not stopped: {error}", name)
    return figures
