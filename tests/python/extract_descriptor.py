"""Write the facts of the published A2A descriptor, one a line, for tests/proto to compare with ours.

The published descriptor is taken from the reference Python SDK, whose wheel carries it serialized
in a2a/types/a2a_pb2.py. Only the standard library is needed:

    pip download --no-deps --dest DIR a2a-sdk==1.3.0
    python3 tests/python/extract_descriptor.py DIR/a2a_sdk-1.3.0-py3-none-any.whl \
        > fixtures/a2a/published-1.0.1.txt

The lines have the form that tests/proto/facts.rs writes; see there. `required` says that the
contract marks the field so (google.api.field_behavior), which is an option and not a wire fact.
"""

import ast
import sys
import zipfile

HEADER = """\
# Facts of the A2A wire contract as published, release 1.0.1, package lf.a2a.v1.
# Source: the serialized descriptor in the wheel of the Python SDK a2a-sdk 1.3.0.
# Written by tests/python/extract_descriptor.py, which says how to run it. Not edited by hand.
"""

TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 10: "group", 12: "bytes", 13: "uint32", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}
FIELD_BEHAVIOR, REQUIRED = 1052, 2


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Decode one message of the protobuf wire format into {field number: [values]}."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise SystemExit(f"wire type {kind} is not expected in a descriptor")
        out.setdefault(number, []).append(value)
    return out


def one(message, number, default=b""):
    return message.get(number, [default])[-1]


def text(message, number):
    return one(message, number).decode()


def field_facts(scope, raw, oneofs):
    field = fields(raw)
    options = fields(one(field, 8))
    name = f"{scope}.{text(field, 1)}"
    kind = TYPES.get(one(field, 5, 0)) or text(field, 6).lstrip(".")
    line = f"{name} field {one(field, 3, 0)} {kind}"
    line += " repeated" if one(field, 4, 1) == 3 else " singular"
    if one(field, 17, 0):
        line += " presence"
    elif 9 in field:
        line += f" oneof={oneofs[one(field, 9)]}"
    if one(options, 3, 0):
        line += " deprecated"
    yield line
    if REQUIRED in options.get(FIELD_BEHAVIOR, []):
        yield f"{name} required"


def message_facts(scope, raw):
    message = fields(raw)
    name = f"{scope}.{text(message, 1)}"
    is_map = one(fields(one(message, 7)), 7, 0)
    yield f"{name} message" + (" map_entry" if is_map else "")
    oneofs = [text(fields(o), 1) for o in message.get(8, [])]
    for field in message.get(2, []):
        yield from field_facts(name, field, oneofs)
    for reserved in message.get(9, []):
        span = fields(reserved)
        yield f"{name} reserved {one(span, 1, 0)}..{one(span, 2, 0)}"
    for reserved in message.get(10, []):
        yield f"{name} reserved {reserved.decode()}"
    for nested in message.get(3, []):
        yield from message_facts(name, nested)
    for nested in message.get(4, []):
        yield from enum_facts(name, nested)


def enum_facts(scope, raw):
    enum = fields(raw)
    name = f"{scope}.{text(enum, 1)}"
    yield f"{name} enum"
    for raw_value in enum.get(2, []):
        value = fields(raw_value)
        yield f"{name}.{text(value, 1)} value {one(value, 2, 0)}"


def service_facts(scope, raw):
    service = fields(raw)
    name = f"{scope}.{text(service, 1)}"
    yield f"{name} service"
    for raw_method in service.get(2, []):
        method = fields(raw_method)
        ask = "stream " if one(method, 5, 0) else ""
        answer = "stream " if one(method, 6, 0) else ""
        yield (
            f"{name}.{text(method, 1)} rpc {ask}{text(method, 2).lstrip('.')}"
            f" -> {answer}{text(method, 3).lstrip('.')}"
        )


def serialized(wheel):
    source = zipfile.ZipFile(wheel).read("a2a/types/a2a_pb2.py")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            return node.args[0].value
    raise SystemExit("no serialized descriptor in the wheel")


def main():
    file = fields(serialized(sys.argv[1]))
    package = text(file, 2)
    lines = []
    for number, facts in ((4, message_facts), (5, enum_facts), (6, service_facts)):
        for raw in file.get(number, []):
            lines.extend(facts(package, raw))
    sys.stdout.write(HEADER + "".join(f"{line}\n" for line in sorted(lines)))


main()
