//! Times the built-in executor on models:
//! `cargo bench -p onnxd-integration-tests --bench executor -- [--batch N] [--runs N] [--threads N]
//! [--profile 1] MODEL...`. Inputs are made from the declared types; sizes that are not known become
//! the batch.

use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{DataType, Dim, Graph, Tensor, ValueType};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

fn input(ty: &ValueType, batch: usize) -> Tensor {
    let ValueType::Tensor { dtype, shape } = ty else { panic!("only tensors are made") };
    let dims: Vec<usize> = shape
        .iter()
        .flatten()
        .map(|d| if let Dim::Known(n) = d { *n as usize } else { batch })
        .collect();
    let count = dims.iter().product::<usize>();
    let wave = |i: usize| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 1.5;
    match dtype {
        Some(DataType::Int64) => {
            Tensor::from_vec(dims, (0..count).map(|i| i as i64 % 97).collect())
        }
        _ => Tensor::from_vec(dims, (0..count).map(wave).collect()),
    }
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let mut option = |name: &str, default: usize| {
        let Some(at) = args.iter().position(|a| a == name) else { return default };
        let value = args[at + 1].parse().expect("a number");
        args.drain(at..at + 2);
        value
    };
    let (batch, runs, threads) =
        (option("--batch", 1), option("--runs", 5), option("--threads", 2));
    let profile = option("--profile", 0) == 1;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    for path in &args {
        let model = onnxd_onnx::load(Path::new(path)).expect("a model").model;
        let executor = Executor::new(&model).expect("kernels");
        let graph = &model.graph;
        let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
        let inputs: BTreeMap<String, Tensor> = fed
            .map(|v| (graph[*v].name.clone(), input(graph[*v].ty.as_ref().expect("a type"), batch)))
            .collect();
        let mut times = Vec::new();
        for _ in 0..=runs {
            let start = Instant::now();
            pool.install(|| executor.run(&inputs, RunOptions::default())).expect("a result");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        println!(
            "{path} batch {batch} threads {threads}: {:.1} ms (median {:.1})",
            times[0],
            times[times.len() / 2]
        );
        if profile {
            show_profile(&executor, &inputs, &pool, graph);
        }
    }
}

/// The slowest nodes and the time by operator, in milliseconds. Observed runs fuse nothing.
fn show_profile(
    executor: &Executor,
    inputs: &BTreeMap<String, Tensor>,
    pool: &rayon::ThreadPool,
    graph: &Graph,
) {
    let mut nodes = pool.install(|| {
        let mut nodes: Vec<(f64, String)> = Vec::new();
        let mut last = Instant::now();
        let mut see = |name: &str, y: &Tensor| {
            let producer = graph.value_named(name).and_then(|v| graph.producer(v));
            let op = producer.map_or("-", |id| graph[id].op.as_str());
            nodes.push((last.elapsed().as_secs_f64() * 1e3, format!("{op} {name} {y:?}")));
            last = Instant::now();
        };
        let options = RunOptions { observer: Some(&mut see), ..Default::default() };
        executor.run(inputs, options).expect("a result");
        nodes
    });
    let mut by_op: BTreeMap<&str, f64> = BTreeMap::new();
    for (ms, node) in &nodes {
        *by_op.entry(node.split(' ').next().unwrap_or_default()).or_default() += ms;
    }
    by_op.iter().for_each(|(op, ms)| println!("{ms:10.3} {op}"));
    nodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    nodes.iter().take(20).for_each(|(ms, node)| println!("{ms:10.3}   {node}"));
}
