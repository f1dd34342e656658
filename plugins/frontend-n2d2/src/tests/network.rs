//! How layers are put together: order, inputs, names, sharing, targets, notes.

use onnxd_plugin_sdk::ir::text::print_model;

use super::*;

const ENV: &str = "[sp]\nSizeX=1\nSizeY=1\nNbChannels=2\n";

#[test]
fn a_small_network_as_text() {
    let ini = "\
DefaultModel=Frame
[env]
SizeX=4
SizeY=4
[conv1]
Input=env
Type=Conv
NbOutputs=1
KernelDims=3 3
ActivationFunction=Rectifier
[pool1]
Input=conv1
Type=Pool
PoolDims=$([conv1]_OutputsWidth ) 2
NbOutputs=[conv1]NbOutputs
Mapping.Size=1
Pooling=Max
[fc1]
Input=pool1
Type=Fc
NbOutputs=2
ConfigSection=fc
[soft]
Input=fc1
Type=Softmax
NbOutputs=2
[soft.Target]
[fc]
NoBias=1
";
    let files = [
        ("weights/conv1_weights.syntxt", "1 2 3\n4 5 6\n7 8 9"),
        ("weights/conv1_biases.syntxt", "0.5"),
        ("weights/fc1_weights.syntxt", "1 -1"),
    ];
    let imported = import_with(&json!({}), ini, &files).unwrap();
    let expected = include_str!("small.onnx.txt");
    assert_eq!(print_model(&imported.model), expected);
    assert_eq!(imported.notes, []);
    let graph = &imported.model.graph;
    let relu = graph.producer(graph.value_named("conv1").unwrap()).unwrap();
    let layer = &graph[relu].layers[0];
    let place = (layer.name.as_str(), layer.kind.as_str(), layer.place.as_str());
    assert_eq!(place, ("conv1", "Conv", "net.ini:5"));
}

#[test]
fn several_inputs_are_concatenated() {
    let ini = format!(
        "{ENV}[b]\nInput=a,sp\nType=Softmax\n[b.Target]\n\
         [a]\nInput=sp\nType=Fc\nNbOutputs=1\n"
    );
    let imported = random(&ini).unwrap();
    assert_eq!(operators(&imported), ["Flatten", "Gemm", "Unsqueeze", "Concat", "Softmax"]);
    assert_eq!(outputs(&imported, &[1.0, 2.0])[0].1, [1, 3, 1, 1]);
}

#[test]
fn single_pixels_adapt_to_images() {
    let ini = "[sp]\nSizeX=2\nSizeY=1\n\
               [a]\nInput=sp\nType=Fc\nNbOutputs=1\n\
               [y]\nInput=sp,a\nType=Activation\nActivationFunction=Linear\n[y.Target]\n";
    let files = [("weights/a_weights.syntxt", "1 1"), ("weights/a_biases.syntxt", "0")];
    let imported = import_with(&json!({}), ini, &files).unwrap();
    let (_, dims, y) = &outputs(&imported, &[3.0, 4.0])[0];
    assert_eq!((dims.as_slice(), y.as_slice()), (&[1, 2, 1, 2][..], &[3.0, 4.0, 7.0, 7.0][..]));
}

#[test]
fn layers_may_stand_before_their_inputs() {
    let ini = format!(
        "{ENV}[c]\nInput=b\nType=Scaling\nFactor=2\n[c.Target]\n\
         [b]\nInput=a\nType=Scaling\nFactor=3\n[a]\nInput=sp\nType=Scaling\nFactor=5\n"
    );
    let imported = random(&ini).unwrap();
    assert_eq!(outputs(&imported, &[1.0, 2.0])[0].2, [30.0, 60.0]);
}

#[test]
fn layer_names_are_not_taken_by_other_values() {
    let ini = format!(
        "{ENV}[c]\nInput=sp\nType=Fc\nNbOutputs=2\nActivationFunction=Rectifier\n\
         [c_gemm]\nInput=c\nType=Fc\nNbOutputs=2\n\
         [c_gemm_w]\nInput=c_gemm\nType=Scaling\nFactor=2\n\
         [c_w]\nInput=c_gemm_w\nType=Scaling\nFactor=2\n[c_w.Target]\n[c_gemm.Target]\n[c.Target]\n"
    );
    let imported = random(&ini).unwrap();
    let names: Vec<String> = outputs(&imported, &[1.0, 2.0]).into_iter().map(|o| o.0).collect();
    assert_eq!(names, ["c_w", "c_gemm", "c"]);
}

#[test]
fn targets_of_layers_that_do_nothing() {
    let ini = format!(
        "{ENV}[a]\nInput=sp\nType=Scaling\nFactor=2\n[drop]\nInput=a\nType=Dropout\n\
         [same]\nInput=a\nType=Padding\n[first]\nInput=sp\nType=Dropout\n\
         [drop.Target]\n[same.Target]\n[first.Target]\n[a.Target-again]\n"
    );
    let imported = random(&ini).unwrap();
    let found = outputs(&imported, &[1.0, 2.0]);
    let names: Vec<&str> = found.iter().map(|o| o.0.as_str()).collect();
    assert_eq!(names, ["a", "same", "first"]);
    assert_eq!(found[2].2, [1.0, 2.0]);
    let notes: Vec<&str> = imported.notes.iter().map(|n| n.message.as_str()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("moves to `a`"));
}

