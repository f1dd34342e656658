//! What becomes of the sections about transformations.

use onnxd_plugin_sdk::preprocess::{
    ArithmeticOperator, Border, ChannelOrder, Equalization, Norm, Sizing, Step, Steps,
    ThresholdOperation,
};

use super::{around, close, random};

/// The steps between the change of the channels' order and the scaling of integers, and the declared batch.
fn steps(rest: &str) -> (Vec<Step>, Option<String>) {
    let ini = format!("{}{rest}", around([1, 4, 4], "Type=Softmax"));
    let metadata = random(&ini).unwrap().metadata;
    let of = |key: &str| metadata.iter().find(|(k, _)| k == key).map(|(_, text)| text.clone());
    let Steps(mut steps) = Steps::from_json(&of("input.preprocessing.steps").unwrap()).unwrap();
    assert_eq!(steps.remove(0), Step::ReverseChannels);
    (steps, of("input.batch_size"))
}

/// Of one section of this type.
fn one(section: &str) -> Vec<Step> {
    let (mut steps, _) = steps(&format!("[sp.Transformation]\nType={section}\n"));
    assert_eq!(steps.pop(), Some(Step::ScaleIntegers { signed: false }));
    steps
}

#[test]
fn transformations_become_steps() {
    let rescale = "RescaleTransformation\nWidth=8\nHeight=[sp]SizeY";
    let resize = |sizing| vec![Step::Resize { width: 8, height: 4, sizing }];
    assert_eq!(one(rescale), resize(Sizing::Exact));
    assert_eq!(one(&format!("{rescale}\nKeepAspectRatio=1")), resize(Sizing::Fit));
    assert_eq!(one(&format!("{rescale}\nKeepAspectRatio=1\nResizeToFit=0")), resize(Sizing::Fill));
    let pad = |border| vec![Step::PadCrop { width: 4, height: 4, additive: false, border }];
    let section = "PadCropTransformation\nWidth=4\nHeight=4\nBorderType=";
    assert_eq!(one("PadCropTransformation\nWidth=4\nHeight=4"), pad(Border::ReflectInner));
    assert_eq!(one(&format!("{section}WrapBorder")), pad(Border::Wrap));
    let values = vec![1.0, 2.0];
    let constant = one(&format!("{section}ConstantBorder\nBorderValue=1 2"));
    assert_eq!(constant, pad(Border::Constant { values }));
    let slice = "SliceExtractionTransformation\nWidth=4\nHeight=2\nOffsetX=$(3 // 2)";
    assert_eq!(one(slice), [Step::Crop { x: 1, y: 0, width: 4, height: 2 }]);
    let flip = "FlipTransformation\nVerticalFlip=1\nRandomHorizontalFlip=0";
    assert_eq!(one(flip), [Step::Flip { horizontal: false, vertical: true }]);
    let bgr = one("ColorSpaceTransformation\nColorSpace=BGR");
    assert_eq!(bgr, [Step::Spread]);
    let rgb = one("ColorSpaceTransformation\nColorSpace=RGB");
    assert_eq!(rgb, [Step::Spread, Step::ReverseChannels]);
    let gray = one("ChannelExtractionTransformation\nCSChannel=Gray");
    assert_eq!(gray, [Step::Grey { order: ChannelOrder::Bgr }]);
    let affine = "RangeAffineTransformation\nFirstOperator=Minus\nFirstValue=1 2 3";
    let first =
        Step::Arithmetic { operator: ArithmeticOperator::Minus, values: vec![1.0, 2.0, 3.0] };
    assert_eq!(one(affine), std::slice::from_ref(&first));
    let second = Step::Arithmetic { operator: ArithmeticOperator::Plus, values: vec![0.5] };
    let both = one(&format!("{affine}\nSecondValue=0.5\nTruncate=1"));
    assert_eq!(both, [first, second, Step::Truncate]);
}

