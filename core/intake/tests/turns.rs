//! Many drops at once: top folders take turns, looks stay cheap, and a restart goes on.

mod common;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{Bench, FrontEnds, SETTLE, config};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::{Candidate, Inbox, InboxNews, InboxState, ProbeOutcome, Prober};

/// Front-ends that answer when they are told to.
#[derive(Default)]
struct Slow {
    answers: HashMap<PathBuf, ProbeOutcome>,
    /// Networks asked about, with the number of files that were seen.
    asked: Vec<(PathBuf, usize)>,
    compared: Cell<usize>,
}

impl Prober for Slow {
    fn is_network(&self, name: &OsStr) -> bool {
        self.compared.set(self.compared.get() + 1);
        FrontEnds::default().is_network(name)
    }

    fn probe(&mut self, candidate: &Candidate) -> Option<ProbeOutcome> {
        let network = candidate.folder.join(&candidate.network);
        self.asked.push((network.clone(), candidate.files.len()));
        self.answers.get(&network).cloned()
    }
}

fn complete() -> ProbeOutcome {
    ProbeOutcome::Complete { used: Vec::new(), answer: b"answer"[..].into() }
}

fn ids(found: impl IntoIterator<Item = InboxNews>) -> Vec<String> {
    let id = |found| match found {
        InboxNews::Ready(submission) => submission.id.display().to_string(),
        InboxNews::Unmatched(unmatched) => panic!("{unmatched:?}"),
    };
    found.into_iter().map(id).collect()
}

fn handed_over(bench: &mut Bench) -> Vec<String> {
    ids(std::iter::from_fn(|| bench.inbox.hand_over()))
}

/// Looks once all files are settled.
fn look_when_settled(bench: &mut Bench, prober: &mut dyn Prober) {
    bench.inbox.look(Instant::now(), prober);
    std::thread::sleep(SETTLE);
    bench.inbox.look(Instant::now(), prober);
}

#[test]
fn top_folders_are_handed_over_in_turn() {
    let mut bench = Bench::new();
    for n in 0..9 {
        bench.write(&format!("a/x{}/{n}.onnx", n % 2), "1");
    }
    ["b/1.onnx", "b/2.onnx", "c.onnx"].iter().for_each(|name| bench.write(name, "1"));
    look_when_settled(&mut bench, &mut FrontEnds::default());
    let order = handed_over(&mut bench);
    let tops: String = order.iter().map(|id| &id[..1]).collect();
    assert_eq!(tops, "cabab".to_owned() + "aaaaaaa", "{order:?}");
}

#[test]
fn one_top_folder_has_few_drops_in_hand_and_leaves_others_their_turn() {
    let mut bench = Bench::with(|config| config.in_hand_max = 2);
    (0..5).for_each(|n| bench.write(&format!("a/{n}.onnx"), "1"));
    bench.write("b/1.onnx", "1");
    bench.write("b/2.onnx", "1");
    look_when_settled(&mut bench, &mut FrontEnds::default());
    let first = handed_over(&mut bench);
    assert_eq!(first, ["a/0.onnx", "b/1.onnx", "a/1.onnx", "b/2.onnx"]);
    assert!(!bench.inbox.has_offer());
    // It was moved; the next one follows without another look.
    bench.inbox.release(Path::new("a/0.onnx"));
    assert_eq!(handed_over(&mut bench), ["a/2.onnx"]);
    // What the latest scan still shows is not offered again.
    bench.inbox.judge_again(Instant::now(), &mut FrontEnds::default());
    assert_eq!(bench.state("a/0.onnx"), Some(InboxState::HandedOver));
    assert_eq!(bench.state("a/3.onnx"), Some(InboxState::Queued));
}

#[test]
fn a_look_asks_about_few_sets_of_each_top_folder() {
    let mut bench = Bench::with(|config| config.ahead_max = 8);
    (0..100).for_each(|n| bench.write(&format!("a/{n:03}.onnx"), "1"));
    bench.write("b/1.onnx", "1");
    bench.write("b/2.onnx", "1");
    let mut slow = Slow::default();
    look_when_settled(&mut bench, &mut slow);
    let of = |slow: &Slow, top: &str| slow.asked.iter().filter(|(n, _)| n.starts_with(top)).count();
    assert_eq!((of(&slow, "a"), of(&slow, "b")), (8, 2));
    assert_eq!(bench.state("a/099.onnx"), Some(InboxState::Queued));
    // Each that is answered is handed over at once, and makes room for another question.
    slow.answers.insert("a/000.onnx".into(), complete());
    slow.answers.insert("a/001.onnx".into(), complete());
    slow.asked.clear();
    bench.inbox.judge_again(Instant::now(), &mut slow);
    assert_eq!(handed_over(&mut bench), ["a/000.onnx", "a/001.onnx"]);
    assert_eq!(of(&slow, "a"), 2 + 8, "two answers, and eight that wait");
}

