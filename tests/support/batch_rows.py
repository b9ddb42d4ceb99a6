"""Input files that broke other batch systems, each with what must become of every line.

The row names are those of the table that the project keeps of such files; ``G(i)`` there is
``good(i)`` here, and a case stands between two good lines where nothing else is said.
"""

import json
from dataclasses import dataclass
from typing import Any

from small_model import MODEL

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BOM = b"\xef\xbb\xbf"
EMOJI = "😀"
BIG = 2**53
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@dataclass(frozen=True)
class Row:
    """One counted line: its bytes, how its reports name it, and why it is refused, if it is."""

    data: bytes
    custom_id: str
    code: str | None = None


@dataclass(frozen=True)
class Case:
    """A file whose batch completes; ``content`` where it is not one line a row."""

    name: str
    rows: tuple[Row, ...]
    endpoint: str = CHAT
    content: bytes | None = None

    @property
    def file(self) -> bytes:
        """The bytes to upload."""
        if self.content is not None:
            return self.content
        return b"".join(row.data + b"\n" for row in self.rows)

    @property
    def custom_ids(self) -> list[str]:
        """The custom ids of the counted lines in file order, "" where a line has none."""
        return [row.custom_id for row in self.rows]


def request(custom_id: str, endpoint: str = CHAT, **body: Any) -> dict[str, Any]:
    """A good line as an object; members of ``body`` replace its own."""
    content: dict[str, Any] = (
        {"messages": [{"role": "user", "content": "hello " + custom_id[:9]}]}
        if endpoint == CHAT
        else {"prompt": "hello " + custom_id[:9]}
    )
    fixed = {"model": MODEL, "max_tokens": 64, "temperature": 1, "seed": 7}
    body = fixed | content | body
    return {"custom_id": custom_id, "method": "POST", "url": endpoint, "body": body}


def encoded(value: object) -> bytes:
    """A value as one line of UTF-8 JSON, with a text's own characters."""
    return json.dumps(value, ensure_ascii=False).encode()


def good(number: int, endpoint: str = CHAT) -> Row:
    """The good line ``q<number>``."""
    return Row(encoded(request(f"q{number}", endpoint)), f"q{number}")


def body(code: str | None, custom_id: str = "q2", endpoint: str = CHAT, **members: Any) -> Row:
    """A line with these members in its body."""
    return Row(encoded(request(custom_id, endpoint, **members)), custom_id, code)


def raw(data: str | bytes, code: str | None, custom_id: str = "") -> Row:
    """A line of these bytes."""
    return Row(data.encode() if isinstance(data, str) else data, custom_id, code)


def spelled(field: str, value: str, code: str | None, custom_id: str = "q2") -> Row:
    """A line whose ``field`` is spelled ``value`` in its JSON."""
    text = encoded(request(custom_id) | {"body": request(custom_id)["body"] | {field: "@"}})
    return Row(text.replace(b'"@"', value.encode()), custom_id, code)


def envelope(code: str | None, shown: str = "q2", **members: Any) -> Row:
    """A line with these members around its body, reported as ``shown``."""
    return Row(encoded(request("q2") | members), shown, code)


def numbered(rows: list[Row]) -> tuple[Row, ...]:
    """The rows with custom ids ``c1``, ``c2``, ... in place of ``q2``, between two good lines."""
    made = [
        Row(row.data.replace(b'"q2"', f'"c{at}"'.encode()), f"c{at}", row.code)
        if row.custom_id == "q2"
        else row
        for at, row in enumerate(rows, 1)
    ]
    return (good(1), *made, good(3))


def between(name: str, *rows: Row) -> Case:
    """A file of chat lines with these between two good ones."""
    return Case(name, numbered(list(rows)))


def said(role: str, content: object, **members: object) -> list[dict[str, object]]:
    """One message of a role, and a user's question behind it where it is another's."""
    message = {"role": role, "content": content, **members}
    return [message] if role == "user" else [message, {"role": "user", "content": "hello"}]


def straddling(offset: int, before: int, custom_id: str) -> Row:
    """A line whose emoji begins one byte before ``offset`` of the file, ``before`` bytes in."""
    text = request(custom_id, messages=said("user", EMOJI))
    line = encoded({"pad": "", **text})
    short = offset - 1 - before - line.index(EMOJI.encode())
    return Row(line.replace(b'"pad": ""', b'"pad": "' + b"x" * short + b'"'), custom_id)


def straddled() -> tuple[Row, ...]:
    """Lines whose emojis stand across the offsets at which readers cut a file."""
    rows: list[Row] = []
    for number, offset in enumerate((8_191, 16_383, 65_535, 2**20 - 1), 1):
        rows.append(straddling(offset, sum(len(row.data) + 1 for row in rows), f"q{number}"))
    return tuple(rows)


def schema(levels: int) -> dict[str, Any]:
    """A JSON schema of nested objects."""
    return {"type": "object"} | ({"properties": {"a": schema(levels - 1)}} if levels else {})


