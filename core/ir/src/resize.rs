//! Sizes that Resize and Upsample give.

/// Size of an axis of `size` elements that is scaled by `scale`; `None` if that is no size. Like the standard it is
/// computed in 32 bits, in which scales are stored.
pub fn scaled(size: i64, scale: f64) -> Option<i64> {
    if scale == 1.0 {
        return Some(size);
    }
    let made = f64::from((size as f32 * scale as f32).floor());
    // Above it, whole numbers are not exact.
    (0.0..9e15).contains(&made).then_some(made as i64)
}

/// Sizes and scales of axes of `sizes` elements for which `wanted` are asked. `keep_aspect_ratio_policy` may demand one
/// scale for all of them.
///
/// # Errors
/// For a policy that is not defined.
pub fn fitted(policy: &str, sizes: &[i64], wanted: &[i64]) -> Result<Vec<(i64, f64)>, String> {
    let each = || sizes.iter().zip(wanted).map(|(size, wanted)| *wanted as f64 / *size as f64);
    let common = match policy {
        "" | "stretch" => return Ok(wanted.iter().copied().zip(each()).collect()),
        "not_larger" => each().reduce(f64::min),
        "not_smaller" => each().reduce(f64::max),
        other => return Err(format!("policy `{}` is not defined", other.escape_default())),
    };
    let scale = common.unwrap_or(1.0);
    Ok(sizes.iter().map(|size| ((scale * *size as f64 + 0.5) as i64, scale)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_scales() {
        assert_eq!(scaled(10, f64::from(0.7f32)), Some(7));
        assert_eq!((scaled(5, 0.5), scaled(0, 3.0)), (Some(2), Some(0)));
        assert_eq!(scaled((1 << 24) + 1, 1.0), Some((1 << 24) + 1));
        assert_eq!(
            (scaled(5, -1.0), scaled(5, f64::NAN), scaled(i64::MAX, 2.0)),
            (None, None, None)
        );
    }

    #[test]
    fn sizes_by_policies() {
        let sizes = |policy: &str| fitted(policy, &[4, 10], &[8, 5]);
        assert_eq!(sizes("stretch"), Ok(vec![(8, 2.0), (5, 0.5)]));
        assert_eq!(sizes("not_larger"), Ok(vec![(2, 0.5), (5, 0.5)]));
        assert_eq!(sizes("not_smaller"), Ok(vec![(8, 2.0), (20, 2.0)]));
        assert_eq!(sizes("other"), Err("policy `other` is not defined".to_owned()));
    }
}
