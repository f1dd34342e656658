//! `metadata_props`, and the source layers of a node among them: protobuf has no field for them, and
//! they must survive every boundary that a graph crosses.

use onnxd_diagnostics::Layer;
use onnxd_proto::onnx::StringStringEntryProto;
use serde_json::{Value, json};

/// Metadata key of a node whose value lists its source layers as JSON.
pub const LAYERS_KEY: &str = "onnxd.layers";

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
pub(crate) fn take_layers(metadata: &mut Vec<(String, String)>) -> Vec<Layer> {
    let Some(at) = metadata.iter().position(|(key, _)| key == LAYERS_KEY) else {
        return Vec::new();
    };
    let Some(layers) = parse_layers(&metadata[at].1) else { return Vec::new() };
    metadata.remove(at);
    layers
}

fn parse_layers(text: &str) -> Option<Vec<Layer>> {
    let Value::Array(items) = serde_json::from_str(text).ok()? else { return None };
    let layer = |item: &Value| {
        let text = |key| item.get(key).map_or(Some(""), Value::as_str).map(str::to_owned);
        Some(Layer { name: text("name")?, kind: text("kind")?, place: text("place")? })
    };
    items.iter().map(layer).collect()
}

pub(crate) fn layers_entry(layers: &[Layer]) -> Option<StringStringEntryProto> {
    let item = |layer: &Layer| {
        let mut item = json!({ "name": layer.name });
        for (key, text) in [("kind", &layer.kind), ("place", &layer.place)] {
            if !text.is_empty() {
                item[key] = json!(text);
            }
        }
        item
    };
    let items: Vec<Value> = layers.iter().map(item).collect();
    (!items.is_empty()).then(|| entry(LAYERS_KEY, Value::Array(items).to_string()))
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
        assert_eq!(take_layers(&mut metadata), layers);
        assert_eq!(metadata, [("a".to_owned(), "b".to_owned())]);

        for foreign in ["", "[1", "{}", "[{\"name\": 3}]"] {
            let mut metadata = vec![(LAYERS_KEY.to_owned(), foreign.to_owned())];
            assert!(take_layers(&mut metadata).is_empty());
            assert_eq!(metadata.len(), 1);
        }
    }
}