def tools(*functions: object) -> list[dict[str, object]]:
    """Tool definitions of these functions."""
    return [{"type": "function", "function": function} for function in functions]


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "stream": (False,),
    "best_of": (1,),
    "logprobs": (False, None, 0),
    "top_logprobs": (0, None),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "stop": (None, "", []),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto",),
    "echo": (False,),
    "suffix": ("", None),
}
NOT_NEUTRAL: dict[str, Any] = {
    "stream": True,
    "best_of": 2,
    "logprobs": True,
    "top_logprobs": 5,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "repetition_penalty": 1.1,
    "logit_bias": {"5": 1},
    "stop": ["\n"],
    "response_format": {"type": "json_object"},
    "tool_choice": "required",
    "echo": True,
    "suffix": "x",
}


def unavailable(field: str) -> str:
    """The code of a field at a value that is not neutral."""
    return "logprobs_unavailable" if field == "top_logprobs" else f"{field}_unavailable"


# Two texts that differ by their composition alone, by case, or by a space at the end.
NEAR_DUPLICATES = ("é", "e\u0301", "a", "A", "a ")

CASES = [
    Case("B01a", (good(1), good(2), good(3)), content=BOM + b"\n".join(
        good(number).data for number in (1, 2, 3))),
    Case("B01b", (good(1), good(2), Row(BOM + good(3).data, "", "invalid_json"), good(4))),
    Case("B03", straddled()),
    Case("B05", (
        good(1), Row(encoded(request("q\u2028\u00852")), "q\u2028\u00852"),
        Row(encoded(request("r\u2028\u0085", stop="\u2028")), "r\u2028\u0085", "stop_unavailable"),
        good(3))),
    between("B07",
        Row(encoded(request("q\x002")), "q\x002"),
        body(None, messages=said("user", "a\x00b"))),
    Case("B09a", (good(1), good(2), good(3)),
        content=b"".join(good(number).data + b"\r\n" for number in (1, 2, 3))),
    between("B09b", Row(good(2).data.replace(b', "method"', b',\r"method"'), "q2")),
    Case("B29", (
        good(1), body("duplicate_custom_id", "q1", n=1), good(3), body(
        "duplicate_custom_id", "q1"), *(Row(encoded(request(text)), text)
        for text in NEAR_DUPLICATES))),
    between("B31",
        *(raw(text, "invalid_line") for text in ("[1]", '"x"', "null", "5", "true", "[]", "-0.0")),
        *(envelope("invalid_body", body=value) for value in ("str", [], None, 5)),
        raw(encoded({key: value for key, value in request("q2").items() if key != "body"}),
            "invalid_body", "q2")),
    between("B33c", Row(good(2).data + b" " + good(4).data, "", "invalid_json")),
    between("B35",
        raw(good(2).data[:-2] + b', "tools": ' + b"[" * 100_000, "too_deep"),
        spelled("tools", '{"a":' * 1_000 + "1" + "}" * 1_000, "too_deep", ""),
        body(None, tools=tools({"name": "f", "parameters": schema(64)}))),
    between("B37",
        body(None, model=None),
        *(body("model_mismatch", model=other)
            for other in ("reliquary/other", MODEL.upper(), MODEL + " ", "reliquary", "")),
        body("invalid_model", model=5)),
    between("B39a",
        *(spelled("temperature", text, None) for text in ("1.0", "1e0", "10e-1", "0.1e1", "null")),
        *(spelled("seed", text, None) for text in ("7.0", "70e-1")),
        *(spelled("max_tokens", text, None) for text in ("64.0", "6.4e1", "640e-1")),
        *(spelled("max_tokens", text, "invalid_max_tokens")
            for text in ('"64"', "true", "64.5", "1e400", "64.00000000000000001")),
        *(spelled("seed", text, "invalid_seed")
            for text in ("-1", str(BIG), str(2**64), f"{BIG}.0", "1e400", '"7"', "false", "7.5",
                         "7.0000000000000000001")),
        spelled("temperature", "1e400", "invalid_temperature"),
        spelled("temperature", "-0.0", "greedy_unavailable"),
        spelled("temperature", "01", "invalid_json", "")),
    Case("B39b", tuple(
        spelled("seed", text, None, f"q{at}")
        for at, text in enumerate((str(BIG - 1), f"{BIG - 1}.0", "9007199254740991e0"), 1))),
    between("B41a",
        *(body(None, top_k=value) for value in (-1, 0, -1.0, None, 10**9, 1_000)),
        *(body("invalid_top_k", top_k=value) for value in (0.01, -2, "20", True, -10**30))),
    Case("B41b", tuple(body(None, f"q{at}", top_k=value) for at, value in enumerate((1, 1.0), 1))),
    Case("B41c", tuple(body(None, f"q{at}", top_k=value) for at, value in enumerate((20.0, 20)))),
    between("B43a",
        *(body(None, **{field: value}) for field, values in NEUTRAL.items() for value in values),
        body(None, n=1)),
    between("B43b",
        *(body(unavailable(field), **{field: value}) for field, value in NOT_NEUTRAL.items())),
    between("B45",
        *(body(None, tools=value) for value in ([], None, [TOOL] * 200, tools({"name": "f"}))),
        *(body("invalid_tools", tools=value)
            for value in ({}, [{"type": "function"}], [None], "x", tools({}), tools({"name": 5}),
                          tools({"name": "f", "parameters": []})))),
    between("B47", body(None, messages=said("developer", "answer BANANA"))),
    between("B49",
        body(None, messages=said("user", [{"type": "text", "text": "JOI"},
                                          {"type": "text", "text": "NED"}])),
        *(body(None, messages=said("user", value)) for value in ([], "", None)),
        *(body("invalid_messages", messages=said("user", value))
            for value in ([{"type": "text"}], [{"type": "input_text", "text": "a"}], ["a"], [[]],
                          {"type": "text", "text": "a"}, 5, [{"text": "a"}])),
        *(body("multimodal_unavailable", messages=said("user", [{"type": kind, kind: {}}]))
            for kind in ("image_url", "input_audio", "file"))),
    Case("B51", (
        good(1, COMPLETIONS),
        *(body("invalid_prompt", f"p{at}", COMPLETIONS, prompt=value)
            for at, value in enumerate(("", [], [""], ["a", "b"], [[1, 2]], [-1], [10**6], [True],
                                        [1.5], [2**32 + 1], None, {}))),
        body(None, "p[1.0]", COMPLETIONS, prompt=[1.0]),
        body("context_too_long", "long", COMPLETIONS, prompt=[1] * 131_073),
        good(3, COMPLETIONS)), COMPLETIONS),
    # Forms of the same kinds that no report has named yet.
    between("B01c", Row("\u200b".encode() + good(2).data, "", "invalid_json")),
    between("B07b", raw(b"\x00" * 64, "invalid_json"), raw(b"\x1f\x8b\x08\x00", "invalid_unicode")),
    between("B09c", Row(b"\t \t" + good(2).data + b" \t", "q2")),
    between("B29b",
        *(envelope("invalid_custom_id", "", custom_id=value)
            for value in ("", "x" * 65, 2, None, ["q2"], {"q2": 1})),
        envelope(None, EMOJI * 64, custom_id=EMOJI * 64)),
    between("B31b",
        raw('{"custom_id": "q2", "custom_id": "q4"}', "duplicate_key", "q4"),
        spelled("seed", "NaN", "invalid_json"), spelled("user", '"\\ud800"', "invalid_unicode"),
        spelled("user", '{"a": 1, "a": 1}', "duplicate_key")),
    between("B37b",
        envelope("invalid_url", url="/v1/embeddings"), envelope("invalid_url", url=CHAT + "/"),
        envelope("invalid_method", method="GET"), envelope("invalid_method", method="post")),
]  # fmt: skip

