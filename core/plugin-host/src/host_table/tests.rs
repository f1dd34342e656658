use super::*;
use crate::context::{HostEvent, JobContext};
use crate::tensors::TensorTable;
use onnxd_proto::onnxd::{Submission, SubmissionFile};
use prost::Message;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

type Events = Arc<Mutex<Vec<HostEvent>>>;

fn context(inputs: BTreeMap<String, std::path::PathBuf>) -> (JobContext, Events) {
    let events = Events::default();
    let seen = Arc::clone(&events);
    let files = inputs.keys().map(|k| SubmissionFile { path: k.clone(), bytes: 0 }).collect();
    let submission = Submission { files, network: "net.onnx".into(), params_json: String::new() };
    let sink = move |event| seen.lock().unwrap().push(event);
    let table = TensorTable::new();
    (JobContext::new(&submission, inputs, table, 2, Arc::default(), sink), events)
}

fn s(text: &str) -> abi::Str {
    abi::Str::of(text.as_bytes())
}

const WILD: abi::Str = abi::Str { ptr: null(), len: 5 };
const LONG: abi::Str = abi::Str { ptr: null(), len: usize::MAX };

fn desc(dtype: u32, dims: &[i64], nbytes: u64) -> abi::Tensor {
    abi::Tensor {
        struct_size: size_of::<abi::Tensor>() as u32,
        dtype,
        rank: dims.len() as u32,
        flags: 0,
        dims: dims.as_ptr(),
        data: null(),
        nbytes,
    }
}

#[test]
fn a_tensor_is_made_written_sealed_and_read() {
    let (mut context, events) = context(BTreeMap::new());
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let (mut id, mut data) = (0, null_mut::<c_void>());
    let d = desc(1, &[2, 2], 16);
    unsafe {
        assert_eq!(tensor_new(job, &raw const d, &raw mut id, &raw mut data), abi::OK);
        data.cast::<[f32; 4]>().write([1., 2., 3., 4.]);
        assert_eq!(tensor_seal(job, id), abi::OK);
        let mut out = desc(0, &[], 0);
        assert_eq!(tensor_get(job, id, &raw mut out), abi::OK);
        assert_eq!((out.dtype, out.rank, out.nbytes), (1, 2, 16));
        assert_eq!(out.flags, abi::TENSOR_ALIGNED_64);
        assert_eq!(out.data.cast::<[f32; 4]>().read(), [1., 2., 3., 4.]);
        let part = desc(1, &[1], 0);
        let mut alias = 0;
        assert_eq!(tensor_alias(job, id, 12, &raw const part, &raw mut alias), abi::OK);
        assert_eq!(tensor_get(job, alias, &raw mut out), abi::OK);
        assert_eq!(out.data.cast::<f32>().read(), 4.);
        assert_eq!(out.flags, 0);
    }
    assert!(events.lock().unwrap().is_empty());
}

