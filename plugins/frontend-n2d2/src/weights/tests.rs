use super::*;
use crate::ini::testing::Texts;

fn layer(name: &str) -> Layer {
    Layer::new(name, "Conv")
}

fn plain(bias: bool) -> WeightLayout {
    WeightLayout { bias, ..WeightLayout::default() }
}

/// `1 2 3 …`
fn counting(count: usize) -> String {
    (1..=count).map(|n| format!("{n} ")).collect()
}

fn map(rows: &[&str]) -> Map {
    use crate::ini::Ini;
    use crate::mapping::Parent;
    let channels = rows[0].len();
    let entry = |o: usize, c: usize| if rows[o].as_bytes()[c] == b'1' { "1 " } else { "0 " };
    let matrix: String =
        (0..channels).flat_map(|c| (0..rows.len()).map(move |o| entry(o, c))).collect();
    let ini = Ini::parse("n.ini", &Texts(vec![("n.ini", format!("[c]\nMapping(p)={matrix}\n"))]));
    let ini = ini.unwrap();
    let parent = Parent { name: "p", channels };
    Map::of_section(ini.section("c").unwrap(), &[parent], rows.len()).unwrap()
}

fn conv(
    files: Vec<(&'static str, String)>,
    kernels: Kernels,
    layout: &WeightLayout,
) -> Result<Parameters, Diagnostic> {
    ParameterFiles::folder(&Texts(files), "w").conv(&layer("c"), kernels, layout, Fate::Kept)
}

fn values(found: &Parameters) -> Vec<f32> {
    found.weights.as_slice().unwrap().into_owned()
}

#[test]
fn dense_kernels_are_taken_as_they_are() {
    let map = Map::dense(2, 3).unwrap();
    let files =
        vec![("w/c_weights.syntxt", counting(12)), ("w/c_biases.syntxt", "0.5\n-1e-3\n".into())];
    let found = conv(files, Kernels::new(&map, [1, 2], false), &plain(true)).unwrap();
    assert_eq!(found.weights.dims(), [2, 3, 1, 2]);
    assert_eq!(values(&found), (1..=12).map(|n| n as f32).collect::<Vec<_>>());
    assert_eq!(found.bias, Some(vec![0.5, -1e-3]));
}

#[test]
fn groups_keep_their_own_channels() {
    let map = map(&["1100", "0011"]);
    let files = vec![("w/c_weights.syntxt", counting(4))];
    let found = conv(files, Kernels::new(&map, [1, 1], false), &plain(false)).unwrap();
    assert_eq!(
        (found.weights.dims().to_vec(), values(&found)),
        (vec![2, 2, 1, 1], vec![1.0, 2.0, 3.0, 4.0])
    );
}

#[test]
fn partial_maps_are_filled_with_zeros() {
    let map = map(&["101", "010"]);
    let files = vec![("w/c_weights.syntxt", counting(6))];
    let found = conv(files, Kernels::new(&map, [1, 2], false), &plain(false)).unwrap();
    assert_eq!(found.weights.dims(), [2, 3, 1, 2]);
    assert_eq!(values(&found), [1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0]);
}

#[test]
fn outputs_fastest() {
    // File: y0 c0 (o0 o1), y0 c1 (o0 o1), y1 c0 …
    let map = Map::dense(2, 2).unwrap();
    let layout = WeightLayout { order: WeightOrder::OutputLast, ..plain(false) };
    let kernels = Kernels::new(&map, [2, 1], false);
    let file = || vec![("w/c_weights.syntxt", counting(8))];
    let found = conv(file(), kernels, &layout).unwrap();
    assert_eq!(values(&found), [1.0, 5.0, 3.0, 7.0, 2.0, 6.0, 4.0, 8.0]);
    let flipped = conv(file(), kernels, &WeightLayout { flip: true, ..layout }).unwrap();
    assert_eq!(values(&flipped), [5.0, 1.0, 7.0, 3.0, 6.0, 2.0, 8.0, 4.0]);
}

#[test]
fn outputs_fastest_over_groups() {
    let map = map(&["10", "01"]);
    let layout = WeightLayout { order: WeightOrder::OutputLast, ..plain(false) };
    let files = vec![("w/c_weights.syntxt", counting(4))];
    let found = conv(files, Kernels::new(&map, [1, 2], false), &layout).unwrap();
    assert_eq!(
        (found.weights.dims().to_vec(), values(&found)),
        (vec![2, 1, 1, 2], vec![1.0, 3.0, 2.0, 4.0])
    );
}

#[test]
fn flipped_kernels() {
    let map = Map::dense(1, 2).unwrap();
    let layout = WeightLayout { flip: true, ..plain(false) };
    let files = vec![("w/c_weights.syntxt", counting(8))];
    let found = conv(files, Kernels::new(&map, [2, 2], false), &layout).unwrap();
    assert_eq!(values(&found), [4.0, 3.0, 2.0, 1.0, 8.0, 7.0, 6.0, 5.0]);
}

#[test]
fn deconvolutions_swap_the_outer_axes() {
    let dense = Map::dense(2, 3).unwrap();
    let files = vec![("w/c_weights.syntxt", counting(6))];
    let found = conv(files, Kernels::new(&dense, [1, 1], true), &plain(false)).unwrap();
    assert_eq!(
        (found.weights.dims().to_vec(), values(&found)),
        (vec![3, 2, 1, 1], vec![1., 4., 2., 5., 3., 6.])
    );

    let grouped = map(&["10", "10", "01", "01"]);
    let files = vec![("w/c_weights.syntxt", counting(4))];
    let found = conv(files, Kernels::new(&grouped, [1, 1], true), &plain(false)).unwrap();
    assert_eq!(
        (found.weights.dims().to_vec(), values(&found)),
        (vec![2, 2, 1, 1], vec![1., 2., 3., 4.])
    );
}

#[test]
fn one_file_with_everything() {
    let map = map(&["11", "01"]);
    let kernels = Kernels::new(&map, [1, 1], false);
    let found = conv(vec![("w/c.syntxt", counting(5))], kernels, &plain(true)).unwrap();
    assert_eq!(values(&found), [1.0, 2.0, 0.0, 4.0]);
    assert_eq!(found.bias, Some(vec![3.0, 5.0]));

    let found = conv(vec![("w/c.syntxt", counting(3))], kernels, &plain(false)).unwrap();
    assert_eq!((values(&found), found.bias), (vec![1.0, 2.0, 0.0, 3.0], None));

    let last = WeightLayout { order: WeightOrder::OutputLast, ..plain(true) };
    let found = conv(vec![("w/c.syntxt", counting(5))], kernels, &last).unwrap();
    assert_eq!(values(&found), [1.0, 2.0, 0.0, 3.0]);
    assert_eq!(found.bias, Some(vec![4.0, 5.0]));

    let without = conv(vec![("w/c.syntxt", counting(3))], kernels, &plain(true)).unwrap_err();
    assert!(without.code == "N0208" && without.help.contains("NoBias=1"), "{without}");
    let with = conv(vec![("w/c.syntxt", counting(5))], kernels, &plain(false)).unwrap_err();
    assert!(with.help.contains("remove `NoBias=1`"), "{with}");
}

#[test]
fn remapped_outputs() {
    // Even records first: record 0 is output 0, record 2 output 1, record 1 output 2.
    let remap = remap("0:2,1:2", 3).unwrap();
    assert_eq!(remap, Some(vec![0, 2, 1]));
    let layout = WeightLayout { remap, ..plain(true) };
    let map = map(&["10", "11", "01"]);
    let files = vec![("w/c_weights.syntxt", counting(4)), ("w/c_biases.syntxt", "10 20 30".into())];
    let found = conv(files, Kernels::new(&map, [1, 1], false), &layout).unwrap();
    // Records: output 0 has one number, output 2 one, output 1 two.
    assert_eq!(values(&found), [1.0, 0.0, 3.0, 4.0, 0.0, 2.0]);
    assert_eq!(found.bias, Some(vec![10.0, 30.0, 20.0]));
}

#[test]
fn remap_must_visit_every_output_once() {
    assert_eq!(remap("", 3), Ok(None));
    assert_eq!(remap("2:-1", 3), Ok(Some(vec![2, 1, 0])));
    for (text, reason) in [
        ("0:2", "output 1 is never visited"),
        ("0:1,1:5", "visited twice"),
        ("0:0", "step other than 0"),
        ("0", "is not a pair"),
        ("a:1", "is not a pair"),
        ("0:9223372036854775807", "never visited"),
    ] {
        let found = remap(text, 3).unwrap_err();
        assert!(found.contains(reason), "{text}: {found}");
    }
}

#[test]
fn fully_connected() {
    let fc = |text: &str, layout: &WeightLayout| {
        let files = Texts(vec![("f_weights.syntxt", text.to_owned())]);
        ParameterFiles::folder(&files, "").fc(&layer("f"), [2, 3], layout, Fate::Kept).unwrap()
    };
    let found = fc("1 2 3\n4 5 6\n", &plain(false));
    assert_eq!(
        (found.weights.dims().to_vec(), values(&found)),
        (vec![2, 3], vec![1., 2., 3., 4., 5., 6.])
    );
    let last = WeightLayout { order: WeightOrder::OutputLast, ..plain(false) };
    assert_eq!(values(&fc("1 2 3 4 5 6", &last)), [1., 3., 5., 2., 4., 6.]);
    let swapped = WeightLayout { remap: Some(vec![1, 0]), ..plain(false) };
    assert_eq!(values(&fc("1 2 3 4 5 6", &swapped)), [4., 5., 6., 1., 2., 3.]);
    let both = WeightLayout { remap: Some(vec![1, 0]), ..last };
    assert_eq!(values(&fc("1 2 3 4 5 6", &both)), [2., 4., 6., 1., 3., 5.]);
}

#[test]
fn normalization_from_four_files_or_one() {
    let expected = Normalization {
        scale: vec![1.0, 5.0],
        bias: vec![2.0, 6.0],
        mean: vec![3.0, 7.0],
        variance: vec![4.0, 8.0],
    };
    let four = Texts(vec![
        ("w/b_scales.syntxt", "1 5"),
        ("w/b_biases.syntxt", "2 6"),
        ("w/b_means.syntxt", "3 7"),
        ("w/b_variances.syntxt", "4 8"),
    ]);
    let one = Texts(vec![("w/b.syntxt", "1 2 3 4\n5 6 7 8\n")]);
    assert_eq!(ParameterFiles::folder(&four, "w").batch_norm(&layer("b"), 2).unwrap(), expected);
    assert_eq!(ParameterFiles::folder(&one, "w").batch_norm(&layer("b"), 2).unwrap(), expected);
    let negative = Texts(vec![("b.syntxt", "1 2 3 -4")]);
    let problem = ParameterFiles::folder(&negative, "").batch_norm(&layer("b"), 1).unwrap_err();
    assert!(problem.message.contains("negative: -4"), "{problem}");
    let three = Texts(four.0[..3].to_vec());
    let problem = ParameterFiles::folder(&three, "w").batch_norm(&layer("b"), 2).unwrap_err();
    assert!(problem.message.contains("w/b_variances.syntxt"), "{problem}");
}

#[test]
fn text_errors() {
    let map = Map::dense(1, 3).unwrap();
    let kernels = Kernels::new(&map, [1, 1], false);
    for (text, code, message) in [
        ("1 2", "N0208", "`w/c_weights.syntxt`: 3 numbers are expected, the file holds 2"),
        ("", "N0208", "holds 0"),
        ("1 2 3 4 x", "N0208", "holds 5"),
        ("1\n2\n3x", "N0210", "line 3: `3x` is not a finite number"),
        ("1 nan 3", "N0210", "line 1: `nan`"),
        ("1 2\n\n-inf", "N0210", "line 3: `-inf`"),
        ("1 2 1e99", "N0210", "`1e99`"),
    ] {
        let files = vec![("w/c_weights.syntxt", text.to_owned())];
        let problem = conv(files, kernels, &plain(false)).unwrap_err();
        assert_eq!(problem.code, code, "{text}");
        assert!(problem.message.contains(message), "{text}: {problem}");
    }
    let blank = vec![("w/c_weights.syntxt", " ".repeat(1 << 16))];
    let problem = conv(blank, kernels, &plain(false)).unwrap_err();
    assert_eq!(problem.code, "N0208");
    assert!(problem.message.contains("the file has 65536 bytes"), "{problem}");
    let missing = conv(vec![], kernels, &plain(false)).unwrap_err();
    assert_eq!(missing.code, "N0209");
    assert!(missing.message.contains("`w/c_weights.syntxt`"), "{missing}");
    let files = vec![("w/c_weights.syntxt", "1 2 3".to_owned())];
    let missing = conv(files, kernels, &plain(true)).unwrap_err();
    assert!(missing.message.contains("`w/c_biases.syntxt` is missing"), "{missing}");
}

/// Files that arrive a few bytes at a time.
struct Drops(&'static str, usize);

impl Files for Drops {
    fn read(&self, _: &str) -> Option<std::borrow::Cow<'_, [u8]>> {
        panic!("files of weights are not read as a whole")
    }

    fn open(&self, path: &str) -> Option<crate::ini::Opened<'_>> {
        let content = std::io::BufReader::with_capacity(self.1, self.0.as_bytes());
        let found = crate::ini::Opened { bytes: self.0.len(), content: Box::new(content) };
        self.has(path).then_some(found)
    }

    fn has(&self, path: &str) -> bool {
        path == "c.syntxt"
    }

    fn has_folder(&self, _: &str) -> bool {
        false
    }
}

