use crate::{
    ArithmeticOperator, Border, ChannelOrder, Depth, Picture, SAMPLES_MAX, Sizing, Step, Steps,
};

fn bytes(width: usize, channels: usize, samples: &[u8]) -> Picture {
    let samples: Vec<f32> = samples.iter().map(|b| f32::from(*b)).collect();
    let height = samples.len() / width / channels;
    Picture { width, height, channels, depth: Depth::Byte, samples }
}

fn run(steps: &[Step], picture: Picture) -> Picture {
    Steps(steps.to_vec()).apply(picture).unwrap()
}

fn resized(width: usize, height: usize, sizing: Sizing, picture: Picture) -> Picture {
    run(&[Step::Resize { width, height, sizing }], picture)
}

/// The expected numbers come from another program, which gave every byte of pictures that OpenCV 4.6 had resized.
#[test]
fn bytes_are_resized_with_weights_of_11_bits() {
    let at = |x: u32, y: u32| ((31 * y + 17 * x + 3 * x * y * y) % 256) as u8;
    let samples: Vec<u8> = (0..5).flat_map(|y| (0..7).map(move |x| at(x, y))).collect();
    let of = |width, height| {
        let found = resized(width, height, Sizing::Exact, bytes(7, 1, &samples)).samples;
        found.iter().map(|v| *v as i32).collect::<Vec<_>>()
    };
    assert_eq!(of(4, 3), [17, 49, 80, 111, 73, 124, 174, 225, 135, 215, 93, 77]);
    let wide = [
        0, 9, 21, 33, 45, 57, 69, 81, 93, 102, 14, 24, 36, 49, 62, 75, 87, 100, 113, 123, 33, 44,
        59, 73, 87, 102, 116, 130, 145, 156, 52, 67, 85, 103, 121, 140, 158, 177, 195, 209, 72, 90,
        114, 137, 161, 156, 128, 152, 175, 194, 91, 115, 145, 175, 205, 151, 25, 55, 86, 109, 110,
        141, 180, 219, 165, 114, 80, 119, 94, 45, 124, 160, 205, 251, 130, 86, 131, 177, 107, 2,
    ];
    assert_eq!(of(10, 8), wide);
}

#[test]
fn halves_are_means_of_four() {
    let picture = bytes(4, 1, &[1, 2, 10, 20, 3, 4, 30, 41]);
    assert_eq!(resized(2, 1, Sizing::Exact, picture.clone()).samples, [3.0, 25.0]);
    let float = Picture { depth: Depth::Float, ..picture };
    assert_eq!(resized(2, 1, Sizing::Exact, float).samples, [2.5, 25.25]);
}

#[test]
fn words_and_reals_are_resized_in_single_precision() {
    let picture = Picture { depth: Depth::Word, ..bytes(2, 1, &[0, 100, 0, 100]) };
    let wide = resized(4, 2, Sizing::Exact, picture.clone());
    assert_eq!(wide.samples[..4], [0.0, 25.0, 75.0, 100.0]);
    let real = Picture { depth: Depth::Float, ..picture };
    let three = resized(3, 3, Sizing::Exact, real);
    assert_eq!(three.samples[..3], [0.0, 50.0, 100.0]);
    let same = bytes(2, 1, &[1, 2, 3, 250]);
    assert_eq!(resized(2, 2, Sizing::Exact, same.clone()), same);
}

#[test]
fn proportions_are_kept_on_demand() {
    let picture = || bytes(40, 1, &[9; 40 * 20]);
    let of = |sizing| {
        let found = resized(30, 30, sizing, picture());
        assert!(found.samples.iter().all(|v| *v == 9.0));
        (found.width, found.height)
    };
    assert_eq!(of(Sizing::Exact), (30, 30));
    assert_eq!(of(Sizing::Fit), (30, 15));
    assert_eq!(of(Sizing::Fill), (60, 30));
}

#[test]
fn borders_continue_the_picture() {
    let of = |border: Border, width: i64| {
        let step = Step::PadCrop { width, height: 1, additive: false, border };
        let found = run(&[step], bytes(3, 1, &[1, 2, 3]));
        found.samples.iter().map(|v| *v as i32).collect::<Vec<_>>()
    };
    assert_eq!(of(Border::ReflectInner, 8), [2, 3, 2, 1, 2, 3, 2, 1]);
    assert_eq!(of(Border::Reflect, 8), [3, 2, 1, 1, 2, 3, 3, 2]);
    assert_eq!(of(Border::Replicate, 6), [1, 1, 1, 2, 3, 3]);
    assert_eq!(of(Border::Wrap, 6), [2, 3, 1, 2, 3, 1]);
    assert_eq!(of(Border::Constant { values: vec![7.4] }, 6), [7, 7, 1, 2, 3, 7]);
    assert_eq!(of(Border::Constant { values: vec![] }, 5), [0, 1, 2, 3, 0]);
    // Two are cut: one at each side. One is cut: at the right.
    assert_eq!(of(Border::Replicate, 1), [2]);
    assert_eq!(of(Border::Replicate, 2), [1, 2]);
}

