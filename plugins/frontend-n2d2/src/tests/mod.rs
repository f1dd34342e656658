//! Whole networks from memory: imported, verified, and run with the built-in executor.

mod hostile;
mod layers;
mod network;
mod onnx;
mod preprocessing;
mod probing;
mod quantizers;
mod random;

use std::collections::BTreeMap;

use onnxd_plugin_sdk::Imported;
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::verify::{VerifyLevel, verify};
use onnxd_plugin_sdk::ir::{DataType, Reals, Tensor};
use onnxd_plugin_sdk::serde_json::{Value, json};

use crate::diag::Diagnostics;
use crate::fuzzing::options;
use crate::import::import;
use crate::ini::testing::Texts;

type File<'a> = (&'static str, &'a str);

fn import_with(params: &Value, ini: &str, files: &[File]) -> Result<Imported, Diagnostics> {
    let all = [("net.ini", ini)].into_iter().chain(files.iter().copied()).collect();
    let imported = import("net.ini", &Texts(all), &options(params), &|_, _| Ok(()))?;
    let findings = verify(&imported.model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "{findings}");
    Ok(imported)
}

fn random(ini: &str) -> Result<Imported, Diagnostics> {
    import_with(&json!({ "source": { "random": true } }), ini, &[])
}

/// The findings of a network that must be refused, without weights files.
fn refused(ini: &str) -> String {
    random(ini).err().unwrap_or_else(|| panic!("not refused: {ini}")).to_string()
}

/// All outputs for one image.
fn outputs(imported: &Imported, x: &[f32]) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let graph = &imported.model.graph;
    let ty = graph[graph.inputs()[0]].ty.as_ref().unwrap();
    let dims = ty.shape().unwrap()[1..].iter().map(|d| d.known().unwrap() as usize);
    let dims: Vec<usize> = [1].into_iter().chain(dims).collect();
    let values = x.iter().map(|x| f64::from(*x)).collect();
    let x = Reals { dims, values }.to_tensor(ty.dtype().unwrap()).unwrap();
    let inputs = BTreeMap::from([("env".to_owned(), x)]);
    let executor = Executor::new(&imported.model).unwrap();
    let found = executor.run(&inputs, RunOptions::default()).unwrap();
    let numbers = |t: &Tensor| t.to_reals().unwrap().values.iter().map(|v| *v as f32).collect();
    found.iter().map(|(name, t)| (name.clone(), t.dims().to_vec(), numbers(t))).collect()
}

/// A network of one layer `y` over an image of `[channels, height, width]`.
fn around(size: [usize; 3], layer: &str) -> String {
    let [c, h, w] = size;
    format!(
        "DefaultModel=Frame\n[sp]\nSizeX={w}\nSizeY={h}\nNbChannels={c}\n\
         [y]\nInput=sp\n{layer}\n[y.Target]\n[plain]\nNoBias=1\n"
    )
}

fn close(found: &[f32], expected: &[f32]) -> bool {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

/// Checks what layer `y` computes.
fn check_with(size: [usize; 3], layer: &str, files: &[File], x: &[f32], dims: &[usize], y: &[f32]) {
    let imported = import_with(&json!({}), &around(size, layer), files)
        .unwrap_or_else(|problems| panic!("{layer}: {problems}"));
    let found = outputs(&imported, x);
    let (name, found_dims, values) = &found[0];
    assert_eq!((found.len(), name.as_str()), (1, "y"), "{layer}");
    assert_eq!(found_dims[1..], *dims, "{layer}");
    assert!(close(values, y), "{layer}: {values:?}, expected {y:?}");
}

fn check(size: [usize; 3], layer: &str, x: &[f32], dims: &[usize], y: &[f32]) {
    check_with(size, layer, &[], x, dims, y);
}

/// Operator types in the order of the graph.
fn operators(imported: &Imported) -> Vec<String> {
    imported.model.graph.nodes().map(|(_, node)| node.op.clone()).collect()
}

#[test]
fn every_element_type_is_the_same_network() {
    let ini = around([1, 2, 2], "Type=Fc\nNbOutputs=1\nActivationFunction=Swish");
    let files = [("weights/y_weights.syntxt", "1 2 3 4"), ("weights/y_biases.syntxt", "-29.5")];
    for (word, dtype) in [
        ("float32", DataType::Float),
        ("float64", DataType::Double),
        ("float16", DataType::Float16),
    ] {
        let params = json!({ "export": { "float_type": word } });
        let imported = import_with(&params, &ini, &files).unwrap();
        let graph = &imported.model.graph;
        assert_eq!(graph[graph.outputs()[0]].ty.as_ref().unwrap().dtype(), Some(dtype));
        let (_, _, y) = &outputs(&imported, &[1.0, 2.0, 3.0, 4.0])[0];
        assert!((y[0] - 0.311_229_67).abs() < 1e-3, "{word}: {y:?}");
    }
}
