//! Networks that hold an ONNX file.

use onnxd_plugin_sdk::ir::text::{parse_model, print_model};
use onnxd_plugin_sdk::onnx::{Inline, encode_to_bytes};

use super::*;
use crate::probe::probe;

/// A convolution of single pixels, a pool, and a classifier with softmax, for one sample.
const FILE: &str = r#"<ir_version: 8, opset_import: ["" : 13]>
file (float[1, 2, 4, 2] image) => (float[1, 2] prob)
<float[2, 2, 1, 1] w = {1, 0, 0, 2}, float[2, 2] fc_w = {1, 2, 3, 4}, int64[2] s = {1, 2}> {
   a = Conv (image, w)
   [relu] b = Relu (a)
   pooled = GlobalAveragePool (b)
   "flat:0" = Reshape (pooled, s)
   last = MatMul ("flat:0", fc_w)
   prob = Softmax <axis = 1> (last)
}"#;
const ENV: &str = "DefaultModel=Frame\n[sp]\nSizeX=2\nSizeY=4\nNbChannels=2\n";
const ONNX: &str = "[onnx]\nInput=sp\nType=ONNX\nFile=${N2D2_MODELS}/x/net.onnx\n";
const IMAGE: [f32; 16] = [1., 2., 3., 4., 5., 6., 7., 8., -1., 1., -1., 1., -1., 1., -1., 1.];

fn encoded(text: &str) -> Vec<u8> {
    encode_to_bytes(&parse_model(text).unwrap(), &mut Inline).unwrap().to_vec()
}

fn import_files(ini: &str, file: &str, params: &Value) -> Result<Imported, Diagnostics> {
    let files = Texts(vec![("net.ini", ini.as_bytes().to_vec()), ("net.onnx", encoded(file))]);
    let imported = import("net.ini", &files, &options(params), &|_, _| Ok(()))?;
    let findings = verify(&imported.model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "{findings}\n{}", print_model(&imported.model));
    Ok(imported)
}

fn imported(rest: &str) -> Imported {
    let random = json!({ "source": { "random": true } });
    import_files(&format!("{ENV}{ONNX}{rest}"), FILE, &random).unwrap_or_else(|e| panic!("{e}"))
}

fn refusal(env: &str, rest: &str, file: &str) -> String {
    import_files(&format!("{env}{ONNX}{rest}"), file, &json!({})).unwrap_err().to_string()
}

fn softmax(x: [f32; 2]) -> Vec<f32> {
    let sum = x[0].exp() + x[1].exp();
    x.iter().map(|v| v.exp() / sum).collect()
}

#[test]
fn a_softmax_of_the_file_is_a_target() {
    let imported = imported("");
    // The channels' means of the positive parts are 4.5 and 1.
    let found = outputs(&imported, &IMAGE);
    assert_eq!((found.len(), found[0].0.as_str()), (1, "prob"));
    assert!(close(&found[0].2, &softmax([7.5, 13.0])), "{found:?}");
    let graph = &imported.model.graph;
    let prob = graph[graph.outputs()[0]].ty.as_ref().unwrap();
    assert_eq!(prob.shape().unwrap()[0], "batch".into(), "the file's batch of one is not kept");
    let (_, conv) = graph.nodes().next().unwrap();
    let layer = &conv.layers[0];
    assert_eq!((layer.name.as_str(), layer.kind.as_str()), ("a", "Conv"));
    assert!(layer.place.starts_with("net.ini:"));
}

#[test]
fn layers_and_targets_use_results_of_the_file() {
    let rest = "Ignore=prob\n[soft]\nInput=onnx,last\nType=Softmax\nNbOutputs=2\n[soft.Target]\n\
                [a]\nInput=b\nType=Activation\nActivationFunction=Rectifier\n[a.Target]\n\
                [relu.Target-again]\n[flat:0.Target-Top5]\n";
    let imported = imported(rest);
    let found = outputs(&imported, &IMAGE);
    let by_name: BTreeMap<&str, &[f32]> =
        found.iter().map(|(name, _, y)| (name.as_str(), &y[..])).collect();
    let names: Vec<&str> = by_name.keys().copied().collect();
    assert_eq!(names, ["a", "flat:0", "relu", "soft"]);
    assert!(close(by_name["soft"], &softmax([7.5, 13.0])));
    assert!(close(by_name["flat:0"], &[4.5, 1.0]));
    let gain = |i: usize| if i < 8 { 1.0 } else { 2.0 };
    let relu: Vec<f32> = IMAGE.iter().enumerate().map(|(i, x)| gain(i) * x.max(0.0)).collect();
    assert!(close(by_name["a"], &relu));
    assert_eq!(by_name["a"], by_name["relu"]);
}

