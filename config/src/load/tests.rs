use serde_json::json;
use std::collections::BTreeSet;

use super::*;
use crate::example::service;
use crate::settings::{Confine, FileMode, LogFormat, LogLevel, Originals};
use crate::table::{DefaultValue, toml_text};

fn with_file(text: &str, vars: &[(&str, &str)], set: &[&str]) -> Result<Loaded, Diagnostics> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("onnxd.toml");
    std::fs::write(&file, text).unwrap();
    let mut environment = service();
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    environment.vars.extend(vars);
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    load(Some(&file), &environment, &set)
}

fn messages(result: Result<Loaded, Diagnostics>) -> Vec<String> {
    let found = result.map(|l| l.settings).unwrap_err();
    found.0.iter().map(|d| format!("{} {}", d.code, d.message)).collect()
}

fn origin<'a>(loaded: &'a Loaded, key: &str) -> &'a str {
    &loaded.entries.iter().find(|e| e.key == key).unwrap().origin
}

#[test]
fn every_row_has_a_readable_default_and_help() {
    let mut keys = BTreeSet::new();
    let entries = defaults(&service());
    for (row, entry) in ROWS.iter().zip(&entries) {
        assert!(keys.insert(row.key.clone()), "{} is there twice", row.key);
        assert!(row.help.ends_with('.'), "{}", row.key);
        assert_eq!(row.default_value().is_none(), matches!(row.default, DefaultValue::Computed(_)));
        let checked = row.kind.check(entry.value.clone()).unwrap();
        assert_eq!(checked, entry.value, "{}", row.key);
        assert_eq!(row.kind.read(&toml_text(&entry.value)).unwrap(), entry.value, "{}", row.key);
    }
}

#[test]
fn every_word_has_a_typed_value() {
    for row in ROWS.iter() {
        if let ValueKind::OneOf(words) = &row.kind {
            for word in words {
                with_file("", &[], &[&format!("{}={word}", row.key)]).unwrap();
            }
        }
    }
}

#[test]
fn defaults_of_a_service_and_of_a_user() {
    let s = with_file("", &[], &[]).unwrap().settings;
    assert_eq!(s.intake.inbox, Path::new("/var/lib/onnxd/inbox"));
    assert_eq!(s.state.dir, Path::new("/var/lib/onnxd/state"));
    assert_eq!(s.control.socket, Path::new("/run/onnxd/control.sock"));
    assert_eq!((s.worker.parallel_max, s.worker.threads), (2, 2));
    assert_eq!(s.output.mode, FileMode(0o644));
    assert_eq!(s.output.originals, Originals::Move);
    assert_eq!(s.worker.confine, Confine::BestEffort);
    assert_eq!((s.log.level, s.log.format), (LogLevel::Info, LogFormat::Auto));
    let places = ["/usr/bin", "/usr/lib/onnxd/plugins"].map(PathBuf::from);
    assert_eq!(service().plugin_dirs(), places);
    assert!(s.plugins.path.is_empty() && s.plugins.builtin);

    let mut user = Environment { cores: 1, current_dir: "/work".into(), ..Default::default() };
    user.vars.insert("HOME".into(), "/home/eva".into());
    let s = load(None, &user, &[]).unwrap().settings;
    assert_eq!(s.output.outbox, Path::new("/home/eva/onnxd/outbox"));
    assert_eq!(s.state.dir, Path::new("/home/eva/.local/state/onnxd"));
    assert_eq!(s.control.socket, Path::new("/home/eva/.local/state/onnxd/control.sock"));
    assert_eq!((s.worker.parallel_max, s.worker.threads), (1, 1));
    assert_eq!(s.worker.threads_max, 1 + 2 + 64);
    user.vars.insert("XDG_STATE_HOME".into(), "/s".into());
    assert_eq!(load(None, &user, &[]).unwrap().settings.state.dir, Path::new("/s/onnxd"));
}

