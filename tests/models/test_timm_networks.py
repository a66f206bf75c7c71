"""Classifiers of timm: a stand-in of its ``create_model``; labels, input and weights are read."""

import json
import sys
import types
from functools import partial

import numpy as np
import pytest
from image_folders import smooth
from refusals import fails, refused

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
safetensors = pytest.importorskip("safetensors.torch")

from nooch.base.errors import MissingExtraError  # noqa: E402
from nooch.models import timm_networks  # noqa: E402
from nooch.models.task_models import load_task_model  # noqa: E402

PIXELS = np.stack([np.array(smooth(seed, 16, 16)) for seed in range(5)])
MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)


class Means(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.head = torch.nn.Linear(3, n)

    def forward(self, images):
        return self.head(images.mean((2, 3)))


@pytest.fixture
def made(monkeypatch):
    """What the stand-in was asked to create."""
    asked = []

    def create_model(name, **given):
        asked.append((name, given))
        return Means(given["num_classes"])

    hub_ids = {"resnet10t": "timm/resnet10t.c3_in1k", "resnet50": "timm/resnet50.a1_in1k",
               "resnet50.tv_in1k": "timm/resnet50.tv_in1k", "bare": None}  # fmt: skip
    stand_in = types.SimpleNamespace(
        create_model=create_model,
        list_models=lambda: [name for name in hub_ids if "." not in name],
        list_pretrained=lambda: [name for name in hub_ids if "." in name],
        get_pretrained_cfg=lambda name: types.SimpleNamespace(hf_hub_id=hub_ids[name]),
    )
    info = types.SimpleNamespace(label_descriptions=lambda: ["car, auto", "cow", "bus"])
    data = types.SimpleNamespace(
        infer_imagenet_subset=lambda cfg: {3: "imagenet-3"}.get(cfg["num_classes"]),
        ImageNetInfo=lambda subset: {"imagenet-3": info}[subset],
    )
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return asked


@pytest.fixture
def hub(folder, monkeypatch):
    """The hub ids that were fetched; each is the folder."""
    fetched = []

    def fetch(hub_id, *_):
        fetched.append(hub_id)
        return folder

    monkeypatch.setattr(timm_networks, "fetched", fetch)
    return fetched


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(1)
    (tmp_path / "own").mkdir()
    safetensors.save_file(Means(3).state_dict(), tmp_path / "own" / "model.safetensors")
    write(tmp_path / "own")
    return tmp_path / "own"


def write(folder, **changes):
    cfg = {"input_size": [3, 16, 16], "mean": MEAN, "std": STD, "crop_pct": 0.9}
    config = {"architecture": "resnet10t", "num_classes": 3, "pretrained_cfg": cfg}
    config |= {"label_names": ["car", "cow", "bus"], **changes}
    (folder / "config.json").write_text(json.dumps(config))


def test_a_folder_gives_logits_of_tasks(folder, made, tmp_path):
    model = load_task_model(folder, ["cow", "car"], outputs="exclusive")
    assert (model.kind, model.name, model.size) == ("timm", "own", (16, 16))
    weights = safetensors.load_file(folder / "model.safetensors")
    means = ((PIXELS / 255 - np.array(MEAN)) / np.array(STD)).mean((1, 2))
    outputs = means @ weights["head.weight"].numpy().T + weights["head.bias"].numpy()
    p = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    expected = np.log(p / (1 - p))[:, [1, 0]]
    np.testing.assert_allclose(model.logits(PIXELS).detach().numpy(), expected, atol=1e-4)
    write(folder, label_names=None)
    fails(lambda: load_task_model(folder, ["car"]), "outputs have no names", "`classes`")
    (tmp_path / "names.txt").write_text("car\ncow\nbus\n")
    given = {"classes": tmp_path / "names.txt", "outputs": "exclusive"}
    given = load_task_model(folder, ["cow", "car"], size=8, **given)
    assert given.size == (8, 8)
    assert [name for name, _ in made] == ["resnet10t"] * 2


def test_names_of_timm_are_fetched_from_the_hub(folder, made, hub, tmp_path, monkeypatch):
    """The usual weights of an architecture, with ImageNet's labels where a model has none."""
    write(folder, label_names=None)
    monkeypatch.chdir(tmp_path)
    names = {
        "resnet50": "timm/resnet50.a1_in1k",
        "timm/resnet50": "timm/resnet50.a1_in1k",
        "resnet50.tv_in1k": "timm/resnet50.tv_in1k",
        "timm/resnet50.new_in1k": "timm/resnet50.new_in1k",
        "bare": "timm/bare",
    }
    for source, hub_id in names.items():
        model = load_task_model(source, ["cow", "car"])
        assert (model.name, model.kind, {*hub}) == (hub_id, "timm", {hub_id})
        assert model.meaning == {"cow": ["cow"], "car": ["car, auto"]}
        hub.clear()
    # a folder comes first, its labels are its own
    fails(lambda: load_task_model("own", ["car"]), "outputs have no names", "`classes`")
    write(folder, label_names={"0": "n1", "1": "n2", "2": "n3"}, label_descriptions={"n2": "cow"})
    assert load_task_model("own", ["cow"], outputs="exclusive").meaning == {"cow": ["cow"]}
    write(folder, label_names=["n1", "n2", "n3"], label_descriptions={"n2": "cow"})
    assert load_task_model("resnet50", ["cow", "n3"]).meaning == {"cow": ["cow"], "n3": ["n3"]}
    write(folder, num_classes=4, label_names=None)
    fails(lambda: load_task_model("resnet50", ["car"]), "outputs have no names")


def test_names_that_timm_does_not_have(folder, made, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    near = "neither a folder nor a name of timm's", "did you mean resnet50"
    for source in ("resnet5O", "resnet51", "Resnet50", "timm/restnet50"):
        fails(lambda source=source: load_task_model(source, ["car"]), source, *near)
    fails(lambda: load_task_model("qqq", ["car"]), "neither a folder nor a name of timm's")
    # a folder of another kind with the name of a model
    (tmp_path / "resnet50").mkdir()
    both = "is a folder without config.json", "write timm/resnet50", "./resnet50"
    fails(lambda: load_task_model("resnet50", ["car"]), *both)
    fails(lambda: load_task_model("./resnet50", ["car"]), "not a backbone")
    fails(lambda: load_task_model("model.pt", ["car"]), "code that runs when it is loaded")
    monkeypatch.setitem(sys.modules, "timm", None)
    fails(lambda: load_task_model("resnet51", ["car"]), "timm", "not installed", "nooch[timm]")
    fails(lambda: load_task_model("timm/resnet50", ["car"]), "nooch[timm]",
          kind=MissingExtraError, helps=False)  # fmt: skip
    assert hub == ["timm/resnet50"] * 2


def test_nothing_but_the_weights_of_the_folder_is_loaded(folder, made):
    evil = {"checkpoint_path": "evil.pth", "pretrained": True, "pretrained_cfg": {"file": "x.pth"}}
    write(folder, model_args={**evil, "depth": 2})
    load_task_model(folder, ["car"], outputs="exclusive")
    assert made == [
        (
            "resnet10t",
            {"checkpoint_path": "", "pretrained": False, "pretrained_cfg": None, "depth": 2,
             "num_classes": 3, "pretrained_cfg_overlay": None},
        )
    ]  # fmt: skip
    for name in ("hf-hub:evil/model", "local-dir:/evil"):
        write(folder, architecture=name)
        fails(lambda: load_task_model(folder, ["car"]), "names the architecture")


def test_folders_that_are_refused(folder, made, monkeypatch):
    refused(lambda: load_task_model(folder, ["car"], mean=MEAN), "`mean` is for networks as ONNX")
    write(folder, num_classes=4, label_names=list("abcd"))
    fails(lambda: load_task_model(folder, ["a"]), "cannot be loaded", "weights for it")
    write(folder, label_names=["car", "cow"])
    own = partial(load_task_model, folder, ["car"], outputs="exclusive")
    fails(own, "returns 3 outputs")
    write(folder, pretrained_cfg={"mean": [0.1]})
    fails(lambda: load_task_model(folder, ["car"]), "a configuration of timm")
    write(folder)
    monkeypatch.setitem(sys.modules, "timm", None)
    fails(lambda: load_task_model(folder, ["car"]), "nooch[timm]", kind=MissingExtraError,
          helps=False)  # fmt: skip
    (folder / "model.safetensors").unlink()
    fails(lambda: load_task_model(folder, ["car"]), "contains no model.safetensors", "pickled")
