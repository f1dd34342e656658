//! Parts of matrices: bands and diagonals.

use super::create::{filled, scalar};
use super::linear::swapped;
use super::select::choice;
use super::shape::{DimSize, reshaped, shape_of, size};
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Bool, Double, Float, Int64};
use onnxd_plugin_sdk::ir::{Dim, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Cells of a matrix whose places are held in a constant.
const CELLS_MAX: i64 = 1 << 24;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "MatrixBandPart" | "BatchMatrixBandPart" => band_part(input, num_lower, num_upper);
        "Diag" => diag(diagonal);
        "DiagPart" => diag_part(input);
        "MatrixDiag" | "BatchMatrixDiag" => |b, diagonal: Var| with_diagonals(b, diagonal, &WantedBand::main(), None);
        "MatrixDiagV2" => |b, a: Made| made(b, &a, "LEFT_LEFT");
        "MatrixDiagV3" => |b, a: MadeAligned| made(b, &a.plain(), &a.align);
        "MatrixDiagPart" | "BatchMatrixDiagPart" => |b, input: Var| {
            diagonals(b, input, [0, 0], "LEFT_LEFT", None)
        };
        "MatrixDiagPartV2" => |b, input: Var, k: Vec<i64>, padding_value: Var| {
            diagonals(b, input, band(b, &k)?, "LEFT_LEFT", Some(padding_value))
        };
        "MatrixDiagPartV3" => |b, input: Var, k: Vec<i64>, padding_value: Var, align: String| {
            diagonals(b, input, band(b, &k)?, &align, Some(padding_value))
        };
        "MatrixSetDiag" | "BatchMatrixSetDiag" => |b, input: Var, diagonal: Var| {
            set_diagonals(b, input, diagonal, [0, 0], "LEFT_LEFT")
        };
        "MatrixSetDiagV2" => |b, input: Var, diagonal: Var, k: Vec<i64>| {
            set_diagonals(b, input, diagonal, band(b, &k)?, "LEFT_LEFT")
        };
        "MatrixSetDiagV3" => |b, input: Var, diagonal: Var, k: Vec<i64>, align: String| {
            set_diagonals(b, input, diagonal, band(b, &k)?, &align)
        };
        "ConjugateTranspose" => |b, x: Var, perm: Vec<i64>| super::shape::transposed(b, x, &perm);
        "Cross" => |b, a: Cross| cross(b, a.a, a.b);
        "TridiagonalMatMul" => tridiagonal(superdiag, maindiag, subdiag, rhs);
    }
}

arguments! {
    /// `MatrixDiagV2`
    struct Made { diagonal: Var, k: Vec<i64>, num_rows: Operand, num_cols: Operand, padding_value: Var }
    /// `MatrixDiagV3`
    struct MadeAligned {
        diagonal: Var, k: Vec<i64>, num_rows: Operand, num_cols: Operand, padding_value: Var, align: String,
    }
    /// `Cross`
    struct Cross { a: Var, b: Var }
}

impl MadeAligned {
    fn plain(&self) -> Made {
        let MadeAligned { diagonal, k, num_rows, num_cols, padding_value, .. } = self.clone();
        Made { diagonal, k, num_rows, num_cols, padding_value }
    }
}

/// So many diagonals on each side of the main one; a negative number means all.
fn band_part(b: &Lower, input: Var, num_lower: Operand, num_upper: Operand) -> Lowered<Var> {
    let dtype = dtype_of(b, input)?;
    let computed = match dtype {
        Bool | Int64 | Float | Double => dtype,
        d if d.is_integer() => Int64,
        _ => Float,
    };
    let kept = |x: Var, count: &Operand, upper: bool| {
        let known = match count {
            Operand::Int(n) => Some(*n),
            Operand::Var(v) => b.ints_of(*v).and_then(|n| n.first().copied()),
            _ => None,
        };
        let k: Operand = match (known, count) {
            (Some(n), _) if n < 0 => return Ok(x),
            (Some(n), _) => (if upper { -n } else { n }).into(),
            (None, Operand::Var(v)) => {
                let n = b.cast(*v, Int64)?;
                let n = b.where_(b.less(n, 0)?, i64::from(i32::MAX), n)?;
                if upper { b.neg(n)?.into() } else { n.into() }
            }
            _ => return Ok(x),
        };
        b.trilu(x).k(k).upper(i64::from(upper)).one()
    };
    let x = b.cast(input, computed)?;
    b.cast(kept(kept(x, &num_lower, true)?, &num_upper, false)?, dtype)
}

