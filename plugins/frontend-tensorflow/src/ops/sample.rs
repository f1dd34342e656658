//! Pixels of pictures at places that are computed.

use super::dtype_of;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::lower::Lowered;

/// Pictures `[batch, height, width, channels]` and their sizes as floats.
pub(crate) struct Pixels {
    x: Var,
    pub(crate) height: Var,
    pub(crate) width: Var,
}

/// What a place between pixels has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleMode {
    /// The nearest pixel.
    Nearest,
    /// A mean of four pixels, all of them in the picture.
    Inside,
    /// A mean of four pixels, of which some may be outside.
    Bilinear,
}

impl Pixels {
    pub(crate) fn from_var(b: &GraphBuilder, x: Var) -> Lowered<Pixels> {
        let size = |axis: i64| {
            let size = b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one()?;
            b.cast(size, Float)
        };
        Ok(Pixels { x, height: size(1)?, width: size(2)? })
    }

    /// Pixels at numbers of pictures, and places along height and width: three tensors that broadcast. Outside of the
    /// picture there is `fill`, or the border.
    pub(crate) fn sampled(
        &self,
        b: &GraphBuilder,
        [batch, y, x]: [Var; 3],
        mode: SampleMode,
        fill: Option<Var>,
    ) -> Lowered<Var> {
        if mode == SampleMode::Nearest {
            return self.at(b, [batch, round(b, y)?, round(b, x)?], fill);
        }
        let (top, left) = (b.floor(y)?, b.floor(x)?);
        let (bottom, right) = match mode {
            SampleMode::Inside => (b.ceil(y)?, b.ceil(x)?),
            _ => (b.add(top, 1.0)?, b.add(left, 1.0)?),
        };
        let dtype = dtype_of(b, self.x)?;
        let share = |at: Var, from: Var| b.cast(b.unsqueeze(b.sub(at, from)?, [-1])?, dtype);
        let mixed = |from: Var, to: Var, share: Var| b.add(from, b.mul(b.sub(to, from)?, share)?);
        let row = |y: Var| {
            let (from, to) =
                (self.at(b, [batch, y, left], fill)?, self.at(b, [batch, y, right], fill)?);
            mixed(from, to, share(x, left)?)
        };
        mixed(row(top)?, row(bottom)?, share(y, top)?)
    }

    /// Pixels at whole places.
    fn at(&self, b: &GraphBuilder, [batch, y, x]: [Var; 3], fill: Option<Var>) -> Lowered<Var> {
        let inside = |at: Var, size: Var| {
            let last = b.sub(size, 1.0)?;
            b.max([b.min([at, last])?, b.mul(last, 0.0)?])
        };
        let (row, column) = (inside(y, self.height)?, inside(x, self.width)?);
        let indices = [batch, b.cast(row, Int64)?, b.cast(column, Int64)?];
        // All three broadcast to one shape.
        let zero = b.mul(b.add(b.add(indices[0], indices[1])?, indices[2])?, 0)?;
        let whole = indices.map(|index| b.unsqueeze(b.add(index, zero)?, [-1]));
        let [batch, row_at, column_at] = whole;
        let found =
            b.gather_nd(self.x, b.concat([batch?, row_at?, column_at?]).axis(-1).one()?).one()?;
        let Some(fill) = fill else { return Ok(found) };
        let known = b.and(b.equal(row, y)?, b.equal(column, x)?)?;
        b.where_(b.unsqueeze(known, [-1])?, found, fill)
    }
}

/// The nearest whole number, away from zero between two.
fn round(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.mul(b.sign(x)?, b.floor(b.add(b.abs(x)?, 0.5)?)?)
}
