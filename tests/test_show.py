"""One request and its answer can be shown with its pictures, and what is estimated before is what is sent."""

import hashlib
from pathlib import Path

import pytest
from test_infer import GOOD, PICTURES, asked, command, reply, serve, t3, write_probes

from evoaudit import config as configs
from evoaudit import plan as plans
from evoaudit import store
from evoaudit.__main__ import main

__all__ = ["serve"]

CONFIG = """
run: {{name: t, seed: 1}}
sources: [{{name: sim, kind: simulated, trajectories: 5}}]
inference: {{conditions: [full, black, metadata, shuffled_images], max_output_tokens: 50, prices: prices.yaml}}
models:
  - {{name: m, provider: openai, model: org/model, base_url: "{url}", api_key_env: EVOAUDIT_TEST_KEY}}
"""


@pytest.fixture
def here(serve, tmp_path, monkeypatch) -> Path:
    """A working directory whose results hold probes, pictures and one model's answers under the full condition."""

    seen = set()

    def answer(body: dict, n: int) -> tuple:
        if asked(body) not in seen:
            seen.add(asked(body))
            texts = []
            for message in body["messages"]:
                content = message["content"]
                texts += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            with open("sent.txt", "a") as file:
                print(sum(map(len, texts)), file=file)
        cut = asked(body) == "i-2" and body["max_tokens"] == 50
        return 200, {}, reply("\x1b[31m" + GOOD, "length" if cut else "stop")

    monkeypatch.chdir(tmp_path)
    Path("prices.yaml").write_text("models: {org/model: {input: 2, output: 10, date: 2026-01-02, source: made up}}")
    Path("mine.yaml").write_text(CONFIG.format(url=serve(answer).url))
    plan = plans.build(configs.load("mine.yaml"))
    (mined,), (images,) = plan.of("mine"), plan.of("images")
    probes = t3("i-1", "i-2")
    probes["t3"][1]["images"] = ["p3", "p1", "p2"]
    write_probes(Path("results/mine") / mined.key, probes)
    prepared = [
        {
            "image_id": name,
            "max_image_side": 512,
            "width": w,
            "height": h,
            "format": "PNG",
            "resampling": "none",
            "data": PICTURES.get(name),
        }
        for name in ("p0", "p1", "p2", "p3")
        for w, h in [PICTURES.size(name)]
    ]
    write_probes(Path("results/images") / images.key, {"prepared": prepared})
    (job,) = (job for job in plan.of("infer") if job.settings["condition"] == "full")
    folder = Path("results/infer") / job.key
    argv = command(job.all_settings, Path("results/mine") / mined.key, folder, "--images", str(Path("results/images") / images.key))
    assert main(argv) == 0
    return tmp_path


def test_a_request_is_shown_with_parameters_messages_pictures_and_answer(here, capsys):
    assert main(["show", "i-1", "--configfile", "mine.yaml", "--pictures", "sent"]) == 0
    out = capsys.readouterr().out
    for name, place in (("p0", 1), ("p1", 2), ("p2", 3)):
        data = PICTURES.get(name)
        assert f"[picture {name}, 64×40, sha256 {hashlib.sha256(data).hexdigest()}, written to sent/" in out
        (file,) = Path("sent").glob(f"*-{place}.png")
        assert file.read_bytes() == data
    assert "provider openai, model org/model, endpoint loopback, temperature 0.0, condition full" in out and "max_output_tokens 50" in out
    assert out.index("-- system") < out.index("-- user") < out.index("i-1", out.index("-- user")) < out.index("-- answer")
    assert (
        "-- answer: ok, finish_reason stop, served served-model, input_tokens 1000, cached_tokens 400, output_tokens 10, usd 0.0021" in out
    )
    # Nothing a model wrote reaches the terminal as a command.
    assert "\x1b" not in out and "\\x1b[31m" + GOOD in out


def test_a_request_is_found_by_its_key_and_every_call_of_it_can_be_shown(here, capsys):
    (folder,) = Path("results/infer").iterdir()
    rows = {row["instance_id"]: row for row in store.read_rows(folder, "predictions")}
    assert main(["show", rows["i-2"]["request"][:10], "--configfile", "mine.yaml", "--calls", "--model", "m", "--condition", "full"]) == 0
    out = capsys.readouterr().out
    assert out.count("== t3 i-2") == 1 and "max_output_tokens 100" in out
    assert out.count("-- call: ") == 2 and '"status": "truncated"' in out and '"again": true' in out


@pytest.mark.parametrize("words", [["i-9"], ["abc"], ["i-1", "--condition", "black"], ["i-1", "--model", "n"], ["i-1", "--run", "1"]])
def test_a_request_that_is_not_there_is_one_line(here, capsys, words):
    assert main(["show", *words, "--configfile", "mine.yaml"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and "no answer to such a request" in error[0]


def test_what_changed_since_is_said(here, capsys):
    plan = plans.build(configs.load("mine.yaml"))
    folder = Path("results/mine") / plan.of("mine")[0].key
    rows = store.read_rows(folder, "t3")
    rows[0]["goal"] = "another"
    store.write_table(folder, "t3", rows)
    assert main(["show", "i-1", "--configfile", "mine.yaml"]) == 0
    assert "these are not the words that were sent" in capsys.readouterr().out
    (folder / "t3.parquet").unlink()
    assert main(["show", "i-1", "--configfile", "mine.yaml"]) == 0
    assert "its probe is not in results/ any more" in capsys.readouterr().out


def test_the_estimate_counts_the_very_requests_and_pictures(here, capsys):
    assert main(["estimate", "--configfile", "mine.yaml"]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["m/full/512"] == ["finished"]
    # Three pictures of 64 × 40 an item, 3 × 2 patches of 28 pixels; the words are those of the full condition, a token four characters.
    words = sum(map(int, Path("sent.txt").read_text().split()))
    assert lines["m/black/512"][:2] == ["2", f"{words / 4 + 2 * 3 * 6:,.0f}"]
    # An item whose pictures nobody can lend is not asked: both items show p1 and p2.
    assert lines["m/shuffled_images/512"][:2] == ["0", "0"]
    assert "org/model: $2 in, $10 out, a million tokens, as of 2026-01-02 (made up)" in "\n".join(
        " ".join([name, *words]) for name, words in lines.items()
    )
