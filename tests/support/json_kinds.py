"""Texts that JSON allows, forbids, or leaves to the reader, and what the gateway does with each.

The three kinds are those into which parsers' test suites divide such texts. ``ALLOWED`` must be
read, ``FORBIDDEN`` must be refused; of ``OPEN``, which the standard leaves open, each has the
outcome that is stated: None where it is read, else the code of a line's refusal.
"""

ALLOWED: tuple[bytes, ...] = (
    # Values at the top, and white space around them.
    b"null", b"true", b"false", b"0", b"-0", b'""', b"[]", b"{}", b" \t\r[ \t\r]\r", b'{ }',
    # Numbers.
    b"-1", b"123456789", b"0.0", b"-0.0", b"0e1", b"0E-1", b"1e5", b"1E+5", b"1e-05", b"1.5e00",
    b"20e1", b"-1.25E-2", b"1e+0", b"123.456e78", b"0.1e1", b"-123",
    # Texts: escapes, all that needs none, pairs of surrogates, texts that look like structure.
    rb'"\"\\\/\b\f\n\r\t"', rb'"\u0000"', rb'"\u0041\u00e9\u20ac"', rb'"\ud83d\ude00"',
    rb'"\uD83D\uDE00"', rb'"\uDBFF\uDFFF"', rb'"\u005C"', rb'"\u0022"', rb'"\\u0041"',
    rb'"\\ud800"',
    rb'"\u2028\u2029\u0085"', b'"\x7f"', '"é€😀"'.encode(), '"\u2028\u2029\u0085"'.encode(),
    '"\ufeff"'.encode(), '"\ufffe\uffff\U0010ffff"'.encode(), '"\U0001fffe"'.encode(), b'"[{,:}]"',
    b'"/* no comment */"', b'"\'"', '"e\u0301"'.encode(), '"\u202e\u200f"'.encode(),
    # Lists and objects.
    b"[1,2]", b"[ 1 , 2 ]", b"[[]]", b"[null,true,0.5,\"\",{},[]]", b"[[[[[]]]]]", b"[1\r,\r2]",
    b'{"a":1}', b'{"a" : 1 , "b" : 2}', b'{"":0}', rb'{"\u0000":0}', b'{"a":{"a":{"a":[]}}}',
    b'{"a":[{"b":[{}]}]}', '{"é":"é"}'.encode(),
    b'{"__proto__":{},"constructor":0}', b'{"A":1,"a":2}',
    b"[" * 200 + b"]" * 200, b'{"a":' * 200 + b"0" + b"}" * 200,
)  # fmt: skip

