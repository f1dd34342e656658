//! Resampling of images.

use crate::row::{Row, both, down, up};
use crate::site::{Done, Site, axis, word};
use onnxd_ir::{Attr, Tensor, ValueId};

pub(crate) const ROWS: &[Row] = &[
    up(&["Upsample"], 7, upsample_7),
    both(&["Upsample"], 9, upsample_9_up, upsample_9_down),
    up(&["Upsample"], 10, upsample_10),
    up(&["Upsample"], 11, upsample_11),
    down(&["Resize"], 10, resize_10_down),
    both(&["Resize"], 11, resize_11_up, resize_11_down),
    both(&["Resize"], 13, resize_13_up, resize_13_down),
    down(&["Resize"], 18, resize_18_down),
    down(&["Resize"], 19, resize_19_down),
];

const COORDINATES: &str = "coordinate_transformation_mode";
const NEAREST: &str = "nearest_mode";

fn upsample_7(s: &mut Site<'_>) -> Done {
    let height = s.float("height_scale")?.ok_or("it has no `height_scale`")?;
    let width = s.float("width_scale")?.ok_or("it has no `width_scale`")?;
    if s.word("mode", "nearest")? == "bilinear" {
        s.set("mode", word("linear"));
    }
    s.drop("height_scale");
    s.drop("width_scale");
    s.set("scales", Attr::Floats(vec![1.0, 1.0, height, width]));
    Ok(())
}

fn upsample_9_up(s: &mut Site<'_>) -> Done {
    let scales = s.floats("scales")?.ok_or("it has no scales")?;
    let scales = s.tensor("scales", Tensor::vector(scales));
    s.set_input(1, Some(scales));
    s.drop("scales");
    Ok(())
}

fn upsample_9_down(s: &mut Site<'_>) -> Done {
    let scales = s.fixed_floats(1)?.ok_or("it has no scales")?;
    s.set_inputs(vec![Some(s.input(0)?)]);
    s.set("scales", Attr::Floats(scales.iter().map(|x| *x as f32).collect()));
    Ok(())
}

/// `Resize` of opset 10 is the same, but `Resize` of opset 11 must know that sizes only grow.
fn upsample_10(s: &mut Site<'_>) -> Done {
    if s.target == 10 {
        s.rename("Resize");
    }
    Ok(())
}

fn upsample_11(s: &mut Site<'_>) -> Done {
    let (x, scales) = (s.input(0)?, s.input(1)?);
    let mode = s.word("mode", "nearest")?;
    resize_11(s, x, scales, &mode, "floor");
    Ok(())
}

/// `Resize` of opset 11 as opset 10 has it: coordinates are divided by the scales.
fn resize_11(s: &mut Site<'_>, x: ValueId, scales: ValueId, mode: &str, nearest: &str) {
    let roi = s.tensor("roi", Tensor::vector(Vec::<f32>::new()));
    let mut attrs = vec![("mode", word(mode)), (COORDINATES, word("asymmetric"))];
    if mode == "nearest" {
        attrs.push((NEAREST, word(nearest)));
    }
    s.become_node("Resize", &[x, roi, scales], &attrs);
}

/// What grows takes the element before, what shrinks the one behind.
fn resize_11_up(s: &mut Site<'_>) -> Done {
    let (x, scales) = (s.input(0)?, s.input(1)?);
    let mode = s.word("mode", "nearest")?;
    if mode != "nearest" {
        resize_11(s, x, scales, &mode, "");
        return Ok(());
    }
    let factors = s.fixed_floats(1)?.ok_or("it has no scales")?;
    if factors.iter().all(|f| *f >= 1.0) {
        resize_11(s, x, scales, &mode, "floor");
    } else if factors.iter().all(|f| *f <= 1.0) {
        resize_11(s, x, scales, &mode, "ceil");
    } else {
        return Err("some axes grow and some shrink, which takes different neighbours".into());
    }
    Ok(())
}

/// The scales that a constant input tells, or that follow from constant sizes.
fn scales(s: &Site<'_>) -> Result<Vec<f64>, String> {
    if let Some(scales) = s.fixed_floats(2)?.filter(|scales| !scales.is_empty()) {
        return Ok(scales);
    }
    let sizes = s.fixed_ints(3)?.ok_or("it has neither scales nor sizes")?;
    let dims = s.dims(s.input(0)?)?;
    let fits = sizes.len() == dims.len() && dims.iter().all(|d| *d > 0);
    if !fits {
        return Err("its sizes do not fit its input".into());
    }
    let scales: Vec<f64> =
        sizes.iter().zip(&dims).map(|(n, d)| f64::from(*n as f32 / *d as f32)).collect();
    let same = |((n, d), f): ((&i64, &i64), &f64)| (*d as f32 * *f as f32).floor() as i64 == *n;
    let exact = sizes.iter().zip(&dims).zip(&scales).all(same);
    exact.then_some(scales).ok_or_else(|| "its sizes are no multiple by a float".to_owned())
}

