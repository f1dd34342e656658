//! Compares plans with what N2D2 computed for the same networks, samples and options. The networks
//! lie beside the repository; without them nothing is compared. `NET` and `RUN` choose some of them
//! by parts of their names; networks of which only part of the samples is there run only then.

mod log;
mod simulate;

use onnxd_arrays::Arrays;
use onnxd_plugin_sdk::ir::{Model, Reals, Tensor};
use onnxd_plugin_sdk::onnx;
use onnxd_quant_n2d2::plan::{CellInput, CellNetwork, CellPlan, How, IntegerPlan};
use onnxd_quant_n2d2::{Data, plan};
use onnxd_quantize::observe::Feeds;
use onnxd_quantize::session::Batches;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn corpus() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/n2d2");
    Some(place).filter(|p| p.is_dir())
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Converts a network with the binary that lies beside this test; `None` if it was not built.
fn load(folder: &Path) -> Option<(Model, usize)> {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent()?.parent()?.join("onnxd");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder.file_name()?);
    let run = Command::new(binary).arg("convert").arg(folder).arg("--out").arg(&out).output();
    // Samples beside a network may have other shapes than its outputs, so the status says little.
    let said = run.ok()?;
    let bytes = std::fs::read(out.join("model.onnx"));
    let bytes = bytes.unwrap_or_else(|_| panic!("{}: {said:?}", folder.display()));
    let mut model = onnx::decode(bytes.into(), &mut onnx::NoExternalData).unwrap().model;
    let _ = onnxd_plugin_sdk::ir::infer(&mut model);
    let ini = std::fs::read_to_string(folder.join("net.ini")).unwrap();
    let batch = ini.lines().find_map(|l| l.trim().strip_prefix("BatchSize=")?.trim().parse().ok());
    Some((model, batch.unwrap_or(1)))
}

/// One row of a batch.
fn row(batch: &Tensor, at: usize) -> Tensor {
    let x = batch.to_reals().unwrap();
    let size: usize = x.dims[1..].iter().product();
    let mut dims = x.dims.clone();
    dims[0] = 1;
    let values = x.values[at * size..][..size].iter().map(|v| *v as f32).collect();
    Tensor::from_vec(dims, values)
}

/// What was compared in a run, and how it differs.
#[derive(Default)]
struct Verdict {
    /// Relative, as all of these: of the products of largest weights.
    ranges: f64,
    thresholds: f64,
    scales: f64,
    weights: usize,
    biases: usize,
    /// Cells whose integers were compared one by one.
    cells: usize,
    /// Of the network's outputs.
    outputs: f64,
    missing: Vec<String>,
}

impl Verdict {
    fn exact(&self) -> bool {
        self.weights + self.biases == 0
            && self.ranges < 2e-5
            && self.thresholds < 2e-5
            && self.scales < 2e-6
            && self.outputs == 0.0
            && self.missing.is_empty()
    }
}

/// Networks that N2D2 quantizes differently, and why that is so.
const DELIBERATE: &[(&str, &str)] = &[
    ("own_bn_after_relu", "N2D2 applies a normalization in floats to integers"),
    ("own_depthwise", "two thresholds of `grp` have the same error to four digits"),
];

fn relative(a: f64, b: f64) -> f64 {
    (a - b).abs() / b.abs().max(1e-12)
}

fn compare(
    folder: &Path,
    run: &log::N2d2Run,
    network: &CellNetwork,
    plan: &IntegerPlan,
) -> Verdict {
    let mut verdict = Verdict::default();
    let at = |name: &str| network.cells.iter().position(|c| c.name == name);
    let mut ranges: Vec<f64> = Vec::new();
    for cell in &network.cells {
        let of = cell.inputs.iter().map(|source| match source {
            CellInput::Input(_) => 1.0,
            CellInput::Cell(i) => ranges[*i],
        });
        let own = cell
            .parameters
            .as_ref()
            .map_or(1.0, |p| f64::from(p.weights.iter().fold(0f32, |m, w| m.max(w.abs()))));
        let range = of.fold(0.0, f64::max) * own;
        ranges.push(range);
        if let Some(theirs) = run.ranges.get(&cell.name) {
            verdict.ranges = verdict.ranges.max(relative(range, *theirs));
        }
    }
    for (name, t) in &run.thresholds {
        let Some(at) = at(name) else {
            verdict.missing.push(name.clone());
            continue;
        };
        let difference = relative(plan.cells[at].threshold.threshold, *t);
        if difference > 2e-5 && std::env::var("NET").is_ok() {
            println!("  {name}: {:?}, N2D2 {t}", plan.cells[at].threshold);
        }
        verdict.thresholds = verdict.thresholds.max(difference);
    }
    for (name, (mode, numbers)) in &run.scalings {
        if let Some(at) = at(name) {
            verdict.scales = verdict.scales.max(scaling(&plan.cells[at], mode, numbers));
        }
    }
    if let Ok(bytes) = std::fs::read(folder.join("exact.onnx")) {
        let exact = onnx::decode(bytes.into(), &mut onnx::NoExternalData).unwrap().model;
        integers(&exact, network, plan, &mut verdict);
    }
    outputs(folder, network, plan, &mut verdict);
    verdict
}

