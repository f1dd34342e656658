//! Histogram equalization of the lightness, as OpenCV does it.

use super::colour::reverse;
use super::levels::histogram;
use super::picture::room;
use crate::{ChannelOrder, Depth, Equalization, Picture, PictureFault, fault};

/// Most tiles of a row or a column.
const TILES_MAX: usize = 64;

/// A grey picture, or the lightness (L* of CIELAB) of one in colour.
pub(crate) fn equalize(
    mut picture: Picture,
    method: Equalization,
    order: ChannelOrder,
) -> Result<Picture, PictureFault> {
    if picture.depth != Depth::Byte {
        return Err(fault("only samples of 8 bits are equalized"));
    }
    match picture.channels {
        1 => picture.samples = equalized(&picture.samples, picture.width, method)?,
        3 => {
            let to_rgb =
                |picture| if order == ChannelOrder::Bgr { reverse(picture) } else { picture };
            picture = to_rgb(picture);
            let tables = Lab::new();
            let pixels_of = picture.samples.chunks_exact(3);
            let mut lab: Vec<[f32; 3]> =
                pixels_of.map(|p| tables.lab_of([p[0], p[1], p[2]])).collect();
            let lightness: Vec<f32> = lab.iter().map(|p| p[0]).collect();
            let lightness = equalized(&lightness, picture.width, method)?;
            lab.iter_mut().zip(lightness).for_each(|(p, l)| p[0] = l);
            picture.samples = lab.into_iter().flat_map(rgb).collect();
            picture = to_rgb(picture);
        }
        n => return Err(fault(format!("a picture of {n} channels is not equalized"))),
    }
    Ok(picture)
}

fn equalized(
    samples: &[f32],
    width: usize,
    method: Equalization,
) -> Result<Vec<f32>, PictureFault> {
    match method {
        Equalization::Standard => {
            let table = standard(&histogram(samples.iter()), samples.len());
            Ok(samples.iter().map(|v| table[*v as usize & 255]).collect())
        }
        Equalization::Clahe { clip_limit, grid } => clahe(samples, width, clip_limit, grid),
    }
}

/// The share of samples at or below each level, without those of the darkest.
fn standard(counts: &[u32; 256], all: usize) -> [f32; 256] {
    let darkest = counts.iter().position(|c| *c > 0).unwrap_or(0);
    let rest = all - counts[darkest] as usize;
    let mut table = [0.0; 256];
    if rest == 0 {
        table[darkest] = darkest as f32;
        return table;
    }
    let scale = 255.0 / rest as f32;
    let mut sum = 0;
    for level in darkest + 1..256 {
        sum += counts[level];
        table[level] = Picture::rounded(Depth::Byte, sum as f32 * scale);
    }
    table
}

/// Contrast limited adaptive histogram equalization: tables of tiles, bilinear between their centres.
fn clahe(
    samples: &[f32],
    width: usize,
    clip_limit: f64,
    grid: usize,
) -> Result<Vec<f32>, PictureFault> {
    let height = samples.len() / width.max(1);
    if grid == 0 || grid > TILES_MAX || !clip_limit.is_finite() {
        return Err(fault(format!("no grid of {grid} x {grid} tiles")));
    }
    // A picture that tiles do not divide is continued by its mirror image.
    let even = width.is_multiple_of(grid) && height.is_multiple_of(grid);
    let padded_size = |n: usize| if even { n } else { n + grid - n % grid };
    let (tile_w, tile_h) = (padded_size(width) / grid, padded_size(height) / grid);
    room(padded_size(width), padded_size(height), 1)?;
    let mirror = |at: usize, len: usize| {
        let period = 2 * (len - 1).max(1);
        let at = at % period;
        if at < len { at } else { period - at }
    };
    let tile = |row: usize, column: usize| {
        let rows = (row * tile_h..(row + 1) * tile_h).map(|y| mirror(y, height).min(height - 1));
        let columns = column * tile_w..(column + 1) * tile_w;
        let line = |y: usize| columns.clone().map(move |x| (x, y));
        let counts = histogram(
            rows.flat_map(line).map(|(x, y)| &samples[y * width + mirror(x, width).min(width - 1)]),
        );
        limited(counts, clip_limit, tile_w * tile_h)
    };
    let tables: Vec<[f32; 256]> = (0..grid * grid).map(|at| tile(at / grid, at % grid)).collect();
    // The tiles before and behind, and the share of the latter.
    let between = |at: usize, size: usize| {
        let at = at as f32 * (1.0 / size as f32) - 0.5;
        let before = at.floor();
        let (first, last) = (before.max(0.0) as usize, grid - 1);
        let second = (before as i64 + 1).clamp(0, last as i64) as usize;
        (first.min(last), second, at - before)
    };
    let mut made = Vec::with_capacity(samples.len());
    for y in 0..height {
        let (top, bottom, down) = between(y, tile_h);
        for x in 0..width {
            let (left, right, along) = between(x, tile_w);
            let level = samples[y * width + x] as usize & 255;
            let at = |row: usize, column: usize| tables[row * grid + column][level];
            let row = |row: usize| at(row, left) * (1.0 - along) + at(row, right) * along;
            let value = row(top) * (1.0 - down) + row(bottom) * down;
            made.push(Picture::rounded(Depth::Byte, value));
        }
    }
    Ok(made)
}