#[test]
fn ignored_nodes_are_taken_out_and_the_rest_is_not_kept() {
    let rest = "Ignore=b prob\n[last.Target]\n";
    let imported = imported(rest);
    assert_eq!(operators(&imported), ["Conv", "GlobalAveragePool", "Reshape", "MatMul"]);
    // Without the rectifier the second mean is 0.
    assert!(close(&outputs(&imported, &IMAGE)[0].2, &[4.5, 9.0]));
    let cut =
        imported_ops("Ignore=prob\n[fc]\nInput=onnx,pooled\nType=Fc\nNbOutputs=3\n[fc.Target]\n");
    assert_eq!(cut, ["Conv", "Relu", "GlobalAveragePool", "Flatten", "Gemm"]);
    let moved = imported_ops("Ignore=prob last\n[last.Target]\n");
    assert_eq!(moved.last().unwrap(), "Identity");
    let unknown = self::imported("Ignore=prb\n").notes;
    assert!(unknown[0].message.contains("`prb`") && unknown[0].help.contains("`prob`"));
}

fn imported_ops(rest: &str) -> Vec<String> {
    operators(&imported(rest))
}

#[test]
fn a_file_may_stand_behind_layers() {
    let ini = format!(
        "{ENV}[first]\nInput=sp\nType=Scaling\nFactor=2\n\
         [onnx]\nInput=first\nType=ONNX\nFile=net.onnx\n[onnx.Target]\n"
    );
    let imported = import_files(&ini, FILE, &json!({})).unwrap();
    let found = outputs(&imported, &IMAGE);
    assert_eq!((found.len(), found[0].0.as_str()), (1, "onnx"));
    assert!(close(&found[0].2, &softmax([15.0, 26.0])), "{found:?}");
}

#[test]
fn axes_are_brought_into_order() {
    let last = r#"<ir_version: 8, opset_import: ["" : 13]>
file (float["N", 4, 2, 2] image) => (float["N", 4, 2, 2] y) { y = Neg (image) }"#;
    let target = "[y.Target]\n";
    let ini = |env: &str, more: &str| format!("{env}{ONNX}{more}{target}");
    let found = import_files(&ini(ENV, ""), last, &json!({})).unwrap();
    assert_eq!(operators(&found), ["Transpose", "Neg"]);
    let wide = ENV.replace("SizeX=2\nSizeY=4", "SizeX=4\nSizeY=2");
    let swapped = import_files(&ini(&wide, "Transpose=1\n"), FILE, &json!({})).unwrap_err();
    assert!(swapped.to_string().contains("`y`"), "{swapped}");
    let one = r#"<ir_version: 8, opset_import: ["" : 13]>
file (float["N", 2, 4, 2] image) => (float["N", 2, 4, 2] y) { y = Neg (image) }"#;
    let found = import_files(&ini(&wide, "Transpose=1\n"), one, &json!({})).unwrap();
    assert_eq!(operators(&found), ["Transpose", "Neg", "Transpose"]);
    let (name, dims, y) = &outputs(&found, &IMAGE)[0];
    assert_eq!((name.as_str(), &dims[..]), ("y", &[1, 2, 2, 4][..]));
    assert!(close(y, &IMAGE.map(|x| -x)));
}

#[test]
fn a_file_for_one_batch_alone_fixes_it() {
    let file = r#"<ir_version: 8, opset_import: ["" : 13]>
file (float[1, 2, 4, 2] image) => (float[1, 16] y)
<int64[1] s = {16}, int64[1] axis = {0}> {
   line = Reshape (image, s)
   y = Unsqueeze (line, axis)
}"#;
    let ini = format!("{ENV}{ONNX}[y.Target]\n");
    let found = import_files(&ini, file, &json!({})).unwrap();
    let graph = &found.model.graph;
    let shape = graph[graph.inputs()[0]].ty.as_ref().unwrap().dims().unwrap();
    assert_eq!(shape, [1, 2, 4, 2]);
    assert!(found.notes.iter().any(|n| n.message.contains("1 samples at a time")));
}

