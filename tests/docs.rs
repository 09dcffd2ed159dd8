//! The documents say what the proto says: each call has its row, each reason its explanation.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;

use baton::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::FileDescriptorSet;

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).expect("a document")
}

fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("a descriptor set")
}

/// Every call of `baton.v1`, as `Service/Method`.
fn calls() -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for file in descriptors().file.iter().filter(|f| f.package() == "baton.v1") {
        for service in &file.service {
            calls.extend(service.method.iter().map(|m| format!("{}/{}", service.name(), m.name())));
        }
    }
    calls
}

/// Every reason, as it travels.
fn reasons() -> BTreeSet<String> {
    let files = descriptors().file;
    let found = files.iter().flat_map(|f| &f.enum_type).find(|e| e.name() == "Reason");
    let values = &found.expect("the enum Reason").value;
    let names = values.iter().filter(|v| v.number() != 0);
    names.map(|v| v.name().trim_start_matches("REASON_").to_owned()).collect()
}

/// The rows of all tables below `heading`, up to the next heading of its level.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|l| l.starts_with("| "));
    let cells = |l: &str| l.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect();
    lines.skip(1).map(cells).collect()
}

/// Words that are spelt like reasons.
fn spelt_like_reasons(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_' && !c.is_ascii_digit());
    words.filter(|w| w.contains('_')).map(str::to_owned).collect()
}

// An adapter's author looks a call up and does not find it, or finds one that does not exist.
#[test]
fn every_call_has_one_row() {
    let text = read("docs/rpc.md");
    let mut listed = Vec::new();
    for service in ["AgentService", "TaskService", "HandoffService"] {
        for row in rows(&text, &format!("## {service}")) {
            assert_eq!(row.len(), 5, "{row:?}");
            assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
            listed.push(row.first().expect("a call").trim_matches('`').to_owned());
        }
    }
    let unique: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "a call has two rows: {listed:?}");
    assert_eq!(unique, calls());
}

// A program branches on a reason that is never sent, or meets one that nobody has explained.
#[test]
fn every_reason_is_explained_and_none_is_invented() {
    let text = read("docs/rpc.md");
    let known = reasons();
    let explained = rows(&text, "## Reasons");
    let names: BTreeSet<String> = explained.iter().filter_map(|r| r.first().cloned()).collect();
    assert_eq!(names, known);
    for row in &explained {
        assert_eq!(row.len(), 4, "{row:?}");
    }
    for service in ["AgentService", "TaskService", "HandoffService"] {
        for row in rows(&text, &format!("## {service}")) {
            let last = row.last().expect("reasons");
            for name in last.split(", ").filter(|name| name.len() > 1) {
                assert!(known.contains(name), "{name} in the row of {row:?}");
            }
        }
    }
}

// A reason would look as if a call could return it, and none does, or the other way round.
#[test]
fn every_reason_that_is_not_reserved_belongs_to_a_call() {
    let text = read("docs/rpc.md");
    let (before, _) = text.split_once("\n## Reasons\n").expect("the reasons");
    let named = spelt_like_reasons(before);
    for row in rows(&text, "## Reasons") {
        let [name, _, cause, _] = row.as_slice() else { panic!("{row:?}") };
        let single = !name.contains('_');
        let used = named.contains(name) || (single && before.contains(name.as_str()));
        assert_eq!(used, !cause.starts_with("Reserved."), "{name}");
    }
}

// The code of a reason decides whether a client's library repeats the call by itself.
#[test]
fn codes_are_those_that_travel() {
    let table = read("fixtures/errors.txt");
    let mut travelling = BTreeSet::new();
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        let cells: Vec<&str> = line.split(" | ").collect();
        if let [reason, code, ..] = cells.as_slice() {
            travelling.insert(((*reason).to_owned(), (*code).to_owned()));
        }
    }
    let text = read("docs/rpc.md");
    for row in rows(&text, "## Reasons") {
        let [reason, code, ..] = row.as_slice() else { panic!("{row:?}") };
        assert!(travelling.contains(&(reason.clone(), code.clone())), "{reason} {code}");
    }
}

// Whoever checks an own canonicalizer against the worked example would look for a fault that is in
// the page.
#[test]
fn the_worked_example_is_right() {
    use baton::core::digest::Digest;
    use baton::proto::baton::v1::ContractDocument;
    let text = read("docs/receipt.md");
    let mut blocks = text.split("```\n").skip(1).step_by(2).map(str::trim_end);
    let (canonical, digest) = (blocks.next().expect("a text"), blocks.next().expect("a digest"));
    assert_eq!(Digest::of(canonical.as_bytes()).to_string(), digest);
    let input: serde_json::Value = serde_json::from_str(canonical).expect("JSON");
    let of = baton::wire::canon::descriptor("baton.v1.ContractDocument").expect("a message");
    let dynamic = prost_reflect::DynamicMessage::deserialize(of, &input).expect("a document");
    let document = ContractDocument::decode(&*dynamic.encode_to_vec()).expect("a document");
    let ours = baton::wire::canon::canonical_json(&document).expect("a canonical form");
    assert_eq!(String::from_utf8(ours).expect("UTF-8"), canonical);
}

// A reader follows a path to a test or an example that is not there.
#[test]
fn paths_that_are_named_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in ["README.md", "docs/rpc.md", "docs/receipt.md", "docs/store.md"] {
        let text = read(page);
        let words = text.split(|c: char| c.is_whitespace() || "`()[],;".contains(c));
        let ours = ["tests/", "examples/", "docs/", "fixtures/", "src/", "./check", "./demo"];
        for word in words.filter(|w| ours.iter().any(|o| w.starts_with(o))) {
            let path = word.trim_end_matches(['.', ':']);
            assert!(root.join(path).exists(), "{page} names {path}");
        }
    }
}

// An operator sets a key that does not exist, or relies on a default that is another one.
#[test]
fn configuration_keys_and_defaults_are_those_of_the_code() {
    let loaded = baton::config::Config::load_from(None, &|_| None, &Default::default());
    let settings = loaded.expect("defaults").effective();
    let rows = rows(&read("README.md"), "## Configuration");
    let listed: Vec<(String, String)> = rows
        .iter()
        .filter_map(|row| Some((row.first()?.replace('`', ""), row.get(1)?.replace('`', ""))))
        .collect();
    let wanted: Vec<(String, String)> = settings
        .iter()
        .map(|s| (s.key.to_owned(), s.value.trim_matches('"').replace("(none)", "none")))
        .collect();
    assert_eq!(listed, wanted);
}
