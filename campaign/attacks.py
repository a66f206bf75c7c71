"""What others' files could try: to write elsewhere, run code, fill memory, or speak to a terminal.

Each attack is one command on a crafted input. It is stopped if the marker of its code is not there,
nothing outside its folder has changed, the command ended in time with 0, 1 or 2 and no traceback,
and what it printed and wrote is harmless.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import resource
import stat
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import nooch
from coco_files import document, image
from disturbances import Figures
from nooch.download.zip_extraction import unpack
from nooch.errors import InputError
from scored import logits, small_data, small_suite
from worlds import argv

__all__ = ["attack"]

MEMORY = 4 << 30
SECONDS = 120
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+(?:[eE][+-]?\d+)?$|inf$|nan$)")
OUT = ("../x", "/tmp/nooch-x", "a/../../x", "a/b/../../../x", "..", "./../x", "a//../../x")
ODD = (
    "C:\\x",
    "..\\x",
    "a\\..\\..\\x",
    "x\0.txt",
    "x\x1b[31m",
    "x.",
    "x ",
    "a/./b",
    "x:y",
    "nul\x07",
)
NAMES = {
    "escape": "car\x1b]0;owned\x07\x1b[31m", "C1": "car\u009b31m", "bidi": "car\u202egpj.exe", "line": "a\rb",
    "element": "<script>owned()</script>", "attribute": '"><img src=x onerror=owned()>',
    "end of script": "</script><script>owned()</script>", "quote": "' onmouseover='owned()",
    "formula": "=cmd|' /C calc'!A0", "plus": "+1+cmd", "minus": "-1+cmd", "at": "@SUM(1)", "tab": "\t=1+1",
    "path": "../../owned", "template": "{{7*7}}{% raw %}", "markdown": "[x](javascript:owned())",
}  # fmt: skip


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (exec, (f"open({str(self.mark)!r}, 'w')",))


class Attack:
    """A folder with a victim's dataset, suite and predictions; commands run in it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.mark = folder / "home", folder / "mark"
        self.home.mkdir(parents=True)
        (folder / "secret.png").write_bytes(b"secret")
        self.outside = self._outside()
        nooch.save_dataset(small_data(), self.home / "data")
        suite = small_suite()
        nooch.save_suite(suite, self.home / "suite")
        logits(suite).write_csv(self.home / "p.csv")
        evil = f"open({str(self.mark)!r}, 'w')\nclass Thing: pass\n"
        (self.home / "evil.py").write_text(evil)

    def _outside(self) -> dict[str, bytes]:
        folder = self.home.parent
        files = [path for path in folder.rglob("*") if self.home not in (path, *path.parents)]
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    def write(self, name: str, content: str | bytes | object) -> Path:
        """A file in the folder; what is no text or bytes is written as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        text = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        path.write_bytes(text)
        return path

    def run(self, command: str, *more: str) -> tuple[int, str]:
        """Exit code and all output of a command; ValueError where it did harm."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # noqa: E731
        done = subprocess.run(
            [*argv(command), *more], cwd=self.home, capture_output=True, timeout=SECONDS,
            preexec_fn=limit, check=False,  # noqa: PLW1509 - no threads hold locks
        )  # fmt: skip
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode not in {0, 1, 2} or "Traceback" in said:
            raise ValueError(f"exit code {done.returncode}: {said[-200:]}")
        self.check(said)
        return done.returncode, said

    def refused(self, command: str, *more: str) -> None:
        """Run a command that must end in an error."""
        code, said = self.run(command, *more)
        if code != 2:
            raise ValueError(f"was not refused: exit code {code}, {said[-200:]}")

    def check(self, said: str = "") -> None:
        """ValueError where code has run, files outside have changed, or output could do harm."""
        if self.mark.exists():
            self.mark.unlink()
            raise ValueError("code from a file has run")
        if self._outside() != self.outside:
            raise ValueError("files outside of the folder have changed")
        if found := _UNSEEN.search(said):
            raise ValueError(f"prints {found[0]!r}")


