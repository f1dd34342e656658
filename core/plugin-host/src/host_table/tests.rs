use super::*;
use crate::Submission;
use crate::context::{HostEvent, JobContext};
use crate::tensors::TensorTable;
use onnxd_params::Resolved;
use onnxd_proto::onnxd::InputFile;
use prost::Message;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

type Events = Arc<Mutex<Vec<HostEvent>>>;

fn context(inputs: BTreeMap<String, std::path::PathBuf>) -> (JobContext, Events) {
    let events = Events::default();
    let seen = Arc::clone(&events);
    let file = |(name, path): (String, std::path::PathBuf)| {
        let path = path.into_os_string().into_string().unwrap();
        InputFile { name, path, ..InputFile::default() }
    };
    let files: Vec<InputFile> = inputs.into_iter().map(file).collect();
    let params = Resolved::default();
    let submission =
        Submission { files: &files, network: "net.onnx", params: &params, lowered: &[] };
    let sink = move |event| seen.lock().unwrap().push(event);
    (JobContext::new(submission, TensorTable::new(), 2, Arc::default(), sink), events)
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
    // SAFETY: all pointers are to variables of this test. The host gave 16 bytes, aligned to 64, and what
    // it tells of a sealed tensor stays valid while the call runs.
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
    // SAFETY: all pointers are null, or to variables of this test; texts that claim more than they have
    // are null, which the host is to find before it reads.
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
        // SAFETY: the host compares addresses of jobs and does not follow them.
        assert_eq!(unsafe { progress(job, 1, 2) }, abi::INVALID);
        // SAFETY: the same; the text is static.
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
    // SAFETY: all pointers are to variables of this test. The file is mapped twice, so that its bytes are
    // there until it was given back twice; `running` keeps the submission.
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
        let message = onnxd_proto::onnxd::Submission::decode(bytes.as_bytes()).unwrap();
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
    // SAFETY: `view` is a variable of this test, all texts are static. The context keeps the graph that
    // `view` shows until the call is over.
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
        // SAFETY: the host compares addresses of jobs and does not follow them; the text is static.
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
    // SAFETY: texts are static or variables of this test; those that claim more than they have are null,
    // which the host is to find before it reads.
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
    let params = Resolved::default();
    let submission = Submission { files: &[], network: "", params: &params, lowered: &[] };
    let mut context = JobContext::new(submission, TensorTable::new(), 1, cancel, |_| {});
    let running = context.start();
    // SAFETY: the job is that of a call in progress.
    assert_eq!(unsafe { progress(running.job, 0, 0) }, abi::CANCELLED);
}

#[test]
fn a_panic_in_the_host_stays_there() {
    let sink = |_| panic!("sink");
    let params = Resolved::default();
    let submission = Submission { files: &[], network: "", params: &params, lowered: &[] };
    let mut context = JobContext::new(submission, TensorTable::new(), 1, Arc::default(), sink);
    let running = context.start();
    // SAFETY: the job is that of a call in progress; no panic crosses the boundary.
    assert_eq!(unsafe { progress(running.job, 0, 0) }, abi::INTERNAL);
}

/// What a plugin asks for, with a struct that says nothing more than it has to.
fn derivation(
    kind: u32,
    sources: &[u64],
    offset: u64,
    strides: &[i64],
    axis: u32,
) -> abi::Derivation {
    abi::Derivation {
        struct_size: size_of::<abi::Derivation>() as u32,
        kind,
        sources: sources.as_ptr(),
        source_count: sources.len(),
        offset,
        strides: strides.as_ptr(),
        axis,
        reserved: 0,
    }
}