#[test]
fn neighbours_that_may_belong_together_wait_for_each_other() {
    let mut bench = Bench::new();
    ["t/x.onnx", "t/x.ini", "t/y.onnx", "t/z.onnx"].iter().for_each(|name| bench.write(name, "1"));
    let mut slow = Slow::default();
    for known in ["t/x.onnx", "t/y.onnx", "t/z.onnx"] {
        slow.answers.insert(known.into(), complete());
    }
    look_when_settled(&mut bench, &mut slow);
    assert_eq!(handed_over(&mut bench), ["t/y.onnx", "t/z.onnx"]);
    assert_eq!(bench.state("t/x.onnx"), Some(InboxState::Asked));
    slow.answers.insert("t/x.ini".into(), ProbeOutcome::NotMine("no".into()));
    bench.inbox.judge_again(Instant::now(), &mut slow);
    let found = bench.inbox.hand_over();
    let Some(InboxNews::Ready(submission)) = found else { panic!("{found:?}") };
    let files: Vec<_> = submission.set.files.iter().map(|f| f.name.display().to_string()).collect();
    assert_eq!(files, ["x.ini", "x.onnx"]);
}

#[test]
fn a_folder_is_whole_only_when_all_its_networks_are_known() {
    let mut bench = Bench::new();
    ["t/net/a.onnx", "t/net/b.ini"].iter().for_each(|name| bench.write(name, "1"));
    let mut slow = Slow::default();
    slow.answers.insert("t/net/a.onnx".into(), complete());
    look_when_settled(&mut bench, &mut slow);
    assert_eq!(handed_over(&mut bench), [""; 0]);
    slow.answers.insert("t/net/b.ini".into(), ProbeOutcome::NotMine("no".into()));
    slow.answers.insert("t/a.onnx".into(), complete());
    bench.inbox.judge_again(Instant::now(), &mut slow);
    assert_eq!(handed_over(&mut bench), ["t/net"]);
}

#[test]
fn front_ends_see_a_whole_folder_only_if_its_own_files_do_not_suffice() {
    let mut bench = Bench::new();
    (0..50).for_each(|n| bench.write(&format!("t/{n}.onnx"), "1"));
    ["t/readme.md", "t/7.bin"].iter().for_each(|name| bench.write(name, "1"));
    let mut slow = Slow::default();
    let waiting = || ProbeOutcome::Waiting { missing: vec!["weights".into()] };
    (0..50).for_each(|n| drop(slow.answers.insert(format!("t/{n}.onnx").into(), complete())));
    slow.answers.insert("t/9.onnx".into(), waiting());
    look_when_settled(&mut bench, &mut slow);
    let seen = |name: &str| -> Vec<usize> {
        let of = slow.asked.iter().filter(|(network, _)| network == Path::new(name));
        of.map(|(_, files)| *files).collect()
    };
    assert_eq!(seen("t/3.onnx"), [2], "its own and the one that is nobody's");
    assert_eq!(seen("t/7.onnx"), [3], "with its own `7.bin`");
    assert_eq!(seen("t/9.onnx"), [2, 52], "and all, because something is missing");
    assert!(matches!(bench.state("t/9.onnx"), Some(InboxState::WaitingFor { .. })));
}

/// What a folder holds decides what its drops are called, not how many of them were taken already.
#[test]
fn the_last_of_several_networks_is_no_drop_of_the_whole_folder() {
    let mut bench = Bench::with(|config| {
        config.in_hand_max = 1;
        config.recall = Some(config.inbox.with_file_name("quiet"));
    });
    ["t/x/1.onnx", "t/x/2.onnx", "t/x/3.onnx", "t/x/readme"]
        .iter()
        .for_each(|name| bench.write(name, "1"));
    look_when_settled(&mut bench, &mut FrontEnds::default());
    let mut order = Vec::new();
    for _ in 0..2 {
        let id = ids(bench.inbox.hand_over()).remove(0);
        fs::remove_file(bench.at(&id)).unwrap();
        bench.inbox.release(Path::new(&id));
        order.push(id);
        look_when_settled(&mut bench, &mut FrontEnds::default());
    }
    assert_eq!(order, ["t/x/1.onnx", "t/x/2.onnx"]);
    // Also for the daemon that comes after this one.
    std::thread::sleep(SETTLE * 5);
    bench.inbox.look(Instant::now(), &mut FrontEnds::default());
    let again = common::config(bench.dir.path());
    let recall = Some(bench.at("").with_file_name("quiet"));
    bench.inbox = Inbox::open(onnxd_intake::Config { recall, ..again }).unwrap();
    look_when_settled(&mut bench, &mut FrontEnds::default());
    assert_eq!(handed_over(&mut bench), ["t/x/3.onnx"]);
}

