//! Networks that cannot be converted: every finding is reported, and nothing is allocated before.

use super::*;

const ENV: &str = "[sp]\nSizeX=8\nSizeY=8\n";

#[test]
fn unsupported_layers_are_listed_together() {
    let ini = format!(
        "{ENV}[a]\nInput=sp\nType=FMP\n[b]\nInput=a\nType=Fc\nNbOutputs=$([a]_NbOutputs )\n\
         [c]\nInput=b\nType=LSTM\n[d]\nInput=sp\nType=Dense\n[e]\nInput=sp\nType=Conv\n\
         KernelSize=9\nNbOutputs=1\n[f]\nInput=sp\nType=Convolution\n[a.Target]\n"
    );
    let problems = random(&ini).unwrap_err();
    let found: Vec<(&str, &str)> = problems
        .0
        .iter()
        .map(|p| (p.code.as_ref(), p.layer.as_ref().unwrap().name.as_str()))
        .collect();
    // By type of layer, then what is wrong with single layers.
    let expected = [("N0204", "f"), ("N0204", "d"), ("N0203", "a"), ("N0203", "c"), ("N0215", "e")];
    assert_eq!(found, expected, "{problems}");
}

#[test]
fn wiring() {
    let layer = "Type=Softmax\n";
    for (text, code, reason) in [
        ("", "N0205", "no layer"),
        ("[a]\nInput=sp\nType=Softmax\n", "N0212", "no target"),
        ("[a]\nInput=ab\n", "N0204", "`Type` is missing"),
        ("[a]\nInput=conv\nTYPE[a.Target]\n[conv1]\nInput=sp\nTYPE", "N0205", "mean `conv1`"),
        ("[a]\nInput=\nTYPE[a.Target]\n", "N0204", "names no layer"),
        ("[a]\nInput=a\nTYPE[a.Target]\n", "N0206", "a <- a"),
        (
            "[x]\nInput=a\nTYPE[a]\nInput=b\nTYPE[b]\nInput=c,sp\nTYPE[c]\nInput=a\nTYPE[a.Target]",
            "N0206",
            "a <- b <- c <- a",
        ),
        ("[a]\nInput=sp\nTYPEModel=Spike\n[a.Target]", "N0214", "spiking"),
    ] {
        let ini = format!("{ENV}{}", text.replace("TYPE", layer));
        let problems = random(&ini).unwrap_err();
        let all = problems.to_string();
        assert!(all.contains(code) && all.contains(reason), "{text}: {all}");
        assert_eq!(problems.0.iter().filter(|p| p.code == code).count(), 1, "{all}");
    }
    assert!(refused("[a]\nInput=sp\nType=Softmax\n").contains("`[sp]`, `[env]` or `[cenv]`"));
    let inserted = format!("InsertBatchNormAfterConv=1\n{}", around([1, 1, 1], "Type=Softmax"));
    assert!(refused(&inserted).contains("not supported"));
}