#[test]
fn a_tensor_is_derived_told_and_computed() {
    let (mut context, _) = context(BTreeMap::new());
    let table = context.tensors().clone();
    let values: Vec<u8> = (0..12).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let w = table.insert(1, &[3, 4], values.into()).unwrap();
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let derive = |from: &abi::Derivation, dtype: u32, dims: &[i64]| {
        let (d, mut id) = (desc(dtype, dims, 0), 0);
        // SAFETY: description, derivation and `id` are variables that outlive the call.
        let status = unsafe { derived::tensor_derive(job, from, &raw const d, &raw mut id) };
        assert_eq!(status, abi::OK);
        id
    };
    let turned = derive(&derivation(abi::DERIVE_STRIDED, &[w], 0, &[1, 4], 0), 1, &[4, 3]);
    let bytes = derive(&derivation(abi::DERIVE_CAST, &[turned], 0, &[], 0), 2, &[4, 3]);
    let twice = derive(&derivation(abi::DERIVE_CONCAT, &[bytes, bytes], 0, &[], 1), 2, &[4, 6]);
    // A table that packs nibbles.
    let table_of_nibbles =
        (0..128).map(|i| (2 * i % 16) | (((2 * i + 1) % 16) << 4)).collect::<Vec<u8>>();
    let nibbles = table.insert(21, &[256], table_of_nibbles.into()).unwrap();
    let packed = derive(&derivation(abi::DERIVE_LOOKUP, &[bytes, nibbles], 0, &[], 0), 21, &[4, 3]);
    // SAFETY: both structs are variables of this test. What the host tells through them stays valid while
    // `running` lives.
    unsafe {
        let (mut from, mut out) = (derivation(0, &[], 0, &[], 0), desc(0, &[], 0));
        let told = derived::tensor_derivation(job, turned, &raw mut from, &raw mut out);
        assert_eq!((told, from.kind, from.source_count), (abi::OK, abi::DERIVE_STRIDED, 1));
        assert_eq!((*from.sources, *from.strides, *from.strides.add(1)), (w, 1, 4));
        assert_eq!((out.dtype, out.rank, *out.dims, out.nbytes), (1, 2, 4, 48));
        assert!(out.data.is_null());
        let told = derived::tensor_derivation(job, w, &raw mut from, &raw mut out);
        assert_eq!(told, abi::DECLINED);
        for _ in 0..2 {
            assert_eq!(tensor_get(job, twice, &raw mut out), abi::OK);
            let row = std::slice::from_raw_parts(out.data.cast::<u8>(), out.nbytes as usize);
            assert_eq!(row[..12], [0, 4, 8, 0, 4, 8, 1, 5, 9, 1, 5, 9]);
        }
    }
    assert_eq!(table.computed.lock().unwrap().len(), 1);
    // The rows are 0 4 8, 1 5 9, 2 6 10, 3 7 11.
    assert_eq!(table.tensor(packed).unwrap().bytes()[..], [0x40, 0x18, 0x95, 0x62, 0x3a, 0xb7]);
    drop(running);
    assert!(table.computed.lock().unwrap().is_empty(), "no view outlives the call");
    assert_eq!(table.tensor(twice).unwrap().dims(), [4, 6]);
    assert!(table.tensor(twice).unwrap().derivation().is_some());
}

