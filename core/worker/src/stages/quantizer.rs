//! The quantizer that the params ask for.

use super::session::Session;
use crate::installed;
use onnxd_config::descriptor::Component;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_params::host;
use onnxd_proto::onnxd::PluginInfo;

/// Its plugin and id, if the params ask for one.
pub(crate) fn chosen(session: &Session) -> Result<Option<(PluginInfo, String)>, Diagnostic> {
    match session.section::<host::Quantization>().format().as_str() {
        "none" => Ok(None),
        format => find(&session.request.plugins, format).map(Some),
    }
}

/// How it describes itself.
pub(crate) fn described(session: &Session) -> Option<&Component> {
    let (plugin, quantizer) = chosen(session).ok()??;
    session.described.component(&plugin.id, "quantizer", &quantizer)
}

/// The quantizer of a format: its name in lower case, or what the params name like a pass.
fn find(plugins: &[PluginInfo], format: &str) -> Result<(PluginInfo, String), Diagnostic> {
    let offered = plugins.iter().flat_map(|p| &p.components).filter(|c| c.kind == "quantizer");
    let id = format.to_lowercase();
    let found = installed::find(plugins, "quantizer", &id);
    let (plugin, quantizer) = found.map_err(|mut why| {
        let mut offered: Vec<&str> = offered.map(|c| c.id.as_str()).collect();
        offered.dedup();
        if !offered.contains(&id.as_str()) {
            let text = format!("no installed plugin quantizes to the format `{}`", shown(format));
            why = Diagnostic::new(Code::QuantizationUnavailable, text);
        }
        match offered.is_empty() {
            true => why,
            false => why.help(format!("Installed quantizers: {}.", offered.join(", "))),
        }
    })?;
    Ok((plugin.clone(), quantizer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::PluginComponent;

    fn plugin(id: &str, quantizer: &str) -> PluginInfo {
        let component = PluginComponent {
            kind: "quantizer".into(),
            id: quantizer.into(),
            ..PluginComponent::default()
        };
        PluginInfo { id: id.into(), components: vec![component], ..PluginInfo::default() }
    }

    #[test]
    fn a_format_names_a_quantizer() {
        let plugins = [plugin("org.a", "halves"), plugin("org.b", "nibbles")];
        let of = |format: &str| find(&plugins, format).map(|(p, q)| format!("{} {q}", p.id));
        assert_eq!(of("Halves").unwrap(), "org.a halves");
        assert_eq!(of("nibbles").unwrap(), "org.b nibbles");
        let none = of("QDQ").unwrap_err();
        assert_eq!(none.code, "N0602");
        assert_eq!(none.help, "Installed quantizers: halves, nibbles.");
        let two = [plugin("org.a", "halves"), plugin("org.b", "halves")];
        let tie = find(&two, "Halves").unwrap_err();
        assert_eq!(tie.message, "`org.a` and `org.b` both have a quantizer `halves`");
        assert_eq!(find(&two, "org.b/halves").unwrap().0.id, "org.b");
    }
}
