"""Images edited and predicted again: what is edited, and that effects are those of new images."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from answering import save_classifier
from in_memory import read_label_maps
from PIL import Image
from refusals import fails

import nooch
from nooch.analysis.intervene import blurred, control_patch, hidden, mask_of_size
from nooch.base.errors import OutputError, ParameterError
from nooch.evaluation import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")

SIZE, N = 32, 48
GRAY, RED, GREEN = (120, 120, 120), (220, 30, 30), (30, 200, 30)
CUES = {"car": ["road"]}


def draw(random, *, car, road):
    """A gray picture with noise, a green road and a red car; and its map of classes."""
    pixels, classes = np.full((SIZE, SIZE, 3), GRAY, np.int64), np.zeros((SIZE, SIZE), np.uint8)
    top, left = random.integers(2, 12, 2)
    if road:
        pixels[18:28], classes[18:28] = GREEN, 2
    if car:
        place = slice(top, top + 10), slice(left, left + 10)
        pixels[place], classes[place] = RED, 1
    return np.clip(pixels + random.integers(-8, 9, pixels.shape), 0, 255).astype(np.uint8), classes


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return roads(tmp_path_factory.mktemp("roads"))


def roads(folder, copies=1):
    """A dataset of 48 pictures, half of them with cars, half on roads; a suite, and label maps."""
    for name in ("images", "maps"):
        (folder / name).mkdir()
    for i in range(N * copies):
        scene = i % N
        parts = draw(np.random.default_rng(scene), car=scene % 2 == 0, road=scene % 4 < 2)
        for name, part in zip(("images", "maps"), parts, strict=True):
            Image.fromarray(part).save(folder / name / f"{scene}{f'-{i // N}' * (i >= N)}.png")
    (folder / "classes.txt").write_text("0 void\n1 car\n2 road\n")
    maps, classes = folder / "maps", folder / "classes.txt"
    data = read_label_maps(maps, classes, void=[0], images=folder / "images")
    suite = nooch.find(data, {"ce": nooch.CE(cues=CUES)}, tasks=["car"])
    return folder, data, suite


def network(of_car, of_road, bias):
    """A model whose logit of ``car`` is linear in the shares of red and green pixels."""
    from nooch.models.images import Inputs, Preprocessing
    from nooch.models.task_models import TaskModel

    def outputs(pixels):
        red, green = ((pixels[:, at] > 0.5) & (pixels[:, 1 - at] < 0.3) for at in (0, 1))
        shares = [one.flatten(1).double().mean(1) for one in (red, green)]
        return (of_car * shares[0] + of_road * shares[1] + bias)[:, None]

    plain = Preprocessing((SIZE, SIZE), 1 / 255, 0.0, (0.0,) * 3, (1.0,) * 3)
    return TaskModel("linear", "0", "classifier", ("car",), Inputs(plain, "cpu"), outputs)


def run(world, model, out, **options):
    folder, data, suite = world
    given = {"annotations": [folder / "maps"], "bootstrap": 50, **options}
    return nooch.intervene(suite, model, out, data=data, **given)


BY_CONTEXT, BY_OBJECT = network(0, 20, -2), network(20, 0, -1)


@pytest.mark.parametrize(
    ("edit", "model", "changes"),
    [
        # hard negatives, easy positives that are yes less often; of the control
        ("hide-cue", BY_CONTEXT, (-1, -1, 0)),
        ("hide-cue", BY_OBJECT, (0, 0, 0)),
        ("blur-cue", BY_OBJECT, (0, 0, 0)),
        ("hide-object", BY_CONTEXT, (None, 0, 0)),
        ("hide-object", BY_OBJECT, (None, -1, 0)),
        ("swap-background", BY_CONTEXT, (None, -1, 0)),
        ("swap-background", BY_OBJECT, (None, 0, 0)),
    ],
)
def test_an_answer_changes_with_what_it_depends_on(
    world, tmp_path, edit, model, changes, monkeypatch
):
    # examples.png takes longer than the rest
    monkeypatch.setattr("nooch.analysis.intervene.draw_examples", lambda *_: None)
    made = run(world, model, tmp_path / "out", edit=edit)
    rates = made.table.filter(metric="yes_rate", task="car")
    of = {(*row[:2], row[2]): row[3] for row in rates.select(
        "run", "baseline", "subset", "difference").rows()}  # fmt: skip
    edited, control = f"linear, {edit}", "linear, control"
    expected = zip(("hard_negative", "easy_positive"), changes[:2], strict=True)
    for subset, change in expected:
        assert of[edited, "linear", subset] == change, subset
    assert of[control, "linear", "easy_positive"] == changes[2]


def test_copies_of_a_picture_never_narrow_an_interval(tmp_path):
    """Six copies are as good as one where they are a group; a half of the pictures changes."""

    def outputs(pixels):
        dark = pixels[:, 0, 0, 0] < GRAY[0] / 255
        return torch.where(dark[:, None], BY_CONTEXT.outputs(pixels), 3.0)

    widths, said = [], []
    for copies, group in ((1, None), (6, "^[0-9]+"), (6, None)):
        folder = tmp_path / f"{copies}{group is None}"
        folder.mkdir()
        options = {"edit": "hide-cue", "group": group}
        done = run(roads(folder, copies), replace(BY_CONTEXT, outputs=outputs), folder / "out",
                   **options)  # fmt: skip
        rows = done.table.filter(
            metric="yes_rate", subset="all", task="car", run="linear, hide-cue"
        )
        widths.append((rows["high"] - rows["low"]).to_numpy())
        assert rows["difference"].is_between(-0.9, -0.1).all()
        ends = re.findall(r"\[(\d+), (\d+)\]", " ".join(done.sentences))
        said.append(np.diff(np.array(ends, int)).ravel())
    assert len(widths[0]) > 0
    assert (widths[1] > 0.95 * widths[0]).all()
    assert (widths[2] < 0.6 * widths[0]).all()
    assert (said[1] >= said[0]).all()
    assert (said[2] < 0.7 * said[0]).all()


def test_sentences_and_files(world, tmp_path):
    _, _, suite = world
    made = run(world, BY_CONTEXT, tmp_path / "out")
    assert made.sentences[0] == (
        "Of 12 hard negatives that the model got wrong, 12 are right when the cue is hidden"
        " (100% [76, 100]); a control patch of the same size: 0% [0, 24] of 12"
    )
    assert "12 easy positives that the model got right, 0 are still" in made.sentences[1]
    files = {file.name for file in (tmp_path / "out").iterdir()}
    runs = ("before.parquet", "edit.parquet", "control.parquet")
    others = {"edited.parquet", "changes.parquet", "thresholds.csv", "examples.png"}
    assert files == {*runs, *others}
    scores = evaluate(suite, [tmp_path / "out" / name for name in runs])
    # what is not edited is as before
    errors = {name: scores.value("error", "hard_positive", run=name, task="car") for name in
              ("linear", "linear, hide-cue", "linear, control")}  # fmt: skip
    assert len(set(errors.values())) == 1
    assert scores.value("error", "hard_negative", run="linear, hide-cue", task="car") == 0
    rows = pl.read_parquet(tmp_path / "out" / "edited.parquet")
    assert rows.columns[:2] == ["image_id", "task"]
    assert (rows["image_id"] % 4 < 2).all()
    again = run(world, BY_CONTEXT, tmp_path / "again", batch=5)
    assert again.table.equals(made.table)


def test_a_first_try_predicts_only_the_images_that_it_edits(world, tmp_path):
    whole = run(world, BY_CONTEXT, tmp_path / "whole")
    made = run(world, BY_CONTEXT, tmp_path / "out", limit=5)
    rows, every = (pl.read_parquet(tmp_path / name / "edited.parquet") for name in ("out", "whole"))
    assert rows.equals(every[[0, 4, 9, 14, 19]])
    assert made.sentences[0].startswith("Of 2 hard negatives that the model got wrong, 2 are right")
    for name in ("before", "edit", "control"):
        few, all_ = (pl.read_parquet(tmp_path / at / f"{name}.parquet") for at in ("out", "whole"))
        assert few["image_id"].to_list() == rows["image_id"].to_list()
        assert few.equals(all_.join(few, on="image_id", how="semi"))
    assert run(world, BY_CONTEXT, tmp_path / "more", limit=99).table.equals(whole.table)
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "classes.txt").write_text("0 void\n1 car\n2 road\n")
    fails(lambda: run(world, BY_CONTEXT, tmp_path / "no", annotations=[maps], limit=3),
          "no image has a usable mask")  # fmt: skip
    fails(lambda: run(world, BY_CONTEXT, tmp_path / "no", limit=0), "`limit`", kind=ParameterError)


def test_hiding_agrees_with_pictures_that_never_had_the_cue(world, tmp_path):
    """Logits of the edit against those of the same pictures, drawn without the road."""
    model = network(6, 9, -1.5)
    run(world, model, tmp_path / "out")
    rows = pl.read_parquet(tmp_path / "out" / "edited.parquet")
    ids = rows["image_id"]
    drawn = [draw(np.random.default_rng(i), car=i % 2 == 0, road=False)[0] for i in ids]
    truth = 1 / (1 + np.exp(-model.logits(np.array(drawn)).numpy()[:, 0]))
    assert rows["edit"].to_numpy() == pytest.approx(truth, abs=0.01)
    assert np.abs(rows["before"].to_numpy() - truth).min() > 0.1


def test_edits_of_pixels():
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    mask = np.zeros((20, 30), bool)
    mask[4:9, 5:15] = True
    for edited in (hidden(pixels, mask), blurred(pixels, mask)):
        assert (edited[~mask] == pixels[~mask]).all()
        assert edited[mask].std() < pixels[mask].std() / 2
    assert np.ptp(hidden(pixels, mask)[mask], axis=0).max() == 0
    free = ~mask & (random.random(mask.shape) < 0.5)
    patch = control_patch(mask, free, random)
    assert patch.sum() == mask.sum()
    assert not (patch & ~free).any()
    assert control_patch(~mask, mask, random) is None
    # each resized pixel that the mask touches
    assert mask_of_size(mask, (10, 15)).sum() == 3 * 6
    assert (mask_of_size(mask, (40, 60)) == mask.repeat(2, 0).repeat(2, 1)).all()


def test_images_that_cannot_be_edited_are_counted_and_bad_input_is_refused(world, tmp_path):
    folder = world[0]
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "classes.txt").write_text("0 void\n1 car\n2 road\n")
    for i in range(0, N, 2):
        Image.open(folder / "maps" / f"{i}.png").save(maps / f"{i}.png")
    made = run(world, BY_CONTEXT, tmp_path / "some", annotations=[maps])
    assert "12 images left out" in made.notes[-1]
    for map_file in maps.glob("*.png"):
        map_file.unlink()
    out = tmp_path / "out"
    fails(lambda: run(world, BY_CONTEXT, out, annotations=[maps]), "no image has a usable mask")
    for options, words in (
        ({"edit": "hide"}, "'hide' is not a value of `edit`"),
        ({"annotations": []}, "needs the suite's dataset, and masks"),
        ({"bootstrap": -1}, "`bootstrap`: is -1"),
        ({"split": "train"}, "train"),
        ({"threshold": 2.0}, "the threshold is 2"),
    ):
        fails(lambda o=options: run(world, BY_CONTEXT, out, **o), words, kind=ParameterError)
    assert not out.exists()
    fails(lambda: run(world, BY_CONTEXT, tmp_path / "some"), "exists already", kind=OutputError)


def _said_next(done):
    """The command that a command suggests."""
    return " ".join(done.out.split()).partition("next: nooch ")[2]


def test_the_command(world, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    folder, data, suite = world
    nooch.save_dataset(data, tmp_path / "data")
    nooch.save_suite(suite, tmp_path / "suite")
    model = save_classifier(tmp_path / "model", ("car", "tree", "street"))
    command = f"intervene suite --dataset data --model {model} --annotations {folder / 'maps'}"
    silent = save_classifier(tmp_path / "silent", ("car", "tree", "street"), problem_type=None)
    other = f"{command.replace(str(model), str(silent))} --out other --bootstrap 10"
    run_cli(other).refused("whether its outputs exclude each other", "--outputs independent if")
    done = run_cli(f"{other} --outputs independent --limit 4").ok()
    assert "outputs are read as independent: as --outputs says; yes (labeled yes): car" in done.err
    done = run_cli(f"{command} --out out --bootstrap 10").ok()
    assert "outputs are read as exclusive: problem_type single_label_classification" in done.err
    assert "Differences from model on ce challenge sets" in done.out
    assert _said_next(done).startswith("evaluate suite out/before.parquet out/edit.parquet")
    run_cli(_said_next(done)).ok()
    shown = run_cli(f"{command} --edit hide-object --out out --overwrite --format json").ok().json
    assert shown["changes"][0]["run"] == "model, hide-object"
    tried = run_cli(f"{command} --out tried --bootstrap 10 --limit 8").ok()
    assert "for a first try; to evaluate, leave --limit out" in tried.out
    assert "next: nooch" not in tried.out
    run_cli(f"{command} --edit hide --out more").refused("value of --edit", "hide-cue")
    run_cli(f"{command} --out data --overwrite").refused("contains no changes.parquet")


def test_thresholds_are_chosen_on_valid(world, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    folder, data, _ = world
    splits = pl.Series("split", ["train"] * 8 + ["valid"] * 20 + ["test"] * 20)
    data = replace(data, images=data.images.with_columns(splits))
    nooch.save_dataset(data, tmp_path / "data")
    nooch.save_suite(nooch.find(data, {"ce": nooch.CE(cues=CUES)}, tasks=["car"]), "suite")
    model = save_classifier(tmp_path / "model", ("car", "tree", "street"))
    words = f"intervene suite --dataset data --model {model} --annotations {folder / 'maps'}"
    for rule in ("valid", "worst-side"):
        done = run_cli(f"{words} --bootstrap 10 --threshold {rule} --out {rule}").ok()
        (threshold,) = pl.read_csv(f"{rule}/thresholds.csv").filter(task="car")["threshold"]
        # the next command answers as this one
        said = f"are positive above these probabilities: car {threshold:.3g}\n"
        assert said in done.err
        assert said in run_cli(_said_next(done)).ok().err