#[test]
fn an_incomplete_network_becomes_the_whole_folder_when_the_others_are_gone() {
    let mut bench = Bench::new();
    ["t/x/1.onnx", "t/x/weights/w"].iter().for_each(|name| bench.write(name, "1"));
    bench.write("t/x/2.ini", "[sp]\nweights");
    bench.write("t/x/3.ini", "[sp]\nmissing");
    look_when_settled(&mut bench, &mut FrontEnds::default());
    assert_eq!(handed_over(&mut bench), ["t/x/1.onnx"]);
    for gone in ["1.onnx", "3.ini"] {
        fs::remove_file(bench.at("t/x").join(gone)).unwrap();
    }
    bench.inbox.release(Path::new("t/x/1.onnx"));
    look_when_settled(&mut bench, &mut FrontEnds::default());
    assert_eq!(handed_over(&mut bench), ["t/x"]);
}

#[test]
fn a_front_end_that_broke_is_not_asked_again_with_more_files() {
    let mut bench = Bench::new();
    ["t/1.onnx", "t/2.onnx"].iter().for_each(|name| bench.write(name, "1"));
    let mut slow = Slow::default();
    let hung = Diagnostic::new(Code::PluginHung, "it did not end");
    slow.answers.insert("t/1.onnx".into(), ProbeOutcome::Failed(hung));
    slow.answers.insert("t/2.onnx".into(), complete());
    look_when_settled(&mut bench, &mut slow);
    assert_eq!(slow.asked.len(), 2);
    assert_eq!(handed_over(&mut bench), ["t/1.onnx", "t/2.onnx"]);
}

#[test]
fn equal_files_are_asked_about_once_wherever_they_lie() {
    let mut bench = Bench::new();
    bench.write("t/net/a.onnx", "1");
    bench.write("t/net/data", "1");
    let mut slow = Slow::default();
    let waiting = ProbeOutcome::Waiting { missing: vec!["weights".into()] };
    slow.answers.insert("t/a.onnx".into(), waiting);
    look_when_settled(&mut bench, &mut slow);
    assert_eq!(slow.asked.len(), 1);
    fs::rename(bench.at("t/net"), bench.at("t/renamed")).unwrap();
    look_when_settled(&mut bench, &mut slow);
    assert!(matches!(bench.state("t/renamed"), Some(InboxState::WaitingFor { .. })));
    assert_eq!(slow.asked.len(), 1);
}

#[test]
fn a_look_compares_each_name_once_however_many_there_are() {
    let mut bench = Bench::new();
    for n in 0..2_000 {
        bench.write(&format!("t/{n}.onnx"), "1");
    }
    let mut slow = Slow::default();
    look_when_settled(&mut bench, &mut slow);
    slow.compared.set(0);
    bench.inbox.look(Instant::now(), &mut slow);
    assert_eq!(slow.compared.get(), 2_000);
}

#[test]
fn a_restart_does_not_have_files_settle_anew() {
    let dir = tempfile::tempdir().unwrap();
    let config = || {
        let recall = Some(dir.path().join("quiet"));
        onnxd_intake::Config { recall, ..config(dir.path()) }
    };
    let mut first = Inbox::open(config()).unwrap();
    fs::write(dir.path().join("inbox/a.onnx"), "1").unwrap();
    first.look(Instant::now(), &mut FrontEnds::default());
    assert!(!first.has_offer());
    drop(first);
    std::thread::sleep(SETTLE);
    fs::write(dir.path().join("inbox/b.onnx"), "1").unwrap();
    let mut second = Inbox::open(config()).unwrap();
    second.look(Instant::now(), &mut FrontEnds::default());
    assert_eq!(ids(second.hand_over()), ["a.onnx"]);
    assert!(!second.has_offer(), "what came meanwhile settles");
}
