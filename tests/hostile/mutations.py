"""Damage done to inputs: bytes, tokens, lines and encodings, drawn from a seeded generator."""

import gzip
import re
from random import Random

TOKENS = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_]+|[^\w\s]|\s+")
JUNK = [
    b"", b"0", b"-1", b"-0", b"1", b"2", b"1e308", b"1e-308", b"1e309", b"-1e400", b"5e-324", b"NaN", b".nan", b"nan",
    b"Infinity", b"inf", b".inf", b"-.inf", b"9" * 30, b"9" * 290, b"9" * 399, b"9" * 5000, b"0x" + b"f" * 300,
    b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"1000000000000000000", b"1000000",
    b"131072", b"100000", b"0.5", b"0.999999999999", b"1.5", b"true", b"null", b"~", b"[]", b"{}", b"[[]]", b"''",
    b'""', b'"', b"'", b"-", b"?", b":", b"&a", b"*a", b"!!bool x", b"!!timestamp x", b"!!int x", b"!!python/none x",
    b"<<: *a", b"=", b"%", b"@", b"|", b">", b"#", b"\xc2\xb2", b"\xd9\xa1", b"\xef\xbc\x91", b"\xed\xa0\x80",
    b"\\ud800", b"\\u0000", b"\x00", b"\xff", b"\xfe\xff", b"\x85", b"\xe2\x80\xa8", b"\t", b"\r", b"\n", b"\r\n",
    b"../../../../etc/passwd", b"/etc/passwd", b"/dev/zero", b"/", b".", b"..", b"~root", b"a" * 300, b"1 kg", b"1 s",
    b"1 ms", b"1 Gbit/s", b"150 %", b"2020-13-45", b"2020-01-01", b"1_000", b"0o17", b"1:30", b"A" * 3000, b"," * 300,
    b"[" * 500, b"{" * 500, b'{"a":' * 500, b"- " * 500, b" " * 3000, b"1 " * 500, b"NCCL INFO", b"N/A", b"nodes",
]  # fmt: skip


def _spliced(data: bytes, start: int, end: int, put: bytes) -> bytes:
    return data[:start] + put + data[end:]


def _bytes(data: bytes, random: Random, _: bytes) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _token(data: bytes, random: Random, other: bytes) -> bytes:
    tokens = list(TOKENS.finditer(data))
    if not tokens:
        return random.choice(JUNK)
    token = random.choice([item for item in tokens if item[0].strip()] or tokens)
    if random.random() < 0.2 and (others := [item for item in TOKENS.finditer(other) if item[0].strip()]):
        return _spliced(data, *token.span(), random.choice(others)[0])
    return _spliced(data, *token.span(), random.choice(JUNK))


def _number(data: bytes, random: Random, other: bytes) -> bytes:
    tokens = [item for item in TOKENS.finditer(data) if item[0][-1:].isdigit()]
    return (
        _spliced(data, *random.choice(tokens).span(), random.choice(JUNK[:36]))
        if tokens
        else _token(data, random, other)
    )


def _insert(data: bytes, random: Random, _: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return _spliced(data, at, at, random.choice(JUNK))


def _line(data: bytes, random: Random, other: bytes) -> bytes:
    lines, others = data.splitlines(keepends=True) or [b""], other.splitlines(keepends=True) or [b""]
    at = random.randrange(len(lines))
    match random.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at] * random.choice((1, 1, 50)))
        case 2:
            lines.insert(at, random.choice(others))
        case 3:
            lines[at] = b" " * random.choice((1, 2, 40)) + lines[at]
        case _:
            to = random.randrange(len(lines))
            lines[at], lines[to] = lines[to], lines[at]
    return b"".join(lines)


def _cut(data: bytes, random: Random, _: bytes) -> bytes:
    a, b = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return random.choice((data[:a], data[a:], data[:a] + data[b:], data[:b] + data[a:]))


def _encoded(data: bytes, random: Random, _: bytes) -> bytes:
    text = data.decode("utf-8", errors="replace")
    match random.randrange(6):
        case 0:
            return text.encode(random.choice(("utf-16", "utf-16-be", "utf-32")), errors="replace")
        case 1:
            return text.replace("a", "é").encode("latin-1", errors="replace")
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return data.replace(b"\n", random.choice((b"\r\n", b"\r", b"\x0b", b"\x00\n")))
        case 4:
            packed = gzip.compress(data, mtime=0)  # without the time of day: the same seed, the same bytes
            return random.choice((packed, packed[: random.randrange(len(packed))], packed + b"x", packed * 2))
        case _:
            return b""


def mutated(data: bytes, random: Random, other: bytes) -> bytes:
    """One input from another: a few kinds of damage, one after the other; `other` is material to splice in."""
    kinds = (_token, _token, _number, _number, _insert, _line, _line, _bytes, _cut, _encoded)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = random.choice(kinds)(data, random, other)[: 2**18]
    return data
