//! The functions of a plugin's table, driven through a host in memory.

mod derived;
mod params;
mod parts;

use super::*;
use crate::diagnostics::Diagnostic;
use crate::ir::ops::{Neg, Relu};
use crate::ir::{At, DataType, Graph, Model, Tensor, ValueType};
use crate::rewrite::{Rewrite, Rewriter, rule};
use crate::testing::host::{Counted, HostState, TABLE, TestHost};
use crate::{Claim, Frontend, Imported, Need, Probe, QuantizeContext, Quantizer, Submission};
use bytes::Bytes;
use onnxd_onnx::{Placement, handle_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::Mutex;

crate::export_plugin! {
    id: "org.onnxd.test",
    summary: "For tests: reads bytes, removes negations",
    components: [
        frontend("raw", "Bytes as weights"; "*.raw", "*.bin" => || Box::new(Raw)),
        pass("remove-double-neg", "Removes two negations" => || rule("remove-double-neg", double)),
        pass("broken", "Panics" => || rule("broken", panics)),
        pass(
            "rename", "Renames"; declares [params::Naming::ROWS] =>
            |params| Box::new(params::Rename(params.section())),
        ),
        quantizer("parts", "Counts samples" => || Box::new(parts::Parts)),
    ],
}

#[allow(clippy::needless_pass_by_value)]
fn double(cx: &mut Rewriter, outer: At<Neg>) -> Rewrite {
    let inner = cx.producer::<Neg>(outer.x)?;
    cx.bypass(outer.out, inner.x)
}

#[allow(clippy::needless_pass_by_value)]
fn panics(_: &mut Rewriter, at: At<Neg>) -> Rewrite {
    panic!("at {:?}", at.node);
}

/// What the front-end keeps although it must not.
static KEPT: Mutex<Vec<Bytes>> = Mutex::new(Vec::new());

/// Four bytes are skipped, eight are a weight; the first byte chooses how it misbehaves. A file that begins with `l` is
/// a weight as a whole.
struct Raw;

fn large(submission: &Submission) -> Result<Imported, Diagnostics> {
    let mut file = submission.open(submission.network())?;
    let mut room = submission.room(DataType::Uint8, &[file.byte_len()])?;
    file.read_exact(room.elements_mut()).unwrap();
    assert!(file.fill_buf().unwrap().is_empty() && file.fill_buf().unwrap().is_empty());
    let mut g = Graph::new("g");
    let x = g.add_input("x", Some(ValueType::tensor(DataType::Uint8, [1])));
    let w = g.add_initializer("w", room.seal()?);
    let y = g.add("y", crate::ir::ops::Add::new(x, w));
    g.mark_output(y);
    Ok(Imported { model: Model::new(g, 8, 17), ..Imported::default() })
}

impl Frontend for Raw {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let need =
            Need { what: "weights".into(), path: "w".into(), found_as: vec![], optional: false };
        let reason = submission.network().to_owned();
        Ok(Probe { needs: vec![need], ..Probe::new(Claim::ByContent, reason) })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        match host(|h| h.files[submission.network()][0]) {
            b'l' => return large(submission),
            b'd' => return derived::import(submission),
            _ => {}
        }
        let bytes = submission.read(submission.network())?;
        match bytes[0] {
            b'k' => KEPT.lock().unwrap().push(bytes.clone()),
            b'm' => return Err(Diagnostic::new(Code::OutOfMemory, "too much").into()),
            b'u' => return Err(Diagnostic::new(Code::LayerUnsupported, "no").into()),
            _ => {}
        }
        submission.progress(1, 1)?;
        submission.log(crate::LogLevel::Warning, "raw", "eight bytes");
        submission.param("source", "weights");
        submission.params().without_effect("source.seed", "has no effect: nothing is random");
        let mut g = Graph::new("g");
        let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2])));
        let lent = Tensor::new(DataType::Float, vec![2], bytes.slice(4..12)).unwrap();
        let lent = g.add_initializer("lent", lent);
        let own = g.add_initializer("own", Tensor::vector(vec![1.5f32, 2.5]));
        let sum = g.add("sum", crate::ir::ops::Add::new(x, lent));
        let y = g.add("y", crate::ir::ops::Add::new(sum, own));
        g.mark_output(y);
        Ok(Imported { model: Model::new(g, 8, 17), ..Imported::default() })
    }
}

