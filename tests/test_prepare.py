"""Picture preparation: the same bytes everywhere, and a reader that finds them."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import Logs, painted
from PIL import Image

from evoaudit import pictures, prepare, prepared, schema, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError

COUNT = 40


@pytest.fixture
def logs() -> Logs:
    """One trajectory of many screens; every third is small."""
    sizes = [(64, 48) if k % 3 == 0 else (320, 200) for k in range(COUNT)]
    made = Logs(pixels={f"p{k}": painted(k, *size) for k, size in enumerate(sizes)})
    made.add("one", list(made.pixels))
    return made


def places(logs, tmp_path):
    normalised, root = logs.write(tmp_path)
    return prepare.find([normalised], {"made": root}, [logs.id(name) for name in logs.used])


def test_pictures_are_the_same_for_any_number_of_threads(logs, tmp_path):
    found = places(logs, tmp_path)
    for threads in (1, 3):
        (tmp_path / str(threads)).mkdir()
        assert prepare.write(tmp_path / str(threads), found, 100, threads) == COUNT
    assert (tmp_path / "1/prepared.parquet").read_bytes() == (tmp_path / "3/prepared.parquet").read_bytes()


def test_pictures_fit_the_side_and_are_never_enlarged(logs, tmp_path):
    prepare.write(tmp_path, places(logs, tmp_path), 100)
    table = pq.read_table(tmp_path / "prepared.parquet")
    assert table.schema.equals(schema.TABLES["prepared"])
    rows = table.to_pylist()
    assert [row["image_id"] for row in rows] == sorted(logs.id(name) for name in logs.used)
    assert {(row["width"], row["height"], row["resampling"], row["format"]) for row in rows} == {
        (64, 48, "none", "PNG"),
        (100, 62, "lanczos", "PNG"),
    }
    for row in rows:
        picture = Image.open(io.BytesIO(row["data"]))
        assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (row["width"], row["height"]))


def test_a_picture_within_the_side_keeps_its_pixels(logs, tmp_path):
    prepare.write(tmp_path, places(logs, tmp_path), 512)
    with prepared.Pictures(tmp_path) as found:
        for name, pixels in logs.pixels.items():
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(found.get(logs.id(name))))), pixels)


@settings(max_examples=60, deadline=None)
@given(width=st.integers(1, 3000), height=st.integers(1, 3000), side=st.integers(1, 1024))
def test_sizes_keep_their_proportion(width, height, side):
    small, _ = prepare.shrink(Image.new("L", (width, height)), side)
    assert min(small.size) >= 1 and max(small.size) == min(side, max(width, height))
    scale = max(small.size) / max(width, height)
    assert all(abs(got - max(1.0, was * scale)) <= 0.5 for got, was in zip(small.size, (width, height), strict=True))


def test_pictures_are_found_by_id_from_many_threads(logs, tmp_path):
    prepare.write(tmp_path, places(logs, tmp_path), 100)
    found = prepared.Pictures(tmp_path)
    ids = [logs.id(name) for name in logs.used]
    assert found.ids() == sorted(ids) and len(found) == COUNT
    with ThreadPoolExecutor(4) as pool:
        data = list(pool.map(found.get, ids * 5))
    assert data[:COUNT] == data[-COUNT:] and len(set(data)) == COUNT
    assert found.size(logs.id("p0")) == (64, 48) and found.size(logs.id("p1")) == (100, 62)
    for strange in ("", "0" * 64, "f" * 64, "g"):
        assert strange not in found
        with pytest.raises(KeyError):
            found.get(strange)


def test_no_pictures_make_an_empty_table(tmp_path):
    assert prepare.write(tmp_path, [], 512) == 0
    assert prepared.Pictures(tmp_path).ids() == [] and "x" not in prepared.Pictures(tmp_path)


def test_metadata_of_the_original_is_left_behind(tmp_path):
    made = Logs(pixels={"p": painted(1)})
    made.add("one", ["p", "p"])
    normalised, root = made.write(tmp_path)
    Image.fromarray(made.pixels["p"]).save(root / "p.png", icc_profile=b"profile of nobody", dpi=(300, 300))
    images = store.read_rows(normalised, "images")
    images[0]["file_sha256"] = store.sha256_file(root / "p.png")
    store.write_table(normalised, "images", images)
    prepare.write(tmp_path, prepare.find([normalised], {"made": root}, [made.id("p")]), 512)
    assert Image.open(io.BytesIO(prepared.Pictures(tmp_path).get(made.id("p")))).info == {}


def test_a_picture_that_went_missing_is_named(logs, tmp_path):
    found = places(logs, tmp_path)
    (tmp_path / "root-made" / "p7.png").unlink()
    with pytest.raises(InputError, match=r"p7\.png"):
        prepare.write(tmp_path, found, 100, 2)
    assert not (tmp_path / "prepared.parquet").exists()


def test_a_picture_that_changed_is_named(logs, tmp_path):
    found = places(logs, tmp_path)
    Image.fromarray(painted(99)).save(tmp_path / "root-made" / "p7.png")
    with pytest.raises(InputError, match=r"p7\.png.*changed"):
        prepare.write(tmp_path, found, 100)


def test_a_picture_of_two_sources_is_read_once(tmp_path):
    folders, roots = [], {}
    for source in ("b", "a"):
        made = Logs(source, pixels={"p": painted(1)})
        made.add(source, ["p", "p"])
        normalised, roots[source] = made.write(tmp_path)
        folders.append(normalised)
    found = prepare.find(folders, roots, [made.id("p")])
    assert [(place.root, place.file) for place in found] == [(roots["a"], "p.png")]


SETTINGS = {
    "t1": {"quota": {"3": 4}},
    "t2": {"quota": {"click": 4}},
    "t3": {"quota": {"cross": 0, "long_skip": 4}},
    "max_share_per_trajectory": 1,
}


@pytest.fixture
def mined(logs, tmp_path):
    """The arguments of the images stage after mining."""
    normalised, root = logs.write(tmp_path)
    inputs = ["--normalised", str(normalised), "--root", f"made={root}"]
    assert main(["mine", "--settings", json.dumps(SETTINGS), "--seed", "1", *inputs, "--out", str(tmp_path / "mined")]) == 0
    return ["images", "--mined", str(tmp_path / "mined"), *inputs, "--out", str(tmp_path / "images")]


def test_the_subcommand_prepares_every_picture_asked_about(mined, tmp_path):
    assert main([*mined, "--settings", '{"max_image_side": 64}']) == 0
    asked = {image for task in ("t1", "t2", "t3") for row in store.read_rows(tmp_path / "mined", task) for image in row["images"]}
    assert asked and set(prepared.Pictures(tmp_path / "images").ids()) == asked
    manifest = json.loads((tmp_path / "images" / "manifest.json").read_text())
    assert manifest["counts"] == {"unit": "picture", "read": len(asked), "kept": len(asked), "dropped": {}, "others": {}}
    assert set(manifest["files"]) == {"prepared.parquet", "drops.parquet"}


def test_bad_usage_is_one_line_and_leaves_nothing(mined, tmp_path, capsys):
    for side in ("0", '"big"', "null"):
        assert main([*mined, "--settings", f'{{"max_image_side": {side}}}']) == 2
    for path in (tmp_path / "root-made").iterdir():
        path.write_bytes(b"not what it was")
    assert main([*mined, "--settings", '{"max_image_side": 64}']) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4 and all("Traceback" not in line for line in errors)
    assert not list((tmp_path / "images").glob("*"))


def test_decoding_for_the_models_and_for_the_tables_agree(tmp_path):
    for mode in ("RGB", "RGBA", "L", "P", "LA"):
        picture = Image.fromarray(painted(3)).convert("RGB").convert(mode)
        out = io.BytesIO()
        picture.save(out, "PNG")
        assert np.array_equal(np.asarray(pictures.decode(out.getvalue(), "here")), pictures.inspect(out.getvalue()).pixels)


@pytest.mark.parametrize("how", [{"compression": "none", "use_dictionary": False}, {"compression": "zstd"}, {"compression": "none"}])
def test_pictures_are_read_back_byte_for_byte_however_the_file_is_packed(tmp_path, how):
    # Equal beginnings, one picture inside another, and an empty one: none may be taken for another.
    datas = [b"", b"\x89PNG" * 40, b"\x89PNG" * 80, b"\x89PNG" * 40, bytes(range(256)) * 9000, b"\x89PNG" * 80 + b"!"]
    same = {"max_image_side": 64, "height": 2, "format": "PNG", "resampling": "none"}
    rows = [{"image_id": f"{n:02}", "width": n + 1, "data": data, **same} for n, data in enumerate(datas * 7)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema.TABLES["prepared"]), tmp_path / "prepared.parquet", row_group_size=16, **how)
    with prepared.Pictures(tmp_path) as found:
        for row in rows[::-1] + rows:
            assert (found.get(row["image_id"]), found.size(row["image_id"])) == (row["data"], (row["width"], 2))
        assert "00" in found and "0" not in found and "99" not in found
        with pytest.raises(KeyError):
            found.get("07x")
