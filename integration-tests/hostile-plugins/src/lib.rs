//! Components that do what no plugin should, to show that each costs one attempt of one job and nothing else; and one
//! that needs more than is there, unless its tensors stay derived.

mod bombs;
mod derived;
mod escapes;
mod floods;
mod greedy;

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::{Model, Node};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext};
use onnxd_plugin_sdk::{Claim, Frontend, Imported, Probe, QuantizeContext, Quantizer, Submission};
use std::time::Duration;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.hostile",
    summary: "Misbehaves on purpose",
    components: [
        frontend("bad-probe", "Panics when asked whether a model is its own"; "*.onnx" => || Box::new(BadProbe)),
        frontend("hang-probe", "Never says whether a model is its own"; "*.hang" => || Box::new(HangProbe)),
        frontend("crash-probe", "Ends its process over some models"; "*.crash" => || Box::new(CrashProbe)),
        frontend("derived", "Rearranges every weight"; "*.derived" => || Box::new(derived::Derived)),
        pass("panic", "Panics" => || Box::new(Hostile("panic"))),
        pass("segfault", "Reads address 8" => || Box::new(Hostile("segfault"))),
        pass("abort", "Aborts" => || Box::new(Hostile("abort"))),
        pass("overflow-stack", "Recurses without end" => || Box::new(Hostile("overflow-stack"))),
        pass("hang", "Never returns" => || Box::new(Hostile("hang"))),
        pass("exit", "Ends the process with status 0" => || Box::new(Hostile("exit"))),
        pass("eat-memory", "Allocates without end" => || Box::new(Hostile("eat-memory"))),
        pass("invalid-graph", "Leaves a node that reads nothing" => || Box::new(Hostile("invalid-graph"))),
        pass("read-passwd", "Reads a file outside the job" => || Box::new(Hostile("read-passwd"))),
        pass("write-outside", "Writes outside the job" => || Box::new(Hostile("write-outside"))),
        pass("connect", "Opens a socket" => || Box::new(Hostile("connect"))),
        pass("fork", "Starts a process" => || Box::new(Hostile("fork"))),
        quantizer("talk", "Says of its work what floods, forges lines and commands terminals" => || Box::new(Talk)),
        quantizer("negate", "Turns Relu into Neg, and measures nothing" => || Box::new(Negate)),
        pass("flood-log", "Sends lines for the log without end" => || Box::new(Hostile("flood-log"))),
        pass("flood-stages", "Sends stages without end" => || Box::new(Hostile("flood-stages"))),
        pass("bomb-failure", "Fails with a million empty findings" => || Box::new(Hostile("bomb-failure"))),
        pass("bomb-result", "Reports a million empty tensors" => || Box::new(Hostile("bomb-result"))),
        pass("bomb-stage", "Names its stage in 60 MiB" => || Box::new(Hostile("bomb-stage"))),
        pass("full-result", "Reports as many findings as are taken" => || Box::new(Hostile("full-result"))),
        pass("full-text", "Reports as much text as is taken" => || Box::new(Hostile("full-text"))),
        pass("close-link", "Closes the link and goes on" => || Box::new(Hostile("close-link"))),
        pass("keep-result", "Counts a rewrite that changes nothing" => || Box::new(Hostile("keep-result"))),
        pass("wrong-result", "Turns Relu into Neg" => || Box::new(Hostile("wrong-result"))),
        pass("start-threads", "Starts threads by the thousand" => || Box::new(Hostile("start-threads"))),
        pass("fill-disk", "Writes files of allowed size without end" => || Box::new(Hostile("fill-disk"))),
        pass("escapes", "Tries to harm the daemon and the user's files" => || Box::new(Hostile("escapes"))),
    ],
}

struct BadProbe;

impl Frontend for BadProbe {
    fn probe(&self, _: &Submission) -> Result<Probe, Diagnostics> {
        panic!("a probe that panics on purpose")
    }

    fn import(&self, _: &Submission) -> Result<Imported, Diagnostics> {
        panic!("an import that panics on purpose")
    }
}

struct HangProbe;

impl Frontend for HangProbe {
    fn probe(&self, _: &Submission) -> Result<Probe, Diagnostics> {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn import(&self, _: &Submission) -> Result<Imported, Diagnostics> {
        panic!("nobody knows whether this is its own")
    }
}

/// Ends its process over files that begin with `abort`, and refuses all others once they are taken.
struct CrashProbe;

impl Frontend for CrashProbe {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        if submission.read(submission.network())?.starts_with(b"abort") {
            std::process::abort();
        }
        Ok(Probe::new(Claim::ByExtension, "its name ends in .crash"))
    }

