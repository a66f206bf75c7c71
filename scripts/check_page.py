"""Make the picture of a check's page for README.md: python scripts/check_page.py DEMO OUT.jpg.

DEMO is the folder that ``python examples/demo.py`` wrote; needs playwright and Chromium.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import nooch


def main() -> None:
    """Check the demo's network, and photograph the top of the page in light colors."""
    demo, out = map(Path, sys.argv[1:])
    chromium = os.environ.get("NOOCH_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        answers = demo / "classes" / "predictions.parquet"
        checked = nooch.check(demo / "dataset", answers, Path(folder) / "check", bootstrap=0)
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1130}, color_scheme="light")
        page.goto(checked.page.absolute().as_uri(), wait_until="networkidle")
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.convert("RGB").save(out, quality=72, optimize=True, progressive=True)
        browser.close()


if __name__ == "__main__":
    main()
