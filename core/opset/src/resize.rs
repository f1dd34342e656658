//! Resampling of images.

use crate::context::{Done, LowerContext, Refusal, axes, refuse};
use crate::row::{AdapterRow, both, down, moved, up};
use onnxd_ir::{Attr, Tensor, resize};

pub(crate) const ROWS: &[AdapterRow] = &[
    up(&["Upsample"], 7, upsample_7),
    moved(&["Upsample"], 9),
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

fn upsample_7(s: &mut LowerContext<'_>) -> Done {
    let height = s.float("height_scale")?.ok_or("it has no `height_scale`")?;
    let width = s.float("width_scale")?.ok_or("it has no `width_scale`")?;
    if s.word("mode", "nearest")? == "bilinear" {
        s.set_word("mode", "linear");
    }
    s.drop("height_scale");
    s.drop("width_scale");
    s.set("scales", Attr::Floats(vec![1.0, 1.0, height, width]));
    Ok(())
}

/// `Resize` of opset 10 is the same, but `Resize` of opset 11 must know that sizes only grow.
fn upsample_10(s: &mut LowerContext<'_>) -> Done {
    if s.step.target == 10 {
        s.rename("Resize");
    }
    Ok(())
}

fn upsample_11(s: &mut LowerContext<'_>) -> Done {
    resize_11(s, "floor")
}

/// `Resize` of opset 11 as opset 10 has it: coordinates are divided by the scales.
fn resize_11(s: &mut LowerContext<'_>, nearest: &str) -> Done {
    let (b, [x, scales], mode) = (s.b, s.vars()?, s.word("mode", "nearest")?);
    let call = b.resize(x).roi(Vec::<f32>::new()).scales(scales);
    let call = call.coordinate_transformation_mode("asymmetric");
    let call = if mode == "nearest" { call.nearest_mode(nearest) } else { call };
    s.becomes(call.mode(mode).one()?)
}

/// What grows takes the element before, what shrinks the one behind.
fn resize_11_up(s: &mut LowerContext<'_>) -> Done {
    if s.word("mode", "nearest")? != "nearest" {
        return resize_11(s, "");
    }
    let factors = s.fixed_floats(1)?.ok_or("it has no scales")?;
    if factors.iter().all(|f| *f >= 1.0) {
        resize_11(s, "floor")
    } else if factors.iter().all(|f| *f <= 1.0) {
        resize_11(s, "ceil")
    } else {
        refuse("some axes grow and some shrink, which takes different neighbours")
    }
}

/// The scales that a constant input tells, or that follow from constant sizes.
fn scales(s: &LowerContext<'_>) -> Result<Vec<f64>, Refusal> {
    if let Some(scales) = s.fixed_floats(2)?.filter(|scales| !scales.is_empty()) {
        return Ok(scales);
    }
    let sizes = s.fixed_ints(3)?.ok_or("it has neither scales nor sizes")?;
    let dims = s.dims(s.var(0)?)?;
    let fits = sizes.len() == dims.len() && dims.iter().all(|d| *d > 0);
    if !fits {
        return refuse("its sizes do not fit its input");
    }
    let scales: Vec<f64> =
        sizes.iter().zip(&dims).map(|(n, d)| f64::from(*n as f32 / *d as f32)).collect();
    let same = |((n, d), f): ((&i64, &i64), &f64)| resize::scaled(*d, *f) == Some(*n);
    let exact = sizes.iter().zip(&dims).zip(&scales).all(same);
    if exact { Ok(scales) } else { refuse("its sizes are no multiple by a float") }
}

/// Opset 10 divides coordinates by the scales, and takes the element before what grows.
fn resize_11_down(s: &mut LowerContext<'_>) -> Done {
    let mode = s.word("mode", "nearest")?;
    let coordinates = s.word(COORDINATES, "half_pixel")?;
    let nearest = s.word(NEAREST, "round_prefer_floor")?;
    let factors = scales(s)?;
    let grows = factors.iter().all(|f| *f >= 1.0);
    let whole = grows && factors.iter().all(|f| f.fract() == 0.0);
    let shrinks = factors.iter().all(|f| *f <= 1.0);
    let same = match (mode.as_str(), coordinates.as_str(), nearest.as_str()) {
        _ if factors.iter().all(|f| *f == 1.0) => true,
        ("linear", "asymmetric", _) => !s.flag("exclude_outside", false)?,
        ("nearest", "asymmetric", "floor") => grows,
        ("nearest", "asymmetric", "ceil") => shrinks,
        // Half a pixel more and less falls on the same element.
        ("nearest", "half_pixel", "round_prefer_floor" | "round_prefer_ceil") => whole,
        _ => false,
    };
    if !same || !matches!(mode.as_str(), "linear" | "nearest") {
        return refuse(format!("there is no \"{mode}\" with \"{coordinates}\" and \"{nearest}\""));
    }
    let scales = floats(&factors);
    s.becomes(s.b.resize(s.var(0)?).scales(scales).mode(mode).one()?)
}

/// Before opset 10 sizes only grow.
fn resize_10_down(s: &mut LowerContext<'_>) -> Done {
    if s.fixed_floats(1)?.is_none_or(|scales| scales.iter().any(|f| *f < 1.0)) {
        return refuse("sizes cannot shrink");
    }
    s.rename("Upsample");
    Ok(())
}

/// From opset 13 on inputs that are not used may be absent.
fn resize_13_up(s: &mut LowerContext<'_>) -> Done {
    let coordinates = s.word(COORDINATES, "half_pixel")?;
    if coordinates != "tf_crop_and_resize" {
        s.set_input(1, None)?;
    }
    if s.has(3) && matches!(s.fixed(2), Ok(Some(t)) if t.is_empty()) {
        s.set_input(2, None)?;
    }
    if coordinates == "tf_half_pixel_for_nn" {
        let nearest = s.word(NEAREST, "round_prefer_floor")?;
        if s.word("mode", "nearest")? != "nearest" || nearest != "floor" {
            return refuse(format!("there is no `{COORDINATES}` \"{coordinates}\""));
        }
        // (i + 1/2) / s rounded down is (i + 1/2) / s - 1/2 rounded, halves up.
        s.set_word(COORDINATES, "half_pixel");
        s.set_word(NEAREST, "round_prefer_ceil");
    }
    Ok(())
}

fn floats(items: &[f64]) -> Tensor {
    Tensor::vector(items.iter().map(|x| *x as f32).collect())
}

fn resize_13_down(s: &mut LowerContext<'_>) -> Done {
    for (i, role) in [(1, "roi"), (2, "scales")] {
        if !s.has(i) {
            s.set_input(i, Some(s.b.parameter(role, floats(&[]))))?;
        }
    }
    Ok(())
}

/// Before opset 18 all axes are resized.
fn resize_18_down(s: &mut LowerContext<'_>) -> Done {
    let Some(some) = s.ints("axes")? else { return Ok(()) };
    let x = s.var(0)?;
    let rank = s.rank(x)?;
    let some = axes(&some, rank)?;
    if s.word(COORDINATES, "half_pixel")? == "tf_crop_and_resize" {
        return refuse("it crops some axes");
    }
    let spread = |given: Vec<f64>, mut all: Vec<f64>| {
        let fits = given.len() == some.len();
        some.iter().zip(given).for_each(|(at, x)| all[*at as usize] = x);
        fits.then_some(all).ok_or("its axes do not fit its sizes")
    };
    if let Some(scales) = s.fixed_floats(2)?.filter(|scales| !scales.is_empty()) {
        let all = floats(&spread(scales, vec![1.0; rank])?);
        s.set_input(2, Some(s.b.parameter("scales", all)))?;
    } else if let Some(sizes) = s.fixed_ints(3)? {
        let dims = s.dims(x)?.iter().map(|d| *d as f64).collect();
        let all = spread(sizes.iter().map(|n| *n as f64).collect(), dims)?;
        let all = Tensor::vector(all.iter().map(|n| *n as i64).collect());
        s.set_input(3, Some(s.b.parameter("sizes", all)))?;
    }
    s.drop("axes");
    Ok(())
}

fn resize_19_down(s: &mut LowerContext<'_>) -> Done {
    match s.word(COORDINATES, "half_pixel")?.as_str() {
        "half_pixel_symmetric" => {
            refuse(format!("there is no `{COORDINATES}` half_pixel_symmetric"))
        }
        _ => Ok(()),
    }
}
