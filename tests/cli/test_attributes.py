"""``nooch tools add-attributes`` and ``nooch find --criterion scores``: custom support."""

import numpy as np
import polars as pl
import pytest
from messy_files import write_excel
from scipy.sparse import csr_array

from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.suites import load_suite

N = 60


def dataset():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"image_id": np.arange(N) * 3, "place": random.integers(2, size=N)})
    return Dataset.build(
        frame, ("car", "bus"), csr_array((random.random((N, 2)) < 0.5).astype(float))
    )


@pytest.fixture(params=["whole", "parts"])
def folder(request, tmp_path):
    if request.param == "parts":
        return save_dataset(divide(dataset(), 4), tmp_path / "data")
    return save_dataset(dataset(), tmp_path / "data")


@pytest.fixture
def scores(tmp_path):
    """Of all images but the first, and of one that the dataset does not hold; in no order."""
    random = np.random.default_rng(1)
    ids = random.permutation([*range(3, 3 * N, 3), 1_000_000])
    table = pl.DataFrame(
        {"id": ids, "context_car": random.random(N), "context_bus": random.random(N), "camera": "a"}
    )
    table.write_csv(tmp_path / "scores.csv")
    return tmp_path / "scores.csv"


def test_columns_join_by_id(run_cli, folder, scores, tmp_path):
    done = run_cli("tools add-attributes data scores.csv new --id id --format json").ok()
    assert done.json["images_listed"] == N - 1
    assert done.json["rows_left_out"] == 1
    data = load_dataset(tmp_path / "new")
    assert data.attributes == ("place", "context_car", "context_bus", "camera")
    wanted = dict(pl.read_csv(scores).select("id", "context_bus").iter_rows())
    found = dict(data.images.select("image_id", "context_bus").iter_rows())
    assert found == {image: wanted.get(image) for image in range(0, 3 * N, 3)}
    assert open_dataset(tmp_path / "new").n_parts == open_dataset(folder).n_parts
    assert (data.areas != dataset().areas).nnz == 0


def test_captions_join(run_cli, folder, scores, tmp_path):
    """Also in place of the dataset's own, and from a column that joins with them."""
    said = [{"image_id": 3 * i, "caption": f"a car {i}"} for i in range(N // 2)]
    pl.DataFrame(said).write_ndjson(tmp_path / "said.jsonl")
    done = run_cli("tools add-attributes data new --captions said.jsonl")
    assert f"{N // 2} of {N} images have captions" in done.err
    data = load_dataset(tmp_path / "new")
    assert data.captions.to_dicts() == said
    assert open_dataset(tmp_path / "new").n_parts == open_dataset(folder).n_parts
    run_cli("tools add-attributes new scores.csv newer --id id --captions camera").ok()
    newer = load_dataset(tmp_path / "newer")
    assert newer.captions["caption"].to_list() == ["a"] * (N - 1)
    assert "camera" in newer.attributes
    guarded = "word(car) IS NOT NULL AND word(car)"
    find = "find new --criterion attribute --tasks car --out suite --phi"
    run_cli(find, "word(car)").refused("word(car) is null", guarded.partition(" AND")[0])
    run_cli(find, guarded).ok()
    record = load_suite(tmp_path / "suite").record("attribute", "car", "all")
    assert record.hard_positives == dataset().labels("car")[: N // 2].sum()
    for places in ("new", "scores.csv scores.csv new"):
        run_cli(f"tools add-attributes data {places}").refused("one TABLE, then OUT")


def test_what_is_left_out_is_told(run_cli, folder, scores, tmp_path):
    done = run_cli("tools add-attributes data scores.csv new --id id --columns camera")
    assert "1 images are not in the table" in done.err
    assert "1 rows are of images that are not in the dataset" in done.err
    assert "camera for 59 of 60 images" in done.out
    assert load_dataset(tmp_path / "new").attributes == ("place", "camera")


def test_hard_images_by_scores_of_ones_own(run_cli, folder, scores, tmp_path):
    run_cli("tools add-attributes data scores.csv new --id id").ok()
    engine = "--engine local:1" if open_dataset(folder).n_parts > 1 else ""
    scores = "--criterion scores --scores 'context_{task}' --tau 0.4"
    run_cli(f"find new {scores} --out suite {engine}").ok()
    suite, data = load_suite(tmp_path / "suite"), load_dataset(tmp_path / "new")
    for task in ("car", "bus"):
        rows = zip(data.image_ids, data.labels(task), data.images[f"context_{task}"], strict=True)
        wanted = {i for i, y, s in rows if s is not None and (s < 0.4 if y else s > 0.4)}
        assert set(suite.set("scores", task, "all").ids("hard")) == wanted
    told = run_cli("explain suite --task car --image 3")
    assert "context_car is 0." in told.out


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("image_id,place\n3,1\n", "has columns place already"),
        ("image_id,split\n3,train\n", "a name that nooch uses itself"),
        ("image_id,annotated_stuff\n3,true\n", "a name that nooch uses itself"),
        ("image_id,a\n3,1\n3,2\n", "occur more than once: 3"),
        ("image_id,a\n3,1\n,2\n", "1 rows have no image_id"),
        ("image_id\n3\n", "only a column of ids"),
        ("name,a\n3,1\n", "no column contains image ids or file names"),
        ("image_id,a\nx,1\n", "no row names an image of the dataset; image_id has x"),
    ],
)
def test_a_table_that_cannot_join_is_refused(run_cli, folder, tmp_path, table, words):
    (tmp_path / "table.csv").write_text(table)
    run_cli("tools add-attributes data table.csv new").refused(words, "table.csv")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("kind", "id"), [(pl.UInt64, 2**64 - 1), (pl.Int128, -(2**100))])