#[test]
fn levels_and_filters_become_steps() {
    let clip = one("RangeClippingTransformation\nRangeMax=200");
    assert_eq!(clip, [Step::ClipRange { min: 0.0, max: 200.0 }]);
    let threshold = one("ThresholdTransformation\nThreshold=9\nOperation=ToZero");
    let operation = ThresholdOperation::ToZero;
    assert_eq!(threshold, [Step::Threshold { threshold: 9.0, otsu: false, operation, max: 1.0 }]);
    let normalize = one("NormalizeTransformation\nNorm=L2\nPerChannel=1");
    let range = [0.0, 1.0];
    assert_eq!(
        normalize,
        [Step::Normalize { norm: Norm::L2, value: 1.0, range, per_channel: true }]
    );
    let reshape = one("ReshapeTransformation\nNbRows=2\nNbCols=8");
    assert_eq!(reshape, [Step::Reshape { rows: 2, columns: 8, channels: 0 }]);
    assert_eq!(
        one("TrimTransformation\nNbLevels=4"),
        [Step::Trim { levels: 4, order: ChannelOrder::Bgr }]
    );
    let equalize = one("EqualizeTransformation\nMethod=CLAHE\nCLAHE_GridSize=4");
    let method = Equalization::Clahe { clip_limit: 40.0, grid: 4 };
    assert_eq!(equalize, [Step::Equalize { method, order: ChannelOrder::Bgr }]);
    let matrix = one("FilterTransformation\nKernel=*\nKernel.Mat=0 1 2 3 4 5\nKernel.SizeX=3");
    let kernel: Vec<f64> = (0..6).map(f64::from).collect();
    assert_eq!(matrix, [Step::Filter { kernel, width: 3, height: 2 }]);
}

#[test]
fn kernels_follow_their_formula() {
    let kernel = |rest: &str| {
        let sizes = "Kernel.SizeX=7\nKernel.SizeY=7";
        let steps = one(&format!("FilterTransformation\n{sizes}\nKernel={rest}"));
        let [Step::Filter { kernel, .. }] = steps.as_slice() else { panic!("{steps:?}") };
        kernel.clone()
    };
    let near =
        |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    let gaussian = kernel("Gaussian\nKernel.Sigma=1\nKernel.Positive=0");
    near(gaussian[24], -0.5 / std::f64::consts::PI);
    near(gaussian[0], gaussian[24] * (-9f64).exp());
    for zero_sum in ["LoG", "DoG", "Gabor\nKernel.Theta=30"] {
        let kernel = kernel(zero_sum);
        near(kernel.iter().filter(|v| **v > 0.0).sum(), 1.0);
        near(kernel.iter().sum(), 0.0);
    }
}

#[test]
fn what_has_no_arithmetic_is_named_with_its_section() {
    for (section, why) in [
        ("MorphologyTransformation", "MorphologyTransformation"),
        ("TrimTransformation\nNbLevels=4\nMethod=Reduce", "k-means"),
        ("FilterTransformation\nKernel=Sobel\nKernel.SizeX=3\nKernel.SizeY=3", "`Sobel`"),
        ("FilterTransformation\nKernel=*\nKernel.Mat=1 2 3\nKernel.SizeX=2", "3 numbers"),
        (
            "FilterTransformation\nKernel=LoG\nKernel.SizeX=3\nKernel.SizeY=3\nKernel.Sigma=0",
            "finite",
        ),
        ("FilterTransformation\nKernel=DoG\nKernel.SizeX=99999\nKernel.SizeY=9", "99999 x 9"),
        ("ColorSpaceTransformation\nColorSpace=HSV", "HSV"),
        ("FlipTransformation\nRandomHorizontalFlip=1", "at random"),
        ("RescaleTransformation\nWidth=3", "`Height` is missing"),
        ("RescaleTransformation\nWidth=3\nHeight=3\nSpeed=1", "`Speed`"),
        ("RangeAffineTransformation\nFirstOperator=Divides\nFirstValue=0", "`FirstValue`"),
        (
            "RangeAffineTransformation\nFirstOperator=Minus\nFirstValue=[sp.StimuliData]_Mean\n\
             [sp.StimuliData]",
            "statistics of the data set",
        ),
    ] {
        let steps = one(section);
        let [Step::Unavailable { why: found }] = steps.as_slice() else { panic!("{steps:?}") };
        assert!(found.starts_with("[sp.Transformation] (net.ini:12"), "{found}");
        assert!(found.contains(why), "{found}");
    }
    let (steps, _) = steps("[sp.ChannelTransformation]\nType=FlipTransformation\nChannel=0\n");
    assert!(matches!(&steps[0], Step::Unavailable { why } if why.contains("brings that channel")));
}