fn buffer(room: &mut [u8]) -> abi::ErrorBuffer {
    abi::ErrorBuffer { cap: room.len(), len: 0, ptr: room.as_mut_ptr().cast() }
}

thread_local! {
    /// Every test has a thread, and so a host, of its own.
    static OWN: &'static TestHost = TestHost::new(Vec::new(), BTreeMap::new());
}

fn host<T>(f: impl FnOnce(&mut HostState) -> T) -> T {
    OWN.with(|host| f(&mut host.state()))
}

/// The tensors that the plugin made.
fn made() -> Vec<&'static [u8]> {
    host(|h| h.made.iter().map(|id| h.bytes(*id)).collect())
}

/// Creates, calls and destroys an instance; status and text of the first failure, else OK.
fn drive(kind: &str, params: &str, call: EntryFunction) -> (abi::Status, String) {
    // SAFETY: a static table of its full size.
    assert!(unsafe { crate::host::install(&raw const TABLE) });
    let mut room = [0u8; 200];
    let mut err = buffer(&mut room);
    let mut inst = std::ptr::null_mut();
    let (kind, params) = (abi::Str::of(kind.as_bytes()), abi::Str::of(params.as_bytes()));
    // SAFETY: both texts outlive the call; `inst` and `err` are variables, and the buffer is as long as it says.
    let mut status = unsafe { create::<ExportedPlugin>(kind, params, &raw mut inst, &raw mut err) };
    if status == abi::OK {
        // SAFETY: `create` has just made the instance, and the job is one of the table's, which is never freed.
        status = unsafe { call(inst, OWN.with(|host| host.job()), &raw mut err) };
        // SAFETY: nothing uses the instance after this.
        unsafe { destroy(inst) };
    } else {
        assert!(inst.is_null(), "written although it failed");
    }
    let len = err.len;
    (status, String::from_utf8(room[..len].to_vec()).unwrap())
}

type EntryFunction =
    unsafe extern "C" fn(*mut c_void, *const abi::Job, *mut abi::ErrorBuffer) -> abi::Status;

fn passes(ids: &[&str]) -> String {
    let list: Vec<Value> = ids.iter().map(|id| serde_json::json!({"id": id})).collect();
    serde_json::json!({"passes": list, "rewrites_max": 0, "params": {}}).to_string()
}

/// A graph with one weight behind the handle that is returned.
fn give_graph(negations: usize) -> u64 {
    let mut g = Graph::new("g");
    let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2])));
    let w = g.add_initializer("w", Tensor::vector(vec![1.0f32, 2.0]));
    let mut v = g.add("sum", crate::ir::ops::Add::new(x, w));
    for _ in 0..negations {
        v = g.add("n", Neg::new(v));
    }
    let y = g.add("y", Relu::new(v));
    g.mark_output(y);
    let handle = host(|h| h.lend_tensor(1, &[2], &[1.0f32, 2.0].map(f32::to_le_bytes).concat()));
    let mut sink = |_: &Tensor| Ok(Placement::Handle(handle));
    let graph = onnxd_onnx::encode_to_bytes(&Model::new(g, 8, 17), &mut sink).unwrap();
    host(|h| h.graph = graph);
    handle
}

fn give_file(file: &[u8]) {
    let submission = message::Submission {
        files: vec![message::SubmissionFile { path: "a.raw".into(), bytes: file.len() as u64 }],
        network: "a.raw".into(),
        ..message::Submission::default()
    };
    host(|h| h.submission = submission.encode_to_vec());
    host(|h| h.files.insert("a.raw".into(), Bytes::copy_from_slice(file)));
}

fn artifact_of<M: Message + Default>(name: &str) -> Option<M> {
    host(|h| h.artifacts.get(name).map(|data| M::decode(data.as_slice()).unwrap()))
}