#[test]
fn windows_and_mirrors() {
    let picture = || bytes(3, 1, &[1, 2, 3, 4, 5, 6]);
    let window = Step::Crop { x: 1, y: 1, width: 2, height: 1 };
    assert_eq!(run(&[window], picture()).samples, [5.0, 6.0]);
    let flip =
        |horizontal, vertical| run(&[Step::Flip { horizontal, vertical }], picture()).samples;
    assert_eq!(flip(true, false), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
    assert_eq!(flip(false, true), [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    let outside = Steps(vec![Step::Crop { x: 2, y: 0, width: 2, height: 1 }]);
    let why = outside.apply(picture()).unwrap_err().to_string();
    assert_eq!(why, "a window of 2 x 1 pixels at 2, 0 is not within 3 x 2");
}

#[test]
fn channels() {
    let colour = || bytes(1, 3, &[10, 20, 200]);
    assert_eq!(run(&[Step::ReverseChannels], colour()).samples, [200.0, 20.0, 10.0]);
    assert_eq!(run(&[Step::Channel { index: 2 }], colour()).samples, [200.0]);
    // 0.299 * 10 + 0.587 * 20 + 0.114 * 200 is 37.53.
    assert_eq!(run(&[Step::Grey { order: ChannelOrder::Rgb }], colour()).samples, [38.0]);
    assert_eq!(run(&[Step::Grey { order: ChannelOrder::Bgr }], colour()).samples, [73.0]);
    let real = Picture { depth: Depth::Float, ..colour() };
    let grey = run(&[Step::Grey { order: ChannelOrder::Rgb }], real).samples[0];
    assert!((grey - 37.53).abs() < 1e-4, "{grey}");
    let grey = bytes(1, 1, &[9]);
    assert_eq!(run(&[Step::Spread], grey.clone()).samples, [9.0; 3]);
    let steps = [Step::ReverseChannels, Step::Grey { order: ChannelOrder::Bgr }];
    assert_eq!(run(&steps, grey.clone()), grey);
    assert!(Steps(vec![Step::Channel { index: 0 }]).apply(grey).is_err());
    assert_eq!(bytes(2, 3, &[1, 2, 3, 4, 5, 6]).planes(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn numbers() {
    let step = |operator, values: &[f64]| Step::Arithmetic { operator, values: values.to_vec() };
    let of = |steps: &[Step]| run(steps, bytes(1, 3, &[0, 51, 255])).samples;
    assert_eq!(of(&[step(ArithmeticOperator::Minus, &[103.94, 116.78, 123.68])])[0], -103.94);
    assert_eq!(of(&[step(ArithmeticOperator::Multiplies, &[0.017])])[1], 51.0 * 0.017f32);
    // The product with the reciprocal, which is not always the quotient.
    assert_eq!(of(&[step(ArithmeticOperator::Divides, &[255.0])])[1], 51.0 * (1.0f32 / 255.0));
    assert_eq!(of(&[step(ArithmeticOperator::Plus, &[0.75]), Step::Truncate]), [0.0, 51.0, 255.0]);
    let signed = of(&[Step::ScaleIntegers { signed: true }]);
    assert_eq!(signed, [-1.0, -77.0 / 128.0, 127.0 / 128.0]);
    // Real numbers are no integers.
    let once = [step(ArithmeticOperator::Plus, &[0.0]), Step::ScaleIntegers { signed: false }];
    assert_eq!(of(&once), [0.0, 51.0, 255.0]);
    let word = Picture { depth: Depth::Word, samples: vec![65535.0], ..bytes(1, 1, &[0]) };
    assert_eq!(run(&[Step::ScaleIntegers { signed: false }], word.clone()).samples, [1.0]);
    assert!(Steps(vec![Step::ScaleIntegers { signed: true }]).apply(word).is_err());
    for wrong in
        [step(ArithmeticOperator::Divides, &[0.0]), step(ArithmeticOperator::Plus, &[1.0, 2.0])]
    {
        assert!(Steps(vec![wrong]).apply(bytes(1, 3, &[1, 2, 3])).is_err());
    }
}

#[test]
fn steps_are_kept_as_text() {
    let steps = Steps(vec![
        Step::Resize { width: 3, height: 4, sizing: Sizing::Fill },
        Step::PadCrop {
            width: -1,
            height: 2,
            additive: true,
            border: Border::Constant { values: vec![0.5] },
        },
        Step::Grey { order: ChannelOrder::Bgr },
        Step::ReverseChannels,
        Step::Arithmetic { operator: ArithmeticOperator::Divides, values: vec![255.0] },
        Step::Unavailable { why: "a \"reason\"".into() },
    ]);
    let text = steps.to_json();
    assert!(text.starts_with(r#"[{"step":"resize","width":3,"height":4,"sizing":"fill"}"#));
    assert_eq!(Steps::from_json(&text).unwrap(), steps);
    assert_eq!(steps.unavailable(), Some("a \"reason\""));
    for wrong in ["", "{}", r#"[{"step":"paint"}]"#, r#"[{"step":"resize"}]"#] {
        assert!(Steps::from_json(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn sizes_are_limited() {
    let grow = |width, height| Steps(vec![Step::Resize { width, height, sizing: Sizing::Exact }]);
    assert!(grow(SAMPLES_MAX, 2).apply(bytes(1, 1, &[1])).is_err());
    assert!(grow(usize::MAX, usize::MAX).apply(bytes(1, 1, &[1])).is_err());
    assert!(grow(0, 1).apply(bytes(1, 1, &[1])).is_err());
    // A tall picture that gets wide and low passes through one that is both.
    let tall = bytes(1, 1, &[1; 100_000]);
    assert!(grow(100_000, 1).apply(tall).is_err());
    let pad = Step::PadCrop {
        width: i64::MAX,
        height: i64::MAX,
        additive: true,
        border: Border::Replicate,
    };
    assert!(Steps(vec![pad]).apply(bytes(1, 1, &[1])).is_err());
    assert!(Picture::grey(2, 2, &[0; 3]).is_err());
}

#[test]
fn channels_go_their_own_way() {
    let channel = |index| Step::Channel { index };
    let half = Step::Arithmetic { operator: ArithmeticOperator::Multiplies, values: vec![0.5] };
    let split =
        |ways: &[&[Step]]| Step::Split { channels: ways.iter().map(|w| w.to_vec()).collect() };
    let picture = || bytes(2, 3, &[10, 20, 30, 40, 50, 60]);
    let swapped = split(&[&[channel(2)], &[channel(0)]]);
    let found = run(std::slice::from_ref(&swapped), picture());
    assert_eq!((found.channels, found.depth), (2, Depth::Byte));
    assert_eq!(found.samples, [30.0, 10.0, 60.0, 40.0]);
    let steps = Steps(vec![swapped]);
    assert_eq!(Steps::from_json(&steps.to_json()).unwrap(), steps);
    let wrong =
        |ways: &[&[Step]]| Steps(vec![split(ways)]).apply(picture()).unwrap_err().to_string();
    assert!(wrong(&[]).contains("without channels"));
    assert!(wrong(&[&[]]).contains("3 channels"));
    assert!(wrong(&[&[channel(0)], &[channel(1), half]]).contains("channel 1 differs"));
    let crop = Step::Crop { x: 0, y: 0, width: 1, height: 1 };
    assert!(wrong(&[&[channel(0)], &[channel(1), crop]]).contains("channel 1 differs"));
    let hidden = split(&[&[Step::Unavailable { why: "no way".into() }]]);
    assert_eq!(Steps(vec![hidden]).unavailable(), Some("no way"));
}

#[test]
fn samples_take_other_rows() {
    let reshape = |rows, columns, channels| Step::Reshape { rows, columns, channels };
    let made = run(&[reshape(3, 0, 0)], bytes(6, 1, &[1, 2, 3, 4, 5, 6]));
    assert_eq!((made.width, made.height, made.channels), (2, 3, 1));
    let made = run(&[reshape(1, 2, 3)], bytes(6, 1, &[1, 2, 3, 4, 5, 6]));
    assert_eq!((made.width, made.channels, made.planes()[1]), (2, 3, 4.0));
    for wrong in [reshape(4, 0, 0), reshape(1, 5, 1), reshape(usize::MAX, 0, 2)] {
        assert!(Steps(vec![wrong]).apply(bytes(6, 1, &[0; 6])).is_err());
    }
}

#[test]
fn what_is_like_the_edge_is_trimmed() {
    let trim = |levels| Step::Trim { levels, order: ChannelOrder::Bgr };
    let framed = || bytes(4, 1, &[9, 9, 9, 9, 9, 50, 9, 9, 9, 60, 70, 9, 9, 9, 9, 9]);
    let made = run(&[trim(0)], framed());
    assert_eq!((made.width, made.samples), (2, vec![50.0, 9.0, 60.0, 70.0]));
    // Of two levels, 60 and 70 are as dark as the edge.
    assert!(Steps(vec![trim(2)]).apply(framed()).is_err());
    assert!(Steps(vec![trim(1)]).apply(framed()).is_err());
    let whole = bytes(2, 1, &[1, 2, 3, 4]);
    assert_eq!(run(&[trim(0)], whole.clone()), whole);
}
