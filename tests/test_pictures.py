"""Judging, decoding and comparing pictures."""

import io
import os
import struct
import zlib
from pathlib import Path

import imagehash
import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from evoaudit import pictures, screens
from evoaudit.errors import InputError
from evoaudit.pictures import encoded_bytes


def screen(width: int = 200, height: int = 120, text: str = "") -> Image.Image:
    image = Image.new("RGB", (width, height), (240, 240, 240))
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 90, 60), fill=(30, 90, 200))
    draw.text((30, 80), text, fill=(0, 0, 0))
    return image


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def header_only(width: int, height: int) -> bytes:
    """Return a tiny PNG that claims a size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


def test_reencoded_twins_share_an_id_and_other_pixels_do_not():
    image = screen(text="one")
    twins = [
        encoded(image),
        encoded(image, compress_level=0),
        encoded(image, "BMP"),
        encoded(image, "WEBP", lossless=True),
        encoded(image.convert("RGBA")),
    ]
    found = [pictures.inspect(data) for data in twins]
    assert {one.status for one in found} == {"ok"}
    assert len({one.image_id for one in found}) == 1
    assert len({one.file_sha256 for one in found}) == len(twins)
    assert [one.format for one in found] == ["png", "png", "bmp", "webp", "png"]
    assert pictures.inspect(encoded(screen(text="two"))).image_id != found[0].image_id


def test_size_is_part_of_the_id():
    wide, tall = Image.new("RGB", (8, 2)), Image.new("RGB", (2, 8))
    assert pictures.inspect(encoded(wide)).image_id != pictures.inspect(encoded(tall)).image_id


def test_transparency_lies_on_white():
    clear = Image.new("RGBA", (4, 4), (200, 0, 0, 0))
    assert (pictures.inspect(encoded(clear)).pixels == 255).all()
    palette = Image.new("P", (4, 4))
    palette.info["transparency"] = 0
    assert (pictures.inspect(encoded(palette)).pixels == 255).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_png_mode_is_decoded(mode):
    found = pictures.inspect(encoded(Image.new(mode, (5, 3))))
    assert (found.status, found.pixels.shape, found.pixels.dtype) == ("ok", (3, 5, 3), np.uint8)


def test_sixteen_bit_grey_keeps_its_high_byte():
    grey = Image.fromarray(np.full((2, 2), 0x80FF, np.uint16))
    assert (pictures.inspect(encoded(grey)).pixels == 0x80).all()


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (6, 6), colour) for colour in ("red", "blue")]
    found = pictures.inspect(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert found.format == "gif"
    assert tuple(found.pixels[0, 0]) == (255, 0, 0)


def test_blank_is_the_share_of_the_commonest_colour():
    image = Image.new("RGB", (100, 100), (9, 9, 9))
    image.paste((200, 200, 200), (0, 0, 100, 25))
    assert pictures.inspect(encoded(image)).blank == 0.75


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "lfs_pointer"),
        (b"", "truncated"),
        (b"<html>404</html>", "not_an_image"),
        (encoded(screen())[:300], "truncated"),
        (encoded(screen(), "JPEG")[:400], "truncated"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (header_only(30_000, 10), "too_large"),
        (header_only(20_000, 20_000), "too_large"),
        (header_only(2**31 - 1, 2**31 - 1), "too_large"),
        (encoded(screen(), "TIFF"), "not_an_image"),
        (None, "missing"),
    ],
)
def test_what_is_wrong_becomes_a_status(data, status):
    found = pictures.inspect(data)
    assert (found.status, found.image_id, found.pixels) == (status, None, None)


def test_a_webp_that_claims_a_huge_canvas_is_refused_before_it_is_opened():
    data = bytearray(encoded(screen(), "WEBP", save_all=True, append_images=[screen(text="two")]))
    assert data[12:16] == b"VP8X"
    data[24:30] = (16_382).to_bytes(3, "little") * 2
    assert pictures.inspect(bytes(data)).status == "too_large"


def test_a_large_picture_within_the_limits_is_decoded_without_a_warning():
    tall = Image.new("RGB", (1280, 20_000), "white")
    assert pictures.inspect(encoded(tall)).status == "ok"


@pytest.mark.parametrize("size", [(29_999, 1), (1, 29_999), (29_999, 2), (3, 20_001)])
def test_a_thin_picture_is_described(size):
    assert pictures.inspect(encoded(Image.new("RGB", size, "white"))).blank == 1


@pytest.mark.parametrize("size", [(2**32 - 1, 1), (1, 2**31)])
def test_a_size_that_no_table_holds_is_left_out(size):
    found = pictures.inspect(header_only(*size))
    assert (found.status in {"too_large", "truncated"}, found.width, found.height) == (True, None, None)


def test_missing_files_and_folders_are_missing(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    for name in ("no.png", "folder", "../no.png"):
        assert pictures.read(tmp_path, name).status == "missing"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_never_raises(data):
    whole = data.draw(
        st.sampled_from(
            [
                encoded(screen()),
                encoded(screen(), "JPEG"),
                encoded(screen(), "WEBP"),
                encoded(screen(), "GIF"),
                encoded(screen().convert("P")),
                encoded(screen(), "BMP"),
            ]
        )
    )
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    found = pictures.inspect(bytes(damaged[: data.draw(st.integers(1, len(damaged)))]))
    assert found.status in {"ok", "truncated", "not_an_image", "too_large"}
    assert (found.pixels is not None) == (found.status == "ok") == (found.image_id is not None)


def naive(a: np.ndarray, b: np.ndarray) -> tuple[int, np.ndarray]:
    over = (np.abs(a.astype(int) - b.astype(int)).max(axis=2)) > 24
    height, width = over.shape
    tiles = np.zeros((-(-height // 16), -(-width // 16)), bool)
    for y, x in zip(*np.nonzero(over), strict=True):
        tiles[y // 16, x // 16] = True
    return int(over.sum()), tiles


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 2**31), st.floats(0, 0.2))
def test_tile_changes_equal_the_plain_definition(height, width, seed, share):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    b = a.copy()
    place = rng.random((height, width)) < share
    b[place] = rng.integers(0, 256, (int(place.sum()), 3), dtype=np.uint8)
    change = pictures.tile_changes(a, b)
    pixels, tiles = naive(a, b)
    assert change.changed_pixels == pixels
    assert (change.tiles == tiles).all()
    assert (pictures.unpack(change.bitmap, tiles.shape[1], tiles.shape[0]) == tiles).all()


def test_a_page_looked_at_in_bands_gives_what_one_look_gives(monkeypatch):
    rng = np.random.default_rng(5)
    a = rng.integers(0, 256, (150, 90, 3), dtype=np.uint8)
    b = a.copy()
    b[20:141, 30:70] = rng.integers(0, 256, (121, 40, 3), dtype=np.uint8)
    file = encoded(Image.fromarray(a))
    whole, looked = pictures.tile_changes(a, b), pictures.inspect(file)
    assert (looked.pixels == a).all()
    monkeypatch.setattr(screens, "BAND", 32)
    bands = pictures.tile_changes(a, b)
    assert (bands.changed_pixels, bands.bitmap) == (whole.changed_pixels, whole.bitmap)
    again = pictures.inspect(file)
    assert again.image_id == looked.image_id and (again.pixels == looked.pixels).all()


@st.composite
def drawings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Draw two pictures of one size in up to some hundred colours, the second a painted-over first; often of a width that eight divides."""
    height, width = draw(st.integers(1, 40)), draw(st.sampled_from([1, 7, 8, 16, 24, 33, 64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    colours = rng.integers(0, 256, (draw(st.sampled_from([1, 2, 5, 100, 200, 256])), 3), dtype=np.uint8)
    a = colours[rng.integers(0, len(colours), (height, width))]
    for _ in range(draw(st.integers(0, 4))):  # flat areas, as screens have them
        a[rng.integers(0, height) :, rng.integers(0, width) :] = colours[rng.integers(0, len(colours))]
    b = a.copy()
    for _ in range(draw(st.integers(0, 3))):
        top, left = rng.integers(0, height), rng.integers(0, width)
        b[top : top + 9, left : left + 9] = rng.integers(0, 256, 3, dtype=np.uint8)
    return a, b


def paletted(pixels: np.ndarray, seed: int) -> Image.Image | None:
    """Store pixels with a palette in an arbitrary order, one colour twice where there is room; None if they have too many colours."""
    colours, place = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    if len(colours) > 256:
        return None
    rng = np.random.default_rng(seed)
    codes = rng.permutation(256)
    palette = rng.integers(0, 256, (256, 3), dtype=np.uint8)
    palette[codes[: len(colours)]] = colours
    cells = codes[place.ravel()]
    if len(colours) < 256:
        palette[codes[-1]] = colours[0]
        cells[(cells == codes[0]) & (rng.random(len(cells)) < 0.5)] = codes[-1]
    image = Image.fromarray(cells.astype(np.uint8).reshape(pixels.shape[:2]), "L")
    image.putpalette(palette.tobytes())
    return image


@settings(max_examples=150, deadline=None)
@given(drawings(), st.integers(0, 2**31))
def test_how_a_file_stores_pixels_does_not_matter(pair, seed):
    stored = []
    for n, pixels in enumerate(pair):
        plain = pictures.inspect(encoded(Image.fromarray(pixels)))
        indexed = paletted(pixels, seed + n)
        found = plain if indexed is None else pictures.inspect(encoded(indexed))
        assert (found.pixels == pixels).all()
        assert (found.image_id, found.phash, found.blank) == (plain.image_id, plain.phash, plain.blank)
        stored.append((plain.screen, found.screen))
    assert (stored[0][0].image_id == stored[1][0].image_id) == np.array_equal(*pair)
    expected = naive(*pair)
    for one in stored[0]:
        for other in stored[1]:
            change = screens.changes(one, other)
            assert change.changed_pixels == expected[0]
            assert (change.tiles == expected[1]).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 4), st.sampled_from([np.uint8, np.uint32]), st.integers(0, 2**31))
def test_runs_begin_where_a_cell_differs_from_the_one_before(length, values, kind, seed):
    flat = np.random.default_rng(seed).integers(0, values, length).astype(kind)
    assert screens._starts(flat).tolist() == [n for n in range(length) if n == 0 or flat[n] != flat[n - 1]]


@settings(max_examples=60, deadline=None)
@given(drawings())
def test_the_perceptual_hash_is_that_of_imagehash(pair):
    for pixels in pair:
        small = Image.fromarray(pixels).convert("L").resize((32, 32), Image.Resampling.BOX)
        assert pictures.inspect(encoded(Image.fromarray(pixels))).phash == str(imagehash.phash(small))


def test_a_blank_screen_has_its_mean_alone_above_the_median():
    assert pictures.inspect(encoded(Image.new("RGB", (640, 400), (9, 99, 200)))).phash == "8000000000000000"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["rows", "columns", "mirrored", "turned", "checks", "noise"]))
