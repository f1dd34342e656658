//! Filters.

use super::geometry::{mirrored_inside, room_of};
use crate::{Picture, PictureFault, fault};

/// Most products of a filtered picture.
const PRODUCTS_MAX: usize = 1 << 31;

/// Correlates every channel with `kernel`, rows first, whose middle lies on the sample. Beyond its edges
/// the picture is mirrored, the edge itself not repeated.
pub(crate) fn filter(
    picture: &Picture,
    kernel: &[f64],
    [width, height]: [usize; 2],
) -> Result<Picture, PictureFault> {
    if kernel.is_empty() || kernel.len() != width * height || !kernel.iter().all(|v| v.is_finite())
    {
        return Err(fault(format!("no kernel of {width} x {height} numbers")));
    }
    let samples = room_of(picture)?;
    if samples.saturating_mul(kernel.len()) > PRODUCTS_MAX {
        return Err(fault(format!("a kernel of {width} x {height} numbers is too large")));
    }
    // Where the kernel's numbers lie for the first sample of an axis, and so on.
    let offsets = |size: usize, all: usize| -> Vec<usize> {
        let first = -((size / 2) as i64);
        (0..(all + size) as i64).map(|i| mirrored_inside(first + i, all)).collect()
    };
    let (rows, columns) = (offsets(height, picture.height), offsets(width, picture.width));
    let mut made = Vec::with_capacity(samples);
    for y in 0..picture.height {
        for x in 0..picture.width {
            let (rows, columns) = (&rows[y..y + height], &columns[x..x + width]);
            for channel in 0..picture.channels {
                let line = |(y, weights): (&usize, &[f64])| -> f64 {
                    let of = |(x, w): (&usize, &f64)| f64::from(picture.pixel(*x, *y)[channel]) * w;
                    columns.iter().zip(weights).map(of).sum()
                };
                let sum: f64 = rows.iter().zip(kernel.chunks_exact(width)).map(line).sum();
                made.push(Picture::rounded(picture.depth, sum as f32));
            }
        }
    }
    Ok(Picture { samples: made, ..*picture })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_not_repeated_and_sums_saturate() {
        let picture = Picture::grey(3, 1, &[10, 20, 40]).unwrap();
        let of = |kernel: &[f64], sizes| filter(&picture, kernel, sizes).map(|p| p.samples);
        assert_eq!(of(&[1.0, 2.0, 3.0], [3, 1]), Ok(vec![100.0, 170.0, 160.0]));
        assert_eq!(of(&[1.0, 0.0], [2, 1]), Ok(vec![20.0, 10.0, 20.0]));
        assert_eq!(of(&[-1.0], [1, 1]), Ok(vec![0.0; 3]));
        assert_eq!(of(&[0.5, 0.0, 0.0, 0.0, 10.0], [1, 5]), Ok(vec![105.0, 210.0, 255.0]));
        assert!(of(&[1.0], [2, 1]).is_err());
        // Longer than the picture, which is mirrored again and again.
        assert_eq!(of(&[0.0; 30_000], [30_000, 1]), Ok(vec![0.0; 3]));
        let wide = Picture::grey(1 << 16, 1, &vec![1; 1 << 16]).unwrap();
        assert!(filter(&wide, &vec![0.0; 1 << 16], [1 << 16, 1]).is_err(), "too many products");
    }
}
