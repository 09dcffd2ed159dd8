//! The rules of `proto/buf.yaml`, in Rust, so that no other tool is needed to hold them.
//!
//! What lives here: naming and structure by buf's STANDARD set, a comment on everything by its
//! COMMENTS set, and the exceptions with their reasons. What does not: wire compatibility, which is
//! what the facts are compared for. Invariant: a file with findings is never silently skipped; an
//! exception names a rule and a package.

use prost_reflect::prost_types::source_code_info::Location;
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
};

/// The package whose names are those of the published A2A contract, and the rules that it breaks.
const EXCEPTED_PACKAGE: &str = "lf.a2a.v1";
/// Rules that do not hold in `EXCEPTED_PACKAGE`: SendMessageRequest serves two rpcs, Task and
/// AgentCard are answers, and a push config is request and response. Not ours to rename.
const EXCEPTED_RULES: &[&str] = &[RPC_OWN_REQUEST, RPC_OWN_RESPONSE];

const COMMENT: &str = "COMMENT";
const DIRECTORY: &str = "PACKAGE_DIRECTORY_MATCH";
const VERSION: &str = "PACKAGE_VERSION_SUFFIX";
const FILE_NAME: &str = "FILE_LOWER_SNAKE_CASE";
const PASCAL: &str = "PASCAL_CASE";
const SNAKE: &str = "FIELD_LOWER_SNAKE_CASE";
const UPPER: &str = "ENUM_VALUE_UPPER_SNAKE_CASE";
const PREFIX: &str = "ENUM_VALUE_PREFIX";
const ZERO: &str = "ENUM_ZERO_VALUE_SUFFIX";
const ALIAS: &str = "ENUM_NO_ALLOW_ALIAS";
const SERVICE: &str = "SERVICE_SUFFIX";
const RPC_OWN_REQUEST: &str = "RPC_REQUEST_STANDARD_NAME";
const RPC_OWN_RESPONSE: &str = "RPC_RESPONSE_STANDARD_NAME";

/// Findings of one file, each `rule: subject: what is wrong`.
pub(crate) fn file(file: &FileDescriptorProto) -> Vec<String> {
    let mut lint = Lint { file, findings: Vec::new() };
    lint.place();
    for (at, message) in file.message_type.iter().enumerate() {
        lint.message(&[4, index(at)], file.package(), message);
    }
    for (at, declared) in file.enum_type.iter().enumerate() {
        lint.enumeration(&[5, index(at)], file.package(), declared);
    }
    for (at, service) in file.service.iter().enumerate() {
        lint.service(&[6, index(at)], service);
    }
    lint.findings
}

/// Source locations count in `i32`; no file comes near its limit.
fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

struct Lint<'a> {
    file: &'a FileDescriptorProto,
    findings: Vec<String>,
}

