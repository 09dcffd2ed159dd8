//! The canonical form of messages and values, and the digests over it.
//!
//! What lives here: message to ProtoJSON to RFC 8785 bytes to SHA-256, and the digests of parts.
//! What does not: which digest is compared with which.
//!
//! Invariants: equal messages have equal bytes in every language and library; what would be
//! printed differently somewhere (floats, numbers above 2^53, unknown enum numbers, nanoseconds)
//! has no canonical form and is an error that names the field.
//!
//! The form: field names in lowerCamelCase; an unset field, and a default value in a field
//! without presence, left out; a field with presence printed also at its default; enums by name;
//! 64-bit integers as strings; bytes as standard base64; times in UTC with six digits of the
//! second; durations in seconds with six digits.

mod error;

mod fast;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey};
use prost_reflect::{MessageDescriptor, ReflectMessage as _, Value as Field};
use serde_json::{Map, Number, Value, json};

pub use error::{CanonError, FieldPath, Problem};

use crate::core::digest::Digest;
use crate::core::time::{Span, Timestamp};

/// Largest magnitude up to which every integer has a double of its own: 2^53.
const EXACT_MAX: u64 = 1 << 53;
/// Largest duration that ProtoJSON allows, in seconds.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;

/// The descriptors that the generated code was made from. Read only.
static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(crate::proto::FILE_DESCRIPTOR_SET).ok());

/// The canonical bytes of a message.
pub fn canonical_json<M: Message + Name>(message: &M) -> Result<Vec<u8>, CanonError> {
    canonical_json_without(message, &[])
}

/// The canonical bytes of a message without the named top-level fields (proto names).
pub fn canonical_json_without<M: Message + Name>(
    message: &M,
    without: &[&str],
) -> Result<Vec<u8>, CanonError> {
    canonical_of_encoded::<M>(&message.encode_to_vec(), without)
}

fn canonical_of_encoded<M: Message + Name>(
    encoded: &[u8],
    without: &[&str],
) -> Result<Vec<u8>, CanonError> {
    match fast::canonical(&M::full_name(), encoded, without) {
        Some(bytes) => Ok(bytes),
        None => general::<M>(encoded, without),
    }
}

/// The general walk: every message, and every error.
fn general<M: Message + Name>(encoded: &[u8], without: &[&str]) -> Result<Vec<u8>, CanonError> {
    let name = M::full_name();
    let descriptor = descriptor(&name).ok_or(CanonError::UnknownMessage(name))?;
    let message = DynamicMessage::decode(descriptor, encoded)?;
    canonical_dynamic(message, without)
}

/// The digest of a message's canonical bytes.
pub fn digest<M: Message + Name>(message: &M) -> Result<Digest, CanonError> {
    digest_without(message, &[])
}

/// The digest of a message without the named top-level fields, for a message that carries its
/// own digest.
pub fn digest_without<M: Message + Name>(
    message: &M,
    without: &[&str],
) -> Result<Digest, CanonError> {
    Ok(Digest::of(&canonical_json_without(message, without)?))
}

/// The digest of a message by its encoded form, for whoever needs both.
pub fn digest_of_encoded<M: Message + Name>(encoded: &[u8]) -> Result<Digest, CanonError> {
    Ok(Digest::of(&canonical_of_encoded::<M>(encoded, &[])?))
}

/// The descriptor of a message by its full name, for example `baton.v1.HandoffPacket`.
pub fn descriptor(full_name: &str) -> Option<MessageDescriptor> {
    POOL.as_ref()?.get_message_by_name(full_name)
}

/// The canonical bytes of a message that is known by its descriptor alone.
pub fn canonical_dynamic(
    mut message: DynamicMessage,
    without: &[&str],
) -> Result<Vec<u8>, CanonError> {
    for &field in without {
        let descriptor = message.descriptor();
        let Some(found) = descriptor.get_field_by_name(field) else {
            let message = descriptor.full_name().to_owned();
            return Err(CanonError::UnknownField { message, field: field.to_owned() });
        };
        message.clear_field(&found);
    }
    write(&message_value(&message)?)
}

/// The RFC 8785 bytes of a JSON value.
pub fn canonical_value(value: &Value) -> Result<Vec<u8>, CanonError> {
    check_numbers(value)?;
    write(value)
}

/// The digest of a JSON value: an element of a receipt, or any other value by itself.
pub fn element_digest(value: &Value) -> Result<Digest, CanonError> {
    Ok(Digest::of(&canonical_value(value)?))
}

/// The digest of a part of raw bytes: the bytes as they are.
pub fn part_digest_raw(bytes: &[u8]) -> Digest {
    Digest::of(bytes)
}

