//! Profiles: named lists of passes. They are part of the program, so that a job's identity and
//! its result do not depend on a file beside it.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, shown};

const DEFAULT: &str = include_str!("../profiles/default.toml");
const ONNXRUNTIME: &str = include_str!("../profiles/onnxruntime.toml");

/// Names of all profiles.
pub const PROFILES: &[&str] = &["default", "onnxruntime", "none"];

/// The ids of a profile's passes, in the order they run.
pub fn profile(name: &str) -> Result<Vec<String>, Diagnostics> {
    let read = |texts: &[&str]| {
        let lists: Result<Vec<Vec<String>>, String> = texts.iter().map(|t| passes(t)).collect();
        lists.map(|lists| lists.concat()).map_err(|why| {
            let text = format!("profile `{name}` cannot be read: {why}.");
            Diagnostics::from(Diagnostic::new(Code::Internal, text))
        })
    };
    match name {
        "default" => read(&[DEFAULT]),
        "onnxruntime" => read(&[DEFAULT, ONNXRUNTIME]),
        "none" => Ok(Vec::new()),
        _ => {
            let near = nearest(name, PROFILES.iter().copied());
            let near = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            let message = format!("no profile is called `{}`{near}", shown(name));
            Err(Diagnostic::new(Code::ParamsBadValue, message)
                .help(format!("Profiles: {}.", PROFILES.join(", ")))
                .into())
        }
    }
}

fn passes(text: &str) -> Result<Vec<String>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Profile {
        passes: Vec<String>,
    }
    toml::from_str::<Profile>(text).map(|p| p.passes).map_err(|e| e.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_reads() {
        for name in PROFILES {
            profile(name).unwrap();
        }
        let order = profile("default").unwrap();
        let first = ["inline-functions", "remove-dropout", "simplify-shapes"];
        assert_eq!(order[..3], first);
        let mut once = order.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), order.len());
        let runtime = profile("onnxruntime").unwrap();
        assert!(runtime.starts_with(&order) && runtime.len() > order.len());
        assert_eq!(profile("none").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_unknown_profile_names_the_nearest() {
        let why = &profile("defualt").unwrap_err().0[0];
        assert_eq!(why.code, "N0105");
        assert!(why.message.contains("did you mean `default`?"), "{}", why.message);
    }
}