def test_an_id_that_fits_no_image_is_left_out(run_cli, folder, tmp_path, kind, id):
    table = pl.DataFrame({"image_id": pl.Series([3, id], dtype=kind), "a": [5, 6]})
    table.write_parquet(tmp_path / "table.parquet")
    done = run_cli("tools add-attributes data table.parquet new --format json")
    assert (done.ok().json["images_listed"], done.json["rows_left_out"]) == (1, 1)


@pytest.mark.parametrize("ids", [[["3"]], [b"\xff"], [True], [1.5], [{"a": "3"}]])
def test_ids_of_another_kind_are_refused(run_cli, tmp_path, ids):
    data = dataset()
    named = data.images.with_columns(pl.col("image_id").cast(pl.String))
    save_dataset(Dataset.build(named.drop("split"), data.classes, data.areas), tmp_path / "data")
    pl.DataFrame({"image_id": ids, "a": [5]}).write_parquet(tmp_path / "table.parquet")
    run_cli("tools add-attributes data table.parquet new").refused("table.parquet: ")


def test_scores_need_a_column(run_cli, folder, tmp_path):
    find = "find data --criterion scores --tau 0.4 --out suite"
    run_cli(find).refused("--scores")
    run_cli(f"{find} --scores plaze").refused("place")


FORMS = {
    "t.csv": lambda table, file: table.write_csv(file),
    "semicolons.csv": lambda table, file: table.write_csv(file, separator=";"),
    "utf16.csv": lambda table, file: file.write_bytes(table.write_csv().encode("utf-16")),
    "t.tsv": lambda table, file: table.write_csv(file, separator="\t"),
    "t.parquet": lambda table, file: table.write_parquet(file),
    "t.json": lambda table, file: table.write_json(file),
    "t.jsonl": lambda table, file: table.write_ndjson(file),
    "t.xlsx": lambda table, file: write_excel(file, table),
}


@pytest.fixture(params=[1, 3])
def photos(request, tmp_path):
    """A dataset of photographs with ids of their own, in so many parts."""
    names = [f"{place}/{n:03}.jpg" for place in ("sea", "land") for n in range(6)]
    frame = pl.DataFrame({"image_id": range(100, 112), "file_name": names})
    data = Dataset.build(frame, ("car",), csr_array(np.ones((12, 1))))
    size = 12 // request.param
    save_dataset(data if request.param == 1 else divide(data, size), tmp_path / "photos")
    return names


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("below", ["{}", "/home/me/{}", "C:\\photos\\{}"])
def test_file_names_are_matched_by_their_longest_common_end(run_cli, photos, tmp_path, form, below):
    names = [below.format(name).replace("/", "\\" if "\\" in below else "/") for name in photos]
    values = {"night": [n % 2 for n in range(12)], "camera": [*"abcabcabcab", None]}
    table = pl.DataFrame(
        {"photo": [*names, "other/9.jpg"], **{k: [*v, v[0]] for k, v in values.items()}}
    )
    FORMS[form](table.sample(fraction=1, shuffle=True, seed=0), tmp_path / form)
    done = run_cli(f"tools add-attributes photos {form} new --format json").ok()
    assert (done.json["images_listed"], done.json["rows_left_out"]) == (12, 1)
    images = load_dataset(tmp_path / "new").images
    assert images.select("night", "camera").to_dict(as_series=False) == values


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("photo,a\n003.jpg,1\n", "003.jpg names several images: sea/003.jpg and land/"),
        ("photo,a\nsea/003.jpg,1\nx/sea/003.jpg,2\n", "mean the same image"),
        ("photo,a\nsky/1.jpg,1\n", "or files such as sea/000.jpg"),
        (
            "image_id,file,a\n100,sea/001.jpg,1\n",
            "give --id image_id for 1 image; give --id file for 1 image",
        ),
    ],
)
def test_names_that_are_not_certain_are_refused(run_cli, photos, tmp_path, table, words):
    (tmp_path / "t.csv").write_text(table)
    run_cli("tools add-attributes photos t.csv new").refused(words, "t.csv")
    assert not (tmp_path / "new").exists()


def test_each_reading_of_columns_that_disagree_is_what_its_flag_gives(run_cli, photos, tmp_path):
    (tmp_path / "t.csv").write_text("image_id,file,a\n100,sea/001.jpg,1\n")
    for column, place in {"image_id": 0, "file": 1}.items():
        run_cli(f"tools add-attributes photos t.csv {column} --id {column} --columns a").ok()
        found = load_dataset(tmp_path / column).images["a"]
        assert found.is_not_null().arg_true().to_list() == [place]


def test_a_second_column_of_the_same_images_is_not_an_attribute(run_cli, photos, tmp_path):
    (tmp_path / "t.csv").write_text("image_id,file_name,a\n100,sea/000.jpg,1\n")
    run_cli("tools add-attributes photos t.csv new").ok()
    assert load_dataset(tmp_path / "new").attributes == ("a",)
