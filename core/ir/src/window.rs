//! Windows that move over spatial axes: the geometry of convolutions, their transposes and pooling.
//!
//! Inference, the executor, passes and front-ends compute sizes and pads by it, so that they agree. An axis has at most
//! `i64::MAX` elements; functions give `None` where a size is larger than that.

use crate::Attr;

/// A window along one spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// Elements under the window.
    pub kernel: i64,
    /// From one position to the next one; at least 1.
    pub stride: i64,
    /// From one element under the window to the next one; at least 1.
    pub dilation: i64,
    /// What is around the input.
    pub padding: Padding,
}

/// What is around the input along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Elements before and behind it; negative ones cut off.
    Explicit([i64; 2]),
    /// As many as make the result `ceil(size / stride)`; the odd one is behind.
    SameUpper,
    /// The same; the odd one is before.
    SameLower,
}

impl Padding {
    /// `total` elements on both sides. Transpose convolutions cut off like `SAME_LOWER` where nothing else is said.
    fn halves(self, total: i64) -> [i64; 2] {
        let less = total / 2;
        match self {
            Padding::SameUpper => [less, total - less],
            Padding::SameLower | Padding::Explicit(_) => [total - less, less],
        }
    }
}

/// The axes of a window over elements of these sizes, as the attributes `strides`, `dilations`, `pads` and `auto_pad`
/// say. A list that is left out has the standard's default.
///
/// # Errors
/// What is wrong with an attribute.
pub fn axes<'a>(
    attr: impl Fn(&str) -> Option<&'a Attr>,
    kernel: &[i64],
) -> Result<Vec<WindowAxis>, String> {
    let n = kernel.len();
    let list = |name: &str, count: usize, default: i64, least: i64| {
        let list = match attr(name) {
            Some(Attr::Ints(list)) if !list.is_empty() => list.clone(),
            None | Some(Attr::Ints(_)) => vec![default; count],
            Some(_) => return Err(format!("`{name}` is not a list of integers")),
        };
        if list.len() != count {
            return Err(format!("`{name}` has {} elements instead of {count}", list.len()));
        }
        match list.iter().find(|x| **x < least) {
            Some(x) => Err(format!("`{name}` has the element {x}, the least is {least}")),
            None => Ok(list),
        }
    };
    let (strides, dilations) = (list("strides", n, 1, 1)?, list("dilations", n, 1, 1)?);
    let pads = list("pads", 2 * n, 0, i64::MIN)?;
    let auto_pad = match attr("auto_pad") {
        Some(Attr::Str(word)) => std::str::from_utf8(word).unwrap_or("?"),
        Some(_) => return Err("`auto_pad` is not a word".to_owned()),
        None => "NOTSET",
    };
    let padding: &dyn Fn(usize) -> Padding = match auto_pad {
        "NOTSET" | "" => &|i| Padding::Explicit([pads[i], pads[n + i]]),
        "VALID" => &|_| Padding::Explicit([0, 0]),
        "SAME_UPPER" => &|_| Padding::SameUpper,
        "SAME_LOWER" => &|_| Padding::SameLower,
        other => return Err(format!("auto_pad `{}` is not defined", other.escape_default())),
    };
    let axis = |i: usize| WindowAxis {
        kernel: kernel[i],
        stride: strides[i],
        dilation: dilations[i],
        padding: padding(i),
    };
    Ok((0..n).map(axis).collect())
}

impl WindowAxis {
    /// Elements from the first to the last one under the window; `None` if there is none.
    pub fn reach(&self) -> Option<i64> {
        let gaps = self.kernel.checked_sub(1).filter(|n| *n >= 0)?;
        gaps.checked_mul(self.dilation)?.checked_add(1)
    }

    /// Elements that `count` windows reach over.
    pub fn covered(&self, count: i64) -> Option<i64> {
        match count {
            ..=0 => Some(0),
            _ => (count - 1).checked_mul(self.stride)?.checked_add(self.reach()?),
        }
    }

    /// `size` elements with their explicit pads.
    pub fn padded(&self, size: i64) -> Option<i64> {
        let Padding::Explicit([before, behind]) = self.padding else { return None };
        size.checked_add(before)?.checked_add(behind)
    }

    /// How many of the padded elements are behind the first window; less than 0 if it does not fit.
    pub fn room(&self, size: i64) -> Option<i64> {
        self.padded(size)?.checked_sub(self.reach()?)
    }

    /// How many windows stand along `size` elements; `None` if not even one does.
    pub fn count(&self, size: i64, ceil_mode: bool) -> Option<i64> {
        let Padding::Explicit(_) = self.padding else {
            return Some(size / self.stride + i64::from(size % self.stride != 0));
        };
        let room = self.room(size).filter(|room| *room >= 0)?;
        let one_more = ceil_mode && room % self.stride != 0 && !self.ends_beyond(size);
        (room / self.stride + i64::from(one_more)).checked_add(1)
    }

