//! `metadata_props`, and the source layers of a node among them: protobuf has no field for them, and
//! they must survive every boundary that a graph crosses.

use onnxd_diagnostics::Layer;
use onnxd_ir::Layers;
use onnxd_proto::onnx::StringStringEntryProto;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Metadata key of a node whose value lists its source layers as JSON.
pub const LAYERS_KEY: &str = "onnxd.layers";

/// A layer as JSON.
#[derive(Deserialize, Serialize)]
struct LayerJson<'t> {
    #[serde(borrow, default)]
    name: Cow<'t, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    kind: Cow<'t, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    place: Cow<'t, str>,
}

pub(crate) fn from_entries(entries: Vec<StringStringEntryProto>) -> Vec<(String, String)> {
    let pair = |e: StringStringEntryProto| (e.key.unwrap_or_default(), e.value.unwrap_or_default());
    entries.into_iter().map(pair).collect()
}

pub(crate) fn entry(key: &str, value: impl Into<String>) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.into()) }
}

pub(crate) fn to_entries(pairs: &[(String, String)]) -> Vec<StringStringEntryProto> {
    pairs.iter().map(|(key, value)| entry(key, value)).collect()
}

/// Takes the layers out of a node's metadata; an entry that is not ours stays.
pub(crate) fn take_layers(metadata: &mut Vec<(String, String)>) -> Layers {
    let Some(at) = metadata.iter().position(|(key, _)| key == LAYERS_KEY) else {
        return Layers::default();
    };
    let Some(layers) = parse_layers(&metadata[at].1) else { return Layers::default() };
    metadata.remove(at);
    layers
}

fn parse_layers(text: &str) -> Option<Layers> {
    let items: Vec<LayerJson> = serde_json::from_str(text).ok()?;
    let layer = |item: LayerJson| Layer {
        name: item.name.into_owned(),
        kind: item.kind.into_owned(),
        place: item.place.into_owned(),
    };
    Some(items.into_iter().map(layer).collect())
}

pub(crate) fn layers_entry(layers: &[Layer]) -> Option<StringStringEntryProto> {
    let items = layers.iter().map(|layer| LayerJson {
        name: layer.name.as_str().into(),
        kind: layer.kind.as_str().into(),
        place: layer.place.as_str().into(),
    });
    let items: Vec<LayerJson> = items.collect();
    let text = serde_json::to_string(&items).expect("texts are JSON");
    (!items.is_empty()).then(|| entry(LAYERS_KEY, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_survive_and_foreign_entries_stay() {
        let layers = vec![
            Layer { name: "conv\n1".into(), kind: "Conv".into(), place: "net.ini:12".into() },
            Layer::new("bn1", ""),
        ];
        let mut metadata = from_entries(vec![entry("a", "b"), layers_entry(&layers).unwrap()]);
        assert_eq!(take_layers(&mut metadata)[..], layers);
        assert_eq!(metadata, [("a".to_owned(), "b".to_owned())]);

        for foreign in ["", "[1", "{}", "[{\"name\": 3}]"] {
            let mut metadata = vec![(LAYERS_KEY.to_owned(), foreign.to_owned())];
            assert!(take_layers(&mut metadata).is_empty());
            assert_eq!(metadata.len(), 1);
        }
    }
}