#[test]
fn element_types_are_cast() {
    let params = json!({ "export": { "float_type": "float64" } });
    let ini = format!("{ENV}{ONNX}Ignore=prob\n[s]\nInput=last\nType=Softmax\n[s.Target]\n");
    let found = import_files(&ini, FILE, &params).unwrap();
    let ops = operators(&found);
    assert_eq!((ops[0].as_str(), ops[6].as_str()), ("Cast", "Cast"), "{ops:?}");
    assert!(close(&outputs(&found, &IMAGE)[0].2, &softmax([7.5, 13.0])));
}

#[test]
fn names_do_not_clash() {
    let rest = "Ignore=prob\n[w]\nInput=last\nType=Fc\nNbOutputs=2\n[w.Target]\n\
                [w_w]\nInput=w\nType=Softmax\n[w_w.Target]\n[last.Target]\n";
    let found = outputs(&imported(rest), &IMAGE);
    let names: Vec<&str> = found.iter().map(|o| o.0.as_str()).collect();
    assert_eq!(names, ["w", "w_w", "last"]);
}

#[test]
fn what_is_wrong_with_a_file_names_its_section() {
    let target = "[last.Target]\n";
    let wide = ENV.replace("SizeX=2", "SizeX=3");
    for (env, rest, file, expected) in [
        (&wide[..], target, FILE, "[2, 4, 2], but is given [2, 4, 3]"),
        (ENV, "[lost.Target]\n", FILE, "`last`"),
        (ENV, "[c]\nInput=lost\nType=Softmax\n[c.Target]\n", FILE, "`last`"),
        (ENV, "ONNX_init=0\n[last.Target]\n", FILE, "`ONNX_init` 0"),
        (ENV, target, &FILE.replace("Relu", "Rolu"), "Rolu"),
    ] {
        let found = refusal(env, rest, file);
        assert!(found.contains(expected), "{found}");
        assert!(found.contains("net.ini:"), "{found}");
    }
    let two = "[more]\nInput=sp,sp\nType=ONNX\nFile=net.onnx\n[onnx.Target]\n[more.Target]\n";
    let found = refusal(ENV, two, FILE);
    assert!(found.contains("names 2 inputs, but the file has one input: `image`"), "{found}");
    let twice = "[more]\nInput=sp\nType=ONNX\nFile=net.onnx\n[last.Target]\n";
    let found = refusal(ENV, twice, FILE);
    assert!(found.contains("several ONNX files"), "{found}");
    let none = refusal(ENV, "Ignore=prob\n", FILE);
    assert!(none.contains("no target"), "{none}");
    let missing = import_files(
        &format!("{ENV}{}[y.Target]\n", ONNX.replace("net.onnx", "other.onnx")),
        FILE,
        &json!({}),
    );
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("`x/other.onnx` is missing"), "{missing}");
}

#[test]
fn settings_of_training_are_told_apart() {
    let rest = "[onnx:Conv_def]\nQWeight=LSQ\nConfigSection=c\n[a]\nNoBias=1\n\
                [c]\nSolvers.LearningRate=1\n[other]\nNoBias=1\n";
    let notes = imported(rest).notes;
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2, "{texts:?}");
    assert!(texts[0].contains("`QWeight`") && texts[1].contains("`NoBias`"), "{texts:?}");
}

#[test]
fn files_are_waited_for() {
    let ini = format!("{ENV}{ONNX}");
    let needs = |files: Vec<(&'static str, Vec<u8>)>| {
        let files = [("n/net.ini", ini.clone().into_bytes())].into_iter().chain(files).collect();
        let probe = probe("n/net.ini", &Texts(files), &options(&json!({})));
        let need = |n: onnxd_plugin_sdk::Need| (n.path, n.found_as.len());
        probe.needs.into_iter().map(need).collect::<Vec<_>>()
    };
    assert_eq!(needs(vec![]), [("n/x/net.onnx".to_owned(), 0)]);
    assert_eq!(needs(vec![("n/net.onnx", encoded(FILE))]), [("n/net.onnx".to_owned(), 1)]);
    assert_eq!(needs(vec![("n/x/net.onnx", b"damaged".to_vec())])[0].1, 1);
}
