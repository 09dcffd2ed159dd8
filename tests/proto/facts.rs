//! A descriptor as text: one line for each fact that a peer could notice.
//!
//! What lives here: the walk from a descriptor to sorted lines, name first, so that a difference
//! between two sets of lines names the thing that differs. What does not: comparing and judging.
//! Invariant: only what changes the wire, ProtoJSON or generated code's shape becomes a line; order
//! of declaration, comments and language options do not.
//!
//! Forms of a line:
//!
//! ```text
//! <name> message [map_entry]
//! <name> field <number> <type> singular|repeated [presence | oneof=<name>]
//!     [json=<name>] [deprecated]
//! <name> reserved <first>..<end> | <name> reserved <field name>
//! <name> enum
//! <name> value <number>
//! <name> service
//! <name> rpc [stream] <request> -> [stream] <response>
//! ```

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ServiceDescriptor,
};

/// The facts of one package, sorted.
pub(crate) fn of_package(pool: &DescriptorPool, package: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for message in pool.all_messages().filter(|m| m.package_name() == package) {
        message_facts(&message, &mut lines);
    }
    for declared in pool.all_enums().filter(|e| e.package_name() == package) {
        enum_facts(&declared, &mut lines);
    }
    for service in pool.services().filter(|s| s.package_name() == package) {
        service_facts(&service, &mut lines);
    }
    lines.sort();
    lines
}

fn message_facts(message: &MessageDescriptor, lines: &mut Vec<String>) {
    let name = message.full_name();
    let map_entry = if message.is_map_entry() { " map_entry" } else { "" };
    lines.push(format!("{name} message{map_entry}"));
    lines.extend(message.fields().map(|field| field_fact(&field)));
    for span in message.reserved_ranges() {
        lines.push(format!("{name} reserved {}..{}", span.start, span.end));
    }
    for reserved in message.reserved_names() {
        lines.push(format!("{name} reserved {reserved}"));
    }
}

fn field_fact(field: &FieldDescriptor) -> String {
    let raw = field.field_descriptor_proto();
    let repeated = field.is_list() || field.is_map();
    let mut line = format!(
        "{} field {} {} {}",
        field.full_name(),
        field.number(),
        type_name(&field.kind()),
        if repeated { "repeated" } else { "singular" },
    );
    if raw.proto3_optional() {
        line.push_str(" presence");
    } else if let Some(oneof) = field.containing_oneof() {
        line.push_str(&format!(" oneof={}", oneof.name()));
    }
    if field.json_name() != lower_camel(field.name()) {
        line.push_str(&format!(" json={}", field.json_name()));
    }
    if raw.options.as_ref().is_some_and(|options| options.deprecated()) {
        line.push_str(" deprecated");
    }
    line
}

fn type_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(declared) => declared.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

/// The JSON name that a field has when none is declared.
fn lower_camel(name: &str) -> String {
    let mut out = String::new();
    let mut raise = false;
    for c in name.chars() {
        match c {
            '_' => raise = true,
            _ if raise => {
                out.push(c.to_ascii_uppercase());
                raise = false;
            }
            _ => out.push(c),
        }
    }
    out
}

fn enum_facts(declared: &EnumDescriptor, lines: &mut Vec<String>) {
    let name = declared.full_name();
    lines.push(format!("{name} enum"));
    for value in declared.values() {
        lines.push(format!("{name}.{} value {}", value.name(), value.number()));
    }
}

fn service_facts(service: &ServiceDescriptor, lines: &mut Vec<String>) {
    let name = service.full_name();
    lines.push(format!("{name} service"));
    for rpc in service.methods() {
        let ask = if rpc.is_client_streaming() { "stream " } else { "" };
        let answer = if rpc.is_server_streaming() { "stream " } else { "" };
        lines.push(format!(
            "{name}.{} rpc {ask}{} -> {answer}{}",
            rpc.name(),
            rpc.input().full_name(),
            rpc.output().full_name(),
        ));
    }
}

/// What is in one list and not in the other, marked `-` (only left) and `+` (only right).
pub(crate) fn difference(left: &[String], right: &[String]) -> Vec<String> {
    let gone = left.iter().filter(|l| !right.contains(l)).map(|l| format!("- {l}"));
    let new = right.iter().filter(|r| !left.contains(r)).map(|r| format!("+ {r}"));
    gone.chain(new).collect()
}
