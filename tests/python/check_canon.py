#!/usr/bin/env python3
"""Recomputes every vector of fixtures/canon/ with the standard library alone.

Usage: check_canon.py [DIRECTORY]. Each vector's input is ProtoJSON in canonical field form, so
its canonical bytes are RFC 8785 of the input, and its digest is SHA-256 of those bytes. Exits 1
and names each difference if this reading of the rules and the broker's disagree.
"""

import base64
import hashlib
import json
import pathlib
import sys

SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def text(value):
    """A string: the shortest escapes for controls, quotation mark and backslash, else as is."""
    out = []
    for char in value:
        code = ord(char)
        if code in SHORT:
            out.append(SHORT[code])
        elif code < 32:
            out.append("\\u%04x" % code)
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def number(value):
    """A double as ECMAScript prints it: shortest digits, exponent from 1e21 and below 1e-6."""
    value = float(value)
    if value != value or abs(value) > 2**53:
        raise ValueError("number %r has no canonical form" % value)
    if value == 0:
        return "0"
    mantissa, _, exponent = ("%r" % abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # Where the decimal point stands, counted from the first significant digit.
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    first, rest = digits[0], digits[1:]
    return sign + first + ("." + rest if rest else "") + "e" + ("%+d" % power)


def canonical(value):
    """RFC 8785: no spaces, members sorted by the UTF-16 code units of their names."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(text(name) + ":" + canonical(value[name]) for name in names) + "}"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def differences(vector):
    """What this program computes otherwise than the vector says."""
    found = []
    ours = canonical(vector["input"])
    if ours != vector["canonical"]:
        found.append("canonical is %s, not %s" % (ours, vector["canonical"]))
    digest = sha256(ours.encode("utf-8"))
    if digest != vector["digest"]:
        found.append("digest is %s, not %s" % (digest, vector["digest"]))
    if vector["message"] == "baton.v1.HandoffPacket":
        carried = base64.b64decode(vector["input"]["contractCanonical"])
        if carried.decode("utf-8") != canonical(vector["input"]["contract"]):
            found.append("contractCanonical is not the canonical form of contract")
    return found


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "canon"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    paths = sorted(directory.glob("*.json"))
    failed = not paths
    if not paths:
        print("no vectors in %s" % directory)
    for path in paths:
        vector = json.loads(path.read_text(encoding="utf-8"))
        for difference in differences(vector):
            failed = True
            print("%s: %s" % (path.name, difference))
    print("%d vectors read" % len(paths))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
