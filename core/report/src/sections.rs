//! What a report shows, as tables: the text and the HTML view draw the same ones.

use crate::format::{bytes, count, decibels, line, percent, real, seconds};
use onnxd_proto::onnxd::{FileRole, ModelReport, Quality, Report};
use std::collections::BTreeMap;

/// Places that are named for one reason of a pass; the rest is counted.
const PLACES_SHOWN: usize = 3;

/// Signal-to-noise ratio of a bar of full length; more is no better to a person.
const SQNR_DB_FULL: f64 = 60.0;

/// One table.
pub(crate) struct Section {
    /// First word of each of its lines in the text view.
    pub(crate) key: &'static str,
    /// Heading, and what links name it by.
    pub(crate) title: String,
    pub(crate) id: String,
    /// Names of the columns; a leading `#` marks numbers, a `~` what may be broken anywhere.
    pub(crate) columns: &'static [&'static str],
    /// Cells, one line of text each.
    pub(crate) rows: Vec<Vec<String>>,
    /// A drawing for each row, in the order of the rows; empty for none.
    pub(crate) charts: Vec<Option<Chart>>,
    /// The column that bars stand after, and what they show.
    pub(crate) bar_after: usize,
    pub(crate) bar_title: &'static str,
    /// Length of a bar for each row, from 0 to 1, in the order of the rows; empty for no bars.
    pub(crate) bars: Vec<f64>,
}

/// How often which values were seen, and what of them is kept.
pub(crate) struct Chart {
    /// Where the first interval begins, and where the last one ends.
    pub(crate) span: (f64, f64),
    pub(crate) counts: Vec<u64>,
    pub(crate) range: (f64, f64),
}

/// The title of a column without the mark of its kind.
pub(crate) fn column_title(column: &str) -> &str {
    column.trim_start_matches(['#', '~'])
}

pub(crate) fn is_number(column: &str) -> bool {
    column.starts_with('#')
}

/// Digests, paths and values, which may be broken anywhere; words may not.
pub(crate) fn is_long(column: &str) -> bool {
    column.starts_with('~')
}

/// All tables that have rows, in reading order: what became of the numbers comes first, what it was
/// made with comes last.
pub(crate) fn sections(report: &Report) -> Vec<Section> {
    let mut all = vec![
        numerics(report),
        quantization(report),
        quantized_layers(report),
        left_in_float(report),
        tried(report),
        values(report),
        model(report),
        operators(report),
        passes(report),
        comparisons(report),
        skips(report),
        quantized_tensors(report),
        params(report),
        plugin_log(report),
        recognition(report),
        stages(report),
        files(report),
        versions(report),
    ];
    all.extend(report.further.iter().enumerate().flat_map(|(i, part)| further(i + 2, part)));
    all.retain(|s| !s.rows.is_empty());
    all
}

/// The tables of a further model of the network, by its number.
fn further(number: usize, part: &ModelReport) -> Vec<Section> {
    let ModelReport { model: summary, passes: ran, .. } = part;
    let view = Report {
        model: summary.clone(),
        passes: ran.clone(),
        comparisons: part.comparisons.clone(),
        quantization: part.quantization.clone(),
        numerics: part.numerics.clone(),
        metadata: part.metadata.clone(),
        ..Report::default()
    };
    let tables: [fn(&Report) -> Section; 12] = [
        model, values, numerics, quantization, quantized_layers, left_in_float, tried, operators,
        passes, comparisons, skips, quantized_tensors,
    ];
    let file = summary.as_ref().map_or("", |model| model.file.as_str());
    let named = |table: fn(&Report) -> Section| {
        let table = table(&view);
        let (title, id) = (&table.title, &table.id);
        Section { title: format!("{title}: {}", line(file)), id: format!("{id}-{number}"), ..table }
    };
    tables.map(named).into()
}

fn table(
    key: &'static str,
    title: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
) -> Section {
    let bar_after = columns.len().saturating_sub(1);
    Section {
        key,
        title: title.to_owned(),
        id: key.to_owned(),
        columns,
        rows,
        bar_after,
        bar_title: "",
        bars: Vec::new(),
        charts: Vec::new(),
    }
}