/// The digest of a text part: its UTF-8 bytes, without normalisation.
pub fn part_digest_text(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

/// The digest of a data part: its canonical JSON.
pub fn part_digest_data(value: &Value) -> Result<Digest, CanonError> {
    element_digest(value)
}

/// The digest of an artifact from the media types and digests of its parts, in their order.
///
/// One part: that part's digest. Several: the canonical list of `{"digest", "mediaType"}`.
pub fn artifact_digest(parts: &[(&str, Digest)]) -> Result<Digest, CanonError> {
    match parts {
        [] => Err(CanonError::NoParts),
        [(_, digest)] => Ok(*digest),
        parts => {
            let entries = parts.iter().map(|(media_type, digest)| {
                json!({ "mediaType": media_type, "digest": digest.to_string() })
            });
            Ok(Digest::of(&write(&Value::Array(entries.collect()))?))
        }
    }
}

fn write(value: &Value) -> Result<Vec<u8>, CanonError> {
    let mut out = Vec::with_capacity(1024);
    write_value(&mut out, value)?;
    Ok(out)
}

/// RFC 8785. The general canonicalizer takes six times as long on a packet, because it sorts
/// members that are sorted already; it still prints the doubles, and a test holds the two equal.
fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), CanonError> {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write_value(out, item)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            // The map is sorted by code points. UTF-16 code units give another order only if
            // there is a character from U+E000 on, whose UTF-8 begins with 0xEE or more.
            if members.iter().any(|(name, _)| name.bytes().any(|b| b >= 0xee)) {
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            out.push(b'{');
            for (n, (name, member)) in members.into_iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, name)?;
                out.push(b':');
                write_value(out, member)?;
            }
            out.push(b'}');
        }
        Value::Number(number) if number.is_f64() => {
            serde_json_canonicalizer::to_writer(number, out)?;
        }
        value => serde_json::to_writer(out, value)?,
    }
    Ok(())
}

fn check_numbers(value: &Value) -> Result<(), CanonError> {
    match value {
        Value::Number(number) if !is_exact(number) => Err(Problem::Number.into()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(n, item)| {
            check_numbers(item).map_err(|error| error.within(|| format!("[{n}]")))
        }),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            check_numbers(member).map_err(|error| error.within(|| name.clone()))
        }),
    }
}

fn is_exact(number: &Number) -> bool {
    if let Some(value) = number.as_u64() {
        return value <= EXACT_MAX;
    }
    if let Some(value) = number.as_i64() {
        return value.unsigned_abs() <= EXACT_MAX;
    }
    number.as_f64().is_some_and(is_exact_double)
}

fn is_exact_double(value: f64) -> bool {
    value.is_finite() && value.abs() <= 9_007_199_254_740_992.0
}

fn message_value(message: &DynamicMessage) -> Result<Value, CanonError> {
    let descriptor = message.descriptor();
    if let Some(name) = descriptor.full_name().strip_prefix("google.protobuf.") {
        return well_known(name, message);
    }
    let mut object = Map::new();
    // Yields what is set: with presence also at the default, without presence only beside it.
    for (field, value) in message.fields() {
        let json = field_value(&field, value)
            .map_err(|error| error.within(|| field.json_name().to_owned()))?;
        object.insert(field.json_name().to_owned(), json);
    }
    Ok(Value::Object(object))
}