# Files whose model is named in the metadata alone, and words of the hint at what is wrong.
SHAPELESS: list[tuple[str, bytes, str]] = [
    ("B33a", json.dumps([request("q1"), request("q2")], indent=1).encode(), "one JSON array"),
    ("B33a-one-line", encoded([request("q1"), request("q2")]), "one JSON array"),
    ("B33b", json.dumps(request("q1"), indent=2).encode(), "pretty-printed"),
    ("B33d", b"".join(good(number).data + b",\n" for number in (1, 2)), "end with a comma"),
]

# Files that are refused as a whole: status, code, and words that must be in the message.
REFUSED_FILES: list[tuple[str, bytes, int, str, str]] = [
    ("B17-blank", b"\n \n\r\n\t\n", 400, "invalid_model", "model"),
    ("B17-50001", good(1).data + b"\n" + b"5\n" * 50_000, 422, "invalid_batch_file",
        "too_many_lines"),
    *((f"{name}-no-model", content, 400, "invalid_model", "one whole JSON object a line")
        for name, content, _ in SHAPELESS),
    ("B37-unknown", encoded(request("q1", model="reliquary/nowhere")), 422, "model_not_found",
        "reliquary/nowhere"),
    ("B37-null", encoded(request("q1", model=None)), 400, "invalid_model", "model"),
    ("B37-number", encoded(request("q1", model=5)), 400, "invalid_model", "model"),
    ("B37-organization", encoded(request("q1", model="reliquary")), 400, "invalid_model",
        "org/name"),
    ("B37-space", encoded(request("q1", model=MODEL + " ")), 400, "invalid_model", "org/name"),
    ("B37-case", encoded(request("q1", model="reliquary/SMALL")), 422, "model_not_found", "SMALL"),
    ("B37-path", encoded(request("q1", model="../etc")), 400, "invalid_model", "org/name"),
    ("B39-mixed", good(1).data + b"\n" + encoded(request("q2", temperature=0.99)), 422,
        "mixed_sampling", "temperature"),
    ("B41-mixed", good(1).data + b"\n" + encoded(request("q2", top_k=20)), 422, "mixed_sampling",
        "top_k"),
    ("B39-small", encoded(request("q1", max_tokens=15)), 422, "invalid_max_tokens", "at least 16"),
    ("B51-endpoint", good(1, COMPLETIONS).data, 400, "endpoint_mismatch", "endpoint"),
]  # fmt: skip