#[test]
fn a_pass_reads_its_weights_by_handle_and_gives_the_same_ones_back() {
    let handle = give_graph(2);
    assert_eq!(drive("pass", &passes(&["remove-double-neg"]), run), (abi::OK, String::new()));
    let log: message::PassLog = artifact_of(abi::ARTIFACT_PASS_LOG).unwrap();
    assert_eq!((log.passes.len(), log.passes[0].rewrites), (1, 1));
    assert_eq!(host(|h| h.counted.graphs_put), 1);
    let model = onnxd_proto::onnx::ModelProto::decode(host(|h| h.graph.clone())).unwrap();
    let entries: Vec<(String, String)> = model.graph.unwrap().initializer[0]
        .external_data
        .iter()
        .map(|e| (e.key.clone().unwrap(), e.value.clone().unwrap()))
        .collect();
    assert_eq!(handle_of(&entries), Ok(handle), "neither copied nor aliased");
    assert!(host(|h| h.aliases.is_empty() && h.made.is_empty()));
}

#[test]
fn a_pass_that_changes_nothing_puts_no_graph() {
    give_graph(1);
    assert_eq!(drive("pass", &passes(&["remove-double-neg"]), run).0, abi::OK);
    assert_eq!(host(|h| h.counted.graphs_put), 0);
    let log: message::PassLog = artifact_of(abi::ARTIFACT_PASS_LOG).unwrap();
    assert_eq!(log.passes[0].skipped[0].reason, "`sum` is not produced by Neg");
}

#[test]
fn a_panic_is_caught() {
    give_graph(1);
    let (status, text) = drive("pass", &passes(&["broken"]), run);
    assert_eq!(status, abi::INTERNAL);
    // Whether the place is known depends on the tests that ran before.
    assert!(text.starts_with("panic") && text.contains(": at NodeId("), "{text}");
}