FORBIDDEN: tuple[bytes, ...] = (
    # Numbers.
    b"01", b"-01", b"00", b"+1", b"-", b"--1", b"-a", b".5", b"-.5", b"1.", b"-1.", b"1.e5", b"1e",
    b"1e+", b"1e-", b"1ea", b"0x1", b"0b1", b"1_000", b"1 000", b"1,000", b"1.2.3",
    b"1e1.5", b"1e5e5",
    b"NaN", b"-NaN", b"nan", b"Infinity", b"-Infinity", b"+Infinity", b"Inf", b"inf", b"1f", b"1L",
    b"1n", b"\xe2\x88\x921", "１".encode(), "٣".encode(), b"1+1", b"1/2", b"0e", b"0.e1", b"0.1.",
    # Words.
    b"nul", b"nulll", b"Null", b"NULL", b"None", b"True", b"TRUE", b"tru", b"fals",
    b"undefined", b"a",
    # Texts.
    b'"', b'"a', b"'a'", b'"a\\"', rb'"\x41"', rb'"\a"', rb'"\0"', rb'"\'"', rb'"\u"', rb'"\u1"',
    rb'"\u123"', rb'"\u12g4"', rb'"\u 123"', rb'"\U00000041"', rb'"\u{41}"',
    rb'"\u+041"', rb'"\u0x41"',
    b'"\t"', b'"\x00"', b'"\x1f"', b'"\r"', b'"\\\t"', b'"a" "b"', b'"a"b', b"`a`",
    "“a”".encode(), b'"\\', b'\\"a"', b'"\\u00', b'"\\ud83d\\', rb'"\ud83d\u"',
    # Lists.
    b"[", b"]", b"[1", b"1]", b"[1,", b"[1,]", b"[,1]", b"[,]", b"[1,,2]", b"[1 2]", b"[1;2]",
    b"[1:2]", b"[1}", b"(1)", b"[[]", b"[]]", b"[a", b"[\"\"", b"[,", b"[...]",
    b"[" * 100, b"[" * 255 + b"]" * 254,
    # Objects.
    b"{", b"}", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":1,}',
    b'{"a":1,,"b":2}', b'{,"a":1}',
    b'{"a" 1}', b'{"a"::1}', b'{"a","b"}', b'{"a":1 "b":2}', b"{a:1}", b"{'a':1}", b"{1:1}",
    b"{null:1}", b'{"a"}', b'{"a":}', b'{:1}', b'{"a":1]', b'{"a":1}}', b'{"a"=1}', b'{"a":1;}',
    b'{[]:1}', b'{"a":a}', b'{"a":"b}', b'{"a":1}{"a":1}', b'{"a":1},', b'{"a":1}#', b'{"a":1}x',
    # White space that is none, marks, comments.
    b"\x0b1", b"1\x0c", "\u00a01".encode(), "1\u2003".encode(), "\u20281".encode(),
    "\u20601".encode(), "\ufeff1".encode(), "1\ufeff".encode(), b"\x001", b"1\x00",
    b"/* a */1", b"1//a", b"#a", b"<!-- -->1", b"1 2", b"[]{}", b"*", b"&a 1", b"!!str a", b"---",
    # What is no UTF-8: stray, cut, overlong, surrogates, too large; other encodings of JSON.
    b'"\x80"', b'"\xff"', b'"\xc3"', b'"\xe2\x82"', b'"\xf0\x9f\x98"', b'"\xc0\x80"', b'"\xc1\xbf"',
    b'"\xe0\x80\x80"', b'"\xf0\x80\x80\x80"', b'"\xed\xa0\x80"', b'"\xed\xb0\x80"',
    b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b'"\xe9"',
    b"\xff1", b"1\xfe", '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-16-le"),
    '{"a":1}'.encode("utf-32"),
)  # fmt: skip

OPEN: tuple[tuple[bytes, str | None], ...] = (
    (b'{"a":1,"a":2}', "duplicate_key"),
    (b'{"a":1,"a":1}', "duplicate_key"),
    (rb'{"a":1,"\u0061":2}', "duplicate_key"),
    (b'{"":1,"":2}', "duplicate_key"),
    (b'[{"b":{"a":1,"a":2}}]', "duplicate_key"),
    ('{"é":1,"e\u0301":2}'.encode(), None),
    (rb'"\ud800"', "invalid_unicode"),
    (rb'"\udc00"', "invalid_unicode"),
    (rb'"\ude00\ud83d"', "invalid_unicode"),
    (rb'"\ud83d\ud83d\ude00"', "invalid_unicode"),
    (rb'"\ud83dx"', "invalid_unicode"),
    (rb'"\ud83d\u0041"', "invalid_unicode"),
    (rb'{"\ud800":1}', "invalid_unicode"),
    (b"1e400", None),
    (b"-1e400", None),
    (b"1e-400", None),
    (b"9" * 400, None),
    (b"0." + b"1" * 5_000, None),
    (b"1" + b"0" * 5_000, "invalid_json"),
    (b"-" + b"9" * 5_000, "invalid_json"),
    (b"[" * 300 + b"]" * 300, "too_deep"),
    (b'{"a":' * 300 + b"0" + b"}" * 300, "too_deep"),
    (b"[" * 100_000, "too_deep"),
    (b'[{"":' * 50_000, "too_deep"),
)