def test_a_perceptual_hash_is_scipys_where_many_a_frequency_has_no_strength(seed, shape):
    rng = np.random.default_rng(seed)
    grey = rng.integers(0, 256, (32, 32), dtype=np.uint8)
    grey = {
        "rows": np.repeat(grey[:, :1], 32, axis=1),
        "columns": np.repeat(grey[:1], 32, axis=0),
        "mirrored": np.minimum(grey, grey[:, ::-1]),
        "turned": np.minimum(grey, grey[::-1, ::-1]),
        "checks": np.tile(grey[:2, :2], (16, 16)),
        "noise": grey,
    }[shape]
    low = scipy.fft.dctn(grey)[:8, :8].ravel()
    expected = np.packbits(low > np.sort(low)[31:33].mean()).tobytes().hex()
    assert pictures.inspect(encoded(Image.fromarray(grey))).phash == expected


def test_grey_and_colour_files_of_one_screen_have_one_id():
    grey = screen().convert("L")
    ids = {pictures.inspect(encoded(image)).image_id for image in (grey, grey.convert("RGB"), grey.convert("RGBA"), grey.convert("P"))}
    assert len(ids) == 1


def test_a_highlight_of_20_levels_is_no_change_and_one_of_25_is():
    a = np.zeros((16, 16, 3), np.uint8)
    for level, pixels in ((20, 0), (24, 0), (25, 256)):
        assert pictures.tile_changes(a, np.full_like(a, level)).changed_pixels == pixels