#[test]
fn the_last_layer_wins_and_origins_tell() {
    let text = "[intake]\nsettle_ms = 1\nrescan_s = 2\npoll = true\n";
    let vars = [("ONNXD_INTAKE_RESCAN_S", "3"), ("ONNXD_INTAKE_POLL", "0")];
    let loaded = with_file(text, &vars, &["intake.poll=1", "log.level=debug"]).unwrap();
    let intake = &loaded.settings.intake;
    assert_eq!((intake.settle_ms, intake.rescan_s, intake.poll), (1, 3, true));
    assert!(origin(&loaded, "intake.settle_ms").ends_with("/onnxd.toml:2"));
    assert_eq!(origin(&loaded, "intake.rescan_s"), "ONNXD_INTAKE_RESCAN_S");
    assert_eq!(origin(&loaded, "intake.poll"), "--set");
    assert_eq!(origin(&loaded, "intake.inbox"), "default");
}

#[test]
fn paths_are_relative_to_where_they_stand() {
    let text = "[paths]\nroot = \"data\"\n[plugins]\npath = [\"p\", \"/q\", \"~/r\"]\n";
    let vars = [("HOME", "/home/eva"), ("ONNXD_OUTPUT_DONE", "d")];
    let loaded = with_file(text, &vars, &["output.failed=f"]).unwrap();
    let folder = loaded.file.as_ref().unwrap().parent().unwrap().to_owned();
    let s = loaded.settings;
    assert_eq!(s.intake.inbox, folder.join("data/inbox"));
    assert_eq!(s.plugins.path, [folder.join("p"), "/q".into(), "/home/eva/r".into()]);
    assert_eq!((s.output.done, s.output.failed), ("/d".into(), "/f".into()));
    let listed = with_file("", &[("ONNXD_PLUGINS_PATH", "/a:/b")], &[]).unwrap();
    assert_eq!(listed.settings.plugins.path, [Path::new("/a"), Path::new("/b")]);
}

#[test]
fn everything_wrong_is_named_at_once() {
    let text = "[intake]\nsetle_ms = 1\nrescan_s = \"often\"\n[wroker]\nthreads = 1\n\
                [output]\nmode = \"0888\"\n";
    let vars = [("ONNXD_JOBS_ATTEMPT_MAX", "1"), ("ONNXD_LOG_LEVEL", "loud"), ("ONNXD_OTHER", "")];
    let found = messages(with_file(text, &vars, &["worker.cpu_s=-1", "nonsense"]));
    let expected = [
        "N0702 F:2: unknown key `intake.setle_ms`; did you mean `intake.settle_ms`?",
        "N0703 F:3: `intake.rescan_s` must be an integer from 1 to 86400, not \"often\".",
        "N0702 F:4: unknown key `wroker`; did you mean `worker`?",
        "N0703 F:7: `output.mode` must be an octal file mode such as \"0644\", not \"0888\".",
        "N0703 ONNXD_LOG_LEVEL: `log.level` must be \"error\" | \"warn\" | \"info\" | \"debug\" | \
         \"trace\", not \"loud\".",
        "N0702 ONNXD_JOBS_ATTEMPT_MAX: unknown key `jobs.attempt_max`; did you mean \
         `jobs.attempts_max`?",
        "N0703 --set: `worker.cpu_s` must be an integer from 0 to 31536000, not -1.",
        "N0704 `--set nonsense` is not of the form KEY=VALUE.",
    ];
    let cut = |m: &String| match (m.find(" /"), m.find("onnxd.toml")) {
        (Some(a), Some(b)) => format!("{} F{}", &m[..a], &m[b + "onnxd.toml".len()..]),
        _ => m.clone(),
    };
    assert_eq!(found.iter().map(cut).collect::<Vec<_>>(), expected);
}