/// A tensor whose elements lie on the diagonal of one with all axes twice.
fn diag(b: &Lower, diagonal: Var) -> Lowered<Var> {
    let flat = b.reshape(diagonal, [-1]).one()?;
    let matrix = with_diagonals(b, flat, &WantedBand::main(), None)?;
    let shape = b.shape(diagonal).one()?;
    reshaped(b, matrix, &b.concat([shape, shape]).axis(0).one()?.into())
}

/// The diagonal of a tensor that has all axes twice.
fn diag_part(b: &Lower, input: Var) -> Lowered<Var> {
    let half = rank(b, input)? / 2;
    let sizes = (0..half).map(|axis| size(b, input, axis)).collect::<Lowered<Vec<_>>>()?;
    let count = b.reduce_prod(b.shape(input).end(half as i64).one()?).keepdims(1).one()?;
    let matrix = reshaped(b, input, &b.concat([count, count]).axis(0).one()?.into())?;
    reshaped(b, diagonals(b, matrix, [0, 0], "LEFT_LEFT", None)?, &shape_of(b, &sizes)?)
}

/// The lowest and the highest diagonal.
fn band(b: &GraphBuilder, k: &[i64]) -> Lowered<[i64; 2]> {
    match *k {
        [k] => Ok([k, k]),
        [low, high] if low <= high => Ok([low, high]),
        _ => Err(b.diagnostic(Code::LayerParameter, "The range of diagonals is empty.")),
    }
}

/// Which diagonals lie where.
struct WantedBand {
    band: [i64; 2],
    /// Numbers of rows and columns, or as few as hold the diagonals.
    sizes: [Option<i64>; 2],
    align: String,
}

impl WantedBand {
    fn main() -> WantedBand {
        WantedBand { band: [0, 0], sizes: [None; 2], align: "LEFT_LEFT".to_owned() }
    }
}

/// Diagonals of a matrix of known sizes, one in each row, the highest first; all rows are as long as the longest.
struct Diagonals {
    rows: i64,
    columns: i64,
    band: [i64; 2],
    length: i64,
    right: [bool; 2],
}