#[test]
fn types_that_n2d2_does_not_have_are_told() {
    let notes = |rest: &str| {
        let ini = format!("{}{rest}", around([1, 4, 4], "Type=Softmax"));
        let told = random(&ini).unwrap().notes.into_iter().map(|note| note.into_finding().message);
        told.collect::<Vec<String>>()
    };
    for database in ["DIR_Database", "GTSDB_DIR_Database", "CompositeDatabase"] {
        let known = format!(
            "[database]\nType={database}\n[sp.Transformation]\nType=EqualizeTransformation\n"
        );
        assert_eq!(notes(&known), Vec::<String>::new());
    }
    let unknown =
        "[database]\nType=NoSuch_Database\n[sp.Transformation-1]\nType=NoSuchTransformation\n";
    let told = notes(unknown);
    assert!(
        told[0].contains("names no database") && told[1].contains("names no transformation"),
        "{told:?}"
    );
}

/// Sections of channels as a network has them whose weights were made for three.
const CHANNELS: &str = "[sp.Transformation]\nType=RescaleTransformation\nWidth=4\nHeight=4\n\
    [sp.ChannelTransformation-r]\nType=ChannelExtractionTransformation\nCSChannel=Red\n\
    [sp.ChannelTransformation-g]\nType=ChannelExtractionTransformation\nCSChannel=Green\n\
    [sp.ChannelTransformation-b]\nType=ChannelExtractionTransformation\nCSChannel=Blue\n\
    [sp.ChannelOnTheFlyTransformation-r]\nType=RangeAffineTransformation\nChannel=0\n\
    FirstOperator=Minus\nFirstValue=123\nSecondOperator=Divides\nSecondValue=255\n\
    [sp.ChannelOnTheFlyTransformation-g]\nType=RangeAffineTransformation\nChannel=1\n\
    FirstOperator=Minus\nFirstValue=51\nSecondOperator=Divides\nSecondValue=255\n\
    [sp.ChannelsOnTheFlyTransformation]\nType=FlipTransformation\n";

