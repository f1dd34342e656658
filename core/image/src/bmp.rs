//! BMP: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits of colour, from the bottom or the top.
//! A palette of greys gives a grey picture. Run lengths are not read.

use crate::read::{i32_at, u16_at, u32_at};
use crate::{Image, Refused, damaged, room};

/// The file's own header, before the one that tells the sizes.
const FILE_HEADER: usize = 14;

struct Header {
    width: usize,
    height: usize,
    from_top: bool,
    bits: usize,
    /// Blue, green and red of every index.
    palette: Vec<[u8; 3]>,
    /// Bits of a pixel that are red, green and blue.
    masks: [u32; 3],
    /// Where the rows begin.
    start: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Header, Refused> {
        let start = u32_at(bytes, 10)? as usize;
        let size = u32_at(bytes, FILE_HEADER)? as usize;
        let old = size == 12;
        if !old && size < 40 {
            return Err(Refused::Unsupported(format!("BMP with a header of {size} bytes")));
        }
        let (width, height, bits) = if old {
            let sides = (u16_at(bytes, 18)?, u16_at(bytes, 20)?);
            (i64::from(sides.0), i64::from(sides.1), u16_at(bytes, 24)?)
        } else {
            let sides = (i32_at(bytes, 18)?, i32_at(bytes, 22)?);
            (i64::from(sides.0), i64::from(sides.1), u16_at(bytes, 28)?)
        };
        let compression = if old { 0 } else { u32_at(bytes, 30)? };
        if !matches!((compression, bits), (0, _) | (3 | 6, 16 | 32)) {
            return Err(Refused::Unsupported(format!("BMP with compression {compression}")));
        }
        let masks = match (compression, bits) {
            (0, 16) => [0x7c00, 0x3e0, 0x1f],
            (0, _) => [0xff_0000, 0xff00, 0xff],
            _ => [u32_at(bytes, 54)?, u32_at(bytes, 58)?, u32_at(bytes, 62)?],
        };
        let entry = if old { 3 } else { 4 };
        let named = if old { 0 } else { u32_at(bytes, 46)? as usize };
        let palette = if bits <= 8 {
            let count = if named == 0 { 1 << bits } else { named.min(256) };
            let table = bytes.get(FILE_HEADER + size..).unwrap_or_default();
            table.chunks_exact(entry).take(count).map(|c| [c[0], c[1], c[2]]).collect()
        } else {
            Vec::new()
        };
        let width = usize::try_from(width).map_err(|_| damaged("its width is negative"))?;
        let from_top = height < 0;
        let height = height.unsigned_abs() as usize;
        Ok(Header { width, height, from_top, bits: usize::from(bits), palette, masks, start })
    }

    /// Red, green and blue of a pixel of a row.
    fn pixel(&self, row: &[u8], x: usize) -> Result<[u8; 3], Refused> {
        Ok(match self.bits {
            1 | 4 | 8 => {
                let at = x * self.bits;
                let index = row[at / 8] >> (8 - self.bits - at % 8) & (0xff >> (8 - self.bits));
                let found = self.palette.get(usize::from(index));
                let [b, g, r] = *found.ok_or_else(|| damaged("a colour is not in the palette"))?;
                [r, g, b]
            }
            24 => [row[3 * x + 2], row[3 * x + 1], row[3 * x]],
            16 => self.masked(u32::from(u16_at(row, 2 * x)?)),
            _ => self.masked(u32_at(row, 4 * x)?),
        })
    }

    fn masked(&self, pixel: u32) -> [u8; 3] {
        self.masks.map(|mask| {
            if mask == 0 {
                return 0;
            }
            let (value, most) = (pixel & mask, mask >> mask.trailing_zeros());
            let value = u64::from(value >> mask.trailing_zeros());
            ((value * 255 + u64::from(most) / 2) / u64::from(most)) as u8
        })
    }
}

pub(crate) fn decode(bytes: &[u8], samples_max: usize) -> Result<Image, Refused> {
    let h = Header::read(bytes)?;
    if !matches!(h.bits, 1 | 4 | 8 | 16 | 24 | 32) {
        return Err(damaged(format!("{} bits a pixel", h.bits)));
    }
    let size = room(h.width, h.height, 3, samples_max)?;
    // Rows are filled up to a multiple of four bytes.
    let stride = (h.width * h.bits).div_ceil(32) * 4;
    let rows = h.start.checked_add(stride * h.height).and_then(|end| bytes.get(h.start..end));
    let rows = rows.ok_or_else(|| damaged("it ends too early"))?;
    let mut samples = Vec::with_capacity(size);
    for y in 0..h.height {
        let from = if h.from_top { y } else { h.height - 1 - y };
        let row = &rows[from * stride..(from + 1) * stride];
        for x in 0..h.width {
            samples.extend(h.pixel(row, x)?);
        }
    }
    let (width, height) = (h.width, h.height);
    let is_grey = |c: &[u8; 3]| c[0] == c[1] && c[1] == c[2];
    if h.bits <= 8 && h.palette.iter().all(is_grey) {
        let samples = samples.into_iter().step_by(3).collect();
        return Ok(Image { width, height, channels: 1, samples });
    }
    Ok(Image { width, height, channels: 3, samples })
}