impl Diagonals {
    fn new(
        b: &GraphBuilder,
        [rows, columns]: [i64; 2],
        band: [i64; 2],
        align: &str,
    ) -> Lowered<Diagonals> {
        let right = match align {
            "LEFT_LEFT" => [false, false],
            "RIGHT_RIGHT" => [true, true],
            "LEFT_RIGHT" => [false, true],
            _ => [true, false],
        };
        let longest = |k: i64| rows.saturating_add(k.min(0)).min(columns.saturating_sub(k.max(0)));
        let length = longest(band[0]).max(longest(band[1]));
        // Between both, the main diagonal may be the longest.
        let length = if band[0] <= 0 && band[1] >= 0 { length.max(longest(0)) } else { length };
        let count = band[1].saturating_sub(band[0]).saturating_add(1);
        let cells = rows.saturating_mul(columns).max(count.saturating_mul(length));
        if length < 0 || cells > CELLS_MAX {
            let message =
                format!("Diagonals {band:?} of a matrix [{rows}, {columns}] cannot be said.");
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
        Ok(Diagonals { rows, columns, band, length, right })
    }

    fn count(&self) -> i64 {
        self.band[1].saturating_sub(self.band[0]).saturating_add(1)
    }

    /// Where element `at` of diagonal `k` lies in its row.
    fn place(&self, k: i64, at: i64) -> i64 {
        let own = (self.rows + k.min(0)).min(self.columns - k.max(0));
        // Diagonals above the main one (and this one) align as the first word says.
        let to_right = if k >= 0 { self.right[0] } else { self.right[1] };
        if to_right { at + self.length - own } else { at }
    }

    /// For each cell of the matrix, its place among the diagonals that are read row by row.
    fn of_cells(&self) -> Vec<Option<i64>> {
        let cells = (0..self.rows).flat_map(|i| (0..self.columns).map(move |j| (i, j)));
        let place = |(i, j): (i64, i64)| {
            let k = j - i;
            let inside = k >= self.band[0] && k <= self.band[1];
            inside.then(|| (self.band[1] - k) * self.length + self.place(k, i.min(j)))
        };
        cells.map(place).collect()
    }

    /// For each place among the diagonals, its cell of the matrix that is read row by row.
    fn of_places(&self) -> Vec<Option<i64>> {
        let mut found = vec![None; (self.count() * self.length) as usize];
        for (cell, place) in self.of_cells().into_iter().enumerate() {
            if let Some(place) = place {
                found[place as usize] = Some(cell as i64);
            }
        }
        found
    }
}

/// Elements of the last axis of `flat` at places; where there is none, `padding`. The last axis becomes `dims`.
fn picked(
    b: &GraphBuilder,
    flat: Var,
    places: &[Option<i64>],
    dims: &[usize],
    padding: Var,
) -> Lowered<Var> {
    let at: Vec<i64> = places.iter().map(|place| place.unwrap_or(0)).collect();
    let axis = rank(b, flat)? as i64 - 1;
    let found = b.gather(flat, Tensor::from_vec(dims.to_vec(), at)).axis(axis).one()?;
    match places.iter().all(Option::is_some) {
        true => Ok(found),
        false => choice(b, mask(b, places, dims), found, padding),
    }
}

fn mask(b: &GraphBuilder, places: &[Option<i64>], dims: &[usize]) -> Var {
    let bits: Vec<u8> = places.iter().map(|place| u8::from(place.is_some())).collect();
    b.constant(Tensor::new(Bool, dims.to_vec(), bits.into()).expect("one byte for each cell"))
}

/// `x` with the last `n` axes as one.
fn flattened(b: &GraphBuilder, x: Var, n: usize) -> Lowered<Var> {
    let leading = rank(b, x)?.saturating_sub(n);
    let mut sizes = (0..leading).map(|axis| size(b, x, axis)).collect::<Lowered<Vec<_>>>()?;
    let dims = b.shape_of(x).unwrap_or_default();
    let last = dims[leading..].iter().try_fold(1i64, |n, dim| n.checked_mul(dim.known()?));
    sizes.push(DimSize::Known(last.unwrap_or(-1)));
    reshaped(b, x, &shape_of(b, &sizes)?)
}

/// Sizes of the last two axes, if they are known.
fn sizes_of(b: &GraphBuilder, x: Var) -> Lowered<Option<[i64; 2]>> {
    let n = rank(b, x)?;
    if n < 2 {
        return Err(b.diagnostic(Code::LayerParameter, "A matrix has two axes at least."));
    }
    let dims = b.shape_of(x).unwrap_or_default();
    Ok(dims
        .get(n - 2)
        .and_then(Dim::known)
        .zip(dims.get(n - 1).and_then(Dim::known))
        .map(<[i64; 2]>::from))
}

fn made(b: &Lower, a: &Made, align: &str) -> Lowered<Var> {
    let known = |x: &Operand| match x {
        Operand::Int(n) => Ok(Some(*n).filter(|n| *n >= 0)),
        Operand::Var(v) => match b.ints_of(*v) {
            Some(n) => Ok(n.first().copied().filter(|n| *n >= 0)),
            None => {
                Err(b.diagnostic(Code::LayerUnsupported, "The sizes of the matrix must be known."))
            }
        },
        _ => Ok(None),
    };
    let sizes = [known(&a.num_rows)?, known(&a.num_cols)?];
    let wanted = WantedBand { band: band(b, &a.k)?, sizes, align: align.to_owned() };
    with_diagonals(b, a.diagonal, &wanted, Some(a.padding_value))
}

/// Matrices that have these diagonals.
fn with_diagonals(
    b: &GraphBuilder,
    x: Var,
    wanted: &WantedBand,
    padding: Option<Var>,
) -> Lowered<Var> {
    let n = rank(b, x)?;
    if n == 0 {
        return Err(b.diagnostic(Code::LayerParameter, "A diagonal has one axis at least."));
    }
    let padding = padding.map_or_else(|| Ok(b.constant(scalar(0, dtype_of(b, x)?))), Ok)?;
    let [low, high] = wanted.band;
    let length = b.shape_of(x).and_then(|dims| dims.last()?.known());
    let Some(length) = length else {
        if wanted.band == [0, 0] && wanted.sizes == [None; 2] {
            let places =
                b.range(0, b.squeeze(b.shape(x).start(-1).one()?).axes([0]).one()?, 1).one()?;
            let cells = b.equal(places, b.unsqueeze(places, [1])?)?;
            return choice(b, cells, b.unsqueeze(x, [n as i64])?, padding);
        }
        let message = "The length of diagonals must be known, unless it is the main one alone.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    // The fewest rows and columns that hold the longest diagonal; those that are given say the others.
    let least = [length.saturating_sub(high.min(0)), length.saturating_add(low.max(0))];
    let sizes = match wanted.sizes {
        [None, None] => [least[0].max(least[1]); 2],
        [Some(rows), None] => [rows, least[1]],
        [None, Some(columns)] => [least[0], columns],
        [Some(rows), Some(columns)] => [rows, columns],
    };
    let all = Diagonals::new(b, sizes, wanted.band, &wanted.align)?;
    if all.length != length {
        let message = format!("Diagonals of {length} elements do not fit a matrix {sizes:?}.");
        return Err(b.diagnostic(Code::ShapeMismatch, message));
    }
    let flat = if all.count() == 1 { x } else { flattened(b, x, 2)? };
    picked(b, flat, &all.of_cells(), &sizes.map(|n| n as usize), padding)
}

/// Diagonals of matrices.
fn diagonals(
    b: &GraphBuilder,
    x: Var,
    band: [i64; 2],
    align: &str,
    padding: Option<Var>,
) -> Lowered<Var> {
    let Some(sizes) = sizes_of(b, x)? else { return computed_diagonal(b, x, band) };
    let all = Diagonals::new(b, sizes, band, align)?;
    let length = all.length as usize;
    let dims = match all.count() {
        1 => vec![length],
        n => vec![n as usize, length],
    };
    let padding = padding.map_or_else(|| Ok(b.constant(scalar(0, dtype_of(b, x)?))), Ok)?;
    picked(b, flattened(b, x, 2)?, &all.of_places(), &dims, padding)
}

/// One diagonal of matrices whose sizes are not known.
fn computed_diagonal(b: &GraphBuilder, x: Var, [low, high]: [i64; 2]) -> Lowered<Var> {
    if low != high {
        let message = "The sizes of matrices must be known to take several diagonals.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let n = rank(b, x)? as i64;
    let extent = |axis: i64, less: i64| {
        let size = b.squeeze(b.shape(x).start(axis).end(axis + 1).one()?).axes([0]).one()?;
        b.sub(size, less)
    };
    let [down, right] = [(-low).max(0), low.max(0)];
    let count = b.min([extent(n - 2, down)?, extent(n - 1, right)?])?;
    let steps = b.mul(b.range(0, count, 1).one()?, b.add(extent(n - 1, 0)?, 1)?)?;
    let first = b.add(b.mul(extent(n - 1, 0)?, down)?, right)?;
    b.gather(flattened(b, x, 2)?, b.add(steps, first)?).axis(n - 2).one()
}

/// Matrices with other diagonals.
fn set_diagonals(b: &GraphBuilder, x: Var, to: Var, band: [i64; 2], align: &str) -> Lowered<Var> {
    let Some(sizes) = sizes_of(b, x)? else {
        let message = "The sizes of matrices must be known to set their diagonals.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let all = Diagonals::new(b, sizes, band, align)?;
    let flat = if all.count() == 1 { to } else { flattened(b, to, 2)? };
    picked(b, flat, &all.of_cells(), &sizes.map(|n| n as usize), x)
}

/// Vectors of three elements that stand upright on two others.
fn cross(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    let last = rank(b, x)? as i64 - 1;
    let turned = |v: Var, order: [i64; 3]| b.gather(v, order).axis(last).one();
    let (next, last) = ([1, 2, 0], [2, 0, 1]);
    b.sub(b.mul(turned(x, next)?, turned(y, last)?)?, b.mul(turned(x, last)?, turned(y, next)?)?)
}

/// Each row times the main diagonal, and the neighbours times those beside it.
fn tridiagonal(b: &Lower, superdiag: Var, maindiag: Var, subdiag: Var, rhs: Var) -> Lowered<Var> {
    let column = |x: Var| swapped(b, x);
    let axis = rank(b, rhs)? as i64 - 2;
    let zero = filled(
        b,
        b.shape(b.slice(rhs, [0], [1]).axes([axis]).one()?).one()?,
        0,
        dtype_of(b, rhs)?,
    )?;
    let below =
        b.slice(b.concat([rhs, zero]).axis(axis).one()?, [1], [i64::MAX]).axes([axis]).one()?;
    let above = b.slice(b.concat([zero, rhs]).axis(axis).one()?, [0], [-1]).axes([axis]).one()?;
    let beside = b.add(b.mul(column(superdiag)?, below)?, b.mul(column(subdiag)?, above)?)?;
    b.add(b.mul(column(maindiag)?, rhs)?, beside)
}
