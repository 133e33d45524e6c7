"""The report's front page and the models' pages say what the tables hold: places, ties, scores under each condition, doubts, slices."""

import re
from pathlib import Path

import made_site
import pytest
from made_site import MODELS
from test_report import Page, build, pages, read

from evoaudit.places import trajectory_page
from evoaudit.report import board, load, models, page
from evoaudit.report.slugs import slugs
from evoaudit.stages.publish import FOLDERS


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> tuple[list[str], Path]:
    root = tmp_path_factory.mktemp("site")
    arguments = made_site.run(root)
    build(arguments, root / "report")
    return arguments, root / "report"


def inputs(root: Path, **given: Path) -> load.Inputs:
    return load.Inputs(stats=root / "stats", **given)


def text(html: str) -> str:
    """Return what a page says, its cells set apart."""
    return " ".join(Page(re.sub(r"</t[dh]>", " </td>", html)).text.split())


def section(html: str, id: str) -> str:
    return html.split(f'<section id="{id}"')[1].split("</section>")[0]


def test_the_front_page_names_those_that_cannot_be_told_from_the_leader(site):
    said = text(section(read(site[1]), "summary"))
    assert "leads with an EvoGain of 60.0 (interval over trajectories: 56.0 to 64.0); 2 other models cannot be told apart from it" in said
    assert "by the differences over shared resamples: GPT 5 and gpt 5." in said
    assert "It is 1.5 points ahead of the second, GPT 5 (interval of the difference: −1.5 to 4.5)." in said
    assert "It comes out best in 80.0 % of the resamples, and the interval of its rank is 1 to 3." in said


def test_more_ties_than_fit_a_sentence_are_counted():
    from evoaudit.report import summary

    rows = [{"model": f"m{n}", "evogain": 40.0, "evogain_low": 35.0, "evogain_high": 45.0} for n in range(12)]
    assert summary._leading(rows).endswith("by their intervals: m1, m2, m3, m4, m5, m6, m7, m8 and 3 more.")


def test_a_condition_is_scored_over_the_same_chance(site):
    full, black = board.boards(inputs(site[1].parent), {}, 100)
    assert (full.words, full.n, black.words, black.n) == ("own pictures, 512 px", 30, "black pictures", 3)
    # (40 - 8) / 92, (45 - 15) / 85 and (60 - 50) / 50 in the mean.
    assert [line.gain.text for line in black.lines if line.model == MODELS[0]] == ["30.0"]
    assert not black.ranked and all(line.gain.bar.low == line.gain.bar.high for line in black.lines)


def test_a_solver_that_the_main_table_calls_otherwise_is_on_one_leaderboard_alone(tmp_path):
    rows = made_site.board(MODELS[:2])
    next(row for row in rows["evogui_main"] if row["model"] == "random")["model"] = "random (mean of 4 runs)"
    rows["shortcut_controls"].append(dict(rows["shortcut_controls"][0], max_image_side=1024))
    made_site.stats(tmp_path, rows, MODELS[:2])
    found = board.boards(inputs(tmp_path), {}, 100)
    assert [(one.words, [line.model for line in one.lines]) for one in found] == [
        ("own pictures, 512 px", [*MODELS[:2], "random", "majority"]),
        ("own pictures, 1024 px", [MODELS[0]]),
        ("black pictures, 512 px", ["random", *MODELS[1::-1]]),
    ]


def test_ranks_and_intervals_are_drawn_where_they_are(site):
    full = board.boards(inputs(site[1].parent), {}, 100)[0]
    first, last = full.lines[0], full.lines[27]
    # The axis is from chance, 0, to the highest end, 64; that of ranks from 1 to 30.
    assert (first.gain.bar.low, first.gain.bar.at, first.gain.bar.high) == (87.5, 93.75, 100.0)
    assert (last.rank.bar.low, last.rank.bar.at) == (pytest.approx(100 * 25 / 29, abs=0.01), pytest.approx(100 * 27 / 29, abs=0.01))
    assert [line.model for line in full.lines if line.tied] == list(MODELS[1:3]) and first.leads


def test_every_model_has_a_page_with_its_slices_and_what_it_got_wrong(site):
    found = slugs([*MODELS, *made_site.SOLVERS, "alpha-2b", "mute"])
    names = [name for name in pages(site[1]) if name.startswith("models/")]
    assert names == sorted(f"models/{found[name]}.html" for name in (*MODELS, *made_site.SOLVERS))
    html = read(site[1], f"models/{found[MODELS[0]]}.html")
    scores, wrong = text(section(html, "scores")), text(section(html, "wrong"))
    # Right on 5 of 6 of T1, 3 of 4 of T2 and all 4 of T3; Wilson's interval of 5 in 6 by hand.
    assert "T1 6 83.3 43.6 to 97.0" in scores and "T2 joint 4 75.0" in scores and "T3 4 100.0" in scores
    assert "Place 1 of 28 models with an EvoGain of 60.0 (interval over trajectories 56.0 to 64.0); it leads." in scores
    assert "2 of 2 questions it got wrong" in wrong and wrong.count("24 of 28") == 2 and "2 → 3 → 1" in wrong
    assert "value in the goal" in text(section(html, "slices"))
    said = "Of 60 requests with the questions’ own pictures, 57 were answered, 3 of these unusably; 3 have no answer: 3 refused."
    assert said in text(section(html, "answers"))


