use super::*;

fn config(text: &str) -> Config {
    Config::parse(text.as_bytes()).unwrap()
}

#[test]
fn fields_that_nothing_reads_are_told() {
    let c = config(
        r#"{"hidden_size": 8, "rope_scaling": {"factor": 2, "odd": 1},
            "magic": true, "none": null, "use_cache": true}"#,
    );
    assert_eq!(c.size("hidden_size").unwrap(), 8);
    let inside = c.section("rope_scaling").unwrap().unwrap();
    assert_eq!(inside.number("factor", 1.0).unwrap(), 2.0);
    c.close(&inside);
    let told: Vec<String> = c.unread().into_iter().map(|d| d.message.clone()).collect();
    assert_eq!(
        told,
        [
            "`rope_scaling.odd` is 1 in `config.json`, which nothing reads",
            "`magic` is true in `config.json`, which nothing reads",
        ]
    );
}

#[test]
fn refusals_name_field_and_value() {
    let c = config(
        r#"{"hidden_size": "x", "hidden_act": "mystery", "layers": 99999, "flags": [1, 0], "on": true}"#,
    );
    let wrong = |found: Diagnostic| format!("{} {}", found.code, found.message);
    let size = wrong(c.size("hidden_size").unwrap_err());
    assert_eq!(
        size,
        "N0204 `hidden_size` is `x` in `config.json`; it must be a whole number from 1 on"
    );
    let absent = wrong(c.size("heads").unwrap_err());
    assert!(absent.contains("`heads` is absent"), "{absent}");
    let unknown = wrong(c.unknown("hidden_act", "which is no activation that is known"));
    assert_eq!(
        unknown,
        "N0214 `hidden_act` is `mystery` in `config.json`, which is no activation that is known"
    );
    assert!(wrong(c.layers("layers").unwrap_err()).starts_with("N0213 `layers` is 99999"));
    assert!(wrong(c.flags("flags", 3).unwrap_err()).contains("a list of 3 numbers"));
    assert!(wrong(c.only("on", false).unwrap_err()).starts_with("N0214 `on` is true"));
    for text in ["", "[]", "{\"a\": }"] {
        assert_eq!(Config::parse(text.as_bytes()).unwrap_err().code, "N0201", "{text}");
    }
}
