//! What the quantizer and the passes of a conversion need beside the network is a need like a front-end's: the network
//! waits for it.

use crate::described::Described;
use crate::installed;
use onnxd_config::descriptor::{Component, Need as Declared};
use onnxd_params::Resolved;
use onnxd_plugin_host::Submission;
use onnxd_proto::onnxd::{ClaimLevel, InputFile, Need, PluginInfo, Probe};

/// Adds what the quantizer and the passes that the params ask for need.
pub(crate) fn with_needs(
    mut probe: Probe,
    (plugins, described): (&[PluginInfo], &Described),
    Submission { params, files, .. }: Submission<'_>,
) -> Probe {
    if probe.level() == ClaimLevel::ClaimNo {
        return probe;
    }
    for component in chosen_components(described, plugins, params) {
        let holds = |need: &&Declared| need.condition.holds_with(params, &probe.facts);
        let needs: Vec<Need> = component
            .needs
            .iter()
            .filter(holds)
            .filter_map(|need| missing_or_found(need, params, files))
            .collect();
        probe.needs.extend(needs);
    }
    probe
}

/// The components that will work on the network. One that is not installed is told later.
fn chosen_components<'d>(
    described: &'d Described,
    plugins: &[PluginInfo],
    params: &Resolved,
) -> Vec<&'d Component> {
    let format = params.peek("quantization.format").as_str().filter(|format| *format != "none");
    let format = format.map(|format| ("quantizer", format.to_lowercase()));
    let order = params.peek("passes.order").as_array().into_iter().flatten();
    let passes = order.filter_map(|id| Some(("pass", id.as_str()?.to_owned())));
    let found = format.into_iter().chain(passes).filter_map(|(kind, id)| {
        let (plugin, component) = installed::find(plugins, kind, &id).ok()?;
        described.component(&plugin.id, kind, &component)
    });
    found.collect()
}

/// The need with the files that meet it; `None` if another file has what it is about.
fn missing_or_found(need: &Declared, params: &Resolved, files: &[InputFile]) -> Option<Need> {
    let named = need.param.as_ref().and_then(|key| params.peek(key).as_str());
    let below = |path: &str| -> Vec<String> {
        let is = |name: &&str| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let names = files.iter().map(|file| file.name.as_str());
        names.filter(is).map(str::to_owned).collect()
    };
    let paths: Vec<&str> = match named {
        Some(named) => vec![named],
        None => need.paths.iter().map(String::as_str).collect(),
    };
    let found_as: Vec<String> = paths.iter().flat_map(|path| below(path)).collect();
    let other = need.or_array.as_ref().filter(|_| named.is_none() && found_as.is_empty());
    if other.is_some_and(|[file, array]| has_array(files, file, array)) {
        return None;
    }
    Some(Need {
        what: need.what.clone(),
        path: paths.first().copied().unwrap_or_default().to_owned(),
        found: !found_as.is_empty(),
        found_as,
    })
}

/// Whether a dropped file has an array of that name; what is wrong with a damaged file is told when it is read.
fn has_array(files: &[InputFile], file: &str, array: &str) -> bool {
    let path = files.iter().find(|f| f.name == file).map(|f| f.path.as_str());
    let bytes = path.and_then(|path| onnxd_onnx::MappedFile::open(path.as_ref()).ok());
    let arrays = bytes.and_then(|bytes| onnxd_arrays::stored(&bytes, "").ok());
    arrays.is_some_and(|arrays| arrays.iter().any(|a| a.name() == array))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::PluginComponent;
    use serde_json::{Value, json};

    const DESCRIPTOR: &str = "
        summary = 's'
        [[components]]
        kind = 'quantizer'
        id = 'halves'
        [[components.needs]]
        what = 'calibration data'
        paths = ['calib.npz', 'calib']
        param = 'calibration.data'
        when = { 'quantization.mode' = 'static' }
        unless = { 'calibration.random' = 'int' }
        unless_facts = ['quantized']
        [[components.needs]]
        what = 'labelled test data'
        paths = ['test.npz']
        when = { 'halves.test' = 'true' }
        or_array = ['calib.npz', 'labels']
        ";

    fn plugins() -> Vec<PluginInfo> {
        let component = PluginComponent {
            kind: "quantizer".into(),
            id: "halves".into(),
            ..PluginComponent::default()
        };
        vec![PluginInfo {
            id: "org.a".into(),
            descriptor: DESCRIPTOR.into(),
            components: vec![component],
            ..PluginInfo::default()
        }]
    }

    fn needs(params: &Value, facts: &[&str], files: &[&str]) -> Vec<(String, Vec<String>)> {
        let facts = facts.iter().map(|fact| (*fact).to_owned()).collect();
        let probe = Probe { level: ClaimLevel::ClaimByContent.into(), facts, ..Probe::default() };
        let file = |name: &&str| InputFile { name: (*name).into(), ..InputFile::default() };
        let files: Vec<InputFile> = files.iter().map(file).collect();
        let plugins = plugins();
        let described = Described::from_plugins(&plugins);
        let params = &Resolved::from_json(params.clone());
        let about = Submission { files: &files, network: "net.ini", params, lowered: &[] };
        let probe = with_needs(probe, (&plugins, &described), about);
        assert!(probe.needs.iter().all(|n| n.found != n.found_as.is_empty()));
        probe.needs.into_iter().map(|n| (n.path, n.found_as)).collect()
    }

    #[test]
    fn declared_needs_are_waited_for_where_their_conditions_hold() {
        let asked = json!({"quantization": {"format": "Halves", "mode": "static"}});
        let files = ["net.ini", "calib.npz", "calib/1.npy", "calibrated/1.npy"];
        let found = vec!["calib.npz".to_owned(), "calib/1.npy".to_owned()];
        assert_eq!(needs(&asked, &[], &files), [("calib.npz".to_owned(), found)]);
        assert_eq!(needs(&asked, &[], &["net.ini"]), [("calib.npz".to_owned(), vec![])]);
        assert_eq!(needs(&asked, &["quantized"], &["net.ini"]), []);
        let named = json!({
            "quantization": {"format": "halves", "mode": "static"}, "calibration": {"data": "data"},
        });
        let found = vec!["data/a.npy".to_owned()];
        assert_eq!(needs(&named, &[], &["data/a.npy", "calib.npz"]), [("data".to_owned(), found)]);
        for none in [
            json!({"quantization": {"format": "none", "mode": "static"}}),
            json!({"quantization": {"format": "thirds", "mode": "static"}}),
            json!({"quantization": {"format": "halves", "mode": "dynamic"}}),
            json!({
                "quantization": {"format": "halves", "mode": "static"}, "calibration": {"random": 8},
            }),
        ] {
            assert_eq!(needs(&none, &[], &files), [], "{none}");
        }
        let tested = json!({"quantization": {"format": "halves"}, "halves": {"test": true}});
        assert_eq!(needs(&tested, &[], &["calib.npz"]), [("test.npz".to_owned(), vec![])]);
        let found = vec!["test.npz".to_owned()];
        assert_eq!(needs(&tested, &[], &["test.npz"]), [("test.npz".to_owned(), found)]);
    }
}