#[test]
fn numbers_may_lie_across_two_parts_of_a_file() {
    let map = Map::dense(2, 1).unwrap();
    let kernels = Kernels::new(&map, [1, 2], false);
    let read = |text, part| {
        let files = Drops(text, part);
        let found =
            ParameterFiles::folder(&files, "").conv(&layer("c"), kernels, &plain(true), Fate::Kept);
        found.map(|found| (values(&found), found.bias.unwrap()))
    };
    for part in 1..40 {
        let found = read("-1.25 2e-1\r\n 1000000\n\n 3.5 4 -0.0625", part).unwrap();
        assert_eq!(found, (vec![-1.25, 0.2, 3.5, 4.0], vec![1e6, -0.0625]), "{part}");
        let problem = read("1 2 3\n4 5\n\n6x \n", part).unwrap_err();
        assert!(problem.message.contains("line 4: `6x`"), "{part}: {problem}");
        let problem = read("1 2 3 4 5 6 \n77 8 9", part).unwrap_err();
        assert!(problem.message.contains("the file holds 9"), "{part}: {problem}");
        let problem = read("1 2 3\n4 5          ", part).unwrap_err();
        assert!(problem.message.contains("the file holds 5"), "{part}: {problem}");
    }
}

#[test]
fn no_number_is_longer_than_a_page() {
    let map = Map::dense(1, 1).unwrap();
    let kernels = Kernels::new(&map, [1, 1], false);
    for (zeros, accepted) in [(4000, true), (5000, false)] {
        let text = format!("0.{}1", "0".repeat(zeros));
        let found = conv(vec![("w/c.syntxt", text)], kernels, &plain(false));
        assert_eq!(found.as_ref().is_ok_and(|found| values(found) == [0.0]), accepted);
        assert!(accepted || found.unwrap_err().code == "N0210");
    }
}

