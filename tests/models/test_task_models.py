"""Models that were trained elsewhere: logits against plain probabilities, and refusals."""

import json
import shutil

import numpy as np
import pytest
from answering import LABELS, save_classifier, save_clip
from image_folders import save_model, tiny_resnet
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.models.task_maps import read_task_map
from nooch.models.task_models import KINDS, load_task_model

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers", reason="not installed (nooch[train])")

from nooch.models.task_models import any_class, one_class  # noqa: E402

TASKS = {"car": ["sport car", "car"], "street": ["street"]}


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)


def loaded(source, tasks=TASKS, words=True, **options):
    words = read_task_map(tasks) if words else None
    return load_task_model(str(source), list(tasks), words, device="cpu", **options)


def configured(folder, **changes):
    """A model's folder with another configuration."""
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def logit(p):
    return np.log(p) - np.log1p(-p)


def test_a_classifiers_logits_are_those_of_summed_probabilities(pixels, tmp_path):
    folder = save_classifier(tmp_path / "model")
    model = loaded(folder)
    assert (model.name, model.kind, model.size) == ("model", "classifier", (32, 32))
    assert model.meaning == {"car": ["sports car, sport car", "car"], "street": ["street"]}
    plain = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        p = plain(model.inputs.prepare(pixels)).logits.double().softmax(1).numpy()
        given = model.logits(pixels).numpy()
    assert given.dtype == np.float64
    assert given == pytest.approx(np.stack([logit(p[:, 0] + p[:, 5]), logit(p[:, 3])], 1), abs=1e-4)


def test_several_sigmoids_are_independent(pixels, tmp_path):
    folder = save_classifier(tmp_path / "model", problem_type="multi_label_classification")
    plain = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    model = loaded(folder)
    with torch.inference_mode():
        values = plain(model.inputs.prepare(pixels)).logits.double()
        p = values.sigmoid().numpy()
        given = model.logits(pixels).numpy()
    assert given[:, 0] == pytest.approx(logit(1 - (1 - p[:, 0]) * (1 - p[:, 5])), abs=1e-4)
    assert given[:, 1] == pytest.approx(values[:, 3].numpy(), abs=1e-4)