fn field_value(field: &FieldDescriptor, value: &Field) -> Result<Value, CanonError> {
    match value {
        Field::List(items) => {
            let kind = field.kind();
            let items = items.iter().enumerate().map(|(n, item)| {
                scalar(&kind, item).map_err(|error| error.within(|| format!("[{n}]")))
            });
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Field::Map(entries) => {
            let Kind::Message(entry) = field.kind() else {
                return Err(Problem::Type.into());
            };
            let kind = entry.map_entry_value_field().kind();
            let mut object = Map::new();
            for (key, item) in entries {
                let name = map_key(key);
                let json = scalar(&kind, item).map_err(|error| error.within(|| name.clone()))?;
                object.insert(name, json);
            }
            Ok(Value::Object(object))
        }
        value => scalar(&field.kind(), value),
    }
}

fn scalar(kind: &Kind, value: &Field) -> Result<Value, CanonError> {
    Ok(match value {
        Field::Bool(value) => Value::Bool(*value),
        Field::I32(value) => Value::from(*value),
        Field::U32(value) => Value::from(*value),
        Field::I64(value) => Value::String(value.to_string()),
        Field::U64(value) => Value::String(value.to_string()),
        Field::F32(_) | Field::F64(_) => return Err(Problem::Float.into()),
        Field::String(value) => Value::String(value.clone()),
        Field::Bytes(value) => Value::String(STANDARD.encode(value)),
        Field::EnumNumber(number) => {
            let Kind::Enum(names) = kind else {
                return Err(Problem::Type.into());
            };
            let name = names.get_value(*number).ok_or(Problem::EnumNumber(*number))?;
            Value::String(name.name().to_owned())
        }
        Field::Message(message) => message_value(message)?,
        Field::List(_) | Field::Map(_) => return Err(Problem::Type.into()),
    })
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

fn well_known(name: &str, message: &DynamicMessage) -> Result<Value, CanonError> {
    match name {
        "Timestamp" => timestamp(message),
        "Duration" => duration(message),
        "Empty" => Ok(Value::Object(Map::new())),
        "Struct" => match message.get_field_by_number(1).as_deref() {
            Some(Field::Map(members)) => dynamic_object(members.iter()),
            _ => Err(Problem::Type.into()),
        },
        "ListValue" => match message.get_field_by_number(1).as_deref() {
            Some(Field::List(items)) => {
                let items = items.iter().enumerate().map(|(n, item)| {
                    dynamic(item).map_err(|error| error.within(|| format!("[{n}]")))
                });
                Ok(Value::Array(items.collect::<Result<_, _>>()?))
            }
            _ => Err(Problem::Type.into()),
        },
        "Value" => dynamic_kind(message),
        _ => Err(Problem::Type.into()),
    }
}

fn dynamic_object<'a>(
    members: impl Iterator<Item = (&'a MapKey, &'a Field)>,
) -> Result<Value, CanonError> {
    let mut object = Map::new();
    for (key, member) in members {
        let name = map_key(key);
        let json = dynamic(member).map_err(|error| error.within(|| name.clone()))?;
        object.insert(name, json);
    }
    Ok(Value::Object(object))
}

fn dynamic(value: &Field) -> Result<Value, CanonError> {
    match value {
        Field::Message(message) => dynamic_kind(message),
        _ => Err(Problem::Type.into()),
    }
}

/// A `google.protobuf.Value`: its one field that is set.
fn dynamic_kind(message: &DynamicMessage) -> Result<Value, CanonError> {
    let Some((_, kind)) = message.fields().next() else {
        return Err(Problem::NoKind.into());
    };
    match kind {
        Field::EnumNumber(_) => Ok(Value::Null),
        Field::F64(value) if is_exact_double(*value) => {
            Ok(Number::from_f64(*value).map_or(Value::Null, Value::Number))
        }
        Field::F64(_) => Err(Problem::Number.into()),
        Field::String(value) => Ok(Value::String(value.clone())),
        Field::Bool(value) => Ok(Value::Bool(*value)),
        Field::Message(message) => message_value(message),
        _ => Err(Problem::Type.into()),
    }
}

/// Seconds and nanoseconds of a `Timestamp` or `Duration`.
fn seconds_and_nanos(message: &DynamicMessage) -> (i64, i32) {
    let field = |number| message.get_field_by_number(number);
    let seconds = field(1).as_deref().and_then(Field::as_i64).unwrap_or_default();
    let nanos = field(2).as_deref().and_then(Field::as_i32).unwrap_or_default();
    (seconds, nanos)
}

fn micros(nanos: i32) -> Result<i64, Problem> {
    if nanos % 1000 == 0 { Ok(i64::from(nanos / 1000)) } else { Err(Problem::Nanos(nanos)) }
}

fn timestamp(message: &DynamicMessage) -> Result<Value, CanonError> {
    let (seconds, nanos) = seconds_and_nanos(message);
    if !(0..1_000_000_000).contains(&nanos) {
        return Err(Problem::TimeRange.into());
    }
    let micros = micros(nanos)?;
    let time = seconds.checked_mul(1_000_000).and_then(|s| s.checked_add(micros));
    let time = time.and_then(Timestamp::from_micros).ok_or(Problem::TimeRange)?;
    Ok(Value::String(time.to_string()))
}

fn duration(message: &DynamicMessage) -> Result<Value, CanonError> {
    let (seconds, nanos) = seconds_and_nanos(message);
    let signs_agree = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
    let in_range = seconds.unsigned_abs() <= DURATION_SECONDS_MAX.unsigned_abs()
        && nanos.unsigned_abs() < 1_000_000_000;
    if !signs_agree || !in_range {
        return Err(Problem::DurationRange.into());
    }
    let span = Span::from_secs(seconds).saturating_add(Span::from_micros(micros(nanos)?));
    Ok(Value::String(span.to_string()))
}
