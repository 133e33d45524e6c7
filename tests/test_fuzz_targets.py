"""Everything that reads what others wrote, over damaged examples: a value, or one printable line."""

import pytest
from fuzz_targets import TARGETS, TOKENS, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def damaged(name: str) -> st.SearchStrategy[bytes]:
    """Return examples with some pieces left out, put twice, swapped for others or marked with what has a meaning somewhere."""
    seeds = st.sampled_from(TARGETS[name][1])
    place = st.floats(0, 1)
    piece = st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.just(b""))
    edit = st.tuples(place, st.integers(0, 12), piece)

    def apply(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
        for at, gone, put in edits:
            start = int(at * len(seed))
            seed = seed[:start] + put + seed[start + gone :]
        return seed

    return st.one_of(st.builds(apply, seeds, st.lists(edit, max_size=6)), st.binary(max_size=60))


def fuzz(name: str, examples: int, folder) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(damaged(name))
    def one(data: bytes) -> None:
        run(name, data, folder)

    one()


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("EVOAUDIT_FUZZ_KEY", "none-of-anybody")


@pytest.mark.parametrize("name", TARGETS)
def test_whole_examples_are_read(name, tmp_path):
    kept = [run(name, seed, tmp_path) for seed in TARGETS[name][1]]
    assert None in kept, kept


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_examples_end_in_a_value_or_a_line(name, tmp_path):
    fuzz(name, 100, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_damaged_examples_end_in_a_value_or_a_line(name, tmp_path):
    fuzz(name, 3000, tmp_path)


# -- what it found --------------------------------------------------------------------------------------------------------


def test_a_step_number_of_thousands_of_digits_is_one_line(tmp_path):
    export = TARGETS["label_studio"][1][0].replace(b"1 2", b"9" * 5000)
    assert "evidence_steps" in run("label_studio", export, tmp_path)