def test_open_picture_names_a_file_that_has_gone(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(encoded(screen()))
    assert pictures.open_picture(tmp_path, "a.png").shape == (120, 200, 3)
    for file in ("b.png", "../a.png"):
        with pytest.raises(InputError, match="gone"):
            pictures.open_picture(tmp_path, file)
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match="changed"):
        pictures.open_picture(tmp_path, "a.png")


@pytest.mark.parametrize(("member", "kind"), [(None, "plain"), ("0/screenshot/0@9+8x8x3", "androidworld")])
def test_a_pipe_is_no_picture(tmp_path: Path, member: str | None, kind: str):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(InputError, match="gone"):
        encoded_bytes(tmp_path, "a.png", member, kind)


def test_open_picture_reads_a_parquet_row(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    shots = [{"bytes": encoded(Image.new("RGB", (4, 4), (n, 0, 0))), "path": None} for n in range(5)]
    pq.write_table(pa.table({"screenshot": shots}), tmp_path / "x.parquet", row_group_size=2)
    assert [int(pictures.open_picture(tmp_path, "x.parquet", str(row))[0, 0, 0]) for row in range(5)] == list(range(5))
    with pytest.raises(InputError, match="row 9"):
        pictures.open_picture(tmp_path, "x.parquet", "9")
