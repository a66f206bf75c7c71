"""Composing Waterbirds: origins of pixels, shares of groups, no access to other files."""

import numpy as np
import polars as pl
import pytest
from birds import BIRD, CATEGORIES, SIZE, background_of, cub_folder, mask_of, places_folder
from PIL import Image
from refusals import fails

from nooch.engines import LocalEngine
from nooch.errors import InputError, OutputError, ParameterError
from nooch.waterbirds.bird_compositing import compose
from nooch.waterbirds.waterbirds_dataset import read_waterbirds
from nooch.waterbirds.waterbirds_images import (
    Recipe,
    WaterbirdsOptions,
    draw_waterbirds,
    is_water_bird,
    make_waterbirds,
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    return cub_folder(root / "cub"), places_folder(root / "places")


@pytest.fixture
def own(tmp_path):
    """Sources that a test may damage."""
    return cub_folder(tmp_path / "cub", each=6), places_folder(tmp_path / "places", each=15)


def birds_of(n, training, water):
    species = ("118.House_Sparrow", "001.Laysan_Albatross")
    names = [f"{species[int(w)]}/{i}.jpg" for i, w in enumerate(water)]
    return pl.DataFrame({"img_id": range(1, n + 1), "img_filename": names, "training": training})


def test_pixels_inside_the_mask_are_the_birds_and_outside_the_backgrounds():
    bird, mask, background = Image.new("RGB", SIZE, BIRD), mask_of(3), background_of(3)

    def composed(mask):
        image = compose(bird, Image.fromarray(mask.astype(np.uint8)), background)
        return np.asarray(image).astype(int)

    image = composed(mask)
    assert (image[mask == 255] == BIRD).all()
    # 100 x 50 covers 60 x 40 when it is 80 x 40: both ends lose ten pixels, 12.5 of the original
    part = background.crop((12, 0, 88, 50))
    expected = np.asarray(part.resize(SIZE, Image.Resampling.LANCZOS)).astype(int)
    outside = mask == 0
    assert np.abs(image - expected)[outside].mean() < 1
    assert image[outside].max() < 255
    left, right = image[:, :28][outside[:, :28]], image[:, 33:][outside[:, 33:]]
    assert np.abs(left - (0, 200, 3)).max() <= 12
    assert np.abs(right - (0, 0, 200)).max() <= 12
    blended = mask == 102
    mixed = 0.4 * np.array(BIRD) + 0.6 * composed(np.where(blended, 2, 0))[blended]
    assert np.abs(image[blended] - mixed).max() <= 3


@pytest.mark.parametrize("size", [(30, 20), (61, 200), (300, 41), (60, 40)])
def test_a_background_of_any_size_covers_the_image(size):
    background = Image.new("RGB", size, (1, 2, 3))
    mask = Image.new("L", SIZE)
    mask.putpixel((0, 0), 255)
    made = np.asarray(compose(Image.new("RGB", SIZE, BIRD), mask, background))
    assert (made[0, 0] == BIRD).all()
    assert (made.reshape(-1, 3)[1:] == (1, 2, 3)).all()


def test_the_whole_way(sources, tmp_path):
    cub, places = sources
    table = make_waterbirds(cub, places, tmp_path / "out", Recipe(confounder=0.75))
    assert pl.read_csv(tmp_path / "out" / "metadata.csv").equals(table)
    data = read_waterbirds(tmp_path / "out")
    assert (len(data), data.provenance["notes"]) == (60, [])
    assert data.images["file_name"].to_list() == table["img_filename"].to_list()
    for row in table.iter_rows(named=True):
        assert row["place_filename"].split("/", 2)[1] in (("b", "f"), ("o", "l"))[row["place"]]
        image = np.asarray(Image.open(tmp_path / "out" / row["img_filename"])).astype(int)
        photo, place = cub / "images" / row["img_filename"], row["place_filename"][1:]
        mask = mask_of(row["img_id"])
        with Image.open(photo) as bird, Image.open(places / "data_large" / place) as background:
            exact = np.asarray(compose(bird, Image.fromarray(mask), background)).astype(int)
        # JPEG blurs a little
        assert np.abs(image - exact).mean() < 2
        assert np.abs(image[12:28][mask[12:28] == 255].mean(0) - BIRD).max() < 6
    assert table["place_filename"].n_unique() == 60


def test_lossless_images_are_exact(tmp_path):
    cub = cub_folder(tmp_path / "cub", each=3, ending="png")
    places = places_folder(tmp_path / "places", each=15)
    table = make_waterbirds(cub, places, tmp_path / "out", Recipe(valid=0))
    for row in table.iter_rows(named=True):
        image = np.asarray(Image.open(tmp_path / "out" / row["img_filename"]))
        assert (image[mask_of(row["img_id"]) == 255] == BIRD).all()


def test_groups_follow_the_confounder():
    random = np.random.default_rng(5)
    training, water = random.random(2000) < 0.5, random.random(2000) < 0.25
    backgrounds = {kind: [f"/o/{kind}/{i}.jpg" for i in range(2000)] for kind in (0, 1)}
    for confounder in (0.95, 0.6, 1.0):
        table = draw_waterbirds(birds_of(2000, training, water), backgrounds, Recipe(confounder))
        sizes = {key: len(part) for key, part in table.group_by("split", "y", "place")}
        n_valid = round(0.2 * training.sum())
        counts = dict(table["split"].value_counts().iter_rows())
        assert counts == {0: training.sum() - n_valid, 1: n_valid, 2: (~training).sum()}
        for split in (0, 1, 2):
            share = confounder if split == 0 else 0.5
            for y in (0, 1):
                total = sum(sizes.get((split, y, place), 0) for place in (0, 1))
                assert abs(sizes.get((split, y, y), 0) - share * total) <= 0.5
        assert table["place_filename"].n_unique() == 2000


def test_the_makers_sizes(shared_data):
    """The training split's own birds give groups as large as in the published data."""
    known = pl.read_csv(shared_data / "waterbirds" / "metadata.csv").filter(split=0)
    birds = known.select("img_id", "img_filename", training=pl.lit(True))
    backgrounds = {k: [f"{k}/{i}" for i in range(4795)] for k in (0, 1)}
    table = draw_waterbirds(birds, backgrounds, Recipe(valid=0))
    assert table["y"].equals(known["y"])
    sizes = {key: len(part) for key, part in table.group_by("y", "place")}
    assert sizes == {(0, 0): 3498, (0, 1): 184, (1, 0): 56, (1, 1): 1057}


def test_draws_depend_on_the_seed_alone(sources, tmp_path):
    folders = tmp_path / "one", tmp_path / "two"
    one = make_waterbirds(*sources, folders[0], Recipe(seed=4))
    two = make_waterbirds(*sources, folders[1], Recipe(seed=4), map=LocalEngine(2).map)
    assert one.equals(two)
    for file in [path for path in folders[0].rglob("*.*") if path.is_file()]:
        assert file.read_bytes() == (folders[1] / file.relative_to(folders[0])).read_bytes()
    other = make_waterbirds(*sources, tmp_path / "other", Recipe(seed=5))
    assert not other.equals(one)
    birds = birds_of(50, np.arange(50) % 2 > 0, np.arange(50) % 3 > 0)
    backgrounds = {k: [f"{k}/{i}" for i in range(50)] for k in (0, 1)}
    reverse = draw_waterbirds(birds.reverse(), {k: backgrounds[k][::-1] for k in (0, 1)}, Recipe())
    assert draw_waterbirds(birds, backgrounds, Recipe()).equals(reverse)


def test_a_finished_table_assigns_birds_to_backgrounds(sources, tmp_path):
    file, options = tmp_path / "given.csv", WaterbirdsOptions(metadata=tmp_path / "given.csv")
    table = make_waterbirds(*sources, tmp_path / "one", Recipe(seed=4)).filter(
        pl.col("img_id") > 10
    )
    table.write_csv(file)
    again = make_waterbirds(*sources, tmp_path / "two", options=options)
    assert again.equals(table)
    name = table["img_filename"][0]
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    def refused(changed, *parts):
        changed.write_csv(file)
        fails(lambda: make_waterbirds(*sources, tmp_path / "x", metadata=file), *parts)
        assert not (tmp_path / "x").exists()

    refused(table.with_columns(place_filename=pl.lit("/../secret.jpg")), "lead out of")
    refused(table.with_columns(img_filename=pl.lit("../x.jpg")).head(1), "lead out of")
    missing = table.with_columns(place_filename=pl.lit("/o/ocean/none.jpg"))
    refused(missing, "50 of 50 backgrounds", "o/ocean/none.jpg")
    refused(pl.concat([table, table]), "names an image twice")
    refused(table.with_columns(place=None), "without a value")


def test_species(shared_data):
    table = pl.read_csv(shared_data / "waterbirds" / "metadata.csv")
    names = table["img_filename"].to_list()
    assert [is_water_bird(name) for name in names] == (table["y"] == 1).to_list()
    differ = [name for name in names if is_water_bird(name) != is_water_bird(name, "corrected")]
    stray = {name.split("/")[0] for name in differ}
    assert stray == {"021.Eastern_Towhee", "088.Western_Meadowlark", "102.Western_Wood_Pewee"}


def test_everything_is_looked_for_before_anything_is_made(own, tmp_path, monkeypatch):
    cub, places = own
    composing = "nooch.waterbirds.waterbirds_images.compose_all"
    monkeypatch.setattr(composing, lambda *_a, **_k: pytest.fail("composed"))

    def refused(*parts):
        fails(lambda: make_waterbirds(cub, places, tmp_path / "out"), *parts)
        assert not (tmp_path / "out").exists()

    mask = next((cub / "segmentations").rglob("*.png"))
    hidden = mask.rename(tmp_path / "mask.png")
    refused("1 of 30 images are not there", mask.name, "`segmentations`")
    mask.symlink_to(hidden)
    refused("1 of 30 images are not there", "no links that lead out")
    mask.unlink()
    hidden.rename(mask)
    bird = next((cub / "images").rglob("*.jpg"))
    moved = bird.rename(tmp_path / "bird.jpg")
    refused("1 of 30 images are not there", bird.name, "`cub`")
    moved.rename(bird)
    ocean = places / "data_large" / "o" / "ocean"
    away = ocean.rename(tmp_path / "ocean")
    refused("no such folder", "ocean")
    ocean.symlink_to(away)
    refused("is a link that leads out of the given folder")
    ocean.unlink()
    away.rename(ocean)
    for category in CATEGORIES[2:]:
        for file in sorted((places / "data_large" / category).iterdir())[2:]:
            file.unlink()
    refused("need a background of ocean or lake/natural, and there are 4")


def test_lists_that_are_not_cubs(own, tmp_path):
    cub, places = own
    listed = (cub / "images.txt").read_text()

    def refused(*parts, places=places, **more):
        fails(lambda: make_waterbirds(cub, places, tmp_path / "out"), *parts, **more)

    lines = {"1\n": "line 1 is '1'", "a b\n": "line 1", listed + listed: "line 31"}
    for text, part in lines.items():
        (cub / "images.txt").write_text(text)
        refused(part)
    (cub / "images.txt").write_text("")
    refused("lists no image", helps=False)
    (cub / "images.txt").write_text("\n".join(listed.splitlines()[:-1]))
    refused("list different images: 30", helps=False)
    (cub / "images.txt").write_text(listed.replace("1 001.", "1 ../001.", 1))
    refused("lead out of the image folder")
    (cub / "images.txt").write_text(listed)
    (cub / "train_test_split.txt").write_text("".join(f"{i} 2\n" for i in range(1, 31)))
    refused("train_test_split.txt has the values 2")
    (cub / "images.txt").unlink()
    refused("cannot be read")
    refused(places=tmp_path / "no", helps=False)


def test_files_that_cannot_be_used(own, tmp_path):
    cub, places = own
    masks = sorted((cub / "segmentations").rglob("*.png"))
    birds = sorted((cub / "images").rglob("*.jpg"))
    Image.new("L", (5, 5), 255).save(masks[0])
    Image.new("L", SIZE, 1).save(masks[1])
    birds[2].write_bytes(b"no image")
    parts = ("3 of 30 images cannot be made", "the mask has 5 x 5 pixels", birds[2].name)
    text = fails(lambda: make_waterbirds(cub, places, tmp_path / "out"), *parts)
    assert "the largest value of the mask is 1" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cub", "places"]


def test_parameters(own, tmp_path):
    out = tmp_path / "out"
    for values in ({"confounder": 1.5}, {"valid": 1.0}, {"seed": -1}, {"species": "other"}):
        fails(lambda values=values: Recipe(**values), kind=ParameterError)
    fails(lambda: make_waterbirds(*own, out, quality=99), "quality 99", kind=ParameterError)
    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(OutputError, match="exists already"):
        make_waterbirds(*own, out)
    with pytest.raises(OutputError, match=r"holds no waterbirds\.json"):
        make_waterbirds(*own, out, overwrite=True)
    assert (out / "mine").read_text() == "kept"
    make_waterbirds(*own, tmp_path / "made")
    make_waterbirds(*own, tmp_path / "made", Recipe(seed=1), overwrite=True)


def test_a_mask_that_is_colored_or_of_one_bit():
    white = Image.new("1", SIZE)
    white.paste(1, (10, 10, 20, 20))
    background = Image.new("RGB", (200, 10), (9, 9, 9))
    bird = Image.new("RGB", SIZE, BIRD)
    expected = np.asarray(compose(bird, white.convert("L"), background))
    for mode in ("1", "RGB", "RGBA", "P"):
        assert (np.asarray(compose(bird, white.convert(mode), background)) == expected).all()
    with pytest.raises(InputError, match="largest value"):
        compose(bird, Image.new("L", SIZE), background)
