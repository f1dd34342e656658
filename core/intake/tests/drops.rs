//! Drops as people and tools make them: each is reported once, and only when it is complete.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Bench, SETTLE, shown};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::names::NameRules;
use onnxd_intake::{InboxNews, InboxState, ProbeOutcome, WatchMode};

const NET: &str = "[sp]\nweights/a\nweights/b";

#[test]
fn a_copy_a_move_a_rename_and_a_hard_link_are_each_taken_once() {
    let mut bench = Bench::new();
    let outside = bench.dir.path().join("outside");
    fs::write(&outside, "model").unwrap();
    bench.poll();
    fs::copy(&outside, bench.at("copied.onnx")).unwrap();
    fs::hard_link(&outside, bench.at("linked.onnx")).unwrap();
    bench.write(".temp.onnx.Ab12Cd", "model");
    fs::rename(bench.at(".temp.onnx.Ab12Cd"), bench.at("temp.onnx")).unwrap();
    bench.write("download.onnx.part", "model");
    fs::rename(bench.at("download.onnx.part"), bench.at("download.onnx")).unwrap();
    fs::rename(&outside, bench.at("moved.onnx")).unwrap();
    let ready = bench.settle();
    let names = ["copied", "download", "linked", "moved", "temp"];
    assert_eq!(shown(&ready), names.map(|n| format!("{n}.onnx: {n}.onnx")));
    assert_eq!(bench.settle().len(), 0);
    assert_eq!(bench.front_ends.asked.len(), 5);
}

#[test]
fn a_nested_folder_moved_in_is_one_submission() {
    let mut bench = Bench::new();
    let outside = bench.dir.path().join("out/net");
    fs::create_dir_all(outside.join("weights/deep")).unwrap();
    fs::write(outside.join("net.ini"), "[sp]\nweights/deep/a").unwrap();
    fs::write(outside.join("weights/deep/a"), "1").unwrap();
    fs::create_dir(bench.at("user")).unwrap();
    bench.poll();
    fs::rename(&outside, bench.at("user/net")).unwrap();
    let ready = bench.settle();
    assert_eq!(shown(&ready), ["user/net: net.ini weights/deep/a"]);
    assert_eq!(ready[0].folder, Path::new("user"));
    assert_eq!(ready[0].name, "net");
    assert_eq!(ready[0].set.bytes(), 20);
    assert_eq!(&*ready[0].answer, b"answer");
}

#[test]
fn folders_written_entry_by_entry_are_taken_whole() {
    let mut bench = Bench::new();
    bench.poll();
    // As `tar x` does: folders first, then files, each in its own time.
    for step in ["net/net.ini", "net/params.toml", "net/weights/a", "net/weights/b", "net/x/y/z"] {
        bench.write(step, if step.ends_with("ini") { NET } else { "1" });
        let written = Instant::now();
        let ready = bench.run(SETTLE / 4);
        assert!(ready.is_empty() || written.elapsed() >= SETTLE, "taken at {step}");
    }
    assert_eq!(shown(&bench.settle()), ["net: net.ini params.toml weights/a weights/b x/y/z"]);
}

#[test]
fn a_slow_writer_is_never_taken_early() {
    let mut bench = Bench::new();
    bench.poll();
    let mut file = fs::File::create(bench.at("slow.onnx")).unwrap();
    for _ in 0..20 {
        file.write_all(b"more").unwrap();
        assert!(bench.run(SETTLE / 3).is_empty());
    }
    // Paused for longer than the settle time, and not done.
    assert!(bench.settle().is_empty());
    assert_eq!(bench.state("slow.onnx").unwrap().word(), "arriving");
    drop(file);
    let ready = bench.run(Duration::from_secs(2));
    assert_eq!(ready[0].set.files[0].stamp.size, 80);
}

#[test]
fn parts_in_every_order_start_one_job_when_complete() {
    let orders = permutations(&["net.ini", "weights/a", "weights/b", "params.toml"]);
    // Every order waits most of the time, so all of them run side by side.
    std::thread::scope(|scope| {
        for order in &orders {
            scope.spawn(|| drop_in_order("", order));
            scope.spawn(|| drop_in_order("net/", order));
        }
    });
}

