//! Sizes of images, and the windows of convolutions and poolings: how a section writes them, and the
//! sizes that result.
//!
//! Sections give both axes at once, each of them, or as a list with X first; all pairs here are
//! `[height, width]`, the order of ONNX.

use crate::diag::{Code, Diagnostic, Layer, refuse};
use crate::ini::{FromText, SectionRef};
use onnxd_plugin_sdk::ir::window::{Padding, WindowAxis};

/// Largest size, stride or padding of an axis.
const AXIS_MAX: i64 = 1 << 24;
/// Most numbers that a layer computes for one image.
const VALUES_MAX: usize = 1 << 31;

/// Size of what a layer computes for one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapSize {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl MapSize {
    pub(crate) fn new(channels: usize, [height, width]: [usize; 2]) -> MapSize {
        MapSize { channels, height, width }
    }

    /// The sizes of an image's axes.
    pub(crate) fn plane(self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Numbers; sizes that overflow are refused where they come from.
    pub(crate) fn count(self) -> usize {
        self.channels * self.height * self.width
    }

    /// Refuses sizes that no program can compute.
    pub(crate) fn check(self, layer: &Layer) -> Result<MapSize, Diagnostic> {
        let plane = self.height.checked_mul(self.width);
        let count = plane.and_then(|plane| plane.checked_mul(self.channels));
        let MapSize { channels, height, width } = self;
        let (code, message) = match count {
            Some(1..=VALUES_MAX) => return Ok(self),
            Some(0) => {
                let message = format!("the result is empty: {width} x {height} x {channels}");
                (Code::ShapeMismatch, message)
            }
            _ => {
                let message = format!(
                    "{width} x {height} x {channels} (width x height x channels) are more than \
                     {VALUES_MAX} numbers"
                );
                (Code::SourceLimit, message)
            }
        };
        Err(Diagnostic::new(code, message).at(layer.clone()))
    }
}

/// How much is added on each side; negative values cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pads {
    pub(crate) top: i64,
    pub(crate) left: i64,
    pub(crate) bottom: i64,
    pub(crate) right: i64,
}

impl Pads {
    pub(crate) fn symmetric([y, x]: [i64; 2]) -> Pads {
        Pads { top: y, left: x, bottom: y, right: x }
    }

    pub(crate) fn map(self, f: impl Fn(i64) -> i64) -> Pads {
        Pads { top: f(self.top), left: f(self.left), bottom: f(self.bottom), right: f(self.right) }
    }

    /// The size of an image with these borders.
    pub(crate) fn around(self, size: MapSize, layer: &Layer) -> Result<MapSize, Diagnostic> {
        let along = |n: usize, before: i64, after: i64| {
            let sum = n as i128 + i128::from(before) + i128::from(after);
            (sum > 0).then(|| usize::try_from(sum).unwrap_or(usize::MAX))
        };
        let height = along(size.height, self.top, self.bottom);
        let width = along(size.width, self.left, self.right);
        match (height, width) {
            (Some(height), Some(width)) => MapSize { height, width, ..size }.check(layer),
            _ => {
                let message =
                    format!("cuts more off than the input of {} x {} has", size.width, size.height);
                Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()))
            }
        }
    }
}

/// A window that moves over both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) size: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Added on both sides; negative values cut off.
    pub(crate) padding: [i64; 2],
}

/// The names under which a setting of both axes is written.
struct SettingNames<'a> {
    list: &'a str,
    both: &'a str,
    /// X, Y and Z.
    axes: [&'a str; 3],
}

const KERNEL: SettingNames = SettingNames {
    list: "KernelDims",
    both: "KernelSize",
    axes: ["KernelWidth", "KernelHeight", "KernelDepth"],
};
const POOL: SettingNames = SettingNames {
    list: "PoolDims",
    both: "PoolSize",
    axes: ["PoolWidth", "PoolHeight", "PoolDepth"],
};
const STRIDE: SettingNames =
    SettingNames { list: "StrideDims", both: "Stride", axes: ["StrideX", "StrideY", "StrideZ"] };
const PADDING: SettingNames = SettingNames {
    list: "PaddingDims",
    both: "Padding",
    axes: ["PaddingX", "PaddingY", "PaddingZ"],
};
const DILATION: SettingNames = SettingNames {
    list: "DilationDims",
    both: "Dilation",
    axes: ["DilationX", "DilationY", "DilationZ"],
};
const SUB_SAMPLE: SettingNames = SettingNames {
    list: "SubSampleDims",
    both: "SubSample",
    axes: ["SubSampleX", "SubSampleY", "SubSampleZ"],
};