#[test]
fn shared_parameters_are_one_initializer() {
    let conv = "Type=Conv\nNbOutputs=2\nKernelSize=1\n";
    let ini = format!(
        "{ENV}[b]\nInput=sp\n{conv}WeightsSharing=a\n[a]\nInput=b\n{conv}\n[a.Target]\n\
         [c]\nInput=a\n{conv}WeightsSharing=b\nBiasesSharing=a\n[c.Target]\n"
    );
    let graph = random(&ini).unwrap().model.graph;
    let convs: Vec<_> = graph.nodes().map(|(_, node)| node).collect();
    let weights: Vec<&str> =
        convs.iter().map(|n| graph[n.input(1).unwrap()].name.as_str()).collect();
    assert_eq!(weights, ["a_w"; 3]);
    let biases: Vec<&str> =
        convs.iter().map(|n| graph[n.input(2).unwrap()].name.as_str()).collect();
    assert_eq!(biases, ["b_b", "a_b", "a_b"]);
    for (wrong, reason) in [
        ("WeightsSharing=x", "does not have"),
        ("WeightsSharing=b\nBiasesSharing=b", "does not have"),
    ] {
        let ini = format!("{ENV}[b]\nInput=sp\n{conv}{wrong}\n[b.Target]\n");
        let problem = refused(&ini);
        assert!(problem.contains(reason), "{problem}");
    }
}

#[test]
fn settings_without_effect_are_notes_or_errors() {
    let ini = format!(
        "{ENV}BatchSize=4\n[a]\nInput=sp\nType=Conv\nNbOutputs=1\nKernelSize=1\nStrides=2\n\
         WeightsFiller=HeFiller\nNoBias=1\n[a.Target]\nTopN=1\nTopM=2\n"
    );
    let imported = random(&ini).unwrap();
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    for (note, text) in [("`Strides`", "`Stride`"), ("`TopM`", "`TopN`"), ("`NoBias`", "N2D2")] {
        assert!(notes.iter().any(|n| n.contains(note) && n.contains(text)), "{notes:?}");
    }
    let strict = json!({ "source": { "random": true, "strict": true } });
    assert_eq!(import_with(&strict, &ini, &[]).unwrap_err().0.len(), 3);
}

#[test]
fn weights_are_found_where_n2d2_looks() {
    let ini = around([1, 1, 1], "Type=Fc\nNbOutputs=1\nConfigSection=plain");
    let both = [
        ("weights/y_weights.syntxt", "1"),
        ("weights_validation/y_weights.syntxt", "2"),
        ("old/y.syntxt", "3"),
    ];
    let run = |params: Value, database: &str, files: &[File]| {
        let imported = import_with(&params, &format!("{database}{ini}"), files).unwrap();
        outputs(&imported, &[1.0])[0].2[0]
    };
    assert_eq!(run(json!({}), "", &both), 1.0);
    assert_eq!(run(json!({}), "[database]\nValidation=0.1\n", &both), 2.0);
    assert_eq!(run(json!({}), "[database]\nValidation=0.1\n", &both[..1]), 1.0);
    assert_eq!(run(json!({}), "", &both[1..2]), 2.0);
    assert_eq!(run(json!({ "source": { "weights": "old" } }), "", &both), 3.0);
}

#[test]
fn missing_weights_may_be_random() {
    let ini = around([1, 1, 2], "Type=Fc\nNbOutputs=1");
    let files = [("weights/y_weights.syntxt", "1 2")];
    let problem = import_with(&json!({}), &ini, &files).unwrap_err().to_string();
    assert!(problem.contains("weights/y_biases.syntxt"), "{problem}");
    let ignore = json!({ "source": { "weights_ignore": true } });
    let imported = import_with(&ignore, &ini, &files).unwrap();
    assert_eq!(imported.notes.len(), 1);
    let at = |x: [f32; 2]| outputs(&imported, &x)[0].2[0];
    assert!(close(&[at([1.0, 1.0]) - at([0.0, 0.0])], &[3.0]));
    assert_eq!(import_with(&ignore, &ini, &[]).unwrap().notes.len(), 1);
}

#[test]
fn the_report_tells_about_the_input() {
    let steps = "[sp.OnTheFlyTransformation]\nType=FlipTransformation\nApplyTo=LearnOnly\n\
                 [sp.Transformation-1]\nType=RescaleTransformation\nWidth=8\nHeight=[sp]SizeY\n";
    let ini = format!("{}{steps}", around([1, 4, 4], "Type=Softmax"));
    let metadata = random(&ini).unwrap().metadata;
    assert_eq!(metadata[0].1, "RescaleTransformation(Height=4, Width=8)");
    assert!(metadata[1].0 == "input.range" && metadata[1].1.starts_with("[0, 1]"));
    let float = "[sp.Transformation-2]\nType=RangeAffineTransformation\nFirstOperator=Minus\n\
                 FirstValue=[sp.StimuliData]_GlobalValue.mean\n[sp.StimuliData]\nMeanData=1\n";
    let metadata = random(&format!("{ini}{float}")).unwrap().metadata;
    assert!(metadata[0].1.contains("FirstValue=[sp.StimuliData]_GlobalValue.mean"));
    assert!(metadata.iter().all(|(key, _)| key != "input.range"));
    let affine = "[sp.Transformation-2]\nType=RangeAffineTransformation\nFirstOperator=Minus\n\
                  FirstValue=102 51 204\nSecondOperator=Divides\nSecondValue=51\n";
    let metadata = random(&format!("{ini}{affine}")).unwrap().metadata;
    assert!(metadata[1].1.starts_with("[-4, 4]: "), "{}", metadata[1].1);
}
