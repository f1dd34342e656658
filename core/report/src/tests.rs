//! One successful and one failed report in every view.

use crate::{LINES_MAX, SCHEMA, from_json, html, json, receipt, text};
use onnxd_proto::onnxd::{
    Accumulator, Attempt, Component, Counts, Declined, Diagnostic, FileDigest, FileRole,
    ModelSummary, Numerics, OpCount, OutputNumerics, Param, Pass, PluginLine, Quality,
    Quantization, QuantizedLayer, QuantizedTensor, Recognition, Report, Skip, Stage, ValueSummary,
    Verdict, Versions,
};

fn op(op: &str, source: u64, after_passes: u64, r#final: u64) -> OpCount {
    OpCount { op: op.into(), source, after_passes, r#final }
}

fn value(name: &str, r#type: &str) -> ValueSummary {
    ValueSummary { name: name.into(), r#type: r#type.into() }
}

fn param(key: &str, value: &str, origin: &str) -> Param {
    Param { key: key.into(), value: value.into(), origin: origin.into() }
}

fn skip(at: &str, reason: &str) -> Skip {
    Skip { at: at.into(), reason: reason.into() }
}

fn good() -> Report {
    let model = ModelSummary {
        ir_version: 8,
        opset: [(String::new(), 17)].into(),
        inputs: vec![value("env", "float[1,1,16,16]")],
        outputs: vec![value("soft", "float[1,10]")],
        op_counts: vec![op("Relu", 2, 2, 2), op("Conv", 3, 3, 3), op("Dropout", 1, 0, 0)],
        parameters: 12_345,
        bytes: 50_000,
        ..ModelSummary::default()
    };
    let fuse = Pass {
        name: "fuse-batch-norm".into(),
        rewrites: 2,
        seconds: 0.0005,
        skipped: (1..=4).map(|i| skip(&format!("conv{i}"), "the weight is shared")).collect(),
        notes: Vec::new(),
    };
    let compared = OutputNumerics {
        output: "soft".into(),
        cosine: 1.0,
        sqnr_db: f64::INFINITY,
        within: true,
        ..Default::default()
    };
    let digest = |path: &str, role: FileRole| FileDigest {
        path: path.into(),
        bytes: 50_000,
        sha256: "ab".repeat(32),
        role: role.into(),
    };
    Report {
        schema: SCHEMA,
        job: "01J0".into(),
        name: "digits".into(),
        verdict: Verdict::Succeeded.into(),
        summary: "3 Conv, 2 Relu.".into(),
        recognition: Some(Recognition {
            frontend: "n2d2".into(),
            plugin: "org.onnxd.frontend-n2d2".into(),
            reason: "sections [sp] and [conv1]".into(),
            declined: vec![Declined { frontend: "onnx".into(), reason: "no protobuf".into() }],
        }),
        params: vec![
            param("export.opset", "unset", "default"),
            param("passes.profile", "\"none\"", "params.toml:3"),
        ],
        versions: Some(Versions {
            onnxd: "0.1.0".into(),
            plugins: vec![Component {
                id: "org.onnxd.frontend-n2d2".into(),
                version: "0.1.0".into(),
                sha256: "cd".repeat(32),
            }],
        }),
        source: vec![digest("net.ini", FileRole::Network)],
        outputs: vec![digest("model.onnx", FileRole::Model)],
        model: Some(model),
        stages: vec![Stage { name: "import".into(), seconds: 0.02, peak_rss_bytes: 12_000_000 }],
        passes: vec![fuse],
        numerics: Some(Numerics {
            engine: "builtin".into(),
            tolerance_abs: 1e-4,
            tolerance_rel: 1e-3,
            outputs: vec![compared],
            top1_agreement: Some(0.995),
            inputs: "`x` [1, 2]".into(),
        }),
        attempt: 1,
        ..Default::default()
    }
}

fn found() -> Diagnostic {
    Diagnostic {
        code: "N0203".into(),
        class: "unsupported".into(),
        message: "no counterpart for `<Foo>`\nat all".into(),
        layer: "c\"1".into(),
        layer_kind: "Foo".into(),
        place: "net.ini:12".into(),
        help: "Leave it out.".into(),
        severity: String::new(),
    }
}

fn bad() -> Report {
    Report {
        schema: SCHEMA,
        job: "01J1".into(),
        name: "<b>&'".into(),
        verdict: Verdict::Failed.into(),
        diagnostics: vec![found(), found()],
        versions: Some(Versions { onnxd: "0.1.0".into(), plugins: Vec::new() }),
        ..Default::default()
    }
}

#[test]
fn text_of_a_success() {
    let expected = "\
name      digits
verdict   succeeded
summary   3 Conv, 2 Relu.
quality   equal against the reference, within the tolerance (output soft)
size      50.0 kB -> 50.0 kB (100 %)
time      20.0 ms
job       01J0

numerics  OUTPUT           MAX ABS  MEAN ABS  COSINE  SQNR DB  TOLERANCE
numerics  soft                   0         0  1.0000      inf  within 1.000e-4
numerics                                                       absolute, 0.0010
numerics                                                       relative
numerics  top-1 agreement                                      99.50 %

value  DIRECTION  NAME  TYPE
value  input      env   float[1,1,16,16]
value  output     soft  float[1,10]

model  PROPERTY       VALUE
model  ir version     8
model  opset ai.onnx  17
model  parameters     12,345
model  size           50.0 kB

op  TYPE     SOURCE  AFTER PASSES  FINAL
op  Conv          3             3      3
op  Relu          2             2      2
op  Dropout       1             0      0

pass  NAME             REWRITES  NEAR-MATCHES    TIME  NOTES
pass  fuse-batch-norm         2             4  0.5 ms

skip  PASS             PLACES  REASON                AT
skip  fuse-batch-norm       4  the weight is shared  conv1, conv2, conv3, ...

param  KEY             VALUE   ORIGIN
param  passes.profile  \"none\"  params.toml:3

recognition  FRONT-END  ANSWER    REASON
recognition  n2d2       took it   sections [sp] and [conv1]
recognition  onnx       declined  no protobuf

stage  NAME       TIME  PEAK MEMORY
stage  import  20.0 ms      12.0 MB

file  DIRECTION  ROLE     PATH           SIZE  SHA256
file  source     network  net.ini     50.0 kB  abababababababab
file  output     model    model.onnx  50.0 kB  abababababababab

version  COMPONENT                VERSION  SHA256
version  onnxd                    0.1.0
version  org.onnxd.frontend-n2d2  0.1.0    cdcdcdcdcdcdcdcd
";
    assert_eq!(text(&good()), expected);
}

#[test]
fn findings_come_before_tables_and_errors_before_notes() {
    let note = Diagnostic { severity: "note".into(), message: "by the way".into(), ..found() };
    let warning = Diagnostic { severity: "warning".into(), message: "beware".into(), ..found() };
    let diagnostics = vec![note, warning, found()];
    for report in [Report { diagnostics: diagnostics.clone(), ..good() }, bad()] {
        let shown = text(&report);
        let after_head = shown.split("\n\n").nth(1).unwrap();
        let first = "finding  N0203 error unsupported at c\"1 (Foo) net.ini:12\n\
                     finding  no counterpart for `<Foo>`\\nat all\nfinding  Leave it out.";
        assert!(after_head.starts_with(first), "{shown}");
        let page = html(&report);
        let places = ["<header", "<ol class=\"findings\">", "<table"].map(|w| page.find(w));
        assert!(places[0] < places[1] && (places[2].is_none() || places[1] < places[2]));
    }
    let page = html(&Report { diagnostics, ..good() });
    let order = ["no counterpart", "beware", "by the way"].map(|w| page.find(w).unwrap());
    assert!(order.is_sorted(), "{order:?}");
    let early = text(&Report { model: Some(ModelSummary::default()), ..bad() });
    assert!(!early.contains("ir version"), "{early}");
}

#[test]
fn the_head_has_verdict_quality_size_and_time() {
    let page = html(&good());
    let head = &page[page.find("<header").unwrap()..page.find("</header>").unwrap()];
    for words in [
        "<p class=\"verdict\">succeeded</p>", "<dt>quality</dt><dd>equal against the reference",
        "<dt>size</dt><dd>50.0 kB \u{2192} 50.0 kB (100 %)</dd>", "<dt>time</dt><dd>20.0 ms</dd>",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    let failed = html(&bad());
    assert!(failed.contains("<header class=\"bad\">") && !failed.contains("<dt>quality"));
}

/// What keeps a page readable on a telephone and for a program that reads it aloud.
#[test]
fn tables_scroll_inside_themselves_and_words_stay_whole() {
    let page = html(&good());
    let tables = page.matches("<table>").count();
    assert!(tables > 5);
    let scrolled = page.matches("<div class=\"scroll\" tabindex=\"0\" role=\"region\"").count();
    let captions = page.matches("<caption class=\"heard\">").count();
    let headings = page.matches("<h2 id=").count();
    assert_eq!([scrolled, captions, headings], [tables; 3]);
    assert_eq!(page.matches("<h1>").count(), 1);
    assert!(!page.contains("<th>") && page.contains("<th scope=\"col\""), "{page}");
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    // Text may be broken in mid-word in digests and long values alone.
    let anywhere: Vec<&str> =
        style.split('}').filter(|rule| rule.contains("overflow-wrap: anywhere")).collect();
    assert!(anywhere.iter().all(|r| r.contains("td.long") || r.contains("footer")), "{anywhere:?}");
    assert!(!style.contains("break-all"), "{style}");
    assert!(page.contains(&format!("<td class=\"name\">{}</td>", "ab".repeat(32))));
}

#[test]
fn text_keeps_to_eighty_columns_where_words_allow() {
    let long = "many words that are longer than a line of a terminal would be, and then some more";
    let diagnostics = vec![Diagnostic { message: long.into(), help: long.into(), ..found() }];
    let metadata = vec![format!("note = {long}")];
    let report = Report { summary: long.into(), diagnostics, metadata, ..good() };
    for line in text(&report).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn what_plugins_log_is_shown() {
    let line = PluginLine {
        plugin: "org.example".into(),
        level: "warning".into(),
        target: "reader".into(),
        text: "<odd>".into(),
    };
    let report = Report { plugin_log: vec![line], plugin_log_dropped: 7, ..good() };
    assert_eq!(from_json(&json(&report)).unwrap(), report);
    let shown = text(&report);
    assert!(shown.contains("log  org.example  warning  reader  <odd>"), "{shown}");
    assert!(shown.contains("7 lines more are not kept"), "{shown}");
    assert!(html(&report).contains("<td class=\"name\">&lt;odd&gt;</td>"));
}

#[test]
fn receipts() {
    let expected = "\
onnxd 0.1.0: digits
recognised: n2d2 by org.onnxd.frontend-n2d2: sections [sp] and [conv1]
result: succeeded
summary: 3 Conv, 2 Relu.
model: model.onnx, 50.0 kB, opset 17, sha256 abababababababab
against the reference on `x` [1, 2]: soft differs by at most 0, SQNR inf dB
next: nothing; details are in report.html
job: 01J0
";
    assert_eq!(receipt(&good()), expected);
    let expected = "\
onnxd 0.1.0: <b>&'
recognised: nothing
result: failed
reason: N0203 unsupported: no counterpart for `<Foo>`\\nat all [layer c\"1 at net.ini:12]
further findings: 1, see report.txt
next: Leave it out.
job: 01J1
";
    assert_eq!(receipt(&bad()), expected);
    let mut worst = good();
    worst.diagnostics = bad().diagnostics;
    assert!(receipt(&worst).lines().count() <= LINES_MAX);
}

#[test]
fn json_has_the_keys_of_the_contract_and_reads_back() {
    let written = json(&good());
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "schema", "job", "name", "verdict", "summary", "attempt", "recognition", "params",
        "versions", "source", "outputs", "model", "stages", "passes", "comparisons",
        "quantization", "numerics", "further", "diagnostics", "metadata", "plugin_log",
        "plugin_log_dropped",
    ];
    assert_eq!(keys, expected);
    assert_eq!(value["model"]["op_counts"][1]["final"], 3);
    assert_eq!(value["numerics"]["outputs"][0]["sqnr_db"], "inf");
    assert_eq!(from_json(&written).unwrap(), good());
    assert_eq!(json(&from_json(&written).unwrap()), written);

    let failed = json(&bad());
    let value: serde_json::Value = serde_json::from_str(&failed).unwrap();
    assert_eq!(value["diagnostics"][0]["severity"], "error");
    assert!(value["model"].is_null());
}

#[test]
fn columns_without_a_word_are_left_out_of_the_page() {
    let page = |accumulator| {
        let layers =
            vec![QuantizedLayer { name: "conv".into(), accumulator, ..QuantizedLayer::default() }];
        let quantization = Some(Quantization { layers, ..Quantization::default() });
        html(&Report { quantization, ..good() })
    };
    let has = |page: &str| page.contains(">accumulator bits</th>");
    let sums = Some(Accumulator { max: 40_000, bits: 17, bits_held: 32 });
    assert!(has(&page(sums)) && !has(&page(None)), "{}", page(None));
}

#[test]
fn quantization_is_shown_and_reads_back() {
    let layer = |name: &str, sqnr_db| QuantizedLayer {
        name: name.into(),
        op: "Conv".into(),
        rescaling: "Single-shift by 9".into(),
        sqnr_db,
        output: "conv1_out".into(),
        accumulator: Some(Accumulator { max: 40_000, bits: 17, bits_held: 32 }),
    };
    let tensor = QuantizedTensor {
        name: "conv1_w".into(),
        element_type: "int8".into(),
        scales: vec![0.5, 0.25],
        min: Some(-64.0),
        max: Some(63.5),
        method: "max".into(),
        ..QuantizedTensor::default()
    };
    let made = QuantizedTensor {
        name: "conv1_out".into(),
        seen_min: Some(-1.5),
        seen_max: Some(7.25),
        clipped: Some(0.125),
        min: Some(-1.0),
        max: Some(6.0),
        counts: Some(Counts { low: -2.0, high: 8.0, counts: vec![1, 0, 1000, 20, 7] }),
        ..QuantizedTensor::default()
    };
    let attempt = |what: &str, sqnr_db, chosen| Attempt { what: what.into(), sqnr_db, chosen };
    let quantization = Quantization {
        statistics: "of 8 samples, reloaded".into(),
        tried: vec![attempt("min-max", 31.5, false), attempt("MSE <&>", 33.25, true)],
        format: "N2D2".into(),
        quantizer: "n2d2".into(),
        samples: 8,
        compared: 4,
        tensors: vec![tensor, made],
        layers: vec![layer("conv1", Some(f64::INFINITY)), layer("conv2", None)],
        left_in_float: vec![skip("soft", "Softmax has no integer form")],
        ..Quantization::default()
    };
    let report = Report { quantization: Some(quantization), ..good() };
    let written = json(&report);
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["quantization"]["layers"][0]["sqnr_db"], "inf");
    assert!(value["quantization"]["layers"][1]["sqnr_db"].is_null());
    assert_eq!(from_json(&written).unwrap(), report);
    let shown = text(&report);
    for words in [
        "Single-shift by 9", "conv1_w", "Softmax has no", "12.50 %", "17 of 32",
        "of 8 samples, reloaded", "MSE <&>  33.2500  chosen",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let page = html(&report);
    assert!(page.contains("MSE &lt;&amp;&gt;"), "{page}");
    for words in ["0.2500 to 0.5000", "-64.0000 to 63.5000", "-1.5000 to 7.2500"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // The drawing begins at -2, each unit has 25.6 pixels.
    assert!(page.contains("<line x1=\"25.6\"") && page.contains("<line x1=\"204.8\""), "{page}");
    assert_eq!((page.matches("<path").count(), page.matches("h51.20").count()), (1, 5), "{page}");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let told = receipt(&report);
    assert!(told.contains("quantized to N2D2: worst layer conv1, SQNR inf dB"), "{told}");
}

#[test]
fn a_receipt_says_that_nothing_was_quantized() {
    let told = |quantized| {
        let quality = Quality { products: Some(2), quantized, ..Quality::default() };
        let format = "QDQ".into();
        let quantization =
            Quantization { format, quality: Some(quality), ..Quantization::default() };
        receipt(&Report { quantization: Some(quantization), ..good() })
    };
    assert!(told(0).contains("\nquantized to QDQ: nothing\n"), "{}", told(0));
    assert!(told(1).contains("\nquantized to QDQ: outputs"), "{}", told(1));
}

/// What plain rounding reaches is told where something else was done.
#[test]
fn a_receipt_says_a_ratio_once() {
    let told = |nearest_db| {
        let (sqnr_db, worst_db) = (Some(14.0), 14.0);
        let quality = Quality { sqnr_db, worst_db, nearest_db, samples: 2, ..Quality::default() };
        let format = "QDQ".into();
        let quantization =
            Quantization { format, quality: Some(quality), ..Quantization::default() };
        receipt(&Report { quantization: Some(quantization), ..good() })
    };
    assert!(told(Some(12.5)).contains("SQNR 14.0 dB, rounded to the nearest 12.5 dB on 2"));
    for same in [None, Some(14.0)] {
        assert!(told(same).contains("SQNR 14.0 dB on 2"), "{}", told(same));
    }
}

#[test]
fn what_is_no_report_is_refused() {
    for text in ["", "[]", "{}", "{\"schema\": 2, \"verdict\": \"failed\"}"] {
        assert_eq!(from_json(text).unwrap_err().code, "N0107", "{text}");
    }
}

#[test]
fn html_is_escaped_and_self_contained() {
    let page = html(&bad());
    assert!(page.contains("<h1>&lt;b&gt;&amp;&#39;</h1>"));
    assert!(page.contains("`&lt;Foo&gt;`\\nat all"));
    assert!(!page.contains("<b>") && !page.contains("<Foo"));
    for page in [page, html(&good())] {
        for word in ["<script", "src=", "href=", "http:", "https:", "style=", "<link", "<iframe"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"), "{page}");
        assert_eq!(page.matches("<tr>").count(), page.matches("</tr>").count());
    }
    assert!(html(&good()).contains("<rect width=\"160.0\" height=\"12\"/>"));
}

#[test]
fn words_are_read_back_and_others_refused() {
    let text = json(&good());
    assert!(text.contains("\"verdict\": \"succeeded\"") && text.contains("\"role\": \"network\""));
    assert_eq!(from_json(&text).unwrap().verdict(), Verdict::Succeeded);
    let why = from_json(&text.replace("\"succeeded\"", "\"splendid\"")).unwrap_err();
    assert!(why.message.contains("unknown word `splendid`"), "{why}");
}
