//! Patches of pictures become tokens, with others before them and with positions.

use super::Pictures;
use crate::config::Config;
use crate::conv::Conv;
use crate::layers::{Layers, checked};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Tensor;

/// How pictures become tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patches {
    pub(crate) pictures: Pictures,
    /// Height and width of a patch.
    pub(crate) patch: [usize; 2],
    pub(crate) hidden: usize,
    /// Name of the convolution.
    pub(crate) name: &'static str,
    /// Names of tokens before those of the patches.
    pub(crate) tokens: &'static [&'static str],
    /// Name of the table of positions, and how it is used.
    pub(crate) positions: (&'static str, Positions),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Positions {
    None,
    /// One for each token, in a table [1, tokens, E].
    Listed,
    /// The same as an embedding: [tokens, E]. The token before the patches is a vector there.
    Embedded,
    /// Of a picture with a square of patches of so many on a side, stretched to the size of the picture: by a curve
    /// through neighbours, or by one that is as wide as a patch of the table.
    Stretched {
        side: usize,
        is_smooth: bool,
    },
}

impl Patches {
    /// Rows and columns of patches in pictures of this size.
    pub(crate) fn grid(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        [height / self.patch[0], width / self.patch[1]]
    }

    /// Refuses pictures that are smaller than a patch.
    pub(crate) fn check(&self, c: &Config) -> Result<()> {
        let is_small = self.pictures.size.is_some_and(|size| self.grid(size).contains(&0));
        if is_small { Err(c.wrong("image_size", "at least that of a patch")) } else { Ok(()) }
    }

    /// Tokens of pictures, where their size is known.
    fn count(&self) -> usize {
        let [rows, columns] = self.grid(self.pictures.size.unwrap_or_default());
        self.tokens.len() + rows * columns
    }

    /// Tokens [B, T, E] of pictures.
    pub(crate) fn embed(&self, net: &Layers<'_>, pictures: Var) -> Result<Var> {
        let (b, hidden) = (net.b, self.hidden);
        let channels = [self.pictures.channels, hidden];
        let conv = Conv { channels, kernel: &self.patch, stride: &self.patch, pad: 0, groups: 1 };
        let grid = conv.apply(net, pictures, self.name)?;
        let mut x = row_by_row(net, grid, hidden)?;
        if let Positions::Stretched { side, is_smooth } = self.positions.1 {
            let first = self.tokens.len();
            let table = net.w.tensor(self.positions.0, &[1, first + side * side, hidden])?;
            x = b.add(x, self.stretched(net, grid, &table, (side, is_smooth))?)?;
            let before = checked(
                self.positions.0,
                table.sliced(&[(0, 1, 1), (0, first, 1), (0, hidden, 1)]),
            )?;
            let before = net.constant(&format!("{}.first", self.positions.0), before);
            return self.with_tokens(net, x, Some(before));
        }
        x = self.with_tokens(net, x, None)?;
        let (name, dims) = match self.positions {
            (_, Positions::None) => return Ok(x),
            (name, Positions::Embedded) => (name, vec![self.count(), hidden]),
            (name, _) => (name, vec![1, self.count(), hidden]),
        };
        b.add(x, net.constant(name, net.w.tensor(name, &dims)?))
    }

    /// Tokens with those before them, which positions may be added to.
    fn with_tokens(&self, net: &Layers<'_>, x: Var, positions: Option<Var>) -> Result<Var> {
        let b = net.b;
        if self.tokens.is_empty() {
            return Ok(x);
        }
        let token = |name: &&str| {
            let dims = [1, 1, self.hidden];
            let found = match self.positions.1 {
                Positions::Embedded => {
                    checked(name, net.w.tensor(name, &[self.hidden])?.reshaped(dims))?
                }
                _ => net.w.tensor(name, &dims)?,
            };
            Ok(net.constant(name, found))
        };
        let tokens = self.tokens.iter().map(token).collect::<Result<Vec<Var>>>()?;
        let tokens = match tokens[..] {
            [one] => one,
            _ => b.concat(tokens).axis(1).one()?,
        };
        let tokens = positions.map_or(Ok(tokens), |positions| b.add(tokens, positions))?;
        b.concat([repeated(net, tokens, x)?, x]).axis(1).one()
    }

    /// The positions of patches, by a cubic curve between those of the table: [1, patches, E].
    fn stretched(
        &self,
        net: &Layers<'_>,
        grid: Var,
        table: &Tensor,
        (side, is_smooth): (usize, bool),
    ) -> Result<Var> {
        let (b, hidden) = (net.b, self.hidden);
        let name = self.positions.0;
        let first = self.tokens.len();
        let square =
            checked(name, table.sliced(&[(0, 1, 1), (first, side * side, 1), (0, hidden, 1)]))?;
        let square = checked(name, square.reshaped([1, side, side, hidden]))?;
        let square = net.constant(name, checked(name, square.permuted(&[0, 3, 1, 2]))?);
        let sizes = b.shape(grid).start(2).one()?;
        let fixed = b.constant(Tensor::vector(vec![1, hidden as i64]));
        let sizes = b.concat([fixed, sizes]).axis(0).one()?;
        // As PyTorch stretches where corners are not aligned, without antialiasing and with it.
        let call = b.resize(square).sizes(sizes).mode("cubic");
        let call = match is_smooth {
            false => call.cubic_coeff_a(-0.75),
            true => call.cubic_coeff_a(-0.5).antialias(1).exclude_outside(1),
        };
        let stretched = call.coordinate_transformation_mode("half_pixel").one()?;
        row_by_row(net, stretched, hidden)
    }
}

/// Places [B, E, H, W] as tokens [B, H W, E].
pub(super) fn row_by_row(net: &Layers<'_>, x: Var, hidden: usize) -> Result<Var> {
    let x = net.b.reshape(x, vec![0, hidden as i64, -1]).one()?;
    net.b.transpose(x).perm([0, 2, 1]).one()
}

/// The tokens [1, n, E] once for each row of `like`.
pub(crate) fn repeated(net: &Layers<'_>, tokens: Var, like: Var) -> Result<Var> {
    let b = net.b;
    let batch = b.shape(like).start(0).end(1).one()?;
    let ones = b.constant(Tensor::vector(vec![1i64, 1]));
    b.expand(tokens, b.concat([batch, ones]).axis(0).one()?)
}