type Pair<T> = Result<[T; 2], Diagnostic>;

impl Window {
    /// The window of a convolution or of its transpose.
    pub(crate) fn conv(section: SectionRef) -> Result<Window, Diagnostic> {
        let size = positive(section, &KERNEL, None)?;
        let stride = positive(section, &STRIDE, Some(1))?;
        let dilation = positive(section, &DILATION, Some(1))?;
        Ok(Window { size, stride, dilation, padding: padding(section)? })
    }

    pub(crate) fn pool(section: SectionRef) -> Result<Window, Diagnostic> {
        let size = positive(section, &POOL, None)?;
        let stride = positive(section, &STRIDE, Some(1))?;
        Ok(Window { size, stride, dilation: [1, 1], padding: padding(section)? })
    }

    /// Positions of the window over an input, which it must fit.
    pub(crate) fn positions(&self, section: SectionRef, input: [usize; 2]) -> Pair<usize> {
        self.along(section, input, |window, size| window.count(size, false))
    }

    /// Sizes from which a window's positions cover an input, as a transpose convolution needs.
    pub(crate) fn spread(&self, section: SectionRef, input: [usize; 2]) -> Pair<usize> {
        self.along(section, input, |window, size| Some(window.transposed(size, 0, None)?.0))
    }

    /// What `f` makes of the size of both axes, which is at least 1.
    fn along(
        &self,
        section: SectionRef,
        input: [usize; 2],
        f: impl Fn(&WindowAxis, i64) -> Option<i64>,
    ) -> Pair<usize> {
        let one = |axis: usize| {
            let made = f(&self.axis(axis), i64::try_from(input[axis]).ok()?)?;
            usize::try_from(made).ok().filter(|n| *n > 0)
        };
        one(0).zip(one(1)).map(<[usize; 2]>::from).ok_or_else(|| self.misfit(section, input))
    }

    fn axis(&self, axis: usize) -> WindowAxis {
        let [kernel, stride, dilation] =
            [self.size, self.stride, self.dilation].map(|pair| pair[axis] as i64);
        let padding = Padding::Explicit([self.padding[axis]; 2]);
        WindowAxis { kernel, stride, dilation, padding }
    }

    fn misfit(&self, section: SectionRef, [height, width]: [usize; 2]) -> Diagnostic {
        let [tall, wide] = [0, 1].map(|axis| self.axis(axis).reach().unwrap_or(i64::MAX));
        let [y, x] = self.padding;
        let message = format!(
            "a window of {wide} x {tall} does not fit the input of {width} x {height} \
             (width x height) with padding {x} and {y}"
        );
        Diagnostic::new(Code::ShapeMismatch, message).at(section.layer())
    }

    pub(crate) fn sizes(&self) -> Vec<i64> {
        integers(self.size)
    }

    /// `None` where they are the default of ONNX.
    pub(crate) fn strides(&self) -> Option<Vec<i64>> {
        unless_ones(self.stride)
    }

    /// `None` where they are the default of ONNX.
    pub(crate) fn dilations(&self) -> Option<Vec<i64>> {
        unless_ones(self.dilation)
    }

    /// `top, left, bottom, right`; `None` where there is none.
    pub(crate) fn pads(&self) -> Option<[i64; 4]> {
        let [y, x] = self.padding;
        (self.padding != [0, 0]).then_some([y, x, y, x])
    }
}

/// `NbOutputs`, which must be there.
pub(crate) fn outputs(section: SectionRef) -> Result<usize, Diagnostic> {
    match section.required::<usize>("NbOutputs")? {
        0 => Err(section.problem("NbOutputs", "must be at least 1")),
        outputs => Ok(outputs),
    }
}

/// How many results of a convolution along each axis are summed up.
pub(crate) fn sub_sample(section: SectionRef) -> Pair<usize> {
    positive(section, &SUB_SAMPLE, Some(1))
}

fn integers(pair: [usize; 2]) -> Vec<i64> {
    pair.iter().map(|n| *n as i64).collect()
}

fn unless_ones(pair: [usize; 2]) -> Option<Vec<i64>> {
    (pair != [1, 1]).then(|| integers(pair))
}

fn positive(section: SectionRef, names: &SettingNames, default: Option<usize>) -> Pair<usize> {
    let found = names.read::<usize>(section, default, 1)?;
    match found.iter().position(|n| *n == 0 || *n as i64 > AXIS_MAX) {
        None => Ok(found),
        Some(axis) => {
            let message = format!("must be between 1 and {AXIS_MAX}, found {}", found[axis]);
            Err(section.problem(names.present(section), message))
        }
    }
}