def _archives(at: Attack) -> Iterator[tuple[str, Callable[[], None]]]:
    def of(fill: Callable[[zipfile.ZipFile], object]) -> Callable[[], None]:
        def run() -> None:
            path, target = at.home / "x.zip", at.home / "zips"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                fill(archive)
            try:
                unpack(path, target, 1 << 20)
            except InputError:
                at.check()
            else:
                raise ValueError("was unpacked")

        return run

    for name in (*OUT, *ODD):
        yield f"zip member {name!r}", of(lambda z, name=name: z.writestr(_member(name), "x"))
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        yield (
            f"zip member of kind {kind:o}",
            of(lambda z, kind=kind: z.writestr(_member("x", kind), "/etc")),
        )
    yield "zip bomb", of(lambda z: z.writestr("x", bytes(1 << 30)))
    yield (
        "zip of many bytes",
        of(
            lambda z: [
                z.writestr(str(n), np.random.default_rng(n).bytes(1 << 19)) for n in range(9)
            ]
        ),
    )
    yield "zip with a name twice", of(lambda z: (z.writestr("a", "1"), z.writestr("A", "2")))
    yield (
        "zip with a file below a file",
        of(lambda z: (z.writestr("a", "1"), z.writestr("a/b", "2"))),
    )


def _member(name: str, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = info.orig_filename = name
    info.external_attr = (kind | 0o777) << 16
    return info


def _paths(at: Attack) -> Iterator[tuple[str, Callable[[], None]]]:
    inside = at.home / "pictures"
    inside.mkdir()
    secret = at.home.parent / "secret.png"
    header = json.loads((at.home / "data" / "dataset.json").read_text())
    runs = {
        "format": "nooch-runs",
        "version": 1,
        "data": {"suite": "x"},
        "settings": {},
        "passes": [],
    }
    for name in ("../secret.png", str(secret), "a/../../secret.png", "..\\secret.png"):

        def coco(name: str = name) -> None:
            at.write("c.json", document([image(1, file_name=name)]))
            at.refused("import coco --things c.json --images pictures out --overwrite")

        def table(name: str = name) -> None:
            at.write("t.csv", f"id,car,file\n1,0,{name}\n")
            at.refused(
                "import table t.csv --id id --label car --file-name file --images pictures out"
            )

        def listed(name: str = name) -> None:
            files = {**header["files"], name: next(iter(header["files"].values()))}
            at.write("altered/dataset.json", {**header, "files": files})
            at.refused("info altered")

        def job(name: str = name) -> None:
            of = {"task": "car", "method": "erm", "parameters": [], "seed": 0, "order": 0}
            at.write("runs/runs.json", {**runs, "jobs": {name: of}})
            at.refused("collect runs suite --out scores")

        def voc(name: str = name) -> None:
            at.write(
                "voc/a.xml",
                f"<annotation><filename>{name}</filename><size><width>9</width><height>9</height></size></annotation>",
            )
            at.run("import boxes voc out-voc --boxes voc --images pictures --overwrite")

        def yolo(name: str = name) -> None:
            at.write("yolo/data.yaml", f"path: .\ntrain: [{json.dumps(name)}]\nnames: [car]\n")
            at.refused("import auto yolo/data.yaml out")

        def embedding(name: str = name) -> None:
            at.refused("bench data suite --out runs2 --embedding", name)

        for kind in (coco, table, listed, job, voc, yolo, embedding):
            yield f"{kind.__name__}: path {name!r}", kind


def _code(at: Attack) -> Iterator[tuple[str, Callable[[], None]]]:
    bomb = np.array([Bomb(at.mark)], dtype=object)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, bomb, allow_pickle=True)
    np.savez(
        npz,
        image_ids=bomb,
        logits=bomb,
        train_ids=bomb,
        valid_ids=bomb,
        test_ids=bomb,
        embeddings=bomb,
    )
    contents = {"npy": npy.getvalue(), "npz": npz.getvalue(), "pkl": pickle.dumps(Bomb(at.mark))}
    for kind, content in contents.items():
        for ending in (".npy", ".npz", ".pt", ".pkl", ".csv", ".json", ".parquet"):

            def predictions(
                kind: str = kind, ending: str = ending, content: bytes = content
            ) -> None:
                at.write(f"{kind}{ending}", content)
                at.refused(f"evaluate suite {kind}{ending}")

            yield f"pickle ({kind}) as predictions{ending}", predictions
        for command in (
            "import table t.csv --id id --label car --split {} o",
            "embed data --encoder {}",
        ):

            def other(command: str = command, content: bytes = content) -> None:
                at.write("t.csv", "id,car\n1,0\n2,1\n")
                at.write("b.npz", content)
                at.refused(command.format("b.npz"))

            yield f"pickle ({kind}): {command}", other
    for tag in ("!!python/object/apply:os.system [touch {}]", "!!python/name:os.system", "!!python/module:evil",
                "!!python/object/new:evil.Thing []"):  # fmt: skip
        for command in ("bench data suite --out r --features f --config c.yaml", "import auto c.yaml out",
                        "predict suite --model m --map c.yaml --out p2.csv", "captions suite p.csv --synonyms c.yaml",
                        "scenes s --config c.yaml"):  # fmt: skip

            def yaml(tag: str = tag, command: str = command) -> None:
                at.write("c.yaml", f"seeds: {tag.format(at.mark)}\n")
                at.refused(command)

            yield f"{tag.split()[0]}: {command.split()[0]}", yaml
    plain = (at.home / "suite" / "suite.json").read_text()
    for name in ("evil:Thing", "evil", "nooch.criteria:CE", "os:system"):

        def kind(name: str = name) -> None:
            at.write("altered/suite.json", plain.replace('"kind": "ce"', f'"kind": "{name}"'))
            at.write(
                "altered/challenge_sets.parquet",
                (at.home / "suite" / "challenge_sets.parquet").read_bytes(),
            )
            at.run("explain altered --task car --image 40")

        yield f"suite that names {name}", kind
    for weights in ("pytorch_model.bin", "model.bin"):

        def model(weights: str = weights) -> None:
            at.write(
                "model/config.json",
                {
                    "model_type": "resnet",
                    "architectures": ["ResNetModel"],
                    "auto_map": {"AutoModel": "evil.Thing"},
                },
            )
            at.write(f"model/{weights}", contents["pkl"])
            at.write("model/evil.py", (at.home / "evil.py").read_text())
            at.refused("predict suite --dataset data --model model --out p3.csv")

        yield f"pickle as {weights}", model