#[test]
fn nonsense_gets_a_status_and_a_line_in_the_log() {
    let (mut context, events) = context(BTreeMap::new());
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let (mut id, mut data) = (0u64, null_mut::<c_void>());
    let (id, data) = (&raw mut id, &raw mut data);
    let mut out = desc(0, &[], 0);
    let out = &raw mut out;
    let good = desc(1, &[2], 8);
    let mut short = desc(1, &[2], 8);
    short.struct_size = 8;
    let mut no_dims = desc(1, &[2], 8);
    no_dims.dims = null();
    let mut deep = desc(1, &[2], 8);
    deep.rank = u32::MAX;
    let bad = [
        desc(1, &[2], 9),
        desc(8, &[2], 0),
        desc(u32::MAX, &[2], 0),
        desc(1, &[-1], 0),
        desc(1, &[i64::MAX, i64::MAX], 0),
        short,
        no_dims,
        deep,
    ];
    let name = s("x");
    unsafe {
        for d in &bad {
            assert_eq!(tensor_new(job, d, id, data), abi::INVALID, "{d:?}");
        }
        let huge = desc(1, &[1 << 50], 0);
        assert_eq!(tensor_new(job, &raw const huge, id, data), abi::OUT_OF_MEMORY);
        assert_eq!(tensor_new(job, null(), id, data), abi::INVALID);
        assert_eq!(tensor_new(job, &raw const good, null_mut(), data), abi::INVALID);
        assert_eq!(tensor_new(job, &raw const good, id, null_mut()), abi::INVALID);
        assert_eq!(tensor_seal(job, 99), abi::INVALID);
        assert_eq!(tensor_alias(job, 99, 0, &raw const good, id), abi::INVALID);
        assert_eq!(tensor_get(job, 99, out), abi::INVALID);
        assert_eq!(tensor_get(job, 99, null_mut()), abi::INVALID);
        assert_eq!(graph_put(job, WILD), abi::INVALID);
        assert_eq!(graph_put(job, LONG), abi::INVALID);
        assert_eq!(graph_get(job, null_mut()), abi::UNSUPPORTED);
        assert_eq!(submission(job, null_mut()), abi::INVALID);
        assert_eq!(input_map(job, name, null_mut()), abi::INVALID);
        for wrong in ["", "a//b", "model.onnx", "onnxd.else", ".hidden", &"x".repeat(129)] {
            assert_eq!(artifact(job, s(wrong), name, name), abi::INVALID, "{wrong}");
        }
        assert_eq!(artifact(job, name, name, WILD), abi::INVALID);
        assert_eq!(artifact(job, abi::Str::of(b"\xff"), name, name), abi::INVALID);
        assert_eq!(metric(job, WILD, 1.), abi::INVALID);
        assert_eq!(run_model(job, null()), abi::UNSUPPORTED);
        log(job, 3, WILD, WILD);
    }
    let events = events.lock().unwrap();
    assert!(events.len() > 25);
    let text = |e: &HostEvent| match e {
        HostEvent::Log { text, target, .. } if target == "onnxd.host" => text.clone(),
        other => panic!("{other:?}"),
    };
    let first = "tensor_new refused: nbytes is 9, dtype 1 and dims [2] come to 8";
    assert_eq!(text(&events[0]), first);
    events.iter().for_each(|e| assert!(text(e).contains(" refused: ")));
}

#[test]
fn a_call_that_is_over_is_refused() {
    let (mut context, _) = context(BTreeMap::new());
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    drop(running);
    let stranger = abi::Job { struct_size: 8, threads: 1 };
    for job in [job, null(), &raw const stranger] {
        assert_eq!(unsafe { progress(job, 1, 2) }, abi::INVALID);
        assert_eq!(unsafe { graph_put(job, s("g")) }, abi::INVALID);
    }
}

#[test]
fn inputs_are_those_of_the_submission_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.bin");
    std::fs::write(&path, [7u8; 100]).unwrap();
    let gone = folder.path().join("gone");
    let inputs = [("w/weights.bin".into(), path), ("gone".into(), gone)];
    let (mut context, _) = context(inputs.into());
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let size = size_of::<abi::Bytes>() as u32;
    let mut out = abi::Bytes { struct_size: size, reserved: 0, ptr: null(), len: 0, id: 0 };
    unsafe {
        assert_eq!(input_map(job, s("w/weights.bin"), &raw mut out), abi::OK);
        assert_eq!((out.len, *out.ptr), (100, 7));
        let first = out.id;
        assert_eq!(input_map(job, s("w/weights.bin"), &raw mut out), abi::OK);
        assert_eq!(out.id, first);
        let d = desc(2, &[4], 4);
        let mut id = 0;
        assert_eq!(tensor_alias(job, first, 96, &raw const d, &raw mut id), abi::OK);
        assert_eq!(tensor_alias(job, first, 97, &raw const d, &raw mut id), abi::INVALID);
        for wrong in ["weights.bin", "../w/weights.bin", "/etc/passwd", ""] {
            assert_eq!(input_map(job, s(wrong), &raw mut out), abi::INVALID, "{wrong}");
        }
        assert_eq!(input_map(job, s("gone"), &raw mut out), abi::IO);
        assert_eq!(input_unmap(job, first), abi::OK);
        assert_eq!(*out.ptr, 7, "it was mapped twice");
        assert_eq!(input_unmap(job, first), abi::OK);
        assert_eq!(input_unmap(job, first), abi::INVALID);
        let mut bytes = abi::Str::EMPTY;
        assert_eq!(submission(job, &raw mut bytes), abi::OK);
        let message = Submission::decode(bytes.as_bytes()).unwrap();
        assert_eq!(message.files.len(), 2);
    }
}