fn padding(section: SectionRef) -> Pair<i64> {
    let found = PADDING.read::<i64>(section, Some(0), 0)?;
    match found.iter().find(|n| n.abs() > AXIS_MAX) {
        None => Ok(found),
        Some(n) => {
            let message = format!("must be between -{AXIS_MAX} and {AXIS_MAX}, found {n}");
            Err(section.problem(PADDING.present(section), message))
        }
    }
}

impl SettingNames<'_> {
    /// Height and width. A third axis must have its neutral value.
    fn read<T>(&self, section: SectionRef, default: Option<T>, neutral: T) -> Pair<T>
    where
        T: FromText + Copy + PartialEq,
    {
        [self.list, self.both].iter().chain(&self.axes).for_each(|name| section.asked(name));
        if let Some(list) = section.get::<Vec<T>>(self.list)? {
            return match list[..] {
                [x, y] => Ok([y, x]),
                [x, y, z] if z == neutral => Ok([y, x]),
                [_, _, _] => Err(self.no_depth(section, self.list)),
                _ => Err(section.problem(self.list, "must have two numbers: X and Y")),
            };
        }
        refuse!(section.get::<T>(self.axes[2])?.is_some_and(|z| z != neutral) =>
            self.no_depth(section, self.axes[2]));
        let both = section.get::<T>(self.both)?.or(default);
        let one = |axis: usize| match (section.get::<T>(self.axes[axis])?, both) {
            (Some(own), _) => Ok(own),
            (None, Some(both)) => Ok(both),
            (None, None) if self.axes.iter().any(|name| section.has(name)) => {
                section.required(self.axes[axis])
            }
            (None, None) => section.required(self.list),
        };
        Ok([one(1)?, one(0)?])
    }

    fn no_depth(&self, section: SectionRef, key: &str) -> Diagnostic {
        let message = format!("`{key}` asks for a third axis; only images are supported");
        Diagnostic::new(Code::FeatureUnsupported, message).at(section.layer())
    }

    /// The name that the section uses, for messages.
    fn present(&self, section: SectionRef) -> &str {
        let mut names = [self.list, self.both].into_iter().chain(self.axes);
        names.find(|name| section.has(name)).unwrap_or(self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ini::Ini;
    use crate::ini::testing::Texts;

    fn with<T>(text: &str, read: impl Fn(SectionRef) -> T) -> T {
        let files = Texts(vec![("n.ini", format!("[c]\n{text}\n"))]);
        read(Ini::parse("n.ini", &files).unwrap().section("c").unwrap())
    }

    #[test]
    fn spellings() {
        for (text, size) in [
            ("KernelDims=3 5", Some([5, 3])),
            ("KernelDims=3 5 1", Some([5, 3])),
            ("KernelSize=3", Some([3, 3])),
            ("KernelWidth=3\nKernelHeight=5", Some([5, 3])),
            ("KernelWidth=3", None),
            ("KernelDims=3", None),
            ("KernelDims=3 5 2", None),
            ("KernelSize=0", None),
            ("", None),
        ] {
            let found = with(text, |s| Window::conv(s).ok().map(|w| w.size));
            assert_eq!(found, size, "{text}");
        }
    }

    #[test]
    fn sizes() {
        let conv = |text: &str, input| with(text, |s| Window::conv(s)?.positions(s, input)).ok();
        assert_eq!(conv("KernelSize=3\nDilation=2", [7, 5]), Some([3, 1]));
        assert_eq!(conv("KernelSize=3\nDilation=2", [7, 4]), None);
        assert_eq!(conv("KernelSize=3\nPaddingX=1\nStrideY=2", [5, 5]), Some([2, 5]));
        assert_eq!(conv("KernelSize=1\nPadding=-2", [5, 5]), Some([1, 1]));
        let deconv = |text: &str, input| with(text, |s| Window::conv(s)?.spread(s, input)).ok();
        assert_eq!(deconv("KernelSize=3\nStride=2\nPadding=1", [4, 4]), Some([7, 7]));
        assert_eq!(deconv("KernelSize=1\nPadding=1", [2, 2]), None);
    }

    #[test]
    fn absurd_numbers_are_refused() {
        for text in ["KernelSize=99999999999", "KernelSize=1\nPadding=-99999999999"] {
            assert!(with(text, |s| Window::conv(s).is_err()), "{text}");
        }
    }
}