#[test]
fn unreadable_files_and_syntax_are_diagnostics() {
    let found = messages(with_file("[intake]\npoll = maybe\n[log\nlevel = \"info\"\n", &[], &[]));
    assert!(found.len() >= 2, "{found:?}");
    assert!(found[0].starts_with("N0701 ") && found[0].contains("onnxd.toml:2: "), "{found:?}");
    assert!(found[1].contains("onnxd.toml:3: "), "{found:?}");
    let missing = load(Some(Path::new("/nowhere/onnxd.toml")), &service(), &[]);
    assert!(messages(missing)[0].starts_with("N0701 /nowhere/onnxd.toml: "));
    let large = format!("#{}", "x".repeat(BYTES_MAX));
    assert!(messages(with_file(&large, &[], &[]))[0].contains("more than 1048576 bytes"));
    let section = messages(with_file("intake = 3\n", &[], &[]));
    assert!(section[0].contains("`intake` is a section, not a key"), "{section:?}");
    let mut environment = service();
    environment.not_text.push("ONNXD_PATHS_ROOT".to_owned());
    let found = messages(load(None, &environment, &[]));
    assert_eq!(found, ["N0703 ONNXD_PATHS_ROOT: the value is not UTF-8 text."]);
}

#[test]
fn findings_are_bounded() {
    let text: String = (0..5_000).map(|i| format!("key{i} = 1\n")).collect();
    let found = messages(with_file(&text, &[], &[]));
    assert_eq!(found.len(), 101);
    assert!(found[100].contains("4900 more"), "{}", found[100]);
}

#[test]
fn folders_do_not_lie_in_each_other() {
    let refused = [
        ("output.outbox=/var/lib/onnxd/inbox", "must not be the inbox or lie inside it"),
        ("output.done=/var/lib/onnxd/inbox/done", "must not be the inbox or lie inside it"),
        ("state.dir=/var/lib/onnxd/x/../inbox/s", "must not be the inbox or lie inside it"),
        ("output.failed=/var/lib", "must not contain the inbox"),
        ("output.failed=/var/lib/onnxd/outbox/", "must differ from `output.outbox`"),
    ];
    for (set, why) in refused {
        let found = messages(with_file("", &[], &[set]));
        assert!(found.iter().any(|m| m.contains(why)), "{set}: {found:?}");
    }
    with_file("", &[], &["output.done=/var/lib/onnxd/inbox2"]).unwrap();
}

#[test]
fn a_link_into_the_inbox_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let inbox = dir.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    std::os::unix::fs::symlink(&inbox, dir.path().join("elsewhere")).unwrap();
    let set = [
        format!("intake.inbox={}", inbox.display()),
        format!("output.outbox={}/elsewhere/out", dir.path().display()),
    ];
    let found = messages(load(None, &service(), &set));
    assert!(found[0].contains("must not be the inbox or lie inside it"), "{found:?}");
}

#[test]
fn params_of_the_settings_lie_under_those_of_a_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("onnxd.toml");
    let text =
        "[jobs]\nattempts_max = 2\n[defaults.export]\nopset = 18\nstrip_doc_string = false\n";
    std::fs::write(&file, text).unwrap();
    let loaded = load(Some(&file), &Environment::default(), &[]).unwrap();
    assert_eq!(loaded.settings.jobs.attempts_max, 2);
    let presets = [loaded.settings.defaults];
    let of = |text: &str| {
        let files = [("params.toml", text)];
        crate::Params::resolve_over(&presets, &crate::Declared::default(), &files, &[])
    };
    let params = of("export.opset = 19").unwrap();
    assert_eq!(
        (params.get("export.opset"), params.origin("export.opset")),
        (Some(&json!(19)), "params.toml:1")
    );
    assert_eq!(params.get("export.strip_doc_string"), Some(&json!(false)));
    assert_eq!(params.origin("export.strip_doc_string"), format!("{}:5", file.display()));
    std::fs::write(&file, "[defaults]\nexport.opest = 18\n").unwrap();
    let presets = [load(Some(&file), &Environment::default(), &[]).unwrap().settings.defaults];
    let wrong = crate::Params::resolve_over(&presets, &crate::Declared::default(), &[], &[]);
    let wrong = wrong.unwrap_err().0[0].message.clone();
    assert!(wrong.contains("onnxd.toml:2: unknown key `export.opest`"), "{wrong}");
    let twice = crate::Params::resolve_over(&[], &crate::Declared::default(), &[], &[]).unwrap();
    assert_eq!(twice.origin("export.opset"), "default");
}