#[test]
fn names_that_no_file_can_have() {
    let files = Texts(vec![("w/a/b_0_weights.syntxt", "7")]);
    let found = ParameterFiles::folder(&files, "w")
        .fc(&layer("a/b:0"), [1, 1], &plain(false), Fate::Kept)
        .unwrap();
    assert_eq!(values(&found), [7.0]);
}

#[test]
fn absurd_geometries_are_refused() {
    let files = Texts::<&str>(vec![]);
    let weights = ParameterFiles::folder(&files, "");
    let map = Map::dense(1, 1).unwrap();
    let huge = Kernels::new(&map, [usize::MAX, 2], false);
    assert_eq!(
        weights.conv(&layer("c"), huge, &plain(false), Fate::Kept).unwrap_err().code,
        "N0213"
    );
    let fc = weights.fc(&layer("c"), [1 << 20, 1 << 20], &plain(false), Fate::Kept);
    assert_eq!(fc.unwrap_err().code, "N0213");
    assert!(weights.batch_norm(&layer("c"), usize::MAX).is_err());
}

/// A tensor of the binary state; `dims` with the fastest axis first.
fn tensor(dims: &[u64], values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let values: Vec<f32> = values.into_iter().collect();
    let head = [dims.len() as u64].into_iter().chain(dims.iter().copied());
    let mut bytes: Vec<u8> = head.chain([values.len() as u64]).flat_map(u64::to_le_bytes).collect();
    bytes.extend(values.into_iter().flat_map(f32::to_le_bytes));
    bytes
}