def test_a_difference_is_told_from_the_side_of_the_model(site):
    found = slugs(MODELS)
    html = read(site[1], f"models/{found['model-00']}.html")
    row = next(row for row in re.findall(r"<tr>.*?</tr>", section(html, "rivals")) if ">model-01<" in row)
    assert text(row).startswith("model-01 1.5 −1.5 to 4.5")
    html = read(site[1], f"models/{found['model-01']}.html")
    row = next(row for row in re.findall(r"<tr>.*?</tr>", section(html, "rivals")) if ">model-00<" in row)
    assert text(row).startswith("model-00 −1.5 −4.5 to 1.5")
    # Two of its differences have p = 0.4, the other 25 one of nothing: the largest two are adjusted by 2.
    html = read(site[1], f"models/{found['GPT 5']}.html")
    told = re.findall(r"<tr><th.*?</tr>", section(html, "rivals"))
    assert len(told) == 27 and sum("0.8000" in row for row in told) == 2


def test_every_kind_of_doubt_has_an_example_that_leads_to_its_trajectory(site):
    html = section(read(site[1]), "verdicts")
    kinds = re.findall(r'<li class="card">(.*?)</li>', html, re.DOTALL)
    assert [re.findall(r"<h4>(.*?) <span", kind)[0] for kind in kinds] == [
        "Rejected work that did the task",
        "Judged a task that could not be done",
        "Accepted work that did not do the task",
        "Doubted by some raters",
        "Contradicted by the log itself",
    ]
    for n, kind in enumerate(kinds):
        assert f'href="{trajectory_page(f"web:{n}")}"' in kind and "4 of 4 raters against it" in kind and "Look at step 3, 6." in text(kind)


def test_released_and_corrected_scores_stand_on_one_axis(site):
    html = section(read(site[1], "audit.html"), "corrected")
    assert '<span class="axis"><span>0</span><span>70</span></span>' in html  # from 8 to 66, in tens
    rows = [text(row) for row in re.findall(r"<tr>.*?</tr>", html)]
    assert any("agent-a 50.0 52.0 48.0 to 58.0 1 → 2 changes" in row for row in rows)
    assert any("agent-c 10.0 12.0 8.0 to 18.0 3 → 3 holds" in row for row in rows)


def test_shifted_pictures_are_told_on_the_front_page(site):
    html = section(read(site[1]), "data")
    assert re.search(r'class="long bad"><bdi>shifted: set obs_phase', html) and "5 of 7" in text(html)


def test_every_table_and_figure_can_be_downloaded_from_one_list(site):
    links = {a["href"] for a in Page(section(read(site[1]), "downloads")).all("a")}
    root = site[1].parent
    for folder in ("tables", "figures"):
        written = {f"{folder}/{path.name}" for path in (root / folder).iterdir() if path.suffix not in (".json",)}
        assert written and written <= links


def test_questions_are_linked_to_where_there_is_a_page_for_them(site, tmp_path):
    root = site[1].parent
    given = inputs(root, mined=root / "mined", scores=root / "scores", images=(root / "images",))
    settings = {"name": "demo", "title": None, "max_items": 24, "seed": 7}
    (tmp_path / "without").mkdir()
    page.build(tmp_path / "without", given, **settings)
    assert "items/index.html" not in "".join(pages(tmp_path / "without").values())
    page.build(tmp_path, given, **settings, items=True)
    slug = slugs(MODELS)["モデル"]
    html = read(tmp_path, f"models/{slug}.html")
    assert f'href="../items/index.html#model={slug}"' in html and 'href="../items/index.html#item=t1-' in html
    assert '<a href="items/index.html">Browse questions</a>' in read(tmp_path)


def test_an_interval_of_a_model_that_answered_nothing_is_no_number(tmp_path):
    found = models.Models(inputs(tmp_path), {}, 7, items=False, limit=5)
    assert found.score(0, 0).text == "" and found.row("T1", "m", {}) is None


def test_the_folders_of_the_report_are_those_that_publishing_clears(site):
    assert {path.name for path in site[1].iterdir() if path.is_dir()} <= set(FOLDERS)