#[test]
fn results_replace_each_other_and_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(BTreeMap::new()).0.with_outputs(folder.path().to_owned());
    let log = abi::ARTIFACT_PASS_LOG;
    context.set_graph(Bytes::from_static(b"in"));
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    unsafe {
        let mut view = abi::Str::EMPTY;
        assert_eq!(graph_get(job, &raw mut view), abi::OK);
        assert_eq!(graph_put(job, s("one")), abi::OK);
        assert_eq!(graph_put(job, s("two")), abi::OK);
        assert_eq!(view.as_bytes(), b"in");
        assert_eq!(artifact(job, s("a.txt"), s("text/plain"), s("1")), abi::OK);
        assert_eq!(artifact(job, s("a.txt"), s("text/plain"), s("2")), abi::OK);
        assert_eq!(metric(job, s("loss"), 0.5), abi::OK);
        for data in ["3", "4"] {
            assert_eq!(artifact(job, s(log), s(""), s(data)), abi::OK);
        }
        assert_eq!(artifact(job, s("b/c.txt"), s(""), s("3")), abi::OK);
    }
    drop(running);
    assert_eq!(context.take_graph().unwrap(), "two");
    assert_eq!(context.take_artifact(log).unwrap().data, "4");
    assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"2");
    let names: Vec<String> = context.take_files().into_iter().map(|f| f.path).collect();
    assert_eq!(names, ["a.txt", "b/c.txt"]);
    assert_eq!(context.take_metrics()["loss"], 0.5);
}

#[test]
fn threads_may_log_and_read_but_not_put() {
    let (mut context, events) = context(BTreeMap::new());
    let running = context.start();
    let job = std::ptr::from_ref(running.job) as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| unsafe {
            let job = job as *const abi::Job;
            assert_eq!(progress(job, 1, 2), abi::OK);
            assert_eq!(graph_put(job, s("g")), abi::INVALID);
        });
    });
    assert_eq!(
        events.lock().unwrap()[0],
        HostEvent::Progress { done: 1, total: 2, about: String::new() }
    );
}

#[test]
fn the_text_of_progress_is_bounded() {
    let (mut context, events) = context(BTreeMap::new());
    let running = context.start();
    let (job, most) = (std::ptr::from_ref(running.job), ABOUT_BYTES_MAX);
    let long = format!("a{}", "\u{e9}".repeat(1 << 20));
    let cut_off = abi::Str::of(&[b'a', 0xc3]);
    unsafe {
        assert_eq!(progress_about(job, 1, 2, s("layer")), abi::OK);
        assert_eq!(progress_about(job, 1, 2, s(&long)), abi::OK);
        assert_eq!(progress_about(job, 1, 2, abi::Str::EMPTY), abi::OK);
        assert_eq!(progress_about(job, 1, 2, cut_off), abi::INVALID);
        assert_eq!(progress_about(job, 1, 2, abi::Str::of(&[0xff; 1000])), abi::INVALID);
        assert_eq!(progress_about(job, 1, 2, WILD), abi::INVALID);
        assert_eq!(progress_about(job, 1, 2, LONG), abi::INVALID);
    }
    let about = |event: &HostEvent| match event {
        HostEvent::Progress { about, .. } => Some(about.clone()),
        HostEvent::Log { .. } => None,
    };
    let told: Vec<String> = events.lock().unwrap().iter().filter_map(about).collect();
    assert_eq!(told, ["layer", &long[..most - 1], ""]);
}

#[test]
fn progress_tells_of_cancellation() {
    let cancel = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let submission = Submission::default();
    let table = TensorTable::new();
    let mut context = JobContext::new(&submission, BTreeMap::new(), table, 1, cancel, |_| {});
    let running = context.start();
    assert_eq!(unsafe { progress(running.job, 0, 0) }, abi::CANCELLED);
}

#[test]
fn a_panic_in_the_host_stays_there() {
    let table = TensorTable::new();
    let sink = |_| panic!("sink");
    let submission = Submission::default();
    let mut context = JobContext::new(&submission, BTreeMap::new(), table, 1, Arc::default(), sink);
    let running = context.start();
    assert_eq!(unsafe { progress(running.job, 0, 0) }, abi::INTERNAL);
}
