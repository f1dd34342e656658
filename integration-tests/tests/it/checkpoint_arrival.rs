//! Files of checkpoints that come one after the other, in every order: each set is one job, and none begins before its
//! last file is there.

use crate::hugging_face::{case_of, wrong_of};
use crate::site::{SETTLE, Site, report};
use std::fs;
use std::path::PathBuf;

/// Files that arrive together.
type Part = &'static [&'static str];

/// Folders of the inbox, each with the parts of a checkpoint in another order.
struct Arrival<'s> {
    site: &'s Site,
    /// The folder that the files are from.
    from: PathBuf,
    parts: &'static [Part],
    /// Names of sets begin so.
    kind: &'static str,
}

impl Arrival<'_> {
    /// The folder of a set.
    fn name(&self, order: &[usize]) -> String {
        let numbers: Vec<String> = order.iter().map(ToString::to_string).collect();
        format!("{}-{}", self.kind, numbers.join(""))
    }

    fn put(&self, order: &[usize], part: usize) {
        for file in self.parts[part] {
            let to = self.site.inbox().join(self.name(order)).join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(self.from.join(file), to).unwrap();
        }
    }

    /// What a set lacks once the first `step` parts of an order are there.
    fn lacks(&self, order: &[usize], step: usize) -> Vec<&str> {
        order[step..].iter().flat_map(|part| self.parts[*part]).copied().collect()
    }

    /// Puts all sets side by side, part by part. `check` looks at each between two parts.
    fn arrive(&self, check: impl Fn(&[usize], usize)) {
        let orders = orders(self.parts.len());
        for (rounds, order) in (10..).zip(&orders) {
            let folder = self.site.inbox().join(self.name(order));
            fs::create_dir_all(&folder).unwrap();
            // Params that differ, because equal drops would be one job.
            let params = format!("[passes]\nrounds = {rounds}\n");
            fs::write(folder.join("params.toml"), params).unwrap();
        }
        for step in 0..self.parts.len() {
            orders.iter().for_each(|order| self.put(order, order[step]));
            if step + 1 < self.parts.len() {
                std::thread::sleep(SETTLE * 3);
                orders.iter().for_each(|order| check(order, step + 1));
                let jobs = self.site.jobs();
                let early =
                    jobs.iter().find(|j| j["name"].as_str().unwrap().starts_with(self.kind));
                assert!(early.is_none(), "after part {step}: {early:?}");
            }
        }
        // Of each name there is one job at most, which `wait_for` demands.
        for order in &orders {
            let name = self.name(order);
            self.site.wait_for(&name, "succeeded");
            let said = report(&self.site.outbox().join(&name));
            assert_eq!(said["verdict"], "succeeded", "{name}: {said}");
        }
        let jobs = self.site.jobs();
        let jobs = jobs.iter().filter(|j| j["name"].as_str().unwrap().starts_with(self.kind));
        assert_eq!(jobs.count(), orders.len());
    }

    /// The result of a set.
    fn result(&self, order: &[usize]) -> PathBuf {
        self.site.outbox().join(self.name(order))
    }
}

/// All orders of so many parts.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![vec![]] };
    let insert = |order: Vec<usize>| {
        (0..count).map(move |at| [&order[..at], &[last], &order[at..]].concat())
    };
    orders(last).into_iter().flat_map(insert).collect()
}

const INDEX: &str = "model.safetensors.index.json";
const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