/// A tile's table: counts above the limit are given to all levels.
fn limited(mut counts: [u32; 256], clip_limit: f64, pixels: usize) -> [f32; 256] {
    if clip_limit > 0.0 {
        let limit = ((clip_limit * pixels as f64 / 256.0) as u32).max(1);
        let over: u32 = counts.iter().map(|c| c.saturating_sub(limit)).sum();
        counts.iter_mut().for_each(|c| *c = (*c).min(limit) + over / 256);
        let left = over as usize % 256;
        let step = 256_usize.checked_div(left).unwrap_or(1);
        counts.iter_mut().step_by(step).take(left).for_each(|c| *c += 1);
    }
    let scale = 255.0 / pixels as f32;
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        Picture::rounded(Depth::Byte, sum as f32 * scale)
    })
}

/// CIE XYZ of linear sRGB, D65.
const XYZ: [[f64; 3]; 3] = [
    [0.412_453, 0.357_580, 0.180_423],
    [0.212_671, 0.715_160, 0.072_169],
    [0.019_334, 0.119_193, 0.950_227],
];
const WHITE: [f64; 3] = [0.950_456, 1.0, 1.088_754];
/// Linear sRGB of CIE XYZ.
const RGB: [[f64; 3]; 3] = [
    [3.240_479, -1.537_15, -0.498_535],
    [-0.969_256, 1.875_991, 0.041_556],
    [0.055_648, -0.204_043, 1.057_311],
];

/// Tables for bytes of CIELAB, in the fixed point that OpenCV has for bytes.
struct Lab {
    /// Linear levels of sRGB, 8 parts of one.
    linear: [i64; 256],
    /// Roots of linear levels, of 15 bits.
    root: Vec<i64>,
    /// CIE XYZ by its white, of 12 bits.
    weights: [[i64; 3]; 3],
}

impl Lab {
    fn new() -> Lab {
        let rounded = |v: f64| v.round_ties_even() as i64;
        let linear = std::array::from_fn(|i| {
            let v = i as f64 / 255.0;
            let v = if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) };
            rounded(v * 2040.0)
        });
        let root = (0..3072).map(|i| {
            let t = f64::from(i) / 2040.0;
            let root = if t < 0.008856 { t * 7.787 + 16.0 / 116.0 } else { t.cbrt() };
            rounded(root * 32768.0)
        });
        let mut weights = [[0; 3]; 3];
        for ((made, row), white) in weights.iter_mut().zip(XYZ).zip(WHITE) {
            *made = row.map(|v| rounded(v / white * 4096.0));
        }
        Lab { linear, root: root.collect(), weights }
    }

    fn lab_of(&self, rgb: [f32; 3]) -> [f32; 3] {
        let linear = rgb.map(|v| self.linear[v as usize & 255]);
        let [x, y, z] = self.weights.map(|row| {
            let sum: i64 = row.iter().zip(linear).map(|(a, b)| a * b).sum();
            self.root[((sum + 2048) >> 12) as usize]
        });
        let lightness = (116 * 255 + 50) / 100 * y - (16 * 255 * 32768 + 50) / 100;
        let of = [lightness, 500 * (x - y) + (128 << 15), 200 * (y - z) + (128 << 15)];
        of.map(|v| ((v + (1 << 14)) >> 15).clamp(0, 255) as f32)
    }
}

