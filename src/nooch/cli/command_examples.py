"""Two examples of each command, for its help."""

from __future__ import annotations

__all__ = ["examples_of"]

_EXAMPLES = """\
nooch import coco --things instances.json --split 70/10/20 data
nooch import coco --things things.json --stuff stuff.json --overwrite data
nooch import coco-stuff downloads data --split downloads/split.npz
nooch import coco-stuff downloads data --part-size 125000
nooch import label-maps maps data --classes classes.txt --images photos
nooch import label-maps maps data --classes classes.txt --void 255
nooch import boxes data.yaml data --boxes yolo --split 70/10/20
nooch import boxes Annotations data --boxes voc --images JPEGImages
nooch import image-folder photos data
nooch import image-folder photos data --split 70/10/20 --seed 1
nooch import auto annotations.json data
nooch import auto photos data --split 70/10/20
nooch import table photos.csv data --id id --label car,boat
nooch import table areas.csv data --id id --class name --area fraction
nooch import waterbirds waterbird_complete95_forest2water2 data
nooch import waterbirds birds data --overwrite
nooch import-suite published npy-files --out suite
nooch import-suite published npy-files --labels data --out suite
nooch download coco-stuff downloads
nooch download coco-stuff downloads --images --from /mirror/coco
nooch download nooch-published downloads
nooch download nooch-published downloads --from /mirror/nooch
nooch scenes scenes --images 1000
nooch scenes --print-config
nooch waterbirds make birds --cub CUB_200_2011 --places places365
nooch waterbirds make birds --cub CUB --places places --confounder 0.5
nooch waterbirds score suite model.parquet
nooch waterbirds score suite model.parquet --split valid
nooch info data
nooch info data --format json
nooch add-attributes data weather.csv data-weather
nooch add-attributes data weather.csv data-weather --id image --columns rain
nooch embed data --encoder sentence-transformers/all-MiniLM-L6-v2
nooch embed data --encoder embeddings.npz
nooch find data --out suite
nooch find data --criterion ce --criterion gist --match ce --out suite
nooch show suite
nooch show nooch-coco --tasks car,boat
nooch explain suite --task car --image 285
nooch explain suite --task car --image 285 --predictions model.csv
nooch sweep-thresholds data --alpha 0:0.2:20 --beta 0.01:0.5:20 --out sweep
nooch sweep-thresholds data --tau 0:1:50 --tasks nooch --out sweep
nooch find-score suite scenes/truth.parquet
nooch find-score suite scenes/truth.parquet --tasks car --out scores.csv
nooch select-tasks suite classes/predictions.parquet --n 12 --out chosen
nooch select-tasks suite classes/predictions.parquet --like paper --out 12
nooch class-losses suite classes/predictions.parquet
nooch class-losses suite classes/predictions.parquet --out losses
nooch check data model.csv --out checked
nooch check instances.json model.csv --out checked --fail-if worse
nooch predict suite --model microsoft/resnet-50 --map imagenet --out p.csv
nooch predict suite --model openai/clip-vit-base-patch32 --out clip.parquet
nooch evaluate suite model.csv
nooch evaluate suite old.csv new.csv --bootstrap 1000 --out scores.md
nooch slices suite model.csv
nooch slices suite model.csv --tasks car --min-support 20 --out slices.csv
nooch pixels data --out pixels
nooch pixels data --size 224 --images photos --out pixels
nooch features data --pixels pixels --out features
nooch features data --backbone facebook/dinov2-small --out features
nooch bench data suite --features features --out runs --dry-run
nooch bench data suite --features features --config bench.yaml --out runs
nooch status runs
nooch status suite --format json
nooch collect runs suite --out scores
nooch collect runs suite --rule worst-hard,mean --out scores
nooch classes data --pixels pixels --out classes
nooch classes data --pixels pixels --tasks nooch --seed 1 --out classes
nooch report suite --out site
nooch report suite --predictions model.csv --images photos --out site
nooch gallery suite --task car
nooch gallery suite --task car --predictions model.csv --out car.png
nooch figure fig1 --suite suite --predictions model.csv --out figures
nooch figure all --suite suite --runs runs --out figures
nooch results runs --suite suite
nooch results paper --like table3
nooch statements runs --suite suite
nooch statements paper --format markdown
nooch export suite ids --to ids
nooch export suite coco-suite --to coco --annotations instances.json
nooch verify suite npy-files
nooch verify suite npy-files --format json
"""


def examples_of(command: str) -> str:
    """The end of a command's help: its examples, one per line."""
    lines = [line for line in _EXAMPLES.splitlines() if line.startswith(f"nooch {command} ")]
    # \b keeps typer from joining lines
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
