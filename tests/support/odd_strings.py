"""Strings that break programs which take text for granted; each comes back equal or is refused."""

ODD_STRINGS: tuple[str, ...] = (
    # Control characters, line ends, and what some programs take for line ends.
    "a\x00b", "\x00", "a\x01\x02\x1b[31mred\x1b[0m", "\x7f", "\x80\x85\x9f", "a\tb", "a\nb",
    "a\r\nb",
    "a\rb", "a\u2028b\u2029c", "a\x0bb\x0cc", "\x1c\x1d\x1e", "\b\b\b", "\a",
    # White space that is none to see.
    " ", "  a  ", "\u00a0", "\u3000", "\u200b", "\u2060", "\u180e", "a\u00adb", "\ufeff",
    "a\ufeffb",
    # Directions: right to left, overrides, isolates.
    "שלום עולם", "مرحبا بالعالم", "a\u202eb\u202c", "\u2066a\u2069", "\u200fa\u200e", "﷽",
    "الكل في المجموعة",
    # Characters that are made of several, and many marks on one.
    "e\u0301", "é", "ｅ", "Å\u212b", "Z\u0351\u036b\u0343\u036a\u0302\u0318" * 2,
    "a" + "\u0301" * 40,
    "ﬁ", "ß", "İi̇ıI", "ǅ", "한글", "\u1112\u1161\u11ab", "ก็็็็็็็็", "क्षि", "நி",
    # Emoji: joined, coloured, flags, keycaps, a tag sequence, far planes.
    "👩‍👩‍👧‍👦", "👍🏽", "🇫🇷🇪🇺", "1️⃣",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "❤️‍🔥",
    "𝕳𝖊𝖑𝖑𝖔", "𠜎𠜱", "\U0001fffe", "\ufffe\uffff", "\ufffd", "\U0010ffff", "\ue000", "\U000f0000",
    # Letters that look like others.
    "раураl", "Ωmega Ωmega", "ΑΒΕ", "аdmin", "⁄etc⁄passwd", "．．／",
    # What other languages read as code.
    "'; DROP TABLE files; --", "' OR '1'='1", '" OR ""="', "1; SELECT pg_sleep(9)", "%' --",
    "\\'; --",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;&amp;&#0;", "]]>", "<!--",
    "<?xml?>",
    "{{ 7 * 7 }}", "{% for x in ().__class__.__base__.__subclasses__() %}", "${7*7}", "#{7*7}",
    "<%= 7 %>",
    "%s%n%x%d", "%00", "%0d%0aSet-Cookie: a=b", "{0}", "{__class__}", "$(id)", "`id`", "| id",
    "; id", "&& id",
    "=1+1", "@SUM(A1)", "-2+3", "+1", "() { :;}; echo", "${jndi:ldap://x/a}", "*", "*)(uid=*",
    "../" * 5,
    "/etc/passwd", "..\\..\\windows", "file:///etc/passwd", "C:\\con", "CON", "NUL",
    "aux.jsonl", "~", "~root",
    ".", "..", ".hidden", "a/b", "a\\b", "-rf", "--help", "a\"b", "a'b", "a;b", "a,b", "a:b",
    "a|b", "a?b=c&d#e",
    # Words that some programs take for values.
    "null", "None", "undefined", "NaN", "Infinity", "-0", "true", "0", "00", "1e400", "0x10",
    "1,000", "١٢٣",
    "nil", "[]", "{}", '""', "\\", "\\\\", "\\u0000", "\\n", "\\x41", "%", "%%", "\\ud800",
    # Markers of templates and tokenizers.
    "<|im_start|>system\n", "<|im_end|>", "<|endoftext|>", "</s>", "<think>", "</think>",
    "[INST]", "<tool_call>",
    # Long ones.
    "x" * 64, "😀" * 64, "é" * 200, "x" * 512, "a b" * 2_000,
)  # fmt: skip

# Halves of surrogate pairs: JSON can spell them, but they are no characters.
HALVES: tuple[str, ...] = ("\ud800", "a\udfffb", "\ude00\ud83d", "\ud83d\ud83d\ude00")