    fn import(&self, _: &Submission) -> Result<Imported, Diagnostics> {
        Err(Diagnostic::new(Code::SourceSyntax, "it is only asked about").into())
    }
}

struct Talk;

impl Quantizer for Talk {
    fn quantize(&mut self, _: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let evil = "a\x1b[2J\x1b]0;title\x07\r\nN0901 internal: forged\u{9b}31m\u{202e}";
        cx.count(evil, 0, 3)?;
        let _part = cx.part(evil);
        cx.count(&"long ".repeat(1 << 20), 1, 3)?;
        cx.count(&"\u{1f600}".repeat(1 << 10), u64::MAX, u64::MAX)?;
        // Another total is news.
        for i in 0..100_000 {
            cx.count("flood", i, u64::MAX - i)?;
        }
        Ok(())
    }
}

struct Negate;

impl Quantizer for Negate {
    fn quantize(&mut self, model: &mut Model, _: &mut QuantizeContext) -> Result<(), Diagnostics> {
        negate(model);
        Ok(())
    }
}

/// Turns Relu into Neg; says how often.
fn negate(model: &mut Model) -> usize {
    let ids = model.graph.node_ids();
    let relu: Vec<_> = ids.into_iter().filter(|id| model.graph[*id].op == "Relu").collect();
    relu.iter().for_each(|id| "Neg".clone_into(&mut model.graph.node_mut(*id).op));
    relu.len()
}

struct Hostile(&'static str);

impl Pass for Hostile {
    fn name(&self) -> &'static str {
        self.0
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        match self.0 {
            "panic" => panic!("hostile on purpose"),
            // SAFETY: not sound, which is the purpose. The address lies in the first page, which is never
            // mapped, so that the read ends the process.
            "segfault" => unsafe {
                std::ptr::with_exposed_provenance::<u8>(8).read_volatile();
            },
            "abort" => std::process::abort(),
            "overflow-stack" => {
                recurse(0);
            }
            "hang" => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            "exit" => std::process::exit(0),
            "eat-memory" => eat(),
            "invalid-graph" => {
                let nothing = model.graph.add_value("nothing", None);
                let out = model.graph.add_value("out", None);
                model.graph.add_node(Node::new("Relu", [nothing], [out]));
                model.graph.mark_output(out);
                cx.rewrote();
            }
            "keep-result" => cx.rewrote(),
            "wrong-result" => {
                for _ in 0..negate(model) {
                    cx.rewrote();
                }
            }
            "flood-log" | "flood-stages" => {
                let ended = floods::without_end(self.0 == "flood-log");
                cx.report.notes.push(format!("{ended:?}"));
            }
            "bomb-failure" | "bomb-result" | "bomb-stage" | "full-result" | "full-text" => {
                cx.report.notes.push(format!("{:?}", bombs::send(self.0)));
            }
            "close-link" => {
                cx.report.notes.push(format!("{:?}", floods::close()));
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            "start-threads" => cx.report.notes.push(greedy::start_threads()),
            "fill-disk" => cx.report.notes.push(greedy::fill_disk()),
            "escapes" => cx.report.notes.extend(escapes::all()),
            what => cx.report.notes.push(format!("{what}: {}", attempt(what))),
        }
        Ok(())
    }
}

/// What the system says to something a worker must not do.
fn attempt(what: &str) -> String {
    let tried = match what {
        "read-passwd" => std::fs::read("/etc/passwd").map(|_| ()),
        "write-outside" => std::fs::write("/tmp/onnxd-hostile", "x"),
        "connect" => std::net::TcpStream::connect("127.0.0.1:9").map(|_| ()),
        // SAFETY: the child, if there is one, ends at once: it allocates nothing and takes no lock.
        "fork" => match unsafe { libc::fork() } {
            // SAFETY: `_exit` ends the child without running anything of the parent's.
            0 => unsafe { libc::_exit(0) },
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        },
        _ => Ok(()),
    };
    match tried {
        Ok(()) => "allowed".into(),
        Err(e) => format!("refused ({:?})", e.kind()),
    }
}

fn recurse(depth: u64) -> u64 {
    let page = std::hint::black_box([depth; 512]);
    if page[0] == u64::MAX { 0 } else { recurse(depth + 1) + page[0] }
}

fn eat() {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(std::hint::black_box(vec![1; 64 << 20]));
    }
}