#[test]
fn derivations_that_make_no_sense_are_refused() {
    let (mut context, events) = context(BTreeMap::new());
    let table = context.tensors().clone();
    let w = table.insert(1, &[2, 2], vec![0; 16].into()).unwrap();
    let packed = table.insert(22, &[2], vec![0].into()).unwrap();
    let places = table.insert(7, &[1], vec![7, 0, 0, 0, 0, 0, 0, 0].into()).unwrap();
    let (open, _) = table.create(1, &[4]).unwrap();
    let mapped = table.insert_mapped(vec![0; 16].into()).unwrap();
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let ask = |from: &abi::Derivation, dtype: u32, dims: &[i64]| {
        let (d, mut id) = (desc(dtype, dims, 0), 0);
        // SAFETY: all pointers are null or to variables that outlive the call; a count that is too large
        // is refused before anything is read.
        unsafe { derived::tensor_derive(job, from, &raw const d, &raw mut id) }
    };
    let (strided, cast, concat) = (abi::DERIVE_STRIDED, abi::DERIVE_CAST, abi::DERIVE_CONCAT);
    let null_sources = abi::Derivation { sources: null(), ..derivation(cast, &[w], 0, &[], 0) };
    let null_strides = abi::Derivation { strides: null(), ..derivation(strided, &[w], 0, &[], 0) };
    let many = abi::Derivation { source_count: usize::MAX, ..derivation(concat, &[w], 0, &[], 0) };
    let short = abi::Derivation { struct_size: 8, ..derivation(cast, &[w], 0, &[], 0) };
    for (from, dtype, dims, why) in [
        (derivation(strided, &[w], 1, &[2, 1], 0), 1, &[2, 2][..], "a view from 1 to 4"),
        (derivation(strided, &[w], 0, &[i64::MIN, 1], 0), 1, &[2, 2], "a view from -922"),
        (derivation(strided, &[w], u64::MAX, &[0], 0), 1, &[1], "a view from 184"),
        (derivation(strided, &[w], 0, &[0, 0], 0), 1, &[i64::MAX, 2], "overflow"),
        (derivation(strided, &[w], 0, &[0], 0), 2, &[4], "a view of float as uint8"),
        (derivation(cast, &[w], 0, &[], 0), 2, &[5], "a cast of 4 elements to 5"),
        (derivation(cast, &[w], 0, &[], 0), 22, &[4], "a cast from float to int4"),
        (derivation(cast, &[w, w], 0, &[], 0), 2, &[4], "2 sources, not one"),
        (derivation(cast, &[packed], 0, &[], 0), 2, &[2], "no whole bytes"),
        (derivation(concat, &[w, w], 0, &[], 2), 1, &[4, 2], "along axis 2"),
        (derivation(concat, &[w, w], 0, &[], 0), 1, &[5, 2], "parts of 4 elements"),
        (derivation(concat, &[], 0, &[], 0), 1, &[4, 2], "0 tensors"),
        (derivation(abi::DERIVE_SCALED, &[w], 0, &[], 0), 1, &[2, 2], "1 sources, not two"),
        (derivation(abi::DERIVE_SCALED, &[w, w], 0, &[], 0), 1, &[2, 2], "float[2, 2] times float"),
        (derivation(abi::DERIVE_LOOKUP, &[w], 0, &[], 0), 1, &[2, 2], "1 sources, not two"),
        (
            derivation(abi::DERIVE_LOOKUP, &[packed, w], 0, &[], 0),
            1,
            &[2],
            "int4[2] in float[2, 2]",
        ),
        (derivation(abi::DERIVE_TAKEN, &[w, w], 0, &[], 1), 1, &[2, 2], "slices float[2, 2]"),
        (derivation(abi::DERIVE_TAKEN, &[w, places], 0, &[], 1), 1, &[2, 1], "slice 7 of 2"),
        (derivation(99, &[w], 0, &[], 0), 1, &[4], "99 is no kind"),
        (derivation(abi::DERIVE_BLOCKS, &[w], 0, &[], 1), 1, &[4], "1 is no format"),
        (derivation(abi::DERIVE_BLOCKS, &[w], 4, &[], 2), 1, &[4], "4 is no part"),
        (derivation(abi::DERIVE_BLOCKS, &[w], 0, &[], 2), 1, &[4], "as blocks of float"),
        (derivation(cast, &[open], 0, &[], 0), 2, &[4], "no sealed tensor"),
        (derivation(cast, &[mapped], 0, &[], 0), 2, &[4], "no sealed tensor"),
        (derivation(cast, &[77], 0, &[], 0), 2, &[4], "no sealed tensor"),
        (null_sources, 2, &[4], "sources are a null pointer"),
        (null_strides, 1, &[4], "strides are a null pointer"),
        (many, 1, &[4], "sources are more than"),
        (short, 2, &[4], "struct_size of the derivation is 8"),
    ] {
        assert_eq!(ask(&from, dtype, dims), abi::INVALID, "{why}");
        let HostEvent::Log { text, .. } = events.lock().unwrap().pop().unwrap() else { panic!() };
        assert!(text.contains(why), "{text}: {why}");
    }
    let null_desc = derivation(cast, &[w], 0, &[], 0);
    let mut id = 0;
    // SAFETY: all pointers are null or to variables of this test.
    unsafe {
        assert_eq!(derived::tensor_derive(job, null(), null(), &raw mut id), abi::INVALID);
        let asked = derived::tensor_derive(job, &raw const null_desc, null(), &raw mut id);
        assert_eq!(asked, abi::INVALID);
        let told = derived::tensor_derivation(job, w, null_mut(), null_mut());
        assert_eq!(told, abi::INVALID);
    }
}

/// Views of views are one; what cannot be one ends after a while.
#[test]
fn chains_of_derivations_end() {
    let (mut context, events) = context(BTreeMap::new());
    let table = context.tensors().clone();
    let w = table.insert(1, &[2, 3], vec![0; 24].into()).unwrap();
    let running = context.start();
    let job = std::ptr::from_ref(running.job);
    let derive = |kind: u32, last: u64, strides: &[i64], dtype: u32, dims: &[i64]| {
        let (from, d, mut id) = (derivation(kind, &[last], 0, strides, 0), desc(dtype, dims, 0), 0);
        // SAFETY: description, derivation and `id` are variables that outlive the call.
        let status =
            unsafe { derived::tensor_derive(job, &raw const from, &raw const d, &raw mut id) };
        (status == abi::OK).then_some(id)
    };
    let mut last = w;
    for step in 0..200i64 {
        let rows = if step % 2 == 0 { 3 } else { 2 };
        last = derive(abi::DERIVE_STRIDED, last, &[1, rows], 1, &[rows, 5 - rows]).unwrap();
    }
    let dtype = |step: u32| if step.is_multiple_of(2) { 11 } else { 1 };
    let steps = (0..).find(|step| {
        let next = derive(abi::DERIVE_CAST, last, &[], dtype(*step), &[2, 3]);
        last = next.unwrap_or(last);
        next.is_none()
    });
    assert_eq!(steps, Some(abi::DERIVATIONS_MAX));
    let HostEvent::Log { text, .. } = events.lock().unwrap().pop().unwrap() else { panic!() };
    assert!(text.contains("more than 16 derivations are inside each other"), "{text}");
}
