import string

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st


def encode(text: str) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for ch in text:
        if runs and runs[-1][0] == ch:
            runs[-1] = (ch, runs[-1][1] + 1)
        else:
            runs.append((ch, 1))
    return runs


def decode(runs) -> str:
    for ch, n in runs:
        if n < 1:
            raise ValueError("run length must be positive")
    return "".join(ch * n for ch, n in runs)


runs_strategy = st.lists(st.tuples(st.sampled_from(string.ascii_letters), st.integers(1, 50)))


@given(st.text())
@example("")
@example("aaaaabbb")
def test_round_trip(text):
    assert decode(encode(text)) == text


@given(st.text(alphabet="ab", min_size=1))
@settings(max_examples=300)
def test_no_adjacent_equal_runs(text):
    runs = encode(text)
    assert all(a[0] != b[0] for a, b in zip(runs, runs[1:]))


@given(runs_strategy)
def test_length(runs):
    assert len(decode(runs)) == sum(n for _, n in runs)


@given(runs_strategy, st.integers(max_value=0))
def test_rejects_bad_runs(runs, n):
    assume(runs)
    with pytest.raises(ValueError):
        decode([*runs, ("x", n)])
