use super::*;
use crate::diagnostics::Severity;
use crate::ir::ops::Add;
use crate::ir::{DataType, Graph, ValueType};
use crate::{Claim, Imported, NamedModel};

/// `y = x + w`; the file is the weight, of two floats.
struct Weights;

impl Frontend for Weights {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let bytes = submission.look(submission.network(), <[u8]>::len)?;
        Ok(Probe::new(Claim::ByExtension, format!("{bytes} bytes")))
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let columns = submission.param("source", "columns").as_u64().unwrap_or(2) as i64;
        crate::log!(Warning, "{} bytes", bytes.len());
        submission.file("weights.txt", b"two")?;
        let weight = Tensor::new(DataType::Float, vec![2], bytes)
            .map_err(|e| Diagnostic::new(Code::SourceSyntax, e.to_string()))?;
        let mut g = Graph::new("g");
        let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [columns])));
        let w = g.add_initializer("w", weight);
        let y = g.add("y", Add::new(x, w));
        g[y].ty = Some(ValueType::tensor(DataType::Float, [2]));
        g.mark_output(y);
        let metadata = vec![("input.range".into(), "[0, 1]".into())];
        Ok(Imported { model: Model::new(g, 8, 17), metadata, ..Imported::default() })
    }
}

fn weights() -> Dropped {
    Dropped::file("a.weights", [1f32, 2.0].map(f32::to_le_bytes).concat())
}

#[test]
fn a_front_end_reads_files_and_leaves_a_model_lines_and_files() {
    assert_eq!(probe(&Weights, &weights()).unwrap().reason, "8 bytes");
    let done = import(&Weights, &weights()).unwrap();
    let outputs = run(&done.model, [("x", Tensor::vector(vec![0.5f32, 0.5]))]).unwrap();
    assert_eq!(outputs, [("y".to_owned(), Tensor::vector(vec![1.5f32, 2.5]))]);
    assert_eq!(done.logged, ["warning: onnxd_plugin_sdk::testing::tests: 8 bytes"]);
    assert_eq!(done.files["weights.txt"], b"two");
    assert_eq!(done.log.metadata["input.range"], "[0, 1]");
    assert_eq!(done.log.params_read.unwrap().keys, ["source.columns"]);
}

#[test]
fn params_reach_the_component_and_a_wrong_model_is_found() {
    let found = import(&Weights, &weights().param("source.columns", 3)).unwrap_err();
    assert!(found.to_string().contains("N0215"), "{found}");
    let found = import(&Weights, &Dropped::file("a.weights", "odd")).unwrap_err();
    assert!(found.to_string().contains("N0201"), "{found}");
}

#[test]
fn folders_are_dropped_whole() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("w")).unwrap();
    std::fs::write(folder.path().join("net.ini"), "a").unwrap();
    std::fs::write(folder.path().join("w/one"), "bc").unwrap();
    let submission = Dropped::folder(folder.path(), "net.ini").unwrap().submission();
    let files: Vec<_> = submission.files().collect();
    assert_eq!((submission.network(), files), ("net.ini", vec![("net.ini", 1), ("w/one", 2)]));
    assert_eq!(&submission.read("w/one").unwrap()[..], b"bc");
}

#[test]
fn lines_of_no_call_reach_nothing() {
    crate::log!(Error, "nobody hears");
}

/// An encoder with its decoder, whose weights are those of the file.
struct Two;

impl Frontend for Two {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        Weights.probe(submission)
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let imported = Weights.import(submission)?;
        let (name, model) = ("decoder".to_owned(), imported.model.clone());
        Ok(Imported {
            name: "encoder".into(),
            further: vec![NamedModel { name, model }],
            notes: vec![Diagnostic::new(Code::LayerParameterIgnored, "a setting")],
            findings: vec![Diagnostic::new(Code::LayersDiffer, "a layer")],
            ..imported
        })
    }
}

#[test]
fn further_models_come_with_their_names_and_facts() {
    let done = import(&Two, &weights()).unwrap();
    assert_eq!(done.log.name, "encoder");
    let notes = done.log.notes.iter();
    let told = notes.map(|note| (note.severity(), note.message.as_str()));
    let expected = [(Severity::Error, "a layer"), (Severity::Warning, "a setting")];
    assert!(told.eq(expected));
    let decoder = &done.further["decoder"];
    assert_eq!(decoder.metadata, done.model.metadata);
    let outputs = run(decoder, [("x", Tensor::vector(vec![1f32, 1.0]))]).unwrap();
    assert_eq!(outputs[0].1, Tensor::vector(vec![2f32, 3.0]));
}