/// Largest difference of a scaling: relative for factors, of the numbers otherwise.
fn scaling(cell: &CellPlan, mode: &str, numbers: &[f64]) -> f64 {
    let Some(rescale) = &cell.rescale else { return f64::INFINITY };
    let whole = |list: Vec<f64>, from: usize| {
        let pairs = numbers[from..].iter().enumerate();
        let own = |i: usize| if list.len() == 1 { list[0] } else { list[i] };
        pairs.map(|(i, n)| (own(i) - n).abs()).fold(0.0, f64::max)
    };
    match (&rescale.how, mode) {
        (How::FloatingPoint(f), "float_mult") => {
            let own = |i: usize| f64::from(if f.len() == 1 { f[0] } else { f[i] });
            let pairs = numbers.iter().enumerate();
            pairs.map(|(i, n)| relative(own(i), *n)).fold(0.0, f64::max)
        }
        (How::FixedPoint { fraction_bits, multipliers }, "fixed16" | "fixed32") => {
            let bits = (f64::from(*fraction_bits) - numbers[0]).abs();
            // A multiplier of 31 bits is more precise than the thresholds.
            let own = multipliers.iter().map(|m| *m as f64 / numbers[1]).collect::<Vec<_>>();
            let scale = |n: &f64| n / numbers[1];
            let pairs = numbers[1..].iter().enumerate();
            let pick = |i: usize| if own.len() == 1 { own[0] } else { own[i] };
            bits + pairs.map(|(i, n)| (pick(i) - scale(n)).abs()).fold(0.0, f64::max)
        }
        (How::SingleShift(e), "single_shift") => {
            whole(e.iter().map(|e| f64::from(*e)).collect(), 0)
        }
        (How::DoubleShift(_), "double_shift") => 0.0,
        _ => f64::INFINITY,
    }
}

/// Compares weights and biases with those of a graph of N2D2.
fn integers(exact: &Model, network: &CellNetwork, plan: &IntegerPlan, verdict: &mut Verdict) {
    let graph = &exact.graph;
    let find = |prefix: &str| {
        graph.value_ids().find(|v| {
            let name = graph[*v].name.as_str();
            let rest = name.strip_prefix(prefix).and_then(|r| r.strip_prefix("__"));
            rest.is_some_and(|r| r.trim_start_matches("T__").parse::<usize>().is_ok())
        })
    };
    for (cell, plan) in network.cells.iter().zip(&plan.cells) {
        let Some(own) = &plan.integers else { continue };
        let Some(w) = find(&format!("{}_w", cell.name)) else {
            verdict.missing.push(format!("{}_w", cell.name));
            continue;
        };
        let data = graph.constant(w).unwrap();
        let mut theirs = data.to_reals().unwrap();
        if graph[w].name.contains("__T__") {
            let [rows, columns] = [theirs.dims[0], theirs.dims[1]];
            let places = (0..rows * columns).map(|i| i % rows * columns + i / rows);
            theirs.values = places.map(|i| theirs.values[i]).collect();
        }
        verdict.cells += 1;
        if theirs.values.len() != own.weights.len() {
            verdict.missing.push(format!("{} {:?}", cell.name, theirs.dims));
            continue;
        }
        let pairs = theirs.values.iter().zip(&own.weights);
        verdict.weights += pairs.filter(|(a, b)| **a != f64::from(**b)).count();
        if let (Some(b), Some(own)) = (find(&format!("{}_b", cell.name)), &own.bias) {
            let theirs = graph.constant(b).unwrap().to_reals().unwrap().values;
            let pairs = theirs.iter().zip(own);
            verdict.biases += pairs.filter(|(a, b)| **a != **b as f64).count();
        }
    }
}

