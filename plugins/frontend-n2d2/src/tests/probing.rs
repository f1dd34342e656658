//! What is recognised as a network, and what it waits for.

use onnxd_plugin_sdk::{Claim, Probe};

use super::*;
use crate::probe::probe;

fn probed(params: &Value, files: &[File]) -> Probe {
    probe("n/net.ini", &Texts(files.to_vec()), &options(params))
}

/// Paths that are missing and that are there.
fn needs(params: &Value, files: &[File]) -> [Vec<String>; 2] {
    let (found, missing) = probed(params, files)
        .needs
        .into_iter()
        .partition::<Vec<_>, _>(|need| need.optional || !need.found_as.is_empty());
    [missing, found].map(|needs| needs.into_iter().map(|need| need.path).collect())
}

const NET: &str = "[sp]\nSizeX=1\nSizeY=1\n[a]\nInput=sp\nType=Conv\nKernelSize=1\nNbOutputs=1\n\
                   [b]\nInput=a\nType=BatchNorm\n[c]\nInput=b\nType=Fc\nConfigSection=p\n\
                   [d]\nInput=c\nType=Softmax\n[d.Target]\n[p]\nNoBias=1\n";

#[test]
fn claims() {
    for (text, claim) in [
        (NET, Claim::ByContent),
        ("[sp]\nSizeX=1\n", Claim::ByExtension),
        ("[a]\nInput=sp\nType=Conv\n", Claim::ByExtension),
        ("[sp]\nSizeX\n", Claim::ByExtension),
        ("[a]\nInput=sp\n\"\n", Claim::ByExtension),
        ("nbbits=8\n", Claim::No),
        ("[database]\nType=X\n", Claim::No),
        ("hello\n", Claim::No),
        ("", Claim::No),
    ] {
        assert_eq!(probed(&json!({}), &[("n/net.ini", text)]).claim, claim, "{text}");
    }
}

#[test]
fn weights_files_are_waited_for() {
    let net = ("n/net.ini", NET);
    let none = json!({});
    assert_eq!(needs(&none, &[net]), [vec!["n/weights".to_owned()], vec![]]);
    let files = [net, ("n/weights/a_weights.syntxt", ""), ("n/weights/c/Fc.syn", "")];
    let [missing, found] = needs(&none, &files);
    let expected = ["a_biases", "b_scales", "b_biases", "b_means", "b_variances"];
    assert_eq!(missing, expected.map(|name| format!("n/weights/{name}.syntxt")));
    assert_eq!(found, ["n/weights/a_weights.syntxt", "n/weights/c/Fc.syn"]);
    let random = json!({ "source": { "random": true } });
    assert_eq!(needs(&random, &[net]), [vec![], vec![]] as [Vec<String>; 2]);
    let ignore = json!({ "source": { "weights_ignore": true } });
    assert_eq!(needs(&ignore, &files)[0], Vec::<String>::new());
    let named = json!({ "source": { "weights": "w/" } });
    assert_eq!(needs(&named, &[net])[0], ["w"]);
    assert_eq!(needs(&named, &[net, ("w/a.syntxt", "")])[1], ["w/a.syntxt"]);
}

#[test]
fn networks_without_parameters_need_no_weights() {
    let text = "[sp]\nSizeX=1\nSizeY=1\n[a]\nInput=sp\nType=Softmax\n[a.Target]\n";
    assert_eq!(needs(&json!({}), &[("n/net.ini", text)]), [vec![], vec![]] as [Vec<String>; 2]);
}

#[test]
fn templates_are_waited_for() {
    let text = "[sp]\nSizeX=1\nSizeY=1\n[x@${N2D2_MODELS}/a.tpl]\n[y@b.tpl]\n";
    let [missing, found] = needs(&json!({}), &[("n/net.ini", text), ("n/b.tpl", "")]);
    assert_eq!((missing, found), (vec!["n/a.tpl".to_owned()], vec!["n/b.tpl".to_owned()]));
    let files = [("n/net.ini", text), ("n/b.tpl", ""), ("n/a.tpl", "[c]\nInput=sp\nType=Conv\n")];
    assert_eq!(needs(&json!({}), &files)[0], ["n/weights"]);
    assert_eq!(probed(&json!({}), &files).claim, Claim::ByContent);
}

#[test]
fn learned_ranges_are_waited_for() {
    let net = "[sp]\nSizeX=1\nSizeY=1\n[a]\nInput=sp\nType=Fc\nNbOutputs=1\nConfigSection=p\n\
               QWeight=LSQ\nQAct=SAT\n[a.Target]\n[p]\nNoBias=1\n";
    let files = [("n/net.ini", net), ("n/weights/a_weights.syntxt", "1")];
    let learned = ["a_alphaW_LSQ.syntxt", "a_QAct_SAT_Alpha.syntxt"];
    let [missing, _] = needs(&json!({}), &files);
    assert_eq!(missing, learned.map(|file| format!("n/weights/{file}")));
    assert_eq!(probed(&json!({}), &files).facts, ["learned ranges"]);
    let ignored = json!({ "source": { "quantizers": "ignored" } });
    assert_eq!(needs(&ignored, &files)[0], [""; 0]);
    assert!(probed(&ignored, &files).facts.is_empty());
    assert!(probed(&json!({}), &[("n/net.ini", NET)]).facts.is_empty());
}