/// The way back. OpenCV's fixed point is up to four levels off, where colours are strong.
fn rgb([l, a, b]: [f32; 3]) -> [f32; 3] {
    let (l, a, b) = (f64::from(l) / 2.55, f64::from(a) - 128.0, f64::from(b) - 128.0);
    let y = (l + 16.0) / 116.0;
    let inverse = |t: f64| if t > 0.206_893 { t.powi(3) } else { (t - 16.0 / 116.0) / 7.787 };
    let parts = [y + a / 500.0, y, y - b / 200.0].map(inverse);
    let xyz: Vec<f64> = parts.iter().zip(WHITE).map(|(v, white)| v * white).collect();
    RGB.map(|row| {
        let v: f64 = row.iter().zip(&xyz).map(|(a, b)| a * b).sum();
        let v = v.clamp(0.0, 1.0);
        let v = if v <= 0.003_130_8 { v * 12.92 } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        Picture::rounded(Depth::Byte, (v * 255.0) as f32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_spread() {
        let grey = Picture::grey(4, 1, &[10, 10, 20, 30]).unwrap();
        let made = equalize(grey.clone(), Equalization::Standard, ChannelOrder::Bgr).unwrap();
        assert_eq!(made.samples, [0.0, 0.0, 128.0, 255.0]);
        let flat = Picture::grey(3, 1, &[9; 3]).unwrap();
        assert_eq!(equalize(flat.clone(), Equalization::Standard, ChannelOrder::Bgr), Ok(flat));
        let real = Picture { depth: Depth::Float, ..grey };
        assert!(equalize(real, Equalization::Standard, ChannelOrder::Bgr).is_err());
    }

    /// Numbers of OpenCV 5.0, with tiles that divide the picture and that do not.
    #[test]
    fn tiles_have_tables_of_their_own() {
        let byte = |i: usize| ((i * 37 + i / 7 * 11) % 256) as u8;
        let grey = Picture::grey(7, 5, &(0..35).map(byte).collect::<Vec<u8>>()).unwrap();
        let of = |grid, clip_limit| {
            let method = Equalization::Clahe { clip_limit, grid };
            equalize(grey.clone(), method, ChannelOrder::Bgr).map(|made| made.samples)
        };
        let limited = [
            21, 85, 149, 170, 160, 176, 212, 42, 106, 170, 186, 170, 191, 234, 57, 121, 180, 197,
            192, 210, 255, 64, 128, 180, 199, 202, 231, 32, 71, 135, 198, 208, 221, 252, 57,
        ];
        let unlimited = [
            42, 128, 177, 148, 149, 198, 234, 85, 170, 212, 170, 184, 241, 255, 64, 149, 195, 159,
            167, 223, 255, 85, 170, 212, 170, 184, 248, 21, 85, 170, 212, 170, 184, 251, 32,
        ];
        let floats = |of: [u8; 35]| Ok(of.map(f32::from).to_vec());
        assert_eq!(of(2, 2.0), floats(limited));
        assert_eq!(of(3, 0.0), floats(unlimited));
        assert!(of(0, 2.0).is_err() && of(TILES_MAX + 1, 2.0).is_err());
        assert!(of(2, f64::NAN).is_err());
    }

    #[test]
    fn colours_come_back() {
        let lab = Lab::new();
        for colour in [[0.0, 0.0, 0.0], [255.0; 3], [200.0, 30.0, 90.0], [120.0, 130.0, 99.0]] {
            for (made, wanted) in rgb(lab.lab_of(colour)).iter().zip(colour) {
                assert!((made - wanted).abs() <= 4.0, "{colour:?}: {made}");
            }
        }
        assert_eq!(lab.lab_of([255.0, 0.0, 0.0]), [136.0, 208.0, 195.0]);
    }
}