/// Runs the plan on N2D2's inputs.
fn outputs(folder: &Path, network: &CellNetwork, plan: &IntegerPlan, verdict: &mut Verdict) {
    let read = |name: &str| -> Arrays { onnxd_arrays::read(&folder.join(name)).unwrap() };
    let inputs: BTreeMap<String, Reals> =
        read("inputs.npz").into_iter().map(|(n, t)| (n, t.to_reals().unwrap())).collect();
    let found = simulate::simulate(network, plan, &inputs);
    for (name, theirs) in read("outputs.npz") {
        let theirs = theirs.to_reals().unwrap().values;
        let own = &found[&name].values;
        let worst = own.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // A softmax of integers.
        let worst =
            if theirs.iter().any(|x| x.fract() != 0.0) && worst < 1e-5 { 0.0 } else { worst };
        verdict.outputs = verdict.outputs.max(worst);
    }
}

fn check(folder: &Path, only: Option<&str>) -> (usize, usize, usize) {
    let net = folder.file_name().unwrap().to_str().unwrap();
    let runs = sorted(&folder.join("runs"));
    let (mut exact, mut failed, mut incomplete) = (0, 0, 0);
    if runs.is_empty() {
        return (0, 0, 0);
    }
    let Some((model, batch)) = load(folder) else {
        eprintln!("SKIPPED: {net}, because `onnxd` is not built");
        return (0, 0, runs.len());
    };
    let calibration = onnxd_arrays::read(&folder.join("calib.npz")).unwrap();
    let rows = calibration[0].1.dims()[0];
    for path in runs {
        let name = path.file_name().unwrap().to_str().unwrap();
        if only.is_some_and(|only| !name.contains(only))
            || name.contains("fake")
            || name.contains("implicit")
        {
            continue;
        }
        let run = log::read(&path, batch);
        let samples = || -> Batches {
            let rows = (0..rows).map(|at| {
                let feed = |(n, t): &(String, Tensor)| (n.clone(), row(t, at));
                Ok(calibration.iter().map(feed).collect::<Feeds>())
            });
            Box::new(rows)
        };
        let whole = run.samples == rows;
        if !whole && std::env::var("NET").is_err() {
            incomplete += 1;
            continue;
        }
        let made = plan(&model, Data::same(&samples), &run.options);
        let verdict = match made {
            Ok((network, plan)) => compare(&path, &run, &network, &plan),
            Err(problem) => {
                println!("{net} {name}: {problem}");
                failed += 1;
                continue;
            }
        };
        let state = match (verdict.exact(), whole) {
            (true, _) => "exact",
            (false, true) => "DIFFERS",
            (false, false) => "part of the samples",
        };
        println!(
            "{net} {name}: {state}; ranges of weights {:.1e}, thresholds {:.1e}, scales {:.1e}, \
             of {} cells {} weights and {} biases differ, outputs by {} {}",
            verdict.ranges,
            verdict.thresholds,
            verdict.scales,
            verdict.cells,
            verdict.weights,
            verdict.biases,
            verdict.outputs,
            verdict.missing.join(" "),
        );
        match (verdict.exact(), whole) {
            (true, _) => exact += 1,
            _ if verdict.ranges > 2e-5 && DELIBERATE.iter().all(|(n, _)| *n != net) => failed += 1,
            (false, true) if DELIBERATE.iter().any(|(n, _)| *n == net) => incomplete += 1,
            (false, true) => failed += 1,
            (false, false) => incomplete += 1,
        }
    }
    (exact, failed, incomplete)
}

#[test]
fn plans_are_those_of_n2d2() {
    let Some(corpus) = corpus() else {
        eprintln!("SKIPPED: there is no corpus of N2D2 networks beside the repository");
        return;
    };
    let (wanted, run) = (std::env::var("NET").ok(), std::env::var("RUN").ok());
    let mut sums = (0, 0, 0);
    for folder in sorted(&corpus).iter().filter(|p| p.is_dir()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if wanted.as_ref().is_some_and(|w| !name.contains(w.as_str())) {
            continue;
        }
        let found = check(folder, run.as_deref());
        sums = (sums.0 + found.0, sums.1 + found.1, sums.2 + found.2);
    }
    println!("exact {}, different {}, not comparable {}", sums.0, sums.1, sums.2);
    assert_eq!(sums.1, 0, "runs differ from N2D2's");
}