/// Opset 10 divides coordinates by the scales, and takes the element before what grows.
fn resize_11_down(s: &mut Site<'_>) -> Done {
    let mode = s.word("mode", "nearest")?;
    let coordinates = s.word(COORDINATES, "half_pixel")?;
    let nearest = s.word(NEAREST, "round_prefer_floor")?;
    let factors = scales(s)?;
    let grows = factors.iter().all(|f| *f >= 1.0);
    let whole = grows && factors.iter().all(|f| f.fract() == 0.0);
    let shrinks = factors.iter().all(|f| *f <= 1.0);
    let same = match (mode.as_str(), coordinates.as_str(), nearest.as_str()) {
        _ if factors.iter().all(|f| *f == 1.0) => true,
        ("linear", "asymmetric", _) => s.int("exclude_outside")?.unwrap_or(0) == 0,
        ("nearest", "asymmetric", "floor") => grows,
        ("nearest", "asymmetric", "ceil") => shrinks,
        // Half a pixel more and less falls on the same element.
        ("nearest", "half_pixel", "round_prefer_floor" | "round_prefer_ceil") => whole,
        _ => false,
    };
    if !same || !matches!(mode.as_str(), "linear" | "nearest") {
        return Err(format!("there is no \"{mode}\" with \"{coordinates}\" and \"{nearest}\""));
    }
    let x = s.input(0)?;
    let factors = factors.iter().map(|f| *f as f32).collect();
    let factors = s.tensor("scales", Tensor::vector(factors));
    s.become_node("Resize", &[x, factors], &[("mode", word(&mode))]);
    Ok(())
}

/// Before opset 10 sizes only grow.
fn resize_10_down(s: &mut Site<'_>) -> Done {
    if s.fixed_floats(1)?.is_none_or(|scales| scales.iter().any(|f| *f < 1.0)) {
        return Err("sizes cannot shrink".into());
    }
    s.rename("Upsample");
    Ok(())
}

/// From opset 13 on inputs that are not used may be absent.
fn resize_13_up(s: &mut Site<'_>) -> Done {
    let coordinates = s.word(COORDINATES, "half_pixel")?;
    if coordinates != "tf_crop_and_resize" {
        s.set_input(1, None);
    }
    let empty = |s: &Site<'_>, i| matches!(s.fixed(i), Ok(Some(t)) if t.is_empty());
    if s.has(3) && empty(s, 2) {
        s.set_input(2, None);
    }
    if coordinates == "tf_half_pixel_for_nn" {
        let nearest = s.word(NEAREST, "round_prefer_floor")?;
        if s.word("mode", "nearest")? != "nearest" || nearest != "floor" {
            return Err(format!("there is no `{COORDINATES}` \"{coordinates}\""));
        }
        // (i + 1/2) / s rounded down is (i + 1/2) / s - 1/2 rounded, halves up.
        s.set(COORDINATES, word("half_pixel"));
        s.set(NEAREST, word("round_prefer_ceil"));
    }
    Ok(())
}

fn resize_13_down(s: &mut Site<'_>) -> Done {
    for (i, role) in [(1, "roi"), (2, "scales")] {
        if !s.has(i) {
            let none = s.tensor(role, Tensor::vector(Vec::<f32>::new()));
            s.set_input(i, Some(none));
        }
    }
    Ok(())
}

/// Before opset 18 all axes are resized.
fn resize_18_down(s: &mut Site<'_>) -> Done {
    let Some(axes) = s.ints("axes")? else { return Ok(()) };
    let x = s.input(0)?;
    let rank = s.rank(x)?;
    let axes: Vec<usize> =
        axes.iter().map(|a| axis(*a, rank).map(|a| a as usize)).collect::<Result<_, _>>()?;
    if s.word(COORDINATES, "half_pixel")? == "tf_crop_and_resize" {
        return Err("it crops some axes".into());
    }
    let spread = |some: Vec<f64>, mut all: Vec<f64>| {
        let fits = some.len() == axes.len();
        axes.iter().zip(some).for_each(|(at, x)| all[*at] = x);
        fits.then_some(all).ok_or("its axes do not fit its sizes")
    };
    if let Some(scales) = s.fixed_floats(2)?.filter(|scales| !scales.is_empty()) {
        let all = spread(scales, vec![1.0; rank])?.iter().map(|x| *x as f32).collect();
        let all = s.tensor("scales", Tensor::vector(all));
        s.set_input(2, Some(all));
    } else if let Some(sizes) = s.fixed_ints(3)? {
        let dims = s.dims(x)?.iter().map(|d| *d as f64).collect();
        let all = spread(sizes.iter().map(|n| *n as f64).collect(), dims)?;
        let all: Vec<i64> = all.iter().map(|n| *n as i64).collect();
        let all = s.vector("sizes", &all);
        s.set_input(3, Some(all));
    }
    s.drop("axes");
    Ok(())
}

fn resize_19_down(s: &mut Site<'_>) -> Done {
    match s.word(COORDINATES, "half_pixel")?.as_str() {
        "half_pixel_symmetric" => Err(format!("there is no `{COORDINATES}` half_pixel_symmetric")),
        _ => Ok(()),
    }
}
