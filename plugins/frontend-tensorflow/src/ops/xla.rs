//! The convolution of XLA, which has any order of axes.

use super::conv::{Padding, Window, conv, sizes};
use super::create::scalar;
use super::pad::interior_padded;
use super::shape::transposed;
use super::slicing::reversed;
use super::{Lower, RowContext, dtype_of};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "XlaConv" => |b, a: Conv| {
            let to = dtype_of(b, a.lhs)?;
            by_numbers(b, a, ElementType(to), 1)
        };
        "XlaConvV2" => |b, a: Conv2| {
            let Conv2 { lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, .. } = a;
            let (feature_group_count, dimension_numbers) = (a.feature_group_count, a.dimension_numbers);
            let conv = Conv {
                lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count, dimension_numbers,
            };
            by_numbers(b, conv, a.preferred_element_type, a.batch_group_count)
        };
    }
}

arguments! {
    /// `XlaConv`
    struct Conv {
        lhs: Var, rhs: Var, window_strides: Vec<i64>, padding: Var, lhs_dilation: Vec<i64>, rhs_dilation: Vec<i64>,
        feature_group_count: i64, dimension_numbers: String,
    }
    /// `XlaConvV2`
    struct Conv2 {
        lhs: Var, rhs: Var, window_strides: Vec<i64>, padding: Var, lhs_dilation: Vec<i64>, rhs_dilation: Vec<i64>,
        feature_group_count: i64, dimension_numbers: String, preferred_element_type: ElementType,
        batch_group_count: i64,
    }
}

/// Which axis is which: those of samples and channels, or of results and channels, then the others.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) input: [i64; 2],
    pub(crate) input_spatial: Vec<i64>,
    pub(crate) kernel: [i64; 2],
    pub(crate) kernel_spatial: Vec<i64>,
    pub(crate) output: [i64; 2],
    pub(crate) output_spatial: Vec<i64>,
}

/// How a window moves, and what of the input it sees.
#[derive(Debug)]
pub(crate) struct XlaWindow {
    pub(crate) strides: Vec<i64>,
    pub(crate) padding: Vec<i64>,
    pub(crate) lhs_dilation: Vec<i64>,
    pub(crate) rhs_dilation: Vec<i64>,
    pub(crate) reversal: Vec<bool>,
    pub(crate) groups: i64,
    pub(crate) batch_groups: i64,
}

pub(crate) fn outside(b: &GraphBuilder) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    b.diagnostic(Code::LayerParameter, "An axis is named that the tensor does not have.")
}

/// The places `0..n` that a list does not name.
///
/// # Errors
/// `N0204` if it names another place, or one of them twice.
pub(crate) fn others(b: &GraphBuilder, n: i64, named: &[i64]) -> Lowered<Vec<i64>> {
    let rest: Vec<i64> = (0..n).filter(|axis| !named.contains(axis)).collect();
    if rest.len() + named.len() == n as usize { Ok(rest) } else { Err(outside(b)) }
}

/// A permutation that puts axis `from[i]` to place `to[i]`.
pub(crate) fn moved(b: &GraphBuilder, from: &[i64], to: &[i64]) -> Lowered<Vec<i64>> {
    let n = from.len() as i64;
    if !others(b, n, from)?.is_empty() || !others(b, n, to)?.is_empty() {
        return Err(outside(b));
    }
    let mut perm = vec![0; from.len()];
    from.iter().zip(to).for_each(|(from, to)| perm[*to as usize] = *from);
    Ok(perm)
}

impl Dimensions {
    /// Reads the message `ConvolutionDimensionNumbers`; `None` if it is damaged.
    fn read(bytes: &[u8]) -> Option<Dimensions> {
        let mut dimensions = Dimensions::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            let values = match tag & 7 {
                0 => vec![varint(&mut rest)?],
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    let (mut packed, behind) = rest.split_at_checked(length)?;
                    rest = behind;
                    let mut all = vec![];
                    while !packed.is_empty() {
                        all.push(varint(&mut packed)?);
                    }
                    all
                }
                _ => return None,
            };
            let one = *values.last()?;
            match tag >> 3 {
                3 => dimensions.kernel[1] = one,
                4 => dimensions.kernel[0] = one,
                6 => dimensions.kernel_spatial.extend(values),
                7 => dimensions.input[0] = one,
                8 => dimensions.input[1] = one,
                9 => dimensions.output[0] = one,
                10 => dimensions.output[1] = one,
                11 => dimensions.input_spatial.extend(values),
                12 => dimensions.output_spatial.extend(values),
                _ => {}
            }
        }
        Some(dimensions)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return i64::try_from(value).ok();
        }
    }
    None
}