    /// Whether the window that `ceil_mode` adds would begin behind the input and the padding before it. From opset 22
    /// on the standard says that it does not count then, and runtimes never counted it.
    pub fn ends_beyond(&self, size: i64) -> bool {
        let Padding::Explicit([before, _]) = self.padding else { return false };
        let Some(room) = self.room(size).filter(|room| room % self.stride != 0) else {
            return false;
        };
        let begin = (room / self.stride + 1).checked_mul(self.stride);
        begin.zip(size.checked_add(before)).is_some_and(|(begin, end)| begin >= end)
    }

    /// What `count` windows along `size` elements have around them, before and behind.
    pub fn pads(&self, size: i64, count: i64) -> Option<[i64; 2]> {
        match self.padding {
            Padding::Explicit(pads) => Some(pads),
            same => Some(same.halves(self.covered(count)?.saturating_sub(size).max(0))),
        }
    }

    /// How many elements a transpose convolution makes of `size` elements, and how many it cuts off before and behind
    /// them. `wanted` is what `output_shape` says, and `extra` what `output_padding` says.
    pub fn transposed(
        &self,
        size: i64,
        extra: i64,
        wanted: Option<i64>,
    ) -> Option<(i64, [i64; 2])> {
        let full = self.covered(size.max(1))?.checked_add(extra)?;
        let size = match (wanted, self.padding) {
            (None, Padding::Explicit(pads)) => {
                return Some((full.checked_sub(pads[0])?.checked_sub(pads[1])?, pads));
            }
            (Some(wanted), _) => wanted,
            (None, _) => size.checked_mul(self.stride)?,
        };
        Some((size, self.padding.halves(full.saturating_sub(size).max(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: i64, stride: i64, padding: Padding) -> WindowAxis {
        WindowAxis { kernel, stride, dilation: 1, padding }
    }

    #[test]
    fn explicit_pads() {
        let window = window(3, 2, Padding::Explicit([1, 0]));
        assert_eq!((window.count(6, false), window.count(6, true)), (Some(3), Some(3)));
        assert_eq!((window.count(7, false), window.count(7, true)), (Some(3), Some(4)));
        assert_eq!((window.count(1, false), window.covered(3)), (None, Some(7)));
        assert_eq!(window.transposed(3, 1, None), Some((7, [1, 0])));
        assert_eq!(window.transposed(3, 0, Some(4)), Some((4, [2, 1])));
        let holes = WindowAxis { dilation: 3, ..window };
        assert_eq!((holes.reach(), holes.count(6, false)), (Some(7), Some(1)));
    }

    #[test]
    fn the_last_window_begins_before_the_end() {
        let window = window(2, 3, Padding::Explicit([0, 0]));
        assert_eq!((window.count(3, true), window.ends_beyond(3)), (Some(1), true));
        assert_eq!((window.count(4, true), window.ends_beyond(4)), (Some(2), false));
    }

    #[test]
    fn pads_that_keep_the_size() {
        let (upper, lower) = (window(4, 1, Padding::SameUpper), window(4, 1, Padding::SameLower));
        assert_eq!((upper.count(5, false), upper.pads(5, 5)), (Some(5), Some([1, 2])));
        assert_eq!(lower.pads(5, 5), Some([2, 1]));
        let strided = window(2, 3, Padding::SameUpper);
        assert_eq!((strided.count(7, false), strided.pads(7, 3)), (Some(3), Some([0, 1])));
        assert_eq!(strided.transposed(3, 0, None), Some((9, [0, 0])));
    }

    #[test]
    fn sizes_without_bound() {
        let huge = window(i64::MAX, i64::MAX, Padding::Explicit([i64::MAX, 1]));
        assert_eq!((huge.count(i64::MAX, true), huge.covered(3)), (None, None));
        assert_eq!(window(0, 1, Padding::SameUpper).reach(), None);
    }

    #[test]
    fn attributes() {
        let read = |attrs: &[(&str, Attr)], kernel: &[i64]| {
            axes(|name| attrs.iter().find(|(n, _)| *n == name).map(|(_, attr)| attr), kernel)
        };
        let ints = |list: &[i64]| Attr::Ints(list.to_vec());
        let plain = window(3, 1, Padding::Explicit([0, 0]));
        assert_eq!(read(&[("strides", ints(&[]))], &[3]), Ok(vec![plain]));
        let pads = ("pads", ints(&[1, 2, 3, 4]));
        let padded = |before, behind| window(2, 1, Padding::Explicit([before, behind]));
        assert_eq!(
            read(std::slice::from_ref(&pads), &[2, 2]),
            Ok(vec![padded(1, 3), padded(2, 4)])
        );
        let valid = ("auto_pad", Attr::Str("VALID".into()));
        assert_eq!(read(&[pads, valid], &[3, 3]), Ok(vec![plain; 2]));
        for (name, attr, why) in [
            ("strides", ints(&[1]), "`strides` has 1 elements instead of 2"),
            ("dilations", ints(&[1, 0]), "`dilations` has the element 0, the least is 1"),
            ("pads", Attr::Int(1), "`pads` is not a list of integers"),
            ("auto_pad", Attr::Str("SAME".into()), "auto_pad `SAME` is not defined"),
        ] {
            assert_eq!(read(&[(name, attr)], &[1, 1]), Err(why.to_owned()));
        }
    }
}