/// Each as a share of the largest.
fn shares(all: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let most = all.clone().fold(0.0, f64::max);
    all.map(|x| if most > 0.0 { (x / most).clamp(0.0, 1.0) } else { 0.0 }).collect()
}

fn recognition(report: &Report) -> Section {
    let mut rows = Vec::new();
    if let Some(r) = &report.recognition {
        if !r.frontend.is_empty() {
            rows.push(vec![line(&r.frontend), "took it".into(), line(&r.reason)]);
        }
        let declined = r.declined.iter();
        rows.extend(declined.map(|d| vec![line(&d.frontend), "declined".into(), line(&d.reason)]));
    }
    table("recognition", "Recognition", &["front-end", "answer", "reason"], rows)
}

fn values(report: &Report) -> Section {
    let model = report.model.clone().unwrap_or_default();
    let row = |kind: &str, v: &onnxd_proto::onnxd::ValueSummary| {
        vec![kind.to_owned(), line(&v.name), line(&v.r#type)]
    };
    let inputs = model.inputs.iter().map(|v| row("input", v));
    let outputs = model.outputs.iter().map(|v| row("output", v));
    let rows = inputs.chain(outputs).collect();
    table("value", "Inputs and outputs", &["direction", "name", "~type"], rows)
}

fn model(report: &Report) -> Section {
    // A conversion that failed early knows no more of the model than its operators.
    let known = report.model.as_ref().filter(|m| m.ir_version > 0);
    let Some(model) = known else {
        return table("model", "Model", &["property", "~value"], Vec::new());
    };
    let mut rows = vec![vec!["ir version".to_owned(), model.ir_version.to_string()]];
    if !model.file.is_empty() {
        rows.insert(0, vec!["file".to_owned(), line(&model.file)]);
    }
    rows.extend(model.opset.iter().map(|(domain, version)| {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        vec![format!("opset {}", line(domain)), version.to_string()]
    }));
    rows.push(vec!["parameters".to_owned(), count(model.parameters)]);
    rows.push(vec!["size".to_owned(), bytes(model.bytes)]);
    let kept = |s: &onnxd_proto::onnxd::State| format!("{} -> {}", line(&s.output), line(&s.input));
    rows.extend(model.states.iter().map(|s| vec!["state, from call to call".to_owned(), kept(s)]));
    rows.extend(report.metadata.iter().map(|m| vec!["metadata".to_owned(), line(m)]));
    table("model", "Model", &["property", "~value"], rows)
}

fn operators(report: &Report) -> Section {
    let counts = report.model.iter().flat_map(|m| &m.op_counts);
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by(|a, b| (b.r#final, b.source, &a.op).cmp(&(a.r#final, a.source, &b.op)));
    let row = |c: &&onnxd_proto::onnxd::OpCount| {
        vec![line(&c.op), count(c.source), count(c.after_passes), count(c.r#final)]
    };
    let columns = &["type", "#source", "#after passes", "#final"];
    let mut section = table("op", "Operators", columns, counts.iter().map(row).collect());
    section.bar_title = "final";
    section.bars = shares(counts.iter().map(|c| c.r#final as f64));
    section
}

fn passes(report: &Report) -> Section {
    let row = |p: &onnxd_proto::onnxd::Pass| {
        let notes = p.notes.iter().map(|n| line(n)).collect::<Vec<_>>().join("; ");
        let skipped = p.skipped.len() as u64;
        vec![line(&p.name), count(p.rewrites), count(skipped), seconds(p.seconds), notes]
    };
    let columns = &["name", "#rewrites", "#near-matches", "#time", "notes"];
    table("pass", "Passes", columns, report.passes.iter().map(row).collect())
}

/// How what passes changed compares with what was before.
fn comparisons(report: &Report) -> Section {
    let row = |c: &onnxd_proto::onnxd::PassComparison| {
        let worst = match c.worst_max_abs {
            Some(most) => format!("{}: by up to {}", line(&c.worst), real(most)),
            None => String::new(),
        };
        let values = [c.unchanged, c.equal, c.different, c.not_compared].map(count);
        std::iter::once(line(&c.passes.join(", "))).chain(values).chain([worst]).collect()
    };
    let columns =
        &["~passes", "#unchanged", "#equal", "#different", "#not compared", "~farthest value"];
    let rows = report.comparisons.iter().map(row).collect();
    table("comparison", "Values before and after passes", columns, rows)
}

/// Why near-matches were left, grouped by pass and reason.
fn skips(report: &Report) -> Section {
    let mut rows = Vec::new();
    for pass in &report.passes {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skip in &pass.skipped {
            groups.entry(&skip.reason).or_default().push(&skip.at);
        }
        for (reason, places) in groups {
            let shown = places.iter().take(PLACES_SHOWN).map(|p| line(p));
            let mut at = shown.collect::<Vec<_>>().join(", ");
            if places.len() > PLACES_SHOWN {
                at.push_str(", ...");
            }
            rows.push(vec![line(&pass.name), count(places.len() as u64), line(reason), at]);
        }
    }
    table("skip", "Left as they were", &["pass", "#places", "reason", "at"], rows)
}

/// What was asked for, and where ranges come from.
fn quantization(report: &Report) -> Section {
    let mut rows = Vec::new();
    let mut row = |key: &str, value: String| rows.push(vec![key.to_owned(), value]);
    if let Some(q) = &report.quantization {
        row("format", line(&q.format));
        row("quantizer", format!("{} of {}", line(&q.quantizer), line(&q.plugin)));
        if q.random_samples > 0 {
            row("random samples", format!("{}: no data", count(q.random_samples)));
        } else {
            row("calibration samples", count(q.samples));
        }
        if !q.statistics.is_empty() {
            row("statistics", line(&q.statistics));
        }
        if q.compared > 0 {
            row("compared samples", count(q.compared));
        }
        if let Some(quality) = &q.quality {
            row("outputs against float", outputs(quality));
            let demanded =
                quality.sqnr_db_min.map(|db| ("demanded of the outputs", format!("{db:.1} dB")));
            let floor = ("floor of the outputs", format!("{:.1} dB", quality.sqnr_db_floor));
            let (key, value) = demanded.unwrap_or(floor);
            row(key, value);
            for way in &quality.remedies {
                let text =
                    format!("{}: {:+.1} dB, {:+} bytes", line(&way.params), way.gain_db, way.bytes);
                row("what would help", text);
            }
            if let Some(most) = quality.top1_loss_max {
                let loss =
                    quality.top1_loss.map_or("not measured".into(), |loss| format!("{loss:.2} %"));
                row("classes lost", format!("{loss}, {most:.2} % may be"));
            }
            if let Some(products) = quality.products {
                let weights = percent(quality.weights);
                row(
                    "operators on integers",
                    format!(
                        "{} of {products} with weights, {weights} of the weights",
                        quality.quantized
                    ),
                );
            }
            if !quality.meant_for.is_empty() {
                row("meant for", line(&quality.meant_for));
            }
        }
    }
    table("quantization", "Quantization", &["property", "value"], rows)
}

/// How near the outputs are to those of the float network, and on what samples that was measured.
pub(crate) fn outputs(quality: &Quality) -> String {
    let Some(db) = quality.sqnr_db else {
        let why = if quality.unmeasured.is_empty() { "" } else { ": " };
        return format!("outputs were not compared with float{why}{}", line(&quality.unmeasured));
    };
    let on = match quality.origin.as_str() {
        "apart" => "held-out samples",
        "folds" => "samples, each held out in turn",
        "random" => "samples of random numbers",
        "prompts" => "prompts and continuations of random tokens",
        _ => "of the samples that it was made of",
    };
    // The largest SQNR that is stated stands for no difference at all.
    let ratio =
        |db| if db >= 300.0 { "equal to float".to_owned() } else { format!("SQNR {db:.1} dB") };
    // Where nothing else was tried, it is what is stated already.
    let nearest = quality.nearest_db.filter(|db| *db != quality.worst_db);
    let nearest = nearest.map(|db| format!(", rounded to the nearest {db:.1} dB"));
    let nearest = nearest.unwrap_or_default();
    match quality.outputs > 1 && quality.worst_db < 300.0 {
        true => format!(
            "worst of {} outputs {} {}{nearest}, mean {db:.1} dB, on {} {on}",
            quality.outputs,
            line(&quality.worst),
            ratio(quality.worst_db),
            quality.samples
        ),
        false => format!("outputs {}{nearest} on {} {on}", ratio(db), quality.samples),
    }
}

fn tried(report: &Report) -> Section {
    let tried = report.quantization.iter().flat_map(|q| &q.tried);
    let row = |a: &onnxd_proto::onnxd::Attempt| {
        let chosen = if a.chosen { "chosen" } else { "" };
        vec![line(&a.what), real(a.sqnr_db), chosen.to_owned()]
    };
    let columns = &["what", "#SQNR dB", "outcome"];
    table("tried", "Tried", columns, tried.map(row).collect())
}

/// Layers, worst first.
fn quantized_layers(report: &Report) -> Section {
    let layers = report.quantization.iter().flat_map(|q| &q.layers);
    let tensors = report.quantization.iter().flat_map(|q| &q.tensors);
    let tensors: BTreeMap<&str, _> = tensors.map(|t| (t.name.as_str(), t)).collect();
    let row = |l: &onnxd_proto::onnxd::QuantizedLayer| {
        let made = tensors.get(l.output.as_str());
        let clipped = made.and_then(|t| t.clipped).map(percent).unwrap_or_default();
        let bits = l.accumulator.as_ref().map(|a| format!("{} of {}", a.bits, a.bits_held));
        let sqnr = l.sqnr_db.map(decibels).unwrap_or_default();
        let bits = bits.unwrap_or_default();
        vec![line(&l.name), sqnr, line(&l.op), line(&l.rescaling), clipped, bits]
    };
    let columns = &["layer", "#SQNR dB", "op", "rescaling", "#clipped", "#accumulator bits"];
    let mut section = table("layer", "Quantized layers, worst first", columns, Vec::new());
    let share = |l: &onnxd_proto::onnxd::QuantizedLayer| l.sqnr_db.unwrap_or(0.0) / SQNR_DB_FULL;
    (section.bar_after, section.bar_title) = (1, "of 60 dB");
    section.bars = layers.clone().map(|l| share(l).clamp(0.0, 1.0)).collect();
    section.rows = layers.map(row).collect();
    section
}

fn quantized_tensors(report: &Report) -> Section {
    let tensors = report.quantization.iter().flat_map(|q| &q.tensors);
    let row = |t: &onnxd_proto::onnxd::QuantizedTensor| {
        let scale = match t.scales.as_slice() {
            [] => String::new(),
            [one] => real(*one),
            many => {
                let least = many.iter().copied().fold(f64::INFINITY, f64::min);
                let most = many.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                format!("{} to {}", real(least), real(most))
            }
        };
        let span = |min: Option<f64>, max: Option<f64>| {
            let both = min.zip(max).map(|(min, max)| format!("{} to {}", real(min), real(max)));
            both.unwrap_or_default()
        };
        let zero = match t.zero_points.as_slice() {
            [] => "0".to_owned(),
            [one] => one.to_string(),
            _ => "one for each channel".to_owned(),
        };
        let (range, seen) = (span(t.min, t.max), span(t.seen_min, t.seen_max));
        vec![line(&t.name), line(&t.element_type), scale, zero, range, seen, line(&t.method)]
    };
    let columns = &["tensor", "type", "#scale", "#zero point", "#range", "#seen", "method"];
    let rows = tensors.clone().map(row).collect();
    let mut section = table("tensor", "Quantized tensors", columns, rows);
    if tensors.clone().any(|t| t.counts.is_some()) {
        section.charts = tensors.map(chart).collect();
    }
    section
}

fn chart(t: &onnxd_proto::onnxd::QuantizedTensor) -> Option<Chart> {
    let seen = t.counts.as_ref()?;
    let range = t.min.zip(t.max)?;
    Some(Chart { span: (seen.low, seen.high), counts: seen.counts.clone(), range })
}

fn left_in_float(report: &Report) -> Section {
    let left = report.quantization.iter().flat_map(|q| &q.left_in_float);
    let rows = left.map(|s| vec![line(&s.at), line(&s.reason)]).collect();
    table("float", "Left in floating point", &["node", "reason"], rows)
}

fn numerics(report: &Report) -> Section {
    let mut rows = Vec::new();
    if let Some(numerics) = &report.numerics {
        rows.extend(numerics.outputs.iter().map(|o| {
            let verdict = if o.within { "within" } else { "outside" };
            let figures = [o.max_abs, o.mean_abs, o.cosine, o.sqnr_db].map(real);
            let mut row = vec![line(&o.output)];
            row.extend(figures);
            row.push(format!(
                "{verdict} {} absolute, {} relative",
                real(numerics.tolerance_abs),
                real(numerics.tolerance_rel)
            ));
            row
        }));
        rows.extend(numerics.top1_agreement.map(|share| {
            let mut row = vec![String::new(); 5];
            row[0].push_str("top-1 agreement");
            row.push(percent(share));
            row
        }));
    }
    let columns = &["output", "#max abs", "#mean abs", "#cosine", "#SQNR dB", "tolerance"];
    table("numerics", "Against the reference", columns, rows)
}

/// What plugins logged.
fn plugin_log(report: &Report) -> Section {
    let row = |l: &onnxd_proto::onnxd::PluginLine| {
        vec![line(&l.plugin), line(&l.level), line(&l.target), line(&l.text)]
    };
    let mut rows: Vec<_> = report.plugin_log.iter().map(row).collect();
    if report.plugin_log_dropped > 0 {
        let more = format!("{} lines more are not kept", count(report.plugin_log_dropped));
        rows.push(vec![String::new(), String::new(), String::new(), more]);
    }
    table("log", "What plugins logged", &["plugin", "level", "part", "text"], rows)
}

/// Params that are set; the complete list is in `report.json`.
fn params(report: &Report) -> Section {
    let set = report.params.iter().filter(|p| !is_default(&p.origin));
    let rows = set.map(|p| vec![line(&p.key), line(&p.value), line(&p.origin)]).collect();
    table("param", "Params that differ from the defaults", &["key", "~value", "origin"], rows)
}

/// The order of the passes is derived from other params and shown by the passes themselves.
fn is_default(origin: &str) -> bool {
    origin == "default" || origin.starts_with("profile ")
}

fn stages(report: &Report) -> Section {
    let row = |s: &onnxd_proto::onnxd::Stage| {
        vec![line(&s.name), seconds(s.seconds), bytes(s.peak_rss_bytes)]
    };
    let columns = &["name", "#time", "#peak memory"];
    let mut section = table("stage", "Stages", columns, report.stages.iter().map(row).collect());
    section.bar_title = "time";
    section.bars = shares(report.stages.iter().map(|s| s.seconds));
    section
}

fn files(report: &Report) -> Section {
    let row = |direction: &str, f: &onnxd_proto::onnxd::FileDigest| {
        let role = f.role().as_str_name().to_owned();
        vec![direction.to_owned(), role, line(&f.path), bytes(f.bytes), line(&f.sha256)]
    };
    let source = report.source.iter().map(|f| row("source", f));
    // A folder of many files, such as exported samples, is one row.
    let folder = |f: &&onnxd_proto::onnxd::FileDigest| {
        let folder = f.path.rsplit_once('/').filter(|_| f.role() == FileRole::Artifact);
        folder.map_or_else(|| f.path.clone(), |(folder, _)| format!("{folder}/"))
    };
    let outputs = report.outputs.iter().collect::<Vec<_>>();
    let outputs = outputs.chunk_by(|a, b| folder(a) == folder(b)).map(|files| match files {
        [one] => row("output", one),
        many => {
            let path = format!("{} ({} files)", line(&folder(&many[0])), many.len());
            let size = bytes(many.iter().map(|f| f.bytes).sum());
            vec![
                "output".to_owned(),
                many[0].role().as_str_name().to_owned(),
                path,
                size,
                String::new(),
            ]
        }
    });
    let columns = &["direction", "role", "~path", "#size", "~sha256"];
    table("file", "Files", columns, source.chain(outputs).collect())
}

fn versions(report: &Report) -> Section {
    let versions = report.versions.clone().unwrap_or_default();
    let own = vec!["onnxd".to_owned(), line(&versions.onnxd), String::new()];
    let plugins = versions.plugins.iter().map(|p| vec![&p.id, &p.version, &p.sha256]);
    let plugins = plugins.map(|cells| cells.into_iter().map(|c| line(c)).collect());
    let rows = std::iter::once(own).chain(plugins).collect();
    table("version", "Versions", &["component", "version", "~sha256"], rows)
}
