//! Calibration data is a need like a front-end's: a network that is to be quantized with ranges from data waits for it.

use onnxd_proto::onnxd::{ClaimLevel, InputFile, Need, Probe};
use serde_json::Value;

/// Adds the calibration data to what a claimed network needs, if the params ask for ranges from data.
pub(crate) fn with_calibration(mut probe: Probe, params: &Value, files: &[InputFile]) -> Probe {
    let quantization = &params["quantization"];
    let brought = match format(quantization).as_str() {
        "n2d2" => probe.learned_ranges,
        // A quantized network only changes form.
        _ => probe.quantized,
    };
    let random = params["calibration"]["random"].is_u64();
    if probe.level() != ClaimLevel::ClaimNo && !brought && !random && is_needed(quantization) {
        let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
        let n2d2 = format(quantization) == "n2d2" && quantization["n2d2"]["calib_reload"] == true;
        probe.needs.push(match n2d2 || params["calibration"]["reload"] == true {
            true => need("statistics of a calibration", Some("calibration.json"), &names),
            false => need("calibration data", params["calibration"]["data"].as_str(), &names),
        });
    }
    if probe.level() != ClaimLevel::ClaimNo && is_tested(quantization) {
        let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
        let named = quantization["n2d2"]["test_data"].as_str();
        let test = need("labelled test data", Some(named.unwrap_or("test.npz")), &names);
        let calib = files.iter().find(|f| f.name == "calib.npz").filter(|_| named.is_none());
        if test.found || !calib.is_some_and(|f| has_labels(&f.path)) {
            probe.needs.push(test);
        }
    }
    probe
}

fn is_tested(quantization: &Value) -> bool {
    format(quantization) == "n2d2" && quantization["n2d2"]["test"] == true
}

/// The quantizer's id.
fn format(quantization: &Value) -> String {
    quantization["format"].as_str().unwrap_or_default().to_lowercase()
}

/// Whether labels lie beside the samples of calibration; a damaged file is somebody else's to tell.
fn has_labels(path: &str) -> bool {
    let bytes = onnxd_onnx::MappedFile::open(std::path::Path::new(path)).ok();
    let arrays = bytes.and_then(|bytes| onnxd_arrays::stored(&bytes, "").ok());
    arrays.is_some_and(|arrays| arrays.iter().any(|a| a.name() == "labels"))
}

/// Of the formats that the params define; another quantizer says itself what it misses.
fn is_needed(quantization: &Value) -> bool {
    match format(quantization).as_str() {
        "n2d2" => quantization["n2d2"]["qat_sat"] != true,
        "qdq" | "qlinear" | "inc-qdq" | "inc-qlinear" => quantization["mode"] == "static",
        _ => false,
    }
}

fn need(what: &str, named: Option<&str>, files: &[&str]) -> Need {
    let below = |path: &str| -> Vec<String> {
        let is = |name: &&&str| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        files.iter().filter(is).map(|name| (*name).to_owned()).collect()
    };
    let found_as = match named {
        Some(named) => below(named),
        None => [below("calib.npz"), below("calib")].concat(),
    };
    Need {
        what: what.into(),
        path: named.unwrap_or("calib.npz").into(),
        found: !found_as.is_empty(),
        found_as,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn needs(params: &Value, files: &[&str]) -> Vec<(String, Vec<String>)> {
        let probe = Probe { level: ClaimLevel::ClaimByContent.into(), ..Probe::default() };
        let file = |name: &&str| InputFile { name: (*name).into(), ..InputFile::default() };
        let files: Vec<InputFile> = files.iter().map(file).collect();
        let probe = with_calibration(probe, params, &files);
        assert!(probe.needs.iter().all(|n| n.found != n.found_as.is_empty()));
        probe.needs.into_iter().map(|n| (n.path, n.found_as)).collect()
    }

    #[test]
    fn learned_ranges_need_no_data() {
        let level = ClaimLevel::ClaimByContent.into();
        let probe = Probe { level, learned_ranges: true, ..Probe::default() };
        let needs = |params| with_calibration(probe.clone(), &params, &[]).needs.len();
        assert_eq!(needs(json!({"quantization": {"format": "N2D2"}})), 0);
        assert_eq!(needs(json!({"quantization": {"format": "QDQ", "mode": "static"}})), 1);
    }

    #[test]
    fn a_quantized_network_changes_form_without_data() {
        let level = ClaimLevel::ClaimByContent.into();
        let probe = Probe { level, quantized: true, ..Probe::default() };
        let needs = |params| with_calibration(probe.clone(), &params, &[]).needs.len();
        assert_eq!(needs(json!({"quantization": {"format": "QLinear", "mode": "static"}})), 0);
        assert_eq!(needs(json!({"quantization": {"format": "N2D2"}})), 1);
    }

    #[test]
    fn ranges_from_data_need_data() {
        let n2d2 = json!({"quantization": {"format": "N2D2"}});
        let files = ["net.ini", "calib.npz", "calib/1.npy", "calibrated/1.npy"];
        let found = vec!["calib.npz".to_owned(), "calib/1.npy".to_owned()];
        assert_eq!(needs(&n2d2, &files), [("calib.npz".to_owned(), found)]);
        assert_eq!(needs(&n2d2, &["net.ini"]), [("calib.npz".to_owned(), vec![])]);
        let reloaded = json!({"quantization": {"format": "N2D2", "n2d2": {"calib_reload": true}}});
        assert_eq!(needs(&reloaded, &files), [("calibration.json".to_owned(), vec![])]);
        let found = vec!["calibration.json".to_owned()];
        let there = ["net.ini", "calibration.json"];
        assert_eq!(needs(&reloaded, &there), [("calibration.json".to_owned(), found)]);
        for format in ["QDQ", "QLinear", "inc-qdq", "inc-qlinear", "N2D2"] {
            let reloaded = json!({
                "quantization": {"format": format, "mode": "static"},
                "calibration": {"reload": true},
            });
            let found = vec!["calibration.json".to_owned()];
            assert_eq!(needs(&reloaded, &there), [("calibration.json".to_owned(), found)]);
        }
        let tested = json!({"quantization": {"format": "N2D2", "n2d2": {"test": true}}});
        let missing = ("test.npz".to_owned(), vec![]);
        assert_eq!(needs(&tested, &["calib.npz"])[1], missing);
        let found = ("test.npz".to_owned(), vec!["test.npz".to_owned()]);
        assert_eq!(needs(&tested, &["calib.npz", "test.npz"])[1], found);
        let named = json!({
            "quantization": {"format": "QDQ", "mode": "static"},
            "calibration": {"data": "data"},
        });
        let found = vec!["data/a.npy".to_owned()];
        assert_eq!(needs(&named, &["data/a.npy", "calib.npz"]), [("data".to_owned(), found)]);
        for none in [
            json!({"quantization": {"format": "none"}}),
            json!({"quantization": {"format": "QDQ", "mode": "weight_only"}}),
            json!({"quantization": {"format": "N2D2", "n2d2": {"qat_sat": true}}}),
            json!({"quantization": {"format": "N2D2"}, "calibration": {"random": 8}}),
        ] {
            assert_eq!(needs(&none, &files), []);
        }
    }
}