impl Lint<'_> {
    fn find(&mut self, holds: bool, rule: &str, subject: &str, wrong: &str) {
        let excepted = self.file.package() == EXCEPTED_PACKAGE && EXCEPTED_RULES.contains(&rule);
        if !holds && !excepted {
            self.findings.push(format!("{rule}: {subject}: {wrong}"));
        }
    }

    fn place(&mut self) {
        let (path, package) = (self.file.name(), self.file.package());
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.find(folder == package.replace('.', "/"), DIRECTORY, path, package);
        let version = package.rsplit('.').next().unwrap_or_default();
        let numbered = version.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
        self.find(numbered, VERSION, path, package);
        self.find(is_snake(name.trim_end_matches(".proto")), FILE_NAME, path, "not lower_snake");
        self.find(self.file.syntax() == "proto3", "SYNTAX", path, "not proto3");
    }

    fn comment(&mut self, path: &[i32], subject: &str) {
        let has = comment_at(self.file, path).is_some_and(|text| !text.trim().is_empty());
        self.find(has, COMMENT, subject, "no comment above it");
    }

    fn message(&mut self, path: &[i32], scope: &str, message: &DescriptorProto) {
        if message.options.as_ref().is_some_and(|options| options.map_entry()) {
            return;
        }
        let name = format!("{scope}.{}", message.name());
        self.comment(path, &name);
        self.find(is_pascal(message.name()), PASCAL, &name, "not PascalCase");
        for (at, field) in message.field.iter().enumerate() {
            let subject = format!("{name}.{}", field.name());
            self.comment(&below(path, 2, at), &subject);
            self.find(is_snake(field.name()), SNAKE, &subject, "not lower_snake");
        }
        for (at, oneof) in message.oneof_decl.iter().enumerate() {
            let optional = message
                .field
                .iter()
                .any(|f| f.proto3_optional() && f.oneof_index == Some(index(at)));
            if !optional {
                let subject = format!("{name}.{}", oneof.name());
                self.comment(&below(path, 8, at), &subject);
                self.find(is_snake(oneof.name()), SNAKE, &subject, "not lower_snake");
            }
        }
        for (at, nested) in message.nested_type.iter().enumerate() {
            self.message(&below(path, 3, at), &name, nested);
        }
        for (at, nested) in message.enum_type.iter().enumerate() {
            self.enumeration(&below(path, 4, at), &name, nested);
        }
    }

    fn enumeration(&mut self, path: &[i32], scope: &str, declared: &EnumDescriptorProto) {
        let name = format!("{scope}.{}", declared.name());
        let prefix = format!("{}_", upper_snake(declared.name()));
        self.comment(path, &name);
        self.find(is_pascal(declared.name()), PASCAL, &name, "not PascalCase");
        let alias = declared.options.as_ref().is_some_and(|options| options.allow_alias());
        self.find(!alias, ALIAS, &name, "two names for one number");
        let zero = declared.value.first().map(|value| (value.name(), value.number()));
        let zero_name = format!("{prefix}UNSPECIFIED");
        self.find(zero == Some((zero_name.as_str(), 0)), ZERO, &name, &zero_name);
        for (at, value) in declared.value.iter().enumerate() {
            let subject = format!("{name}.{}", value.name());
            self.comment(&below(path, 2, at), &subject);
            self.find(value.name().starts_with(&prefix), PREFIX, &subject, &prefix);
            let lower = value.name().to_lowercase();
            let upper = value.name().to_uppercase() == value.name() && is_snake(&lower);
            self.find(upper, UPPER, &subject, "not UPPER_SNAKE");
        }
    }

    fn service(&mut self, path: &[i32], service: &ServiceDescriptorProto) {
        let package = self.file.package();
        let name = format!("{package}.{}", service.name());
        self.comment(path, &name);
        self.find(is_pascal(service.name()), PASCAL, &name, "not PascalCase");
        self.find(service.name().ends_with("Service"), SERVICE, &name, "no suffix Service");
        for (at, rpc) in service.method.iter().enumerate() {
            let subject = format!("{name}.{}", rpc.name());
            self.comment(&below(path, 2, at), &subject);
            self.find(is_pascal(rpc.name()), PASCAL, &subject, "not PascalCase");
            // A name of its own for each rpc also makes each message serve one rpc only.
            let request = format!(".{package}.{}Request", rpc.name());
            let response = format!(".{package}.{}Response", rpc.name());
            self.find(rpc.input_type() == request, RPC_OWN_REQUEST, &subject, &request);
            self.find(rpc.output_type() == response, RPC_OWN_RESPONSE, &subject, &response);
        }
    }
}

fn below(path: &[i32], kind: i32, at: usize) -> Vec<i32> {
    [path, &[kind, index(at)]].concat()
}

/// The comment directly above what `path` points to, by the numbering of source locations.
pub(crate) fn comment_at<'a>(file: &'a FileDescriptorProto, path: &[i32]) -> Option<&'a str> {
    let locations: &[Location] = &file.source_code_info.as_ref()?.location;
    locations.iter().find(|l| l.path == path)?.leading_comments.as_deref()
}

fn is_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.contains("__")
        && !name.ends_with('_')
}

fn is_pascal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// `TaskState` to `TASK_STATE`; a run of capitals is one word up to its last letter.
fn upper_snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|b| chars.get(b));
        let after = chars.get(at + 1);
        let starts = before.is_some_and(|b| !b.is_ascii_uppercase())
            || after.is_some_and(|a| a.is_ascii_lowercase());
        if at > 0 && c.is_ascii_uppercase() && starts {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}