fn counted(count: usize) -> impl Iterator<Item = f32> {
    (1..=count).map(|n| n as f32)
}

#[test]
fn binary_state() {
    let map = map(&["10", "11"]);
    let kernels = Kernels::new(&map, [1, 2], false);
    let both = [tensor(&[2, 1, 2, 2], counted(8)), tensor(&[1, 1, 2, 1], [0.5, 0.25])].concat();
    let read = |bytes: &[u8], bias| {
        let files = Texts(vec![("w/c/Conv.syn", bytes.to_vec())]);
        ParameterFiles::folder(&files, "w").conv(&layer("c"), kernels, &plain(bias), Fate::Kept)
    };
    let found = read(&both, true).unwrap();
    assert_eq!(found.weights.dims(), [2, 2, 1, 2]);
    assert_eq!(values(&found), [1., 2., 0., 0., 5., 6., 7., 8.]);
    assert_eq!(found.bias, Some(vec![0.5, 0.25]));
    assert_eq!(read(&both, false).unwrap().bias, None);
    assert_eq!(read(&both[..both.len() - 1], true).unwrap_err().code, "N0202");
    assert_eq!(read(&[&both[..], &[0]].concat(), true).unwrap_err().code, "N0208");
    let wrong = tensor(&[2, 1, 3, 2], counted(12));
    assert!(read(&wrong, false).unwrap_err().message.contains("[2, 2, 1, 2] is expected"));
    let forged = [4_u64, u64::MAX, u64::MAX, 1, 1, 1].map(u64::to_le_bytes).concat();
    assert_eq!(read(&forged, false).unwrap_err().code, "N0210");
    assert_eq!(read(&u64::MAX.to_le_bytes(), false).unwrap_err().code, "N0210");
}

