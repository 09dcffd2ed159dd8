//! The canonical form: the shipped vectors, the rules at their edges, and a second opinion in
//! another language. `BATON_BLESS=1` writes the results into the vectors.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![expect(clippy::unwrap_used, reason = "a test may end by a panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton::core::digest::Digest;
use baton::proto::baton::v1 as pb;
use baton::proto::lf::a2a::v1 as a2a;
use baton::wire::canon;
use proptest::prelude::*;
use prost::{Message, Name};
use prost_reflect::DynamicMessage;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Timestamp, Value as Dynamic};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Vector {
    name: String,
    message: String,
    input: Value,
    canonical: String,
    digest: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn vectors() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("fixtures/canon")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths
}

fn typed<M: Message + Name + Default>(encoded: &[u8]) -> Vec<u8> {
    canon::canonical_json(&M::decode(encoded).unwrap()).unwrap()
}

/// The canonical bytes by descriptor, and the same through the generated type.
fn canonical(message: &str, input: &Value) -> Vec<u8> {
    if message == "rfc8785" {
        return canon::canonical_value(input).unwrap();
    }
    let descriptor = canon::descriptor(message).unwrap_or_else(|| panic!("no {message}"));
    let dynamic = DynamicMessage::deserialize(descriptor, input).unwrap();
    let encoded = dynamic.encode_to_vec();
    let typed = match message {
        "baton.v1.ArtifactDescriptorList" => typed::<pb::ArtifactDescriptorList>(&encoded),
        "baton.v1.AuthorizationScope" => typed::<pb::AuthorizationScope>(&encoded),
        "baton.v1.ContractDocument" => typed::<pb::ContractDocument>(&encoded),
        "baton.v1.HandoffPacket" => typed::<pb::HandoffPacket>(&encoded),
        "baton.v1.SourceSnapshot" => typed::<pb::SourceSnapshot>(&encoded),
        "lf.a2a.v1.Message" => typed::<a2a::Message>(&encoded),
        other => panic!("add {other} to this match"),
    };
    assert_eq!(canon::canonical_dynamic(dynamic, &[]).unwrap(), typed, "{message}");
    typed
}

/// Writes the results behind the input and leaves the input's own text as it is.
fn bless(path: &Path, canonical: &str, digest: &str) {
    let text = fs::read_to_string(path).unwrap();
    let (head, _) = text.split_once("\n  \"canonical\":").unwrap();
    let canonical = serde_json::to_string(canonical).unwrap();
    let text = format!("{head}\n  \"canonical\": {canonical},\n  \"digest\": \"{digest}\"\n}}\n");
    fs::write(path, text).unwrap();
}

// A change of one byte makes every digest stored anywhere a mismatch.
#[test]
fn shipped_vectors_hold() {
    let paths = vectors();
    assert!(paths.len() >= 10, "vectors are missing");
    for path in paths {
        let vector: Vector = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), vector.name);
        let canonical = canonical(&vector.message, &vector.input);
        let digest = Digest::of(&canonical).to_string();
        let canonical = String::from_utf8(canonical).unwrap();
        if std::env::var_os("BATON_BLESS").is_some() {
            bless(&path, &canonical, &digest);
            continue;
        }
        assert_eq!(canonical, vector.canonical, "{}", vector.name);
        assert_eq!(digest, vector.digest, "{}", vector.name);
    }
}

// A receiver in another language that computes another digest can never acknowledge.
#[test]
fn another_language_computes_the_same() {
    let script = root().join("tests/python/check_canon.py");
    let output = Command::new("python3").arg(script).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{} vectors read", vectors().len())), "{said}");
}

fn text<M: Message + Name>(message: &M) -> String {
    String::from_utf8(canon::canonical_json(message).unwrap()).unwrap()
}

