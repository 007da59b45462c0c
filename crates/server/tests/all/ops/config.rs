//! What a server is told, and by whom.

use std::path::Path;

use headwater_server::config::{Config, ConfigError, FileText, LogFormat};
use serde_json::{Value, json};

fn load(file: &str, environment: &[(&str, &str)], flags: Value) -> Result<Config, ConfigError> {
    let file = FileText { name: Path::new("some.toml"), text: file };
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(Some(file), environment, flags)
}

fn refused(file: &str, environment: &[(&str, &str)], flags: Value) -> String {
    load(file, environment, flags).unwrap_err().to_string()
}

#[test]
fn with_nothing_said_a_server_is_sensible() {
    let config = Config::load(None, [], json!({})).unwrap();
    assert_eq!((config.data.as_str(), config.port, config.no_auth), ("./data", 8080, false));
    assert!(config.listen.is_loopback() && config.fsync);
    assert!(config.keep_alive_seconds > 300, "clients keep idle connections for 300 s");
    assert_eq!(config.keys_file(), Path::new("./data/headwater-keys.toml"));
}

#[test]
fn flags_go_before_environment_and_that_before_the_file_and_that_before_defaults() {
    let file = "port = 1\ndata = 'file'\ndrain_seconds = 7\n[limits]\nwrites = 5\nreads = 6\n";
    let environment = [
        ("HEADWATER_SERVE_PORT", "2"),
        ("HEADWATER_SERVE_DATA", "environment"),
        ("HEADWATER_SERVE_LIMITS__WRITES", "9"),
        ("HEADWATER_SERVE_LOG__FORMAT", "json"),
    ];
    let config = load(file, &environment, json!({ "port": 3, "log": { "level": "debug" } })).unwrap();
    assert_eq!((config.port, config.data.as_str(), config.drain_seconds), (3, "environment", 7));
    assert_eq!((config.limits.writes, config.limits.reads, config.limits.connections), (9, 6, 4096));
    assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Json, "debug"));
}

#[test]
fn a_name_nobody_knows_is_refused_with_the_nearest_and_where_it_stands() {
    let text = refused("prot = 1", &[], json!({}));
    assert!(text.starts_with("some.toml: there is no setting prot; near it are port"), "{text}");
    let text = refused("[limits]\nwrite = 1", &[], json!({}));
    assert!(text.contains("limits.write; near it are limits.writes"), "{text}");
    let text = refused("", &[("HEADWATER_SERVE_NO_AUHT", "true")], json!({}));
    assert!(text.contains("environment") && text.contains("no_auht") && text.contains("no_auth"), "{text}");
    let text = refused("", &[], json!({ "tls": { "crt": "x" } }));
    assert!(text.starts_with("flags: ") && text.contains("tls.cert"), "{text}");
    // A group is no setting.
    assert!(refused("limits = 3", &[], json!({})).contains("limits"));
}

#[test]
fn variables_that_orchestrators_set_for_a_service_of_that_name_are_not_settings() {
    let environment = [("HEADWATER_PORT", "tcp://10.0.0.1:80"), ("HEADWATER_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(load("", &environment, json!({})).unwrap().port, 8080);
}

#[test]
fn a_value_of_the_wrong_kind_is_named() {
    let text = refused("port = 'eighty'", &[], json!({}));
    assert!(text.contains("some.toml: port: ") && text.contains("eighty"), "{text}");
    let text = refused("", &[("HEADWATER_SERVE_LISTEN", "nowhere")], json!({}));
    assert!(text.contains("listen"), "{text}");
}

#[test]
fn a_server_without_keys_listens_on_loopback_only() {
    for address in ["0.0.0.0", "192.168.1.7", "::"] {
        let text = refused("no_auth = true", &[], json!({ "listen": address }));
        assert!(text.starts_with("no_auth: ") && text.contains(address), "{text}");
        load("", &[], json!({ "listen": address })).unwrap();
    }
    for address in ["127.0.0.1", "127.1.2.3", "::1"] {
        assert!(load("no_auth = true", &[], json!({ "listen": address })).unwrap().no_auth);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (file, name) in [
        ("data = ''", "data"),
        ("[tls]\ncert = 'x'", "tls.key"),
        ("[tls]\nkey = 'x'", "tls.cert"),
        ("[limits]\nreads = 0", "limits.reads"),
        ("[limits]\nreply_stall_seconds = 0", "limits.reply_stall_seconds"),
        ("[tables]\nidle_close_seconds = 0", "tables.idle_close_seconds"),
        ("[limits]\nbody_bytes = 1", "limits.body_bytes"),
        ("[shard.freeze]\nmax_row = 1", "freeze.max_rows"),
        ("[shard.freeze]\nmax_rows = 'many'", "freeze.max_rows"),
    ] {
        let text = refused(file, &[], json!({}));
        assert!(text.contains(name), "{file}: {text}");
    }
}

#[test]
fn settings_of_shards_reach_the_shards() {
    let environment = [("HEADWATER_SERVE_SHARD__FREEZE__MAX_ROWS", "123")];
    let (settings, given) = load("", &environment, json!({})).unwrap().shard_settings().unwrap();
    assert_eq!(settings.freeze.max_rows, 123);
    assert_eq!(given.into_iter().collect::<Vec<_>>(), ["freeze.max_rows"]);
}

#[test]
fn credentials_are_taken_as_they_are_and_shown_nowhere() {
    let file = "[storage]\naws_secret_access_key = 'sesame-of-the-file'\nallow_http = true\n";
    let environment = [("HEADWATER_SERVE_STORAGE__AWS_SESSION_TOKEN", "0012")];
    let config = load(file, &environment, json!({})).unwrap();
    let option = |name: &str| config.storage.0[name].as_str();
    assert_eq!(option("aws_session_token"), "0012", "leading zeros and all");
    assert_eq!((option("aws_secret_access_key"), option("allow_http")), ("sesame-of-the-file", "true"));
    let shown = format!("{config:?}");
    assert!(shown.contains("aws_secret_access_key") && !shown.contains("sesame"), "{shown}");
    // Neither do errors show them.
    let text = refused("[storage]\naws_secret_access_key = ['sesame']\n", &[], json!({}));
    assert!(!text.contains("sesame"), "{text}");
    let text = refused("port = 1\n[storage]\naws_secret_access_key = sesame", &[], json!({}));
    assert!(
        text.starts_with("some.toml: ") && text.ends_with(" in line 3") && !text.contains("sesame"),
        "{text}"
    );
}

#[test]
fn the_keys_file_is_with_the_data_where_that_is_a_directory() {
    let keys = |data: &str| load("", &[], json!({ "data": data })).unwrap().keys_file();
    assert_eq!(keys("/srv/tables"), Path::new("/srv/tables/headwater-keys.toml"));
    assert_eq!(keys("file:///srv/tables"), Path::new("/srv/tables/headwater-keys.toml"));
    assert_eq!(keys("s3://bucket/tables"), Path::new("headwater-keys.toml"));
    let named = load("keys = '/etc/keys.toml'", &[], json!({ "data": "s3://bucket" })).unwrap();
    assert_eq!(named.keys_file(), Path::new("/etc/keys.toml"));
}
