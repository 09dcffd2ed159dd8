//! The canonical form straight from a message's encoded bytes.
//!
//! What lives here: a writer that walks the wire format by a plan made once from the descriptors.
//! What does not: maps, floats and JSON values, which the general walk handles, and every error:
//! whatever is not plain here gives `None`, and the general walk says what is wrong. Invariant:
//! where it gives bytes, they are those of the general walk (held by a property test). Reason: a
//! packet is digested several times on its way, and the general walk builds and frees a tree of
//! maps each time.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use crate::core::time::{Span, Timestamp};

use super::POOL;

/// Plans of all messages, by full name.
static PLANS: LazyLock<Plans> = LazyLock::new(Plans::build);

struct Plans {
    all: Vec<Plan>,
    by_name: HashMap<String, usize>,
}

/// How one message is written: its fields in the order of their JSON names.
struct Plan {
    fields: Vec<FieldPlan>,
    /// Field number to place in `fields`, sorted.
    places: Vec<(u32, usize)>,
}

struct FieldPlan {
    /// Name in the proto file.
    name: String,
    /// `"jsonName":`, as it is written.
    label: String,
    shape: Shape,
    repeated: bool,
    /// Printed also at its default.
    presence: bool,
}

enum Shape {
    Bool,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Text,
    Bytes,
    Enum(HashMap<i32, String>),
    Message(usize),
    Timestamp,
    Duration,
    Empty,
    /// Left to the general walk.
    Other,
}

/// A value on the wire.
#[derive(Clone, Copy)]
enum Wire<'b> {
    Varint(u64),
    Bytes(&'b [u8]),
    /// Fixed-width numbers, which no plan takes.
    Fixed,
}

/// The canonical bytes of the message `name` that is encoded in `bytes`, without the named
/// top-level fields; `None` where the general walk has to decide.
pub(super) fn canonical(name: &str, bytes: &[u8], without: &[&str]) -> Option<Vec<u8>> {
    if name.starts_with("google.protobuf.") {
        return None;
    }
    let plan = PLANS.all.get(*PLANS.by_name.get(name)?)?;
    if without.iter().any(|left_out| plan.fields.iter().all(|f| f.name != *left_out)) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len().saturating_mul(2));
    write_message(plan, bytes, without, &mut out, 0)?;
    Some(out)
}

/// Messages nested deeper are left to the general walk, which refuses them.
const DEPTH_MAX: usize = 64;

fn write_message(
    plan: &Plan,
    bytes: &[u8],
    without: &[&str],
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let mut found: Vec<(usize, Wire<'_>)> = Vec::with_capacity(16);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, value) = field(&mut rest)?;
        let at = plan.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        found.push((plan.places.get(at)?.1, value));
    }
    // Stable: the items of a list keep their order.
    found.sort_by_key(|(place, _)| *place);
    out.push(b'{');
    let mut first = true;
    for group in found.chunk_by(|(a, _), (b, _)| a == b) {
        let (place, _) = group.first()?;
        let field = plan.fields.get(*place)?;
        if depth == 0 && without.contains(&field.name.as_str()) {
            continue;
        }
        let mark = out.len();
        if !first {
            out.push(b',');
        }
        out.extend_from_slice(field.label.as_bytes());
        let written = if field.repeated {
            write_list(field, group, out, depth)?
        } else {
            // A singular field that comes twice is merged by the general walk.
            let [(_, value)] = group else { return None };
            write_value(&field.shape, *value, out, depth)?;
            field.presence || !is_default(&field.shape, *value)
        };
        if written {
            first = false;
        } else {
            out.truncate(mark);
        }
    }
    out.push(b'}');
    Some(())
}