fn drop_in_order(folder: &str, order: &[&str]) {
    let mut bench = Bench::new();
    bench.poll();
    let mut ready = Vec::new();
    // Params are optional: without them the set is complete before they come.
    let complete_at = order.iter().rposition(|p| *p != "params.toml").unwrap();
    for (i, part) in order.iter().enumerate() {
        let text = if *part == "net.ini" { NET } else { "1" };
        bench.write(&format!("{folder}{part}"), text);
        let now = bench.run(SETTLE * 3);
        assert!(i >= complete_at || now.is_empty(), "{folder}{order:?}: taken after {part}");
        for submission in now {
            let dest = bench.dir.path().join(format!("job{i}/input"));
            submission.set.plan(&dest).execute(&NameRules::default()).unwrap();
            bench.inbox.release(&submission.id);
            ready.push(submission);
        }
    }
    ready.extend(bench.settle());
    assert_eq!(ready.len(), 1, "{folder}{order:?}");
    assert_eq!(ready[0].set.files.len(), complete_at + 1, "{folder}{order:?}");
}

fn permutations<'a>(of: &[&'a str]) -> Vec<Vec<&'a str>> {
    if of.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for (i, first) in of.iter().enumerate() {
        let rest: Vec<&str> =
            of.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| *p).collect();
        for mut tail in permutations(&rest) {
            tail.insert(0, first);
            all.push(tail);
        }
    }
    all
}

#[test]
fn missing_parts_are_named() {
    let mut bench = Bench::new();
    bench.write("net/net.ini", NET);
    bench.write("net/weights/b", "1");
    assert_eq!(bench.settle().len(), 0);
    let missing = vec!["weights/a".to_owned()];
    assert_eq!(bench.state("net"), Some(InboxState::WaitingFor { missing }));
    let asked = bench.front_ends.asked.len();
    bench.settle();
    assert_eq!(bench.front_ends.asked.len(), asked, "asked again although nothing changed");
}

#[test]
fn shared_files_go_along_only_where_it_is_unambiguous() {
    let mut bench = Bench::new();
    for file in ["a.onnx", "b.onnx", "params.toml", "readme.txt"] {
        bench.write(file, "1");
    }
    assert_eq!(bench.settle().len(), 0);
    for id in ["a.onnx", "b.onnx"] {
        let Some(InboxState::Blocked { reason }) = bench.state(id) else {
            panic!("{id} is not blocked")
        };
        assert!(reason.contains("params.toml") && reason.contains("folder of its own"), "{reason}");
    }
    fs::remove_file(bench.at("b.onnx")).unwrap();
    assert_eq!(shown(&bench.settle()), ["a.onnx: a.onnx params.toml"]);
}

#[test]
fn a_companion_under_a_temporary_name_is_waited_for() {
    for temporary in ["a.params.toml.part", ".a.params.toml.Ab12Cd", ".params.toml.Ab12Cd"] {
        let mut bench = Bench::new();
        bench.write("a.onnx", "1");
        bench.poll();
        let mut taken = 0;
        for text in ["1", "12", "123", "1234"] {
            bench.write(temporary, text);
            let written = Instant::now();
            let ready = bench.run(SETTLE / 2);
            assert!(ready.is_empty() || written.elapsed() >= SETTLE, "{temporary}");
            taken += ready.len();
        }
        taken += bench.settle().len();
        assert_eq!(taken, 1, "{temporary}: an orphan must not wait for ever");
    }
}

#[test]
fn an_included_file_that_looks_like_a_network_is_a_part() {
    let mut bench = Bench::new();
    bench.write("net/net.ini", "[sp]\ncommon.ini");
    bench.write("net/common.ini", "[conv]");
    assert_eq!(shown(&bench.settle()), ["net: common.ini net.ini"]);

    let mut bench = Bench::new();
    bench.write("net.ini", "[sp]\ninclude.ini\ndata");
    bench.write("include.ini", "[sp]\ndata");
    bench.write("data", "1");
    bench.write("other.onnx", "1");
    bench.front_ends.answer = None;
    let ready = bench.settle();
    assert_eq!(shown(&ready), ["other.onnx: other.onnx"], "{:?}", bench.inbox.status().items);
}

#[test]
fn a_marker_makes_its_set_sure_at_once_and_goes_with_it() {
    let mut bench = Bench::with(|c| c.settle = Duration::from_secs(600));
    bench.write("net/net.ini", NET);
    bench.write("net/weights/a", "1");
    bench.write("net/weights/b", "1");
    bench.write("x.onnx", "1");
    assert_eq!(bench.run(SETTLE).len(), 0);
    fs::write(bench.at("net.ready"), "").unwrap();
    fs::write(bench.at("x.onnx.ready"), "").unwrap();
    let ready = bench.run(SETTLE);
    assert_eq!(shown(&ready), ["net: net.ini weights/a weights/b", "x.onnx: x.onnx"]);
    for (i, submission) in ready.iter().enumerate() {
        submission
            .set
            .plan(&bench.dir.path().join(format!("job{i}/input")))
            .execute(&NameRules::default())
            .unwrap();
    }
    assert_eq!(fs::read_dir(bench.at("")).unwrap().count(), 0);
}

