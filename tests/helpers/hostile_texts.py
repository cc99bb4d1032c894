"""Texts from data that would do harm if something ran, parsed or obeyed them."""

from __future__ import annotations

TERMINAL = [
    "\x1b[31mred",
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;ZWNobyB4\x07",
    "\x1bP$q\x1b\\",
    "\x1b_G\x1b\\",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x1bc",
    "\x9b31mred",
    "\x9d0;title\x9c",
    "\x90q\x9c",
    "\x07\x08\x08\x08",
    "\x7f\x7f\x7f",
    "over\rwritten",
    "\x0b\x0c",
    "\x0e\x0f",
    "\u202etxt.exe",
    "\u2066\u2067\u2069",
    "\u200f\u061c",
    "\u2028\u2029",
    "\x85next line",
    "\x00nul",
    "\x1a",
]
"""For a terminal."""

MARKUP = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    '"><b>bold</b>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "<!-- comment",
    "-->",
    "]]>",
    "</style><style>*{display:none}</style>",
    "</textarea></title>",
    "&lt;b&gt;&amp;",
    "&#60;script&#62;",
    "<iframe src='http://x.invalid'></iframe>",
    "<a href='http://x.invalid'>x</a>",
    "<meta http-equiv=refresh content='0;url=http://x.invalid'>",
    "{{ 7 * 7 }}",
    "{% for x in y %}",
    "${7*7}",
    "[bold]rich[/bold]",
    "[link=http://x.invalid]x[/link]",
    "[/]",
    ":smile:",
    "$\\frac{1}{0}$",
    "\\input{x}",
    "%s %d %n",
    "{0.__class__}",
]
"""For pages, templates, consoles and figures."""

OTHERS = [
    "=1+1",
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1+1",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\nul",
    "--help",
    "-rf",
    "$(touch executed)",
    "`touch executed`",
    "; touch executed",
    "'; DROP TABLE nodes; --",
    '"quoted"',
    "a,b;c\td|e",
    "null",
    "nan",
    "None",
    " ",
    "\ufeffmark",
    "e\u0301\u0301\u0301\u0301\u0301\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "x" * 10_000,
]
"""For spreadsheets, shells, file systems, tables and line widths."""

HOSTILE_TEXTS = TERMINAL + MARKUP + OTHERS

CONTROLS = frozenset(
    [
        *map(chr, [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)]),
        *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    ]
)
"""Characters that no command may print."""
