//! Colours of pictures, whose last axis is red, green and blue.

use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{Double, Float};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "RGBToHSV" => |b, images: Var| joined(b, to_hsv(b, channels(b, images)?)?);
        "HSVToRGB" => |b, images: Var| joined(b, to_rgb(b, channels(b, images)?)?);
        "AdjustHue" => |b, images: Var, delta: Var| {
            let (x, dtype) = (b.cast(images, Float)?, dtype_of(b, images)?);
            let [h, s, v] = to_hsv(b, channels(b, x)?)?;
            let turned = b.add(h, delta)?;
            let h = b.sub(turned, b.floor(turned)?)?;
            b.cast(joined(b, to_rgb(b, [h, s, v])?)?, dtype)
        };
        "AdjustSaturation" => |b, images: Var, scale: Var| {
            let (x, dtype) = (b.cast(images, Float)?, dtype_of(b, images)?);
            let [h, s, v] = to_hsv(b, channels(b, x)?)?;
            let s = b.clip(b.mul(s, scale)?).min(0.0).max(1.0).one()?;
            b.cast(joined(b, to_rgb(b, [h, s, v])?)?, dtype)
        };
        "AdjustContrastv2" => |b, images: Var, contrast_factor: Var| contrast(b, images, contrast_factor);
        "AdjustContrast" => |b, images: Var, contrast_factor: Var, min_value: Var, max_value: Var| {
            let y = contrast(b, b.cast(images, Float)?, contrast_factor)?;
            b.max([b.min([y, max_value])?, min_value])
        };
    }
}

fn channels(b: &GraphBuilder, x: Var) -> Lowered<[Var; 3]> {
    let last = rank(b, x)? as i64 - 1;
    b.split(x).split([1, 1, 1]).axis(last).outputs()
}

fn joined(b: &GraphBuilder, parts: [Var; 3]) -> Lowered<Var> {
    let last = rank(b, parts[0])? as i64 - 1;
    b.concat(parts).axis(last).one()
}

/// Hue as a share of a turn, saturation and value.
fn to_hsv(b: &Lower, [red, green, blue]: [Var; 3]) -> Lowered<[Var; 3]> {
    let value = b.max([red, green, blue])?;
    let range = b.sub(value, b.min([red, green, blue])?)?;
    let grey = b.equal(range, 0.0)?;
    let saturation = b.where_(b.greater(value, 0.0)?, b.div(range, value)?, 0.0)?;
    let sixth = b.mul(b.where_(grey, 1.0, range)?, 6.0)?;
    let from = |x: Var, y: Var, start: f64| b.add(b.div(b.sub(x, y)?, sixth)?, start);
    let others = b.where_(
        b.equal(green, value)?,
        from(blue, red, 1.0 / 3.0)?,
        from(red, green, 2.0 / 3.0)?,
    )?;
    let hue = b.where_(b.equal(red, value)?, from(green, blue, 0.0)?, others)?;
    let hue = b.where_(b.less(hue, 0.0)?, b.add(hue, 1.0)?, hue)?;
    Ok([b.where_(grey, 0.0, hue)?, saturation, value])
}

fn to_rgb(b: &Lower, [hue, saturation, value]: [Var; 3]) -> Lowered<[Var; 3]> {
    let turn = b.mul(hue, 6.0)?;
    let away = |from: f64| b.abs(b.sub(turn, from)?);
    let shares = [b.sub(away(3.0)?, 1.0)?, b.sub(2.0, away(2.0)?)?, b.sub(2.0, away(4.0)?)?];
    let colour = |share: Var| {
        let share = b.clip(share).min(0.0).max(1.0).one()?;
        b.mul(b.add(b.sub(1.0, saturation)?, b.mul(saturation, share)?)?, value)
    };
    Ok([colour(shares[0])?, colour(shares[1])?, colour(shares[2])?])
}

/// Distances from the mean of each channel, times a factor.
fn contrast(b: &Lower, images: Var, factor: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, images)?;
    let x = if dtype == Double { images } else { b.cast(images, Float)? };
    let mean = b.reduce_mean(x).axes([-3, -2]).keepdims(1).one()?;
    b.cast(b.add(b.mul(b.sub(x, mean)?, factor)?, mean)?, dtype)
}