#[test]
fn where_markers_are_required_nothing_goes_without() {
    let mut bench = Bench::with(|c| c.ready_required = true);
    bench.write("a.onnx", "1");
    assert_eq!(bench.settle().len(), 0);
    let missing = vec!["a.onnx.ready".to_owned()];
    assert_eq!(bench.state("a.onnx"), Some(InboxState::WaitingFor { missing }));
    bench.write("a.ready", "");
    assert_eq!(bench.settle().len(), 1);
}

#[test]
fn links_are_refused_and_litter_is_ignored() {
    let mut bench = Bench::new();
    symlink("/etc/passwd", bench.at("link.onnx")).unwrap();
    symlink("/etc", bench.at("etc")).unwrap();
    bench.write("net/net.ini", "[sp]");
    symlink("/etc/passwd", bench.at("net/weights")).unwrap();
    for litter in [".hidden.onnx", "a.onnx~", "b.onnx.part", "Thumbs.db", "@eaDir/c.onnx"] {
        bench.write(litter, "1");
    }
    assert_eq!(bench.settle().len(), 0);
    for id in ["link.onnx", "etc", "net"] {
        let Some(InboxState::Refused { reason }) = bench.state(id) else { panic!("{id}") };
        assert_eq!(reason.code, Code::SymlinkRefused.as_str());
        assert!(reason.to_string().contains("cp -rL"), "{reason}");
    }
    assert_eq!(bench.inbox.status().items.len(), 3);
    fs::remove_file(bench.at("net/weights")).unwrap();
    assert_eq!(shown(&bench.settle()), ["net: net.ini"]);
}

#[test]
fn what_nobody_wants_is_reported_once_after_the_grace_time() {
    let mut bench = Bench::new();
    bench.write("docs/readme.txt", "1");
    bench.write("strange.ini", "no network");
    let end = Instant::now() + SETTLE * 6;
    let mut found = Vec::new();
    while Instant::now() < end {
        found.extend(bench.poll());
        std::thread::sleep(SETTLE / 8);
    }
    let mut reasons: Vec<(PathBuf, String)> = found
        .into_iter()
        .map(|f| match f {
            InboxNews::Unmatched(u) => (u.id, u.reason),
            InboxNews::Ready(s) => panic!("{:?}", s.id),
        })
        .collect();
    reasons.sort();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].1.contains("no network is with it"));
    assert!(reasons[1].1.contains("no [sp] section"));
    assert_eq!(bench.front_ends.asked.len(), 1);
}

#[test]
fn failures_of_the_machine_are_tried_again_and_others_become_jobs() {
    let mut bench = Bench::new();
    let no_worker = Diagnostic::new(Code::WorkerStart, "fork failed");
    bench.front_ends.answer = Some(ProbeOutcome::Failed(no_worker));
    bench.write("a.onnx", "1");
    assert_eq!(bench.settle().len(), 0);
    assert!(matches!(bench.state("a.onnx"), Some(InboxState::Blocked { .. })));
    assert_eq!(bench.front_ends.asked.len(), 1);
    let later = Instant::now() + Duration::from_secs(6);
    bench.front_ends.answer = None;
    assert_eq!(bench.look_at(later).len(), 1);

    let broken = Diagnostic::new(Code::OnnxMalformed, "broken");
    bench.front_ends.answer = Some(ProbeOutcome::Failed(broken.clone()));
    bench.write("b.onnx", "1");
    let ready = bench.settle();
    assert_eq!(ready[0].problem, Some(broken));
}

#[test]
fn a_root_made_anew_is_watched_again() {
    let mut bench = Bench::new();
    bench.poll();
    assert_eq!(bench.inbox.status().watch_mode, WatchMode::Events);
    fs::remove_dir_all(bench.at("")).unwrap();
    bench.run(SETTLE / 4);
    assert!(bench.inbox.status().offline.is_some());
    assert!(!bench.at("").exists(), "a missing mount must not be made");
    fs::create_dir(bench.at("")).unwrap();
    bench.poll();
    assert_eq!(bench.inbox.status().offline, None);
    bench.write("a.onnx", "1");
    assert_eq!(bench.settle().len(), 1);
    assert!(bench.inbox.hints().is_empty());
    bench.write("b.onnx", "1");
    assert!(bench.inbox.hints().recv_timeout(Duration::from_secs(5)).is_ok(), "not armed");
}

