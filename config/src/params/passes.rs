//! The passes that run: those of the profile and the enabled ones, without the disabled ones.

use std::collections::HashSet;

use onnxd_diagnostics::{Diagnostics, nearest, shown};
use onnxd_params::Resolved;
use serde_json::Value;

use super::declared::Declared;
use super::implied::value_among;
use crate::profile::profile;
use crate::table::KeyEntry;

/// Key of the passes that result. No user sets it directly.
pub(super) const ORDER: &str = "passes.order";
pub(super) const PROFILE: &str = "passes.profile";
pub(super) const ENABLE: &str = "passes.enable";
pub(super) const DISABLE: &str = "passes.disable";

/// The passes of the profile whose conditions hold.
fn of_profile(
    declared: &Declared,
    name: &str,
    value: &dyn Fn(&str) -> Value,
) -> Result<Vec<String>, Diagnostics> {
    let mut passes = profile(name)?;
    passes.retain(|pass| declared.pass_runs(pass, value));
    Ok(passes)
}

/// The passes of the profile, then the enabled ones; each once, and none that is disabled.
pub(super) fn order(declared: &Declared, entries: &[KeyEntry]) -> Result<KeyEntry, Diagnostics> {
    let of = |key: &str| entries.iter().find(|e| e.key == key).map_or(&Value::Null, |e| &e.value);
    let name = of(PROFILE).as_str().unwrap_or_default();
    let mut left_out: HashSet<String> = listed(of(DISABLE)).into_iter().collect();
    let profile = of_profile(declared, name, &|key| value_among(entries, key))?;
    let wanted = profile.into_iter().chain(listed(of(ENABLE)));
    let order: Vec<Value> =
        wanted.filter(|pass| left_out.insert(pass.clone())).map(Value::from).collect();
    let origin = format!("profile {name}, {ENABLE}, {DISABLE}");
    Ok(KeyEntry { key: ORDER.to_owned(), value: Value::Array(order), origin })
}

/// What enable and disable name in vain, by key.
pub(super) fn idle(declared: &Declared, params: &Resolved) -> Vec<(&'static str, String)> {
    let name = params.peek(PROFILE).as_str().unwrap_or_default();
    let Ok(profile) = of_profile(declared, name, &|key| params.peek(key).clone()) else {
        return Vec::new();
    };
    let (enabled, disabled) = (listed(params.peek(ENABLE)), listed(params.peek(DISABLE)));
    let mut idle = Vec::new();
    for pass in &enabled {
        let why = match (disabled.contains(pass), profile.contains(pass)) {
            (true, _) => format!("which `{DISABLE}` leaves out"),
            (_, true) => format!("which runs in the profile {name} anyway"),
            _ => continue,
        };
        idle.push((ENABLE, format!("names `{}`, {why}", shown(pass))));
    }
    let runs: Vec<&str> = profile.iter().chain(&enabled).map(String::as_str).collect();
    for pass in disabled.iter().filter(|pass| !runs.contains(&pass.as_str())) {
        let near = nearest(pass, runs.iter().copied());
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let why = format!("names `{}`, which does not run in the profile {name}", shown(pass));
        idle.push((DISABLE, why + &near));
    }
    idle
}

fn listed(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_change_nothing_are_told() {
        let of = |enable: &[&str], disable: &[&str]| {
            let passes = json!({"profile": "default", "enable": enable, "disable": disable});
            idle(&Declared::default(), &Resolved::from_json(json!({ "passes": passes })))
        };
        assert_eq!(of(&["fuse-else"], &["fuse-pad"]), []);
        let (key, why) = &of(&[], &["fuse-pads"])[0];
        assert_eq!(*key, DISABLE);
        assert!(why.ends_with("profile default; did you mean `fuse-pad`?"), "{why}");
        assert!(of(&["fuse-pad"], &[])[0].1.contains("runs in the profile default anyway"));
        assert!(of(&["x"], &["x"])[0].1.contains("`passes.disable` leaves out"));
    }
}
