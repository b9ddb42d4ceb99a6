"""Whole files: how lines are told apart, what they must share, and when all are refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.intake import file as file_module
from gateway.intake import lines as lines_module
from gateway.intake import verdict as verdict_module
from gateway.intake.outcome import FileRefusal, Intake
from protocol.sampling import Sampling

Make = Callable[..., dict[str, Any]]
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def dump(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def refused(outcome: Intake | FileRefusal) -> FileRefusal:
    assert isinstance(outcome, FileRefusal)
    return outcome


# How lines are told apart


@pytest.mark.parametrize("separator", [b"\n", b"\r\n", b"\n\n", b" \n\t\r\n \n"])
def test_only_line_feeds_separate_lines(separator: bytes, chat: Make, read: Any) -> None:
    outcome = read(separator.join(dump(chat(f"q{i}")) for i in range(3)))
    assert [row["custom_id"] for row in outcome.usable] == ["q0", "q1", "q2"]
    assert outcome.intake.total_lines == 3


def test_line_numbers_are_physical(chat: Make, read: Any) -> None:
    outcome = read(b"\n \t\n" + dump(chat("q1")) + b"\n\nnonsense\r\n\r\n" + dump(chat("q2")))
    assert [row["line"] for row in outcome.usable] == [3, 7]
    assert [row["line"] for row in outcome.refused] == [5]


def test_a_byte_order_mark_is_skipped_at_the_start_alone(chat: Make, read: Any) -> None:
    mark = b"\xef\xbb\xbf"
    outcome = read(mark + dump(chat("q1")) + b"\n" + mark + dump(chat("q2")) + b"\n")
    assert [row["custom_id"] for row in outcome.usable] == ["q1"]
    assert outcome.codes() == {2: "invalid_json"}
    assert "byte-order mark" in outcome.refused[0]["error"]["message"]


def test_odd_separators_inside_a_line_do_not_separate(chat: Make, read: Any) -> None:
    odd = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
    row = chat(odd, messages=[{"role": "user", "content": odd}])
    text = json.dumps(row, ensure_ascii=False).replace(", ", ",\r").encode()
    outcome = read(text + b"\n" + dump(chat("q2")))
    assert [row["custom_id"] for row in outcome.usable] == [odd, "q2"]


def test_a_line_at_the_limit_and_over(chat: Make, read: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1_000)
    rows = [chat("q1", user=""), chat("q2", user=""), chat("q3")]
    for row, size in zip(rows, (1_000, 1_001), strict=False):
        row["body"]["user"] = "x" * (size - len(dump(row)))
    blank = b" " * 5_000
    for end in (b"\n", b"\r\n"):
        outcome = read(end.join([dump(rows[0]), blank, dump(rows[1]), dump(rows[2]), blank]))
        assert [row["custom_id"] for row in outcome.usable] == ["q1", "q3"]
        assert outcome.codes() == {3: "line_too_large"}


def test_naughty_texts_come_back_equal(chat: Make, read: Any) -> None:
    texts = [
        "\u0000",
        "\ufeffq",
        "q\r",
        "é",
        "e\u0301",
        "Q",
        "q",
        "q ",
        " q",
        "😀" * 64,
        "\u202e",
        "'; DROP TABLE lines; --",
        "{{ 7 * 7 }}",
        "\x7f",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ]
    outcome = read([chat(text) for text in texts])
    assert [row["custom_id"] for row in outcome.usable] == texts


def test_a_duplicate_refuses_the_later_line(chat: Make, read: Any) -> None:
    lines = [chat("q1"), chat("q2"), chat("q1", max_tokens=64), chat("q1")]
    outcome = read(lines)
    assert outcome.codes() == {3: "duplicate_custom_id", 4: "duplicate_custom_id"}
    assert "line 1" in outcome.refused[1]["error"]["message"]


# What the usable lines must share


def test_defaults(chat: Make, read: Any) -> None:
    intake = read([chat("q1")]).intake
    assert intake.sampling == Sampling()
    assert (intake.endpoint, intake.n, intake.seed) == (CHAT, 1, None)


def test_sampling_is_read(chat: Make, read: Any) -> None:
    values = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05, "max_tokens": 64}
    intake = read([chat("q1", **values, seed=2**53 - 1, n=64)]).intake
    assert intake.sampling == Sampling.model_validate(values)
    assert (intake.n, intake.seed) == (64, 2**53 - 1)


@pytest.mark.parametrize(
    ("field", "spellings"),
    [
        ("temperature", ["1", "1.0", "1e0", "10e-1", "null"]),
        ("top_p", ["1", "1.0", "0.1E+1"]),
        ("top_k", ["0", "-1", "-0", "1000000000", "-1.0", "0e9999999999", "null"]),
        ("top_k", ["20", "20.0", "2e1", "0.2e2"]),
        ("min_p", ["0", "-0.0", "0e0", "1e-400"]),
        ("max_tokens", ["64", "64.0", "6.4e1", "6400e-2"]),
        ("seed", ["7", "7.0", "70e-1"]),
        ("seed", ["9007199254740991", "9007199254740991.0", "9.007199254740991e15"]),
        ("n", ["2", "2.0"]),
    ],
)
def test_equal_numbers_are_one_sampling(
    field: str, spellings: list[str], chat: Make, read: Any
) -> None:
    lines = [
        json.dumps(chat(f"q{index}", **{field: "?"})).replace('"?"', spelling)
        for index, spelling in enumerate(spellings)
    ]
    assert read(lines).refused == []


@pytest.mark.parametrize(
    ("field", "spelling"),
    [
        ("temperature", "1e400"),
        ("seed", "9007199254740991.4"),
        ("seed", "4503599627370497.25"),
        ("seed", "9007199254740992.0"),
        ("seed", "1e-400"),
        ("seed", "1e400"),
        ("max_tokens", "131072.5"),
        ("max_tokens", "64.00000000000000000000000001"),
        ("n", "1e99999999999999999999"),
    ],
)
def test_no_number_is_rounded_into_range(field: str, spelling: str, chat: Make, read: Any) -> None:
    line = json.dumps(chat("q2", **{field: "?"})).replace('"?"', spelling)
    outcome = read([chat("q1"), line])
    assert outcome.codes() == {2: f"invalid_{field}"}
    assert spelling in outcome.refused[0]["error"]["message"]


@pytest.mark.parametrize(
    ("field", "spellings", "refused"),
    [
        # Equal as floating-point numbers, or as Python compares them, and yet not all allowed.
        ("seed", ["4503599627370497", "4503599627370497.0", "4503599627370497.25"], [3]),
        ("seed", ["4503599627370497.0", "4503599627370497.25", "4503599627370497.0"], [2]),
        ("n", ["1", "true", "1.0", "1.00000000000000000001"], [2, 4]),
        ("temperature", ["1", "true", "1.0", "1e0", '"1"'], [2, 5]),
        ("min_p", ["0", "false", "-0.0", "0.0", "[]"], [2, 5]),
    ],
)
def test_each_line_is_read_by_itself(
    field: str, spellings: list[str], refused: list[int], chat: Make, read: Any
) -> None:
    lines = [
        json.dumps(chat(f"q{at}", **{field: "?"})).replace('"?"', spelling)
        for at, spelling in enumerate(spellings)
    ]
    assert read(lines).codes() == dict.fromkeys(refused, f"invalid_{field}")


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ({}, {"temperature": 0.6}, "temperature"),
        ({}, {"top_p": 0.9}, "top_p"),
        ({}, {"top_k": 5}, "top_k"),
        ({}, {"min_p": 0.1}, "min_p"),
        ({}, {"max_tokens": 64}, "max_tokens"),
        ({}, {"max_tokens": -5}, "max_tokens"),
        ({}, {"seed": 0}, "seed"),
        ({"seed": 1}, {"seed": 2}, "seed"),
        ({"n": 2}, {}, "n"),
        ({"max_tokens": 64}, {"max_completion_tokens": 65}, "max_tokens"),
    ],
)
def test_a_mixed_file_is_refused(
    first: dict[str, Any], second: dict[str, Any], field: str, chat: Make, run: Any
) -> None:
    lines = [chat("q1", **first), chat("q2", **first), b"", chat("q3", **second)]
    refusal = refused(run(lines))
    assert (refusal.status, refusal.code) == (422, "mixed_sampling")
    assert f"same {field}," in refusal.message
    assert "lines 1 and 4" in refusal.message


def test_a_refused_line_mixes_nothing(chat: Make, read: Any) -> None:
    outcome = read([chat("q1", temperature=0.5, stop="x"), chat("q2"), chat("q3")])
    assert outcome.intake.sampling.temperature == 1


def test_mixed_endpoints_are_mixed(chat: Make, completion: Make, run: Any) -> None:
    lines = [chat("q1"), completion("q2")]
    assert refused(run(lines)).code == "mixed_sampling"
    refusal = refused(run(lines, endpoint=COMPLETIONS))
    assert (refusal.status, refusal.code) == (400, "endpoint_mismatch")


def test_the_endpoint_must_be_that_of_the_lines(completion: Make, run: Any) -> None:
    refusal = refused(run([completion("q1")]))
    assert (refusal.status, refusal.code, refusal.param) == (400, "endpoint_mismatch", "endpoint")


@pytest.mark.parametrize("value", [15, 1, 0, -5, -(10**30)])
def test_a_small_max_tokens_refuses_the_file(value: int, chat: Make, run: Any) -> None:
    refusal = refused(run([chat("q1", max_tokens=value), chat("q2", max_completion_tokens=value)]))
    assert (refusal.status, refusal.code) == (422, "invalid_max_tokens")


def test_max_tokens_at_its_least(chat: Make, read: Any) -> None:
    assert read([chat("q1", max_tokens=16)]).intake.sampling.max_tokens == 16


@pytest.mark.parametrize(
    ("context", "max_tokens", "fits"),
    [(16_384, 8_192, True), (16_384, 8_193, False), (8_207, 16, False), (8_208, 16, True)],
)
def test_at_least_8192_prompt_tokens_are_allowed_for(
    context: int, max_tokens: int, fits: bool, chat: Make, run: Any
) -> None:
    outcome = run([chat("q1", max_tokens=max_tokens)], context_length=context)
    if fits:
        assert isinstance(outcome, Intake)
    else:
        assert (refused(outcome).status, outcome.code) == (422, "context_too_long")


@pytest.mark.parametrize(("length", "fits"), [(10_000, True), (10_001, False)])
def test_the_longest_usable_prompt_and_max_tokens_fit_the_context(
    length: int, fits: bool, completion: Make, run: Any
) -> None:
    lines = [
        completion("q1", max_tokens=1_000),
        completion("q2", max_tokens=1_000, prompt=[5] * length),
        completion("q3", max_tokens=1_000, prompt=[5] * 11_001),
    ]
    outcome = run(lines, endpoint=COMPLETIONS, context_length=11_000)
    assert isinstance(outcome, Intake) is fits
    if isinstance(outcome, Intake):
        assert (outcome.longest_prompt, outcome.refused_lines) == (length, 1)


# When all is refused


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "no line that is not blank"),
        (b"\n \r\n\n", "no line that is not blank"),
        (b"\xef\xbb\xbf", "no line that is not blank"),
        (b"nonsense", "Line 1: invalid_json"),
        (b'[\n{"custom_id": "q1"},\n{"custom_id": "q2"}\n]\n', "JSON array"),
        (b'[{"custom_id": "q1"}]', "JSON array"),
        (b'{\n  "custom_id": "q1"\n}\n', "pretty-printed"),
        (b'{"custom_id": "q1"},\n{"custom_id": "q2"},\n', "comma"),
        (b"{}", "invalid_custom_id"),
    ],
)
def test_no_usable_line(content: bytes, hint: str, run: Any) -> None:
    refusal = refused(run(content))
    assert (refusal.status, refusal.code) == (422, "invalid_batch_file")
    assert refusal.message.startswith("no_usable_line: ")
    assert hint in refusal.message


def test_two_objects_on_a_line_refuse_it(chat: Make, read: Any) -> None:
    both = dump(chat("q2")) + b" " + dump(chat("q3"))
    outcome = read([chat("q1"), both, chat("q4")])
    assert outcome.codes() == {2: "invalid_json"}


@pytest.mark.parametrize(
    ("module", "limit", "value", "reason"),
    [
        (file_module, "MAX_FILE_BYTES", 100, "file_too_large"),
        (file_module, "MAX_LINES", 2, "too_many_lines"),
        (verdict_module, "MAX_FILE_TOKENS", 30, "too_many_tokens"),
    ],
)
def test_limits_come_before_all_else(
    module: Any, limit: str, value: int, reason: str, chat: Make, run: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, limit, value)
    lines = [chat(f"q{index}", temperature=index + 1, n=2) for index in range(4)]
    refusal = refused(run(lines, endpoint=COMPLETIONS))
    assert (refusal.status, refusal.code) == (422, "invalid_batch_file")
    assert refusal.message.startswith(f"{reason}: ")


def test_exactly_50_000_lines_that_are_not_blank(run: Any, completion: Make, read: Any) -> None:
    lines = [f'{{"custom_id":"{i}"}}'.encode() for i in range(49_999)] + [b""] * 10
    fits = read([completion("q"), *lines], endpoint=COMPLETIONS).intake
    assert (fits.total_lines, fits.usable_lines) == (50_000, 1)
    refusal = refused(run([completion("q"), *lines, b"x"], endpoint=COMPLETIONS))
    assert refusal.message.startswith("too_many_lines: ")


def test_tokens_of_refused_lines_do_not_count(
    completion: Make, read: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(verdict_module, "MAX_FILE_TOKENS", 30)
    lines = [
        completion("q1", prompt=[1] * 30),
        completion("q2", prompt=[1] * 40_000),
        completion("q3", prompt=[1] * 30, stop="x"),
    ]
    assert read(lines, endpoint=COMPLETIONS).intake.prompt_tokens == 30


# Graders


def test_a_graded_file_needs_references(chat: Make, read: Any) -> None:
    lines = [
        {**chat("q1"), "reference": "42"},
        chat("q2"),
        {**chat("q3"), "reference": ""},
        {**chat("q4"), "reference": 42},
        {**chat("q5"), "reference": "x" * 4_097},
        {**chat("q6"), "reference": "😀" * 4_096},
    ]
    outcome = read(lines, graded=True)
    assert [row["reference"] for row in outcome.usable] == ["42", "😀" * 4_096]
    assert set(outcome.codes().values()) == {"invalid_reference"}
    assert list(outcome.codes()) == [2, 3, 4, 5]