def test_extreme_outputs_lose_nothing():
    values = torch.tensor([[800.0, 0.0, 1.0, 2.0], [-800.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    rest = np.log(np.exp([0.0, 1.0, 2.0]).sum())
    assert one_class(values, [0]).numpy() == pytest.approx([800 - rest, -800 - rest, -np.log(3)])
    both = any_class(torch.tensor([[300.0, -5.0], [-40.0, -41.0]]), [0, 1]).numpy()
    large, small = 300.0 + np.log1p(np.exp(-5)), np.log(np.exp(-40.0) + np.exp(-41.0))
    assert both == pytest.approx([large, small])


def test_labels_are_found_by_the_tasks_names(tmp_path):
    folder = save_classifier(tmp_path / "model")
    model = loaded(folder, ["water_bird", "car"], words=False)
    assert model.meaning == {"water_bird": ["water bird"], "car": ["car"]}
    fails(lambda: loaded(folder, ["car", "cow"], words=False), "called cow")


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_prompts_against_prompts(kind, pixels, tmp_path):
    folder = save_clip(tmp_path / "clip", kind=kind)
    street = ["a photo of an empty street"]
    words = {
        "car": {"positive": ["a photo of a car", "car"], "negative": street},
        "bird": {"positive": ["a photo of a bird"], "negative": ["a photo", "water"]},
    }
    padding = {"CLIP": {"padding": True}, "Siglip": {"padding": "max_length", "max_length": 12}}
    model = loaded(folder, words)
    assert model.kind == "zero-shot"
    plain = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for row, (task, sides) in enumerate(words.items()):
        texts = [*sides["positive"], *sides["negative"]]
        tokens = tokenizer(texts, return_tensors="pt", **padding[kind])
        with torch.inference_mode():
            outputs = plain(**tokens, pixel_values=model.inputs.prepare(pixels))
            p = outputs.logits_per_image.double().softmax(1).numpy()
            given = model.logits(pixels)[:, row].numpy()
        assert given == pytest.approx(logit(p[:, : len(sides["positive"])].sum(1)), abs=1e-4), task
        assert given.std() > 0
    assert model.meaning["bird"]["negative"] == ["a photo", "water"]


def test_usual_prompts(tmp_path):
    model = loaded(save_clip(tmp_path / "clip"), ["car"], words=False)
    assert model.meaning == {"car": {"positive": ["a photo of a car"], "negative": ["a photo"]}}


def test_prompts_that_are_too_long_are_not_cut(tmp_path):
    folder = save_clip(tmp_path / "clip")
    long = {"car": ["a photo of a car " * 4]}
    fails(lambda: loaded(folder, long), "more than 12 tokens", "a photo of a car a photo")


def test_tokenizers_that_are_missing_or_know_nothing(tmp_path):
    folder = save_clip(tmp_path / "clip")
    fails(lambda: loaded(folder, ["kite", "tie"], words=False), "gives two prompts the same tokens")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    fails(lambda: loaded(folder, ["car"], words=False), "contains no tokenizer", "tokenizer.json")
    (folder / "tokenizer.json").write_text("{}")
    fails(lambda: loaded(folder, ["car"], words=False), "cannot be loaded")


def test_other_models_are_refused(tmp_path):
    text = "a model of type resnet has no outputs"
    fails(lambda: loaded(tiny_resnet(tmp_path / "resnet")), text, "nooch train features")
    fails(lambda: loaded(tmp_path / "no"), "is not a backbone")
    tower = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    tower["num_attention_heads"] = 2
    text, vision = {**tower, "vocab_size": 9}, {**tower, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPSegConfig(text_config=text, vision_config=vision)
    folder = save_model(transformers.CLIPSegModel(config), tmp_path / "odd")
    configured(folder, model_type="strange")
    parts = "cannot be loaded", "no code from the folder is run"
    fails(lambda: loaded(folder, ["car"], words=False), *parts)


def test_heads_that_are_missing_are_not_made_up(tmp_path):
    made = {"architectures": ["ResNetForImageClassification"]}
    labels = {"0": "car", "1": "street"}
    folder = configured(tiny_resnet(tmp_path / "resnet"), id2label=labels, **made)
    one = {"words": False, "outputs": "exclusive"}
    fails(lambda: loaded(folder, ["car"], **one), "lacks 2 weights", "classifier.1")


def test_configurations_that_do_not_say_what_outputs_mean(tmp_path):
    folder = save_classifier(tmp_path / "model")
    config = json.loads((folder / "config.json").read_bytes())

    def refused(changes, *parts):
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        fails(lambda: loaded(folder), *parts)

    refused({"id2label": {"0": "car", "5": "street"}}, "not numbered from 0")
    refused({"id2label": None}, "has 0 labels")
    refused({"id2label": {"a": "car"}}, "cannot be read")
    refused({"problem_type": "regression"}, "problem_type regression")
    (folder / "preprocessor_config.json").unlink()
    refused({}, "has no preprocessor_config.json")


def test_sizes(pixels, tmp_path):
    folder = save_classifier(tmp_path / "model")
    assert loaded(folder, size=40).size == (40, 40)
    fails(lambda: loaded(folder, size=0), "size 0 x 0", kind=ParameterError)
    clip = save_clip(tmp_path / "clip")
    part = "no answers for images of 40 x 40"
    fails(lambda: loaded(clip, ["car"], words=False, size=40), part, "`size`")


def test_no_code_of_a_folder_is_run(tmp_path):
    evil = {"AutoModelForImageClassification": "evil.Evil"}
    folder = configured(save_classifier(tmp_path / "model"), auto_map=evil)
    (folder / "evil.py").write_text("raise SystemExit('code was run')")
    assert loaded(folder).tasks == ("car", "street")
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    fails(lambda: loaded(folder), "contains no weights as .safetensors")


def test_kinds_are_distinguished_by_their_configuration(tmp_path):
    # trained networks are tried in test_network_jobs
    assert list(KINDS) == [
        "trained",
        "detector",
        "custom",
        "onnx",
        "timm",
        "classifier",
        "zero-shot",
    ]
    assert len(LABELS) == 6
    for kind, save in (("classifier", save_classifier), ("zero-shot", save_clip)):
        assert loaded(save(tmp_path / kind), ["car"], words=False).kind == kind
