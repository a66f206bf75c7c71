"""The rules of the architecture, read from the code."""

import ast
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from small_world import bench_command, make_world

from nooch.cli.main import app
from nooch.criteria import FITTED
from nooch.data.readers import READERS
from nooch.models.encoders import ENCODERS
from nooch.report.exports import EXPORTS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "nooch"
MODULES = sorted(SOURCE.rglob("*.py"))

# packages from the bottom up: one may import itself and those of lower layers, nothing beside it;
# so only the command line imports the reproduction of the paper
LAYERS = [
    {"base"},
    {"data"},
    {"criteria", "models"},
    {"suites"},
    {"evaluation"},
    {"inference", "scenes", "training"},
    {"report"},
    {"analysis", "callbacks", "integrity", "io", "paper", "vlm"},
    {"plot"},
    {"cli"},
    {"__main__"},
]
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
# a family's table names its plug-ins
PLUGINS = {
    "readers": {target.partition(":")[0] for target in READERS.values()},
    "encoders": {target.partition(":")[0] for target in ENCODERS.values()},
    "criteria": {kind.__module__ for kind in FITTED.values()},
    "exports": {target.partition(":")[0] for target in EXPORTS.values()},
}


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {_name(path): path for path in MODULES}
# the program, and what only Inspect AI imports
NOT_IMPORTED = {"nooch.__main__", "nooch.inference.inspect_tasks"}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(PATHS[module].read_text(encoding="utf-8"))


@cache
def _nodes(module: str) -> list[ast.AST]:
    return [*ast.walk(_tree(module))]


@cache
def _imports(module: str) -> set[str]:
    """Modules of nooch that one imports: at the top, in functions, under TYPE_CHECKING."""
    modules = set()
    for node in _nodes(module):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if alias.name.split(".")[0] == "nooch"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            if node.module and node.module.split(".")[0] == "nooch":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    modules.add(inner if inner in PATHS else node.module)
    return modules