fn by_numbers(b: &Lower, a: Conv, to: ElementType, batch_groups: i64) -> Lowered<Var> {
    let padding = b.constant_of(a.padding).and_then(|padding| padding.to_i64s());
    let dimensions = Dimensions::read(a.dimension_numbers.as_bytes());
    let (Some(padding), Some(dimensions)) = (padding, dimensions) else {
        let message = "The padding is computed, or the order of the axes is not known.";
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let form = XlaWindow {
        strides: a.window_strides,
        padding,
        lhs_dilation: a.lhs_dilation,
        rhs_dilation: a.rhs_dilation,
        reversal: vec![],
        groups: a.feature_group_count,
        batch_groups,
    };
    b.cast(convolved(b, [a.lhs, a.rhs], &dimensions, form)?, to.0)
}

/// Samples in groups, of which each has filters of its own, as channels in groups.
fn grouped(b: &GraphBuilder, x: Var, groups: i64) -> Lowered<Var> {
    let Some(dims) = b.dims_of(x).filter(|dims| dims.first().is_some_and(|n| n % groups == 0))
    else {
        let message = "The samples of groups with filters of their own are not known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let count = dims[0] / groups;
    let split = [&[groups, count], &dims[1..]].concat();
    let perm: Vec<i64> = [1, 0].into_iter().chain(2..split.len() as i64).collect();
    let Some(filters) = dims.get(1).and_then(|n| n.checked_mul(groups)) else {
        return Err(b.diagnostic(Code::LayerUnsupported, "A convolution has too many groups."));
    };
    let joined = [&[count, filters], &dims[2..]].concat();
    b.reshape(transposed(b, b.reshape(x, split).one()?, &perm)?, joined).one()
}

/// The convolution of an input by a kernel.
pub(crate) fn convolved(
    b: &GraphBuilder,
    [input, kernel]: [Var; 2],
    dimensions: &Dimensions,
    form: XlaWindow,
) -> Lowered<Var> {
    let n = form.strides.len();
    let first: Vec<i64> = (0..n as i64 + 2).collect();
    let order = |both: [i64; 2], spatial: &[i64]| [&both[..], spatial].concat();
    let order_of = |x: Var, both: [i64; 2], spatial: &[i64]| {
        transposed(b, x, &moved(b, &order(both, spatial), &first)?)
    };
    let x = order_of(input, dimensions.input, &dimensions.input_spatial)?;
    let w = order_of(kernel, dimensions.kernel, &dimensions.kernel_spatial)?;
    let zero = b.constant(scalar(0, dtype_of(b, x)?));
    let or_ones = |list: Vec<i64>| if list.is_empty() { vec![1; n] } else { list };
    let mut x = interior_padded(b, x, &[vec![1, 1], or_ones(form.lhs_dilation)].concat(), zero)?;
    let turned: Vec<i64> =
        (2..).zip(&form.reversal).filter(|(_, on)| **on).map(|(at, _)| at).collect();
    let dims = sizes(b, w)?;
    // Pads of less than none cut off cells, which ONNX does not have.
    let pairs = form.padding.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    for (axis, [before, behind]) in (2..).zip(pairs.clone()) {
        if before < 0 || behind < 0 {
            let end = if behind < 0 { behind } else { i64::MAX };
            let begin = before.min(0).saturating_neg();
            x = b.slice(x, [begin], [end]).axes([axis]).one()?;
        }
    }
    let pairs = pairs.map(|pair| pair.map(|n| n.max(0))).collect();
    let window = Window {
        kernel: dims.get(2..).unwrap_or_default().to_vec(),
        strides: form.strides,
        dilations: or_ones(form.rhs_dilation),
        padding: if form.padding.is_empty() { Padding::Valid } else { Padding::Explicit(pairs) },
    };
    let mut groups = form.groups.max(1);
    if form.batch_groups > 1 {
        x = grouped(b, x, form.batch_groups)?;
        groups = form.batch_groups;
    }
    let y = conv(b, x, reversed(b, w, &turned)?, None, &window, groups)?;
    let output = order(dimensions.output, &dimensions.output_spatial);
    transposed(b, y, &moved(b, &first, &output)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_dimensions_are_read() {
        // Channels last, and a kernel `[h, w, in, out]`.
        let bytes = [24, 2, 32, 3, 50, 2, 0, 1, 64, 3, 80, 3, 90, 2, 1, 2, 98, 2, 1, 2];
        let found = Dimensions::read(&bytes).unwrap();
        let wanted = Dimensions {
            input: [0, 3],
            input_spatial: vec![1, 2],
            kernel: [3, 2],
            kernel_spatial: vec![0, 1],
            output: [0, 3],
            output_spatial: vec![1, 2],
        };
        assert_eq!(found, wanted);
        assert_eq!(Dimensions::read(&[24]), None);
        assert_eq!(Dimensions::read(&[90, 9, 1]), None);
        assert_eq!(Dimensions::read(&[13, 0, 0, 0, 0]), None);
    }
}
