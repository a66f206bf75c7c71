"""The main job end to end on made-up annotations: import, find, explain, evaluate, sweep, export. No download of data."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from generate_annotations import generate

TASKS = "car,bowl,boat,fire_hydrant,airplane,cow,backpack,cup,surfboard,tie,sports_ball,kite"


def main() -> None:
    """Run the demo, printing each command as a user would type it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    parser.add_argument("--images", type=int, default=4000)
    arguments = parser.parse_args()
    out: Path = arguments.out
    if out.exists():
        if not (out / "annotations" / "captions.json").is_file():
            sys.exit(f"error: {out} exists and is no earlier demo; give another folder with --out")
        shutil.rmtree(out)
    started = time.monotonic()
    print(f"1. Annotations of {arguments.images:,} made-up scenes in COCO format -> {out / 'annotations'}")
    generate(out / "annotations", arguments.images, seed=0)
    source, dataset, suite = out / "annotations", out / "dataset", out / "suite"
    print("\n2. Import: things, stuff and captions joined by image, split 70/10/20")
    run(
        f"nooch import coco --things {source}/instances.json --stuff {source}/stuff.json "
        f"--captions {source}/captions.json --split 70/10/20 --seed 0 {dataset}"
    )
    print(
        "\n3. Find: images without the usual context (hard positives), and with it but without the object (hard negatives)"
    )
    run(
        f"nooch find {dataset} --criterion ce --alpha 0.05 --beta 0.1 --criterion gist --encoder minilm --match ce "
        f"--tasks {TASKS} --out {suite}"
    )
    print("\n4. Show: context cues, thresholds, and how far the two criteria agree")
    run(f"nooch show {suite}")
    print("\n5. Explain: why one image is hard, in words")
    for image in hard_images(suite):
        run(f"nooch explain {suite} --task car --image {image}")
    print("\n6. Evaluate: two stand-ins for models; one answers from the context alone, the other looks at the object")
    models = Path(__file__).parent / "stand_in_models.py"
    run_python([str(models), str(dataset), str(out / "predictions"), "--tasks", TASKS])
    run(
        f"nooch evaluate {suite} {out}/predictions/context.parquet {out}/predictions/object.csv --criterion ce "
        f"--tasks car,bowl,boat,cow --bootstrap 200 --out {out}/scores.parquet"
    )
    print("\n7. Sweep: what other thresholds would give, without fitting again")
    run(f"nooch sweep-thresholds {dataset} --alpha 0:0.2:20 --beta 0.01:0.5:20 --out {out}/sweep")
    print("\n8. Share: the sets in the layout of the published ones, and as a Hugging Face folder")
    run(f"nooch export {suite} --to npy {out}/npy")
    run(f"nooch export {suite} --to hf {out}/hf")
    print(f"\nDone in {time.monotonic() - started:.0f} s. Everything lies in {out}/: dataset, suite, scores, pictures.")
    print("Your own data: nooch import --help")


def run(command: str) -> None:
    """Print a command and run it with this interpreter's nooch; stop where it fails."""
    print(f"$ {command}", flush=True)
    run_python(["-m", *shlex.split(command)])


def run_python(arguments: list[str]) -> None:
    """Run this interpreter; stop where it fails."""
    done = subprocess.run([sys.executable, *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def hard_images(suite: Path) -> list[int]:
    """The first hard positive and the first hard negative of the task car."""
    code = (
        "import json, sys, nooch; s = nooch.load_suite(sys.argv[1]).set('ce', 'car', 'test');"
        "print(json.dumps(s.ids('hard_positive')[:1] + s.ids('hard_negative')[:1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(suite)], capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
