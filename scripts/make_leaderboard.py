"""Make the rows of ``leaderboard/`` from answers and captions that others published.

    python scripts/make_leaderboard.py ../shared/data

reads below that folder ``answers`` (four files of answers to POPE's adversarial questions, two of
VLMEvalKit, three of captions of AMBER and nine of COCO). A row has none of a file's words, only
what they mean: for each question yes, no or nothing, for each image the names of the things that
its caption mentions. Keeps rows of others; the same input gives the same bytes, given the same
pyarrow.

    python scripts/make_leaderboard.py --site site

writes the index of the pages that `nooch leaderboard` wrote below that folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
import yaml
from make_nooch_words import write  # type: ignore[import-not-found]

from nooch.analysis.leaderboard import Leaderboard
from nooch.base.files import sha256_of
from nooch.base.words import readable
from nooch.evaluation.answers import read_answers
from nooch.evaluation.captions import finished, mentions, read_captions
from nooch.evaluation.vocabulary import load_vocabulary
from nooch.suites import Suite, load_suite

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples"))
from mitigations import DECODINGS, MODELS, TUNED, named  # noqa: E402

POPE, AMBER, COCO = "nooch-pope", "nooch-amber", "nooch-opera"
ABOUT = {
    POPE: "Answers to POPE's adversarial questions",
    AMBER: "Captions of AMBER's images",
    COCO: "Captions of 499 images of COCO",
}
_INDEX = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leaderboards</title>
<link rel="stylesheet" href="{{ boards[0][0] }}/assets/style.css">
<main>
<h1>Who sees what is not there?</h1>
<p class="lead">Vision-language models, by how often they say yes to an absent object where the \
context suggests it.</p>
{% for board, about, n, sentence in boards %}
<h2><a href="{{ board }}/index.html">{{ board }}</a></h2>
<p>{{ about }}; {{ n }} models. {{ sentence }}</p>
{% endfor %}
</main>
</html>
"""
NOTHING = "nothing"
"""The caption of an image that mentions no task; an empty one would be a missing answer."""
OPERA = {
    "source": "https://github.com/shikiw/OPERA",
    "commit": "61426ef",
    "license": "MIT",
    "who": "OPERA's authors",
}
DPO = {
    "source": "https://github.com/pr-Abdulaziz/Hallucination_Detection_VLM",
    "commit": "1038ccbabbbfa64c08c181b0c90e252369545de2",
    "license": "MIT",
    "who": "pr-Abdulaziz",
}
VILA = {
    "source": "https://github.com/open-compass/VLMEvalKit",
    "commit": "c03bc048e678d619accc1152ffa0cabe51d31309",
    "license": "Apache-2.0",
    "who": "VLMEvalKit",
    "prompt": "Is there {a} {task} in the image? Please answer yes or no.",
}


def answered(file: Path, suite: Suite) -> pl.DataFrame:
    """``image_id, task`` of POPE's adversarial questions, and ``answer``: yes, no, or null."""
    frame = read_answers(file, suite, ignore_unknown=True).frame
    asked = suite.question_lists["adversarial"].select("image_id", "task")
    said = frame.join(asked, on=["image_id", "task"], how="semi").filter(pl.col("missing") < 1)
    yes = pl.when(pl.col("yes") == 1).then(pl.lit("yes")).when(pl.col("yes") == 0)
    return said.sort("image_id", "task").select("image_id", "task", answer=yes.then(pl.lit("no")))


def mentioned(file: Path, suite: Suite) -> pl.DataFrame:
    """``image_id`` and ``caption``: the names of the tasks that are mentioned, by commas."""
    (captions,) = read_captions([file], suite)
    words = load_vocabulary(suite.words, suite.tasks)
    said = mentions(finished(captions), words, suite.tasks).said
    assert said is not None
    names = pl.col("task").filter(pl.col("value") > 0.5).sort()
    readable_names = names.replace_strict({task: readable(task) for task in suite.tasks})
    rows = said.group_by("image_id").agg(caption=readable_names.str.join(", ")).sort("image_id")
    return rows.with_columns(pl.col("caption").replace("", NOTHING))


def rows(data: Path) -> Iterator[tuple[str, str, Path, Mapping[str, Any]]]:
    """Leaderboard, folder, file, and facts of each row."""
    tuned = data / "answers" / "mitigation-answers"
    for run in TUNED:
        name = TUNED[run] if "llava" in run else f"LLaVA 1.5 {TUNED[run]}"
        facts = {"name": name, "revision": run, **DPO}
        folder = run.replace("_", "-")
        prompt = "Is there {a} {task} in the image? Answer the question using a single word or"
        asked = {"prompt": f"{prompt} phrase."}
        yield POPE, folder, tuned / f"{run}.pope_adv.jsonl", facts | asked
        if run != "llava15_base_13b":
            said = {"kind": "mentions", "prompt": "Describe this image."}
            yield AMBER, folder, tuned / f"{run}.amber.jsonl", facts | said
    for size in (8, 13):
        file = data / "answers" / "vlmevalkit" / f"vila_{size}b_POPE.xlsx"
        yield POPE, f"vila-1.5-{size}b", file, {"name": f"VILA 1.5 {size}B", **VILA}
    for model in MODELS:
        for decoding in DECODINGS:
            run = f"{model}.{decoding}"
            facts = {"name": named(run), "kind": "mentions", **OPERA}
            yield COCO, run, data / "answers" / "opera-captions" / f"{run}.jsonl", facts


def make(data: Path, out: Path) -> None:
    """Write the rows."""
    for board, folder, file, facts in rows(data):
        target = out / board / folder
        target.mkdir(parents=True, exist_ok=True)
        read = answered if board == POPE else mentioned
        write(read(file, load_suite(board)), target / "answers.parquet")
        hashes = {"source_sha256": sha256_of(file), "sha256": sha256_of(target / "answers.parquet")}
        text = yaml.safe_dump({**facts, **hashes}, sort_keys=False, allow_unicode=True, width=1000)
        (target / "model.yaml").write_text(text, encoding="utf-8")


def index(site: Path) -> None:
    """Write the index of a folder of pages."""
    boards = []
    for file in sorted(site.glob("[!.]*/leaderboard.json")):
        content, board = json.loads(file.read_text(encoding="utf-8")), file.parent.name
        rows = pl.DataFrame(content["models"], infer_schema_length=None)
        about = ABOUT.get(board, "Answers to its questions, or captions of its images")
        boards.append((board, about, len(rows), Leaderboard(rows, content["settings"]).sentence))
    page = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(_INDEX)
    (site / "index.html").write_text(page.render(boards=boards) + "\n", encoding="utf-8")


def main() -> None:
    """Make all rows, or the index of their pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", help="folder with the folders named above")
    parser.add_argument("--site", type=Path, help="folder of pages")
    parser.add_argument("--out", type=Path, default=ROOT / "leaderboard", help="folder to write")
    options = parser.parse_args()
    if options.site is not None:
        index(options.site)
    elif options.data is None:
        parser.error("give DATA or --site")
    else:
        make(options.data, options.out)


if __name__ == "__main__":
    main()
