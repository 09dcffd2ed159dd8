"""The canonical form of a message, and its digest.

A message is written as ProtoJSON with lowerCamelCase names; what is not set is left out, what has
presence and is set is printed, lists without items are left out; enums by name; 64-bit integers
as strings; bytes in base64; times in UTC with six digits; no floats. Then RFC 8785: no spaces,
members sorted by UTF-16 code units. Then SHA-256. Never hash protobuf bytes: two correct encoders
may write them differently.

Needs the standard library and the descriptors that every generated message carries.
"""

import base64
import datetime
import hashlib
import json

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(message, without=()):
    """The canonical digest of `message`, without the fields named (a digest never covers itself)."""
    return sha256(canonical_bytes(message, without))


def canonical_bytes(message, without=()):
    return write(fields(message, without)).encode("utf-8")


def fields(message, without=()):
    """A message as a value of dicts, lists, strings, ints and bools."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return timestamp(message)
    if name == "google.protobuf.Duration":
        return duration(message)
    if name in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
        return dynamic(message)
    found = {}
    # ListFields gives what is set: with presence, also a default; without, only what differs.
    for field, value in message.ListFields():
        if field.name in without:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            found[field.json_name] = {str(key): one(of, value[key]) for key in value}
        elif field.is_repeated:
            found[field.json_name] = [one(field, item) for item in value]
        else:
            found[field.json_name] = one(field, value)
    return found


def one(field, value):
    if field.message_type is not None:
        return fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        if known is None:
            raise ValueError("%s: %d is no %s" % (field.name, value, field.enum_type.name))
        return known.name
    if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return str(value)
    if field.type == field.TYPE_BYTES:
        return base64.b64encode(value).decode("ascii")
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        raise ValueError("%s: floats have no canonical form" % field.name)
    return value


def micros(nanos):
    if nanos % 1000 != 0:
        raise ValueError("%d ns: times have six digits" % nanos)
    return abs(nanos) // 1000


def timestamp(message):
    at = EPOCH + datetime.timedelta(seconds=message.seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + ".%06dZ" % micros(message.nanos)


def duration(message):
    sign = "-" if message.seconds < 0 or message.nanos < 0 else ""
    return "%s%d.%06ds" % (sign, abs(message.seconds), micros(message.nanos))


def dynamic(value):
    """`Struct` and its kin are the JSON that they stand for."""
    name = value.DESCRIPTOR.name
    if name == "Struct":
        return {key: dynamic(value.fields[key]) for key in value.fields}
    if name == "ListValue":
        return [dynamic(item) for item in value.values]
    kind = value.WhichOneof("kind")
    if kind == "null_value":
        return None
    if kind in ("struct_value", "list_value"):
        return dynamic(getattr(value, kind))
    if kind == "number_value":
        number = value.number_value
        if number != int(number) or abs(number) > 2**53:
            raise ValueError("%r: write numbers that are not whole as text" % number)
        return int(number)
    return getattr(value, kind)


def write(value):
    """RFC 8785 of what `fields` gives."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (write(name) + ":" + write(value[name]) for name in names)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write(item) for item in value) + "]"
    # Python's escapes of a string are those of RFC 8785; numbers here are whole.
    return json.dumps(value, ensure_ascii=False)


def parts_digest(parts):
    """The digest of an artifact that the broker keeps: of its one part, or of the list of them."""
    def content(part):
        return part.raw if part.WhichOneof("content") == "raw" else part.text.encode("utf-8")
    if len(parts) == 1:
        return sha256(content(parts[0]))
    listed = [{"mediaType": p.media_type, "digest": sha256(content(p))} for p in parts]
    return sha256(write(listed).encode("utf-8"))


class Chain:
    """Follows a task's events: numbers without a gap, each naming the digest of the one before."""

    def __init__(self):
        self.sequence, self.head = 0, ""

    def take(self, event):
        if event.sequence != self.sequence + 1:
            raise ValueError("event %d follows event %d" % (event.sequence, self.sequence))
        if event.previous_digest != self.head:
            raise ValueError("event %d does not follow from the one before" % event.sequence)
        if event.digest != digest(event, without=("digest",)):
            raise ValueError("event %d is not what its digest says" % event.sequence)
        self.sequence, self.head = event.sequence, event.digest
