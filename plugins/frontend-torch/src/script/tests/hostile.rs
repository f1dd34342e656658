use super::{parsed, refused};
use crate::script::lexer::BLOCKS_MAX;
use crate::script::parse::{DEPTH_MAX, parse, parse_any};

#[test]
fn a_million_brackets_are_an_error() {
    let million = 1_000_000;
    for (open, wanted) in [
        ("(", "nested deeper"),
        ("[", "nested deeper"),
        ("{1: ", "nested deeper"),
        ("f(", "nested deeper"),
        ("t[", "nested deeper"),
        ("annotate(int, ", "nested deeper"),
        ("-", "a number is expected"),
    ] {
        let problem = refused(&format!("def f():\n  return {}", open.repeat(million)));
        assert!(problem.contains(wanted), "{open}: {problem}");
    }
    let types = format!("def f(x: {}int):\n  pass\n", "List[".repeat(million));
    assert!(refused(&types).contains("nested deeper"));
}

/// Chains grow without recursion, but what walks them recurses.
#[test]
fn tall_expressions_are_an_error() {
    for link in [".a", "[0]", "()"] {
        let problem = refused(&format!("def f():\n  return x{}\n", link.repeat(100_000)));
        assert!(problem.contains("nested deeper"), "{link}: {problem}");
    }
    let chain = ".a".repeat(DEPTH_MAX / 2);
    let brackets = format!("{}x{}", "(".repeat(100), format!("{chain})").repeat(100));
    assert!(refused(&format!("def f():\n  return {brackets}\n")).contains("nested deeper"));
}

#[test]
fn nested_blocks_have_a_limit() {
    let nested = |depth: usize| {
        let lines = (0..depth).map(|at| format!("{}if c:\n", " ".repeat(at + 1)));
        let tall = format!("{}x{}", "[".repeat(DEPTH_MAX - 2), "]".repeat(DEPTH_MAX - 2));
        format!("def f():\n{}{}return {tall}\n", lines.collect::<String>(), " ".repeat(depth + 1))
    };
    parsed(nested(BLOCKS_MAX - 1)).unwrap();
    assert!(refused(&nested(BLOCKS_MAX)).contains("blocks are nested deeper"));
}

#[test]
fn nodes_and_bytes_have_limits() {
    let many = format!("def f():\n  return [{}]\n", "1, ".repeat(2000));
    let problem = parse("a", many.as_bytes(), 1000).unwrap_err().to_string();
    assert!(problem.contains("more than 1000 expressions"), "{problem}");
    let large = vec![b'\n'; crate::script::lexer::SOURCE_MAX + 1];
    assert!(parsed(&large).unwrap_err().to_string().contains("a file may have 16 MiB"));
    assert!(parsed(b"\xff").unwrap_err().to_string().contains("is not UTF-8 at byte 0"));
}

#[test]
fn every_beginning_of_a_file_is_harmless() {
    let whole = "class A(Module):\n  x : Optional[int] = -1.+2.j\n  def f(self, a: int=3) -> Tuple[()]:\n    \
        a, = \"\\303\\\n\\\"\" \n    return r'''é''', {1: [2]}\n";
    for end in 0..=whole.len() {
        parse_any(&whole.as_bytes()[..end]);
    }
}