/// Weights of a state that need no change lie in the file.
#[test]
fn binary_state_is_not_copied() {
    struct Shared(Bytes);
    impl Files for Shared {
        fn read(&self, _: &str) -> Option<std::borrow::Cow<'_, [u8]>> {
            panic!("a state is shared")
        }
        fn bytes(&self, _: &str) -> Option<Bytes> {
            Some(self.0.clone())
        }
        fn has(&self, _: &str) -> bool {
            false
        }
        fn has_folder(&self, _: &str) -> bool {
            false
        }
    }
    let files = Shared(tensor(&[1, 1, 3, 2], counted(6)).into());
    let found =
        ParameterFiles::folder(&files, "").fc(&layer("f"), [2, 3], &plain(false), Fate::Kept);
    let found = found.unwrap();
    assert_eq!(values(&found), counted(6).collect::<Vec<_>>());
    assert!(files.0.as_ptr_range().contains(&found.weights.bytes().as_ptr()));
}

#[test]
fn binary_state_of_other_layers() {
    let fc = [tensor(&[1, 1, 3, 2], counted(6)), tensor(&[2, 1, 1, 1], [7.0, 8.0])].concat();
    let norm: Vec<u8> = (1..=4).flat_map(|n| tensor(&[1, 1, 1, 1], [n as f32])).collect();
    let files = Texts(vec![("f/Fc.syn", fc), ("b/BatchNorm.syn", norm)]);
    let weights = ParameterFiles::folder(&files, "");
    let found = weights.fc(&layer("f"), [2, 3], &plain(true), Fate::Kept).unwrap();
    assert_eq!((values(&found).len(), found.bias), (6, Some(vec![7.0, 8.0])));
    let found = weights.batch_norm(&layer("b"), 1).unwrap();
    assert_eq!((found.scale, found.variance), (vec![1.0], vec![4.0]));
}

#[test]
fn random_parameters_are_reproducible_and_bounded() {
    let map = map(&["110", "011"]);
    let kernels = Kernels::new(&map, [3, 3], false);
    let files = Texts::<&str>(vec![]);
    let random = |seed| ParameterFiles::random(&files, seed);
    let draw = |seed, name| {
        let found = random(seed).conv(&layer(name), kernels, &plain(true), Fate::Kept).unwrap();
        (values(&found), found.bias)
    };
    let first = draw(1, "c");
    assert_eq!(first, draw(1, "c"));
    assert_ne!(first, draw(1, "d"));
    assert_ne!(first, draw(2, "c"));
    assert!(first.0[18..27].iter().all(|w| *w == 0.0), "unconnected");
    let limit = (6.0_f32 / 18.0).sqrt();
    assert!(first.0.iter().all(|w| w.abs() <= limit));
    let found = random(1).fc(&layer("f"), [100, 50], &plain(false), Fate::Kept).unwrap();
    let square: f32 = values(&found).iter().map(|w| w * w).sum::<f32>() / 5000.0;
    assert!((square / (2.0 / 50.0) - 1.0).abs() < 0.1, "variance {square}");
    let norm = random(1).batch_norm(&layer("b"), 64).unwrap();
    assert!(norm.variance.iter().all(|v| (0.8..=1.2).contains(v)));
}