fn write_list(
    field: &FieldPlan,
    items: &[(usize, Wire<'_>)],
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<bool> {
    out.push(b'[');
    let mut first = true;
    let mut comma = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
    };
    for (_, item) in items {
        match (item, &field.shape) {
            // Numbers may be packed into one value.
            (
                Wire::Bytes(packed),
                Shape::Bool
                | Shape::Int32
                | Shape::Uint32
                | Shape::Int64
                | Shape::Uint64
                | Shape::Enum(_),
            ) => {
                let mut rest = *packed;
                while !rest.is_empty() {
                    comma(out);
                    write_value(&field.shape, Wire::Varint(varint(&mut rest)?), out, depth)?;
                }
            }
            (item, shape) => {
                comma(out);
                write_value(shape, *item, out, depth)?;
            }
        }
    }
    out.push(b']');
    Some(!first)
}

fn is_default(shape: &Shape, value: Wire<'_>) -> bool {
    match value {
        Wire::Varint(number) => number == 0,
        Wire::Bytes(bytes) => matches!(shape, Shape::Text | Shape::Bytes) && bytes.is_empty(),
        Wire::Fixed => false,
    }
}

fn write_value(shape: &Shape, value: Wire<'_>, out: &mut Vec<u8>, depth: usize) -> Option<()> {
    match (shape, value) {
        (Shape::Bool, Wire::Varint(0)) => out.extend_from_slice(b"false"),
        (Shape::Bool, Wire::Varint(_)) => out.extend_from_slice(b"true"),
        (Shape::Int32, Wire::Varint(n)) => plain(out, &low(n)),
        (Shape::Uint32, Wire::Varint(n)) => plain(out, &u32::try_from(n).ok()?),
        (Shape::Int64, Wire::Varint(n)) => quoted(out, &n.cast_signed().to_string()),
        (Shape::Uint64, Wire::Varint(n)) => quoted(out, &n.to_string()),
        (Shape::Text, Wire::Bytes(text)) => write_text(out, std::str::from_utf8(text).ok()?)?,
        (Shape::Bytes, Wire::Bytes(bytes)) => quoted(out, &STANDARD.encode(bytes)),
        (Shape::Enum(names), Wire::Varint(n)) => quoted(out, names.get(&low(n))?),
        (Shape::Message(place), Wire::Bytes(bytes)) => {
            let plan = PLANS.all.get(*place)?;
            write_message(plan, bytes, &[], out, depth.saturating_add(1))?;
        }
        (Shape::Timestamp, Wire::Bytes(bytes)) => quoted(out, &timestamp(bytes)?),
        (Shape::Duration, Wire::Bytes(bytes)) => quoted(out, &duration(bytes)?),
        (Shape::Empty, Wire::Bytes([])) => out.extend_from_slice(b"{}"),
        _ => return None,
    }
    Some(())
}

/// The value of an `int32` or enum: its lower half, as every reader of the wire format takes it.
fn low(number: u64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "the wire format says so")]
    let low = number as u32;
    low.cast_signed()
}

fn plain(out: &mut Vec<u8>, value: &impl ToString) {
    out.extend_from_slice(value.to_string().as_bytes());
}

fn quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn write_text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let plain = text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        quoted(out, text);
        return Some(());
    }
    serde_json::to_writer(out, text).ok()
}

fn seconds_and_nanos(bytes: &[u8]) -> Option<(i64, i32)> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut rest = bytes;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Wire::Varint(n)) => seconds = n.cast_signed(),
            (2, Wire::Varint(n)) => nanos = low(n),
            _ => return None,
        }
    }
    Some((seconds, nanos))
}

fn timestamp(bytes: &[u8]) -> Option<String> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    if !(0..1_000_000_000).contains(&nanos) || nanos % 1000 != 0 {
        return None;
    }
    let micros = seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000))?;
    Timestamp::from_micros(micros).map(|time| time.to_string())
}

fn duration(bytes: &[u8]) -> Option<String> {
    let (seconds, nanos) = seconds_and_nanos(bytes)?;
    let plain = (0..=super::DURATION_SECONDS_MAX).contains(&seconds)
        && (0..1_000_000_000).contains(&nanos)
        && nanos % 1000 == 0;
    if !plain {
        return None;
    }
    let micros = i64::from(nanos / 1000);
    Some(Span::from_secs(seconds).saturating_add(Span::from_micros(micros)).to_string())
}