#[test]
fn what_the_plugin_does_not_have_is_refused() {
    for (kind, params, wanted) in [
        ("frontend/other", "{}".to_owned(), "no front-end `other`"),
        ("quantizer/other", "{}".to_owned(), "no quantizer `other`"),
        ("pass", passes(&["other"]), "no pass `other`"),
        ("pass", "{}".to_owned(), "no list of passes"),
        ("pass", "{".to_owned(), "params: "),
    ] {
        let (status, text) = drive(kind, &params, run);
        assert_eq!(status, abi::INVALID);
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(drive("pass", &passes(&[]), probe).0, abi::INVALID, "passes have no probe");
    let mut err = buffer(&mut []);
    // SAFETY: null is allowed for both; `err` is a buffer without room.
    assert_eq!(unsafe { run(std::ptr::null_mut(), std::ptr::null(), &raw mut err) }, abi::INVALID);
}

#[test]
fn an_import_aliases_the_file_and_copies_only_what_is_new() {
    give_file(b"....\0\0\x80\x3f\0\0\0\x40");
    assert_eq!(drive("frontend/raw", "{}", run), (abi::OK, String::new()));
    // The file is what was lent first.
    assert_eq!(host(|h| h.aliases.clone()), [(1, 4)]);
    assert_eq!(made(), [[1.5f32, 2.5].map(f32::to_le_bytes).concat()]);
    assert_eq!(host(|h| h.counted.graphs_put), 1);
    let log: message::ImportLog = artifact_of(abi::ARTIFACT_IMPORT_LOG).unwrap();
    let read = log.params_read.unwrap();
    assert_eq!(
        (read.keys.as_slice(), &*read.idle[0].key),
        (&["source.weights".into()][..], "source.seed")
    );
    assert_eq!(host(|h| h.logged.clone()), ["warning: raw: eight bytes"]);
}

#[test]
fn a_large_file_is_mapped_in_turns_and_a_room_is_not_copied() {
    let file: Vec<u8> = b"l".iter().copied().chain((0..9 << 20).map(|i| (i % 251) as u8)).collect();
    give_file(&file);
    assert_eq!(drive("frontend/raw", "{}", run), (abi::OK, String::new()));
    // Of 9 MiB, 4 at a time.
    let counted = Counted { graphs_put: 1, files_mapped: 3, files_unmapped: 3 };
    assert_eq!(host(|h| h.counted), counted);
    assert!(made() == [file] && host(|h| h.aliases.is_empty()));
}

#[test]
fn a_probe_answers_by_artifact() {
    give_file(b"?");
    assert_eq!(drive("frontend/raw", "", probe).0, abi::OK);
    let answer: message::Probe = artifact_of(abi::ARTIFACT_PROBE).unwrap();
    assert_eq!((answer.level(), &*answer.reason), (message::ClaimLevel::ClaimByContent, "a.raw"));
    assert!(!answer.needs[0].found);
}

#[test]
fn failures_have_a_status_and_say_more_in_an_artifact() {
    for (first, status, code) in
        [(b'm', abi::OUT_OF_MEMORY, "N0305"), (b'u', abi::UNSUPPORTED, "N0203")]
    {
        give_file(&[first]);
        let (found, text) = drive("frontend/raw", "{}", run);
        assert_eq!(found, status);
        assert!(text.starts_with(code), "{text}");
        let said: message::Diagnostics = artifact_of(abi::ARTIFACT_DIAGNOSTICS).unwrap();
        assert_eq!(said.items[0].code, code);
    }
    give_file(b"............");
    host(|h| h.cancelled = true);
    assert_eq!(drive("frontend/raw", "{}", run).0, abi::CANCELLED);
}

#[test]
fn data_of_the_host_cannot_be_kept() {
    give_file(b"k...........");
    let (status, text) = drive("frontend/raw", "{}", run);
    assert_eq!(status, abi::INVALID);
    assert!(text.contains("keeps data of the host beyond the call"), "{text}");
    // Forgotten, not dropped late: nothing reads it again.
    KEPT.lock().unwrap().clear();
}

#[test]
fn the_descriptor_is_read_and_the_probe_is_an_extension() {
    unsafe extern "C" {
        #[link_name = "onnxd_plugin_header"]
        static HEADER: abi::Header;
    }
    // SAFETY: the symbol is the header that `export_plugin!` defines above, a static of this type.
    let header = unsafe { &HEADER };
    // SAFETY: the descriptor is a static.
    let text = std::str::from_utf8(unsafe { header.descriptor.as_bytes() }).unwrap();
    let descriptor = onnxd_config::Descriptor::parse(text).unwrap();
    assert_eq!(descriptor.components.len(), 5);
    let raw = &descriptor.components[0];
    assert_eq!((raw.kind.as_str(), raw.id.as_str()), ("frontend", "raw"));
    assert_eq!(raw.globs, ["*.raw", "*.bin"]);
    assert!(descriptor.components[1].globs.is_empty());
    let names = descriptor.components[3].params[0].row();
    assert_eq!(
        (names.key.as_str(), names.help.as_str()),
        ("passes.rename.to", "The new name, in two lines.")
    );
    assert_eq!(names.kind.to_string(), "\"same\" | an integer from 1 to 9");
    // SAFETY: a static table of its full size.
    let plugin = unsafe { header.entry.unwrap()(&raw const TABLE) };
    assert!(!plugin.is_null());
    // SAFETY: null is allowed.
    assert!(unsafe { header.entry.unwrap()(std::ptr::null()) }.is_null());
    // SAFETY: the name is borrowed for the call.
    let named = |name: &str| unsafe { extension(abi::Str::of(name.as_bytes())) };
    assert!(!named(abi::EXTENSION_PROBE).is_null() && named("other/1").is_null());
}

#[test]
fn long_texts_are_cut_between_characters() {
    let mut room = [0u8; 4];
    let mut err = buffer(&mut room);
    // SAFETY: the buffer has the room that it says.
    unsafe { write(&raw mut err, "abc\u{e9}") };
    assert_eq!(err.len, 3);
    // SAFETY: null is allowed.
    unsafe { write(std::ptr::null_mut(), "no buffer") };
}

#[test]
fn fuel_ends_the_rewrites() {
    give_graph(4);
    let params = r#"{"passes": [{"id": "remove-double-neg"}], "rewrites_max": 1}"#;
    assert_eq!(drive("pass", params, run).0, abi::OK);
    let log: message::PassLog = artifact_of(abi::ARTIFACT_PASS_LOG).unwrap();
    assert_eq!(log.passes[0].rewrites, 1);
}