// Absent, empty and default are different statements; a digest must tell them apart.
#[test]
fn presence_decides_what_is_printed() {
    assert_eq!(text(&pb::SourceEntity::default()), "{}");
    let entity = pb::SourceEntity {
        digest: Some(String::new()),
        size_bytes: Some(0),
        ..pb::SourceEntity::default()
    };
    assert_eq!(text(&entity), r#"{"digest":"","sizeBytes":"0"}"#);
    let field = pb::TextField { state: Some(pb::text_field::State::Value(String::new())) };
    assert_eq!(text(&field), r#"{"value":""}"#);
    let list = pb::TextListField {
        state: Some(pb::text_list_field::State::Value(pb::TextList { items: vec![] })),
    };
    assert_eq!(text(&list), r#"{"value":{}}"#);
    let part = pb::ArtifactPart {
        media_type: String::new(),
        content: Some(pb::artifact_part::Content::Raw(vec![0xfb, 0xff])),
    };
    assert_eq!(text(&part), r#"{"raw":"+/8="}"#);
}

// A packet carries its own digest in places; it cannot be part of what it digests.
#[test]
fn named_fields_are_left_out() {
    let handoff = pb::Handoff {
        handoff_id: "h".to_owned(),
        packet_digest: "d".to_owned(),
        ..pb::Handoff::default()
    };
    let without = canon::canonical_json_without(&handoff, &["packet_digest"]).unwrap();
    assert_eq!(without, br#"{"handoffId":"h"}"#);
    let digest = canon::digest_without(&handoff, &["packet_digest"]).unwrap();
    assert_eq!(digest, Digest::of(&without));
    assert_ne!(canon::digest(&handoff).unwrap(), digest);
    let error = canon::digest_without(&handoff, &["packetDigest"]).unwrap_err().to_string();
    assert!(error.contains("no field packetDigest"), "{error}");
}

// Nanoseconds survive in one language and are cut in another; the digests would differ.
#[test]
fn times_and_durations_have_six_digits() {
    assert_eq!(text(&Timestamp { seconds: 0, nanos: 0 }), r#""1970-01-01T00:00:00.000000Z""#);
    assert_eq!(text(&Timestamp { seconds: -1, nanos: 1000 }), r#""1969-12-31T23:59:59.000001Z""#);
    assert_eq!(text(&Duration { seconds: 1, nanos: 500_000_000 }), r#""1.500000s""#);
    assert_eq!(text(&Duration { seconds: 0, nanos: -1000 }), r#""-0.000001s""#);
    let refused = |seconds, nanos| canon::digest(&Timestamp { seconds, nanos }).unwrap_err();
    assert!(refused(0, 1).to_string().contains("1 ns"));
    assert!(refused(0, -1000).to_string().contains("1 to 9999"));
    assert!(refused(253_402_300_800, 0).to_string().contains("1 to 9999"));
    assert!(refused(i64::MIN, 0).to_string().contains("1 to 9999"));
    for (seconds, nanos) in [(1, -1000), (315_576_000_001, 0), (i64::MIN, 0), (0, i32::MIN)] {
        assert!(canon::digest(&Duration { seconds, nanos }).is_err(), "{seconds} {nanos}");
    }
}

// A caller that is not told which field is wrong cannot repair a packet of forty fields.
#[test]
fn an_error_names_the_field() {
    let entity = pb::SourceEntity {
        obtained_at: Some(Timestamp { seconds: 0, nanos: 7 }),
        ..pb::SourceEntity::default()
    };
    let snapshot = pb::SourceSnapshot { entities: vec![pb::SourceEntity::default(), entity] };
    let error = canon::digest(&snapshot).unwrap_err().to_string();
    assert!(error.starts_with("entities[1].obtainedAt: 7 ns"), "{error}");
    let packet = pb::HandoffPacket { runtime_status: 99, ..pb::HandoffPacket::default() };
    let error = canon::digest(&packet).unwrap_err().to_string();
    assert!(error.starts_with("runtimeStatus: enum number 99"), "{error}");
    let data = json!({ "a": [1, { "b": 9_007_199_254_740_993_u64 }] });
    let error = canon::element_digest(&data).unwrap_err().to_string();
    assert!(error.starts_with("a[1].b: the number is above 2^53"), "{error}");
}

fn dynamic(kind: Kind) -> Dynamic {
    Dynamic { kind: Some(kind) }
}

fn data(value: Dynamic) -> a2a::Part {
    a2a::Part { content: Some(a2a::part::Content::Data(value)), ..a2a::Part::default() }
}

// Metadata of a message is part of what a receiver hashes.
#[test]
fn structs_are_native_json() {
    let values = vec![
        dynamic(Kind::NullValue(0)),
        dynamic(Kind::BoolValue(false)),
        dynamic(Kind::NumberValue(-0.0)),
        dynamic(Kind::NumberValue(9_007_199_254_740_992.0)),
        dynamic(Kind::StringValue(String::new())),
        dynamic(Kind::StructValue(Struct::default())),
    ];
    let list = data(dynamic(Kind::ListValue(ListValue { values })));
    assert_eq!(text(&list), r#"{"data":[null,false,0,9007199254740992,"",{}]}"#);
    for bad in [f64::NAN, f64::INFINITY, 9_007_199_254_740_994.0, -1e300] {
        let fields = [("n".to_owned(), dynamic(Kind::NumberValue(bad)))].into();
        let part = a2a::Part { metadata: Some(Struct { fields }), ..a2a::Part::default() };
        let error = canon::digest(&part).unwrap_err().to_string();
        assert!(error.starts_with("metadata.n: the number"), "{error}");
    }
    let error = canon::digest(&data(Dynamic { kind: None })).unwrap_err().to_string();
    assert!(error.starts_with("data: the value has no kind"), "{error}");
}

// A hostile depth must be an error, not an overflow of the stack.
#[test]
fn deep_nesting_is_refused() {
    let mut value = dynamic(Kind::NullValue(0));
    for _ in 0..500 {
        value = dynamic(Kind::ListValue(ListValue { values: vec![value] }));
    }
    assert!(canon::digest(&data(value)).is_err());
}

// The rule for parts decides whether a verifier can recompute an artifact's digest.
#[test]
fn parts_are_digested_as_they_are() {
    let raw = canon::part_digest_raw(b"\r\n");
    assert_eq!(raw, Digest::of(b"\r\n"));
    let words = canon::part_digest_text("\u{e4}");
    assert_eq!(words, Digest::of("\u{e4}".as_bytes()));
    let data = canon::part_digest_data(&json!({ "b": 1.0, "a": [] })).unwrap();
    assert_eq!(data, Digest::of(br#"{"a":[],"b":1}"#));
    assert_eq!(canon::artifact_digest(&[("text/plain", words)]).unwrap(), words);
    let both = canon::artifact_digest(&[("text/plain", words), ("image/png", raw)]).unwrap();
    let entry =
        |media_type, digest| format!(r#"{{"digest":"{digest}","mediaType":"{media_type}"}}"#);
    let list = format!("[{},{}]", entry("text/plain", words), entry("image/png", raw));
    assert_eq!(both, Digest::of(list.as_bytes()));
    assert!(canon::artifact_digest(&[]).is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let name = "[a-bZ\\n\u{e4}\u{e000}\u{ff21}\u{1f4c4}\u{10ffff}]{0,3}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        (-9.0e15..9.0e15).prop_map(Value::from),
        (-1.0..1.0).prop_map(|f: f64| Value::from(f.powi(9))),
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    // A value that two writers print differently has two digests.
    #[test]
    fn an_independent_canonicalizer_prints_the_same(value in values()) {
        let theirs = serde_json_canonicalizer::to_string(&value).unwrap();
        let ours = String::from_utf8(canon::canonical_value(&value).unwrap()).unwrap();
        prop_assert_eq!(ours, theirs);
    }
}