def _bombs(at: Attack) -> Iterator[tuple[str, Callable[[], None]]]:
    def picture(width: int) -> bytes:
        head = b"\0\0\0\rIHDR" + width.to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"
        data = zlib.compress(bytes(1 << 24), 9)
        return (
            b"\x89PNG\r\n\x1a\n" + _crc(head) + _crc(len(data).to_bytes(4, "big") + b"IDAT" + data)
        )

    laughs = "".join(
        f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n"
        for p, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    entities = "".join(
        f'<!ENTITY {c} "{f"&{p};" * 10}">' for p, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    empty = io.BytesIO()
    with (
        zipfile.ZipFile(empty, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("image_ids.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<i8", "fortran_order": False, "shape": (1 << 34,)}
        )
        for _ in range(64):
            file.write(bytes(1 << 24))
    files: dict[str, tuple[str, object, str]] = {
        "map of 900 M pixels": ("maps/a.png", picture(30_000), "import label-maps maps --classes names.txt out"),
        "map of 10^9 pixels a side": ("maps/a.png", picture(10**9), "import label-maps maps --classes names.txt out"),
        "lists in lists": ("d.json", "[" * 200_000, "import coco --things d.json out"),
        "objects in objects": ("d.json", '{"a":' * 200_000, "captions suite d.json"),
        "number of 1 M digits": ("d.json", f'[{{"image_id": {"9" * 10**6}}}]', "captions suite d.json"),
        "YAML that laughs": ("c.yaml", f"a: &a [x,x]\n{laughs}seeds: *i\n", "bench data suite --features f --out r --config c.yaml"),
        "YAML in YAML": ("c.yaml", "seeds: " + "[" * 100_000, "bench data suite --features f --out r --config c.yaml"),
        "XML that laughs": ("voc/a.xml", f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{entities}]><annotation><filename>&i;</filename></annotation>', "import boxes voc out --boxes voc"),
        "XML that reads files": ("voc/a.xml", '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation><filename>&a;</filename></annotation>', "import boxes voc out --boxes voc"),
        "array of 128 GB": ("b.npz", empty.getvalue(), "evaluate suite b.npz"),
        "mask of 10^10 pixels": ("d.json", document([image(1, 10**5, 10**5)], [{"image_id": 1, "category_id": 1, "segmentation": {"counts": [10**10], "size": [10**5, 10**5]}}]), "import coco --things d.json out"),
    }  # fmt: skip
    at.write("names.txt", "a\nb\n")
    for name, (path, content, command) in files.items():

        def bomb(path: str = path, content: object = content, command: str = command) -> None:
            at.write(path, content)
            at.refused(command)

        yield name, bomb


def _crc(chunk: bytes) -> bytes:
    return chunk + zlib.crc32(chunk[4:]).to_bytes(4, "big")


class _Elements(HTMLParser):
    """Whether a page has an element or attribute that is not the page's own."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if "owned" in (value or "") and (
                name.startswith("on") or "javascript:" in (value or "")
            ):
                self.found = f"<{tag} {name}={value}>"

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script" and data.strip().startswith("owned()"):
            self.found = "<script>owned()"


def _outputs(at: Attack) -> Iterator[tuple[str, Callable[[], None]]]:
    """Names of classes, files, columns, runs and values that do harm where they are shown."""
    commands = (
        "info {0}", "find {0} --criterion ce --alpha 0.01 --out {1}", "show {1}", "evaluate {1} {2} --out scores.csv",
        "evaluate {1} {2} --out scores.md", "slices {1} {2} --dataset {0} --out slices.csv --min-support 3",
        "export {1} csv --to csv", "export {1} viewer --to viewer", "export {1} hf --to hf", "gallery {1} --out g.png",
        "report {1} --out site --predictions {2} --dataset {0}", "check {0} {2} --out checked", "verify {1} data",
    )  # fmt: skip
    for what, name in NAMES.items():

        def shown(name: str = name, what: str = what) -> None:
            folder = at.home / what
            folder.mkdir(exist_ok=True)
            rows = [
                {
                    "id": n,
                    "class": one,
                    "area": 0.2 + 0.3 * (one == "road"),
                    "file": f"{n}.png",
                    "place": name,
                }
                for n in range(90)
                for one in ([name] if n % 2 else []) + (["road"] if n % 2 or n % 3 else ["sky"])
            ]
            pl.DataFrame(rows).write_csv(folder / "t.csv")
            images = [n for n in range(90)]
            pl.DataFrame(
                {
                    "image_id": images,
                    "task": name,
                    "logit": [0.1 * (n % 7) - 0.3 for n in images],
                    "run": name,
                }
            ).write_csv(folder / "p.csv")
            code, said = at.run(
                f"import table '{what}/t.csv' --id id --class class --area area --file-name file --split 60/20/20 '{what}/data'"
            )
            if code:
                return
            for command in commands:
                words = command.format(
                    *(f"'{what}/{place}'" for place in ("data", "suite", "p.csv"))
                )
                at.run(
                    re.sub(r"(--out|--to \S+) (\w)", rf"\1 '{what}'/\2", words)
                    .replace(" csv --to", f" '{what}/csv' --to")
                    .replace(" viewer --to", f" '{what}/viewer' --to")
                    .replace(" hf --to", f" '{what}/hf' --to")
                )
            _check_files(folder)

        yield f"names with {what}", shown


def _check_files(folder: Path) -> None:
    """ValueError for a page that runs code, a name of a file, or a cell that is a formula."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).as_posix()
        if _UNSEEN.search(inside):
            raise ValueError(f"a file is called {inside!r}")
        if path.suffix == ".html":
            page = _Elements()
            page.feed(path.read_text())
            if page.found:
                raise ValueError(f"{inside} has {page.found}")
        if path.suffix == ".csv" and path.name not in ("t.csv", "p.csv"):
            for row in csv.reader(io.StringIO(path.read_text())):
                for cell in row:
                    if _FORMULA.match(cell):
                        raise ValueError(f"{inside} has the cell {cell!r}")


def attack(folder: Path) -> Figures:
    """Try everything."""
    figures, at = Figures("attacks"), Attack(folder)
    for family in (_archives, _paths, _code, _bombs, _outputs):
        for name, run in family(at):
            figures.runs += 1
            try:
                run()
            except subprocess.TimeoutExpired:
                figures.hangs += 1
                figures.note("hangs", name)
            except ValueError as error:
                figures.note(f"not stopped: {error}", name)
    return figures
