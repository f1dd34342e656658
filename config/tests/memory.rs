//! What the daemon takes for params of a stranger: bounded, whatever the text says.

use onnxd_config::{Declared, PARAMS_BYTES_MAX, Params};

#[path = "../../proto/tests/counting/mod.rs"]
mod counting;

/// What is read of a text: keys, values and lines.
const MARKS_MAX: usize = 1 << 17;
/// Most memory that one text of params may take while it is read.
const TAKEN_BYTES_MAX: usize = 160 << 20;

#[test]
fn hostile_params_take_bounded_memory() {
    let filled = |part: &str| part.repeat(PARAMS_BYTES_MAX / part.len());
    let one_less = |part: &str| part.repeat(MARKS_MAX - 2);
    let numbered = |line: fn(usize) -> String| {
        let mut text = String::new();
        for n in 0.. {
            let line = line(n);
            if text.len() + line.len() > PARAMS_BYTES_MAX {
                break;
            }
            text += &line;
        }
        text
    };
    let list = |item: &str| {
        let (open, close) = ("a=[", "]");
        let room = PARAMS_BYTES_MAX - open.len() - close.len();
        [open, &item.repeat(room / item.len()), close].concat()
    };
    for (name, text) in [
        ("empty lists", list("[],")),
        ("empty tables", list("{},")),
        ("numbers", list("1,")),
        ("texts", list("'',")),
        ("tables in lists", list("{a=1},")),
        ("keys", numbered(|n| format!("k{n}=1\n"))),
        ("sections", numbered(|n| format!("[s{n}]\n"))),
        ("dotted keys", numbered(|n| format!("a{n}.b.c.d=1\n"))),
        ("tables of an array", filled("[[a]]\n")),
        ("lists in lists", filled("[")),
        ("nonsense", filled("=\n")),
        ("words", filled("x\n")),
        ("words in a line", filled("x ")),
        ("carriage returns", filled("\r")),
        ("brackets", filled("]")),
        ("more nonsense", filled("\"\n")),
        ("dots", format!("a{}=1", ".a".repeat(PARAMS_BYTES_MAX / 2 - 4))),
        ("lines", filled("\n")),
        // As many as are read.
        ("read: dotted keys", (0..26_000).map(|n| format!("a{n}.b.c.d=1\n")).collect()),
        ("read: dots", format!("a{}=1", one_less(".a"))),
        ("read: lines", one_less("x\n")),
        ("read: texts", "\"\n".repeat(MARKS_MAX / 2 - 2)),
    ] {
        assert!(text.len() <= PARAMS_BYTES_MAX, "{name}");
        for kind in ["params.toml", "params.ini"] {
            let declared = Declared::default();
            let (taken, _) =
                counting::peak(|| Params::resolve(&declared, &[(kind, &text)], &[]).is_ok());
            println!("{kind}: {name}: {} MiB of {} KiB", taken >> 20, text.len() >> 10);
            assert!(taken < TAKEN_BYTES_MAX, "{kind}: {name}: {taken} bytes");
        }
    }
}
