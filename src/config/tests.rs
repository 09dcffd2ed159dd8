//! The configuration as operators write it, well and badly.
//!
//! What lives here: layers, origins and checks. What does not: what the values do.

use std::ffi::OsString;

use super::*;

fn nothing(_: &str) -> Option<OsString> {
    None
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baton.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn problems(config: &Config) -> String {
    config.check().unwrap_err().problems.join("\n")
}

// A default that does not pass its own checks makes the first start fail.
#[test]
fn defaults_are_usable_and_listen_on_this_machine_alone() {
    let config = Config::load_from(None, &nothing, &Overrides::default()).unwrap().config;
    assert_eq!(config, Config::default());
    config.check().unwrap();
    assert!(config.listen_addr().unwrap().ip().is_loopback());
    assert_eq!(config.warnings(), Vec::<String>::new());
}

// A key that is missing in one of the places can be set there and has no effect.
#[test]
fn every_key_can_be_set_everywhere() {
    let path = || Some(PathBuf::from("x"));
    let overrides = Overrides {
        listen: Some("x".to_owned()),
        data_dir: path(),
        principals_file: path(),
        allow_unprotected_bind: Some(true),
        lease_ms: Some(1),
        offer_ttl_s: Some(1),
        offer_ttl_max_s: Some(1),
        claims_max: Some(1),
        attempts_max: Some(1),
        observed_skew_s: Some(1),
        cache_mib: Some(1),
        message_bytes_max: Some(1),
        streams_max: Some(1),
        test_mode: Some(true),
    };
    let full = Config { principals_file: path(), ..Config::default() };
    let mut keys: Vec<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    keys.sort();
    assert_eq!(table(&full).unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
    assert_eq!(
        table(&overrides).unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
        keys
    );
    let loaded = Config::load_from(None, &nothing, &overrides).unwrap();
    assert!(loaded.effective().iter().all(|setting| setting.origin == Origin::Flag));
    let variable = |name: &str| {
        let key = name.strip_prefix("BATON_").unwrap().to_ascii_lowercase();
        let (_, kind) = KEYS.iter().find(|(known, _)| *known == key).unwrap();
        Some(OsString::from(match kind {
            Kind::Text => "x",
            Kind::Whole => "1",
            Kind::Switch => "true",
        }))
    };
    let from_variables = Config::load_from(None, &variable, &Overrides::default()).unwrap();
    assert_eq!(from_variables.config, loaded.config);
    let origins: Vec<Origin> = from_variables.effective().iter().map(|s| s.origin).collect();
    assert!(origins.iter().all(|origin| *origin == Origin::Environment));
    let (_folder, path) = file(&toml::to_string(&loaded.config).unwrap());
    let from_file = Config::load_from(Some(&path), &nothing, &Overrides::default()).unwrap();
    assert_eq!(from_file.config, loaded.config);
}

// A principals file that is named in a misspelt variable leaves the broker without authentication.
#[test]
fn misspelt_variables_are_told_apart() {
    for name in ["BATON_PRINCIPAL_FILE", "BATON_LISTEN_ADDRESS", "BATON_"] {
        assert!(check::is_misspelt(name), "{name}");
    }
    for name in [
        "BATON_PRINCIPALS_FILE",
        "BATON_LOG",
        "BATON_TOKEN",
        "BATON_SERVICE_HOST",
        "BATON_PORT_7717_TCP",
        "HOME",
    ] {
        assert!(!check::is_misspelt(name), "{name}");
    }
}

// An operator who overrides a value for one start must get that value, and see where it is from.
#[test]
fn flags_win_over_the_environment_over_the_file_over_the_default() {
    let (_folder, path) = file("lease_ms = 1\nclaims_max = 1\nattempts_max = 1\n");
    let environment = |name: &str| match name {
        "BATON_LEASE_MS" | "BATON_CLAIMS_MAX" => Some(OsString::from("2")),
        "BATON_CACHE_MIB" => Some(OsString::new()),
        _ => None,
    };
    let flags = Overrides { lease_ms: Some(3), ..Overrides::default() };
    let loaded = Config::load_from(Some(&path), &environment, &flags).unwrap();
    let shown: Vec<String> = loaded
        .effective()
        .iter()
        .filter(|s| ["lease_ms", "claims_max", "attempts_max", "cache_mib"].contains(&s.key))
        .map(|s| format!("{} = {} ({})", s.key, s.value, s.origin))
        .collect();
    let expected = [
        "lease_ms = 3 (flag)",
        "claims_max = 2 (environment)",
        "attempts_max = 1 (file)",
        "cache_mib = 64 (default)",
    ];
    assert_eq!(shown, expected);
    let none = loaded.effective().into_iter().find(|s| s.key == "principals_file").unwrap();
    assert_eq!(none.value, "(none)");
}

// A misspelt key that is ignored leaves a broker open that was meant to be closed.
#[test]
fn what_cannot_be_read_is_told_at_once_with_its_place() {
    let (_folder, path) = file("listen = \"127.0.0.1:1\"\nprincipal_file = \"x\"\n");
    let environment = |name: &str| match name {
        "BATON_LEASE_MS" => Some(OsString::from("30s")),
        "BATON_TEST_MODE" => Some(OsString::from("yes")),
        _ => None,
    };
    let error = Config::load_from(Some(&path), &environment, &Overrides::default()).unwrap_err();
    assert_eq!(error.problems.len(), 3, "{error}");
    let text = error.to_string();
    for part in [
        "baton.toml",
        "line 2",
        "`principal_file`",
        "BATON_LEASE_MS = \"30s\" is not usable; give a whole number",
        "BATON_TEST_MODE = \"yes\" is not usable; give true or false",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let missing = path.with_file_name("other.toml");
    let error = Config::load_from(Some(&missing), &nothing, &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("other.toml cannot be read"), "{error}");
    let (_folder, path) = file("lease_ms = \"30s\"\n");
    let error = Config::load_from(Some(&path), &nothing, &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
}

// A broker without authentication that strangers reach lets anybody act as anybody.
#[test]
fn other_machines_are_listened_to_only_when_that_is_meant() {
    for listen in ["0.0.0.0:7717", "[::]:7717", "192.0.2.1:7717"] {
        let open = Config { listen: listen.to_owned(), ..Config::default() };
        assert!(problems(&open).contains("no authentication"), "{listen}");
        let meant = Config { allow_unprotected_bind: true, ..open.clone() };
        meant.check().unwrap();
        assert!(meant.warnings()[0].contains("act as anybody"));
        let closed = Config { principals_file: Some(PathBuf::from("p.toml")), ..open };
        closed.check().unwrap();
        assert!(closed.warnings()[0].contains("unencrypted"));
    }
    for listen in ["127.0.0.1:0", "[::1]:7717", "localhost:7717", "127.9.9.9:1"] {
        Config { listen: listen.to_owned(), ..Config::default() }.check().unwrap();
    }
    for listen in ["", "7717", "example.com:7717", "127.0.0.1", "localhost"] {
        let config = Config { listen: listen.to_owned(), ..Config::default() };
        assert!(problems(&config).contains("is no address"), "{listen}");
    }
}

// A limit of zero or below refuses everything, or wraps around; a contradiction shows only at
// night.
#[test]
fn all_values_that_make_no_sense_are_told() {
    let config = Config {
        listen: "0.0.0.0:1".to_owned(),
        data_dir: PathBuf::new(),
        principals_file: None,
        lease_ms: 0,
        offer_ttl_s: 0,
        offer_ttl_max_s: -1,
        claims_max: 0,
        attempts_max: -5,
        observed_skew_s: -1,
        cache_mib: 0,
        message_bytes_max: 0,
        streams_max: 0,
        ..Config::default()
    };
    let error = config.check().unwrap_err();
    assert_eq!(error.problems.len(), 12, "{error}");
    let text = error.to_string();
    for (key, kind) in KEYS {
        if matches!(kind, Kind::Whole) {
            assert!(text.contains(&format!("{key} = ")), "{key} in {text}");
        }
    }
    let long = Config { lease_ms: 901_000, ..Config::default() };
    assert!(problems(&long).contains("longer than an offer stands"));
    let most = Config { lease_ms: i64::MAX, offer_ttl_s: i64::MAX, ..Config::default() };
    assert!(problems(&most).contains("give a value of"));
}

// Flags that are dropped together because one of them is odd leave a broker open, say.
#[cfg(unix)]
#[test]
fn a_path_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt as _;
    let data_dir = Some(PathBuf::from(OsString::from_vec(vec![0xff])));
    let overrides = Overrides { data_dir, test_mode: Some(true), ..Overrides::default() };
    let error = Config::load_from(None, &nothing, &overrides).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}