/// Takes one field off the wire.
fn field<'b>(rest: &mut &'b [u8]) -> Option<(u32, Wire<'b>)> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).ok()?;
    let value = match key & 7 {
        0 => Wire::Varint(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (value, tail) = rest.split_at_checked(length)?;
            *rest = tail;
            Wire::Bytes(value)
        }
        1 | 5 => {
            let width = if key & 7 == 1 { 8 } else { 4 };
            *rest = rest.split_at_checked(width)?.1;
            Wire::Fixed
        }
        _ => return None,
    };
    Some((number, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Plans {
    fn build() -> Self {
        let messages: Vec<MessageDescriptor> =
            POOL.iter().flat_map(prost_reflect::DescriptorPool::all_messages).collect();
        let by_name: HashMap<String, usize> = messages
            .iter()
            .enumerate()
            .map(|(place, message)| (message.full_name().to_owned(), place))
            .collect();
        let all = messages.iter().map(|message| Plan::build(message, &by_name)).collect();
        Self { all, by_name }
    }
}

impl Plan {
    fn build(message: &MessageDescriptor, by_name: &HashMap<String, usize>) -> Self {
        let mut descriptors: Vec<FieldDescriptor> = message.fields().collect();
        // Names are ASCII, so their bytes sort as their UTF-16 code units.
        descriptors.sort_by(|a, b| a.json_name().cmp(b.json_name()));
        let mut places: Vec<(u32, usize)> =
            descriptors.iter().enumerate().map(|(n, field)| (field.number(), n)).collect();
        places.sort_unstable();
        let fields = descriptors
            .iter()
            .map(|field| FieldPlan {
                name: field.name().to_owned(),
                label: format!("\"{}\":", field.json_name()),
                shape: Shape::of(field, by_name),
                repeated: field.cardinality() == Cardinality::Repeated,
                presence: field.supports_presence(),
            })
            .collect();
        Self { fields, places }
    }
}

impl Shape {
    fn of(field: &FieldDescriptor, by_name: &HashMap<String, usize>) -> Self {
        if field.is_map() || !field.json_name().is_ascii() {
            return Self::Other;
        }
        match field.kind() {
            Kind::Bool => Self::Bool,
            Kind::Int32 => Self::Int32,
            Kind::Uint32 => Self::Uint32,
            Kind::Int64 => Self::Int64,
            Kind::Uint64 => Self::Uint64,
            Kind::String => Self::Text,
            Kind::Bytes => Self::Bytes,
            Kind::Enum(names) => Self::Enum(names_of(&names)),
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => Self::Timestamp,
                "google.protobuf.Duration" => Self::Duration,
                "google.protobuf.Empty" => Self::Empty,
                name if name.starts_with("google.protobuf.") => Self::Other,
                name => by_name.get(name).map_or(Self::Other, |place| Self::Message(*place)),
            },
            Kind::Double
            | Kind::Float
            | Kind::Fixed32
            | Kind::Fixed64
            | Kind::Sfixed32
            | Kind::Sfixed64
            | Kind::Sint32
            | Kind::Sint64 => Self::Other,
        }
    }
}

fn names_of(names: &EnumDescriptor) -> HashMap<i32, String> {
    let mut all = HashMap::new();
    for value in names.values() {
        // Of two names of one number the first counts.
        all.entry(value.number()).or_insert_with(|| value.name().to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use prost::{Message as _, Name as _};

    use super::canonical;
    use crate::core::contract::example;
    use crate::proto::baton::v1 as pb;
    use crate::wire::canon;

    fn same<M: prost::Message + prost::Name>(message: &M, without: &[&str]) {
        let encoded = message.encode_to_vec();
        let general = canon::general::<M>(&encoded, without).unwrap();
        let fast = canonical(&M::full_name(), &encoded, without);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(fast.as_deref().map(text), Some(text(&general)));
    }

    // Two forms of one message would be two digests: no receipt would match any more.
    #[test]
    fn it_writes_what_the_general_walk_writes() {
        let id = "01980000-0000-7000-8000-000000000001";
        same(&example::packet(id), &[]);
        same(&example::packet(id), &["packet_digest_is_no_field"][..0]);
        same(&example::contract(), &[]);
        same(&example::checkpoint(), &["id", "task_id"]);
        same(&example::shape(), &[]);
        same(&pb::HandoffPacket::default(), &[]);
        let odd = pb::UnknownItem {
            id: "tab\tquote\"\u{1}\u{7f}\u{2028}\u{1f4c4}".to_owned(),
            investigated: Some(false),
            ..Default::default()
        };
        same(&odd, &[]);
        let numbers = pb::Event {
            sequence: u64::MAX,
            detail: Some(pb::event::Detail::ReceiptRefused(pb::ReceiptRefused {
                elements: vec![1, 2, 5],
                ..Default::default()
            })),
            ..Default::default()
        };
        same(&numbers, &["digest"]);
    }

    // What is not plain must be judged by the walk that can say what is wrong.
    #[test]
    fn it_leaves_to_the_general_walk_what_is_not_plain() {
        let unknown = pb::ContractShape { tier: 77, traits: vec![] };
        let name = pb::ContractShape::full_name();
        assert_eq!(canonical(&name, &unknown.encode_to_vec(), &[]), None);
        let fine = pb::LastUpdated {
            time: Some(prost_types::Timestamp { seconds: 1, nanos: 7 }),
            by: String::new(),
        };
        let name = pb::LastUpdated::full_name();
        assert_eq!(canonical(&name, &fine.encode_to_vec(), &[]), None);
        assert_eq!(canonical(&name, &[0xff; 20], &[]), None);
        assert_eq!(canonical(&name, &[], &["nobody"]), None);
    }
}