def _package(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def test_imports_point_downwards():
    for module in PATHS.keys() - {"nooch"}:
        package = _package(module)
        assert package in LAYER, f"{package} is in no layer of the design"
        for imported in _imports(module):
            target = _package(imported)
            assert target is not None, (
                f"{module} imports the top of the package: name the module that has it"
            )
            assert target == package or LAYER[target] < LAYER[package], (
                f"{module} imports {imported}"
            )


def test_there_is_no_import_circle():
    # a package's __init__ runs before its modules: importing nooch.a.b also imports nooch.a
    edges = {
        m: (
            {
                ".".join(i.split(".")[:n])
                for i in _imports(m)
                for n in range(2, len(i.split(".")) + 1)
            }
            & set(PATHS)
        )
        for m in PATHS
        if m != "nooch"
    }
    # ... but a module may be imported by its own package's __init__ without that being a circle
    edges = {m: {t for t in of if t != m and not m.startswith(t + ".")} for m, of in edges.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        if module not in done:
            for target in sorted(edges.get(module, ())):
                visit(target, (*trail, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


@pytest.mark.parametrize("family", sorted(PLUGINS))
def test_plugins_never_import_each_other(family):
    assert len(PLUGINS[family]) > 1
    for plugin in PLUGINS[family]:
        assert not _imports(plugin) & (PLUGINS[family] - {plugin}), plugin


def test_files_are_short_and_say_what_they_are_for():
    for path in MODULES:
        assert path.read_text(encoding="utf-8").count("\n") <= 700, path
    for module in PATHS:
        assert ast.get_docstring(_tree(module)), (
            f"{module}: a module's first line says what it is for"
        )


def test_a_class_name_is_defined_once():
    places: dict[str, list[str]] = {}
    for module in PATHS:
        for node in _tree(module).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_nothing_is_unpickled_or_evaluated():
    for module in PATHS:
        for node in _nodes(module):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
                unsafe = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
                assert not names & unsafe, module
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"eval", "exec", "pl.sql", "pl.SQLContext"}, module
                if called in {"np.load", "numpy.load"}:
                    assert "allow_pickle=False" in {ast.unparse(k) for k in node.keywords}, module


def test_one_function_writes_tables_of_polars():
    assert [m for m in PATHS if ".write_parquet(" in PATHS[m].read_text("utf-8")] == [
        "nooch.data.table_files"
    ], "write_bytes(parquet_bytes(table)): on a full disk, polars raises errors of its own"


def test_all_is_in_faces_alone_and_names_what_is_there():
    for module, path in PATHS.items():
        if module in NOT_IMPORTED:
            continue
        loaded = importlib.import_module(module)
        public = getattr(loaded, "__all__", None)
        top = {f"nooch.{name}" for name in ("callbacks", "integrity", "io", "paper", "plot", "vlm")}
        if path.name != "__init__.py" and module not in top:
            assert public is None, f"{module}: only the face of a package lists public names"
        if public is not None:
            assert [name for name in public if not hasattr(loaded, name)] == []
            assert len(set(public)) == len(public), module


def _texts(module: str) -> list[str]:
    """String literals of a module that are no docstrings."""
    documented = {
        id(line.value)
        for node in _nodes(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        for line in node.body
        if isinstance(line, ast.Expr)
    }
    nodes = (node for node in _nodes(module) if isinstance(node, ast.Constant))
    return [n.value for n in nodes if isinstance(n.value, str) and id(n) not in documented]


FLAGS = {flag for _, command in app.every() for one in command.params for flag in one.opts}


def test_only_the_command_line_knows_flags():
    """Messages name parameters in backticks; --flag=value belongs to other programs."""
    for module in PATHS:
        for text in _texts(module) if _package(module) != "cli" else []:
            flags = set(re.findall(r"(?<![\w-])--[a-z-]+(?![a-z=-])", text))
            assert not FLAGS & flags, f"{module}: {text}"


FILES_PASSED = {"find": 29, "evaluate": 27, "bench": 40}
"""Command -> files of the library, without the command line, that it may pass through."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A dataset, a suite of it, and predictions for its test images; everything is imported."""
    folder = make_world(tmp_path_factory.mktemp("world"), epochs=2)
    images = pl.read_parquet(folder / "dataset" / "images.parquet").filter(split="test")
    images.select("image_id", car=0.5, bowl=0.25).write_csv(folder / "predictions.csv")
    for module in PATHS:
        if module not in NOT_IMPORTED:
            importlib.import_module(module)
    # the words of answers are read once in a process
    importlib.import_module("nooch.evaluation.answer_words").answer_words("en")
    return folder


@pytest.mark.parametrize("verb", FILES_PASSED)
def test_a_command_passes_few_files(verb, world, run_cli, tmp_path):
    if verb == "bench":
        pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    command = {
        "find": f"find {world / 'dataset'} --criterion ce --out {tmp_path / 'suite'}",
        "evaluate": f"evaluate {world / 'suite'} {world / 'predictions.csv'} --scale probability",
        "bench": bench_command(world, tmp_path / "runs"),
    }[verb]
    entered = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(f"{SOURCE}{os.sep}"):
            entered.add(Path(frame.f_code.co_filename))

    sys.setprofile(note)
    try:
        done = run_cli(command)
    finally:
        sys.setprofile(None)
    done.ok()
    passed = {_name(path) for path in entered if _package(_name(path)) not in {"cli", "__main__"}}
    assert len(passed) <= FILES_PASSED[verb], " ".join([str(len(passed)), *sorted(passed)])


_BARE = """
import sys
EXTRAS = 'torch transformers sentence_transformers ray submitit fiftyone matplotlib'.split()
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in EXTRAS:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name.split('.')[0])
sys.meta_path.insert(0, Refuse())
"""


def _bare(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _BARE + code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


def test_the_core_imports_without_extras():
    modules = [m for m in PATHS if m not in NOT_IMPORTED]
    code = "import importlib\n" + "".join(f"importlib.import_module({m!r})\n" for m in modules)
    code += "import nooch\n[getattr(nooch, name) for name in nooch.__all__]\n"
    done = _bare(code)
    assert done.returncode == 0, done.stderr


def test_a_missing_extra_gives_the_install_line():
    done = _bare(
        "from nooch.models.encoders import encoder\nencoder('all-MiniLM-L6-v2').encode(['a cat'])\n"
    )
    assert done.returncode == 1
    assert "pip install 'nooch[gist]'" in done.stderr
    assert "MissingExtraError" in done.stderr


def test_importing_nooch_is_light():
    code = (
        "import sys, nooch, nooch.cli.main\nprint(*[m for m in ('polars', 'scipy', 'sklearn',"
        " 'sqlglot', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
