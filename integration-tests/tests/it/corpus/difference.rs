//! Lines that two texts do not share.

/// Lines of the surroundings that are shown.
const AROUND: usize = 2;
/// Beyond this many lines on a side the middle is shown as a whole.
const LINES_MAX: usize = 2000;

/// The difference line by line: `-` is in `old` only, `+` in `new` only.
pub(crate) fn difference_of(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let rows = aligned(&old, &new);
    let near = |at: usize| {
        let around = at.saturating_sub(AROUND)..(at + AROUND + 1).min(rows.len());
        rows[around].iter().any(|(sign, _)| *sign != ' ')
    };
    let mut text = String::new();
    let mut last = None;
    for (at, (sign, line)) in rows.iter().enumerate().filter(|(at, _)| near(*at)) {
        if last.is_some_and(|last| last + 1 != at) {
            text += "  ...\n";
        }
        last = Some(at);
        text += &format!("{sign} {line}\n");
    }
    text
}

/// All lines in order, each with its sign, by the longest common subsequence.
fn aligned<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (head, old, new) = (&old[..same], &old[same..], &new[same..]);
    let mut rows: Vec<(char, &str)> = head.iter().map(|line| (' ', *line)).collect();
    if old.len().max(new.len()) > LINES_MAX {
        rows.extend(old.iter().map(|line| ('-', *line)));
        rows.extend(new.iter().map(|line| ('+', *line)));
        return rows;
    }
    // Lengths of the longest common subsequences of what follows.
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            rows.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            rows.push(('-', old[i]));
            i += 1;
        } else {
            rows.push(('+', new[j]));
            j += 1;
        }
    }
    rows
}

#[test]
fn only_what_differs_is_shown() {
    let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
    let new = "a\nb\nX\nd\ne\nf\ng\nh\ni\n";
    assert_eq!(difference_of(old, new), "  a\n  b\n- c\n+ X\n  d\n  e\n  ...\n  g\n  h\n+ i\n");
    assert_eq!(difference_of(old, old), "");
}