#[test]
fn absurd_sizes() {
    for (layer, reason) in [
        ("Type=Fc\nNbOutputs=1000000000", "536870912 parameters"),
        ("Type=Fc\nNbOutputs=99999999999", "2147483648 numbers"),
        ("Type=Conv\nKernelSize=1\nNbOutputs=1000000000", "numbers"),
        ("Type=Conv\nKernelSize=8\nNbOutputs=20000000", "entries"),
        ("Type=Deconv\nKernelSize=30\nNbOutputs=1000000", "536870912 parameters"),
        ("Type=Conv\nKernelSize=99999999999\nNbOutputs=1", "between 1 and"),
        ("Type=Deconv\nKernelSize=1\nStride=9999999\nNbOutputs=1", "numbers"),
        ("Type=Pool\nPoolSize=1\nPooling=Max\nNbOutputs=1000000000", "numbers"),
        ("Type=Padding\nTopPadding=9223372036854775807", "numbers"),
        ("Type=Padding\nTopPadding=4000000000", "numbers"),
        ("Type=Padding\nTopPadding=-9", "more off than"),
        ("Type=Reshape\nDims=4000000000 4000000000 4000000000", "do not fit"),
        ("Type=Reshape\nDims=0 -1 -1", "only once"),
        ("Type=Resize\nOutputWidth=4000000000\nOutputHeight=4000000000\nMode=Bilinear", "numbers"),
        (
            "Type=Resize\nOutputWidth=9999999\nOutputHeight=1\nMode=NearestNeighbor",
            "1048576 pixels",
        ),
        ("Type=Resize\nOutputWidth=0\nOutputHeight=1\nMode=Bilinear", "empty"),
        ("Type=Transpose\nPerm=0 1 1", "once"),
        ("Type=Softmax\nNbOutputs=3", "has 1 channels"),
        ("Type=Softmax\nGroupSize=3", "does not divide"),
        ("Type=LRN\nConfigSection=c\n[c]\nN=0", "at least 1"),
        ("Type=ElemWise\nOperation=Sum\nWeights=1 2 3", "1 are expected"),
        ("Type=ElemWise\nOperation=Add", "one of Sum"),
        ("Type=Softmax\nInputOffsetX=9", "does not have"),
    ] {
        let problem = refused(&around([1, 8, 8], layer));
        assert!(problem.contains(reason), "{layer}: {problem}");
    }
    let huge = "[sp]\nSizeX=4000000000\nSizeY=4000000000\n[y]\nInput=sp\nType=Softmax\n[y.Target]";
    assert!(refused(huge).contains("numbers"));
    let many: String = (0..20_001).map(|i| format!("[l{i}]\nInput=sp\n")).collect();
    assert!(refused(&format!("{ENV}{many}")).contains("20000 layers"));
    let wide = format!("{ENV}[a]\nType=Softmax\nInput=sp{}\n[a.Target]", ",sp".repeat(1000));
    assert!(refused(&wide).contains("1000 inputs"));
}

#[test]
fn activations_are_checked() {
    for (text, reason) in [
        ("Rectifyer", "mean `Rectifier`"),
        ("Rectifier\nActivationFunction.Log2RoundingPower=3", "does not exist"),
        ("Tanh\nActivationFunction.Alfa=1", "mean `ActivationFunction.Alpha`"),
        ("Rectifier\nActivationFunction.Clipping=-1", "not be negative"),
        ("Saturation\nActivationFunction.Threshold=-1", "not be negative"),
    ] {
        let layer = format!("Type=Activation\nActivationFunction={text}");
        let problem = refused(&around([1, 1, 1], &layer));
        assert!(problem.contains(reason), "{text}: {problem}");
    }
}

#[test]
fn weights_of_the_wrong_size() {
    let ini = around([1, 1, 2], "Type=Fc\nNbOutputs=2\nConfigSection=plain");
    for (weights, code) in [("1 2 3", "N0208"), ("1 2 3 4 5", "N0208"), ("1 2 3 x", "N0210")] {
        let problems =
            import_with(&json!({}), &ini, &[("weights/y_weights.syntxt", weights)]).unwrap_err();
        assert_eq!(problems.0[0].code, code, "{problems}");
        assert_eq!(problems.0[0].layer.as_ref().unwrap().name, "y");
    }
    assert_eq!(import_with(&json!({}), &ini, &[]).unwrap_err().0[0].code, "N0209");
}

#[test]
fn long_chains_and_many_copies_end() {
    let chain: String = (0..2000)
        .rev()
        .map(|i| match i {
            0 => "[l0]\nInput=sp\nType=Activation\n".to_owned(),
            _ => format!("[l{i}]\nInput=l{}\nType=Activation\n", i - 1),
        })
        .collect();
    let imported = random(&format!("{ENV}{chain}[l1999.Target]")).unwrap();
    assert_eq!(imported.model.graph.node_count(), 2000);
    let doubling: String =
        (1..40).map(|i| format!("[l{i}]\nInput=l{p},l{p}\nType=Softmax\n", p = i - 1)).collect();
    let ini = format!("{ENV}[l0]\nInput=sp\nType=Softmax\n{doubling}[l39.Target]");
    assert!(refused(&ini).contains("2147483648 numbers"));
}