/// 24 orders. Once the index says which shards there are, those that are missing are told.
#[test]
fn shards_of_a_checkpoint() {
    const PARTS: [Part; 4] =
        [&["config.json", "tokenizer.json"], &[INDEX], &[SHARDS[0]], &[SHARDS[1]]];
    let site = Site::new();
    let daemon = site.start();
    let from = case_of("llama").join("model");
    let sets = Arrival { site: &site, from, parts: &PARTS, kind: "shards" };
    sets.arrive(|order, step| {
        let lacks = sets.lacks(order, step);
        if lacks.contains(&"config.json") {
            return;
        }
        let why = site.wait_for_drop(&sets.name(order), "waiting");
        if lacks.contains(&INDEX) {
            assert!(why.contains("model.safetensors"), "{order:?} {step}: {why}");
            return;
        }
        for shard in SHARDS {
            assert_eq!(why.contains(shard), lacks.contains(&shard), "{order:?} {step}: {why}");
        }
        // The command line says the same of the folder; once for each shard will do.
        if order[..3] == [0, 1, 2] || order[..3] == [0, 1, 3] {
            let folder = site.inbox().join(sets.name(order));
            let (status, _, stderr) = site.run(&["explain", &folder.display().to_string()]);
            assert_eq!(status, 1, "{stderr}");
            for shard in SHARDS {
                let told = stderr.contains(&format!("`{shard}` is missing"));
                assert_eq!(told, lacks.contains(&shard), "{order:?} {step}: {stderr}");
            }
        }
    });
    for order in orders(PARTS.len()) {
        assert_eq!(wrong_of("llama", &sets.result(&order).join("model.onnx")), None, "{order:?}");
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

/// 24 orders. A step's folder alone is no model.
#[test]
fn steps_of_sentence_transformers() {
    const PARTS: [Part; 4] = [
        &["config.json", "sentence_bert_config.json", "model.safetensors", "tokenizer.json"],
        &["modules.json"],
        &["1_Pooling/config.json", "2_Dense/config.json"],
        &["2_Dense/model.safetensors"],
    ];
    let site = Site::new();
    let daemon = site.start();
    let from = case_of("sentence").join("model");
    let sets = Arrival { site: &site, from, parts: &PARTS, kind: "texts" };
    sets.arrive(|order, step| {
        let lacks = sets.lacks(order, step);
        if lacks.contains(&"config.json") {
            return;
        }
        let why = site.wait_for_drop(&sets.name(order), "waiting");
        let named = lacks.iter().filter(|file| why.contains(*file)).count();
        let is_listed = !lacks.contains(&"modules.json");
        assert_eq!(named, if is_listed { lacks.len() } else { 1 }, "{order:?} {step}: {why}");
    });
    for order in orders(PARTS.len()) {
        let result = sets.result(&order);
        assert_eq!(wrong_of("sentence", &result.join("model.onnx")), None, "{order:?}");
        assert!(result.join("sentence_bert_config.json").exists(), "beside the model");
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Two files, in a folder of their own and loose.
#[test]
fn parts_of_gguf() {
    const FILES: [&str; 2] = ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"];
    const PARTS: [Part; 2] = [&[FILES[0]], &[FILES[1]]];
    let site = Site::new();
    let daemon = site.start();
    let sets = Arrival { site: &site, from: case_of("gguf"), parts: &PARTS, kind: "gguf" };
    sets.arrive(|order, step| {
        let drop = sets.name(order);
        let why = site.wait_for_drop(&drop, "waiting");
        let lacks = sets.lacks(order, step);
        assert!(why.contains(lacks[0]), "{order:?}: {why}");
        let folder = site.inbox().join(drop).display().to_string();
        let (status, _, stderr) = site.run(&["explain", &folder]);
        assert_eq!(status, 1, "{stderr}");
        assert!(stderr.contains(&format!("`{}` is missing", lacks[0])), "{order:?}: {stderr}");
    });
    for (folder, order) in [("first", [0, 1]), ("second", [1, 0])] {
        // A folder with a preset stays, and the files lie loose in it.
        let inbox = site.inbox().join(folder);
        fs::create_dir_all(&inbox).unwrap();
        let preset = format!("[passes]\nrounds = {}\n", 30 + order[0]);
        fs::write(inbox.join("onnxd.params.toml"), preset).unwrap();
        let put = |part: usize| {
            fs::copy(case_of("gguf").join(FILES[part]), inbox.join(FILES[part])).unwrap()
        };
        put(order[0]);
        let drop = format!("{folder}/{}", FILES[order[0]]);
        let why = site.wait_for_drop(&drop, "waiting");
        assert!(why.contains(FILES[order[1]]), "{why}");
        put(order[1]);
        let name = "model-00001-of-00002";
        let result = site.outbox().join(folder).join(name);
        crate::site::wait_or(
            folder,
            || site.log(),
            || result.join("report.json").exists().then_some(()),
        );
        assert_eq!(report(&result)["verdict"], "succeeded");
        assert!(result.join("tokenizer.json").exists());
    }
    assert_eq!(site.jobs().len(), 4);
    assert_eq!(daemon.stop().code(), Some(0));
}
