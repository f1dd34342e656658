use super::{family, named};
use crate::config::Config;
use crate::testing;

/// Fields as well-known checkpoints have them, with few layers. None of them is one that nothing knows.
const PUBLISHED: &str = include_str!("published.txt");

#[test]
fn no_field_of_a_published_config_is_a_finding() {
    let mut found = vec![];
    for line in testing::cases(PUBLISHED) {
        let config = Config::parse(testing::config(line).to_string().as_bytes()).unwrap();
        let described = family(&config, &named).and_then(|family| family.describe(&config, None));
        let kind = line.split(' ').next().unwrap();
        found.extend(described.err().map(|why| format!("{kind}: {}", why.message)));
        found.extend(config.unread().iter().map(|unread| format!("{kind}: {}", unread.message)));
    }
    assert!(found.is_empty(), "{found:#?}");
}
