"""Reproduction of the paper: its published sets, numbers, tables, figures and Waterbirds.

Nothing below imports this package.
"""

import ast
from pathlib import Path

import lazy_loader

# the stub lists the names once: of this package, and of lower ones
_NAMES = {
    f"{'paper.' * node.level}{node.module}".removeprefix("nooch."): [a.name for a in node.names]
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
}
__getattr__, __dir__, __all__ = lazy_loader.attach("nooch", submod_attrs=_NAMES)