#[test]
fn files_of_the_past_and_the_future_are_taken_alike() {
    let mut bench = Bench::new();
    for (name, secs) in [("past.onnx", 1), ("future.onnx", 9_000_000_000)] {
        bench.write(name, "1");
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        fs::File::options().write(true).open(bench.at(name)).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(bench.poll().len(), 0);
    assert_eq!(bench.settle().len(), 2);
}

#[test]
fn polling_finds_the_same_drops() {
    let mut bench = Bench::with(|c| c.poll_only = true);
    bench.poll();
    assert!(matches!(bench.inbox.status().watch_mode, WatchMode::Polling { .. }));
    bench.write("net/net.ini", NET);
    bench.run(SETTLE);
    bench.write("net/weights/a", "1");
    bench.write("net/weights/b", "1");
    assert_eq!(bench.settle().len(), 1);
}

#[test]
fn two_thousand_files_at_once_are_two_thousand_submissions() {
    let mut bench = Bench::new();
    bench.poll();
    for i in 0..2_000 {
        fs::write(bench.at(&format!("{i}.onnx")), "1").unwrap();
    }
    let mut ready = bench.run(SETTLE);
    let end = Instant::now() + Duration::from_secs(60);
    while ready.len() < 2_000 && Instant::now() < end {
        ready.extend(bench.settle());
    }
    assert_eq!(ready.len(), 2_000);
    assert_eq!(bench.front_ends.asked.len(), 2_000);
    assert_eq!(bench.settle().len(), 0);
}

#[test]
fn an_overwritten_drop_is_offered_again_after_it_settled() {
    let mut bench = Bench::new();
    bench.write("a.onnx", "1");
    assert_eq!(bench.settle().len(), 1);
    bench.write("a.onnx", "22");
    let again = bench.settle();
    assert_eq!(again[0].set.files[0].stamp.size, 2);
    bench.inbox.block(Path::new("a.onnx"), "cannot move".to_owned());
    assert_eq!(bench.settle().len(), 0);
    let reason = "cannot move".to_owned();
    assert_eq!(bench.state("a.onnx"), Some(InboxState::Blocked { reason }));
    bench.inbox.unblock();
    assert_eq!(bench.settle().len(), 1);
    bench.inbox.release(Path::new("a.onnx"));
    assert_eq!(bench.settle().len(), 1);
}

/// A part under a temporary name whose writer pauses.
#[test]
fn a_part_that_is_still_open_is_waited_for() {
    let mut bench = Bench::new();
    bench.poll();
    bench.write("net/net.onnx", "x");
    let mut part = fs::File::create(bench.at("net/weights.part")).unwrap();
    part.write_all(b"half").unwrap();
    assert!(bench.settle().is_empty());
    drop(part);
    fs::rename(bench.at("net/weights.part"), bench.at("net/weights")).unwrap();
    let ready = bench.run(Duration::from_secs(2));
    assert_eq!(shown(&ready), ["net: net.onnx weights"]);
}

/// Downloads that broke off, beside the network and where clients of Hugging Face have them.
#[test]
fn a_download_that_is_not_finished_is_waited_for() {
    for download in ["net/weights.incomplete", "net/.cache/huggingface/download/x.incomplete"] {
        let mut bench = Bench::new();
        bench.write("net/net.onnx", "x");
        bench.write("net/weights.lock", "");
        bench.write("net/.cache/huggingface/download/weights.lock", "");
        bench.write(download, "half");
        assert!(bench.settle().is_empty(), "{download}");
        let Some(InboxState::WaitingFor { missing }) = bench.state("net") else {
            panic!("{download}: {:?}", bench.state("net"))
        };
        assert_eq!(missing, [format!("the end of a download, {download}")]);
        fs::rename(bench.at(download), bench.at("net/weights")).unwrap();
        assert_eq!(shown(&bench.settle()), ["net: net.onnx weights"], "{download}");
    }
}

/// Names of copies under way and of conflicts, which are no networks.
#[test]
fn names_of_the_settings_are_no_drops() {
    let mut bench = Bench::new();
    bench.poll();
    for name in ["_UNPACK_net/net.onnx", "a.sync-conflict-20261128-101112-ABCDEFG.onnx", "~$b.onnx"]
    {
        bench.write(name, "x");
    }
    assert!(bench.settle().is_empty());
    fs::rename(bench.at("_UNPACK_net"), bench.at("net")).unwrap();
    assert_eq!(shown(&bench.settle()), ["net: net.onnx"]);
}
