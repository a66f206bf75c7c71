"""Two examples of each command, for its help."""

from __future__ import annotations

__all__ = ["EXAMPLES", "examples_of"]

_LISTED = """\
import coco: --things instances.json data | --things a.json --stuff b.json --split 70/10/20 data
import coco-stuff: downloads data --split downloads/split.npz | downloads data --part-size 125000
import label-maps: maps data --classes names.txt | maps data --classes names.txt --void 255
import boxes: data.yaml data --boxes yolo | Annotations data --boxes voc --images JPEGImages
import image-folder: photos data | photos data --split 70/10/20 --seed 1
import auto: annotations.json data | photos data --split 70/10/20
import table: a.csv data --id id --label car,boat | b.csv data --id id --class name --area area
annotate: photos data --segmenter segformer-b0 | photos data --segmenter deeplab --labels a.csv
import waterbirds: waterbird_complete95_forest2water2 data | birds data --overwrite
import-suite published: npy-files --out suite | npy-files --labels data --out suite
download coco-stuff: downloads | downloads --images --no-keep-zips
download nooch-published: downloads | downloads --format json
scenes: scenes --images 1000 | --print-config
waterbirds score: suite model.parquet | suite model.parquet --split valid
info: data | data --format json
fsck: data | runs --format json
add-attributes: data weather.csv data2 | data weather.csv data2 --id image --columns rain
embed: data --encoder sentence-transformers/all-MiniLM-L6-v2 | data --encoder embeddings.npz
find: data --criterion context --out suite | data --criterion ce --criterion gist --out suite
show: suite | nooch-coco --tasks car,boat
explain: suite --task car --image 285 | suite --task car --image 285 --predictions model.csv
sweep-thresholds: data --alpha 0:0.2:20 --beta 0.1 --out sweep | data --tau 0:1:50 --out sweep
calibrate: predicted data --out c.json | predicted data --match cow=animal --out c.json
find-score: suite scenes/truth.parquet | suite scenes/truth.parquet --tasks car --out scores.csv
select-tasks: suite p.parquet --n 20 --out chosen | suite p.parquet --like paper --out chosen
check: data model.csv --out checked | instances.json model.csv --out checked --fail-if worse
predict: suite --model clip --out p.csv | suite --model resnet-50 --map imagenet --out p.csv
intervene: suite --model clip --annotations a.json --out o | suite --model m --annotations d --out o
ask: suite --model llava --out a.parquet | suite --model llava --describe --out c.parquet
evaluate: suite model.csv | suite old.csv new.csv --bootstrap 1000 --out scores.md
captions: suite captions.json | suite llava.json blip.json --synonyms words.yaml
audit: suite --predictions a.csv --out audit | suite --captions llava.json --out audit
slices: suite model.csv | suite model.csv --tasks car --min-support 20 --out slices.csv
validity: suite a.csv b.csv | suite --captions llava.json --captions blip.json --out v.csv
pixels: data --out pixels | data --size 224 --images photos --out pixels
features: data --pixels pixels --out features | data --backbone facebook/dinov2-small --out features
weights: data --task car --out weights.parquet | data --task car --cues car=road --out w.csv
repair: suite --features F --out repaired | suite --features f.npz --predictions p.csv --out r
collect-next: suite --pool more --out next.csv | suite --pool more --budget 100 --out next.parquet
bench: data suite --features F --out runs --dry-run | data suite --pixels P --out runs
status: runs | runs --format json
collect: runs suite --out scores | runs suite --rule worst-hard,mean --out scores
classes: data --pixels P --out classes | data --pixels P --tasks nooch --seed 1 --out classes
report: suite --out site | suite --predictions model.csv --images photos --out site
gallery: suite --task car | suite --task car --predictions model.csv --out car.png
figure: fig1 --suite suite --predictions p.csv --out figures | all --suite suite --out figures
results: runs --suite suite | paper --like table3
statements: runs --suite suite | paper --format markdown
export: suite ids --to ids | suite coco-suite --to coco --annotations instances.json
verify: suite npy-files | predicted-suite suite --bootstrap 0
"""
EXAMPLES = dict(line.split(": ", 1) for line in _LISTED.splitlines())
"""Command -> its examples without its name, divided by bars."""


def examples_of(command: str) -> str:
    """The end of a command's help: its examples, one per line."""
    # \b keeps typer from joining lines
    lines = [f"  nooch {command} {arguments}" for arguments in EXAMPLES[command].split(" | ")]
    return "\n".join(["\b", "Examples:", *lines])