#[test]
fn sections_bring_channels() {
    let own = "[sp.ChannelOnTheFlyTransformation-b]\nType=RangeAffineTransformation\nChannel=2\n\
               FirstOperator=Divides\nFirstValue=255\n";
    let ini = around([1, 4, 4], "Type=Softmax").replace("NbChannels=1\n", "");
    let imported = random(&format!("{ini}{CHANNELS}{own}")).unwrap();
    assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    let graph = &imported.model.graph;
    let shape = graph[graph.inputs()[0]].ty.as_ref().unwrap().shape().unwrap();
    assert_eq!(shape[1].known(), Some(3));
    let of = |key: &str| imported.metadata.iter().find(|(k, _)| k == key).map(|(_, text)| text);
    // The union of the three channels' ranges, not one after the other.
    let range = of("input.range").unwrap();
    let (bounds, _) = range.strip_prefix('[').unwrap().split_once(']').unwrap();
    let bounds: Vec<f32> = bounds.split(", ").map(|n| n.parse().unwrap()).collect();
    assert!(close(&bounds, &[-123.0 / 255.0, 1.0]), "{range}");
    let steps = Steps::from_json(of("input.preprocessing.steps").unwrap()).unwrap();
    let flip = Step::Flip { horizontal: false, vertical: false };
    let minus =
        |value| Step::Arithmetic { operator: ArithmeticOperator::Minus, values: vec![value] };
    let divides = Step::Arithmetic { operator: ArithmeticOperator::Divides, values: vec![255.0] };
    let way = |index, affine: &[Step]| {
        [&[Step::Channel { index }], affine, std::slice::from_ref(&flip)].concat()
    };
    let red = way(2, &[minus(123.0), divides.clone()]);
    let green = way(1, &[minus(51.0), divides.clone()]);
    // It stands last in the file.
    let blue = vec![Step::Channel { index: 0 }, flip, divides];
    let channels = vec![red, green, blue];
    assert_eq!(steps.0[2..], [Step::Split { channels }, Step::ScaleIntegers { signed: false }]);
    // Of channels of which some stay integers nothing is known.
    let imported = random(&format!("{ini}{CHANNELS}")).unwrap();
    assert!(imported.metadata.iter().all(|(key, _)| key != "input.range"));
}

#[test]
fn channels_that_do_not_count_are_pointed_out() {
    let ini = around([1, 4, 4], "Type=Softmax");
    let imported = random(&format!("{ini}{CHANNELS}")).unwrap();
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert!(notes.len() == 1 && notes[0].contains("`NbChannels`"), "{notes:?}");
}

#[test]
fn the_set_that_is_calibrated_on_decides() {
    let sections = |apply: &[&str]| -> String {
        let section = |(i, apply): (usize, &&str)| {
            format!("[sp.Transformation-{i}]\nType=FlipTransformation\nApplyTo={apply}\n")
        };
        apply.iter().enumerate().map(section).collect()
    };
    let all = ["LearnOnly", "ValidationOnly", "TestOnly", "NoLearn", "NoValidation", "NoTest"];
    for (database, expected) in [
        ("", [false, false, true, true, true, false]),
        ("[database]\nValidation=0\n", [false, false, true, true, true, false]),
        ("[database]\nValidation=0.2\n", [false, true, false, true, false, true]),
    ] {
        for (apply, expected) in all.iter().zip(expected) {
            let (steps, _) = steps(&format!("{}{database}", sections(&[apply])));
            assert_eq!(steps.len() == 2, expected, "{database}{apply}");
        }
    }
    let (steps, _) = steps("[sp.Transformation]\nType=FlipTransformation\nApplyTo=Sometimes\n");
    assert!(matches!(steps[0], Step::Unavailable { .. }));
}

#[test]
fn sections_on_the_fly_come_last() {
    let (steps, batch) = steps(
        "[sp.OnTheFlyTransformation-a]\nType=ColorSpaceTransformation\nColorSpace=BGR\n\
         [sp.Transformation-b]\nType=FlipTransformation\n",
    );
    let flip = Step::Flip { horizontal: false, vertical: false };
    assert_eq!(steps, [flip, Step::Spread, Step::ScaleIntegers { signed: false }]);
    assert_eq!(batch, None);
}

#[test]
fn the_environment_is_asked_too() {
    let ini = around([1, 4, 4], "Type=Softmax");
    let ini = ini.replace("[sp]\n", "[sp]\nBatchSize=12\nConfigSection=signs\n");
    let metadata = random(&format!("{ini}[signs]\nDataSignedMapping=1\n")).unwrap().metadata;
    let of = |key: &str| metadata.iter().find(|(k, _)| k == key).map(|(_, text)| text.as_str());
    assert_eq!(of("input.batch_size"), Some("12"));
    let steps = Steps::from_json(of("input.preprocessing.steps").unwrap()).unwrap();
    assert_eq!(steps.0[1], Step::ScaleIntegers { signed: true });
}
