"""Asking a tiny LLaVA: the same answers as one by one in every batch, resumed after a kill, and
read by evaluate and captions.
"""

import json
from inspect import signature
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from image_folders import street_images, tiny_resnet
from PIL import Image
from refusals import fails, refused
from tiny_vlm import WORDS, save_llava

import nooch
from nooch.base.errors import NoochError, OutputError
from nooch.vlm import LocalModel

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[vlm])")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

PHRASINGS = ("Is there {a} {task} in the image?", "Can you see {a} {task} in this image?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """24 images of streets, cars and water birds; a model."""
    folder = tmp_path_factory.mktemp("asked")
    save_llava(folder / "llava")
    save_llava(folder / "sure", sure=True)
    return folder


@pytest.fixture(scope="module")
def suite(folder):
    data = street_images(folder)
    cues = {"car": ["street"], "water_bird": ["street"]}
    suite = nooch.find(data, {"ce": nooch.CE(cues=cues)}, tasks=[*cues])
    suite.dataset = data
    return suite


def _ask(suite, model, out, **options):
    """Ask a local model; its own options are among the others."""
    own = {name: options.pop(name) for name in signature(LocalModel).parameters & options.keys()}
    return nooch.ask(suite, LocalModel(model, **own), out, **options)


@pytest.fixture
def asked(suite, folder, tmp_path):
    """Ask with options; the frame of the answers."""

    def run(name="a.parquet", model=folder / "llava", **options):
        done = _ask(suite, model, tmp_path / name, **{"device": "cpu"} | options)
        assert pl.read_parquet(tmp_path / name).equals(done.frame)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
        return done

    return run


def _one_by_one(folder: Path, image: Path, text: str) -> tuple[float, float, str]:
    """P(yes) / (P(yes) + P(no)), P(yes) + P(no) and the first word, slow and obvious."""
    model = transformers.LlavaForConditionalGeneration.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    prompt = f"<s>USER: <image> {text} ASSISTANT:"
    with Image.open(image) as opened, torch.no_grad():
        inputs = processor(
            text=prompt, images=opened, add_special_tokens=False, return_tensors="pt"
        )
        logits = model(**inputs).logits[0, -1]
    shares = np.exp(logits.double().numpy())
    shares /= shares.sum()
    number = {word: 5 + n for n, word in enumerate(WORDS)}
    yes = sum(shares[number[word]] for word in ("Yes", "yes", "YES"))
    no = sum(shares[number[word]] for word in ("No", "no", "NO"))
    word = processor.tokenizer.decode([int(shares.argmax())], skip_special_tokens=True)
    return yes / (yes + no), yes + no, word


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_answers_are_those_of_one_question_at_a_time(asked, suite, folder, batch):
    done = asked(batch=batch)
    columns = ["question_id", "image_id", "task", "split", "text", "label", "weight", "ce"]
    assert done.frame.columns == [*columns, "prompt", "answer", "probability", "mass"]
    assert len(done.frame) == 48
    for row in done.frame[::7].iter_rows(named=True):
        noun = {"car": "a car", "water_bird": "a water bird"}[row["task"]]
        assert row["text"] == f"Is there {noun} in the image?"
        image = folder / "images" / f"{row['image_id']:03d}.jpg"
        share, mass, word = _one_by_one(folder / "llava", image, row["text"])
        assert row["probability"] == pytest.approx(share, abs=1e-5)
        assert row["mass"] == pytest.approx(mass, abs=1e-5)
        assert row["answer"] == word


def test_evaluate_gives_the_numbers_of_the_probabilities(asked, suite, folder, tmp_path):
    frame = asked(model=folder / "sure", prompts=PHRASINGS).frame
    assert frame["prompt"].to_list() == [0, 1] * 48
    assert frame["text"][1].startswith("Can you see a car in this")
    by_hand = frame.group_by("image_id", "task").agg(pl.col("probability").mean())
    by_hand.write_parquet(tmp_path / "b.parquet")
    scores = [nooch.evaluate(suite, tmp_path / f"{name}.parquet") for name in "ab"]
    a, b = (
        s.table.filter(pl.col("metric").is_in(["auc", "nll"]))["value"].to_list() for s in scores
    )
    assert a == pytest.approx(b, nan_ok=True)


def test_disagreement_is_counted(asked, suite, folder, tmp_path):
    done = asked(model=folder / "sure", prompts=PHRASINGS)
    yes = done.frame.with_columns(yes=pl.col("probability") > 0.5)
    split = yes.group_by("question_id").agg(pl.col("yes").n_unique() > 1)["yes"].sum()
    assert split
    note = f"the 2 phrasings disagree on {split} of 48 questions ({100 * split / 48:.1f}%)"
    assert done.notes[-1] == note
    assert "of 48 answers, so their text" in asked("b.parquet").notes[0]
    (unsure,) = nooch.load_predictions(tmp_path / "b.parquet", suite)
    assert "half of the probability, so the text is used" in " ".join(unsure.notes)
    assert unsure.in_words
    runs = nooch.load_predictions(tmp_path / "a.parquet", suite)
    assert f"{split} of 48 have both yes and no" in runs[0].notes
    assert not [note for note in runs[0].notes if "neither" in note]


def test_samples_give_the_share_of_yes(asked, suite, folder, tmp_path):
    state = torch.random.get_rng_state()
    options = {"model": folder / "sure", "max_tokens": 1, "batch": 7}
    done = asked(sample=8, temperature=2.0, **options)
    assert torch.equal(torch.random.get_rng_state(), state)
    frame = done.frame
    assert frame.select("prompt", "sample").rows()[:9] == [*((0, n) for n in range(8)), (0, 0)]
    assert frame["mass"].null_count() == len(frame) == 48 * 8
    by_hand = {"Yes": 1.0, "yes": 1.0, "YES": 1.0, "No": 0.0, "no": 0.0, "NO": 0.0}
    says = frame["answer"].replace_strict(by_hand, default=None)
    assert frame.filter(says.is_not_null())["probability"].equals(says.drop_nulls())
    shares = frame.group_by("question_id").agg(pl.col("probability").mean())
    decided = frame.with_columns(says=says).group_by("question_id").agg(pl.col("says").mean())
    both = shares.join(decided, on="question_id")
    assert both["probability"].to_list() == pytest.approx(both["says"].to_list())
    assert says.null_count()
    split = decided["says"].is_between(0, 1, closed="none").sum()
    assert f"the 8 samples disagree on {split} of 48 questions" in done.notes[-1]
    (run,) = nooch.load_predictions(tmp_path / "a.parquet", suite)
    assert not run.in_words
    nll = nooch.evaluate(suite, tmp_path / "a.parquet", metrics=["nll"]).table["value"]
    assert nll.is_finite().all()
    # the same again, and other draws in another batch
    assert asked("c.parquet", sample=8, temperature=2.0, **options).frame.equals(frame)
    few = asked("d.parquet", sample=2, prompts=PHRASINGS, per_set=1, **options)
    assert few.frame.height == 2 * 2 * few.frame["question_id"].n_unique()
    assert "the 4 samples disagree on" in few.notes[-1]
    told = asked("e.parquet", sample=3, describe=True, model=folder / "llava", max_tokens=3).frame
    assert told.columns == ["image_id", "text", "prompt", "sample", "caption"]
    assert told.height == 72
    assert told["caption"].n_unique() > 24


def test_a_share_is_estimated_without_bias(folder):
    """The words drawn by the model are those that its probabilities say."""
    from image_folders import smooth

    from nooch.inference.local_model import find_vlm, load_vlm

    model = load_vlm(find_vlm(str(folder / "sure")), "cpu")
    inputs = model.inputs([smooth(3, 64, 48)] * 2000, ["Is there a car ?"] * 2000)
    expected, mass = model.replies(inputs)[0][1:]
    words = [word for word, *_ in model.replies(inputs, yes_no=False, temperature=1.0, seed=5)]
    yes, no = (sum(word.lower() == said for word in words) for said in ("yes", "no"))
    assert (yes + no) / 2000 == pytest.approx(mass, abs=0.05)
    assert yes / (yes + no) == pytest.approx(expected, abs=0.06)


def test_provenance_and_options(asked, suite, tmp_path):
    done = asked(per_set=1, tasks=["car"], seed=3, template="Can you see {a} {task} ?")
    assert len(done.frame) == 4
    assert set(done.frame["text"]) == {"Can you see a car ?"}
    recorded = json.loads(pl.read_parquet_metadata(tmp_path / "a.parquet")["nooch"])
    assert recorded == done.made
    assert (recorded["model"], recorded["precision"]) == ("llava", "float32")
    assert recorded["prompts"] == ["Can you see {a} {task} ?"]
    assert len(recorded["sha256"]) == 64
    bf16 = asked("b.parquet", per_set=1, tasks=["car"], seed=3, precision="bf16")
    assert bf16.made["precision"] == "bf16"
    assert bf16.frame["probability"].to_list() == pytest.approx(
        asked("c.parquet", per_set=1, tasks=["car"], seed=3).frame["probability"].to_list(),
        abs=0.05,
    )


def test_given_questions_and_their_images(suite, folder, tmp_path):
    nooch.export(suite, "pope", tmp_path / "q", data=suite.dataset, per_set=2)
    questions = tmp_path / "q" / "questions.parquet"
    given = {"questions": questions, "images": folder / "images"}
    alone = suite.only(suite.tasks)
    alone.dataset = None
    done = _ask(alone, folder / "llava", tmp_path / "a.parquet", **given)
    columns = ["question_id", "text", "weight"]
    assert done.frame.select(columns).equals(pl.read_parquet(questions).select(columns))
    assert "image" not in done.frame.columns


def test_captions(asked, suite, tmp_path):
    done = asked(describe=True, max_tokens=6, prompts=["Describe this image.", "Describe it."])
    assert done.frame.columns == ["image_id", "text", "prompt", "caption"]
    assert done.frame["image_id"].to_list() == sorted([*range(24)] * 2)
    assert done.frame["text"][:2].to_list() == ["Describe this image.", "Describe it."]
    assert done.made["most_tokens"] == 6
    words = tmp_path / "words.yaml"
    words.write_text("mentions: {car: [car], water_bird: [water, bird]}\n")
    nooch.vlm.score_captions(suite, [tmp_path / "a.parquet"], synonyms=str(words))


def test_a_stopped_run_resumes_and_ends_alike(asked, suite, folder, tmp_path):
    whole = asked(batch=2)
    broken = folder / "images" / "020.jpg"
    content = broken.read_bytes()
    broken.write_bytes(b"broken")
    steps = []

    def ask(out):
        report = steps.append
        kept = {"device": "cpu", "batch": 2, "progress": lambda _, done, of: report((done, of))}
        return _ask(suite, folder / "llava", out, **kept)

    try:
        fails(lambda: ask(tmp_path / "b.parquet"), "1 images cannot be read", "020.jpg")
    finally:
        broken.write_bytes(content)
    [kept] = [path for path in tmp_path.iterdir() if path.name.startswith(".b.parquet.asking-")]
    # of three, with 16 requests each
    assert len(list(kept.glob("*.msgpack"))) == 2
    # what is done is read, not asked again
    unreadable = folder / "images" / "000.jpg"
    first = unreadable.read_bytes()
    unreadable.write_bytes(b"broken")
    try:
        done = ask(tmp_path / "b.parquet")
    finally:
        unreadable.write_bytes(first)
    assert done.frame.equals(whole.frame)
    assert steps[-1] == (48, 48)
    assert not kept.exists()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"questions": "q.parquet", "per_set": 3}, ["`per_set`", "no effect"]),
        ({"questions": "q.parquet", "tasks": ["car"]}, ["`tasks`", "no effect"]),
        ({"prompts": ["Is it {task}?"], "template": "A {task}?"}, ["`template`", "no effect"]),
        ({"describe": True, "template": "A {task}?"}, ["`template`", "no effect"]),
        ({"prompts": ["Is it a car?"]}, ["`prompts`", "is not a template"]),
        ({"precision": "fp8"}, ["precision", "bf16"]),
        ({"batch": 0}, ["`batch`", "at least 1"]),
        ({"max_tokens": 0}, ["`max_tokens`", "at least 1"]),
        ({"sample": 0}, ["`sample`", "at least 1"]),
        ({"sample": 2, "temperature": 0.0}, ["`temperature`", "above 0"]),
        ({"temperature": 0.5}, ["`temperature` has no effect without `sample`"]),
        ({"device_map": "auto", "device": "cpu"}, ["`device` has no effect with `device_map`"]),
        ({"quantize": "2bit"}, ["quantize", "4bit"]),
        ({"per_set": 0}, ["`per_set`"]),
        ({"tasks": ["cow"]}, ["'cow' is not a task"]),
        ({"splits": ["tset"]}, ["'tset' is not a split"]),
        ({"device": "tpu"}, ["no device 'tpu'"]),
        ({"out": "a.csv"}, ["ending of a file of answers", ".parquet"]),
    ],
)
def test_options_that_are_refused(suite, folder, tmp_path, options, parts):
    out = tmp_path / options.get("out", "a.parquet")
    named = {name: value for name, value in options.items() if name != "out"}
    refused(lambda: _ask(suite, folder / "llava", out, **named), *parts)
    assert not list(tmp_path.iterdir())


def test_models_and_files_that_are_refused(asked, suite, folder, tmp_path):
    resnet = tiny_resnet(tmp_path / "resnet")
    fails(lambda: asked(model=resnet), "type resnet cannot answer questions", "nooch predict")
    fails(lambda: asked(model=tmp_path / "none"), "none", "allowed: a hub id")
    alike = save_llava(tmp_path / "alike", words=("is", "it", "car"))
    fails(lambda: asked(model=alike), "no different first tokens for yes")
    assert asked(model=alike, describe=True, max_tokens=2).frame["caption"].dtype == pl.String
    for path in (bare := save_llava(tmp_path / "bare")).glob("*processor*"):
        path.unlink()
    fails(lambda: asked("b.parquet", model=bare), "cannot be loaded")
    (tmp_path / "c.parquet").write_text("kept")
    fails(lambda: asked("c.parquet"), "exists already", kind=OutputError)
    assert asked("c.parquet", overwrite=True, per_set=1).frame.height < 48
    (tmp_path / "few").mkdir()
    few = {"images": tmp_path / "few"}
    fails(lambda: asked("d.parquet", **few), "24 of 24 images were not found")
    assert not (tmp_path / "d.parquet").exists()


def test_a_template_that_opens_reasoning_is_refused(asked, tmp_path):
    from tiny_vlm import TEMPLATE

    for opened in (" <think>", " <think>Well"):
        template = TEMPLATE.replace(" ASSISTANT:", f" ASSISTANT:{opened}")
        model = save_llava(tmp_path / f"llava{len(opened)}", template=template)
        fails(lambda model=model: asked(model=model), "opens a block of reasoning", "`endpoint`")
    # an empty block is no reasoning
    template = TEMPLATE.replace(" ASSISTANT:", " ASSISTANT: <think> </think>")
    assert asked(model=save_llava(tmp_path / "plain", template=template), per_set=1).frame.height


def test_weights_that_give_no_numbers_are_refused(asked, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save_llava(tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    for tensor in weights.values():
        tensor[:] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    fails(lambda: asked(model=folder), "no finite probabilities", "`precision` float32")
    with pytest.raises(NoochError, match="no finite"):
        asked(model=folder, precision="bf16")
